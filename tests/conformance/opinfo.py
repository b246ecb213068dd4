"""PyTorch's own samples of its operators (`op_db`), with values, first and second gradients.

`FUNCTIONS` says each of PyTorch's operators in this package's functions. PyTorch answers in
float64. Its answers to some samples are kept (`opinfo.npz`), since it is large;
`python -m conformance.opinfo`, in tests/ and with PyTorch and expecttest, asks it anew, and with
`all` compares every sample.
"""

import contextlib
import functools
import importlib
import json
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from conformance.cases import Case
from forms import compiled_soon

import dml_jax
from dml_jax import GraphBuilder, TensorDesc

FILE = Path(__file__).with_suffix(".npz")
KEPT = 2  # samples of each operator
MOST_ELEMENTS = 4096  # of a sample
LEAST = 1.0  # the size of terms: where those of a gradient cancel, their rounding stays
FIELDS = "- the operator's fields are FLOAT32"
Array = Any


class _Functions:
    """The functions of the package; of FLOAT64, which many operators lack, beyond DirectML."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(dml_jax, name)

        def call(*positional: Any, **named: Any) -> Any:
            leaves, tree = jax.tree.flatten((positional, named))
            if np.float64 not in [getattr(leaf, "dtype", None) for leaf in leaves]:
                return function(*positional, **named)
            builder, arrays = GraphBuilder(beyond=True), dict[str, Array]()
            for k, leaf in enumerate(leaves):
                if isinstance(leaf, jax.Array | np.ndarray):
                    array = jnp.asarray(leaf, np.uint8 if leaf.dtype == bool else leaf.dtype)
                    name, desc = f"x{k}", TensorDesc.of(array)
                    leaves[k], arrays[name] = builder.input_tensor(name, desc), array
            positional, named = jax.tree.unflatten(tree, leaves)
            results, tree = jax.tree.flatten(function(*positional, **named))
            graph = builder.build(results, only_read=True)
            read = [arrays[name] for name in graph.input_names or ()]
            return jax.tree.unflatten(tree, graph.compute(*read))

        return call


dml: Any = _Functions()


class Beyond(Exception):  # noqa: N818  (no error: a sample that the functions do not express)
    """Says why a sample is left out."""


def only(is_met: bool, reason: str) -> None:
    """Raise `Beyond` with `reason` where a sample does not meet a condition."""
    if not is_met:
        raise Beyond(reason)


def promoted(arrays: Sequence[Array]) -> list[Array]:
    """Return arrays of one rank."""
    rank = max(x.ndim for x in arrays)
    return [x.reshape((1,) * (rank - x.ndim) + x.shape) for x in arrays]


def scaled(name: str) -> Callable[..., Array]:
    """Return `x op alpha * y`."""

    def call(x: Array, y: Any, alpha: float = 1) -> Array:
        return getattr(dml, name)(x, y if alpha == 1 else alpha * y)

    return call


def axes_of(x: Array, dim: Any) -> list[int]:
    if dim is None or dim == ():
        return list(range(x.ndim))
    return sorted(d % x.ndim for d in (dim if isinstance(dim, tuple | list) else [dim]))


def reduction(function: str) -> Callable[..., Array]:
    def call(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
        axes = axes_of(x, dim)
        result = dml.reduce(x, function, axes=axes)
        return result if keepdim else jnp.squeeze(result, axes)

    return call


def vector_norm(x: Array, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Array:
    kinds = {1: "L1", 2: "L2", math.inf: "MAX", -math.inf: "MIN"}
    only(ord in kinds, "REDUCE has the norms of order 1, 2 and infinity")
    x = dml.abs(x) if abs(ord) == math.inf else x
    return reduction(kinds[ord])(x, dim, keepdim)


def arg(name: str) -> Callable[..., Array]:
    def call(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        flat, axis = (x.reshape(-1), 0) if dim is None else (x, dim % x.ndim)
        result = getattr(dml, name)(flat, axes=[axis], output_data_type="INT64")
        if dim is None:
            return result.reshape((1,) * x.ndim if keepdim else ())
        return result if keepdim else jnp.squeeze(result, axis)

    return call


def softmax(name: str, is_negated: bool = False) -> Callable[..., Array]:
    def call(x: Array, dim: int) -> Array:
        return getattr(dml, name)(dml.negate(x) if is_negated else x, axes=[dim])

    return call


def product(a: Array, b: Array) -> Array:
    """Return what torch.matmul does: vectors become matrices, batches of any rank are broadcast."""
    left, right = a.ndim == 1, b.ndim == 1
    a, b = a[None] if left else a, b[:, None] if right else b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    flat = dml.gemm(a.reshape(-1, 1, *a.shape[-2:]), b.reshape(-1, 1, *b.shape[-2:]))
    result = flat.reshape(*batch, *flat.shape[-2:])
    result = result[..., 0, :] if left else result
    return result[..., 0] if right else result


def gemm(c: Array, a: Array, b: Array, beta: float = 1, alpha: float = 1) -> Array:
    return dml.gemm(a, b, c, alpha=alpha, beta=beta)


def linear(x: Array, w: Array, bias: Array | None = None) -> Array:
    result = product(x, w.T)
    return result if bias is None else dml.add(result, bias)


def pair(value: Any, n: int) -> list[int]:
    """Return a number, or a list of `n` of them, as such a list."""
    listed = list(value) if isinstance(value, tuple | list) else [value]
    return listed if len(listed) == n else listed * n


def batched(x: Array, n: int) -> tuple[Array, bool]:
    """Return an image, or images, of `n` spatial dimensions as images."""
    return (x[None], True) if x.ndim == n + 1 else (x, False)


def convolution(n: int, is_transposed: bool = False) -> Callable[..., Array]:
    def call(
        x: Array,
        w: Array,
        bias: Array | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Array:
        x, is_one = batched(x, n)
        dilations, more = pair(dilation, n), pair(output_padding, n)
        spans = [(k - 1) * d for k, d in zip(w.shape[2:], dilations, strict=True)]
        if padding == "same":
            start, end = [s // 2 for s in spans], [s - s // 2 for s in spans]
        else:
            start = end = pair(0 if padding == "valid" else padding, n)
        # PyTorch's output padding shows what the padding at the end cut off first.
        shown = [min(e, m) for e, m in zip(end, more, strict=True)] if is_transposed else [0] * n
        result = dml.convolution(
            x,
            w,
            bias,
            direction="BACKWARD" if is_transposed else "FORWARD",
            strides=pair(stride, n),
            dilations=dilations,
            start_padding=start,
            end_padding=[e - s for e, s in zip(end, shown, strict=True)],
            output_padding=[m - s for m, s in zip(more, shown, strict=True)],
            group_count=groups,
        )
        return result[0] if is_one else result

    return call


def pooled_sizes(x: Array, k: Any, s: Any, p: Any, d: Any, is_ceiled: bool) -> list[int]:
    """Return the sizes of a pool's output, as PyTorch's pages define them."""
    found = []
    for size, kernel, step, pad, apart in zip(x.shape[2:], k, s, p, d, strict=True):
        free = size + 2 * pad - (kernel - 1) * apart - 1
        count = (-(-free // step) if is_ceiled else free // step) + 1
        found.append(count - (is_ceiled and (count - 1) * step >= size + pad))
    return found


def pool(n: int, kind: str) -> Callable[..., Array]:
    def call(
        x: Array,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        dilation: Any = 1,
        return_indices: bool = False,
    ) -> Array:
        only(not divisor_override, "AVERAGE_POOLING divides by the window's own size")
        only(not (ceil_mode and kind == "average"), "windows beyond the padding count otherwise")
        x, is_one = batched(x, n)
        k, p, d = pair(kernel_size, n), pair(padding, n), pair(dilation, n)
        s = pair(stride, n) if stride else k
        sizes = [*x.shape[:2], *pooled_sizes(x, k, s, p, d, ceil_mode)]
        if n == 1:  # pooling has two dimensions or three
            x, sizes = x[:, :, None], [*sizes[:2], 1, sizes[2]]
            k, s, p, d = [1, *k], [1, *s], [0, *p], [1, *d]
        given: dict[str, Any] = {"strides": s, "dilations": d, "output_sizes": sizes}
        given |= {"start_padding": p, "end_padding": p}
        if kind == "average":
            results = [
                dml.average_pooling(x, window_sizes=k, include_padding=count_include_pad, **given)
            ]
        else:
            found = dml.max_pooling(x, window_size=k, output_indices=return_indices, **given)
            results = [found[0]]
            if return_indices:
                # PyTorch counts the elements of a channel, DirectML these of all channels.
                plane = math.prod(x.shape[2:])
                results.append(found[1].astype(np.int64) % jnp.int64(plane))
        results = [r[:, :, 0] if n == 1 else r for r in results]
        results = [r[0] if is_one else r for r in results]
        return results[0] if len(results) == 1 else tuple(results)

    return call


def layer_norm(
    x: Array,
    shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    parts = [None if v is None else promoted([v, x])[0] for v in (weight, bias)]
    axes = range(x.ndim - len(shape), x.ndim)
    return dml.mean_variance_normalization(x, *parts, axes=list(axes), epsilon=eps)


def by_channel(v: Any, rank: int) -> Any:
    return None if v is None else v.reshape(1, -1, *[1] * (rank - 2))


def group_norm(
    x: Array, groups: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> Array:
    grouped = x.reshape(x.shape[0], groups, -1)
    plain = dml.mean_variance_normalization(grouped, axes=[2], epsilon=eps).reshape(x.shape)
    if weight is not None:
        plain = dml.multiply(plain, by_channel(weight, x.ndim))
    return plain if bias is None else dml.add(plain, by_channel(bias, x.ndim))


def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,  # of the running statistics, which are no output
    eps: float = 1e-5,
) -> Array:
    flat = x.reshape(*x.shape, *[1] * (4 - x.ndim)) if x.ndim < 4 else x
    weight = jnp.ones(x.shape[1], x.dtype) if weight is None else weight
    bias = jnp.zeros(x.shape[1], x.dtype) if bias is None else bias
    if training:
        found = dml.batch_normalization_training(flat, weight, bias, epsilon=eps)
        return found[0].reshape(x.shape)
    return dml.batch_normalization(flat, mean, variance, weight, bias, epsilon=eps).reshape(x.shape)


def local_response(
    x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Array:
    only(size % 2 == 1, "LOCAL_RESPONSE_NORMALIZATION's window is odd around its element")
    flat = x.reshape(*x.shape[:2], -1, 1)
    return dml.local_response_normalization(flat, True, size, alpha, beta, k).reshape(x.shape)


def upsampled(mode: str) -> Callable[..., Array]:
    def call(x: Array, size: Any = None, scale_factor: Any = None) -> Array:
        only(scale_factor is None, "the scale of a size that is rounded is PyTorch's own choice")
        only(x.ndim <= 4, "RESAMPLE2 has at most 4 dimensions")
        sizes = [*x.shape[:2], *pair(size, x.ndim - 2)]
        scales = [o / i for o, i in zip(sizes, x.shape, strict=True)]
        if mode == "LINEAR":  # between corners
            only(all(n > 1 for n in sizes[2:]), "corners of one element have no scale")
            pairs = zip(sizes[2:], x.shape[2:], strict=True)
            scales = [1.0, 1.0, *((o - 1) / (i - 1) for o, i in pairs)]
        zeros = [0.0] * x.ndim
        return dml.resample(x, sizes, mode, "DECREASING", scales, zeros, zeros)

    return call


def attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    only(not dropout_p, "the operators draw no random numbers between others")
    only(attn_mask is None and not is_causal and not enable_gqa, "the mask is a bias of DirectML's")
    only(query.ndim == key.ndim == value.ndim == 4, "attention is of batches of heads")
    only(query.shape[:2] == key.shape[:2] == value.shape[:2], "batches are of one size")
    heads = query.shape[1]
    flat = [
        x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1) for x in (query, key, value)
    ]
    scale = scale or query.shape[-1] ** -0.5
    result = dml.multihead_attention(scale, -1e30, heads, heads, "NONE", *flat)[0]
    return result.reshape(query.shape[0], query.shape[2], heads, -1).transpose(0, 2, 1, 3)


def index_select(x: Array, dim: int, index: Array) -> Array:
    return dml.gather(x, index, dim)


def embedding(weight: Array, index: Array, padding_idx: int | None = None, **more: Any) -> Array:
    only(not more and padding_idx is None, "options of the gradient alone")
    return dml.gather(weight, index, 0)


def scatter(x: Array, dim: int, index: Array, src: Any, reduce: str | None = None) -> Array:
    only(reduce is None, "SCATTER_ELEMENTS has no reductions")
    only(hasattr(src, "shape") and src.shape == index.shape, "updates are of the indices' sizes")
    axis = dim % x.ndim
    others = (tuple(np.delete(a.shape, axis)) for a in (x, index))
    only(len({*others}) == 1, "SCATTER_ELEMENTS has all lines of its input")
    rows = np.moveaxis(np.asarray(index), axis, 0)
    unique = all(len(np.unique(c)) == len(c) for c in rows.reshape(len(rows), -1).T)
    only(unique, "which of several updates stays is nobody's rule")
    return dml.scatter_elements(x, index, src, axis)


def along(x: Array, index: Array, dim: int | None = None) -> Array:
    if dim is None:
        return dml.gather_elements(x.reshape(-1), index.reshape(-1), 0)
    axis = dim % x.ndim
    shape = list(np.broadcast_shapes(x.shape[:axis], index.shape[:axis]))
    rest = list(np.broadcast_shapes(x.shape[axis + 1 :], index.shape[axis + 1 :]))
    x = jnp.broadcast_to(x, (*shape, x.shape[axis], *rest))
    return dml.gather_elements(x, jnp.broadcast_to(index, (*shape, index.shape[axis], *rest)), axis)


def flipped(x: Array, dims: Sequence[int]) -> Array:
    dims = [d % x.ndim for d in dims]
    steps = [-1 if d in dims else 1 for d in range(x.ndim)]
    return dml.slice(x, [0] * x.ndim, x.shape, steps)


def triangle(is_upper: bool) -> Callable[..., Array]:
    def call(x: Array, diagonal: int = 0) -> Array:
        n, m = x.shape[-2:]
        begin, end = (-n, diagonal) if is_upper else (diagonal + 1, m)  # which are filled
        return dml.diagonal_matrix(x.shape, x.dtype.name.upper(), 0.0, begin, end, x)

    return call


def clamped(x: Array, low: Any = None, high: Any = None) -> Array:
    only(all(v is None or v.dtype == x.dtype for v in (low, high)), "bounds have the input's type")
    x = x if low is None else dml.max(x, low)
    return x if high is None else dml.min(x, high)


def cumulated(name: str) -> Callable[..., Array]:
    return lambda x, dim: getattr(dml, name)(x, dim)


def top_k(x: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Array:
    found = dml.top_k(x, dim, k, "DECREASING" if largest else "INCREASING")
    return found[0], found[1].astype(np.int64)


def split(x: Array, size: Any, dim: int = 0) -> tuple[Array, ...]:
    n = x.shape[dim]
    sizes = list(size) if isinstance(size, tuple | list) else [size] * (n // size)
    sizes += [n - sum(sizes)] * (sum(sizes) < n)
    return dml.split(x, dim, sizes)


def chunk(x: Array, count: int, dim: int = 0) -> tuple[Array, ...]:
    return split(x, -(-x.shape[dim] // count), dim)


def narrow(x: Array, dim: int, start: Any, length: int) -> Array:
    only(isinstance(start, int), "offsets are attributes")
    axis = dim % x.ndim
    offsets = [start % x.shape[axis] if d == axis else 0 for d in range(x.ndim)]
    sizes = [length if d == axis else n for d, n in enumerate(x.shape)]
    return dml.slice(x, offsets, sizes, [1] * x.ndim)


def repeated(x: Array, repeats: Sequence[int]) -> Array:
    rank = max(x.ndim, len(repeats))
    only(all(repeats) and rank > 0, "there are no tensors of size 0")
    x = x.reshape((1,) * (rank - x.ndim) + x.shape)
    return dml.tile(x, [1] * (rank - len(repeats)) + list(repeats))


def normalized(x: Array, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Array:
    only(p in (1.0, 2.0) and eps == 1e-12, "LP_NORMALIZATION has p 1 and 2")
    return dml.lp_normalization(x, dim, 1e-30, int(p))


def one_hot(indices: Array, num_classes: int = -1) -> Array:
    count = num_classes if num_classes > 0 else int(np.max(np.asarray(indices))) + 1
    values = jnp.array([0, 1], np.int64).reshape((1,) * indices.ndim + (2,))
    return dml.one_hot(indices[..., None], values, count, indices.ndim)


def softplus(x: Array, beta: float = 1, threshold: float = 20) -> Array:
    soft = dml.activation_softplus(x, steepness=beta)
    return dml.if_(dml.greater_than(x, threshold / beta), x, soft)


def gelu(x: Array, approximate: str = "none") -> Array:
    only(approximate == "none", "ACTIVATION_GELU is the exact one")
    return dml.activation_gelu(x)


def by_fields(name: str, *fields: float) -> Callable[..., Array]:
    """Return an activation whose fields are no numbers of FLOAT32."""

    def call(x: Array) -> Array:
        only(x.dtype == np.float32, FIELDS.removeprefix("- "))
        return getattr(dml, name)(x, *fields)

    return call


def prelu(x: Array, weight: Array) -> Array:
    slope = weight if weight.ndim == 0 or x.ndim < 2 else by_channel(weight, x.ndim)
    return dml.activation_parameterized_relu(x, slope)


def lerp(x: Array, end: Array, weight: Any) -> Array:
    return dml.add(x, dml.multiply(weight, dml.subtract(end, x)))


def combined(name: str) -> Callable[..., Array]:
    def call(x: Array, a: Array, b: Array, value: float = 1) -> Array:
        part = getattr(dml, name)(a, b)
        return dml.add(x, part if value == 1 else dml.multiply(part, value))

    return call


def unfold(x: Array, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Array:
    x, is_one = batched(x, 2)
    k, d, p, s = (pair(v, 2) for v in (kernel, dilation, padding, stride))
    result = dml.unfold(x, k, s, d, p, p)
    return result[0] if is_one else result


def pixels(name: str) -> Callable[..., Array]:
    def call(x: Array, upscale_factor: int = 1, downscale_factor: int = 1) -> Array:
        factor = upscale_factor * downscale_factor
        only(x.ndim == 4 and factor > 1, "blocks are of images, and of several elements")
        n, c, h, w = x.shape
        if name == "depth_to_space":  # PyTorch numbers the channels by column, row, depth
            return dml.depth_to_space(x, factor, "COLUMN_ROW_DEPTH")
        found = dml.space_to_depth(x, factor, "COLUMN_ROW_DEPTH")
        return found.reshape(n, c * factor**2, h // factor, w // factor)

    return call


def logical(name: str) -> Callable[..., Array]:
    return lambda *xs: getattr(dml, name)(*(x != 0 for x in xs)).astype(bool)


def compared(name: str) -> Callable[..., Array]:
    return lambda x, y: getattr(dml, name)(x, y).astype(bool)


def shrink(bias: float) -> Callable[..., Array]:
    return lambda x, lambd=0.5: dml.activation_shrink(x, lambd * bias, lambd)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{n: getattr(dml, n) for n in ("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh")},
    **{n: getattr(dml, n) for n in ("ceil", "cos", "cosh", "erf", "exp", "floor", "log", "sign")},
    **{n: getattr(dml, n) for n in ("sin", "sinh", "sqrt", "tan", "tanh")},
    "neg": dml.negate,
    "reciprocal": dml.recip,
    "round": lambda x, decimals=0: dml.round(x),
    "trunc": lambda x: dml.round(x, "TOWARD_ZERO"),
    "square": lambda x: dml.multiply(x, x),
    "rsqrt": lambda x: dml.recip(dml.sqrt(x)),
    "frac": lambda x: dml.subtract(x, dml.round(x, "TOWARD_ZERO")),
    "positive": dml.identity,
    "sgn": dml.sign,
    "isnan": lambda x: dml.is_nan(x).astype(bool),
    "isinf": lambda x: dml.is_infinity(x).astype(bool),
    "logical_not": logical("logical_not"),
    "bitwise_not": dml.bit_not,
    "sigmoid": dml.activation_sigmoid,
    "nn.functional.celu": lambda x: dml.activation_celu(x, 1.0),
    "nn.functional.elu": dml.activation_elu,
    "nn.functional.gelu": gelu,
    "nn.functional.hardshrink": shrink(0),
    "nn.functional.softshrink": shrink(1),
    "nn.functional.hardsigmoid": by_fields("activation_hard_sigmoid", 1 / 6, 0.5),
    "nn.functional.hardswish": by_fields("activation_hard_swish", 1 / 6, 0.5),
    "nn.functional.hardtanh": lambda x, min_val=-1, max_val=1: dml.clip(x, min_val, max_val),
    "nn.functional.leaky_relu": lambda x, negative_slope=0.01: dml.activation_leaky_relu(
        x, negative_slope
    ),
    "nn.functional.prelu": prelu,
    "nn.functional.relu": dml.activation_relu,
    "nn.functional.relu6": lambda x: dml.clip(x, 0, 6),
    "nn.functional.selu": by_fields("activation_scaled_elu"),
    "nn.functional.silu": lambda x: dml.activation_swish(x, 1.0),
    "nn.functional.softmin": softmax("activation_softmax", True),
    "nn.functional.softplus": softplus,
    "nn.functional.softsign": dml.activation_softsign,
    "softmax": softmax("activation_softmax"),
    "log_softmax": softmax("activation_log_softmax"),
    "add": scaled("add"),
    "sub": scaled("subtract"),
    "rsub": lambda x, y, alpha=1: scaled("subtract")(y, x, alpha),
    "mul": dml.multiply,
    "true_divide": dml.divide,
    "pow": dml.pow,
    "maximum": dml.max,
    "minimum": dml.min,
    "atan2": dml.atan_yx,
    "fmod": dml.modulus_truncate,
    "remainder": dml.modulus_floor,
    "bitwise_and": dml.bit_and,
    "bitwise_or": dml.bit_or,
    "bitwise_xor": dml.bit_xor,
    "eq": compared("equals"),
    "ne": lambda x, y: dml.logical_not(dml.equals(x, y)).astype(bool),
    "gt": compared("greater_than"),
    "ge": compared("greater_than_or_equal"),
    "lt": compared("less_than"),
    "le": compared("less_than_or_equal"),
    "logical_and": logical("logical_and"),
    "logical_or": logical("logical_or"),
    "logical_xor": logical("logical_xor"),
    "lerp": lerp,
    "addcmul": combined("multiply"),
    "addcdiv": combined("divide"),
    "sum": reduction("SUM"),
    "mean": reduction("AVERAGE"),
    "prod": reduction("MULTIPLY"),
    "amax": reduction("MAX"),
    "amin": reduction("MIN"),
    "logsumexp": reduction("LOG_SUM_EXP"),
    "linalg.vector_norm": vector_norm,
    "argmax": arg("argmax"),
    "argmin": arg("argmin"),
    "cumsum": cumulated("cumulative_summation"),
    "cumprod": cumulated("cumulative_product"),
    "topk": top_k,
    "matmul": product,
    "mm": product,
    "mv": product,
    "bmm": product,
    "dot": product,
    "addmm": gemm,
    "baddbmm": gemm,
    "nn.functional.linear": linear,
    **{f"nn.functional.conv{n}d": convolution(n) for n in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{n}d": convolution(n, True) for n in (1, 2, 3)},
    **{f"nn.functional.avg_pool{n}d": pool(n, "average") for n in (1, 2, 3)},
    **{f"nn.functional.max_pool{n}d": pool(n, "max") for n in (1, 2, 3)},
    "nn.functional.batch_norm": batch_norm,
    "nn.functional.group_norm": group_norm,
    "nn.functional.layer_norm": layer_norm,
    "nn.functional.local_response_norm": local_response,
    "nn.functional.normalize": normalized,
    "nn.functional.upsample_nearest": upsampled("NEAREST_NEIGHBOR"),
    "nn.functional.upsample_bilinear": upsampled("LINEAR"),
    "nn.functional.scaled_dot_product_attention": attention,
    "nn.functional.embedding": embedding,
    "nn.functional.one_hot": one_hot,
    "nn.functional.unfold": unfold,
    "nn.functional.pixel_shuffle": pixels("depth_to_space"),
    "nn.functional.pixel_unshuffle": pixels("space_to_depth"),
    "gather": lambda x, dim, index: dml.gather_elements(x, index, dim),
    "take_along_dim": along,
    "index_select": index_select,
    "scatter": scatter,
    "flip": flipped,
    "tril": triangle(False),
    "triu": triangle(True),
    "where": lambda x, condition, y: dml.if_(condition, x, y),
    "masked_fill": lambda x, mask, value: dml.if_(mask, value, x),
    "clamp": clamped,
    "clamp_min": dml.max,
    "clamp_max": dml.min,
    "cat": lambda xs, dim=0: dml.join(list(xs), dim),
    "split": split,
    "chunk": chunk,
    "narrow": narrow,
    "tile": repeated,
    "repeat": repeated,
}
# Units in the last place of FLOAT32, of the largest magnitude of an output.
UNITS = {"addcmul": 128, "nn.functional.conv3d": 32, "prod": 64, "cumprod": 64}
DEFAULT_UNITS = 16


@dataclass
class Sample:
    """A sample of an operator, with what PyTorch says of it in float64.

    Attributes:
        name: the operator, as `op_db` has it.
        number: which of its samples it is.
        leaves: its arrays; floats are numbers of FLOAT32.
        spec: its arguments, with `{"$": k}` for leaf k.
        outputs: the outputs.
        gradients: lists, one array a float leaf: the gradients of a weighted sum of the outputs,
            and of a weighted sum of these gradients; fewer where PyTorch has none.
    """

    name: str
    number: int
    leaves: list[np.ndarray]
    spec: Any
    outputs: list[np.ndarray]
    gradients: list[list[np.ndarray]] = field(default_factory=list)


def weights(shape: Sequence[int], k: int) -> np.ndarray:
    """Return the numbers that weight output `k` in a sum."""
    return np.cos(np.arange(math.prod(shape)) * 1.7 + k).reshape(shape)


def filled(spec: Any, leaves: Sequence[Any]) -> Any:
    """Return the arguments of a sample with `leaves` in their places."""
    if isinstance(spec, dict) and "$" in spec:
        return leaves[spec["$"]]
    if isinstance(spec, dict):
        return {name: filled(value, leaves) for name, value in spec.items()}
    return tuple(filled(v, leaves) for v in spec) if isinstance(spec, list) else spec


def evaluate(sample: Sample, dtype: Any) -> tuple[list[Array], list[list[Array]]]:
    """Return this package's outputs and gradients for a sample, with floats of type `dtype`."""
    leaves = [np.atleast_1d(x) for x in sample.leaves]
    leaves = [x.astype(dtype) if x.dtype.kind == "f" else x for x in leaves]
    places = [k for k, x in enumerate(leaves) if x.dtype.kind == "f"]

    arrays = [jnp.asarray(x) for x in leaves]  # of which integers are known to a program

    def outputs(*floats: Array) -> list[Array]:
        given = [*arrays]
        for place, x in zip(places, floats, strict=True):
            given[place] = x
        positional, named = filled(sample.spec, given)
        result = FUNCTIONS[sample.name](*positional, **named)
        results = list(result) if isinstance(result, tuple | list) else [result]
        return [r.reshape(o.shape) for r, o in zip(results, sample.outputs, strict=True)]

    def total(values: Sequence[Array]) -> Array:
        floats = [(k, v) for k, v in enumerate(values) if jnp.issubdtype(v.dtype, jnp.floating)]
        return sum(jnp.sum(v * jnp.asarray(weights(v.shape, k), v.dtype)) for k, v in floats)

    def everything(floats: list[Array]) -> tuple[list[Array], list[list[Array]]]:
        first = jax.grad(lambda xs: total(outputs(*xs)))
        second = jax.grad(lambda xs: total(first(xs)))
        return outputs(*floats), [f(floats) for f in (first, second)[: len(sample.gradients)]]

    return compiled_soon(everything)([arrays[k] for k in places])


def check(sample: Sample, is_double: bool = False) -> None:
    """Raise `AssertionError` where this package's answer is not PyTorch's."""
    dtype = np.float64 if is_double else np.float32
    with jax.enable_x64(True):
        found, gradients = evaluate(sample, dtype)
    units = UNITS.get(sample.name, DEFAULT_UNITS) * float(np.finfo(dtype).eps)
    for result, expected in zip(found, sample.outputs, strict=True):
        array = np.asarray(result)
        assert array.shape == expected.shape
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(array, expected)
        else:
            near(array, expected, units)
    for results, expectations in zip(gradients, sample.gradients, strict=True):
        for result, expected in zip(results, expectations, strict=True):
            near(np.asarray(result).reshape(expected.shape), expected, 8 * units, LEAST)


def near(array: np.ndarray, expected: np.ndarray, relative: float, least: float = 0.0) -> None:
    finite = np.abs(expected[np.isfinite(expected)])
    bound = relative * float(finite.max(initial=least))
    np.testing.assert_allclose(array, expected, rtol=relative, atol=bound)


# ------------------------------------------------------------------ PyTorch's side


def torch() -> Any:
    return importlib.import_module("torch")


def taken_apart(value: Any, leaves: list[Any]) -> Any:
    """Return `value` as JSON, with its tensors in `leaves`."""
    if isinstance(value, torch().Tensor):
        leaves.append(value)
        return {"$": len(leaves) - 1}
    if isinstance(value, tuple | list):
        return [taken_apart(v, leaves) for v in value]
    if isinstance(value, dict):
        return {name: taken_apart(v, leaves) for name, v in value.items()}
    only(value is None or isinstance(value, bool | int | float | str), "a type is an argument")
    return value


def asked(op: Any, number: int, given: Any) -> Sample:
    """Return what PyTorch says of one of its samples; raise `Beyond` where it cannot be said."""
    t, leaves = torch(), []
    spec = taken_apart([[given.input, *given.args], given.kwargs], leaves)
    only(all(0 < x.numel() <= MOST_ELEMENTS for x in leaves), "there are no tensors of size 0")
    only(all(not x.is_complex() for x in leaves), "there are no complex numbers")
    leaves = [x.float().double() if x.is_floating_point() else x for x in leaves]
    leaves = [x.detach().clone() for x in leaves]
    floats = [x.requires_grad_() for x in leaves if x.is_floating_point()]
    positional, named = filled(spec, leaves)
    result = op.op(*positional, **named)
    results = list(result) if isinstance(result, tuple | list) else [result]
    only(all(r.numel() for r in results), "there are no tensors of size 0")
    arrays = [r.detach().numpy() for r in results]
    magnitudes = np.concatenate(
        [np.abs(a[a != 0]).ravel() for a in arrays if a.dtype.kind == "f"] or [[1.0]]
    )
    is_inside = not (np.isfinite(magnitudes) & ((magnitudes < 1e-36) | (magnitudes > 1e36))).any()
    only(is_inside, "FLOAT32 has not the range")
    sample = Sample(op.name, number, [x.detach().numpy() for x in leaves], spec, arrays)
    smooth = [(k, r) for k, r in enumerate(results) if r.requires_grad]
    if not smooth or op.name in ("nn.functional.one_hot",):
        return sample

    def total(values: Sequence[tuple[int, Any]]) -> Any:
        return sum((v * t.from_numpy(weights(v.shape, k))).sum() for k, v in values)

    def gradients(value: Any) -> list[Any]:
        if not value.requires_grad:
            return [t.zeros_like(x) for x in floats]
        found = t.autograd.grad(value, floats, create_graph=True, allow_unused=True)
        dense = (g.to_dense() if g is not None and g.is_sparse else g for g in found)
        return [t.zeros_like(x) if g is None else g for g, x in zip(dense, floats, strict=True)]

    first = gradients(total(smooth))
    parts = [first]
    with contextlib.suppress(RuntimeError):  # PyTorch has no second derivative of some
        parts.append(gradients(total(list(enumerate(first)))))
    sample.gradients = [[g.numpy(force=True) for g in part] for part in parts]
    return sample


def samples(name: str) -> list[Callable[[], Sample]]:
    """Return a function for each sample of an operator, which asks PyTorch for its answer."""
    t = torch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        op = operators()[name]
        kind = next(k for k in (t.float64, t.int32, t.int64) if k in op.dtypes)
        t.manual_seed(0)
        given = list(op.sample_inputs("cpu", kind))
    return [partial(asked, op, number, one) for number, one in enumerate(given)]


@functools.cache
def operators() -> dict[str, Any]:
    module = importlib.import_module("torch.testing._internal.common_methods_invocations")
    found: dict[str, Any] = {}
    for op in module.op_db:
        found.setdefault(op.name, op)
    return found


def outcome(sample: Sample, is_double: bool = False) -> str:
    """Return "" where the package agrees, "- reason" where it is left out, or what is wrong."""
    try:
        check(sample, is_double)
    except Beyond as reason:
        return f"- {reason}"
    except Exception as error:
        return f"{sample.name} {sample.number}: {' '.join(str(error).split())}"
    return ""


def kept() -> tuple[str, list[Sample]]:
    """Return PyTorch's version, and the samples that are kept."""
    with np.load(FILE) as file:
        head = json.loads(str(file["head"]))
        found = []
        for k, entry in enumerate(head["samples"]):
            parts = {
                part: [file[f"{k}.{part}.{i}"] for i in range(entry[part])]
                for part in ("leaves", "outputs", "first", "second")
            }
            both = [p for p in (parts["first"], parts["second"]) if p]
            found.append(
                Sample(
                    entry["name"], entry["number"], parts["leaves"], entry["spec"],
                    parts["outputs"], both,
                )
            )  # fmt: skip
    return head["version"], found


def keep(chosen: Sequence[Sample]) -> None:
    """Write samples to the file that the tests read."""
    arrays: dict[str, Any] = {}
    entries = []
    for k, sample in enumerate(chosen):
        first, second = [*sample.gradients, [], []][:2]
        parts = {"leaves": sample.leaves, "outputs": sample.outputs, "first": first}
        parts["second"] = second
        entries.append(
            {"name": sample.name, "number": sample.number, "spec": sample.spec}
            | {part: len(values) for part, values in parts.items()}
        )
        for part, values in parts.items():
            arrays |= {f"{k}.{part}.{i}": value for i, value in enumerate(values)}
    head = {"version": torch().__version__, "samples": entries}
    np.savez_compressed(FILE, head=np.array(json.dumps(head)), **arrays)


def main() -> int:
    """Ask PyTorch: keep some samples of each operator, or with `all` compare every one."""
    chosen, failed = [], 0
    is_all = sys.argv[1:] == ["all"]
    for name in FUNCTIONS:
        run, wrong, good = 0, [], []
        asking = samples(name)
        for ask in asking:
            if not is_all and len(good) >= KEPT:
                break
            try:
                sample = ask()
            except (Beyond, RuntimeError):
                continue
            told = outcome(sample) or outcome(sample, True).removeprefix(FIELDS)
            if not told.startswith("- "):
                run += 1
                (wrong if told else good).append(told or sample)
        failed += len(wrong)
        chosen += good[:KEPT]
        counts = f"{name}: {len(asking)} samples, {run} compared, {run - len(wrong)} right"
        print(counts, *wrong, sep="\n  ", flush=True)  # noqa: T201
    if not is_all:
        keep(chosen)
    return bool(failed)


def _both(sample: Sample) -> None:
    """Check a sample in FLOAT32, and in FLOAT64 where its operator's fields allow it."""
    check(sample)
    with contextlib.suppress(Beyond):
        check(sample, True)


def version() -> str:
    return kept()[0]


def cases() -> list[Case]:
    """Return the samples that are kept."""
    return [
        Case(sample.name, f"{sample.name} {sample.number}", partial(_both, sample))
        for sample in kept()[1]
    ]


if __name__ == "__main__":
    sys.exit(main())
