"""Operators with forms of their own on a CPU or TPU: the same answers, also in a larger program."""

import jax
import numpy as np
import pytest
from forms import by_branches_of, by_many_cores, of_few_elements, of_platform
from records import record_of

import dml_jax
from dml_jax import DepthToSpace1, ElementWiseClip, Operator, SpaceToDepth1, TensorDesc, Tile


def operators(type_: str) -> dict[str, Operator]:
    """Return operators that move elements; test_reduction.py has the forms of reductions."""
    x = TensorDesc(type_, [2, 16, 6, 14])
    blocks = {"block_size": 2, "order": "DEPTH_COLUMN_ROW"}
    columns = {"block_size": 2, "order": "COLUMN_ROW_DEPTH"}
    return {
        "tile": Tile.infer(input_tensor=x, repeats=[1, 3, 1, 2]),
        "tile all": Tile.infer(input_tensor=x, repeats=[2, 2, 2, 2]),
        "tile by 1": Tile.infer(input_tensor=x, repeats=[1, 1, 1, 1]),
        "depth to space": DepthToSpace1.infer(input_tensor=x, **blocks),
        "depth to space by columns": DepthToSpace1.infer(input_tensor=x, **columns),
        "space to depth": SpaceToDepth1.infer(input_tensor=x, **blocks),
        "space to depth by columns": SpaceToDepth1.infer(input_tensor=x, **columns),
    }


@pytest.mark.parametrize("type_", ["FLOAT32", "FLOAT16", "UINT8"])
@pytest.mark.parametrize("name", operators("FLOAT32"))
@pytest.mark.parametrize("branch", ["cpu", "tpu"])
def test_the_same_answer(branch: str, name: str, type_: str):
    op = operators(type_)[name]
    record = record_of(type(op))
    arrays = record.arrays(np.random.default_rng(0), op)
    with of_few_elements(), of_platform("cpu"), by_many_cores(), by_branches_of(branch):
        results = jax.tree.leaves(jax.jit(op)(*arrays))
    for result, expected in zip(results, record.expected(op, arrays), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_one_program_everywhere():
    """An operator alone, compiled, and as the only call of a user's program is one program."""
    x = TensorDesc("UINT8", [8, 40, 33])
    tile = Tile.infer(input_tensor=x, repeats=[1, 1, 2])
    for op in (tile, ElementWiseClip.infer(input_tensor=x, min=2, max=7)):
        shape = jax.ShapeDtypeStruct(x.sizes, x.dtype)
        alone = jax.jit(op).lower(shape).compile().as_text()
        inside = jax.jit(lambda x, op=op: op(x)).lower(shape).compile().as_text()
        compiled = dml_jax.compile(op).as_text()
        assert fusions(alone) == fusions(inside) == fusions(compiled)


def fusions(text: str) -> list[str]:
    """Return the kinds of the instructions of the program's entry."""
    entry = text[text.index("ENTRY") :]
    return [line.split(" = ")[1].split("(")[0] for line in entry.splitlines() if " = " in line]
