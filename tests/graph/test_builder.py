"""The builder of graphs, and its expressions."""

import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_graphs import HALF, HALVES, KEPT, PAIR, WIDE, X, clip, tensor

from dml_jax import Buffer, DmlError, ElementWiseClip, TensorDesc, compile, functional
from dml_jax.graph import Expression, Graph, GraphBuilder, TensorPolicy


def test_an_operator_called_with_expressions_is_a_node():
    builder = GraphBuilder()
    x = builder.input_tensor("x", HALF)
    assert (x.shape, x.sizes, x.dtype) == ((2, 2), (2, 2), np.float32)
    called = builder.build(PAIR(clip(HALF, -9, 1)(x), x))
    np.testing.assert_array_equal(called(KEPT), np.hstack([np.minimum(KEPT, 1), KEPT]))
    with pytest.raises(DmlError, match=r"JOIN: expected InputTensors\[1\] to be an Expression"):
        PAIR(x, KEPT)


def test_the_builder_leaves_out_what_no_output_needs():
    builder = GraphBuilder()
    x = builder.input_tensor("x", HALF)
    functional.clip(x, 0, 1)  # tried, and left
    builder.constant(KEPT)
    low = functional.clip(x, -9, 1)
    total = functional.reduce(functional.join([low, x], 1), "SUM")
    functional.clip(total, 0, 1)
    g = builder.build(total)
    assert len(g.nodes) == 3
    assert g(jnp.full((2, 2), 3, jnp.float32)).item() == 4 * 1 + 4 * 3
    assert builder.build(low)(jnp.full((2, 2), 3, jnp.float32)).tolist() == [[1, 1], [1, 1]]


def test_no_cure_of_an_expression_is_one_of_arrays():
    x = GraphBuilder().input_tensor("x", TensorDesc("INT32", [2, 3]))
    with pytest.raises(DmlError) as refused:
        functional.gemm(x, x)
    assert refused.value.faults and "x." not in str(refused.value)


def test_a_graph_takes_its_arrays_by_name():
    builder, desc = GraphBuilder(), TensorDesc("FLOAT32", [2])
    a, b = builder.input_tensor("a", desc), builder.input_tensor("b", desc)
    graph = builder.build({"y": a - b})
    x, y = jnp.array([3, 5], jnp.float32), jnp.array([1, 7], jnp.float32)
    for made in (graph(x, y), graph(b=y, a=x), graph(x, b=y), jax.jit(graph)(b=y, a=x)):
        assert made.tolist() == [2, -2]
    for arrays, named in (((), {"a": x}), ((x,), {"a": x}), ((x, y), {"c": x})):
        with pytest.raises(DmlError, match="expected the named arrays to be"):
            graph(*arrays, **named)


def test_a_tensor_policy_lays_out_the_outputs_of_operators():
    wide = tensor(2, 3, 2, 2)
    builder = GraphBuilder(TensorPolicy.INTERLEAVED_CHANNEL)
    y = builder.apply(clip(wide, -1, 1), builder.input_tensor("x", wide))
    z = builder.apply(clip(y.desc, 0, 9, to=wide), y)
    assert y.desc.strides == z.desc.strides == (12, 1, 6, 3)
    g = builder.build(z.reinterpret([2, 2, 2, 3]))
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(wide.sizes)
    np.testing.assert_array_equal(g(x), np.clip(x, 0, 1).transpose(0, 2, 3, 1))
    assert TensorPolicy.INTERLEAVED_CHANNEL.strides([2, 3, 4, 5, 6]) == (360, 1, 90, 18, 3)
    with pytest.raises(DmlError, match="tensor_policy to be a TensorPolicy, got 'NHWC'"):
        GraphBuilder("NHWC")  # pyright: ignore[reportArgumentType]


def test_inputs_that_no_output_needs_may_be_left_out():
    builder = GraphBuilder()
    builder.input_tensor("unread", HALF)
    y = builder.apply(clip(WIDE), builder.input_tensor("x", WIDE))
    with pytest.raises(DmlError, match="graph input 0 'unread'"):
        builder.build(y)
    g = builder.build(y, only_read=True)
    assert g.input_names == ("x",)
    np.testing.assert_array_equal(g(X), np.clip(X, -1, 1))


def test_the_builder_refuses():
    builder, other = GraphBuilder(), GraphBuilder()
    x, y = builder.input_tensor("x", HALF), other.input_tensor("x", HALF)
    turned = builder.input_tensor("turned", tensor(2, 2, strides=[1, 2]))
    assert isinstance(x, Expression)
    assert (x.sizes, x.desc, x.builder) == ((2, 2), HALF, builder)
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: builder.apply(PAIR, x, y), r"JOIN: expected InputTensors\[1\] to be of this buil"),
        (lambda: builder.apply(PAIR, x), "the number of expressions to be 2, .* got 1"),
        (lambda: builder.apply(HALVES, x), r"be FLOAT32\[2,2\] \(the expression\), got FLOAT32\[2"),
        (lambda: builder.apply(HALVES, KEPT), r"to be an Expression, got float32\[2,2\]"),  # pyright: ignore
        (lambda: builder.apply(clip(HALF), turned), r"strides \[1, 2\], as graph input 1 has, got"),
        (lambda: builder.input_tensor("x", HALF), "name to differ from the others, got 'x'"),
        (lambda: builder.input_tensor("", HALF), "name to be a name, got ''"),
        (lambda: builder.build(x), r"outputs\[0\] to be computed by a node, got a graph input"),
        (lambda: builder.build([y]), r"outputs\[0\] to be of this builder, got another's"),
        (lambda: builder.build([]), "OutputCount to be at least 1"),
    ]
    for make, message in cases:
        with pytest.raises(DmlError, match=message):
            make()


def test_what_an_input_says_of_its_memory():
    """What reads it may demand more, and not less."""
    said: Any = {"total_tensor_size_in_bytes": 64, "guaranteed_base_offset_alignment": 256}
    plain, large = TensorDesc("FLOAT32", [4]), TensorDesc("FLOAT32", [4], **said)
    owned = TensorDesc("FLOAT32", [4], flags="OWNED_BY_DML")

    def read(declared: TensorDesc, by: TensorDesc) -> Graph:
        builder = GraphBuilder()
        x = builder.input_tensor("x", declared)
        return builder.build(ElementWiseClip.infer(input_tensor=by, min=0, max=1)(x))

    for declared, by in ((plain, large), (large, large), (owned, owned), (plain, plain)):
        assert read(declared, by).inputs == (by,)
    for declared, by, rules in (
        (owned, plain, ["have Flags OWNED_BY_DML"]),
        (plain, owned, ["have Flags NONE"]),
        (large, plain, ["TotalTensorSizeInBytes of at least 64", "Alignment of at least 256"]),
    ):
        with pytest.raises(DmlError) as refused:
            read(declared, by)
        lines = str(refused.value).splitlines()
        assert len(lines) == len(rules)
        assert all(rule in line for rule, line in zip(rules, lines, strict=True)), lines


@pytest.mark.parametrize("turned", [False, True])
def test_an_input_is_what_all_its_readers_demand(turned: bool):
    def tensor(total: int, alignment: int) -> TensorDesc:
        said: Any = {
            "total_tensor_size_in_bytes": total,
            "guaranteed_base_offset_alignment": alignment,
        }
        return TensorDesc("FLOAT32", [4], **said)

    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [4]))
    readers = [tensor(64, 0), tensor(16, 256)][:: -1 if turned else 1]
    read = [ElementWiseClip.infer(input_tensor=by, min=0, max=1)(x) for by in readers]
    assert builder.build(read).inputs == (tensor(64, 256),)


def test_outputs_in_any_order_of_one():
    builder = GraphBuilder()
    y = functional.clip(builder.input_tensor("x", TensorDesc("FLOAT32", [4])), 0, 1)
    assert builder.build(e for e in [y]) == builder.build([y]) == builder.build(y)
    wrong: Any = builder
    for outputs, shown in ((None, "None"), (3, "an int"), ({y}, "a set"), ("y", "a str")):
        with pytest.raises(DmlError, match=f"outputs to be an expression, .*got {shown}"):
            wrong.build(outputs)


def test_an_expression_is_no_array():
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [4]))
    op = ElementWiseClip.infer(input_tensor=x.desc, min=0, max=1)
    inner = builder.build(op(x))
    other: Any = GraphBuilder().input_tensor("x", x.desc)
    for call in (inner, compile(op), builder.constant, Buffer):
        with pytest.raises(DmlError, match=r"an array.* got an Expression"):
            call(other)


@pytest.mark.parametrize(
    "compute",
    [
        lambda y: jnp.ones(3) / y,
        lambda y: np.float32(2) * y,
        lambda y: y * np.ones(3),
        jnp.asarray,
        jnp.sin,
        jax.jit(lambda y: y),
        jax.vmap(lambda y: y),
        np.asarray,
        np.exp,
    ],
)
def test_only_operators_take_expressions(compute: Callable[..., Any]):
    y = GraphBuilder().input_tensor("x", HALF)
    with pytest.raises(DmlError, match=r"be passed to operators and .* jax\.jit compiles"):
        compute(y)


def test_an_output_names_its_count():
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [2, 3]))
    count, places = functional.non_zero_coordinates(x)
    outputs = {"places": places, "count": count}
    g = builder.build(outputs, counted={"places": (0, "count")})
    assert g.counted == {"places": (0, "count")}
    assert Graph.from_json(g.to_json()) == g
    assert Graph.from_json(g.to_json()).counted == g.counted
    assert g != builder.build(outputs)
    assert not builder.build(outputs).counted


def test_a_graph_beyond_directml_is_pickled_with_its_permission():
    """Its nodes have types and dimensions that DirectML lacks; copies of them have these too."""
    builder = GraphBuilder(beyond=True)
    x = builder.input_tensor("x", TensorDesc("float8_e5m2", [1] * 9, beyond=True))
    g = builder.build(functional.add(x, builder.constant(jnp.ones([1] * 9, jnp.float8_e5m2))))
    again = pickle.loads(pickle.dumps(g))
    operators = [*again.operators]
    assert again == g and all(operator.beyond for operator in operators)
    assert [operator.replace() for operator in operators] == [*g.operators]
    for wrong in (lambda: TensorDesc("float8_e5m2", [1]), lambda: TensorDesc("FLOAT32", [1] * 9)):
        with pytest.raises(DmlError):
            wrong()
