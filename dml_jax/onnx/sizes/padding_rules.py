"""Tensors whose size depends on data: padded to the most that it can be, with a count.

Each op type's record names its rule (`SizeRules.padding`), which says what a node does with such
inputs: its outputs are padded in turn, or the padding is filled with what changes no result, as 0
for a sum. A node without a rule, or whose rule returns None, is refused.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dml_jax.errors import DmlError, Unquoted
from dml_jax.onnx.files.types import Type, dimension_in
from dml_jax.onnx.nodes.node import Node, refused
from dml_jax.onnx.nodes.op_types import Place
from dml_jax.onnx.nodes.tensor import Count, Tensor
from dml_jax.onnx.sizes.counts import Fill, last, least, linear_count, padded_with, same_number
from dml_jax.onnx.sizes.symbolic_sizes import Term, same_terms, terms_of


@dataclass(frozen=True)
class PaddedOutput:
    """What a node makes of padded inputs.

    Attributes:
        axis: the dimension of its outputs that is padded; None where none is, or where the
            translator returns a `Padded` result.
        place: the input whose count the outputs have. Without it all padded inputs must have one.
        fill: the number that the padding holds while the node reads it.
        is_resized: whether ONNX's inference, which counts the padding, says other sizes.
        change: a factor of the count, a number that is added then, and a divisor of the sum.
    """

    axis: int | None = None
    place: Place | None = None
    fill: Fill | None = None
    is_resized: bool = False
    change: tuple[int, int, int] = (1, 0, 1)


Rule = Callable[[Node, Sequence[Place]], PaddedOutput | int | None]
"""Returns what a node does with padded inputs; None where it cannot read them.

An integer is the dimension of the outputs that is padded, by the count of the inputs.
"""


def output_count(node: Node) -> Count | None:
    """Return the count of the outputs of a node; None where no input is padded.

    Inputs whose padding the node would mix into its results get a fill value. Raises `DmlError`
    where that does not help.
    """
    places = [Place(k, t.count) for k, t in enumerate(node.inputs) if t and t.count]
    if not places or node.record.reads_sizes:
        return None
    rule, first = node.record.sizes.padding, places[0]
    answer = rule and rule(node, places)
    output: PaddedOutput | None = PaddedOutput(answer) if isinstance(answer, int) else answer
    # Without a place, an axis has the one count of all inputs, and a fill value means that elements
    # of several inputs meet: both need equal counts.
    if output and not output.place and (output.axis is not None or output.fill is not None):
        is_one = all(same_number(place.count, first.count) for place in places)
        output = output if is_one else None
    if output is None:
        raise refusal(node.op_type, node.tensor(first.index), first.count)
    if output.fill is not None:
        node.inputs = [padded_with(t, output.fill) if t and t.count else t for t in node.inputs]
    if output.is_resized:
        node.types = [kind and Type(kind.element, None) for kind in node.types]
    if output.axis is None:
        return None
    count = (output.place or first).count
    return replace(count, axis=output.axis, number=linear_count(count.number, *output.change))


def refusal(op_type: str, tensor: Tensor, count: Count) -> DmlError:
    """Return the error that a node of an op type cannot read a padded tensor."""
    rule = f"have sizes that are known at load: {count.origin} decides the size of dimension "
    rule += f"{count.axis} while the network runs, and {op_type} would read the padding "
    rule += f"(end the network at '{tensor.name}': '{tensor.name}.count' then says how many "
    rule += "elements are there)"
    return refused(f"'{tensor.name}'", rule, Unquoted("a padded tensor"))


translator_decides = PaddedOutput()
"""The translator reads the counts, and returns a `Padded` result where its output is padded."""


def single(rule: Callable[[Node, int], PaddedOutput | int | None]) -> Rule:
    """Return the rule of an op type of which the first input alone may be padded.

    `rule` takes the node, and the dimension in which that input is padded.
    """

    def of_one(node: Node, places: Sequence[Place]) -> PaddedOutput | int | None:
        return rule(node, places[0].count.axis) if [p.index for p in places] == [0] else None

    return of_one


def fill_rule(fill: Fill) -> Rule:
    """Return the rule of an op type whose result does not change where padding holds `fill`."""
    return lambda node, places: PaddedOutput(fill=fill)


def by_element(node: Node, places: Sequence[Place]) -> int | None:
    rank = max(len(t.shape) for t in node.inputs if t is not None)
    return _broadcast(node, places, [rank - node.rank(p.index) for p in places], rank)


def _broadcast(node: Node, places: Sequence[Place], shifts: Sequence[int], rank: int) -> int | None:
    """Return the one dimension of `rank` that is padded; None where another tensor has it too.

    `shifts` has what is added to the dimension of each place.
    """
    axes = {p.count.axis + shift for p, shift in zip(places, shifts, strict=True)}
    if len(axes) > 1:
        return None
    axis, padded = axes.pop(), {p.index for p in places}
    for k, tensor in enumerate(node.inputs):
        own = axis - rank + (len(tensor.shape) if tensor else 0)
        if tensor is not None and k not in padded and own >= 0 and tensor.shape[own] != 1:
            return None
    return axis


@single
def batch_rule(node: Node, axis: int) -> int | None:
    """Pass samples, of which each is computed by itself: the first dimension of the first input."""
    return 0 if axis == 0 and not node.attribute("training_mode", 0) else None


@single
def window_rule(node: Node, axis: int) -> PaddedOutput | int | None:
    """Pass the padding of a convolution or a pool, which reads neighbours.

    The padding holds what stands around an image, so that the last windows are those of a shorter
    one.
    """
    if axis == 0:
        return 0
    if axis < 2 or not node.policy.carries(node):
        return None
    place, auto = axis - 2, node.attribute("auto_pad", "NOTSET")
    window = node.attribute("kernel_shape") or node.shape(1)[2:]
    step, gap, more = (
        (node.attribute(name) or [default] * len(window))[place]
        for name, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    extent, pads = (window[place] - 1) * gap + 1, node.attribute("pads") or [0] * 2 * len(window)
    around, behind = pads[place] + pads[place + len(window)], pads[place + len(window)]
    if auto == "VALID":
        around = behind = 0
    elif auto.startswith("SAME") and step == 1 and node.op_type != "ConvTranspose":
        around, behind = extent - 1, extent // 2
    elif auto not in ("NOTSET", "") or node.attribute("output_shape"):
        return None
    if node.op_type == "ConvTranspose":
        return PaddedOutput(axis, fill=0, change=(step, extent - step + more - around, 1))
    is_average = node.op_type == "AveragePool" and not node.attribute("count_include_pad", 0)
    if node.attribute("ceil_mode", 0) or (is_average and behind):
        # The last window would end elsewhere, or be divided by another number of elements.
        return None
    fill = least if node.op_type == "MaxPool" else 0
    return PaddedOutput(axis, fill=fill, change=(1, around - extent + step, step))


@single
def pad_rule(node: Node, axis: int) -> PaddedOutput | int | None:
    """Pass the padding of a Pad: along its dimension, the added elements go behind the count."""
    pads, axes = node.known(1), node.known(3)
    if node.version < 11:
        pads = np.array(node.attribute("pads") or node.attribute("paddings"))
    if pads is None or (axes is None and node.has(3)):
        return None
    places = [*range(node.rank())] if axes is None else axes.tolist()
    along = [k for k, a in enumerate(places) if node.from_start(int(a), node.rank()) == axis]
    low, high = (
        (int(pads.reshape(-1)[k + n]) for k in along for n in (0, len(places))) if along else (0, 0)
    )
    if not (low or high):
        return axis
    value = node.attribute("value", 0.0) if node.version < 11 else node.known(2)
    is_plain = node.attribute("mode", "constant") == "constant" and min(low, high) >= 0
    if not node.policy.carries(node) or not is_plain or (value is None and node.has(2)):
        return None
    fill = 0 if value is None or not np.size(value) else np.ravel(value)[0].item()
    return PaddedOutput(axis, fill=fill, change=(1, low + high, 1))


def like_rule(node: Node, places: Sequence[Place]) -> int | None:
    """Pass the padding of an input to an output of its sizes."""
    return places[0].count.axis if node.policy.carries(node) else None


def scatter_nd_rule(node: Node, places: Sequence[Place]) -> PaddedOutput | None:
    """Pass the padding of the data; updates without an index are left out by the translator."""
    of = {p.index: p for p in places}
    if not node.policy.carries(node) or {1, 2} & of.keys() not in (set(), {1, 2}):
        return None
    if 1 in of:
        is_one = of[1].count.axis == of[2].count.axis < node.rank(1) - 1
        if not is_one or not same_number(of[1].count, of[2].count):
            return None
    if 0 not in of:
        return translator_decides
    along = of[0].count.axis
    return PaddedOutput(along, of[0]) if 2 not in of or along < node.shape(1)[-1] else None


def batches_rule(node: Node, places: Sequence[Place]) -> int | None:
    """Pass samples of several inputs, of which each is computed by itself."""
    return 0 if all(place.count.axis == 0 for place in places) else None


def regions_rule(node: Node, places: Sequence[Place]) -> int | None:
    """Pass regions, and the images of these."""
    return 0 if [(p.index, p.count.axis) for p in places] == [(1, 0), (2, 0)] else None


def concat_rule(node: Node, places: Sequence[Place]) -> PaddedOutput | int | None:
    axes, along = {p.count.axis for p in places}, node.axis()
    if axes == {along}:
        return translator_decides
    return None if len(places) < len(node.inputs) or len(axes) > 1 or along in axes else axes.pop()


@single
def reshape_rule(node: Node, axis: int) -> int | None:
    """Return the dimension of a view that holds the elements of `axis`; None where none does."""
    return dimension_in(node.output_shape(), axis, node.shape())


@single
def transpose_rule(node: Node, axis: int) -> int:
    order = node.attribute("perm") or [*reversed(range(node.rank()))]
    return order.index(axis)


def gather_rule(node: Node, places: Sequence[Place]) -> PaddedOutput | None:
    along = node.axis()
    found = [PaddedOutput(along + p.count.axis, p) for p in places if p.index == 1]
    for p in places:
        if p.index == 0 and p.count.axis != along:
            axis = p.count.axis
            found.append(PaddedOutput(axis if axis < along else axis - 1 + node.rank(1), p))
    if len(found) > 1:
        return None
    return found[0] if found else translator_decides


def gather_elements_rule(node: Node, places: Sequence[Place]) -> PaddedOutput:
    found = [PaddedOutput(p.count.axis, p) for p in places if p.index == 1]
    return found[0] if found else translator_decides


def gather_nd_rule(node: Node, places: Sequence[Place]) -> PaddedOutput | None:
    batch, rank, depth = node.attribute("batch_dims", 0), node.rank(1) - 1, node.shape(1)[-1]
    axes = [(p.index, p.count.axis) for p in places]
    if any(axis < batch for _, axis in axes):
        is_both = len(places) == 2 and axes[0][1] == axes[1][1]
        return PaddedOutput(axes[0][1]) if is_both else None
    found = [PaddedOutput(p.count.axis, p) for p in places if p.index == 1]
    behind = [p for p in places if p.index == 0 and p.count.axis >= batch + depth]
    found += [PaddedOutput(p.count.axis - batch - depth + rank, p) for p in behind]
    if len(found) > 1 or (1, rank) in axes:
        return None
    return found[0] if found else translator_decides


@single
def slice_rule(node: Node, axis: int) -> PaddedOutput | int | None:
    axes = node.attribute("axes") if node.version < 10 else node.known(3)
    starts = node.attribute("starts") if node.version < 10 else range(node.shape(1)[0])
    if axes is None and node.version >= 10 and node.has(3):
        return None
    axes = range(len(starts)) if axes is None else axes
    along = [k for k, a in enumerate(axes) if node.from_start(int(a), node.rank()) == axis]
    if not along or (node.version >= 10 and _ends_with(node, axis, along[0])):
        return axis
    return PaddedOutput(is_resized=True)


def _ends_with(node: Node, axis: int, place: int) -> bool:
    """Return whether a Slice takes all elements that a padded dimension has."""
    ends, steps = [terms_of(node.tensor(k)) for k in (1, 2)], node.known(4)
    if not ends[0] or not ends[1] or (steps is None and node.has(4)):
        return False
    step = 1 if steps is None else int(steps[place])
    return is_whole(node, axis, (ends[0][place], ends[1][place]), step)


def is_whole(node: Node, axis: int, ends: Sequence[Term], step: int) -> bool:
    """Return whether all elements that a padded dimension has lie between two places."""
    count, end = node.tensor(0).count, ends[1].known
    if count is None or count.axis != axis or ends[0].known != 0 or step != 1:
        return False
    is_far = end is not None and end >= node.shape()[axis]
    return is_far or same_terms([ends[1]], terms_of(count.number))


@single
def split_rule(node: Node, axis: int) -> int | None:
    return None if node.axis() == axis else axis


@single
def quantize_rule(node: Node, axis: int) -> int | None:
    """Pass the padding, unless a scale or a zero point goes along it."""
    return axis if math.prod(node.shape(1)) == 1 or node.axis() != axis else None


def softmax_rule(fill: Fill, flattened_before: int = 1) -> Rule:
    """Return the rule of an op type that computes lines along an axis, and keeps their sizes.

    Args:
        fill: the number that changes nothing in the line of which it is the end.
        flattened_before: the version before which a line has all dimensions from the axis on.
    """

    @single
    def of_lines(node: Node, axis: int) -> PaddedOutput | int:
        is_in = axis >= node.axis() if node.version < flattened_before else axis == node.axis()
        return PaddedOutput(axis, fill=fill) if is_in else axis

    return of_lines


@single
def layer_norm_rule(node: Node, axis: int) -> int | None:
    """Pass the padding of dimensions before the node's axis, from which on it normalizes."""
    return axis if axis < node.axis() else None


def scan_rule(fill: Fill) -> Rule:
    """Return the rule of an op type that adds up or multiplies along an axis, either way."""
    return single(lambda node, axis: PaddedOutput(axis, fill=fill))


def arg_rule(fill: Fill) -> Rule:
    """Return the rule of an op type that finds the place of an element, which is never `fill`."""

    def of_line(node: Node, axis: int) -> PaddedOutput | int:
        if node.axis() == axis:
            return PaddedOutput(fill=fill)
        return axis if node.attribute("keepdims") or axis < node.axis() else axis - 1

    return single(of_line)


@single
def top_k_rule(node: Node, axis: int) -> PaddedOutput | int:
    """Pass the padding of a TopK; along the axis it holds the number that is chosen last."""
    fill = least if node.attribute("largest", 1) else last
    return PaddedOutput(fill=fill) if node.axis() == axis else axis


def matmul_rule(node: Node, places: Sequence[Place]) -> PaddedOutput | int | None:
    """Pass rows, columns and stacks of matrices; along a sum, padding holds 0 in both inputs."""
    ranks = node.rank(0), node.rank(1)
    rank = max(*ranks, 2)
    inner = {0: ranks[0] - 1, 1: max(ranks[1] - 2, 0)}
    if any(p.count.axis == inner[p.index] for p in places):
        both = [(p.index, p.count.axis) for p in places] == [*inner.items()]
        return PaddedOutput(fill=0) if both else None
    rows = [p.index == 0 and p.count.axis == ranks[0] - 2 for p in places]
    columns = [p.index == 1 and p.count.axis == ranks[1] - 1 for p in places]
    if any(rows) or any(columns):
        out = rank - (ranks[0] == 1) - (ranks[1] == 1)
        axis = out - 1 if any(columns) or ranks[1] == 1 else out - 2
        return axis if len(places) == 1 else None
    return _broadcast(node, places, [rank - ranks[p.index] for p in places], rank)


def gemm_rule(node: Node, places: Sequence[Place]) -> PaddedOutput | int | None:
    """Pass the rows and columns of a Gemm; along a sum, padding holds 0 in both inputs."""
    inner = {0: 1 - node.attribute("transA"), 1: node.attribute("transB")}
    summed = [p for p in places if p.index < 2 and p.count.axis == inner[p.index]]
    if summed:
        return PaddedOutput(fill=0) if len(summed) == len(places) == 2 else None
    axes = {p.index if p.index < 2 else p.count.axis + 2 - node.rank(2) for p in places}
    axis, indices = min(axes), [p.index for p in places]
    own = axis - 2 + node.rank(2) if node.has(2) else -1
    is_whole = own >= 0 and 2 not in indices and node.shape(2)[own] != 1
    return None if len(axes) > 1 or indices == [2] or is_whole else axis


def reduce_rule(fill: Fill) -> Rule:
    """Return the rule of a reduction that `fill` does not change."""

    @single
    def of_reduction(node: Node, axis: int) -> PaddedOutput | int | None:
        known = node.known(1)
        axes = node.attribute("axes") if known is None else known.tolist()
        if axes is None and node.has(1):
            return None
        over = {node.from_start(int(a), node.rank()) for a in axes or ()}
        if not over and not node.attribute("noop_with_empty_axes", 0):
            over = {*range(node.rank())}
        if axis in over:
            return PaddedOutput(fill=fill)
        return axis if node.attribute("keepdims") else axis - sum(a < axis for a in over)

    return of_reduction


def boxes_rule(node: Node, places: Sequence[Place]) -> PaddedOutput | None:
    """Leave boxes without a score out of the choice."""
    is_both = [(p.index, p.count.axis) for p in places] == [(0, 1), (1, 2)]
    return PaddedOutput(fill=math.nan) if is_both else None


def compress_rule(node: Node, places: Sequence[Place]) -> PaddedOutput | None:
    """Leave elements without a condition out of the choice."""
    axis, first = node.attribute("axis"), places[0]
    if places[-1].index != 1:
        return None
    is_along = node.rank() == 1 if axis is None else node.axis() == first.count.axis
    return PaddedOutput(fill=0) if first.index == 1 or is_along else None
