"""The process that fills in chat templates: a request a line of JSON, an answer a line of JSON.

`templates.py` starts it. It imports nothing of the package, so that it starts at once.
"""

import contextlib
import datetime
import json
import sys
from collections.abc import Mapping
from typing import Any


class StoppedError(Exception):
    """What a template raises by `raise_exception`."""


def stopped(message: str) -> None:
    raise StoppedError(message)


def filled(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of a template and its values, or how it failed."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = stopped
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    environment.filters["tojson"] = lambda x, indent=None: json.dumps(
        x, ensure_ascii=False, indent=indent
    )
    try:
        return {"text": environment.from_string(request["template"]).render(**request["values"])}
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
