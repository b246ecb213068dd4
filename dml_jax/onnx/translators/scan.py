"""Scan: a scan of JAX over the elements of its inputs along one dimension of each."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.errors import Unquoted
from dml_jax.graph import Graph
from dml_jax.onnx.files.types import Type
from dml_jax.onnx.nodes.graph_context import Results, Site
from dml_jax.onnx.nodes.node import expect, refused
from dml_jax.onnx.nodes.number_limits import worst
from dml_jax.onnx.nodes.op_types import inlines
from dml_jax.onnx.nodes.tensor import Tensor
from dml_jax.onnx.sizes import padding_rules
from dml_jax.onnx.translators.subgraphs import REASON, expect_counts, expect_same_types, subgraph_of


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
