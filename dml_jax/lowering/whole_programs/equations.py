"""Equations of a traced program, for what evaluates it once more."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr, Literal

from dml_jax.lowering.differentiable import DIFFERENTIABLE

T = TypeVar("T")
Operands = Sequence[jax.Array]

_ELEMENTWISE = frozenset(
    {"abs", "add", "and", "bitcast_convert_type", "ceil", "clamp", "convert_element_type", "div"}
    | {"eq", "exp", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p", "lt"}
    | {"max", "min", "mul", "ne", "neg", "not", "or", "pow", "rem", "round", "rsqrt", "select_n"}
    | {"shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sqrt", "square"}
    | {"stop_gradient", "sub", "tanh", "xor"}
)


def evaluated(
    program: Any,
    xs: Sequence[T],
    step: Callable[[Any, Sequence[T]], Sequence[T]],
    constant: Callable[[Any], Any] = lambda value: value,
) -> list[T]:
    """What a traced program gives of values that stand for its inputs.

    Args:
        program: a closed jaxpr.
        xs: as its inputs.
        step: what an equation gives of its operands.
        constant: what stands for one of its constants, or a number in an equation.
    """
    jaxpr, consts = program.jaxpr, map(constant, program.consts)
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *xs], strict=True))

    def of(var: Any) -> T:
        return constant(var.val) if isinstance(var, Literal) else values[var]

    for eqn in jaxpr.eqns:
        with as_part_of(eqn):
            results = step(eqn, [of(var) for var in eqn.invars])
        values.update(zip(eqn.outvars, results, strict=True))
    return [of(var) for var in jaxpr.outvars]


def in_other_shapes(
    program: Any,
    xs: Sequence[Any],
    step: Callable[[Any, Sequence[Any]], Sequence[Any]],
    shaped: Callable[[tuple[int, ...]], Sequence[int]],
) -> list[Any]:
    """`evaluated` of arrays that have another shape in place of each, as its constants then have.

    Args:
        program: a closed jaxpr.
        xs: as its inputs.
        step: what an equation gives of its operands.
        shaped: the shape in place of another; a number stays one.
    """

    def constant(x: Any) -> Any:
        return jnp.reshape(x, shaped(jnp.shape(x))) if jnp.shape(x) else x

    return evaluated(program, xs, step, constant)


def of_other_shapes(
    program: Any,
    step: Callable[[Any, Sequence[Any]], Sequence[Any]],
    shaped: Callable[[tuple[int, ...]], Sequence[int]],
) -> ClosedJaxpr:
    """A traced program of arrays that have another shape in place of each, as `in_other_shapes`."""
    given = [jax.ShapeDtypeStruct(shaped(x.shape), x.dtype) for x in program.in_avals]
    return jax.make_jaxpr(lambda *xs: in_other_shapes(program, xs, step, shaped))(*given)


def maps_elements(eqn: Any) -> bool:
    """Whether an equation maps each element by itself."""
    name = eqn.primitive.name
    if name == "bitcast_convert_type" and eqn.invars[0].aval.shape != eqn.outvars[0].aval.shape:
        return False  # elements become words, or bytes
    return name in _ELEMENTWISE


def variables(atoms: Iterable[Any]) -> Iterator[Any]:
    """The atoms that are variables, not literals."""
    return (atom for atom in atoms if not isinstance(atom, Literal))


def inlined(program: ClosedJaxpr, platform: str) -> ClosedJaxpr:
    """A traced program with the bodies of its calls in their place, all the way down; or itself.

    The calls are functions with a rule, since a whole program has no derivative here, and
    `lax.platform_dependent`, of which it is the platform's branch.
    """

    def step(eqn: Any, operands: Operands) -> Operands:
        body = _body_of(eqn, operands, platform)
        return bound(eqn, operands) if body is None else evaluated(*body, step)

    if not any(_body_of(eqn, eqn.invars, platform) for eqn in program.jaxpr.eqns):
        return program
    return jax.make_jaxpr(lambda *xs: evaluated(program, xs, step))(*program.in_avals)


def _body_of(eqn: Any, operands: Sequence[T], platform: str) -> tuple[Any, Sequence[T]] | None:
    if eqn.primitive is DIFFERENTIABLE:
        return eqn.params["program"], operands
    platforms = eqn.params.get("branches_platforms") or ()
    for names, branch in zip(platforms, eqn.params.get("branches", ()), strict=False):
        if names is None or platform in names:
            return branch, operands[1:]
    return None


def bound(eqn: Any, xs: Sequence[Any]) -> Sequence[jax.Array]:
    """What the equation gives of these operands."""
    outs = eqn.primitive.bind(*xs, **eqn.primitive.get_bind_params(eqn.params))
    return outs if eqn.primitive.multiple_results else [outs]


@contextlib.contextmanager
def as_part_of(eqn: Any) -> Iterator[None]:
    """What is traced has the names of the equation, which profiles show."""
    names = source_info_util.current_name_stack() + eqn.source_info.name_stack
    user = source_info_util.user_context(eqn.source_info.traceback, name_stack=names)
    with user, eqn.ctx.manager:
        yield
