"""Networks in bfloat16, beside the same networks in FLOAT32."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from build import parse

from dml_jax import DmlError, load_onnx
from dml_jax.onnx import Network

RANDOM = np.random.RandomState(7)
STEP = 2.0**-8  # half the distance of two bfloat16 numbers, relative
TEXT = """g (float[2,3,8,8] x, int64[4] ids) => (float[2,5] y, float[4,6] e, int64[2] best)
<float[4,3,3,3] k, float[4] b, float[64,5] w, float[5] c, float[9,6] table, int64[2] flat = {2,-1}>
{
    z = Conv <pads = [1,1,1,1], strides = [2,2]> (x, k, b)
    r = Relu(z)
    t = Transpose <perm = [0,2,3,1]> (r)
    f = Reshape(t, flat)
    m = MatMul(f, w)
    a = Add(m, c)
    y = Softmax(a)
    e = Gather(table, ids)
    best = ArgMax <axis = 1, keepdims = 0> (y)
}"""


def network(text: str = TEXT) -> Network:
    """Return a network with random weights in place of those that have no values."""
    model = parse(text)
    for value in [*model.graph.value_info]:
        sizes = [d.dim_value for d in value.type.tensor_type.shape.dim]
        array = (RANDOM.randn(*sizes) / max(sizes)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    del model.graph.value_info[:]
    return load_onnx(model)


X = jnp.asarray(RANDOM.rand(2, 3, 8, 8), jnp.float32)
IDS = np.array([0, 8, 3, 3], np.int64)


def test_weights_are_cast_by_one_call():
    net = network()
    weights = net.weights_as(jnp.bfloat16)
    assert weights.keys() == net.weights.keys()
    assert {w.dtype for w in weights.values()} == {jnp.dtype(jnp.bfloat16)}


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_answers_are_those_of_float32_but_for_rounding(dtype: jnp.dtype):
    net = network()
    exact = net.apply(net.weights, {"x": X, "ids": IDS})
    narrow = jax.jit(net.apply)(net.weights_as(jnp.bfloat16), {"x": X.astype(dtype), "ids": IDS})
    assert narrow["y"].dtype == narrow["e"].dtype == jnp.bfloat16
    assert narrow["best"].dtype == np.int64
    np.testing.assert_allclose(narrow["y"].astype(np.float32), exact["y"], rtol=12 * STEP)
    table = net.weights["table"].astype(jnp.bfloat16)
    np.testing.assert_array_equal(narrow["e"], table[IDS])


def test_products_are_summed_in_float32():
    """A sum of 512 ones and a small number, which bfloat16 would not hold on the way."""
    text = """g (float[1,512] x) => (float[1,1] y) <float[512,1] w> { y = MatMul(x, w) }"""
    net = network(text)
    weights = {"w": jnp.ones((512, 1), jnp.bfloat16)}
    x = jnp.ones((1, 512), jnp.bfloat16).at[0, :256].set(1 / 256)
    (result,) = net.apply(weights, {"x": x})["y"].reshape(-1)
    assert result == 257 - 1  # 256 + 1, rounded once to 256
    program = str(jax.make_jaxpr(net.apply)(weights, {"x": x}))
    assert "f32[1,512]" not in program.split("dot_general")[0]


def test_gradients_are_those_of_float32_but_for_rounding():
    net = network()

    def loss(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        y = net.apply(weights, {"x": x, "ids": IDS})["y"]
        return jnp.sum(y.astype(jnp.float32) ** 2)

    exact = jax.grad(loss)(net.weights, X)
    narrow = jax.grad(loss)(net.weights_as(jnp.bfloat16), X.astype(jnp.bfloat16))
    for name in ("k", "b", "w", "c"):
        assert narrow[name].dtype == jnp.bfloat16
        difference = np.linalg.norm(narrow[name].astype(np.float32) - exact[name])
        assert difference < 16 * STEP * np.linalg.norm(exact[name])


def test_numbers_that_no_bfloat16_takes_part_in_stay_float32():
    text = """g (int64[3] i, float[3] x) => (float[3] p, float[3] y)
    <float[3] w> { p = Cast <to = 1> (i)  y = Mul(x, w) }"""
    net = network(text)
    weights = net.weights_as(jnp.bfloat16)
    inputs = {"i": np.array([257, 1001, 3]), "x": jnp.ones(3, jnp.float32)}
    result = net.apply(weights, inputs)
    assert result["p"].dtype == jnp.float32
    assert result["p"].tolist() == [257, 1001, 3]
    np.testing.assert_array_equal(result["y"], weights["w"])


def test_a_network_of_bfloat16_is_loaded():
    """What it casts to FLOAT is computed in FLOAT32."""
    text = """g (bfloat16[2,3] x) => (bfloat16[2,3] y, float[2,3] z) <bfloat16[3] w = {1, 2, 3}>
    { a = Add(x, w)  wide = Cast <to = 1> (a)  z = Mul(wide, wide)  y = Cast <to = 16> (z) }"""
    net = load_onnx(parse(text))
    assert net.weights["w"].dtype == jnp.bfloat16
    x = jnp.asarray(RANDOM.rand(2, 3), jnp.bfloat16)
    result = net(x)
    total = (x + net.weights["w"][None]).astype(jnp.float32)
    assert (result["y"].dtype, result["z"].dtype) == (jnp.bfloat16, jnp.float32)
    np.testing.assert_array_equal(result["z"], total * total)
    np.testing.assert_array_equal(result["y"], (total * total).astype(jnp.bfloat16))


@pytest.mark.parametrize("fallback", [False, True])
def test_a_cast_to_bfloat16_rounds_and_what_follows_is_bfloat16(fallback: bool):
    text = """g (float[4] x, float[4] w) => (float[4] y, float[4] z)
    { a = Cast <to = 16> (x)  b = Cast <to = 16> (w)  s = Add(a, b)
      y = Cast <to = 1> (s)  z = Cast <to = 1> (a) }"""
    net = load_onnx(parse(text), fallback=fallback)
    x, w = (RANDOM.rand(4).astype(np.float32) * 9 for _ in "xw")
    narrow = x.astype(jnp.bfloat16)
    result = net({"x": x, "w": w})
    np.testing.assert_array_equal(result["z"], narrow.astype(np.float32))
    total = narrow.astype(np.float32) + w.astype(jnp.bfloat16).astype(np.float32)
    least = 0 if jax.default_backend() == "cpu" else 2**-8  # a fusion on a GPU may keep FLOAT32
    expected = total.astype(jnp.bfloat16).astype(np.float32)
    np.testing.assert_allclose(result["y"], expected, rtol=least)
    assert len(net.fallbacks) == 2


def test_other_types_are_refused():
    net = network()
    with pytest.raises(DmlError, match=r"the input 'x' to be float32\[2, 3, 8, 8\]"):
        net.apply(net.weights, {"x": X.astype(jnp.float16), "ids": IDS})
    with pytest.raises(DmlError, match="the input 'ids' to be int64"):
        net.apply(net.weights, {"x": X, "ids": IDS.astype(np.int8)})


def test_a_network_saved_in_float16_runs_in_float16():
    text = """g (float16[2, 2] x) => (float16[2, 2] y) { z = MatMul(x, x)  y = Relu(z) }"""
    net = load_onnx(parse(text))
    assert {t.data_type.name for o in net.graph.operators for t in o.outputs if t} == {"FLOAT16"}
    y = net(x=np.array([[1, 2], [-3, 0]], np.float16))["y"]
    assert y.dtype == np.float16 and y.tolist() == [[0, 2], [0, 0]]
