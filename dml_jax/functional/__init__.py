"""Operators as functions of arrays, under DirectMLX's names, with its argument order and defaults.

`dml_jax.facts` has the signature of every function. A function reads sizes and types from its
arrays, broadcasts them as NumPy does, and makes the descriptor of the lowest version of the
operator that expresses the arguments. It keeps the descriptor, and a later call of the same shapes
looks it up. On expressions of a `GraphBuilder` it adds a node. Types are never promoted; a Python
number in place of an array has the type of the other arrays. Each function raises `DmlError` for
arguments that its operator refuses, and `TypeError` for a call that does not fit its signature.

DirectML has no bfloat16. Functions of arrays take it as an extension: they compute in FLOAT32, and
round results that FLOAT16 arrays would give in FLOAT16 to bfloat16, once.
"""

import builtins
from collections.abc import Callable, Iterator
from typing import Any

from dml_jax import facts
from dml_jax.errors import DmlError, Fault
from dml_jax.functional.call import Call
from dml_jax.functional.family import Family
from dml_jax.functional.version_choice import call_of
from dml_jax.graph import Expression, GraphBuilder

_KEPT_MAX = 4096  # calls of one function
_MADE: dict[str, Callable[..., Any]] = {}


def _function(name: str) -> Callable[..., Any]:
    """Return the function of a name: one object, though several threads may make one at once."""
    return _MADE.get(name) or _MADE.setdefault(name, _make(name))


def _make(name: str) -> Callable[..., Any]:
    family = Family(name)
    kept: dict[Any, Call] = {}
    key_of = {p: family.key_of(p) for p in family.defaults}
    keys = [key_of[p] for p in family.defaults]
    has_graph = "graph" in family.defaults

    def call(*positional: Any, **named: Any) -> Any:
        graph = None
        if family.spellings:
            named = {family.spellings.get(n, n): value for n, value in named.items()}
        if has_graph:
            positional, named = (), family.bound(positional, named)
            graph = named.pop("graph", None)
            if not isinstance(graph, (GraphBuilder, type(None))):
                c_name = family.operators[0].c_name
                raise DmlError([Fault(c_name, "graph", "be a GraphBuilder", graph)])
        try:
            key: Any = [make(value) for make, value in zip(keys, positional)]  # noqa: B905
            if named:
                key += [(n, key_of[n](value)) for n, value in named.items()]
            key = len(positional), graph is not None and graph.beyond, *key
            found = kept.get(key)
        except (TypeError, KeyError):
            key = found = None
        if found is None:
            given = family.bound(positional, named)
            if key is None:
                # An iterator can be read once only.
                given = {n: tuple(v) if isinstance(v, Iterator) else v for n, v in given.items()}
                return call_of(family, given, {}, graph)((), given, graph)
            places = dict(zip(family.defaults, range(len(positional)), strict=False))
            found = call_of(family, given, places, graph)
            if len(kept) >= _KEPT_MAX:
                kept.clear()
            kept[key] = found
        return found(positional, named, graph)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = family.documentation
    call.__signature__ = family.signature  # pyright: ignore[reportFunctionMemberAccess]
    call.family = family  # pyright: ignore[reportFunctionMemberAccess]
    return call


Expression.function_of = staticmethod(_function)


def __getattr__(name: str) -> Any:
    if name == "FUNCTIONS":
        return list(facts.functions())
    if name == "__all__":  # without the names of Python's own functions
        return [n for n in __getattr__("FUNCTIONS") if not hasattr(builtins, n)]
    if name in facts.functions():
        return _function(name)
    if name.endswith("Outputs"):  # `pickle` asks for the class of a named tuple
        for function, entry in facts.functions().items():
            if entry.get("results") and name == f"{facts.class_name_of(function.upper())}Outputs":
                return _function(function).family.outputs  # pyright: ignore[reportFunctionMemberAccess]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __getattr__("FUNCTIONS")
