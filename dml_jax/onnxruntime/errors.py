"""The exceptions of ONNX Runtime, with sentences of this package.

A message names what was expected, what was given, and the cure. ONNX Runtime raises some mistakes
as `ValueError`, `TypeError` and `RuntimeError` of Python; so does this package.
"""

import contextlib
from collections.abc import Iterator

from dml_jax.errors import OF_LIMITS, DmlError, Fault, Sentence


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
RuntimeException = _exception("RuntimeException")


def sentence(text: str) -> DmlError:
    """Return the `ValueError` that says one sentence."""
    return DmlError([Fault("", "", Sentence(text), "")])


@contextlib.contextmanager
def raised_as(kind: type[OnnxRuntimeError]) -> Iterator[None]:
    """Raise each `DmlError` of the body of the `with` statement as another exception."""
    try:
        yield
    except DmlError as error:
        is_index = error.faults[0].kind == OF_LIMITS
        raise (InvalidArgument if is_index else kind)(error) from None
