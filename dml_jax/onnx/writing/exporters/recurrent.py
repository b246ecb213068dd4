"""Exporters of recurrent networks: gates, weights and biases have ONNX's order."""

from typing import Any

import numpy as np

from dml_jax.onnx.writing.operator_records import exports, only
from dml_jax.onnx.writing.writer import Value, Writer

_ACTIVATIONS = {"RELU": "Relu", "TANH": "Tanh", "SIGMOID": "Sigmoid"}
_DIRECTIONS = {"FORWARD": "forward", "BACKWARD": "reverse", "BIDIRECTIONAL": "bidirectional"}


@exports("RNN", "LSTM", "GRU")
def recurrent(w: Writer, op: Any, x: Value, weight: Value, matrix: Value, *rest: Any) -> Any:
    names = [f.operator.short_name.removeprefix("ACTIVATION_") for f in op.activation_descs]
    only(x.dtype == np.float32 and set(names) <= _ACTIVATIONS.keys())
    bias, state, *cell, lengths = rest[:5] if op.short_name == "LSTM" else rest
    _, steps, batch, _ = x.shape
    _, directions, _, hidden = matrix.shape

    def less(x: Value | None, count: int) -> Value | None:
        """Return a tensor without its first dimensions, of size 1."""
        return None if x is None else w.reshape(x, x.shape[count:])

    lengths = less(lengths, 3)
    if lengths is not None:  # DirectML takes longer ones for the whole sequence
        lengths = w("Min", w.cast(lengths, np.int32), w.constant(np.int32(steps)))
    inputs = [less(x, 1), less(weight, 1), less(matrix, 1), less(bias, 2), lengths, less(state, 1)]
    named: dict[str, Any] = {
        "activations": [_ACTIVATIONS[name] for name in names],
        "direction": _DIRECTIONS[op.direction.name],
        "hidden_size": int(hidden),
    }
    single = (None, (directions, batch, hidden))
    results = [(None, (steps, directions, batch, hidden)), single]
    if op.short_name == "GRU":
        named["linear_before_reset"] = int(op.linear_before_reset)
    if op.short_name == "LSTM":
        inputs += [less(cell[0], 1), less(rest[5], 2)]
        named["input_forget"] = int(op.couple_input_forget)
        named["clip"] = float(op.clip_threshold) if op.use_clip_threshold else None
        results.append(single)
    made = w.several(op.short_name, *inputs, results=results, **named)
    return [
        w.reshape(x, getattr(op, f.name).sizes)
        for f, x in zip(op.outputs_of(), made, strict=True)
        if getattr(op, f.name) is not None
    ]
