"""What an operator or a graph does as a whole program on one device: in a form of its platform.

Nothing fuses with such a form, so that it may choose what its loops and kernels are over. The
program is traced, and takes the first of `_FORMS` that there is for it: of what reduces what it is
given (`by_library_cpu`), is cut or joined last (`pieces_cpu`, `places_cpu`, `pieces_gpu`,
`joined_last`), only maps elements (`mapped_cpu`, `mapped_gpu`), or does so besides
(`mapped_apart_cpu`), or reduces what it maps (`as_runs_gpu`), is reduced last (`reduced_last_gpu`),
moves and repeats elements last (`arranged_last`, which has a form of anything). What these make of
it may be another program, which is then asked like the first.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from dml_jax.lowering.by_other_loops import by_other_loops
from dml_jax.lowering.devices.placement import (
    by_platform,
    has_explicit_axes,
    on_one_device,
    placed_primitive,
    platforms_of,
)
from dml_jax.lowering.loops_cpu import even_rows
from dml_jax.lowering.whole_programs import (
    arranged_last,
    joined_last,
    mapped_apart_cpu,
    mapped_cpu,
    mapped_gpu,
    pieces_cpu,
    pieces_gpu,
    places_cpu,
    reduced_last_gpu,
)
from dml_jax.lowering.whole_programs.as_runs_gpu import as_runs
from dml_jax.lowering.whole_programs.by_library_cpu import by_library
from dml_jax.lowering.whole_programs.equations import bound, evaluated, inlined
from dml_jax.lowering.whole_programs.mapping import Survey

Function = Callable[..., Sequence[jax.Array]]
_FormOf = Callable[[Any], Function | None]  # of an equation


def in_its_form(function: Function, *xs: Any) -> list[jax.Array]:
    """`function(*xs)`, on one device in the form of its platform, which returns the same.

    (But for the last digits of sums of floats, whose order is the form's.)

    For what is a whole program: such a form does not fuse with what stands around it, and this has
    neither derivative nor batching.
    """
    if any(has_explicit_axes(jax.typeof(x)) for x in xs):
        return list(function(*xs))
    return _whole_program.bind(*xs, program=jax.make_jaxpr(function)(*xs))


def _form(ctx: Any, *, program: ClosedJaxpr) -> Function:
    as_it_is = functools.partial(_as_it_is, program=program)
    if not on_one_device(ctx.module_context) or ctx.module_context.lowering_parameters.for_export:
        return as_it_is
    return by_platform(platforms_of(ctx), forms(program), as_it_is)


_whole_program = placed_primitive("dml_whole_program", _form, multiple_results=True)


@_whole_program.def_impl  # under `jax.disable_jit`
def _as_it_is(*xs: Any, program: ClosedJaxpr) -> list[jax.Array]:
    return jaxpr_as_fun(program)(*xs)


@_whole_program.def_abstract_eval
def _shapes(*_: Any, program: ClosedJaxpr) -> list[Any]:
    return program.out_avals


def forms(program: ClosedJaxpr) -> Mapping[str, Function]:
    """By platform ("cpu", "cuda"), a form of the program that gives the same."""

    def in_a_form(platform: str, *xs: jax.Array) -> Sequence[jax.Array]:
        return _in_a_form(platform, inlined(program, platform), *xs)

    return {platform: functools.partial(in_a_form, platform) for platform in _FORMS}


def _in_a_form(
    platform: str, program: ClosedJaxpr, *xs: jax.Array, excluding: Any = None
) -> Sequence[jax.Array]:
    """By the first form that there is; `excluding` is the one that made this program of another."""
    made = (form(program, xs) for form in _FORMS[platform] if form is not excluding)
    return next(results for results in made if results is not None)


def _only(form_of: _FormOf, program: Any, xs: Sequence[jax.Array]) -> Sequence[jax.Array] | None:
    """The results of a program of one equation that has a form."""
    return _last(form_of, program, xs) if len(program.jaxpr.eqns) == 1 else None


def _last(form_of: _FormOf, program: Any, xs: Sequence[jax.Array]) -> Sequence[jax.Array] | None:
    """The results where the last equation makes them all, and has a form."""
    *_, last = program.jaxpr.eqns or [None]
    if last is None or [*last.outvars] != [*program.jaxpr.outvars]:
        return None
    form = form_of(last)
    if form is None:
        return None

    def step(eqn: Any, operands: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return form(*operands) if eqn is last else bound(eqn, operands)

    return evaluated(program, xs, step)


def _joined_in_rows(eqn: Any) -> Function | None:
    if eqn.primitive.name != "concatenate":
        return None
    types, axis = [var.aval for var in eqn.invars], eqn.params["dimension"]
    if places_cpu.gains_given(types, axis):
        return lambda *xs: [places_cpu.join_computed(xs, axis)]
    return lambda *xs: [pieces_cpu.join(xs, axis)]


def _joined_by_places(program: Any, xs: Sequence[jax.Array]) -> Sequence[jax.Array] | None:
    """Not of what is moved or repeated before, which is read here and there.

    2 cores, jax 0.10.2, ms, as XLA has it and so, joined along the last axis, DEPTH_TO_SPACE1 by 2
    of [8, 64, 60, 60] and [8, 64, 60, 70] FLOAT32 3.7, 3.7; FLOAT16 2.0, 4.5; UINT8 1.1, 2.0; TILE
    of CLIPs of [40000, 7] by 5 and [40000, 5] by 3 0.5, 2.6; 0.4, 4.5; 0.5, 3.1.
    """
    if len(program.out_avals) > 1 or Survey.of(program) is None:
        return None
    return joined_last.rewritten(places_cpu, program, xs)


def _split_by_loops(eqn: Any, by_pairs: Callable[..., bool]) -> Function | None:
    """Pieces of one size by one loop, or each by one that cores share; also of what is computed.

    2 cores, jax 0.10.2, ms, a CLIP split in four pieces of 64, [8, 64, 256, 256], each by a loop
    of its own and so: FLOAT32 9.8, 7.9; FLOAT16 4.3, 3.7; UINT8 2.1, 1.5; in five columns,
    [6710886, 5] 21, 7.8; 9.2, 4.0; 3.3, 1.7. And by even loops, two pieces of [8388609] FLOAT32
    4.1, 3.3; of [16777217] FLOAT16 6.6, 3.3; UINT8 3.9, 1.2.
    """
    if eqn.primitive.name != "split":
        return None
    sizes, axis = eqn.params["sizes"], eqn.params["axis"]
    x = eqn.invars[0].aval
    pairs = by_pairs(x, sizes, axis)
    if pairs or pieces_cpu.has_equal_neighbours(x, sizes, axis):
        return lambda x: pieces_cpu.split(x, sizes, axis, pairs)
    if any(even_rows(piece.aval.shape) for piece in eqn.outvars):
        return lambda x: [by_other_loops(piece) for piece in lax.split(x, sizes, axis)]
    return None


def _split_given(eqn: Any) -> Function | None:
    return _split_by_loops(eqn, pieces_cpu.gains_by_pairs)


def _split_last(program: Any, xs: Sequence[jax.Array]) -> Sequence[jax.Array] | None:
    """By pairs of rows nothing that is moved or repeated before, as in `_joined_by_places`."""
    gains = pieces_cpu.gains_by_pairs_mapped
    by_pairs = gains if Survey.of(program) else lambda *_: False
    return _last(functools.partial(_split_by_loops, by_pairs=by_pairs), program, xs)


def _in_words(eqn: Any) -> Function | None:
    """Not of what is computed, which would be stored before it goes as words.

    H200, jax 0.11.2, TB/s of a CLIP of UINT8 split in halves 3.1, so 1.2.
    """
    name, params = eqn.primitive.name, eqn.params
    if name == "split":
        return lambda x: pieces_gpu.split(x, params["sizes"], params["axis"])
    if name == "concatenate":
        return lambda *xs: [pieces_gpu.join(xs, params["dimension"])]
    return None


def _split_computed(eqn: Any) -> Function | None:
    if eqn.primitive.name != "split":
        return None
    return lambda x: pieces_gpu.split_computed(x, eqn.params["sizes"], eqn.params["axis"])


def _as_runs(program: Any, xs: Sequence[jax.Array]) -> Sequence[jax.Array] | None:
    merged = as_runs(program)
    if merged is None:
        return None
    # Else XLA takes the reshape into the kernel.
    given = map(lax.optimization_barrier, _in_shapes_of(merged.in_avals, xs))
    results = _in_a_form("cuda", merged, *given, excluding=_as_runs)
    return _in_shapes_of(program.out_avals, results)


def _in_long_rows(program: Any, xs: Sequence[jax.Array]) -> Sequence[jax.Array] | None:
    """By the form that there is over these.

    2 cores, jax 0.10.2, ms, SPLIT, CLIPs and JOIN of [64, 8000, 64] in halves over 1 as XLA has it,
    by long rows alone, and by the form of these: FLOAT32 13, 37, 11; FLOAT16 7.4, 14, 6.7; UINT8
    4.6, 8.7, 2.0.
    """
    merged = mapped_cpu.in_long_rows(program)
    if merged is None:
        return None

    form = functools.partial(_in_a_form, "cpu", merged, excluding=_in_long_rows)
    return mapped_cpu.in_axes_of(merged, form, program, xs)


def _in_shapes_of(types: Sequence[Any], xs: Sequence[jax.Array]) -> list[jax.Array]:
    return [jnp.reshape(x, aval.shape) for x, aval in zip(xs, types, strict=True)]


def _as_another(another: Callable[[Any], Any | None]) -> Callable[..., Any]:
    """On a CPU, the form of what is made of a program; None where nothing is."""

    def form(program: Any, xs: Sequence[jax.Array]) -> Sequence[jax.Array] | None:
        made = another(program)
        return None if made is None else _in_a_form("cpu", made, *xs, excluding=form)

    return form


_FORMS = {
    "cpu": (
        _as_another(by_library),
        functools.partial(_only, _joined_in_rows),
        functools.partial(_only, _split_given),
        _joined_by_places,
        _in_long_rows,
        mapped_cpu.in_even_rows,
        _split_last,
        _as_another(mapped_apart_cpu.with_maps_stored),
        functools.partial(joined_last.rewritten, pieces_cpu),
        functools.partial(arranged_last.rewritten, "cpu"),
    ),
    "cuda": (
        functools.partial(_only, _in_words),
        _as_runs,
        mapped_gpu.in_pieces,
        functools.partial(_last, _split_computed),
        reduced_last_gpu.rewritten,
        functools.partial(joined_last.rewritten, pieces_gpu),
        functools.partial(arranged_last.rewritten, "cuda"),
    ),
}
