"""Ahead-of-time compilation, as IDMLDevice::CompileOperator has it."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.core import Tracer
from jax.typing import ArrayLike

from dml_jax.description.arrays import are_described, array_faults, unusable
from dml_jax.description.tensor import X64_RULE, TensorDesc, is_array, needs_x64, shown_array
from dml_jax.errors import (
    DmlError,
    Expect,
    Fault,
    Unquoted,
    collecting,
    missing_extra,
    moving,
    raise_if,
)
from dml_jax.lowering.precision import chosen
from dml_jax.memory.binding_table import (
    IS_DEVICE,
    BindingTable,
    Buffer,
    BufferBinding,
    bound_to,
    devices_of,
    ran,
    text_of,
)
from dml_jax.operator.call import Bindable, described
from dml_jax.runtime.compiler_options import compiled_with
from dml_jax.runtime.platform import default_device

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


@dataclass(frozen=True)
class Cost:
    """The work of one call, as XLA counts it.

    Attributes:
        flops: floating-point operations.
        bytes_accessed: bytes that the program's instructions read and write.
        bytes_in, bytes_out: bytes of the arguments with a graph's constants, and of the results.
        bytes_temporary: bytes of memory beside these, while it runs.
    """

    flops: float
    bytes_accessed: float
    bytes_in: int
    bytes_out: int
    bytes_temporary: int


class Compiled:
    """An operator, a graph or a function of them, compiled for one set of sizes and types.

    Call it with arrays, or `bind` it to memory. Made by `compile`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Sequence[tuple[str, TensorDesc]],
        outputs: Sequence[tuple[str, TensorDesc]],
        options: Mapping[str, Any],
        device: Any,
        precision: str | None = None,
    ):
        self._function = function
        self._device = device
        self._precision = precision
        self._inputs = inputs
        self._outputs = outputs
        self._options = options
        self._shapes = [jax.ShapeDtypeStruct(t.sizes, t.dtype) for _, t in inputs]
        self._held = function.constants if isinstance(function, Bindable) else ()
        jitted = jax.jit(self._program, **_after_constants(options, len(inputs)))
        with chosen(precision):
            self._executable = self._compile(jitted)

    def _compile(self, jitted: Any) -> jax.stages.Compiled:
        """Return the program: one that is kept, where the function's programs are."""
        # A program in a file is read for one device; what spans several is compiled each time.
        place = self._options.get("in_shardings")
        is_single = {*self._options} <= {"in_shardings"}
        is_single = is_single and isinstance(place, (jax.sharding.SingleDeviceSharding, type(None)))
        own = self._function.compiler_options if isinstance(self._function, Bindable) else {}
        if isinstance(self._function, Bindable) and self._function.programs and is_single:
            device = next(iter(place.device_set)) if place else default_device()
            if device is not None:
                kept = self._function.programs
                return kept.compiled("compile", jitted, device, self._held, *self._shapes, own=own)
        return compiled_with(jitted.lower(self._held, *self._shapes), own)

    @functools.cached_property
    def _constants(self) -> tuple[jax.Array, ...]:
        """The constants on the device, sent at the first call: some programs run elsewhere."""
        places = self._executable.input_shardings[0][0]
        pairs = zip(self._held, places, strict=True)
        return tuple(jax.device_put(array, place) for array, place in pairs)

    def _program(self, constants: Sequence[Any], *arrays: Any) -> Any:
        function = self._function
        if isinstance(function, Bindable):
            return function.call_with(constants or None, *arrays)
        return function(*arrays)

    def __reduce__(self) -> Any:
        then = "copy or send what it is made of, and compile that"
        raise TypeError(f"a Compiled is of one process and device: {then}")

    def __repr__(self) -> str:
        return f"<Compiled {self.name}: {described(self.inputs, self.outputs)}>"

    @property
    def name(self) -> str:
        return getattr(self._function, "__name__", "function")

    @functools.cached_property
    def inputs(self) -> tuple[TensorDesc, ...]:
        return tuple(tensor for _, tensor in self._inputs)

    @property
    def outputs(self) -> tuple[TensorDesc, ...]:
        return tuple(tensor for _, tensor in self._outputs)

    def __call__(self, *arrays: ArrayLike) -> Any:
        """Return the results, in memory that the call allocates.

        Raises `DmlError` for arrays of other sizes or types.
        """
        if not are_described(self.inputs, arrays):
            raise DmlError(array_faults(self.name, self._inputs, arrays))
        arguments = self._constants, *arrays
        return ran(self._executable, arguments, lambda: raise_if(self._faults_of_places(arrays)))

    def _faults_of_places(self, arrays: Sequence[Any]) -> Iterator[Fault]:
        """Yield why arrays of the right sizes and types cannot be taken."""
        (_, *shardings), _ = self._executable.input_shardings
        for (path, tensor), array, sharding in zip(self._inputs, arrays, shardings, strict=True):
            if isinstance(array, Tracer):
                rule = "be there: what is compiled has no transformations, what it is made of has"
                yield Fault(self.name, path, rule, Unquoted("an array that is traced"))
            elif needs_x64(tensor.data_type):
                yield Fault(self.name, f"{path}.DataType", X64_RULE, tensor.data_type.shown())
            elif fault := unusable(self.name, path, array):
                yield fault
            elif isinstance(array, jax.Array) and sharding and array.committed:
                own, lies = sharding.device_set, array.devices()
                rule = f"lie on {devices_of(own)}, for which it is compiled"
                if lies != own:
                    yield Fault(self.name, path, rule, Unquoted(devices_of(lies)))

    def cost(self) -> Cost:
        """Return the work of one call, as XLA counts it."""
        work = self._executable.cost_analysis() or {}
        memory = self._executable.memory_analysis()
        return Cost(
            flops=work.get("flops", 0.0),
            bytes_accessed=work.get("bytes accessed", 0.0),
            bytes_in=memory.argument_size_in_bytes if memory else 0,
            bytes_out=memory.output_size_in_bytes if memory else 0,
            bytes_temporary=memory.temp_size_in_bytes if memory else 0,
        )

    def as_text(self) -> str:
        """Return the optimised HLO."""
        return text_of(self._executable)

    def export(self, platforms: Sequence[str] | None = None) -> bytes:
        """Return StableHLO, which a process with JAX alone runs.

        `jax.export.deserialize(data).call(x)` runs it. The constants of a graph are part of it. JAX
        needs the package flatbuffers for both.

        Args:
            platforms: "cpu", "cuda", "rocm", "tpu"; None is the default device's.
        """
        if isinstance(platforms, str) or not set(platforms or ()) <= set(PLATFORMS):
            rule = f"be a list of {', '.join(PLATFORMS)}"
            raise DmlError([Fault(self.name, "platforms", rule, platforms)])
        try:
            import flatbuffers  # noqa: F401  (jax.export serializes with it)
        except ImportError:
            raise missing_extra("flatbuffers", "export", "export", self.name) from None
        from jax import export

        # Without constants as arguments: they become a part of the program, which stands alone.
        program = jax.jit(functools.partial(self._program, ()), **self._options)
        with chosen(self._precision):
            return bytes(export.export(program, platforms=platforms)(*self._shapes).serialize())

    def bind(
        self, inputs: Sequence[Buffer | BufferBinding], outputs: Sequence[Buffer | BufferBinding]
    ) -> BindingTable:
        """Return a table of the function on memory, by DirectML's rules.

        Each range is large enough, and starts at a multiple of 16 bytes (more where the tensor
        guarantees it); outputs overlap nothing, but the same input where the operator runs in
        place. What is OWNED_BY_DML is copied, as by DirectML's initializer. A buffer may be of
        another type or shape than the tensor: bytes count. The table is a program of its own,
        compiled here, and runs where the buffers lie. Raises one `DmlError` for all that is wrong.
        """
        tensors = self._inputs, self._outputs
        with chosen(self._precision):
            return bound_to((inputs, outputs), self._function, self.name, tensors, self._device)


def compile(  # noqa: A001  (IDMLDevice::CompileOperator)
    function: Callable[..., Any],
    *inputs: Any,
    in_shardings: Any = None,
    out_shardings: Any = None,
    device: Any = None,
    precision: str | None = None,
) -> Compiled:
    """Compile an operator, a graph, or any function of them, ahead of time.

    Arguments and results are described as tensors are: arrays of 1 to 8 dimensions. Large constants
    of a graph are kept on the device, as arguments of the program.

    Args:
        function: an operator, a graph, or a function of arrays.
        inputs: for a function, one `TensorDesc`, array or `jax.ShapeDtypeStruct` an argument; an
            operator or a graph knows its own.
        in_shardings: as of `jax.jit`.
        out_shardings: as of `jax.jit`.
        device: where to run; None is the default device.
        precision: how products and convolutions of FLOAT32 are computed: "float32",
            "tensorfloat32" or "bfloat16", as of `load_onnx`; None is as JAX's setting says. A
            network that was loaded with one keeps that.

    Raises `DmlError` where the inputs do not fit the function.
    """
    expect = Expect("compile")
    expect(callable(function), "function", "be an operator, a graph or a function", function)
    if device is not None:
        expect(isinstance(device, jax.Device), "device", IS_DEVICE, device)
        expect(in_shardings is None, "in_shardings", "be left out where there is a device", device)
    expect.check()
    if device is not None:
        in_shardings = jax.sharding.SingleDeviceSharding(device)
    shardings = {"in_shardings": in_shardings, "out_shardings": out_shardings}
    options = {name: value for name, value in shardings.items() if value is not None}
    if isinstance(function, Bindable):
        if inputs:
            rule = "be left out, since the descriptor knows its own"
            raise DmlError([Fault(function.c_name, "inputs", rule, len(inputs))])
        tensors = [(path, t) for path, _, t in function.tensors(output=False)]
        results = [(path, t) for path, _, t in function.tensors(output=True)]
    else:
        tensors = _tensors("inputs", inputs)
        for path, tensor in tensors:
            expect(not needs_x64(tensor.data_type), path, X64_RULE, tensor.data_type.shown())
        expect.check()
        shapes = [jax.ShapeDtypeStruct(t.sizes, t.dtype) for _, t in tensors]
        results = _tensors("outputs", jax.tree.leaves(jax.eval_shape(function, *shapes)))
    return Compiled(function, tensors, results, options, device, precision)


def _after_constants(options: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return the options of `jax.jit` for a list of constants before `count` arguments."""
    # One sharding serves all arguments; a list of them has one for each, so the constants, which
    # are the first argument, need another one.
    given = options.get("in_shardings")
    if given is None or isinstance(given, jax.sharding.SingleDeviceSharding):
        return dict(options)
    own = given if isinstance(given, (list, tuple)) else [given] * count
    return {**options, "in_shardings": (None, *own)}


def _tensors(name: str, values: Sequence[Any]) -> list[tuple[str, TensorDesc]]:
    """Return (name, description) of each argument or result of a function."""
    faults, tensors = list[Fault](), list[tuple[str, TensorDesc]]()
    for index, value in enumerate(values):
        path = f"{name}[{index}]"
        if not (isinstance(value, TensorDesc) or is_array(value)):
            rule = "be a TensorDesc or an array, an argument for each"
            faults.append(Fault("compile", path, rule, shown_array(value)))
            continue
        with collecting(faults), moving("compile", path):
            tensors.append((path, value if isinstance(value, TensorDesc) else TensorDesc.of(value)))
    raise_if(faults)
    return tensors
