"""What holds for every operator: the support table, round trips, and the same answer every way."""

import copy
import functools
import json
import pickle
import re
import types
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance import torch_answers
from facts import DOCUMENTED
from forms import of_few_elements, of_platform
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import ALL, SAMPLES, random_array

import dml_jax
from dml_jax import (
    OPERATORS,
    DmlError,
    FeatureLevel,
    Operator,
    Reduce,
    ScaleBias,  # noqa: F401
    TensorDesc,
    calc_buffer_tensor_size,
    operator_from_json,
    support,
)
from dml_jax.bench import plain
from dml_jax.bench.cells import PLANS, cells
from dml_jax.bindable import whole_program
from dml_jax.fields import (
    UINT,
    Array,
    Choice,
    Input,
    Integer,
    Kind,
    Output,
    Real,
    Scalar,
    Structure,
    Tensor,
)
from dml_jax.operators import *  # noqa: F403

LEVELS = [level.suffix for level in FeatureLevel]
ROWS: dict[str, Collection[str]] = {  # what an operator needs beside its declaration
    "tests/facts/operators.json": DOCUMENTED,
    "SAMPLES in tests/samples.py": SAMPLES,
    "PLANS in dml_jax/bench/cells.py": PLANS,
    "EXPRESSIONS in dml_jax/bench/plain.py": plain.EXPRESSIONS,
    "EXPRESSIONS in tests/conformance/torch_answers.py": torch_answers.EXPRESSIONS,
    "tests/conformance/torch_answers.npz": [k.operator.c_name for k in torch_answers.kept()[1]],
}
MISSING = [
    (name, place)
    for place, rows in ROWS.items()
    for name, op in OPERATORS.items()
    if not {name, op.short_name} & set(rows)
]
NAMES = sorted(set(OPERATORS) - {name for name, _ in MISSING})


def test_every_operator_has_its_rows():
    """docs/add-an-operator.md says what stands in them. The tests below are of those that have."""
    assert [f"{name} has no row in {place}" for name, place in MISSING] == []
    known = {name for c_name, op in OPERATORS.items() for name in (c_name, op.short_name)}
    for place, rows in ROWS.items():
        assert set(rows) <= known, place


def _rows(name: str) -> dict[str | None, list[dict]]:
    """The documented rows by the name of their group."""
    rows: dict[str | None, list[dict]] = {}
    for row in DOCUMENTED[name]["support"]:
        groups = next(iter(row["when"].values())) if row["when"] else [None]
        for group in groups:
            rows.setdefault(group, []).append(row)
    return rows


@pytest.mark.parametrize("name", NAMES)
def test_each_level_takes_its_rows_and_refuses_their_neighbours(name: str):
    """Every rank, type and level, against the page: taken where a row has it, else refused."""
    op_class, sample = OPERATORS[name], SAMPLES[name]
    c_names = {f.name: f.c_name for f in op_class.fields if f.tensor}
    for group, rows in _rows(name).items():
        # Together, except where the page's types differ from tensor to tensor: then each pair.
        alike = all(len({tuple(t["types"]) for t in r["tensors"].values()}) == 1 for r in rows)
        combinations = [[t] * len(c_names) for t in ALL]
        if not alike:
            combinations = [[a, b] for a in ALL for b in ALL]
        for rank in range(1, 9):
            for combination in combinations:
                types = dict(zip(c_names, combination, strict=True))
                taken = [
                    row["feature_level"]
                    for row in rows
                    if all(
                        row["tensors"][c]["dims"][0] <= rank <= row["tensors"][c]["dims"][1]
                        and types[f] in row["tensors"][c]["types"]
                        for f, c in c_names.items()
                    )
                ]
                if not taken:
                    with pytest.raises(DmlError) as refused:
                        sample.at(rank, types, group)
                    fields = {fault.field.rpartition(".")[2] for fault in refused.value.faults}
                    assert fields <= {"DimensionCount", "DataType"}
                    assert {fault.operator for fault in refused.value.faults} == {name}
                    continue
                op = sample.at(rank, types, group)
                lowest = min(taken, key=LEVELS.index)
                assert op.minimum_feature_level.suffix == lowest
                assert [level.suffix for level in op.refusals] == LEVELS[: LEVELS.index(lowest)]
                for level in LEVELS:
                    if LEVELS.index(level) >= LEVELS.index(lowest):
                        op.validate(level)
                    else:
                        with pytest.raises(DmlError, match=name):
                            op.validate(level)


class Declared:
    """A copy of each element: what the half of it in a test is declared by."""

    input_tensor: Input
    output_tensor: Output
    support = support.rows(("1_0", (1, 8), support.ALL_TYPES))

    def expected_sizes(self: Any) -> dict[str, Any]:
        return {"output_tensor": self.input_tensor.sizes}

    def lower(self, x: jax.Array) -> jax.Array:
        return x


@pytest.mark.parametrize(
    ("op", "name", "changes", "message"),
    [
        ("COPY", "Copy", {"support": None}, "it lacks support"),
        ("COPY", "Copy", {"expected_sizes": None}, "it lacks expected_sizes"),
        ("COPY", "Copy", {"lower": None}, "it lacks lower"),
        ("COPY", "Copy", {"output_tensor": Input}, "it lacks an output"),
        ("COPY", "Coppy", {}, "its class is Coppy, not Copy"),
        ("TILE", "Tile", {}, "dml_jax.operators.arrangement.Tile has that name"),
        ("COPY1", "Copy1", {"support": support.by("functon", {})}, "'functon', which is no field"),
        ("COPY", "Copy", {"least": Annotated[float, Scalar("Type")]}, "of the type Type, which is"),
        ("COPY", "Copy", {"sizes": Annotated[list, Array(UINT)]}, "'sizes' lacks the name of its"),
        ("COPY", "Copy", {"sizes": list}, "'sizes' is annotated with <class 'list'>"),
        ("COPY", "Copy", {"support": support.rows(("1_0", {"input_tensor": 4}, "INT8"))}, "names"),
    ],
)
def test_a_half_declared_operator_is_refused(
    op: str, name: str, changes: dict[str, Any], message: str
):
    parts = {k: v for k, v in vars(Declared).items() if k in ("support", "expected_sizes", "lower")}
    fields = dict(Declared.__annotations__)
    for part, value in changes.items():
        (parts if part in parts else fields)[part] = value
    parts = {part: value for part, value in parts.items() if value is not None}
    before = dict(OPERATORS)
    with pytest.raises(TypeError, match=re.escape(message)):
        types.new_class(
            name, (Operator,), {"op": op}, lambda ns: ns.update(parts, __annotations__=fields)
        )
    assert before == OPERATORS


@pytest.mark.parametrize(
    ("lower", "made"),
    [
        (lambda self, x: x[:1], "float32[1]"),
        (lambda self, x: x.astype(jnp.float16), "float16[2]"),
        (lambda self, x: (x, x), "float32[2], float32[2]"),
        (lambda self, x: (), ""),
    ],
)
def test_what_makes_another_result_is_refused(lower: Callable[..., Any], made: str):
    with mock.patch.object(dml_jax.ElementWiseClip, "lower", lower):
        op = dml_jax.ElementWiseClip.infer(input_tensor=TensorDesc("FLOAT32", [2]), min=0, max=1)
        with pytest.raises(TypeError, match=rf"makes {re.escape(made)} of .*, not float32\[2\]"):
            jax.eval_shape(op, jnp.zeros(2, jnp.float32))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_of_tensors_names_them(name: str):
    op_class = OPERATORS[name]
    op, tensors = SAMPLES[name].plain(op_class), {f.name for f in op_class.fields if f.tensor}
    assert set(op.same_data_type()) <= tensors
    assert set(op.expected_sizes()) <= tensors


@st.composite
def operators(draw, name: str | None = None, types: list[str] = ALL) -> Operator:
    name = name or draw(st.sampled_from(NAMES))
    sample = SAMPLES[name]
    return sample.draw(draw, draw(st.sampled_from([t for t in sample.types if t in types])))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_round_trips(name: str, data: st.DataObject):
    op = data.draw(operators(name))
    op = data.draw(st.just(op) | _padded(op))
    text = json.dumps(op.to_json())
    for twin in (
        operator_from_json(json.loads(text)),
        type(op).from_json(json.loads(text)),
        type(op).from_json(json.loads(text)["Desc"]),
        pickle.loads(pickle.dumps(op)),
        copy.deepcopy(op),
        eval(repr(op)),
    ):
        assert twin == op
        assert hash(twin) == hash(op)
        assert twin.to_json() == op.to_json()
    with pytest.raises(AttributeError):
        setattr(op, op.fields[0].name, None)
    leaves, structure = jax.tree.flatten(op)
    assert leaves == []
    assert jax.tree.unflatten(structure, leaves) == op


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_outputs_follow_from_the_rest(name: str, data: st.DataObject):
    op = data.draw(operators(name))
    outputs = [f for f in op.fields if f.tensor and f.tensor.output]
    rest = {f.name: getattr(op, f.name) for f in op.fields if f not in outputs}
    rest["output_data_type"] = op.outputs[0].data_type
    if any(f.is_array for f in outputs):
        with pytest.raises(DmlError, match="choose their own sizes"):
            type(op).infer(**rest)
    else:
        assert type(op).infer(**rest) == op


def _bits(array: Any) -> bytes:
    """What has to be the same every way: all but the bits of NaN, which are the backend's."""
    array = np.array(array)
    if np.issubdtype(array.dtype, np.floating):
        array[np.isnan(array)] = np.nan
    return array.tobytes()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=7)  # of six compiled programs each
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_the_same_answer_every_way(name: str, data: st.DataObject, seed: int):
    """Eager, jitted, vmapped, through buffers packed and padded: the same bits, and NumPy's."""
    op, sample = data.draw(operators(name)), SAMPLES[name]
    special = sample.exact_for_all(op) and data.draw(st.booleans())
    arrays = [random_array(sample, t, seed + i, special) for i, t in enumerate(op.inputs)]

    def call(*xs: jax.typing.ArrayLike) -> tuple[jax.Array, ...]:
        results = op(*xs)
        return results if isinstance(results, tuple) else (results,)

    eager = call(*arrays)
    for result, tensor in zip(eager, op.outputs, strict=True):
        assert (result.shape, result.dtype) == (tensor.sizes, tensor.dtype)
    shapes = jax.eval_shape(call, *arrays)
    assert [(s.shape, s.dtype) for s in shapes] == [(t.sizes, t.dtype) for t in op.outputs]

    for result, expected in zip(eager, sample.reference(op, *arrays), strict=True):
        assert result.dtype == expected.dtype
        tolerance = {"float16": 2e-3, "float32": 2e-6}.get(expected.dtype.name, 0)
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=0)

    axis = data.draw(st.integers(0, min(t.dimension_count for t in op.inputs)))
    others = [random_array(sample, t, seed + 9 + i) for i, t in enumerate(op.inputs)]
    pairs = [np.stack(pair, axis) for pair in zip(others, arrays, strict=True)]
    vmapped = jax.vmap(call, axis)(*pairs)
    ways = {"jitted": jax.jit(call)(*arrays), "vmapped": [np.asarray(m)[1] for m in vmapped]}
    ways["packed buffers"] = jax.jit(_through_buffers, static_argnums=0)(
        op, *(np.ravel(a) for a in arrays)
    )
    if not isinstance(
        op, (Reduce, dml_jax.Argmax, dml_jax.Argmin)
    ):  # which add in another order there
        for platform in ("cpu", "cuda"):
            with of_few_elements(), of_platform(platform):
                ways[f"alone, {platform}"] = jax.tree.leaves(jax.jit(op.whole)(*arrays))
    padded = data.draw(_padded(op))
    buffers = [_strided(t, a) for t, a in zip(padded.inputs, arrays, strict=True)]
    ways["padded buffers"] = jax.jit(_through_buffers, static_argnums=0)(padded, *buffers)
    for way, results in ways.items():
        for result, first in zip(results, eager, strict=True):
            if way == "padded buffers" and isinstance(op, Reduce):
                # In the order of its strides.
                few = {"float16": 1e-3, "float32": 5e-7}.get(first.dtype.name, 0)
                np.testing.assert_allclose(result, first, rtol=few, atol=0, err_msg=way)
            else:
                assert _bits(result) == _bits(first), way


def _through_buffers(op: Operator, *buffers: jax.Array) -> list[jax.Array]:
    inputs = [tensor.read(buffer) for tensor, buffer in zip(op.inputs, buffers, strict=True)]
    results = op(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    read_back = []
    for tensor, result in zip(op.outputs, results, strict=True):
        old = jnp.full(tensor.span + 3, 7, tensor.dtype)
        read_back.append(tensor.read(tensor.write(old, result)))
    return read_back


@st.composite
def _padded(draw, op: Operator) -> Operator:
    """The same operator with every tensor transposed and padded in memory, longer and aligned."""

    def strided(tensor: TensorDesc, output: bool) -> TensorDesc:
        strides, step = [0] * tensor.dimension_count, draw(st.integers(1, 2))
        for d in draw(st.permutations(range(tensor.dimension_count))):
            strides[d] = step
            step = step * tensor.sizes[d] + draw(st.integers(0, 1))
        least = calc_buffer_tensor_size(tensor.data_type, tensor.sizes, strides)
        return TensorDesc(
            tensor.data_type,
            tensor.sizes,
            strides,
            flags="NONE" if output else draw(st.sampled_from(["NONE", "OWNED_BY_DML"])),
            total_tensor_size_in_bytes=draw(st.sampled_from([None, least + 4])),
            guaranteed_base_offset_alignment=draw(st.sampled_from([0, 8, 256])),
        )

    fields = {}
    for f in op.fields:
        value = getattr(op, f.name)
        if f.tensor:
            tensors = [strided(t, f.tensor.output) for t in (value if f.is_array else [value])]
            value = tensors if f.is_array else tensors[0]
        fields[f.name] = value
    return type(op)(**fields)


def _strided(tensor: TensorDesc, array: np.ndarray) -> np.ndarray:
    """A buffer that holds the array as the tensor says, by NumPy's own strides."""
    buffer = np.full(tensor.span, 77, tensor.dtype)
    steps = [s * tensor.dtype.itemsize for s in tensor.strides or ()]
    np.lib.stride_tricks.as_strided(buffer, tensor.sizes, steps)[...] = array
    return buffer


@pytest.mark.parametrize("name", [name for name in NAMES if OPERATORS[name].by_element])
@pytest.mark.parametrize("flat", [False, True])
def test_elements_are_replaced_in_place(name: str, flat: bool):
    """Whatever the shape of the memory: nothing is allocated, and nothing copied."""
    plain, tensor = SAMPLES[name].plain(OPERATORS[name]), TensorDesc("FLOAT32", [2, 3, 5, 7])
    op = plain.replace(**{f.name: tensor for f in plain.fields if f.tensor})
    arrays = [random_array(SAMPLES[name], t, seed) for seed, t in enumerate(op.inputs)]
    buffers = [dml_jax.Buffer(jnp.array(x.ravel() if flat else x)) for x in arrays]
    table = dml_jax.compile(op).bind(buffers, buffers[-1:])
    assert table.bytes_temporary == 0
    assert " copy(" not in table.as_text()
    table.dispatch()
    assert buffers[-1].array.shape == ((210,) if flat else tensor.sizes)
    assert _bits(buffers[-1].array) == _bits(op(*arrays))


@pytest.mark.parametrize("name", NAMES)
def test_no_function_is_called_inside_of_a_reduction(name: str):
    """Such a program crashes XLA where nothing reads the result (jax 0.10.2 to 0.12.0)."""
    little, much = cells([name], limit=2**12), cells([name], limit=2**18)
    first = {(c.group, c in little): c.function for c in reversed(little + much)}
    for op in first.values():
        assert isinstance(op, Operator)
        shapes = [jax.ShapeDtypeStruct(t.sizes, t.dtype) for t in op.inputs]
        functions: list[Callable[..., Any]] = [op]
        if _has_derivative(op):
            functions.append(lambda *xs, op=op: jax.vjp(op, *xs)[1](op(*xs)))
        for function in functions:
            for platform in ("cpu", "cuda"):
                traced = jax.jit(function).trace(*shapes)
                text = traced.lower(lowering_platforms=(platform,)).as_text()
                bodies = re.findall(r" reducer\(.*?stablehlo\.return", text, re.DOTALL)
                assert not [body for body in bodies if "func.call" in body], op


@pytest.mark.parametrize("name", NAMES)
def test_eager_derivatives_are_compiled_once(name: str, caplog: pytest.LogCaptureFixture):
    op = cells([name], limit=2**12)[0].function
    assert isinstance(op, Operator)
    if not _has_derivative(op):
        return  # test_derivatives_agree says that there is none
    xs = [jnp.ones(t.sizes, t.dtype) for t in op.inputs]

    def slopes(*xs: jax.Array) -> list[jax.Array]:
        return jax.vjp(op, *xs)[1](op(*xs))

    def compiled() -> int:
        """How many programs an eager second derivative compiles."""
        caplog.clear()
        with jax.log_compiles():
            jax.jvp(slopes, xs, xs)
        return sum("Finished XLA compilation" in record.message for record in caplog.records)

    assert compiled() > 0
    assert compiled() == 0


@pytest.mark.parametrize("name", NAMES)
def test_known_arrays_inside_of_a_program(name: str):
    """An operator is a part of the program that it is called in, though nothing is traced."""
    op = cells([name], limit=2**12)[0].function
    assert isinstance(op, Operator)
    xs = [jnp.ones(t.sizes, t.dtype) for t in op.inputs]
    for inside, outside in zip(
        *map(jax.tree.leaves, (jax.jit(lambda: op(*xs))(), op(*xs))), strict=True
    ):
        np.testing.assert_allclose(inside, outside, rtol=1e-6)


def _has_derivative(op: Operator) -> bool:
    return all(jnp.issubdtype(t.dtype, jnp.floating) for t in op.outputs)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=6)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_derivatives_agree(name: str, data: st.DataObject, seed: int):
    """Forward and reverse give one derivative: <J dx, dy> == <dx, J^T dy>; none has NaN."""
    op, sample = data.draw(operators(name, ["FLOAT32"])), SAMPLES[name]
    arrays = [jnp.asarray(random_array(sample, t, seed + i)) for i, t in enumerate(op.inputs)]
    rng = np.random.default_rng(seed)
    dx = [jnp.asarray(rng.standard_normal(a.shape), a.dtype) for a in arrays]
    outputs, dy = jax.jvp(op, arrays, dx)
    if not _has_derivative(op):
        assert {d.dtype for d in jax.tree.leaves(dy)} == {jax.dtypes.float0}  # no derivative
        return
    seeds = jax.tree.map(lambda o: jnp.asarray(rng.standard_normal(o.shape), o.dtype), outputs)
    back = jax.jit(lambda *xs: jax.vjp(op, *xs)[1](seeds))(*arrays)
    forward, reverse = _inner(jax.tree.leaves(dy), jax.tree.leaves(seeds)), _inner(dx, back)
    assert np.isfinite(reverse)
    assert forward == pytest.approx(reverse, rel=1e-3, abs=1e-4)


def _inner(xs: Sequence[jax.Array], ys: Sequence[jax.Array]) -> float:
    return sum(float(np.vdot(np.float64(x), np.float64(y))) for x, y in zip(xs, ys, strict=True))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=6)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_second_derivatives_under_vmap(name: str, data: st.DataObject, seed: int):
    """Vmapped over any axis, they are those of each example."""
    op, sample = data.draw(operators(name, ["FLOAT32"])), SAMPLES[name]
    if not _has_derivative(op):
        return  # test_derivatives_agree says that there is none
    rng = np.random.default_rng(seed)
    pairs = [rng.uniform(sample.low, sample.high, (2, *t.sizes)) for t in op.inputs]
    pairs = [pair.astype(np.float32) for pair in pairs]

    def curvature(function: Callable[..., Any], *xs: jax.Array) -> list[jax.Array]:
        slope = jax.jvp(lambda *xs: jax.jvp(function, xs, xs)[1], xs, xs)[1]
        return jax.tree.leaves(slope)

    axis = data.draw(st.integers(0, min(t.dimension_count for t in op.inputs)))
    stacked = [jnp.asarray(np.moveaxis(pair, 0, axis)) for pair in pairs]
    mapped = jax.jit(functools.partial(curvature, jax.vmap(op, axis)))(*stacked)
    one = jax.jit(functools.partial(curvature, op))
    each = [one(*(jnp.asarray(pair[i]) for pair in pairs)) for i in range(2)]
    for together, apart in zip(mapped, zip(*each, strict=True), strict=True):
        np.testing.assert_allclose(together, np.stack(apart), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_derivatives_are_those_of_finite_differences(name: str, data: st.DataObject, seed: int):
    """Of the NumPy reference in float64, in a random direction, away from corners."""
    op, sample = data.draw(operators(name, ["FLOAT32"])), SAMPLES[name]
    if not _has_derivative(op):
        return  # test_derivatives_agree says that there is none
    rng, step = np.random.default_rng(seed), 1e-7
    arrays = [rng.uniform(sample.low, sample.high, t.sizes).astype(np.float32) for t in op.inputs]
    dx = [rng.standard_normal(a.shape).astype(np.float32) for a in arrays]
    _, dy = jax.jvp(op, list(map(jnp.asarray, arrays)), list(map(jnp.asarray, dx)))
    down, up = (
        sample.reference(op, *(a + np.float64(s) * d for a, d in zip(arrays, dx, strict=True)))
        for s in (-step, step)
    )
    for slope, low, high in zip(jax.tree.leaves(dy), down, up, strict=True):
        assert low.dtype == np.float64
        moved = np.subtract(high, low, out=np.zeros_like(low), where=high != low)  # not inf - inf
        expected = moved / (2 * step)
        scale = 1 + np.abs(expected).max()
        np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_wrong_arrays_are_refused(name: str, data: st.DataObject):
    op = data.draw(operators(name))
    arrays = [np.zeros(t.sizes, t.dtype) for t in op.inputs]
    path = next(op.tensors(output=False))[0]
    other = np.float16 if arrays[0].dtype != np.float16 else np.float32
    for wrong in (arrays[0].astype(other), arrays[0][None], arrays[0].tolist(), 1.0, None):
        for call in (op, op.whole):
            with pytest.raises(DmlError) as refused:
                call(wrong, *arrays[1:])  # pyright: ignore[reportCallIssue, reportArgumentType]
            assert (refused.value.operator, refused.value.field) == (name, path)
    with pytest.raises(DmlError, match="number of arrays"):
        op(*arrays, arrays[0])


@pytest.mark.parametrize("name", NAMES)
def test_64_bits_need_x64(name: str, no_x64: None):
    sample = SAMPLES[name]
    wide = [t for t in sample.types if t.endswith("64")]
    assert wide
    for type_ in wide:
        group = None if OPERATORS[name].support.by is None else "MAX"
        fields = [f.name for f in OPERATORS[name].fields if f.tensor]
        op = sample.at(4, dict.fromkeys(fields, type_), group)
        with pytest.raises(DmlError, match="jax_enable_x64.*got " + type_):
            op(*(np.zeros(t.sizes, t.dtype) for t in op.inputs))


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize("kind", PLANS)
def test_programs_where_jax_has_no_64_bit_types(kind: str, platform: str, no_x64: None):
    """Some have them inside, which no part of the lowering may narrow."""
    for cell in cells([kind], every=2):
        program = whole_program(cell.function)
        xs = [jax.ShapeDtypeStruct(tuple(t.sizes), t.dtype) for t in cell.function.inputs]
        lowered = jax.jit(lambda *xs, f=program: f(*xs)).trace(*xs)
        assert "func.func public @main" in lowered.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_fields_of_other_kinds_are_refused_by_name(name: str, data: st.DataObject):
    op = data.draw(operators(name))
    good = {f.name: getattr(op, f.name) for f in op.fields}
    f = data.draw(st.sampled_from(op.fields))
    wrong = data.draw(st.sampled_from(["?", object(), -1.5j, {}, [None], [[]], float, True]))
    with pytest.raises(DmlError) as refused:
        type(op)(**{**good, f.name: wrong})
    assert any(fault.field.startswith(f.c_name) for fault in refused.value.faults)
    with pytest.raises(DmlError, match=f"expected {f.name}_ to be a field"):
        type(op)(**good, **{f"{f.name}_": wrong})
    if not f.optional:
        del good[f.name]
        with pytest.raises(DmlError, match=f"expected {f.c_name} to be given, got nothing"):
            type(op)(**good)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=3)
@given(data=st.data())
def test_scopes_name_the_operator(name: str, data: st.DataObject):
    op = data.draw(operators(name))
    lowered = jax.jit(op).lower(*(jnp.zeros(t.sizes, t.dtype) for t in op.inputs))
    # A copy lowers to nothing, and has no place for a name.
    text = lowered.as_text(debug_info=True)
    assert name in text or "stablehlo" not in text.replace("stablehlo.return", "")


# Values that no field of a kind takes.
BROKEN: dict[type[Kind], list[Any]] = {
    Integer: [-1, 2**32, 0.5, "1", None],
    Real: [1e39, -(10**40), "1", None],
    Scalar: [2**64, -(2**63) - 1, "1", None],
    Choice: ["NO_SUCH", -1, 99, None],
    Structure: [{}, 1, "x"],
    Tensor: [None, {}, 1, TensorDesc],
}


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_a_broken_value_is_refused_by_its_field(name: str, data: st.DataObject):
    op = data.draw(operators(name))
    f = data.draw(st.sampled_from(op.fields))
    value, path = getattr(op, f.name), f.c_name
    if isinstance(f.kind, Array):
        index = data.draw(st.integers(0, len(value)))
        if index == len(value):
            value, path = [], f.count or f.c_name
        else:
            broken = data.draw(st.sampled_from(BROKEN[type(f.kind.element)]))
            value, path = [*value[:index], broken, *value[index + 1 :]], f"{f.c_name}[{index}]"
    elif f.tensor and f.tensor.output and data.draw(st.booleans()):
        value = TensorDesc(value.data_type, value.sizes, flags="OWNED_BY_DML")
        path = f"{f.c_name}.Flags"
    else:
        value = data.draw(st.sampled_from(BROKEN[type(f.kind)]))
    with pytest.raises(DmlError) as refused:
        type(op)(**{g.name: getattr(op, g.name) for g in op.fields} | {f.name: value})
    assert {fault.operator for fault in refused.value.faults} == {name}
    assert path in [fault.field for fault in refused.value.faults]


@st.composite
def _changed(draw, tensor: TensorDesc) -> TensorDesc:
    """The tensor with another type, rank, size or stride."""
    sizes, d = list(tensor.sizes), draw(st.integers(0, tensor.dimension_count - 1))
    match draw(st.integers(0, 4)):
        case 0:
            return TensorDesc(draw(st.sampled_from(ALL)), sizes)
        case 1:
            sizes[d] = draw(st.integers(1, 9))
        case 2 if len(sizes) < 8:
            sizes.insert(d, 1)
        case 3 if len(sizes) > 1:
            del sizes[d]
        case _:
            strides = [draw(st.integers(0, 3)) for _ in sizes]
            return TensorDesc(tensor.data_type, sizes, strides)
    return TensorDesc(tensor.data_type, sizes)


def _valid_or_refused(name: str, make: Callable[[], Operator], added: str = "") -> None:
    """Either a descriptor that computes what it says, or an error that names fields it has."""
    op_class = OPERATORS[name]
    known = {f.c_name for f in op_class.fields} | {f.count for f in op_class.fields} | {added}
    try:
        op = make()
    except DmlError as error:
        for fault in error.faults:
            assert fault.operator == name
            assert re.split(r"[.\[]", fault.field)[0] in known
            assert fault.rule
        return
    arrays = [jax.ShapeDtypeStruct(t.sizes, t.dtype) for t in op.inputs]
    shapes = jax.tree.leaves(jax.eval_shape(op, *arrays))
    assert [(s.shape, s.dtype) for s in shapes] == [(t.sizes, t.dtype) for t in op.outputs]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(data=st.data())
def test_fields_that_do_not_fit_together(name: str, data: st.DataObject):
    """Each field of one of two descriptors, tensors changed: valid, or refused by name."""
    one, two = data.draw(operators(name)), data.draw(operators(name))
    fields = {}
    for f in one.fields:
        value = getattr(data.draw(st.sampled_from([one, two])), f.name)
        if f.tensor and data.draw(st.booleans()):
            tensors = [
                data.draw(st.just(t) | _changed(t)) for t in (value if f.is_array else [value])
            ]
            value = tensors if f.is_array else tensors[0]
        fields[f.name] = value
    _valid_or_refused(name, lambda: type(one)(**fields))


JUNK = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        2**32,
        2**64,
        10**400,
        0.5,
        float("nan"),
        float("inf"),
        "",
        "NaN",
        "FLOAT32",
    ]
) | st.sampled_from([[], {}, [[]], [0], {"Desc": {}}, "DML_TENSOR_DATA_TYPE_UNKNOWN", [1] * 9])


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(data=st.data())
def test_json_with_anything_in_it(name: str, data: st.DataObject):
    """One value replaced, left out or added, anywhere: valid, or refused by name."""
    json_of = copy.deepcopy(data.draw(operators(name)).to_json()["Desc"])
    place: Any = json_of
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not place[key] or not isinstance(place[key], (dict, list)) or data.draw(st.booleans()):
            break
        place = place[key]
    change = data.draw(st.sampled_from(["replace", "drop", "add"]))
    if change == "replace":
        place[key] = data.draw(JUNK)
    elif change == "drop":
        del place[key]
    elif isinstance(place, dict):
        place[f"{key}s"] = data.draw(JUNK)
    else:
        place.append(data.draw(JUNK))
    _valid_or_refused(name, lambda: OPERATORS[name].from_json(json_of), f"{key}s")
