"""The exceptions of ONNX Runtime, with sentences of this package.

A message names what was expected, what was given, and the cure. ONNX Runtime raises some mistakes
as `ValueError`, `TypeError` and `RuntimeError` of Python; so does this package.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from dml_jax.errors import DmlError, Fault, Sentence


class OnnxRuntimeError(Exception):
    """The base of ONNX Runtime's exceptions here; ONNX Runtime itself has no common base.

    Attributes:
        faults: each broken rule; empty where the error is one sentence.
    """

    def __init__(self, message: "str | DmlError"):
        self.faults: tuple[Fault, ...] = message.faults if isinstance(message, DmlError) else ()
        super().__init__(str(message))


class Fail(OnnxRuntimeError):
    """A model cannot be loaded, or a node cannot be computed."""


class InvalidArgument(OnnxRuntimeError):
    """A name, a type, a rank or a size is not what the model asks for."""


class NoSuchFile(OnnxRuntimeError):
    """The file of a model does not exist."""


class InvalidProtobuf(OnnxRuntimeError):
    """The bytes are no ONNX model."""


class NotImplemented(OnnxRuntimeError):  # noqa: A001
    """ONNX Runtime has it, and this package does not."""


class InvalidGraph(OnnxRuntimeError):
    """The graph of a model breaks ONNX's rules."""


class RuntimeException(OnnxRuntimeError):
    """A node failed."""


class EPFail(OnnxRuntimeError):
    """A provider failed."""


def _exception(name: str) -> type[OnnxRuntimeError]:
    """Return an exception that nothing here raises by itself."""
    text = "An exception of ONNX Runtime."
    return type(name, (OnnxRuntimeError,), {"__doc__": text, "__module__": __name__})


DeviceReset = _exception("DeviceReset")
EngineError = _exception("EngineError")
ModelLoadCanceled = _exception("ModelLoadCanceled")
ModelLoaded = _exception("ModelLoaded")
ModelRequiresCompilation = _exception("ModelRequiresCompilation")
NoModel = _exception("NoModel")
NotFound = _exception("NotFound")


class NodeError(Fail, InvalidArgument, RuntimeException):
    """A node cannot be computed by its inputs: ONNX Runtime's kernels raise any of the three."""


class ModelError(Fail, InvalidGraph):
    """A node is none that ONNX allows: ONNX Runtime raises either of the two."""


def sentence(text: str) -> DmlError:
    """Return the `ValueError` that says one sentence."""
    return DmlError([Fault("", "", Sentence(text), "")])


class _Brief:
    """A context whose errors of usage show the lines of the caller alone.

    With the environment variable `DML_JAX_RAISE=1` they show the lines of this package too.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, steps: Any) -> None:
        is_usage = isinstance(error, (OnnxRuntimeError, DmlError))
        if is_usage and os.environ.get("DML_JAX_RAISE") != "1":
            error.__traceback__ = None


BRIEF = _Brief()


@contextlib.contextmanager
def raised_as(kind: type[OnnxRuntimeError]) -> Iterator[None]:
    """Raise each `DmlError` of the body of the `with` statement as another exception."""
    try:
        yield
    except DmlError as error:
        raise kind(error) from None
