"""Exporters of recurrent networks: gates, weights and biases have ONNX's order."""

from typing import Any

import numpy as np

from dml_jax.onnx.writing.operator_records import Use, exports
from dml_jax.onnx.writing.writer import Value

_ACTIVATIONS = {"RELU": "Relu", "TANH": "Tanh", "SIGMOID": "Sigmoid"}
_DIRECTIONS = {"FORWARD": "forward", "BACKWARD": "reverse", "BIDIRECTIONAL": "bidirectional"}


@exports("RNN", "LSTM", "GRU")
def recurrent(use: Use) -> Any:
    w, op = use.writer, use.operator
    names = [f.operator.short_name.removeprefix("ACTIVATION_") for f in use.activation_descs]
    if use.input_tensor.dtype != np.float32 or not set(names) <= _ACTIVATIONS.keys():
        return NotImplemented

    steps, batch, _ = use.input_tensor.shape[1:]

    def less(x: Value | None, count: int) -> Value | None:
        """Return a tensor without its first dimensions, of size 1."""
        return None if x is None else w.reshape(x, x.shape[count:])

    lengths = less(use.sequence_lengths_tensor, 3)
    if lengths is not None:  # DirectML takes longer ones for the whole sequence
        lengths = w("Min", w.cast(lengths, np.int32), w.constant(np.int32(steps)))
    inputs = [
        less(use.input_tensor, 1),
        less(use.weight_tensor, 1),
        less(use.recurrence_tensor, 1),
        less(use.bias_tensor, 2),
        lengths,
        less(use.hidden_init_tensor, 1),
    ]
    named: dict[str, Any] = {
        "activations": [_ACTIVATIONS[name] for name in names],
        "direction": _DIRECTIONS[use.direction.name],
        "hidden_size": int(use.recurrence_tensor.shape[-1]),
    }
    if op.short_name == "GRU":
        named["linear_before_reset"] = int(use.linear_before_reset)
    if op.short_name == "LSTM":
        inputs += [less(use.cell_mem_init_tensor, 1), less(use.peephole_tensor, 2)]
        named["input_forget"] = int(use.couple_input_forget)
        if use.use_clip_threshold:
            named["clip"] = float(use.clip_threshold)
    directions, hidden = use.recurrence_tensor.shape[1], named["hidden_size"]
    single = (None, (directions, batch, hidden))
    results = [(None, (steps, directions, batch, hidden)), single]
    results += [single] * (op.short_name == "LSTM")
    made = w.several(op.short_name, *inputs, results=results, **named)
    return [
        w.reshape(x, getattr(op, f.name).sizes)
        for f, x in zip(op.outputs_of(), made, strict=True)
        if getattr(op, f.name) is not None
    ]
