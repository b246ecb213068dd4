"""Names of another package's API that are there, and refuse each use in words."""

from collections.abc import Callable
from typing import Any, NoReturn


class RefusedName(type):
    """The type of classes whose call, and whose attributes' calls, raise an error.

    Attributes:
        error_of: returns the error, of the name that a program calls.
    """

    error_of: Callable[[str], Exception]

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise cls.error_of(cls.__name__)

    def __getattr__(cls, name: str) -> Any:
        # Python itself asks for names that begin like this, to copy an object or to show it.
        if name.startswith("_"):
            raise AttributeError(name)
        return refused_name(f"{cls.__name__}.{name}", cls.error_of, cls.__doc__)


def refused_name(name: str, error_of: Callable[[str], Exception], text: str | None) -> Any:
    """Return the class `name`, whose use raises what `error_of` returns; `text` documents it."""
    # A class, and no function or object: programs import such names, and give them to `isinstance`
    # and to type hints, before they use them, if they ever do.
    return RefusedName(name, (), {"error_of": error_of, "__doc__": text})
