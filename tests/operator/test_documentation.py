"""What an operator says of itself: by its docstring, by those of its bases, and by its facts."""

from dml_jax import OPERATORS
from dml_jax.description.fields import Float, Input, Output
from dml_jax.description.support import FLOATS, rows
from dml_jax.operator import Operator
from dml_jax.operator.documentation import Documentation, described


class _Family(Operator):
    """Says what a family shares.

    Choices: of the family.

    Gradient: of the family.

    Fields:
        input_tensor: what the family reads. Choice: of the input.
        output_tensor: what the family writes.
        of_none: what no member has.
    """

    support = rows(("1_0", (1, 8), FLOATS))

    def lower(self, x):
        return x


class Member(_Family, op="MEMBER"):
    """Does what a member does.

    Choice: of the member.

    Fields:
        output_tensor: what the member writes.
    """

    formula = "x"
    input_tensor: Input
    output_tensor: Output
    scale_bias: Float
    strange_name: Float


OPERATORS._built.pop("DML_OPERATOR_MEMBER")  # other tests go through the catalogue


def test_a_member_says_what_its_family_does_not():
    text = Documentation.of(Member)
    assert text.summary == "Does what a member does."
    assert text.formula == ("`output = x`",)
    assert text.gradient == "of the family."
    assert text.source == "DML_MEMBER_OPERATOR_DESC"
    assert text.choices == (
        ("", "Of the family."),
        ("", "Of the member."),
        ("input_tensor", "Of the input."),
    )
    assert text.fields == {
        "input_tensor": "What the family reads.",
        "output_tensor": "What the member writes.",
        "scale_bias": "Applied to each element first: `x * scale + bias`.",
        "strange_name": "The strange name.",
    }


def test_every_field_of_every_operator_has_a_text():
    for op in OPERATORS.values():
        assert all(field["text"] for field in described(op)["fields"]), op.c_name
        assert Documentation.of(op).source.startswith("DML_")
