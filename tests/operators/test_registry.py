"""What holds for every operator the moment it is declared, by its facts and its record."""

import copy
import functools
import inspect
import itertools
import json
import math
import pickle
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from documented_facts import DOCUMENTED
from forms import compiled_soon
from nightly import NIGHTLY
from records import FLOATS, Record, combinations, record_of, records, why_no_derivatives

import dml_jax
from dml_jax import (
    DmlError,
    FeatureLevel,
    FusedActivation,
    TensorDesc,
    constraints,
    facts,
    operator_from_json,
)
from dml_jax.constraints import View
from dml_jax.description.fields import Array, Choice
from dml_jax.errors import Expect
from dml_jax.operator import OPERATORS, Fused, Operator

LEVELS = [level.suffix for level in FeatureLevel]
NAMES = [name.removeprefix(facts.PREFIX) for name in OPERATORS]
BUILT = [pytest.param(OPERATORS[f"{facts.PREFIX}{name}"], id=name) for name in NAMES]
REPRESENTATIVES = list({op.family: op for op in OPERATORS.values()}.values())
DRAWS = 3 if NIGHTLY else 2  # descriptions of an operator whose derivatives are compared
ON_A_CPU = jax.default_backend() == "cpu"


def rng_of(op_class: type[Operator], salt: int = 0) -> np.random.Generator:
    """Return random numbers that differ from operator to operator, and not from run to run."""
    return np.random.default_rng(zlib.crc32(op_class.short_name.encode()) + salt)


def drawn(op_class: type[Operator], count: int = 1, only: str | None = None) -> list[Operator]:
    """Return random descriptions: `count` of each combination of types."""
    record, rng = record_of(op_class), rng_of(op_class)
    return [
        record.operator(rng, op_class, types)
        for types, _ in combinations(op_class, record)
        if only is None or only in types.values()
        for _ in range(count)
    ]


def test_the_whole_catalogue_is_declared():
    assert set(NAMES) == set(facts.catalogue())
    assert set(records()) <= set(NAMES)


@pytest.mark.parametrize("op_class", BUILT)
def test_fields_and_rows_are_the_pages(op_class: type[Operator]):
    entry = DOCUMENTED[op_class.c_name]
    fields = []
    for f in op_class.fields:
        if f.count and ("UINT", f.count, "attribute", False, False) not in fields:
            fields.append(("UINT", f.count, "attribute", False, False))
        element = f.kind.element if isinstance(f.kind, Array) else f.kind
        kind = ("output" if f.tensor.output else "input") if f.tensor else "attribute"
        fields.append((element.c_type, f.c_name, kind, f.is_array, f.optional))
    documented = [
        (
            f["c_type"].removeprefix("const ").removesuffix("*"),
            *(f[key] for key in ("name", "kind", "array", "optional")),
        )
        for f in entry["fields"]
    ]
    assert sorted(fields) == sorted(documented)
    counts = {f.count for f in op_class.fields}
    assert [f for f in fields if f[1] not in counts] == [
        f for f in documented if f[1] not in counts
    ]
    assert bool(op_class.in_place) == entry["in_place"]
    assert op_class.support.introduced.suffix == entry["introduced"]
    declared = {
        (None if group is None else group.name, row.level.suffix): {
            f.c_name: (row.ranks[f.name], [t.name for t in row.types[f.name]])
            for f in op_class.fields
            if f.tensor
        }
        for group, rows in op_class.support.groups.items()
        for row in rows
    }
    assert declared == {
        (group, row["feature_level"]): {
            name: (tuple(cell["dims"]), cell["types"]) for name, cell in row["tensors"].items()
        }
        for row in entry["support"]
        for group in (next(iter(row["when"].values())) if row["when"] else [None])
    }


@pytest.mark.parametrize("op_class", BUILT)
def test_each_level_takes_its_rows(op_class: type[Operator]):
    """The lowest level of a description is the lowest whose row has its ranks and types."""
    record = record_of(op_class)
    for group, rows in op_class.support.groups.items():
        for rank in range(1, 9):
            for types, of_group in combinations(op_class, record):
                if of_group != group:
                    continue
                levels = [
                    row.level
                    for row in rows
                    if all(low <= rank <= high for low, high in row.ranks.values())
                    and all(t in [x.name for x in row.types[n]] for n, t in types.items())
                ]
                if not levels:
                    continue
                try:
                    op = record.simplest(op_class, rank, types, group)
                except DmlError:
                    if record.smallest:
                        continue  # a rank of its own
                    raise
                assert op.minimum_feature_level >= min(levels)
                assert all(op.refused_at(level) for level in FeatureLevel if level < min(levels))
                op.validate(op.minimum_feature_level)
                if all(t.dimension_count == rank for t in (*op.inputs, *op.outputs)) and not any(
                    r.levels for r in op.records()
                ):
                    assert op.minimum_feature_level == min(levels)


@pytest.mark.parametrize("op_class", BUILT)
def test_ranks_and_types_of_no_row_are_refused(op_class: type[Operator]):
    op = drawn(op_class)[0]
    for path, name, tensor in op.tensors():
        rows = [row for rows in op_class.support.groups.values() for row in rows]
        allowed = {t.name for row in rows for t in row.types[name]}
        for wrong in {"FLOAT32", "UINT4", "INT16", "FLOAT64"} - allowed:
            changed = _with_tensor(op, path, TensorDesc(wrong, tensor.sizes))
            with pytest.raises(DmlError) as refused:
                op_class(**changed)
            fields = [fault.field for fault in refused.value.faults]
            assert f"{path}.DataType" in fields


def _values(op: Operator) -> dict[str, Any]:
    return {f.name: getattr(op, f.name) for f in op.fields}


def _with_tensor(op: Operator, path: str, tensor: TensorDesc) -> dict[str, Any]:
    """Return the fields of an operator with the tensor of a path replaced."""
    values = _values(op)
    name, _, index = path.partition("[")
    f = next(f for f in op.fields if f.c_name == name)
    if f.is_array:
        tensors = list(values[f.name])
        tensors[int(index.removesuffix("]"))] = tensor
        values[f.name] = tensors
    else:
        values[f.name] = tensor
    return values


def _changes(op: Operator) -> list[dict[str, Any]]:
    """Return the fields of an operator with one of them changed, in many ways."""
    changed: list[dict[str, Any]] = []
    values = _values(op)
    for path, _, tensor in op.tensors():
        for type_ in ("FLOAT32", "FLOAT16", "INT32", "UINT32", "UINT8", "INT8", "INT64"):
            changed.append(_with_tensor(op, path, TensorDesc(type_, tensor.sizes)))
        shapes = [(*tensor.sizes, 1), (1, *tensor.sizes), tensor.sizes[1:], tensor.sizes[:-1]]
        for d in range(tensor.dimension_count):
            for size in (1, 2, 3, 7, tensor.sizes[d] + 1):
                shapes.append((*tensor.sizes[:d], size, *tensor.sizes[d + 1 :]))
        for shape in shapes:
            if 1 <= len(shape) <= 8:
                changed.append(_with_tensor(op, path, TensorDesc(tensor.data_type, shape)))
        owned = tensor.replace(flags="OWNED_BY_DML")
        changed.append(_with_tensor(op, path, owned))
    for f in op.fields:
        if f.optional:
            changed.append({**values, f.name: None})
        if f.tensor:
            continue
        items: list[Any] = [0, 1, 2, 3, 9, 2**31, -1, -9, 0.5, math.nan, False, True]
        if isinstance(f.kind, Choice):
            items += list(f.kind.enumeration)
        if isinstance(f.kind, Array) and values[f.name]:
            whole = list(values[f.name])
            items += [whole[:-1], [*whole, whole[-1]], []]
            items += [
                [*whole[:k], v, *whole[k + 1 :]] for k in range(len(whole)) for v in items[:10]
            ]
            items += [[whole[0]] * len(whole)]
        fused = [op.fused(**_plain(op)) for op in OPERATORS.values() if _is_fusable(op)]
        items += fused
        if isinstance(f.kind, Array) and isinstance(f.kind.element, Fused):
            items += [[other, *values[f.name][1:]] for other in fused]
        changed += [{**values, f.name: item} for item in items]
    return changed


def _is_fusable(op_class: type[Operator]) -> bool:
    return callable(op_class.function) and op_class.family in ("activation", "softmax")


def _plain(op_class: type[Operator]) -> dict[str, Any]:
    return {
        f.name: [0] if f.is_array else 1.0
        for f in op_class.fields
        if not f.tensor and not f.optional
    }


@pytest.mark.parametrize("op_class", BUILT)
def test_what_breaks_a_record_is_refused(op_class: type[Operator]):
    """Every record is broken by a change of one field, which is refused by name."""
    broken: dict[int, bool] = {}
    newest = max(FeatureLevel)
    active = [r for r in op_class.records() if r.holds_at(newest)]

    def left() -> list[Any]:
        unbroken = [r for r in active if not broken.get(id(r)) and not _is_of_no_tensor(r)]
        return [r.data for r in unbroken if r.kind not in record_of(op_class).unbroken]

    def operators() -> Iterator[Operator]:
        yield from drawn(op_class, 3)
        if left():  # some records are of rare descriptions
            yield from drawn(op_class, 20)

    for op in operators():
        for change in _changes(op):
            missing = [r for r in active if not broken.get(id(r))]
            if not missing:
                return
            converted = dict(change)
            faults: list[Any] = []
            op_class._convert(converted, faults)
            if faults or len(converted) < len(op_class.fields):
                continue
            view = View({f.c_name: converted[f.name] for f in op_class.fields}, op_class._counts)
            for record in missing:
                expect = Expect(op_class.c_name)
                try:
                    constraints.check([record], view, expect, set(), newest)
                except TypeError:  # another record says what is wrong
                    continue
                if expect.faults:
                    with pytest.raises(DmlError) as refused:
                        op_class(**change)
                    assert {fault.operator for fault in refused.value.faults} == {op_class.c_name}
                    broken[id(record)] = True
    assert left() == []


def _is_of_no_tensor(record: Any) -> bool:
    """Return whether a record is of the tensors that no `FusedActivation` can be given."""
    return re.fullmatch(r"Fused\w+\.\w+Tensor", str(record.data.get("one_of"))) is not None


@pytest.mark.parametrize("op_class", BUILT)
def test_round_trips(op_class: type[Operator]):
    for op in drawn(op_class)[:4]:
        text = json.dumps(op.to_json())
        names = {**vars(dml_jax.operators), **{c.__name__: c for c in OPERATORS.values()}}
        names |= {n: getattr(dml_jax, n) for n in ("TensorDesc", "ScaleBias", "Size2D")}
        for twin in (
            operator_from_json(json.loads(text)),
            op_class.from_json(json.loads(text)),
            op_class.from_json(json.loads(text)["Desc"]),
            pickle.loads(pickle.dumps(op)),
            copy.deepcopy(op),
            eval(repr(op), names),
        ):
            assert twin == op
            assert hash(twin) == hash(op)
            assert twin.to_json() == op.to_json()
        with pytest.raises(AttributeError):
            setattr(op, op.fields[0].name, None)


# Their pages leave the output's sizes to the caller.
CHOSEN = {
    "AVERAGE_POOLING", "AVERAGE_POOLING1", "LP_POOLING", "LP_POOLING1", "MAX_POOLING",
    "MAX_POOLING1", "MAX_POOLING2", "QUANTIZED_LINEAR_AVERAGE_POOLING",
    "AVERAGE_POOLING_GRAD", "CONVOLUTION", "DIAGONAL_MATRIX", "DIAGONAL_MATRIX1",
    "FILL_VALUE_CONSTANT", "FILL_VALUE_SEQUENCE", "FOLD", "MAX_UNPOOLING", "ONE_HOT",
    "RANDOM_GENERATOR", "RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3", "RESAMPLE_GRAD",
    "RESAMPLE_GRAD1", "ROI_ALIGN", "ROI_ALIGN1", "SLICE_GRAD",
}  # fmt: skip
ROOM = {"NONZERO_COORDINATES", "SLICE1"}  # an output may be smaller than the one that infer makes


@pytest.mark.parametrize(
    "op_class", [p for p in BUILT if p.id != "SPLIT"]
)  # its outputs are a list
def test_infer_makes_the_sizes_of_outputs(op_class: type[Operator]):
    made, name = op_class.outputs_of(), op_class.short_name
    for op in drawn(op_class)[:4]:
        fields = {f.name: getattr(op, f.name) for f in op.fields if f not in made}
        wanted = {f.name: t for f in made if (t := getattr(op, f.name)) is not None}
        types = {field: tensor.data_type for field, tensor in wanted.items()}
        infer = functools.partial(op_class.infer, **fields, outputs=wanted, output_data_type=types)
        if name in CHOSEN:
            first = next(iter(wanted))
            twin = infer(output_sizes=getattr(op, first).sizes)
            assert getattr(twin, first).sizes == getattr(op, first).sizes
            continue
        try:
            twin = infer()
        except DmlError as error:
            pytest.fail(f"{name} wants a record or expected_sizes for its outputs: {error}")
        for field, tensor in wanted.items():
            found = getattr(twin, field).sizes
            if name in ROOM:
                assert math.prod(found) >= math.prod(tensor.sizes)
            else:  # leading sizes of 1 are the caller's choice
                assert _without_ones(found) == _without_ones(tensor.sizes)


def _without_ones(sizes: Sequence[int]) -> list[int]:
    return list(itertools.dropwhile(lambda size: size == 1, sizes))


@pytest.mark.parametrize("op_class", BUILT)
def test_fields_of_other_kinds_are_refused_by_name(op_class: type[Operator]):
    op = drawn(op_class)[0]
    good = _values(op)
    for f in op_class.fields:
        for wrong in ("?", object(), -1.5j, {}, [None], [[]], float):
            with pytest.raises(DmlError) as refused:
                op_class(**{**good, f.name: wrong})
            assert any(fault.field.startswith(f.c_name) for fault in refused.value.faults)
        with pytest.raises(DmlError, match=f"expected {f.name}_ to be a field"):
            op_class(**good, **{f"{f.name}_": 1})
        if not f.optional:
            rest = {name: value for name, value in good.items() if name != f.name}
            with pytest.raises(DmlError, match=f"expected {f.c_name} to be given, got nothing"):
                op_class(**rest)


def _close(result: Any, expected: np.ndarray, record: Record, name: str) -> None:
    """Assert that a result is the reference's: integers exactly, floats to `ulp`."""
    result = np.asarray(result)
    if result.dtype.name not in ("float64", "float32", "float16"):
        np.testing.assert_array_equal(result, expected.astype(result.dtype), err_msg=name)
        return
    if record.of_bits:
        assert result.tobytes() == expected.tobytes(), name
        return
    with np.errstate(over="ignore"):
        narrow = expected.astype(result.dtype)
    ulp = {"float16": 1, "float32": record.ulp, "float64": max(record.ulp, 4) * 4}[
        result.dtype.name
    ]
    spacing = np.abs(np.spacing(np.where(np.isfinite(narrow), narrow, 1))).astype(np.float64)
    if record.rounds_on_gpus and result.dtype == np.float16 and jax.default_backend() == "gpu":
        spacing = np.full_like(spacing, spacing.max(initial=0))
    with np.errstate(invalid="ignore"):  # of infinities, and of NaN that signal
        wide = narrow.astype(np.float64)
        apart = np.abs(result.astype(np.float64) - wide)
    same = (result == narrow) | (np.isnan(result) & np.isnan(narrow)) | (apart <= ulp * spacing)
    assert result.shape == expected.shape, name
    worst = np.argmin(same) if not same.all() else 0
    assert same.all(), f"{name}: {result.ravel()[worst]!r}, not {narrow.ravel()[worst]!r}"


def _all(op: Operator) -> Callable[..., tuple[Any, ...]]:
    def call(*arrays: Any) -> tuple[Any, ...]:
        results = op(*arrays)
        return results if isinstance(results, tuple) else (results,)

    return call


@pytest.mark.parametrize("op_class", BUILT)
def test_values_are_the_references(op_class: type[Operator]):
    """Every type of the newest row, random elements and then special ones, by one program."""
    record, rng = record_of(op_class), rng_of(op_class, 1)
    operators = drawn(op_class)

    @compiled_soon
    def run(arrays: Any) -> Any:
        return [_all(op)(*xs) for op, xs in zip(operators, arrays, strict=True)]

    for special in (False, True) if record.special else (False,):
        arrays = [record.arrays(rng, op, special) for op in operators]
        for op, xs, result in zip(operators, arrays, run(arrays), strict=True):
            shapes = [(r.shape, r.dtype) for r in result]
            assert shapes == [(t.sizes, t.dtype) for t in op.outputs]
            for r, expected in zip(result, record.expected(op, xs), strict=True):
                _close(r, expected, record, f"{op} of {xs}")


def _is_float(tensor: TensorDesc) -> bool:
    return tensor.data_type.name in FLOATS


@pytest.mark.parametrize("op_class", [p for p in BUILT if why_no_derivatives(p.values[0])])
def test_pages_say_what_has_no_derivatives(op_class: type[Operator]):
    text = "".join(inspect.getdoc(base) or "" for base in op_class.__mro__)
    assert re.search(r"Gradient: (none|0|.* is 0)", text), why_no_derivatives(op_class)


@pytest.mark.parametrize("op_class", [p for p in BUILT if not why_no_derivatives(p.values[0])])
def test_derivatives(op_class: type[Operator]):
    """Forward and reverse mode agree, are finite, and are those of finite differences."""
    record, rng = record_of(op_class), rng_of(op_class, 2)
    found = [op for op in drawn(op_class, DRAWS, "FLOAT32") if any(map(_is_float, op.inputs))]
    found = [op for op in found if any(map(_is_float, op.outputs))]
    operators = [found[k] for k in np.linspace(0, len(found) - 1, DRAWS).astype(int)]
    points, directions, seeds = [], [], []
    for op in operators:
        arrays = record.arrays(rng, op)  # in steps, which ties and kinks are multiples of
        points.append([_moved(a, rng.uniform(0.01, 0.11, a.shape)).astype(a.dtype) for a in arrays])
        floats = [a for a in arrays if a.dtype.kind == "f"]
        directions.append([rng.standard_normal(a.shape).astype(a.dtype) for a in floats])
        outputs = filter(_is_float, op.outputs)
        seeds.append([rng.standard_normal(t.sizes).astype(t.dtype) for t in outputs])

    @compiled_soon
    def derivatives(points: Any, directions: Any, seeds: Any) -> Any:
        made = []
        for op, arrays, moves, seed in zip(operators, points, directions, seeds, strict=True):
            f, floats = _of_floats(op, arrays)
            made.append((jax.jvp(f, floats, moves)[1], jax.vjp(f, *floats)[1](seed)))
        return made

    results = derivatives(points, directions, seeds)
    for op, arrays, moves, seed, made in zip(
        operators, points, directions, seeds, results, strict=True
    ):
        forward, reverse = made
        assert forward
        assert all(np.isfinite(g).all() for g in (*forward, *reverse)), op
        one, other = _inner(forward, seed), _inner(moves, reverse)
        assert one == pytest.approx(other, rel=1e-3, abs=1e-3), op
        step, ends = 1e-6, []
        for sign in (-step, step):
            given = iter(moves)
            moved = [_moved(a, sign * next(given)) if a.dtype.kind == "f" else a for a in arrays]
            expected = zip(record.expected(op, moved), op.outputs, strict=True)
            ends.append([r for r, t in expected if _is_float(t)])
        for slope, low, high in zip(forward, *ends, strict=True):
            if low.dtype in (np.float32, np.float16):
                assert op_class.short_name == "CAST"  # the reference rounds to the output's type
                continue
            with np.errstate(invalid="ignore"):  # of infinities
                moved = np.where(high == low, 0, np.float64(high) - np.float64(low)) / (2 * step)
            scale = 1 + np.abs(moved).max(initial=0)
            np.testing.assert_allclose(slope, moved, rtol=2e-3, atol=1e-4 * scale, err_msg=repr(op))


def _moved(array: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Return floats moved, in FLOAT64; other types as they are."""
    return array.astype(np.float64) + by if array.dtype.kind == "f" else array


def _of_floats(op: Operator, arrays: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function from float inputs to float outputs, and the inputs."""
    places = [k for k, a in enumerate(arrays) if jnp.issubdtype(a.dtype, jnp.floating)]

    def function(*floats: Any) -> list[Any]:
        given = dict(zip(places, floats, strict=True))
        results = _all(op)(*(given.get(k, a) for k, a in enumerate(arrays)))
        return [r for r, t in zip(results, op.outputs, strict=True) if _is_float(t)]

    return function, [arrays[k] for k in places]


def _inner(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return sum(float(np.vdot(np.float64(x), np.float64(y))) for x, y in zip(xs, ys, strict=True))


def _bits(array: Any) -> bytes:
    """Return the bytes of an array, with one NaN for all."""
    array = np.array(array)
    if array.dtype.kind == "f":
        array[np.isnan(array)] = np.nan
    return array.tobytes()


@pytest.mark.parametrize("op_class", [pytest.param(op, id=op.short_name) for op in REPRESENTATIVES])
def test_the_same_answer_every_way(op_class: type[Operator]):
    """Eager, jitted, vmapped, through padded buffers: the same bits."""
    record, rng = record_of(op_class), rng_of(op_class, 3)
    operators = drawn(op_class)[: 6 if NIGHTLY else 3]
    arrays, others = ([record.arrays(rng, op) for op in operators] for _ in range(2))
    padded = [_padded(rng, op) for op in operators]
    buffers = [
        [_in_memory(t, a) for t, a in zip(op.inputs, xs, strict=True)]
        for op, xs in zip(padded, arrays, strict=True)
    ]
    functions = [_all(op) for op in operators]
    ways = {
        "jitted": _together(functions)(arrays),
        "padded buffers": _together([functools.partial(_through_buffers, op) for op in padded])(
            buffers
        ),
    }
    if all(arrays):
        pairs = [zip(ys, xs, strict=True) for ys, xs in zip(others, arrays, strict=True)]
        stacked = [[np.stack(pair) for pair in one] for one in pairs]
        made = _together([jax.vmap(function) for function in functions])(stacked)
        ways["vmapped"] = [[np.asarray(m)[1] for m in results] for results in made]
    for k, op in enumerate(operators):
        eager = functions[k](*arrays[k])
        for way, every in ways.items():
            for result, first in zip(every[k], eager, strict=True):
                if ON_A_CPU:
                    assert _bits(result) == _bits(first), (way, op)
                else:  # a GPU's kernels add in another order where they are fused otherwise
                    least = {"float16": 2e-3, "float32": 1e-5}.get(result.dtype.name, 0)
                    wide = [np.asarray(x, np.float64 if least else None) for x in (result, first)]
                    np.testing.assert_allclose(*wide, least, least, err_msg=f"{way} {op}")


def _together(functions: Sequence[Callable[..., Any]]) -> Callable[[Sequence[Any]], Any]:
    """Return one program of all functions, each of inputs of its own."""
    return jax.jit(lambda sets: [f(*xs) for f, xs in zip(functions, sets, strict=True)])


def _padded(rng: np.random.Generator, op: Operator) -> Operator:
    """Return the same operator with every tensor transposed and padded in memory."""

    def strided(tensor: TensorDesc) -> TensorDesc:
        strides, step = [0] * tensor.dimension_count, int(rng.integers(1, 3))
        for d in rng.permutation(tensor.dimension_count):
            strides[d] = step
            step = step * tensor.sizes[d] + int(rng.integers(2))
        return TensorDesc(tensor.data_type, tensor.sizes, strides)

    fields = {}
    for f in op.fields:
        value = getattr(op, f.name)
        if f.tensor and value is not None:
            value = [strided(t) for t in value] if f.is_array else strided(value)
        fields[f.name] = value
    return type(op)(**fields)


def _in_memory(tensor: TensorDesc, array: np.ndarray) -> np.ndarray:
    """Return a buffer that holds the array as the tensor says, by NumPy's own strides."""
    buffer = np.full(tensor.span + 3, 7, tensor.dtype)
    steps = [s * buffer.itemsize for s in tensor.strides or tensor.packed_strides]
    np.lib.stride_tricks.as_strided(buffer, tensor.sizes, steps)[...] = array
    if tensor.data_type.bits == 4:  # two in a byte, the first in its low half
        halves = np.resize(buffer.view(np.uint8) & 15, [buffer.size // 2 + 1, 2])
        return halves[:, 0] | halves[:, 1] << 4
    return buffer


def _through_buffers(op: Operator, *buffers: jax.Array) -> list[jax.Array]:
    inputs = [tensor.read(buffer) for tensor, buffer in zip(op.inputs, buffers, strict=True)]
    made = []
    for tensor, result in zip(op.outputs, _all(op)(*inputs), strict=True):
        old = jnp.full(tensor.span + 3, 7, tensor.memory_dtype)
        made.append(tensor.read(tensor.write(old, result)))
    return made


@pytest.mark.parametrize("op_class", BUILT)
def test_wrong_arrays_are_refused(op_class: type[Operator]):
    op = drawn(op_class)[0]
    arrays = [np.zeros(t.sizes, t.dtype) for t in op.inputs]
    with pytest.raises(DmlError, match="number of arrays"):
        op(*arrays, np.zeros(1, np.float32))
    if arrays:
        path = next(op.tensors(output=False))[0]
        other = np.float16 if arrays[0].dtype != np.float16 else np.float32
        for wrong in (arrays[0].astype(other), arrays[0][None], arrays[0].tolist(), 1.0, None):
            with pytest.raises(DmlError) as refused:
                op(wrong, *arrays[1:])
            assert (refused.value.operator, refused.value.field) == (op.c_name, path)


@pytest.mark.parametrize("op_class", BUILT)
def test_64_bits_need_x64(op_class: type[Operator], no_x64: None):
    record = record_of(op_class)
    row = next(iter(op_class.support.groups.values()))[0]
    rank = max(low for low, _ in row.ranks.values())
    for types, group in combinations(op_class, record):
        if any(t.endswith("64") for t in types.values()):
            op = record.simplest(op_class, rank, types, group)
            with pytest.raises(DmlError, match=r"jax_enable_x64.*got U?(INT|FLOAT)64"):
                op(*(np.zeros(t.sizes, t.dtype) for t in op.inputs))


@pytest.mark.parametrize("op_class", BUILT)
def test_scopes_name_the_operator(op_class: type[Operator]):
    op = drawn(op_class)[0]
    lowered = jax.jit(_all(op)).lower(*(jax.ShapeDtypeStruct(t.sizes, t.dtype) for t in op.inputs))
    text = lowered.as_text(debug_info=True)
    is_empty = "stablehlo" not in re.sub(r"stablehlo\.return|stablehlo\.constant", "", text)
    assert op.c_name in text or is_empty


def test_fused_activations_round_trip():
    for op_class in OPERATORS.values():
        if _is_fusable(op_class):
            fused = op_class.fused(**_plain(op_class))
            assert FusedActivation.from_json(json.loads(json.dumps(fused.to_json()))) == fused
            assert pickle.loads(pickle.dumps(fused)) == fused
