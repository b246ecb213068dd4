"""Equations of a traced program, for what evaluates it once more."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
from jax._src import source_info_util

# What maps each element by itself.
ELEMENTWISE = frozenset(
    {"abs", "add", "and", "bitcast_convert_type", "ceil", "clamp", "convert_element_type", "div"}
    | {"eq", "exp", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p", "lt"}
    | {"max", "min", "mul", "ne", "neg", "not", "or", "pow", "rem", "round", "rsqrt", "select_n"}
    | {"shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sqrt", "square"}
    | {"sub", "tanh", "xor"}
)


def body_of(eqn: Any, platform: str) -> Any:
    """The program that is evaluated in an equation's place, of its last operands, or None.

    That is the function of a `jax.custom_jvp`, since a whole program has no derivative here, and
    the platform's branch of a `lax.platform_dependent`.
    """
    if eqn.primitive.name == "custom_jvp_call":
        return eqn.params["call_jaxpr"]
    branches = zip(
        eqn.params.get("branches", ()), eqn.params.get("branches_platforms") or (), strict=False
    )
    return next((body for body, names in branches if names is None or platform in names), None)


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
