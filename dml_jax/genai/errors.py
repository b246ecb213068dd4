"""The errors of the module, which are RuntimeErrors as those of ONNX Runtime GenAI."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from dml_jax.errors import DmlError, Fault, InternalError, Sentence, Unquoted

_OF_BROKEN = ArithmeticError, AttributeError, LookupError, TypeError, ValueError


class GenAIError(DmlError, RuntimeError):
    """Says what is wrong with a folder, an option or a call, in one line a fault."""


@contextlib.contextmanager
def as_genai_errors() -> Iterator[None]:
    """Raise each `DmlError` as a `GenAIError`, but for an `InternalError`."""
    try:
        yield
    except (GenAIError, InternalError):
        raise
    except DmlError as error:
        raise GenAIError(error.faults) from None


def refusal(field: str, rule: str, value: Any) -> GenAIError:
    """Return the error that a value breaks a rule."""
    return GenAIError([Fault("", field, rule, value)])


@contextlib.contextmanager
def fitting(field: str, rule: str) -> Iterator[None]:
    """Raise what a broken file leads to, as an index beyond a list: `field` breaks `rule`."""
    try:
        yield
    except DmlError:
        raise
    except (*_OF_BROKEN, StopIteration, re.error) as error:
        raise refusal(field, rule, Unquoted(f"{type(error).__name__}: {error}")) from None


def absent(what: str, instead: str) -> GenAIError:
    """Return the error that a part of the API is not carried out."""
    text = f"dml_jax.genai has no {what}: {instead}"
    return GenAIError([Fault("", "", Sentence(text), Unquoted(""))])
