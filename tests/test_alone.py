"""Operators that are all of a program: the same answers, in forms that suit the platform."""

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forms import by_many_cores, of_few_elements, of_platform
from records import record_of

import dml_jax
from dml_jax import (
    OPERATORS,
    DepthToSpace1,
    ElementWiseClip,
    Join,
    Operator,
    Reduce,
    SpaceToDepth1,
    Split,
    TensorDesc,
    Tile,
)
from dml_jax.fields import Input, Output
from dml_jax.lowering.alone import alone, is_alone
from dml_jax.support import FLOATS, rows


def operators(type_: str) -> dict[str, Operator]:
    x, flat = TensorDesc(type_, [2, 16, 6, 14]), TensorDesc(type_, [7, 33])
    pieces = [TensorDesc(type_, [2, n, 6, 14]) for n in (3, 5, 8)]
    blocks = {"block_size": 2, "order": "DEPTH_COLUMN_ROW"}
    columns = {"block_size": 2, "order": "COLUMN_ROW_DEPTH"}
    return {
        "clip": ElementWiseClip.infer(input_tensor=x, min=20, max=70),
        "clip of odd rows": ElementWiseClip.infer(input_tensor=flat, min=20, max=70),
        "split": Split(input_tensor=x, output_tensors=pieces, axis=1),
        "join": Join.infer(input_tensors=pieces, axis=1),
        "tile": Tile.infer(input_tensor=x, repeats=[1, 3, 1, 2]),
        "tile all": Tile.infer(input_tensor=x, repeats=[2, 2, 2, 2]),
        "tile by 1": Tile.infer(input_tensor=x, repeats=[1, 1, 1, 1]),
        "depth to space": DepthToSpace1.infer(input_tensor=x, **blocks),
        "depth to space by columns": DepthToSpace1.infer(input_tensor=x, **columns),
        "space to depth": SpaceToDepth1.infer(input_tensor=x, **blocks),
        "space to depth by columns": SpaceToDepth1.infer(input_tensor=x, **columns),
        "max": Reduce.infer(function="MAX", input_tensor=x, axes=[1, 2]),
        "argmax": Reduce.infer(function="ARGMAX", input_tensor=x, axes=[0, 1, 3]),
    }


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize("type_", ["FLOAT32", "FLOAT16", "UINT8"])
@pytest.mark.parametrize("name", operators("FLOAT32"))
def test_the_same_answer_alone(name: str, type_: str, platform: str):
    op = operators(type_)[name]
    record = record_of(type(op))
    arrays = record.arrays(np.random.default_rng(0), op)
    many = by_many_cores() if platform == "cpu" else contextlib.nullcontext()
    with of_few_elements(), of_platform(platform), many:
        results = jax.tree.leaves(jax.jit(op.whole)(*arrays))
    for result, expected in zip(results, record.expected(op, arrays), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_only_an_operator_by_itself_is_alone(monkeypatch: pytest.MonkeyPatch):
    seen = []

    def lower(self: Any, x: jax.Array) -> jax.Array:
        seen.append(is_alone())
        return jnp.clip(x, 0, 1)

    monkeypatch.setattr(Reduce, "lower", lower)
    tensor = TensorDesc("FLOAT32", [1, 5])
    op = Reduce(function="SUM", input_tensor=tensor, output_tensor=tensor, axes=[0])
    builder = dml_jax.GraphBuilder()
    graph = builder.build(op(builder.input_tensor("x", tensor)))
    x = np.zeros((1, 5), np.float32)
    buffers = [dml_jax.Buffer(jnp.asarray(x)), dml_jax.Buffer.of(tensor)]
    calls = {
        "eager": (lambda: op(x), True),
        "compiled": (lambda: dml_jax.compile(op)(x), True),
        "bound": (lambda: dml_jax.compile(op).bind(buffers[:1], buffers[1:]), True),
        "in a jit": (lambda: jax.jit(lambda x: op(x))(x), False),
        "in an operator that is alone": (lambda: jax.jit(_alone)(op, x), False),
        "under vmap": (lambda: jax.vmap(op)(x[None]), False),
        "under grad": (lambda: jax.grad(lambda x: op(x).sum())(x), False),
        "a node of a graph": (lambda: graph(x), False),
        "in a compiled function": (lambda: dml_jax.compile(lambda x: op(x), tensor)(x), False),
    }
    for name, (call, expected) in calls.items():
        jax.clear_caches()
        seen.clear()
        call()
        assert set(seen) == {expected}, name


def _alone(op: Operator, x: jax.Array) -> jax.Array:
    with alone():
        return op(x)


class AddBias(Operator, op="ADD_BIAS"):
    """An operator of other people, whose second input is broadcast."""

    input_tensor: Input
    bias_tensor: Input
    output_tensor: Output

    support = rows(("1_0", (1, 8), FLOATS))

    def expected_sizes(self) -> dict[str, Any]:
        return {"output_tensor": self.input_tensor.sizes}

    def lower(self, x: Any, bias: Any) -> Any:
        return x + bias


OPERATORS._built.pop(AddBias.c_name)  # the catalogue of the other tests is DirectML's


@pytest.mark.parametrize("by_element", [False, True])
def test_inputs_of_several_sizes(by_element: bool, monkeypatch: pytest.MonkeyPatch):
    """Every way, even where the operator says wrongly that it maps elements."""
    monkeypatch.setattr(AddBias, "by_element", by_element)
    x, bias = TensorDesc("FLOAT16", [64, 512, 13]), TensorDesc("FLOAT16", [1, 512, 1])
    op = AddBias.infer(input_tensor=x, bias_tensor=bias)
    arrays = [np.random.default_rng(0).integers(0, 9, t.sizes).astype(t.dtype) for t in (x, bias)]
    for way in (op, jax.jit(op), dml_jax.compile(op)):
        np.testing.assert_array_equal(way(*arrays), arrays[0] + arrays[1])


def test_programs_on_a_cpu():
    """Elements go over long rows, and axes are merged in a call that is not inlined."""
    if jax.default_backend() != "cpu":
        pytest.skip("the programs are a CPU's")
    tensor = TensorDesc("UINT8", [64, 40, 33])
    clip = dml_jax.compile(ElementWiseClip.infer(input_tensor=tensor, min=20, max=70))
    assert f"u8[{128},{64 * 40 * 33 // 128}]" in clip.as_text()
    tile = dml_jax.compile(Tile.infer(input_tensor=tensor, repeats=[1, 1, 2]))
    assert 'inlineable="false"' in tile.as_text()
    assert tile.cost().bytes_temporary == clip.cost().bytes_temporary == 0


def test_programs_on_a_gpu():
    """Bytes are computed in quarters, and neighbouring axes reduced as one."""
    shape = jax.ShapeDtypeStruct((1025, 1025), np.uint8)
    tensor = TensorDesc("UINT8", shape.shape)
    clip = ElementWiseClip.infer(input_tensor=tensor, min=20, max=70)
    total = Reduce.infer(function="MAX", input_tensor=tensor, axes=[0, 1])

    def lowered(op: Operator) -> str:
        return jax.jit(op.whole).trace(shape).lower(lowering_platforms=("cuda",)).as_text()

    assert "concatenate" in lowered(clip)
    assert f"tensor<{1025**2}x1xui8>" in lowered(total)
    exported = jax.export.export(jax.jit(clip.whole), platforms=["cuda"])(shape)
    assert "concatenate" not in exported.mlir_module()
