"""Records of RNN, LSTM and GRU: a loop over sequences, passes and steps."""

from typing import Any

import numpy as np

from dml_jax import TensorDesc
from dml_jax.operator import Operator
from records import Fields, Record, Rng, Types, activated, fused_activations

GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}


def draw(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw a network of a few units, with any of the tensors and outputs that may be left out."""
    direction = str(rng.choice(["FORWARD", "BACKWARD", "BIDIRECTIONAL"]))
    d, gates = 1 + (direction == "BIDIRECTIONAL"), GATES[op_class.short_name]
    s, n, i, k = (int(size) for size in rng.integers(1, 4, 4))
    shapes = {
        "input_tensor": (1, s, n, i),
        "weight_tensor": (1, d, gates * k, i),
        "recurrence_tensor": (1, d, gates * k, k),
        "bias_tensor": (1, 1, d, 2 * gates * k),
        "sequence_lengths_tensor": (1, 1, 1, n),
        "peephole_tensor": (1, 1, d, 3 * k),
        "output_sequence_tensor": (s, d, n, k),
    }
    fields: Fields = {"direction": direction}
    for f in op_class.fields:
        if f.tensor:
            kept = not f.optional or rng.random() < 0.6 or f.name == "output_single_tensor"
            shape = shapes.get(f.name, (1, d, n, k))
            fields[f.name] = TensorDesc(types[f.name], shape) if kept else None
        elif f.name == "clip_threshold":
            fields[f.name] = float(rng.integers(0, 5)) / 4
        elif f.name not in ("direction", "activation_descs"):
            fields[f.name] = bool(rng.integers(2))
    smooth = [a for a in fused_activations() if a.Type in SMOOTH]
    fields["activation_descs"] = list(rng.choice(np.array(smooth), d * COUNTS[gates]))
    return fields


COUNTS = {1: 1, 3: 2, 4: 3}
SMOOTH = [f"ACTIVATION_{name}" for name in ("SIGMOID", "TANH", "SOFTSIGN", "SCALED_TANH", "LINEAR")]


def smallest(gates: int) -> dict[str, Any]:
    """Return a pass of one step over one sequence, with one unit."""
    lasts = {"weight_tensor": (gates, 1), "recurrence_tensor": (gates, 1)}
    lasts |= {"bias_tensor": (1, 2 * gates), "peephole_tensor": (1, 3)}
    shapes = {
        name: lambda rank, types, last=last: [*[1] * (rank - 2), *last]
        for name, last in lasts.items()
    }
    activations = fused_activations()[:1] * COUNTS[gates]
    return {**shapes, "direction": "FORWARD", "activation_descs": activations}


def over_time(op: Any, x: Any, lengths: Any, states: list[Any], step: Any) -> list[Any]:
    """Return the sequence and the last states; `step(d, x, *states)` is of one sequence.

    Args:
        op: the operator.
        x: [1, S, N, I].
        lengths: [1, 1, 1, N], or None.
        states: the tensors of the first states, or None.
        step: makes the states after a step in direction `d`.
    """
    _, s, n, _ = x.shape
    d, k = op.weight_tensor.sizes[1], op.recurrence_tensor.sizes[3]
    sequence = np.zeros((s, d, n, k))
    last = [np.zeros((1, d, n, k)) if state is None else state.copy() for state in states]
    for direction in range(d):
        backward = op.direction.suffix == "BACKWARD" or direction == 1
        for b in range(n):
            length = s if lengths is None else min(int(lengths[0, 0, 0, b]), s)
            times = range(length)
            for t in reversed(times) if backward else times:
                old = [state[0, direction, b] for state in last]
                for state, new in zip(last, step(direction, x[0, t, b], *old), strict=True):
                    state[0, direction, b] = new
                sequence[t, direction, b] = last[0][0, direction, b]
    return [sequence, *last]


def halves(bias: Any, op: Any) -> tuple[Any, Any]:
    """Return the biases of the weights and of the recurrences, [D, G*K]; of None zeros."""
    d, rows = op.weight_tensor.sizes[1:3]
    whole = np.zeros((d, 2 * rows)) if bias is None else bias[0, 0]
    return whole[:, :rows], whole[:, rows:]


def rnn(op: Any, x: Any, w: Any, r: Any, bias: Any, h: Any, lengths: Any) -> list[Any]:
    wb, rb = halves(bias, op)

    def step(d: int, x: Any, h: Any) -> list[Any]:
        return [activated(op.activation_descs[d], w[0, d] @ x + r[0, d] @ h + wb[d] + rb[d])]

    return over_time(op, x, lengths, [h], step)


def lstm(
    op: Any, x: Any, w: Any, r: Any, bias: Any, h: Any, c: Any, lengths: Any, peephole: Any
) -> list[Any]:
    wb, rb = halves(bias, op)
    d, k = op.weight_tensor.sizes[1], op.recurrence_tensor.sizes[3]
    peeps = (np.zeros((d, 3 * k)) if peephole is None else peephole[0, 0]).reshape(d, 3, k)

    def clipped(v: Any) -> Any:
        limit = op.clip_threshold
        return np.clip(v, -limit, limit) if op.use_clip_threshold else v

    def step(d: int, x: Any, h: Any, c: Any) -> list[Any]:
        f, g, last = op.activation_descs[3 * d : 3 * d + 3]
        parts = w[0, d] @ x + r[0, d] @ h + wb[d] + rb[d]
        i, o, forget, new = parts.reshape(4, k)
        has_peeps = peephole is not None
        i = activated(f, clipped(i + peeps[d, 0] * c if has_peeps else i))
        kept = activated(f, clipped(forget + peeps[d, 2] * c if has_peeps else forget))
        c = (1 - i if op.couple_input_forget else kept) * c + i * activated(g, clipped(new))
        o = activated(f, clipped(o + peeps[d, 1] * c if has_peeps else o))
        return [o * activated(last, c), c]

    return over_time(op, x, lengths, [h, c], step)


def gru(op: Any, x: Any, w: Any, r: Any, bias: Any, h: Any, lengths: Any) -> list[Any]:
    wb, rb = halves(bias, op)
    k = op.recurrence_tensor.sizes[3]

    def step(d: int, x: Any, h: Any) -> list[Any]:
        f, g = op.activation_descs[2 * d : 2 * d + 2]
        wz, wr, wh = (w[0, d] @ x + wb[d]).reshape(3, k)
        rz, rr, rh = r[0, d].reshape(3, k, k)
        bz, br, bh = rb[d].reshape(3, k)
        z = activated(f, wz + rz @ h + bz)
        reset = activated(f, wr + rr @ h + br)
        inner = reset * (rh @ h + bh) if op.linear_before_reset else rh @ (reset * h) + bh
        return [(1 - z) * activated(g, wh + inner) + z * h]

    return over_time(op, x, lengths, [h], step)


PARTS: dict[str, Any] = {
    "draw": draw,
    "values": {"": (-1, 1), "sequence_lengths_tensor": (0, 1)},
    "ulp": 64,
    "rounds_on_gpus": True,
    "batch": (
        {"": 2, "sequence_lengths_tensor": 3}
        | dict.fromkeys(("weight_tensor", "recurrence_tensor", "bias_tensor", "peephole_tensor")),
    ),
}
RECORDS = {
    "RNN": Record(rnn, smallest=smallest(1), **PARTS),
    "LSTM": Record(lstm, smallest=smallest(4), **PARTS),
    "GRU": Record(gru, smallest=smallest(3), **PARTS),
}
