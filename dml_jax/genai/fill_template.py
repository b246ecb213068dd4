"""The process that fills in chat templates: a request a line of JSON, an answer a line of JSON.

`text.py` starts it. It imports nothing of the package, so that it starts at once.
"""

import contextlib
import datetime
import functools
import json
import sys
from collections.abc import Mapping
from typing import Any


class StoppedError(Exception):
    """What a template raises by `raise_exception`."""


def stop(message: str) -> None:
    raise StoppedError(message)


def to_json(
    x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys=False
) -> str:
    """Return a value as JSON, by the arguments that transformers' filter has."""
    known = {"ensure_ascii": ensure_ascii, "indent": indent, "separators": separators}
    return json.dumps(x, **known, sort_keys=sort_keys)


def strftime_now(format: str) -> str:  # noqa: A002  (templates may name the argument)
    """Return this moment in a form."""
    return datetime.datetime.now().strftime(format)


@functools.cache
def environment() -> Any:
    """Return the environment that transformers fills in templates with."""
    from jinja2 import nodes
    from jinja2.exceptions import SecurityError
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class Generation(Extension):
        """`{% generation %}` stands around the words that a model is trained to say."""

        tags = {"generation"}

        def parse(self, parser: Any) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("said"), [], [], body, lineno=line)

        def said(self, caller: Any) -> str:
            return caller()

    class Names(Namespace):
        """A namespace without names by which a template could leave the sandbox."""

        def __init__(*args: Any, **named: Any):  # `self` is a name like others
            own, *others = args
            Namespace.__init__(own)
            for name, value in dict(*others, **named).items():
                own[name] = value

        def __setitem__(self, name: str, value: Any) -> None:
            if name.startswith("_"):
                raise SecurityError(f"a namespace takes no name that begins with _, as {name!r}")
            super().__setitem__(name, value)

    found = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    found.globals["raise_exception"] = stop
    found.globals["strftime_now"] = strftime_now
    found.globals["namespace"] = Names
    found.filters["tojson"] = to_json
    return found


def filled(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of a template and its values, or how it failed."""
    try:
        return {"text": environment().from_string(request["template"]).render(**request["values"])}
    except StoppedError as error:
        return {"stopped": str(error)}
    except RecursionError:
        return {"deep": "more"}
    except Exception as error:  # a template computes, and may fail in any way
        return {"failed": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Answer requests until their end, within the bytes of memory that the first argument says."""
    with contextlib.suppress(ImportError, ValueError):  # Windows has no such limits
        import resource

        limit = int(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for line in sys.stdin:
        sys.stdout.write(json.dumps(filled(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
