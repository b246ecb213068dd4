"""Expressions: DirectMLX's overloaded operators, broadcasting, and bytes read in another way."""

import operator
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from arrays import graph_of

import dml_jax
from dml_jax import DmlError, Expression, Graph, GraphBuilder, TensorDesc

X = np.array([[-3, 0.5, 2], [0.25, 9, 4]], np.float32)
ROW = np.array([1, 2, 4], np.float32)
BITS = np.array([[1, 2, 3], [12, 255, 7]], np.uint32)

# The operator of Python, a tensor, and what NumPy computes where it is not the same operator.
BINARY: dict[str, tuple[Callable[..., Any], np.ndarray, Callable[..., Any] | None]] = {
    "ADD": (operator.add, X, None),
    "SUBTRACT": (operator.sub, X, None),
    "MULTIPLY": (operator.mul, X, None),
    "DIVIDE": (operator.truediv, X, None),
    "MODULUS_TRUNCATE": (operator.mod, X, np.fmod),
    "POW": (operator.pow, np.abs(X), lambda a, b: np.power(a, np.asarray(b, a.dtype))),
    "BIT_AND": (operator.and_, BITS, None),
    "BIT_OR": (operator.or_, BITS, None),
    "BIT_XOR": (operator.xor, BITS, None),
    "BIT_SHIFT_LEFT": (operator.lshift, BITS, np.left_shift),
    "BIT_SHIFT_RIGHT": (operator.rshift, BITS, np.right_shift),
    "LOGICAL_LESS_THAN": (operator.lt, X, None),
    "LOGICAL_GREATER_THAN": (operator.gt, X, None),
    "LOGICAL_LESS_THAN_OR_EQUAL": (operator.le, X, None),
    "LOGICAL_GREATER_THAN_OR_EQUAL": (operator.ge, X, None),
    "LOGICAL_EQUALS": (operator.eq, X, None),
}


def computed(make: Callable[..., Expression], *arrays: np.ndarray) -> np.ndarray:
    """Return what the graph of an expression of arrays computes, also after a round trip."""
    graph = graph_of(make, *arrays)
    assert Graph.from_json(graph.to_json()) == graph
    result = np.asarray(graph(*arrays))
    np.testing.assert_array_equal(result, dml_jax.compile(graph)(*arrays))
    return result


@pytest.mark.parametrize("name", BINARY)
def test_operators_of_python_are_those_of_directmlx(name: str):
    """Also of numbers, which have the type of the expression."""
    apply, x, numpy = BINARY[name]
    numpy, row, three = numpy or apply, ROW.astype(x.dtype), x.dtype.type(3)
    for left, right in ((x, x), (x, row), (row, x)):
        expected, result = numpy(left, right), computed(apply, left, right)
        np.testing.assert_allclose(result, expected, rtol=1e-6)
        assert result.dtype == (np.uint8 if name.startswith("LOGICAL") else x.dtype)
    np.testing.assert_allclose(computed(lambda e: apply(e, 3), x), numpy(x, three), rtol=1e-6)
    np.testing.assert_allclose(computed(lambda e: apply(3, e), x), numpy(three, x), rtol=1e-6)


def test_quotients_of_numbers():
    """XLA may multiply by the rounded reciprocal of a constant, and never divides so into one."""
    x = np.arange(1, 1000, dtype=np.float32)
    np.testing.assert_array_max_ulp(computed(lambda e: e / 3, x), x / np.float32(3), 1)
    exact = 0 if jax.default_backend() == "cpu" else 1  # a GPU's quotient is off by one unit
    np.testing.assert_array_max_ulp(computed(lambda e: 3 / e, x), np.float32(3) / x, exact)


def test_one_operand():
    np.testing.assert_array_equal(computed(lambda e: -e, X), -X)
    np.testing.assert_array_equal(computed(lambda e: +e, X), X)
    np.testing.assert_array_equal(computed(lambda e: ~e, BITS), ~BITS)


def test_differing_is_not_being_equal():
    np.testing.assert_array_equal(computed(lambda e: e != 2, X), X != 2)


def expression() -> Any:
    return GraphBuilder().input_tensor("x", TensorDesc.of(X))


def test_an_expression_is_no_condition_and_hashes_by_identity():
    x, other = expression(), expression()
    with pytest.raises(DmlError, match=r"be no condition: it has no value before the graph runs"):
        bool(x)
    assert len({x, other, x}) == 2
    assert hash(x) != hash(other)


@pytest.mark.parametrize("value", ["3", None, [1.0], 1j])
def test_other_values_do_not_go_together_with_expressions(value: Any):
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = expression() + value


def test_bytes_are_read_as_another_tensor():
    result = computed(lambda e: dml_jax.clip(e.reinterpret([3, 2], [1, 3]), -9, 9), X)
    np.testing.assert_array_equal(result, X.T)
    chained = computed(lambda e: dml_jax.clip(dml_jax.clip(e, -1, 1).reinterpret([3, 2]), -9, 9), X)
    np.testing.assert_array_equal(chained, np.clip(X, -1, 1).reshape(3, 2))
    repeated = computed(lambda e: dml_jax.clip(e.reinterpret([4, 3], [0, 1]), -9, 9), ROW)
    np.testing.assert_array_equal(repeated, np.broadcast_to(ROW, (4, 3)))


def test_what_bytes_cannot_be_read_as():
    x = expression()
    with pytest.raises(DmlError, match="TotalTensorSizeInBytes to be at least 36"):
        x.reinterpret([3, 3])
    with pytest.raises(DmlError, match="TotalTensorSizeInBytes to be at least 48"):
        x.reinterpret([2, 3], data_type="FLOAT64")


def test_functions_broadcast_expressions():
    inside = np.abs(X) < 1
    make = lambda x, row: dml_jax.clip_grad(x, row, -1, 1)  # noqa: E731
    np.testing.assert_array_equal(computed(make, X, ROW), np.where(inside, ROW, 0))
    number = computed(lambda x: dml_jax.clip_grad(x, 5, -1, 1), X)
    np.testing.assert_array_equal(number, np.where(inside, np.float32(5), 0))
    graph = graph_of(lambda x, row: make(x, dml_jax.clip(row, 0, 9)), X, ROW)
    assert [t.sizes for t in graph.inputs] == [(2, 3), (3,)]
    gradient = jax.grad(lambda row: graph(X, row).sum())(ROW)
    np.testing.assert_array_equal(gradient, inside.sum(0))


def test_equal_tensors_cost_nothing():
    graph = graph_of(lambda x: dml_jax.clip(dml_jax.clip(x, -1, 1), 0, 1), X)
    assert graph.views == {}
    assert graph.input_tensors is None
    assert "InputTensors" not in graph.to_json()


def test_an_operator_with_inputs_is_called_with_them():
    x = expression()
    op = dml_jax.ElementWiseClip.infer(input_tensor=x.desc, min=0, max=1)
    with pytest.raises(DmlError, match="number of expressions to be 1"):
        x.builder.node(op)
