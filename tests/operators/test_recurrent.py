"""RNN, LSTM and GRU beside ONNX Runtime, and what the registry does not draw."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import model_of, node, runtime
from records import records

import dml_jax
from dml_jax import DmlError
from dml_jax.operator import OPERATORS

SIGMOID, TANH = dml_jax.ActivationSigmoid.fused(), dml_jax.ActivationTanh.fused()
GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}
COUNTS = {"RNN": 1, "LSTM": 3, "GRU": 2}
ONNX: dict[str, Any] = {  # of ONNX's names
    "Tanh": TANH,
    "Sigmoid": SIGMOID,
    "Relu": dml_jax.ActivationRelu.fused(),
    "Affine": dml_jax.ActivationLinear.fused(alpha=0.5, beta=0.25),
    "LeakyRelu": dml_jax.ActivationLeakyRelu.fused(alpha=0.5),
    "ThresholdedRelu": dml_jax.ActivationThresholdedRelu.fused(alpha=0.5),
    "ScaledTanh": dml_jax.ActivationScaledTanh.fused(alpha=0.5, beta=0.25),
    "HardSigmoid": dml_jax.ActivationHardSigmoid.fused(alpha=0.5, beta=0.25),
    "Elu": dml_jax.ActivationElu.fused(alpha=0.5),
    "Softsign": dml_jax.ActivationSoftsign.fused(),
    "Softplus": dml_jax.ActivationSoftplus.fused(steepness=1),
}


def drawn(rng: Any, *shape: int) -> np.ndarray:
    return rng.uniform(-0.4, 0.4, shape).astype(np.float32)


@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD", "BIDIRECTIONAL"])
@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("seed", range(2))
def test_as_onnxruntime(name: str, direction: str, seed: int):
    rng = np.random.default_rng([seed, len(direction), len(name)])
    s, n, i, k, d, gates = 5, 3, 4, 6, 1 + (direction == "BIDIRECTIONAL"), GATES[name]
    x, w, r = drawn(rng, s, n, i), drawn(rng, d, gates * k, i), drawn(rng, d, gates * k, k)
    b, h, c, p = drawn(rng, d, 2 * gates * k), *drawn(rng, 2, d, n, k), drawn(rng, d, 3 * k)
    lengths = np.array([5, 2, 4], np.int32) if seed else None
    onnx_word = {"FORWARD": "forward", "BACKWARD": "reverse"}.get(direction, "bidirectional")
    chosen = [str(a) for a in rng.choice(list(ONNX), d * COUNTS[name])]
    attributes: dict[str, Any] = {"hidden_size": k, "direction": onnx_word, "activations": chosen}
    attributes |= {"activation_alpha": [0.5] * len(chosen), "activation_beta": [0.25] * len(chosen)}
    fields: dict[str, Any] = {
        "input": x[None],
        "weight": w[None],
        "recurrence": r[None],
        "activation_descs": [ONNX[a] for a in chosen],
        "direction": direction,
        "bias": b[None, None],
        "hidden_init": h[None],
        "sequence_lengths": None
        if lengths is None
        else lengths.astype(np.uint32)[None, None, None],
    }
    inputs = {"X": x, "W": w, "R": r, "B": b, "lengths": lengths, "h": h}
    if name == "LSTM":
        # Peepholes without a clip, and a clip without peepholes.
        clip = 0.5 if seed else 0.0
        inputs |= {"c": c} if seed else {"c": c, "P": p}
        fields |= {"clip_threshold": clip, "use_clip_threshold": bool(seed)}
        fields |= {"couple_input_forget": False, "cell_mem_init": c[None]}
        fields |= {"peephole": None if seed else p[None, None]}
        attributes |= {"clip": clip} if seed else {}
    if name == "GRU":
        attributes["linear_before_reset"] = seed
        fields |= {"linear_before_reset": bool(seed), "output_options": "Both"}
    results = getattr(dml_jax, name.lower())(**fields)
    given = {key: value for key, value in inputs.items() if value is not None}
    names = ["Y", "Y_h", "Y_c"][: len(results)]
    slots = " ".join(key if key in given else "-" for key in inputs)
    ins = {key: (value.dtype, value.shape) for key, value in given.items()}
    model = model_of([node(name, slots, " ".join(names), **attributes)], ins, names, opset=20)
    for result, answer in zip(results, runtime(model, given), strict=True):
        answer = np.asarray(answer).reshape(result.shape)
        np.testing.assert_allclose(result, answer, rtol=2e-4, atol=2e-5, err_msg=str(chosen))


def simplest() -> Any:
    """Return an RNN of one element in each tensor."""
    op_class = OPERATORS["DML_OPERATOR_RNN"]
    types = dict.fromkeys([f.name for f in op_class.fields if f.tensor], "FLOAT32")
    types["sequence_lengths_tensor"] = "UINT32"
    return records()["RNN"].simplest(op_class, 4, types, None)


def test_every_activation():
    """Each that may stand in the list, beside its own record."""
    record, plain = records()["RNN"], simplest()
    allowed = next(r.data for r in plain.records() if r.kind == "one_of" and "Type" in str(r))
    rng = np.random.default_rng(0)
    for name in allowed["values"]:
        activation = OPERATORS[f"DML_OPERATOR_{name}"]
        fused = activation.fused(**{f.name: 0.75 for f in activation.fields if not f.tensor})
        op = plain.replace(activation_descs=[fused])
        arrays = record.arrays(rng, op)
        for result, expected in zip(op(*arrays), record.expected(op, arrays), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6, err_msg=name)


X = jnp.ones((1, 6, 1, 2), jnp.float32)
PLAIN: dict[str, Any] = {
    "input": X,
    "weight": jnp.ones((1, 1, 9, 2), jnp.float32),
    "recurrence": jnp.ones((1, 1, 9, 3), jnp.float32),
    "bias": None,
    "hidden_init": None,
    "sequence_lengths": None,
    "activation_descs": [SIGMOID, TANH],
    "direction": "FORWARD",
    "linear_before_reset": False,
}


def test_the_outputs_of_gru_are_chosen():
    both = dml_jax.gru(**PLAIN, output_options="Both")
    sequence = dml_jax.gru(**PLAIN, output_options="Sequence")
    single = dml_jax.gru(**PLAIN, output_options="Single")
    assert (sequence.single, single.sequence) == (None, None)
    np.testing.assert_array_equal(both.sequence, sequence.sequence)
    np.testing.assert_array_equal(both.single, single.single)
    assert both.sequence is not None
    np.testing.assert_array_equal(both.sequence[-1:], both.single)
    with pytest.raises(DmlError, match="expected output_options to be Both, Sequence or Single"):
        dml_jax.gru(**PLAIN, output_options="None")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation_descs": [SIGMOID]}, "ActivationDescCount to be 2"),
        ({"activation_descs": [SIGMOID, dml_jax.ActivationSoftmax]}, r"ActivationDescs\[1\].Type"),
        ({"direction": "BIDIRECTIONAL"}, r"WeightTensor.Sizes\[1\] to be 2"),
        ({"sequence_lengths": jnp.ones((1, 1, 1, 2), jnp.uint32)}, "SequenceLengthsTensor.Sizes"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(DmlError, match=message):
        dml_jax.gru(**PLAIN | change, output_options="Both")


def test_a_threshold_below_0_is_refused():
    weight, recurrence = (jnp.ones((1, 1, 12, k), jnp.float32) for k in (2, 3))
    activations = [SIGMOID, TANH, TANH]
    for threshold in (-1.0, np.nan):
        with pytest.raises(DmlError, match="ClipThreshold to be at least 0"):
            dml_jax.lstm(X, weight, recurrence, activations, "FORWARD", threshold, True, False)
        dml_jax.lstm(X, weight, recurrence, activations, "FORWARD", threshold, False, False)


def test_tensors_of_dml_are_refused():
    plain = simplest()
    with pytest.raises(DmlError, match=r"WeightTensor\.Flags to be NONE"):
        plain.replace(weight_tensor=plain.weight_tensor.replace(flags="OWNED_BY_DML"))


def test_the_program_does_not_grow_with_time():
    def size(steps: int) -> int:
        x = jnp.ones((1, steps, 1, 2), jnp.float32)
        call = jax.jit(lambda x: dml_jax.gru(**PLAIN | {"input": x}, output_options="Both"))
        return call.lower(x).as_text().count("\n")

    assert size(3) == size(300)
