"""Loop and Scan: written out, a scan of JAX or a while_loop, by what is known at load."""

from collections import ChainMap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import lax

from dml_jax import functional as dml
from dml_jax.errors import DmlError, Unquoted
from dml_jax.graph import Graph
from dml_jax.lowering.dtypes import has_x64
from dml_jax.onnx.files.types import COUNT, Type
from dml_jax.onnx.nodes.graph_context import GraphContext, Results, Site
from dml_jax.onnx.nodes.node import expect, refused
from dml_jax.onnx.nodes.number_limits import TURNS_MAX, limit_of, worst
from dml_jax.onnx.nodes.op_types import inlines
from dml_jax.onnx.nodes.reshapes import reshape
from dml_jax.onnx.nodes.tensor import Scope, Tensor, TensorList
from dml_jax.onnx.sizes import padding_rules
from dml_jax.onnx.translators.subgraphs import (
    REASON,
    axes_and_origins,
    expect_counts,
    expect_same_types,
    expect_single,
    single_element,
    subgraph_of,
)

# A written-out turn costs its nodes in the program: more turns compile too long, fewer would
# refuse sizes that change from turn to turn.
_UNROLLED_MAX = 64
# A loop of few nodes in all its turns is written out: each turn has its own known sizes and
# constants, and the program stays small.
_SHORT = 128
_INT64 = onnx.TensorProto.INT64


@inlines("Loop")
def loop(site: Site) -> Results:
    """Translate a Loop.

    One whose number of turns is known at load is a scan, or written out: where that is short, or
    where sizes change from turn to turn. Another one is a while_loop.
    """
    trips, condition, carried = site.get(0), site.get(1), [*site.inputs[2:]]
    if None in carried:
        raise refused(f"v_initial {carried.index(None)}", "be given", Unquoted("nothing"))
    for field, given, name in (("M", trips, "INT64"), ("cond", condition, "BOOL")):
        if given is not None:
            expect_single(field, given.type, name)
    most = single_element(trips)
    starts = True if condition is None else single_element(condition)
    has_list = any(isinstance(value, TensorList) for value in carried)
    error: DmlError | None = None
    if most is not None and starts is not None:
        count = max(0, most) if starts else 0
        is_short = count * len(site.graph("body").node) <= _SHORT or has_list
        if is_short and count <= _UNROLLED_MAX:
            found, error = _unroll(site, carried, count)
            if found is not None:
                return found
    if has_list:
        if error is not None:
            raise error
        rule = f"be at most {_UNROLLED_MAX}, known at load, since a sequence changes at each turn"
        raise refused("M", rule, Unquoted("another") if most is None else most)
    try:
        return _translate_body(site, carried, trips, most, condition, starts)
    except DmlError as refusal:
        found = None
        if most is not None and starts and most <= _UNROLLED_MAX and error is None:
            found, error = _unroll(site, carried, max(0, most))
        has_turns = trips is None or (most is not None and most > 1)
        if found is None and starts and has_turns:
            found = _peel_first_turn(site, carried, trips, most)
        if found is None:
            raise error or refusal from None
        return found


def _peel_first_turn(
    site: Site, carried: Sequence[Tensor], trips: Tensor | None, most: int | None
) -> Results | None:
    """Return the outputs of a loop whose state changes sizes in its first turn alone, else None.

    The first turn is written out, and the loop goes on with what it gives.
    """
    shared: Scope = ChainMap({}, site.scope)
    site.translation.initializers(site.graph("body"), shared)
    made, _ = _turn(site, shared, carried, 0)
    if made is None or len(made) != 1 + len(carried):
        return None
    going, *state = made
    starts = single_element(going)
    if starts is False:
        return [*state]
    try:
        return _translate_body(site, state, trips, most, going, starts, 1)
    except DmlError:
        return None


def _turn(
    site: Site, shared: Scope, state: Sequence[Tensor], number: int
) -> tuple[list[Tensor] | None, DmlError | None]:
    """Return what the body of a loop gives in a turn that is written out, or why it cannot be."""
    translation, graph = site.translation, site.graph("body")
    faults, names = len(translation.faults), [value.name for value in graph.input]
    expect(len(names) == len(state) + 2, "body", f"have {len(state) + 2} inputs", len(names))
    own: Scope = ChainMap({}, shared)
    own[names[0]] = translation.constant(names[0], np.array(number, np.int64))
    own[names[1]] = translation.constant(names[1], np.array(True))
    own.update(zip(names[2:], state, strict=True))
    # Data may end the loop before this turn: indices beyond a table are no error at load here.
    translation.loops += 1
    try:
        results = site.inlined(graph, own)
    finally:
        translation.loops -= 1
    made = [tensor for tensor in results if tensor is not None]
    if len(translation.faults) > faults or len(made) < len(results):
        found = translation.faults[faults:]
        del translation.faults[faults:]
        return None, DmlError(found).within("body") if found else None
    return made, None


def _unroll(
    site: Site, carried: Sequence[Tensor], count: int
) -> tuple[Results | None, DmlError | None]:
    """Return the outputs of a loop whose body is translated for each turn, or why it cannot be."""
    translation, graph = site.translation, site.graph("body")
    state = [*carried]
    shared: Scope = ChainMap({}, site.scope)
    translation.initializers(graph, shared)
    scanned: list[list[Tensor]] = []
    going: Any = True
    for turn in range(count):
        made, error = _turn(site, shared, state, turn)
        if made is None:
            return None, error
        going, state = single_element(made[0]), made[1 : 1 + len(state)]
        scanned.append(made[1 + len(state) :])
        if going is None:
            return None, None
        if not going:
            break
    if not scanned and len(graph.output) > 1 + len(state):
        return None, None
    stacks = [_stack(translation, turns) for turns in zip(*scanned, strict=True)]
    if any(stack is None for stack in stacks):
        return None, None
    return [*state, *stacks], None


def _stack(translation: GraphContext, turns: Sequence[Tensor]) -> Tensor | None:
    """Return the outputs of all turns as one tensor; None where their sizes differ."""
    first = turns[0]
    if any(not isinstance(tensor, Tensor) or tensor.type != first.type for tensor in turns):
        return None
    kind = Type(first.type.element, (len(turns), *first.shape))
    paddings = [tensor.count for tensor in turns]
    if any((p and (p.axis, p.number)) != (q and (q.axis, q.number)) for p, q in pairwise(paddings)):
        return None
    if all(tensor.is_known and not tensor.is_weight for tensor in turns):
        array = np.stack([tensor.array for tensor in turns])
        return translation.constant(first.name, array, first.type.element)
    rows = [reshape(tensor.expression, (1, *first.shape)) for tensor in turns]
    x = dml.join(rows, 0) if len(rows) > 1 else rows[0]
    stack = Tensor(first.name, kind, lambda: x)
    if first.count is not None:
        stack.count = replace(first.count, axis=first.count.axis + 1)
    return stack


def _translate_body(
    site: Site,
    carried: Sequence[Tensor],
    trips: Tensor | None,
    most: int | None,
    condition: Tensor | None,
    starts: bool | None,
    first: int = 0,
) -> Results:
    """Return the outputs of a loop whose body is translated once; `first` is its first turn."""
    last = (most if most is not None and most > 0 else 2**31) - 1
    turn = Type(_INT64, ()), (0, min(last, 2**63 - 1 if has_x64() else 2**31 - 1))
    kinds = [tensor.type for tensor in carried]
    given: list[Any] = [turn, np.array(True), *((kind,) for kind in kinds)]
    paddings = [tensor.count for tensor in carried]
    body = subgraph_of(site, "body", given, paddings)
    going = single_element(body.results[0])
    expect_single("the condition of body", body.types[0], "BOOL")
    after = body.types[1 : 1 + len(kinds)]
    cure = " (or M to be a small number that is known at load: then sizes may change)"
    expect_same_types("v_initial", after, kinds, cure)
    scanned = body.types[1 + len(kinds) :]
    if starts and going is False:  # one turn, at most
        most = None if most is None else min(most, first + 1)
    is_fixed = most is not None and starts is not None and (going is not None or not starts)
    is_fixed = is_fixed and (bool(scanned) or not starts or (most or 0) - first <= TURNS_MAX)
    if scanned and not is_fixed:
        length = "M" if trips is not None else "the number of turns"
        field = length if most is None else "cond" if starts is None else "the condition of body"
        rule = "be known at load, since the outputs of all turns are joined"
        raise refused(field, rule, Unquoted("a computed tensor"))
    cure = f"M has to be known at load and at most {_UNROLLED_MAX}, or the tensor to keep its size"
    wanted = [None, *paddings, *[None] * len(scanned)]
    expect_counts("body", body.results, wanted, cure)
    counts = [padding.number for padding in paddings if padding is not None]
    count = (max(0, most - first) if starts else 0) if is_fixed and most is not None else None
    tensors = [*carried, *counts, *body.captured.values()]
    dtypes = [kind.array_dtype for kind in (*kinds, *[COUNT] * len(counts))]
    ends = 1 + len(kinds), 1 + len(kinds) + len(scanned)  # of the state, and of the scanned outputs

    def next_of(graph: Graph, captured: Any, index: Any, state: Any) -> tuple[Any, Any, Any]:
        """Return whether to go on, the state with counts and limits, and the scanned outputs."""
        *own, before = state
        made = body.compute(graph, captured, (index, True, *own))
        numbers = worst(jnp.stack([before, made.pop()]), body.limits)
        state = (*made[1 : ends[0]], *made[ends[1] :], numbers)
        return made[0], state, made[ends[0] : ends[1]]

    number = np.dtype(np.int64 if has_x64() else np.int32)
    turns = site.translation.turns

    def run(graphs: Sequence[Graph], arrays: Sequence[Any]) -> Sequence[Any]:
        (graph,) = graphs
        begins, limit, *rest = arrays
        state = tuple(x.astype(t) for x, t in zip(rest, dtypes, strict=False))
        state, captured = (*state, worst(np.zeros(0), body.limits)), rest[len(dtypes) :]
        if count is not None:

            def turn(state: Any, index: Any) -> tuple[Any, Any]:
                return next_of(graph, captured, index, state)[1:]

            turns_of = jnp.arange(first, first + count, dtype=number)
            state, stacks = lax.scan(turn, state, turns_of, count)
            return *state[: len(kinds)], *stacks, *state[len(kinds) :]

        def proceeds(carry: Any) -> Any:
            index, goes, _ = carry
            goes = goes if limit is None else goes & (index < limit)
            return goes if turns is None else goes & (index < turns)

        def advance(carry: Any) -> Any:
            index, _, state = carry
            goes, state, _ = next_of(graph, captured, index, state)
            return index + number.type(1), goes.reshape(()), state

        begins = jnp.array(True) if begins is None else begins.reshape(())
        start = number.type(first), begins, state
        index, goes, state = lax.while_loop(proceeds, advance, start)
        if turns is not None:
            goes = goes if limit is None else goes & (index < limit)
            ends_at = jnp.where(goes, number.type(turns), number.type(0)).reshape(1)
            state = (*state[:-1], jnp.concatenate([state[-1], ends_at]))
        return state

    limit = None if trips is None else _limit(site.translation, trips)
    kinds_out = [*kinds, *(Type(k.element, (count or 0, *(k.shape or ()))) for k in scanned)]
    inputs = [condition, limit, *tensors]
    graphs, names, limits = [body.graph], axes_and_origins(paddings), [*body.limits]
    if turns is not None and count is None:
        limits.append(limit_of(site.proto.name or site.proto.output[0], turns))
    made = partial(site.translation.function, site.proto, REASON, limits=limits)
    return made(inputs, kinds_out, run, graphs, names)


def _limit(translation: GraphContext, trips: Tensor) -> Tensor:
    """Return the number of turns; one that is known as a number that JAX takes."""
    if not trips.is_known:
        return trips
    largest = np.iinfo(np.int64 if has_x64() else np.int32).max
    number = np.minimum(trips.array.reshape(()), largest)
    return translation.constant(trips.name, np.asarray(number, np.int64), _INT64)


def _of_each(site: Site, name: str, count: int) -> Sequence[int]:
    """Return an attribute that has a number for each of so many tensors; 0 where it is left out."""
    given = site.attribute(name) or [0] * count
    expect(len(given) == count, name, f"have {count} numbers, one for each tensor", given)
    return given


@inlines("Scan")
def scan(site: Site) -> Results:
    """Translate a Scan as lax.scan."""
    inputs, is_batched = site.inputs, site.opsets[""] < 9
    if is_batched:  # with lengths first, and a batch as the first dimension
        rule = "be left out (sequences of one length)"
        expect(inputs[0] is None, "sequence_lens", rule, Unquoted("a tensor"))
        inputs = inputs[1:]
    tensors: list[Tensor] = [tensor for tensor in inputs if tensor is not None]
    count = site.attribute("num_scan_inputs", 0)
    if not 0 < count <= len(tensors) == len(inputs):
        raise refused("num_scan_inputs", f"be in [1, {len(inputs)}]", count)
    states, streams = tensors[:-count], tensors[-count:]
    skipped = int(is_batched)
    axes = _of_each(site, "scan_input_axes", count)
    axes = [a % len(t.shape) if t.shape else 0 for a, t in zip(axes, streams, strict=True)]
    axes = [a + skipped for a in axes]
    for tensor in tensors:
        if tensor.count is not None:
            raise padding_rules.refusal("Scan", tensor, tensor.count)
    lengths = {t.shape[a] for a, t in zip(axes, streams, strict=True)}
    expect(len(lengths) <= 1, "the inputs", "have one length along their axes", sorted(lengths))
    length = lengths.pop()
    kinds = [_without(t.type, range(skipped)) for t in states]
    kinds += [_without(t.type, {*range(skipped), a}) for a, t in zip(axes, streams, strict=True)]
    body = subgraph_of(site, "body", [(kind,) for kind in kinds])
    after = body.types[: len(states)]
    expect_same_types("state", after, kinds)
    cure = "end the network before the Scan"
    expect_counts("body", body.results, [None] * len(body.results), cure)
    scanned = body.types[len(states) :]
    ways_in = _of_each(site, "directions" if is_batched else "scan_input_directions", count)
    ways_out = _of_each(site, "scan_output_directions", len(scanned))
    axes_out = _of_each(site, "scan_output_axes", len(scanned))
    axes_out = [a % (len(k.shape or ()) + 1) for a, k in zip(axes_out, scanned, strict=True)]
    dtypes = [kind.array_dtype for kind in kinds]

    def run(graphs: Sequence[Graph], arrays: Sequence[Any]) -> Sequence[Any]:
        captured, (graph,) = arrays[len(tensors) :], graphs

        def one(*own: Any) -> Any:
            first = tuple(x.astype(t) for x, t in zip(own, dtypes, strict=False))
            state, rows = first[: len(states)], []
            for x, axis, way in zip(first[len(states) :], axes, ways_in, strict=True):
                row = jnp.moveaxis(x, axis - skipped, 0)
                rows.append(row[::-1] if way else row)

            def turn(state: Any, elements: Any) -> tuple[Any, Any]:
                made = body.compute(graph, captured, (*state, *elements))
                return tuple(made[: len(states)]), made[len(states) :]

            state, (*stacks, numbers) = lax.scan(turn, state, tuple(rows), length)
            turned = [s[::-1] if way else s for s, way in zip(stacks, ways_out, strict=True)]
            moved = [jnp.moveaxis(s, 0, axis) for s, axis in zip(turned, axes_out, strict=True)]
            return *state, *moved, numbers

        own = arrays[: len(tensors)]
        *made, numbers = jax.vmap(one)(*own) if is_batched else one(*own)
        return *made, worst(numbers, body.limits)

    leading = streams[0].shape[:skipped]
    results = [Type(k.element, (*leading, *(k.shape or ()))) for k in after]
    for kind, axis in zip(scanned, axes_out, strict=True):
        sizes = [*(kind.shape or ())]
        sizes.insert(axis, length)
        results.append(Type(kind.element, (*leading, *sizes)))
    everything = [*tensors, *body.captured.values()]
    made = partial(site.translation.function, site.proto, REASON, limits=body.limits)
    return made(everything, results, run, [body.graph])


def _without(kind: Type, axes: Iterable[int]) -> Type:
    dropped = set(axes)
    sizes = tuple(n for d, n in enumerate(kind.shape or ()) if d not in dropped)
    return Type(kind.element, sizes)
