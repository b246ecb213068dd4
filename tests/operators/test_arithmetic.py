"""Operators of several tensors: divisions, powers, the mean, Adam; what is particular to each."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arrays import float16, float32
from forms import compiled_soon
from records import records

import dml_jax
from dml_jax import AdamOptimizer, Buffer, DmlError, ElementWisePow, TensorDesc, compile

T = TensorDesc
ADAM = records()["ADAM_OPTIMIZER"]


def int32(values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def uint32(values: Any) -> np.ndarray:
    return np.array(values, np.uint32)


def run(function: Any, *arrays: Any) -> np.ndarray:
    return np.asarray(compiled_soon(function)(*arrays))


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of elements of a type of 8 bits."""
    every = np.arange(256, dtype=np.uint8).view(dtype)
    return np.repeat(every, 256), np.tile(every, 256)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_divisions_of_all_pairs(dtype: str):
    """Python's integers, and where the divisor is 0 all bits and the dividend."""
    a, b = pairs(dtype)
    x, y = a.astype(int), b.astype(int)
    divisor = np.where(y == 0, 1, y)
    quotient = np.trunc(x / divisor).astype(int)
    expected = {
        dml_jax.divide: np.where(y == 0, -1, quotient),
        dml_jax.modulus_truncate: np.where(y == 0, x, x - quotient * divisor),
        dml_jax.modulus_floor: np.where(y == 0, x, x % divisor),
    }
    for function, result in expected.items():
        np.testing.assert_array_equal(run(function, a, b), result.astype(np.uint8).view(dtype))


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_mean_does_not_overflow(dtype: str):
    limits = np.iinfo(dtype)
    ends = [limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 2]
    a, b = map(np.array, zip(*itertools.product(ends, ends), strict=True))
    expected = np.sign(a + b) * (abs(a + b) // 2)
    np.testing.assert_array_equal(run(dml_jax.mean, a.astype(dtype), b.astype(dtype)), expected)


def test_mean_of_large_floats():
    large = np.array([3e38, -3e38, np.inf, 1.5e-38], np.float32)
    np.testing.assert_array_equal(run(dml_jax.mean, large, large), large)


def test_remainders_of_floats_are_exact():
    rng = np.random.default_rng(0)
    a, b = (float32(10 ** rng.uniform(-30, 30, 2000)) for _ in range(2))
    b *= rng.choice(np.array([-1, 1], np.float32), b.shape)
    np.testing.assert_array_equal(run(dml_jax.modulus_truncate, a, b), np.fmod(a, b))
    np.testing.assert_array_equal(run(dml_jax.modulus_floor, a, b), np.mod(a, b))


@pytest.mark.parametrize("far", [False, True])
def test_remainders_near_and_far(far: bool):
    """A CPU subtracts few multiples; where one quotient is far, or a divisor tiny, C does all."""
    rng = np.random.default_rng(0)
    b = float32(rng.standard_normal(20000))
    a = float32(b * rng.integers(-(2**20), 2**20, b.size))
    a[:10000] = np.exp2(rng.uniform(-20, 30, 10000)) * b[:10000]
    special = float32([0, -0.0, np.inf, -np.inf, np.nan, 1, -2.5, 2**24 + 1])
    pairs = np.array([*itertools.product(special, special)], np.float32)
    a, b = np.append(a, pairs[:, 0]), np.append(b, pairs[:, 1])
    if far:
        a, b = np.append(a, float32([3e38, -1e-30])), np.append(b, float32([1e-30, 3e-38]))
    with np.errstate(invalid="ignore"):
        expected = np.fmod(a, b)
    result = np.asarray(jax.jit(dml_jax.modulus_truncate)(a, b))
    np.testing.assert_array_equal(result, expected)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result)[is_number], np.signbit(expected)[is_number])


def test_powers_have_the_digits_of_float32():
    """Over the whole range of results, and next to 1, where an exponent magnifies a rounding."""
    rng = np.random.default_rng(0)
    x = np.exp2(rng.uniform(-126, 128, 30000)).astype(np.float32)
    x[:10000] = rng.uniform(0.5, 2, 10000)
    x[10000:15000] = 1 + 1e-4 * rng.standard_normal(5000)
    logarithm = np.log2(x.astype(np.float64))
    logarithm[logarithm == 0] = 1
    e = float32(rng.uniform(-125, 127.9, x.size) / logarithm)
    expected = np.power(x.astype(np.float64), e)
    result = np.asarray(jax.jit(dml_jax.pow)(x, e))
    apart = np.abs(result - expected) / np.spacing(np.abs(float32(expected)))
    worst = np.argmax(apart)
    assert apart[worst] <= 2, (x[worst], e[worst], result[worst], expected[worst])


def test_special_powers_of_pairs_are_those_of_c():
    """Zeros and infinities of both signs, NaN, odd and large whole exponents."""
    x = float32([0, -0.0, 1, -1, 0.5, -0.5, 3, -3, np.inf, -np.inf, np.nan, 2e37, -2e37])
    e = float32([0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1e-30, 2**23 + 1, 2**24, np.inf, -np.inf])
    x, e = np.array([*itertools.product(x, np.append(e, np.float32(np.nan)))], np.float32).T
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), e).astype(np.float32)
    result = np.asarray(jax.jit(dml_jax.pow)(x, e))
    np.testing.assert_allclose(result, expected, rtol=3e-7)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result)[is_number], np.signbit(expected)[is_number])


@pytest.mark.parametrize("base", ["int8", "uint8"])
@pytest.mark.parametrize("exponent", ["int8", "uint8"])
def test_integer_powers_of_all_pairs(base: str, exponent: str):
    a, b = pairs(base)[0], pairs(exponent)[1]

    def power(x: int, e: int) -> int:
        if e >= 0:
            return pow(x, e, 256)
        largest = int(np.iinfo(base).max)
        return largest if x == 0 else x ** abs(e) % 256 if abs(x) == 1 else 0

    expected = [power(x, e) for x, e in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_array_equal(run(dml_jax.pow, a, b), np.array(expected, np.uint8).view(base))


@pytest.mark.parametrize("base", ["int16", "int32", "uint32"])
def test_large_integer_powers_wrap(base: str):
    bits, rng = np.iinfo(base).bits, np.random.default_rng(0)
    x = rng.integers(0, 2**bits, 400).astype(f"uint{bits}").view(base) >> rng.integers(0, 9, 400)
    e = (rng.integers(0, 2**32, 400) >> rng.integers(0, 33, 400)).astype(np.uint32)
    expected = [pow(a, b, 2**bits) for a, b in zip(x.tolist(), e.tolist(), strict=True)]
    result = run(dml_jax.pow, x.astype(base), e)
    np.testing.assert_array_equal(result, np.array(expected, f"uint{bits}").view(base))


def test_powers_of_other_types():
    """Large integer exponents do not round; whole floats are exact, others truncate."""
    assert run(dml_jax.pow, float32([-1, -1]), int32([2**24 + 1, 2**24])).tolist() == [-1, 1]
    close = float32([1 + 2**-22])
    large = uint32([2**28 + 2**4 + 1])
    np.testing.assert_allclose(run(dml_jax.pow, close, large), close.astype(float) ** large, 1e-6)
    x = int32([46340, 46341, 3, 9, 2, -2, 0, 7, -8, -1])
    e = float32([2, 2, 17, 0.5, np.nan, np.inf, -1, -1, 1 / 3, 2**31])
    expected = [2147395600, 2**31 - 1, 129140163, 3, 0, 2**31 - 1, 2**31 - 1, 0, 0, 1]
    assert run(dml_jax.pow, x, e).tolist() == expected


def test_gradients_of_powers_are_finite():
    """Those of whole exponents too; `lowering/test_derivatives` has the others."""
    zero = float32([0])
    assert jax.grad(lambda x, e: dml_jax.pow(x, e)[0], (0, 1))(zero, zero) == (zero, zero)
    whole = jax.grad(lambda x: dml_jax.pow(x, int32([0, 1, 2, -3])).sum())
    np.testing.assert_allclose(whole(float32([0, 0, 0, 2])), [0, 1, 0, -3 / 16])


def optimizer(data_type: str, sizes: list[int], **fields: float) -> AdamOptimizer:
    tensor = T(data_type, sizes)
    names = ("input_parameters", "input_first_moment", "input_second_moment", "gradient")
    tensors = {f"{name}_tensor": tensor for name in names}
    step = T("UINT32", [1, 1, 1, 1])
    values = {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, **fields}
    return AdamOptimizer.infer(**tensors, training_step_tensor=step, **values)


def test_adam_trains_as_pytorch_does():
    """PyTorch computes in float64 here, with numbers that the descriptor's FLOAT has rounded."""
    torch = pytest.importorskip("torch")
    op, rng = optimizer("FLOAT32", [1, 2, 3, 4]), np.random.default_rng(3)
    update, start = jax.jit(op), float32(rng.standard_normal((1, 2, 3, 4)))
    state: Any = [start, *np.zeros((2, *start.shape), "f4")]
    weights = torch.nn.Parameter(torch.from_numpy(start.astype(float)))
    betas = op.beta1, op.beta2
    peer = torch.optim.Adam([weights], lr=op.learning_rate, betas=betas, eps=op.epsilon)
    for step in range(1, 21):
        g = float32(rng.standard_normal(start.shape) * 10.0 ** rng.integers(-3, 4))
        state = update(*state, g, uint32([[[[step]]]]))
        weights.grad = torch.from_numpy(g.astype(float))
        peer.step()
    moments = peer.state[weights]
    expected = weights.detach(), moments["exp_avg"], moments["exp_avg_sq"]
    for result, value in zip(state, expected, strict=True):
        np.testing.assert_allclose(result, value.numpy(), rtol=2e-6, atol=1e-7)


def test_adam_counts_steps_from_one():
    op, one = optimizer("FLOAT32", [1, 1, 1, 1]), jnp.ones((1, 1, 1, 1), jnp.float32)
    results = [op(one, 0 * one, 0 * one, one, jnp.full_like(one, t, jnp.uint32)) for t in (0, 1)]
    assert np.isnan(results[0][0]).all()
    np.testing.assert_allclose(results[1][0], 0.99, rtol=1e-6)


def test_adam_has_a_gradient_at_zero():
    op, zero = optimizer("FLOAT32", [1, 1, 1, 1]), jnp.zeros((1, 1, 1, 1), jnp.float32)
    step = jnp.ones((1, 1, 1, 1), jnp.uint32)
    slopes = jax.grad(lambda *a: op(*a, step)[0].sum(), (0, 1, 2, 3))(zero, zero, zero, zero)
    assert np.isfinite(slopes).all()


def test_adam_rounds_float16_once():
    op, rng = optimizer("FLOAT16", [1, 1, 1, 64]), np.random.default_rng(1)
    x, m, v, g = float16(rng.random((4, 1, 1, 1, 64)) + 0.1)
    arrays = [x, m, v, g, uint32([[[[3]]]])]
    results, expected = jax.jit(op)(*arrays), ADAM.expected(op, arrays)
    for result, value in zip(results, expected, strict=True):
        apart = abs(result.astype(float) - value)
        assert (apart <= 0.501 * np.spacing(np.float16(abs(value))).astype(float)).all()


def test_adam_is_in_place():
    """Outputs lie on inputs, in any order; never on the step, nor two on one."""
    op, rng = optimizer("FLOAT32", [1, 1, 1, 1]), np.random.default_rng(2)
    arrays = *float32(rng.random((4, 1, 1, 1, 1))), uint32([[[[2]]]])
    expected = op(*arrays)
    for places in ([0, 1, 2], [1, 3, 0]):
        buffers = [Buffer(a) for a in arrays]
        compile(op).bind(buffers, [buffers[k] for k in places]).dispatch()
        for k, value in zip(places, expected, strict=True):
            np.testing.assert_array_equal(buffers[k].array, value)
    buffers = [Buffer(a) for a in arrays]
    with pytest.raises(DmlError, match=r"not overlap TrainingStepTensor .it may lie on InputPar"):
        compile(op).bind(buffers, [buffers[4], buffers[1], buffers[2]])
    with pytest.raises(DmlError, match="not overlap OutputParametersTensor"):
        compile(op).bind(buffers, [buffers[0], buffers[0], buffers[2]])


def test_powers_lie_on_their_bases():
    tensor = T("FLOAT32", [4])
    op = ElementWisePow.infer(input_tensor=tensor, exponent_tensor=tensor)
    x, e = (Buffer(float32([1, 2, 3, 4])) for _ in range(2))
    compile(op).bind([x, e], [x]).dispatch()
    assert x.array.tolist() == [1, 4, 27, 256]
    with pytest.raises(DmlError, match=r"not overlap ExponentTensor .it may lie on InputTensor."):
        compile(op).bind([x, e], [e])
