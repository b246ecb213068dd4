"""Products and convolutions of FLOAT32 in the precision that is asked for by name."""

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from build import command, saved, single

import dml_jax
from dml_jax import DmlError, load_onnx
from dml_jax.enums import PRECISIONS

RANDOM = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Return the nearest bfloat16 numbers in float64, in which sums are exact enough."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("nchwij,pcij->nphw", windows, w)


CASES: dict[str, tuple[Any, np.ndarray, np.ndarray, Any]] = {
    "MatMul": ("MatMul", array(6, 20), array(20, 8), np.matmul),
    "Gemm": ("Gemm", array(6, 20), array(20, 8), np.matmul),
    "Conv": ("Conv", array(1, 20, 9, 9), array(24, 20, 3, 3), convolved),
    "Conv 1x1": ("Conv", array(1, 20, 9, 9), array(24, 20, 1, 1), convolved),
    "Conv of few": ("Conv", array(1, 2, 9, 9), array(4, 2, 3, 3), convolved),
}


def model(name: str) -> Any:
    op_type, x, w, _ = CASES[name]
    return single(op_type, {"x": x, "w": w}, constants=["w"])


def loaded(name: str, **options: Any) -> tuple[Any, np.ndarray]:
    return load_onnx(model(name), **options), CASES[name][1]


@pytest.mark.parametrize("name", CASES)
def test_bfloat16_rounds_operands_and_sums_in_float32(name: str):
    _, x, w, function = CASES[name]
    network, _ = loaded(name, precision="bfloat16")
    exact, rounded = (function(*(f(a) for a in (x, w))) for f in (np.float64, bfloat16))
    y = np.asarray(network(x)["y"])
    np.testing.assert_allclose(y, rounded, rtol=1e-5, atol=1e-5)
    assert np.abs(y - exact).max() > 1e-3
    y = np.asarray(jax.jit(network.apply)(network.weights, {"x": x})["y"])
    np.testing.assert_allclose(y, rounded, rtol=1e-5, atol=1e-5)
    plain, _ = loaded(name)
    y = np.asarray(dml_jax.compile(plain, precision="bfloat16")(x))
    np.testing.assert_allclose(y, rounded, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(plain(x)["y"], exact, rtol=1e-4, atol=1e-4)


def test_other_products_round_too():
    x, w, r = array(3, 1, 4), array(1, 12, 4), array(1, 12, 3)
    arrays = {"x": x, "w": w[:, :9], "r": r[:, :9]}
    recurrent = single("GRU", arrays, constants=["w", "r"], hidden_size=3)
    results = {p: np.asarray(load_onnx(recurrent, precision=p)(x)["y"]) for p in PRECISIONS}
    assert 1e-5 < np.abs(results["bfloat16"] - results["float32"]).max() < 0.05
    q = array(1, 4, 8)
    attention = lambda q: dml_jax.multihead_attention(0.5, -1e4, 2, 2, "NONE", q, q, q)[0]  # noqa: E731
    full = dml_jax.compile(attention, q)(q)
    half = dml_jax.compile(attention, q, precision="bfloat16")(q)
    assert 1e-5 < np.abs(np.asarray(full) - np.asarray(half)).max() < 0.1


def precisions_of(program: str) -> set[str]:
    """Return the precisions that an optimised program names, of XLA's products and of cuBLAS's."""
    pairs = re.findall(r'operand_precision(?:=\{|":\[)"?(\w+)"?,"?(\w+)', program)
    return {name.lower() for pair in pairs for name in pair} - {"default"}


@pytest.mark.parametrize("name", ["MatMul", "Conv"])
def test_the_optimised_programs_differ(name: str):
    texts = {}
    for precision in PRECISIONS:
        network, _ = loaded(name, precision=precision)
        program = dml_jax.compile(network).as_text()
        texts[precision] = re.sub(r"HloModule[^\n]*", "", program)
    wanted = {"float32": {"highest"}, "tensorfloat32": {"high"}, "bfloat16": set[str]()}
    assert {name: precisions_of(text) for name, text in texts.items()} == wanted
    on_gpu = jax.default_backend() == "gpu"  # which multiplies matrices that are stored so
    assert "reduce-precision" in texts["bfloat16"] or (on_gpu and "bf16[" in texts["bfloat16"])
    assert "reduce-precision" not in texts["float32"] + texts["tensorfloat32"]


def test_the_argument_comes_before_the_setting():
    network, _ = loaded("MatMul", precision="float32")
    follows, _ = loaded("MatMul")
    with jax.default_matmul_precision("tensorfloat32"):
        assert precisions_of(dml_jax.compile(network).as_text()) == {"highest"}
        assert precisions_of(dml_jax.compile(follows).as_text()) == {"high"}
    assert precisions_of(dml_jax.compile(follows).as_text()) == {"highest"}


def test_gradients_of_bfloat16():
    network, x = loaded("Conv", precision="bfloat16")
    weights = network.trainable

    def loss(weights: Any) -> jax.Array:
        return network.apply(weights, {"x": x})["y"].sum()

    windows = np.lib.stride_tricks.sliding_window_view(bfloat16(x), (3, 3), (2, 3))
    wanted = np.broadcast_to(windows.sum((0, 2, 3)), (24, 20, 3, 3))
    np.testing.assert_allclose(jax.grad(loss)(weights)["w"], wanted, rtol=2e-2, atol=0.1)


def test_integers_and_halves_are_not_rounded():
    a, b = jnp.asarray([[101, 3]], jnp.int8), jnp.asarray([[101], [3]], jnp.int8)
    exact = dml_jax.compile(
        lambda a, b: dml_jax.matrix_multiply_integer(a, b), a, b, precision="bfloat16"
    )
    assert exact(a, b).tolist() == [[101 * 101 + 9]]
    half = jnp.asarray([[1.001, 3]], jnp.float16)
    function = lambda a: dml_jax.gemm(a, a, trans_b="TRANSPOSE")  # noqa: E731
    by_name = dml_jax.compile(function, half, precision="bfloat16")(half)
    np.testing.assert_array_equal(by_name, function(half))


def test_a_device_without_tensorfloat32_is_said():
    if jax.default_backend() != "cpu":
        pytest.skip("of a CPU")
    network, x = loaded("MatMul", precision="tensorfloat32")
    report = network.report()
    assert "products of FLOAT32 in float32 (asked for tensorfloat32, which cpu lacks)" in report
    full, _ = loaded("MatMul", precision="float32")
    np.testing.assert_array_equal(network(x)["y"], full(x)["y"])
    assert "products of FLOAT32 in float32" in full.report()
    assert "products of FLOAT32" not in loaded("MatMul")[0].report()


@pytest.mark.parametrize(
    "call",
    [
        lambda: loaded("MatMul", precision="half"),
        lambda: dml_jax.compile(loaded("MatMul")[0], precision="half"),
    ],
)
def test_another_name_is_refused(call: Any):
    with pytest.raises(DmlError) as error:
        call()
    names = "float32, tensorfloat32, bfloat16"
    assert str(error.value) == f"expected precision to be one of {names}, got 'half'"


def test_the_command_line(tmp_path: Path):
    _, x, w, _ = CASES["MatMul"]
    path = saved(model("MatMul"), tmp_path)
    np.save(tmp_path / "x.npy", x)
    results = {}
    for precision in PRECISIONS:
        words = ["run", path, "--input", f"x={tmp_path / 'x.npy'}", "--output_path", tmp_path]
        words += ["--precision", precision]
        done = command(*words)
        assert ("has no tensorfloat32: float32" in done.stderr) == (
            precision == "tensorfloat32" and jax.default_backend() == "cpu"
        )
        results[precision] = np.load(tmp_path / "y.npy")
    np.testing.assert_allclose(results["bfloat16"], bfloat16(x) @ bfloat16(w), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(results["float32"], x.astype(np.float64) @ w, rtol=1e-5, atol=1e-5)
    command("run", path, "--precision", "half", status=2)
