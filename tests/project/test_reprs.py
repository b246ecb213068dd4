"""What is shown of each public object: on one line, and what can be, as one would type it."""

# ruff: noqa: F403, F405  (as one writes it in a notebook)

import inspect
import pickle
import pydoc
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, assert_type
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import parse
from dispatch_models import guide_model, model_file

import dml_jax
from dml_jax import *
from dml_jax.enums import Enumeration
from dml_jax.facts import catalogue, unknown_operator

DESC = TensorDesc("FLOAT32", [2, 3], [4, 1], "OWNED_BY_DML", 64, 256)
CLIP = ElementWiseClip.infer(
    input_tensor=TensorDesc("FLOAT32", [2, 3]),
    scale_bias=ScaleBias(scale=0.1, bias=-0.0),
    min=float("-inf"),
    max=3.5,
)
PASTED = [
    *TensorDataType,
    *TensorFlags,
    TensorFlags.NONE,
    *ReduceFunction,
    *AxisDirection,
    *DepthSpaceOrder,
    *FeatureLevel,
    TensorDesc("INT8", [1]),
    DESC,
    ScaleBias(scale=float("nan"), bias=float("inf")),
    CLIP,
    OperatorNode(CLIP, "clip"),
    ConstantNode(np.array([[0.1, np.pi]], np.float32)),
    ConstantNode(np.array([2**63 - 1, -(2**63)])),
    InputEdge(0, "clip", 0),
    IntermediateEdge(0, 0, 1, 0, "name's"),
    OutputEdge("clip", 0, 0),
    Fault("DML_OPERATOR_REDUCE", "Axes[0]", "be in [0, 3]", 4, ("Dispatchable 'sum'",)),
]


@pytest.mark.parametrize("value", PASTED, ids=repr)
def test_a_repr_can_be_pasted_back(value: Any):
    names = vars(dml_jax) | {"np": np}
    again = eval(repr(value), names)
    assert "\n" not in repr(value)
    assert type(again) is type(value)
    assert again == value


@pytest.mark.parametrize(
    ("spec", "shown"),
    [("", "3_1"), (">6", "   3_1"), ("*^5s", "*3_1*"), ("d", "12544"), ("#x", "0x3100")],
)
def test_a_member_is_formatted_by_its_name(spec: str, shown: str):
    assert f"{FeatureLevel.LEVEL_3_1:{spec}}" == shown


def test_an_error_can_be_pasted_back():
    with pytest.raises(DmlError) as raised:
        TensorDesc("FLOAT32", [])
    again = eval(repr(raised.value), dict(vars(dml_jax)))
    assert str(again) == str(raised.value)


def _graph() -> Graph:
    builder = GraphBuilder()
    image = builder.input_tensor("image", TensorDesc("FLOAT32", [1, 4, 2, 2]))
    assert repr(builder) == "<GraphBuilder: 1 inputs, 0 nodes>"
    assert repr(image) == "Expression(desc=TensorDesc('FLOAT32', [1, 4, 2, 2]))"
    return builder.build(dml_jax.depth_to_space(dml_jax.clip(image, 0, 1), 2))


def test_the_rest_says_what_it_is():
    graph = _graph()
    text = "FLOAT32[1,4,2,2] -> FLOAT32[1,1,4,4]"
    assert repr(graph) == f"Graph(2 nodes: {text})"
    compiled = dml_jax.compile(graph)
    assert repr(compiled) == f"<Compiled DML_GRAPH_DESC: {text}>"
    memory = Buffer(np.zeros(40, np.float32))
    assert repr(memory) == "Buffer(float32[40])"
    parts = BufferBinding(memory, 0, 64), BufferBinding(memory, 96, 64)
    assert repr(parts[1]).startswith("BufferBinding(buffer=Buffer(float32[40]), offset=96")
    table = compiled.bind([parts[0]], [parts[1]])
    assert repr(table) == (
        "<BindingTable of DML_GRAPH_DESC: image at inputs[0]+0, Output0 at inputs[0]+96>"
    )
    assert repr(ConstantNode(np.zeros(100, np.float16))) == "ConstantNode(array=<float16[100]>)"


@pytest.mark.parametrize("name", [n for n in dml_jax.__all__ if n != "OPERATORS"])
def test_help_has_no_holes(name: str):
    """A docstring of its own; so has each public method; arguments are named."""
    value = getattr(dml_jax, name)
    text = pydoc.render_doc(value, renderer=pydoc.plaintext)  # pyright: ignore[reportAttributeAccessIssue]
    assert inspect.getdoc(value)
    assert "MISSING" not in text
    for attribute, member in vars(value).items() if inspect.isclass(value) else ():
        # The name of a rule says what it demands; `function` is what the class computes.
        is_rule = hasattr(member, "reads") or attribute == "function"
        if callable(member) and not attribute.startswith("_") and not is_rule:
            assert inspect.getdoc(getattr(value, attribute)), attribute


def test_operators_say_their_fields():
    for op in OPERATORS.values():
        assert list(inspect.signature(op).parameters) == [f.name for f in op.fields]
    reduce = inspect.signature(Reduce).parameters
    assert reduce["function"].annotation == ReduceFunction | str
    assert reduce["axes"].annotation == Sequence[int]
    clip = inspect.signature(ElementWiseClip).parameters["scale_bias"]
    assert (clip.annotation, clip.default) == (ScaleBias | None, None)
    assert inspect.signature(InputEdge).bind(0, "clip", 0).args == (0, "clip", 0)


@pytest.mark.parametrize("function", [CLIP, _graph()], ids=["operator", "graph"])
def test_what_is_called_says_what_it_takes(function: Operator | Graph):
    """Its class says what it is made of."""
    assert str(inspect.signature(function)).startswith("(*arrays: ")
    assert function.__name__ == function.c_name
    assert type(function).__name__ in ("ElementWiseClip", "Graph")
    again = pickle.loads(pickle.dumps(function))
    assert (again, repr(again)) == (function, repr(function))


def test_levels_by_the_name_that_they_show():
    assert FeatureLevel.of("LEVEL_2_1") is FeatureLevel.LEVEL_2_1
    assert dir(dml_jax) == sorted([*dml_jax.__all__, "__version__"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: Split.infer(input_tensor=x, axis=1),
            "DML_OPERATOR_SPLIT: expected OutputTensors to be given to Split(...)",
        ),
        (
            lambda x: PLAIN.Reduce.infer(function="SUM", input_tensor=x, output_tensor=x, axes=[1]),
            "DML_OPERATOR_REDUCE: expected output_tensor to be left out: Reduce.infer makes it",
        ),
        (
            lambda x: PLAIN.Reduce.infer("SUM", x, [1]),
            "Reduce.infer takes fields by name: function, input_tensor, axes",
        ),
        (
            lambda x: PLAIN.join(jnp.zeros((2, 3), np.float32), 0),
            "DML_OPERATOR_JOIN: expected InputTensors to be a list of arrays, got float32[2,3]",
        ),
        (lambda x: PLAIN.Buffer.of(x, "cpu"), "a buffer's device to be a jax.Device, got 'cpu'"),
    ],
)
def test_what_is_said_of_what_is_inferred(call: Callable[[TensorDesc], object], message: str):
    with pytest.raises((DmlError, TypeError), match=re.escape(message)):
        call(TensorDesc("FLOAT32", [2, 3]))


PLAIN: Any = dml_jax  # for calls that a type checker refuses


def test_types_of_calls():
    """For pyright, which reads this file: one output is an array, several are a tuple of them."""
    x = TensorDesc("FLOAT32", [2, 4])
    array = jax.numpy.zeros((2, 4), "float32")
    pieces = [TensorDesc("FLOAT32", [2, n]) for n in (1, 3)]
    split = Split(input_tensor=x, output_tensors=pieces, axis=1)(array)
    assert assert_type(split, tuple[jax.Array, ...])[1].shape == (2, 3)
    total = Reduce.infer(function="SUM", input_tensor=x, axes=[1])(array)
    assert assert_type(total, jax.Array).shape == (2, 1)
    clipped = ElementWiseClip.infer(input_tensor=x, min=0, max=1)(array)
    assert assert_type(clipped, jax.Array).shape == (2, 4)
    deep = TensorDesc("FLOAT32", [1, 4, 1, 1])
    spread = DepthToSpace1.infer(input_tensor=deep, block_size=2, order="COLUMN_ROW_DEPTH")
    assert assert_type(spread(array[:1].reshape(deep.sizes)), jax.Array).shape == (1, 1, 2, 2)


def any_operator(operator: Operator, x: jax.Array) -> Any:
    return assert_type(operator(x), Any)


def test_what_a_declaration_is_made_of():
    assert repr(Split.support) == "<Support from 1_0 on: 4 rows>"
    assert repr(Reduce.support) == "<Support by function from 1_0 on: 38 rows>"
    shown = {f.name: repr(f.kind) for f in Reduce.fields}
    assert shown["function"] == "Choice(enumeration=<enum 'ReduceFunction'>)"
    assert shown["axes"] == "Array(element=Integer(least=0, most=4294967295))"
    for op in OPERATORS.values():
        assert pickle.loads(pickle.dumps(op.support)) == op.support
        kinds = [f.kind for f in op.fields]
        again = pickle.loads(pickle.dumps(kinds))
        assert (again, {*again}) == (kinds, {*kinds})
    assert Reduce.support != Split.support
    assert Reduce.fields[1].kind != Reduce.fields[2].kind  # an input's and an output's


@pytest.mark.parametrize("change", ["replace", "__replace__"])
def test_a_part_of_a_tensor_is_replaced(change: str):
    tensor = TensorDesc("FLOAT32", [2, 4])
    assert getattr(tensor, change)(sizes=[3, 4]) == TensorDesc("FLOAT32", [3, 4])
    plain = TensorDesc("FLOAT32", [2, 3], [4, 1], "NONE", 64, 256)
    assert getattr(DESC, change)(flags="NONE") == plain
    with pytest.raises(DmlError, match=r"Sizes\[0\] to be in"):
        tensor.replace(sizes=[0])


@pytest.mark.parametrize("change", ["replace", "__replace__"])
def test_a_field_is_replaced(change: str):
    tensor = TensorDesc("FLOAT32", [2, 4])
    op = Reduce.infer(function="SUM", input_tensor=tensor, axes=[1])
    other = getattr(op, change)(function="MAX")
    assert other == Reduce.infer(function="MAX", input_tensor=tensor, axes=[1])
    assert op.function == "SUM" or op.function.name == "SUM"
    with pytest.raises(DmlError, match=r"Sizes\[0\] to be 1 since dimension 0 is reduced, got 2"):
        op.replace(axes=[0])
    with pytest.raises(DmlError, match=r"expected axis to be a field .*did you mean 'axes'"):
        op.replace(axis=[0])


# Names that are nearly right.


@pytest.mark.parametrize("enumeration", Enumeration.__subclasses__(), ids=lambda e: e.__name__)
def test_a_name_in_another_case_is_suggested_first(enumeration: type[Enumeration]):
    """`sum` is SUM, although it is a part of LOG_SUM, too."""
    for name in enumeration.by_name():
        for word in {name.lower(), name.title(), f"{enumeration.prefix}_{name.lower()}"} - {name}:
            if word.removeprefix(f"{enumeration.prefix}_") != name:
                with pytest.raises(DmlError, match=rf"\(did you mean '{name}'\?\)"):
                    enumeration.of(word)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("MEAN", "AVERAGE"),
        ("prod", "MULTIPLY"),
        ("DCR", "DEPTH_COLUMN_ROW"),
        ("CRD", "COLUMN_ROW_DEPTH"),
    ],
)
def test_names_of_other_libraries_are_understood(word: str, name: str):
    enumeration = DepthSpaceOrder if name in DepthSpaceOrder.by_name() else ReduceFunction
    with pytest.raises(DmlError, match=rf"\(did you mean '{name}'\?\)"):
        enumeration.of(word)


def test_operators_in_another_case_are_suggested_first():
    for name in catalogue():
        fault = unknown_operator(name.lower())
        assert f"(did you mean '{name}'?)" in str(fault)


NETWORK = "layer (float[1, 2] x) => (float[1, 2] y) <float[2, 2] w = {1, 2, 3, -4}> "


NETWORK += "{ y = MatMul(x, w) }"


def cells(html: str) -> list[str | None]:
    return [cell.text for cell in ElementTree.fromstring(html).iter("td")]


def test_notebooks_show_tables():
    shown = TensorDesc("FLOAT32", [2, 3], strides=[6, 1])._repr_html_()
    expected = ["type", "FLOAT32", "sizes", "[2, 3]", "strides", "[6, 1]", "bytes", "36"]
    assert cells(shown) == expected
    network = dml_jax.load_onnx(parse(NETWORK))
    expected = ["input", "x", "FLOAT", "[1, 2]", "output", "y", "FLOAT", "[1, 2]"]
    assert cells(network._repr_html_()) == expected


def test_notebooks_show_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model = dml_jax.load_model(model_file(guide_model(), tmp_path))
    for shown, words in ((_graph()._repr_svg_(), "CLIP"), (model._repr_svg_(), "sum")):
        assert shown
        assert ElementTree.fromstring(shown).tag.endswith("svg")
        assert words in shown
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert _graph()._repr_svg_() is None


def test_notebooks_show_no_picture_that_nobody_can_read():
    builder = dml_jax.GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [1]))
    for _ in range(300):
        x = dml_jax.abs(x)
    assert builder.build(x)._repr_svg_() is None
