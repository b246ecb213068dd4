"""Casts to narrow floats: each number is rounded once, on every platform, and stays rounded."""

import dataclasses
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax.interpreters.mlir import make_ir_context
from jax.sharding import AxisType, PartitionSpec
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.ir import Module
from several_devices import SEVERAL

import dml_jax

ONNX = {"bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19}
ONNX["float8_e5m2fnuz"] = 20
NARROW = ("float16", *ONNX)


def there_and_back(name: str, given: str, count: int) -> Any:
    """Return a function that casts `count` numbers to a narrow type, and to FLOAT32 in one jit."""
    if name == "float16":
        return jax.jit(lambda x: dml_jax.cast(dml_jax.cast(x, "FLOAT16"), "FLOAT32"))
    network = dml_jax.load_onnx(
        onnx.parser.parse_model(
            f"""<ir_version: 10, opset_import: ["": 21]>
            g ({given}[{count}] x) => (float[{count}] y)
            {{ a = Cast <to = {ONNX[name]}, saturate = 0> (x)  y = Cast <to = 1> (a) }}"""
        ),
        fallback=True,
    )
    return lambda x: network({"x": x})["y"]


def edges(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return FLOAT64 numbers, and each one rounded to `dtype`.

    They are the numbers of the type, the midpoints between them, and both neighbours of these.
    """
    bits = np.arange(2 ** (dtype.itemsize * 8 - 1), dtype=f"uint{dtype.itemsize * 8}")
    with np.errstate(invalid="ignore"):
        numbers = bits.view(dtype).astype(np.float64)
    is_finite = np.isfinite(numbers)
    numbers, is_even = numbers[is_finite], bits[is_finite] % 2 == 0
    after = np.append(numbers[1:], 2 * numbers[-1] - numbers[-2])
    beyond = np.array(np.inf).astype(dtype).astype(np.float64)  # NaN in a type without infinity
    rounded_up = np.append(numbers[1:], beyond)
    middle = (numbers + after) / 2
    pairs = [
        (numbers, numbers),
        (np.nextafter(numbers, np.inf), numbers),
        (np.nextafter(after, 0)[:-1], after[:-1]),
        (middle, np.where(is_even, numbers, rounded_up)),
        (np.nextafter(middle, 0), numbers),
        (np.nextafter(middle, np.inf), rounded_up),
        (np.array([1e30 * middle[-1], np.inf, np.nan]), np.array([beyond, beyond, np.nan])),
    ]
    x, y = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return np.concatenate([x, -x]), np.concatenate([y, -y]).astype(dtype)


def assert_same(result: Any, expected: np.ndarray) -> None:
    """Compare numbers, NaN, and the signs of zeros."""
    expected = expected.astype(np.float32)
    np.testing.assert_array_equal(result, expected)
    is_number = expected == expected
    np.testing.assert_array_equal(np.signbit(result)[is_number], np.signbit(expected)[is_number])


@pytest.mark.parametrize("name", NARROW)
def test_float64_is_rounded_once(name: str):
    x, expected = edges(np.dtype(getattr(jnp, name)))
    assert_same(there_and_back(name, "double", x.size)(x), expected)


@pytest.mark.parametrize("name", NARROW)
def test_float32_is_rounded_once(name: str):
    dtype = np.dtype(getattr(jnp, name))
    with np.errstate(over="ignore"):
        near = edges(dtype)[0].astype(np.float32)
        x = np.concatenate([near, np.nextafter(near, np.float32(np.inf)), [np.float32(-1e-40)]])
        expected = x.astype(dtype)
    assert_same(there_and_back(name, "float", x.size)(x), expected)


@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64"])
def test_integers_are_rounded_once_to_bfloat16(name: str):
    """Compare with the nearest number of 8 bits, in Python's integers."""
    limits = np.iinfo(name)
    spread = range(limits.bits - 8)
    values = [(257 + 2 * k << s) + d for k in range(0, 128, 9) for s in spread for d in (-1, 0, 1)]
    values = [*values, 0, 1, int(limits.max), int(limits.max) - 1]
    values = [v for v in values if v <= limits.max]
    values += [-v for v in values if limits.min] + [int(limits.min)]

    def nearest(value: int) -> float:
        size = 1 << max(abs(value).bit_length() - 8, 0)
        steps, rest = divmod(abs(value), size)
        steps += 2 * rest > size or (2 * rest == size and steps % 2)
        return float(steps * size) * (-1 if value < 0 else 1)

    x = np.array(values, name)
    result = there_and_back("bfloat16", name, x.size)(x)
    np.testing.assert_array_equal(result, np.array([nearest(v) for v in values], np.float32))


@pytest.mark.parametrize("name", ["int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_are_rounded_to_float16(name: str):
    limits = np.iinfo(name)
    values = [0, 1, 2047, 2049, 2051, 4098, 32767, 65503, 65519, 65520, int(limits.max)]
    x = np.array([v for v in values if v <= limits.max], name)
    x = np.concatenate([x, -x]) if limits.min else x
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    assert_same(there_and_back("float16", name, x.size)(x), expected)


@pytest.mark.parametrize(
    ("mode", "expected"), [("up", [2, 2, 1]), ("down", [1, 1, 1]), ("nearest", [1, 2, 1])]
)
def test_float64_is_rounded_once_to_powers_of_two(mode: str, expected: list[float]):
    """FLOAT32 does not hold 1 + 2^-40, which lies above 1; infinity has no such power."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 12, opset_import: ["": 25]> g (double[4] x) => (float[4] y)
        {{ a = Cast <to = 24, round_mode = "{mode}"> (x)  y = Cast <to = 1> (a) }}"""
    )
    x = np.array([1 + 2.0**-40, 1.5 + 2.0**-40, 1, np.inf])
    result = dml_jax.load_onnx(model, fallback=True)({"x": x})["y"]
    np.testing.assert_array_equal(result, [*expected, np.nan])


def test_the_rounding_is_in_the_compiled_program():
    """XLA for a GPU drops a conversion that is converted back."""
    x = np.linspace(-3, 3, 257, dtype=np.float32)
    cast = there_and_back("float16", "float", x.size)
    text = cast.lower(x).compile().as_text()
    is_cpu = jax.default_backend() == "cpu"
    assert text.count(" convert(") == 2 or not is_cpu  # on a GPU, none may stay
    assert_same(cast(x), x.astype(np.float16))


def test_a_program_for_a_gpu_rounds_also_where_float32_stands_for_float16():
    x = edges(np.dtype(np.float16))[0].astype(np.float32)
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    made = jax.export.export(there_and_back("float16", "float", x.size), platforms=["cuda"])(shape)
    text = made.mlir_module()
    assert "xf16>" in text
    with make_ir_context():
        module = Module.parse(text.replace("xf16>", "xf32>"))
        wide = stablehlo.serialize_portable_artifact(module, stablehlo.get_minimum_version())
    made = dataclasses.replace(made, mlir_module_serialized=wide, platforms=("cpu",))
    with np.errstate(over="ignore"), jax.default_device(jax.devices("cpu")[0]):
        assert_same(made.call(x), x.astype(np.float16))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("given", [np.float32, np.float64])
def test_casts_are_computed_in_place_on_a_mesh(kind: AxisType, given: Any):
    mesh = jax.make_mesh((2,), ("a",), axis_types=(kind,), devices=SEVERAL[:2])
    x = np.linspace(-3, 3, 8).astype(given)
    place = jax.sharding.NamedSharding(mesh, PartitionSpec("a"))
    with jax.set_mesh(mesh):
        spread = jax.device_put(x, place)
        result = jax.jit(lambda x: dml_jax.cast(x, "FLOAT16"))(spread)
        assert result.sharding.is_equivalent_to(place, 1)
        np.testing.assert_array_equal(result, x.astype(np.float16))


@pytest.mark.parametrize("given", [np.float32, np.float64])
def test_casts_are_mapped_and_derived(given: Any):
    x = np.linspace(-3, 3, 8).astype(given)

    def cast(x: Any) -> Any:
        return dml_jax.cast(dml_jax.cast(x, "FLOAT16"), "FLOAT32")

    expected = x.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(jax.vmap(cast)(x.reshape(2, 4)).reshape(8), expected)
    value, slope = jax.jvp(cast, (x,), (np.ones_like(x),))
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(slope, np.ones(8))
    cube = jax.hessian(lambda x: jnp.sum(cast(x) ** 3))(x)
    np.testing.assert_allclose(np.diag(cube), 6 * expected, rtol=1e-3)
