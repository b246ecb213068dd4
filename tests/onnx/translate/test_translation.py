"""A bug of this package, planted in a translator: nobody takes it for a fault of the file."""

from pathlib import Path
from typing import Any

import onnx
import pytest
from build import parse, saved

from dml_jax import DmlError, load_onnx
from dml_jax.dxdispatch import network_files
from dml_jax.dxdispatch.network_files import NetworkFile
from dml_jax.errors import OF_BUG, InternalError
from dml_jax.onnx import backend
from dml_jax.onnx.nodes.op_types import OP_TYPES
from dml_jax.onnx.options import NetworkOptions

PLAIN = parse("g (float[N, 4] x) => (float[N, 4] y) { y = Softsign(x) }")
BRANCHES = parse("""g (float[N, 4] x, bool flag) => (float[N, 4] y) {
        y = If(flag) <then_branch = t () => (float[N, 4] a) { a = Softsign(x) },
                      else_branch = e () => (float[N, 4] b) { b = Neg(x) }>
    }""")


def buggy(node: Any) -> Any:
    raise TypeError("a planted bug")


@pytest.fixture
def bug(monkeypatch: pytest.MonkeyPatch):
    load_onnx(PLAIN, free_dimensions={"N": 1})  # which registers the translators
    for since in [*OP_TYPES["", "Softsign"].translators]:
        monkeypatch.setitem(OP_TYPES["", "Softsign"].translators, since, buggy)
    return monkeypatch


@pytest.fixture
def one_line(bug: pytest.MonkeyPatch):
    """The bug as users see it."""
    bug.delenv("DML_JAX_RAISE")


@pytest.mark.parametrize("model", [PLAIN, BRANCHES], ids=["plain", "in a branch"])
@pytest.mark.parametrize("fallback", [False, True])
def test_a_bug_is_an_internal_error_at_the_node_of_the_model(
    one_line: None, model: onnx.ModelProto, fallback: bool
):
    with pytest.raises(InternalError) as caught:
        load_onnx(model, free_dimensions={"N": 1}, fallback=fallback)
    assert isinstance(caught.value.__cause__, TypeError)
    assert [fault.kind for fault in caught.value.faults] == [OF_BUG]
    assert str(caught.value).startswith(f"Node 'y' ({model.graph.node[0].op_type}): this is a bug")


def test_a_bug_makes_a_model_incompatible(one_line: None):
    assert not backend.is_compatible(PLAIN)


def test_a_bug_blames_no_size_of_a_file(one_line: None, tmp_path: Path):
    file = NetworkFile(saved(PLAIN, tmp_path), NetworkOptions(), NetworkOptions())
    with pytest.raises(InternalError) as caught:
        file.load({})
    assert "size 1" not in str(caught.value) and len(caught.value.faults) == 1


def test_a_bug_of_dxdispatch_is_raised_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("DML_JAX_RAISE")
    monkeypatch.setattr(network_files, "_memory", buggy)
    file = NetworkFile(saved(PLAIN, tmp_path), NetworkOptions(), NetworkOptions())
    with pytest.raises(TypeError) as caught:
        file.at("n", {})
    assert not isinstance(caught.value, DmlError)


def test_tests_see_the_bug_itself(bug: pytest.MonkeyPatch):
    with pytest.raises(TypeError, match="a planted bug"):
        load_onnx(PLAIN, free_dimensions={"N": 1})
