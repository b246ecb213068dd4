"""Records of the normalizations and of their gradients."""

from typing import Any

import numpy as np

from dml_jax import ActivationElu, ActivationSoftsign, ActivationTanh, TensorDesc
from dml_jax.operator import Operator
from records import LENGTHS, Fields, Record, Rng, Types, activated, sizes

# Without a corner at 0.
FUSED = [None, ActivationElu.fused(alpha=1), ActivationSoftsign.fused(), ActivationTanh.fused()]
WHOLE = ("input_tensor", "input_gradient_tensor", "fused_add_tensor")


def some_ones(rng: Rng, shape: list[int]) -> list[int]:
    """Return sizes of which some are 1."""
    return [n if rng.integers(2) else 1 for n in shape]


def draw(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw a tensor of any rank, parameters of which some sizes are 1, and some axes."""
    of_images = op_class.short_name.startswith("LOCAL") or any(
        f.name == "cross_channel" for f in op_class.fields
    )
    shape = rng.integers(2, 4, 4).tolist() if of_images else sizes(rng)
    are_equal = op_class.short_name.startswith("BATCH_NORMALIZATION_")
    few = some_ones(rng, shape)
    drawn: Fields = {}
    for f in op_class.fields:
        if f.tensor and not f.tensor.output and not (f.optional and rng.integers(2)):
            own = few if are_equal else some_ones(rng, shape)
            drawn[f.name] = TensorDesc(types[f.name], shape if f.name in WHOLE else own)
    rank = len(shape)
    drawn |= {
        "axes": rng.permutation(rank)[: rng.integers(1, rank + 1)].tolist(),
        "axis": int(rng.integers(rank)),
        "p": int(rng.integers(1, 3)),
        "local_size": int(rng.integers(1, 6)),
        "fused_activation": FUSED[int(rng.integers(len(FUSED)))],
    }
    drawn |= {name: float(rng.integers(1, 9)) / 8 for name in ("epsilon", "alpha", "beta", "bias")}
    flags = ("spatial", "cross_channel", "use_mean", "use_variance", "normalize_variance")
    return drawn | {name: bool(rng.integers(2)) for name in flags}


def ones_of(x: np.ndarray) -> tuple[int, ...]:
    return tuple(d for d, n in enumerate(x.shape) if n == 1)


def batch(op: Any, x: Any, mean: Any, variance: Any, scale: Any, bias: Any) -> Any:
    y = scale * (x - mean) / np.sqrt(variance + op.epsilon) + bias
    return activated(op.fused_activation, y)


def batch_gradient(op: Any, x: Any, dy: Any, mean: Any, variance: Any, scale: Any) -> Any:
    axes, deviation = ones_of(mean), np.sqrt(variance + op.epsilon)
    of_scale = (dy * (x - mean) / deviation).sum(axes, keepdims=True)
    return dy * scale / deviation, of_scale, dy.sum(axes, keepdims=True)


def training(op: Any, x: Any, scale: Any, bias: Any, add: Any) -> Any:
    mean, variance = (f(x, ones_of(scale), keepdims=True) for f in (np.mean, np.var))
    y = scale * (x - mean) / np.sqrt(variance + op.epsilon) + bias
    return activated(op.fused_activation, y + (0 if add is None else add)), mean, variance


def training_gradient(op: Any, x: Any, dy: Any, mean: Any, variance: Any, scale: Any) -> Any:
    """Compute as the page prints it."""
    axes = ones_of(mean)
    centred = x - x.mean(axes, keepdims=True)
    first, second = 1 / np.sqrt(variance + op.epsilon), dy * centred
    ratio = centred * second.mean(axes, keepdims=True) / (variance + op.epsilon)
    of_input = scale * first * ((dy - dy.mean(axes, keepdims=True)) - ratio)
    return of_input, *batch_gradient(op, x, dy, mean, variance, scale)[1:]


def mean_variance(op: Any, x: Any, scale: Any, bias: Any) -> Any:
    by_mean, by_deviation = getattr(op, "use_mean", True), True
    for name in ("use_variance", "normalize_variance"):
        by_deviation = getattr(op, name, by_deviation)
    axes = tuple(op.axes)
    x = x - x.mean(axes, keepdims=True) if by_mean else x
    y = x / np.sqrt((x**2).mean(axes, keepdims=True) + op.epsilon) if by_deviation else x
    y = y * (1 if scale is None else scale) + (0 if bias is None else bias)
    return activated(op.fused_activation, y)


def around(op: Any, place: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the window of an element."""
    before, behind = (op.local_size - 1) // 2, op.local_size // 2
    return tuple(
        slice(max(0, i - before), i + behind + 1)
        if (d == 1 if op.cross_channel else d > 1)
        else slice(i, i + 1)
        for d, i in enumerate(place)
    )


def bases(op: Any, x: np.ndarray) -> np.ndarray:
    sums = [(x[around(op, place, x.shape)] ** 2).sum() for place in np.ndindex(x.shape)]
    return op.bias + op.alpha / op.local_size * np.reshape(sums, x.shape)


def local_response_gradient(op: Any, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Add what each element gives to those of its window."""
    base = bases(op, x)
    gradient = dy * base**-op.beta
    terms = 2 * op.alpha * op.beta / op.local_size * dy * x * base ** (-op.beta - 1)
    for place in np.ndindex(x.shape):
        window = around(op, place, x.shape)
        gradient[window] -= x[window] * terms[place]
    return gradient


def lp(op: Any, x: np.ndarray) -> np.ndarray:
    norm = np.linalg.norm(x, op.p, op.axis, keepdims=True)
    return x / np.maximum(norm, op.epsilon)


POSITIVE = {"": (-4.0, 4.0), "variance_tensor": (0.25, 4)}
AXES = {"axes": [0]}

# Sums cancel: results near 0 have the error of larger terms.
RECORDS = {
    "BATCH_NORMALIZATION": Record(batch, draw, values=POSITIVE, ulp=64),
    "BATCH_NORMALIZATION_GRAD": Record(batch_gradient, draw, values=POSITIVE, ulp=64),
    "BATCH_NORMALIZATION_TRAINING": Record(training, draw, ulp=64, special=False),
    "BATCH_NORMALIZATION_TRAINING_GRAD": Record(
        training_gradient, draw, values=POSITIVE, ulp=256, special=False
    ),
    "MEAN_VARIANCE_NORMALIZATION": Record(mean_variance, draw, ulp=64, special=False),
    **dict.fromkeys(
        ("MEAN_VARIANCE_NORMALIZATION1", "MEAN_VARIANCE_NORMALIZATION2"),
        Record(mean_variance, draw, attributes=AXES, ulp=64, special=False, unbroken=LENGTHS),
    ),
    "LOCAL_RESPONSE_NORMALIZATION": Record(lambda op, x: x / bases(op, x) ** op.beta, draw, ulp=16),
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": Record(
        local_response_gradient, draw, ulp=64, special=False
    ),
    "LP_NORMALIZATION": Record(lp, draw, attributes={"axis": 0}, ulp=8),
}
