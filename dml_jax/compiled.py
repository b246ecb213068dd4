"""Ahead-of-time compilation, as IDMLDevice::CompileOperator and IDMLBindingTable have it."""

import functools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from dml_jax.binding import Bound, check_overlaps, check_range
from dml_jax.enums import TensorDataType, TensorFlags
from dml_jax.errors import DmlError, Expect, Fault, Unquoted, missing_extra, with_article
from dml_jax.operator import (
    Bindable,
    Operator,
    are_described,
    array_faults,
    compiler_options,
    described,
    whole_program,
)
from dml_jax.tensor import X64_RULE, TensorDesc, is_array, is_uint, needs_x64, shown_array

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


IS_DEVICE = "be a jax.Device"
IS_LOST = (
    "be bound to memory that is there (a dispatch took it for its results, or was interrupted)"
)


class Buffer:
    """Memory on a device: an array, of any shape, that dispatches replace.

    `buffer.array` is what the memory holds now. An array that was given out before a dispatch that
    writes the buffer is gone after it: its memory is what the dispatch wrote to.
    """

    __slots__ = ("_array",)

    def __init__(self, array: ArrayLike):
        """Raises `DmlError` for what DirectML, or JAX as it is set, has no type for."""
        self.array = array

    @property
    def array(self) -> jax.Array:
        """What the memory holds now; what is set is checked as a new buffer's is."""
        return self._array

    @array.setter
    def array(self, array: ArrayLike) -> None:
        _check_type(checked_type(array, "a buffer's array"))
        self._array = array if isinstance(array, jax.Array) else jax.numpy.asarray(array)

    @classmethod
    def of(cls, tensor: TensorDesc, device: Any = None) -> "Buffer":
        """Zeros, as many as a tensor needs, on a `jax.Device`; None is the default one.

        Of the tensor's sizes where it is packed, since XLA loops over the axes of what is written,
        else flat. 2 cores, jax 0.10.2, ms, flat and so, SPLIT over 1 of UINT8 [8, 64, 256, 256]
        28, 3.3; FLOAT16 [4, 13, 509, 521] 14, 2.2; TILE of FLOAT32 [1, 6, 509, 521] 6.2, 1.4.

        Raises `DmlError` for anything but these.
        """
        expect = Expect("")
        rule = "be a TensorDesc (Buffer itself takes an array)"
        expect(isinstance(tensor, TensorDesc), "a buffer's tensor", rule, shown_array(tensor))
        if device is not None:
            expect(isinstance(device, jax.Device), "a buffer's device", IS_DEVICE, device)
        expect.check()
        _check_type(tensor.data_type)
        size = tensor.data_type.element_size
        count = max(-(-tensor.total_tensor_size_in_bytes // size), 1)
        if tensor.total_tensor_size_in_bytes == tensor.implied_size_in_bytes:
            count = tensor.span  # memory may end with the last element
        zeros = np.zeros(count, tensor.dtype)
        if tensor.is_packed and count == tensor.span:
            zeros = zeros.reshape(tensor.sizes)
        return cls(jax.device_put(zeros, device))

    @property
    def size_in_bytes(self) -> int:
        """Of the memory."""
        return self.array.nbytes

    def block_until_ready(self) -> "Buffer":
        """Blocks until what was dispatched to write the memory is done, as arrays do."""
        self.array.block_until_ready()
        return self

    def __repr__(self) -> str:
        return f"Buffer({shown_array(self.array)})"


def checked_type(array: Any, place: str) -> TensorDataType:
    """That of an array. Raises `DmlError` for what is none whose bytes are as DirectML's."""
    if not is_array(array):
        raise DmlError([Fault("", place, "be an array", shown_array(array))])
    is_plain = isinstance(array, (jax.Array, np.ndarray, np.generic))
    if not is_plain or isinstance(array, np.ma.MaskedArray):
        got = Unquoted(with_article(type(array)))
        raise DmlError([Fault("", place, "be one of JAX or NumPy", got)])
    try:
        data_type = TensorDataType.of_dtype(array.dtype)
    except DmlError as error:
        raise DmlError(error.moved("", f"{place}.dtype")) from None
    if not array.dtype.isnative:
        rule = f"be in the machine's byte order (x.astype({data_type.dtype.name!r}) converts)"
        raise DmlError([Fault("", place, rule, shown_array(array))])
    return data_type


def _check_type(data_type: TensorDataType) -> None:
    if needs_x64(data_type) or not data_type.element_size:
        rule = X64_RULE if data_type.element_size else "have elements of whole bytes"
        raise DmlError([Fault("", "a buffer's type", rule, data_type.shown())])


@dataclass(frozen=True, eq=False)
class BufferBinding:
    """DML_BUFFER_BINDING: a part of a buffer, in bytes; `size_in_bytes` None is up to its end."""

    buffer: Buffer
    offset: int = 0
    size_in_bytes: int | None = None


@dataclass(frozen=True)
class Cost:
    """What XLA says that one call takes.

    Attributes:
        flops: floating-point operations.
        bytes_accessed: bytes that the program's instructions read and write.
        bytes_in, bytes_out: bytes of the arguments and of the results.
        bytes_temporary: bytes of memory beside these, while it runs.
    """

    flops: float
    bytes_accessed: float
    bytes_in: int
    bytes_out: int
    bytes_temporary: int


class BindingTable:
    """A function bound to memory: `dispatch()` reads the inputs and replaces the outputs.

    The memory of the outputs is donated to XLA, so that a dispatch allocates nothing for them, and
    an exception in its midst (Ctrl-C) may lose it. A table is for one thread at a time. Tensors
    that are OWNED_BY_DML are copied when it is made.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        bounds: Sequence[Bound],
        buffers: Mapping[str, Buffer],
    ):
        self.name = name
        self._function = function
        self._inputs = [bound for bound in bounds if not bound.output]
        self._outputs = [bound for bound in bounds if bound.output]
        written = {bound.memory for bound in self._outputs}
        keys = dict.fromkeys(b.memory for b in (*self._inputs, *self._outputs) if not b.owned)
        self._written = {key: buffers[key] for key in keys if key in written}
        self._read = {key: buffers[key] for key in keys if key not in written}
        devices = {device for key in keys for device in buffers[key].array.devices()}
        self._platform = min(device.platform for device in devices)  # they are of one
        owned = {bound.memory for bound in self._inputs if bound.owned}
        self._owned = {key: buffers[key].array.copy() for key in owned}
        # An output that no input reads is an argument too: its memory is what is written to.
        told = compiler_options(function)
        program = jax.jit(self._run, donate_argnums=0, keep_unused=True, compiler_options=told)
        self._program = program.lower(*self._arguments()).compile()
        self._was = {key: _shown(buffers[key].array) for key in keys}

    def __repr__(self) -> str:
        parts = ((b.path, b.memory, b.offset) for b in (*self._inputs, *self._outputs))
        bound = ", ".join(f"{path} at {memory}+{offset}" for path, memory, offset in parts)
        return f"<BindingTable of {self.name}: {bound}>"

    def _arguments(self) -> tuple[Any, ...]:
        held = ({key: b._array for key, b in part.items()} for part in (self._written, self._read))
        return (*held, self._owned)

    def _run(self, written: Any, read: Any, owned: Any) -> Any:
        memory = {**written, **read}
        arrays = [b.read((owned if b.owned else memory)[b.memory]) for b in self._inputs]
        function = self._function
        fills = all(bound.fills(memory[bound.memory]) for bound in self._outputs)
        call = whole_program(function) if fills else function
        if isinstance(function, Operator) and function.by_element and self._is_in_place:
            shaped = all(memory[b.memory].shape == b.tensor.sizes for b in self._outputs)
            call = _replacing(function, call, self._platform, shaped, fills)
        results = call(*arrays)
        for bound, result in zip(self._outputs, jax.tree.leaves(results), strict=True):
            memory[bound.memory] = bound.write(memory[bound.memory], result)
        return {key: memory[key] for key in written}

    def dispatch(self) -> None:
        """Runs once. Does not wait for the device; `wait` does, or `jax.block_until_ready`.

        Raises `DmlError` where the memory is not what it was when it was bound.
        """
        written = _ran(self._program, self._arguments(), self._check_memory)
        for key, array in written.items():
            self._written[key]._array = array

    def _check_memory(self) -> None:
        """Raises the error that what is bound was taken or replaced, if that is so."""
        expect, held = Expect(self.name), {**self._written, **self._read}
        for bound in (*self._inputs, *self._outputs):
            if not bound.owned:
                array, was = held[bound.memory].array, self._was[bound.memory]
                if expect(not array.is_deleted(), bound.path, IS_LOST, _deleted(array)):
                    got = _shown(array)
                    expect(got == was, bound.path, f"be bound to {was}, as it was", Unquoted(got))
        expect.check()

    def wait(self) -> None:
        """Blocks until what was dispatched is done."""
        jax.block_until_ready([buffer.array for buffer in self._written.values()])

    @property
    def _is_in_place(self) -> bool:
        """Whether an output lies where an input does, and elements lie in order."""
        read = {bound.memory for bound in self._inputs}
        return any(bound.memory in read for bound in self._outputs) and all(
            bound.tensor.is_packed for bound in (*self._inputs, *self._outputs)
        )

    @property
    def bytes_temporary(self) -> int:
        """Bytes of memory that a dispatch takes beside what is bound."""
        memory = self._program.memory_analysis()
        return memory.temp_size_in_bytes if memory else 0

    def as_text(self) -> str:
        """The optimised HLO of the whole dispatch, strides and all."""
        return _text_of(self._program)


def _replacing(
    operator: Operator, call: Callable[..., Any], platform: str, shaped: bool, fills: bool
) -> Callable[..., Any]:
    """How elements are replaced where they lie, each by itself: on one axis, unless in `call`.

    On a CPU memory that is flat (not `shaped` as the tensor is) has a reshape in the loop with what
    is computed, and XLA does not write into what it reads then, but to new memory, which it
    copies. 2 cores, jax 0.10.2, ms, CLIP of [8, 32, 256, 256], so and on one axis: FLOAT32 21.8,
    1.4; FLOAT16 9.9, 0.8; UINT8 1.4, 0.5; of [5, 13, 509, 521] 23.9, 1.5; 11.2, 0.8; 2.1, 0.5. (To
    other memory FLOAT32 takes 3.8.)

    On a GPU what a whole program does to give threads more to write is copied as well, and one axis
    is unrolled where rows of an odd length are not. H100, jax 0.11.2, us, whole, and in part on one
    axis, [8, 64, 512, 512] FLOAT32 364, 364; FLOAT16 368, 187; UINT8 190, 165; [6, 14, 1021, 1031]
    491, 241; 250, 126; 133, 111. An odd number of narrow elements is copied: FLOAT16 198, 330;
    UINT8 138, 329.
    """
    tensors = {f.name: getattr(operator, f.name) for f in operator.fields if f.tensor}
    elements = math.prod(operator.inputs[0].sizes)
    is_odd = elements % 2 == 1 and operator.inputs[0].data_type.element_size < 4
    if {"cpu": shaped, "gpu": is_odd}.get(platform, True):
        return call
    flat = operator.replace(
        **{name: t and TensorDesc(t.data_type, [elements]) for name, t in tensors.items()}
    )
    mapped = whole_program(flat) if platform == "cpu" and fills else flat
    return lambda *xs: mapped(*(x.reshape(-1) for x in xs)).reshape(xs[0].shape)


_PLACES = re.compile(
    r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*\n*| stack_frame_id=\d+",
    re.MULTILINE,
)


def _ran(program: jax.stages.Compiled, arguments: Sequence[Any], check: Callable[[], None]) -> Any:
    """What it gives. Where JAX does not take the arguments, `check` raises the error if it can."""
    try:
        if jax.config.jax_disable_jit:  # pyright: ignore[reportAttributeAccessIssue]
            with jax.disable_jit(False):  # else JAX refuses whatever is compiled ahead of time
                return program(*arguments)
        return program(*arguments)
    except jax.errors.JaxRuntimeError:
        raise  # it ran
    except (TypeError, ValueError, RuntimeError):
        check()
        raise


def _deleted(array: jax.Array) -> Unquoted:
    return Unquoted(f"a deleted {shown_array(array)}")


def _shown(array: jax.Array) -> str:
    return f"{shown_array(array)} on {_devices(array.devices())}"


def _devices(devices: Collection[Any]) -> str:
    return ", ".join(sorted(map(str, devices)))


def _text_of(program: jax.stages.Compiled) -> str:
    """The HLO, without the places in Python's files: of a clip 86 of 104 lines."""
    return _PLACES.sub("", program.as_text() or "")


class Compiled:
    """An operator, a graph or a function of them, compiled for one set of sizes and types.

    Call it with arrays, or `bind` it to memory. Made by `compile`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Sequence[tuple[str, TensorDesc]],
        outputs: Sequence[tuple[str, TensorDesc]],
        jitted: Any,
        device: Any,
    ):
        self._function = function
        self._device = device
        self._inputs = inputs
        self._outputs = outputs
        self._jitted = jitted
        self._shapes = [jax.ShapeDtypeStruct(t.sizes, t.dtype) for _, t in inputs]
        self._executable = jitted.lower(*self._shapes).compile()

    def __repr__(self) -> str:
        return f"<Compiled {self.name}: {described(self.inputs, self.outputs)}>"

    @property
    def name(self) -> str:
        return getattr(self._function, "c_name", getattr(self._function, "__name__", "function"))

    @functools.cached_property
    def inputs(self) -> tuple[TensorDesc, ...]:
        return tuple(tensor for _, tensor in self._inputs)

    @property
    def outputs(self) -> tuple[TensorDesc, ...]:
        return tuple(tensor for _, tensor in self._outputs)

    def __call__(self, *arrays: ArrayLike) -> Any:
        """The results, in memory that the call allocates. Raises `DmlError` for other arrays."""
        if not are_described(self.inputs, arrays):
            raise DmlError(array_faults(self.name, self._inputs, arrays))
        return _ran(self._executable, arrays, lambda: self._check_places(arrays))

    def _check_places(self, arrays: Sequence[Any]) -> None:
        faults = [*self._misplaced(arrays)]
        if faults:
            raise DmlError(faults)

    def _misplaced(self, arrays: Sequence[Any]) -> Iterator[Fault]:
        """Why arrays of the right sizes and types cannot be taken."""
        shardings, _ = self._executable.input_shardings
        for (path, tensor), array, sharding in zip(self._inputs, arrays, shardings, strict=True):
            if isinstance(array, Tracer):
                rule = "be there: what is compiled has no transformations, what it is made of has"
                yield Fault(self.name, path, rule, Unquoted("an array that is traced"))
            elif needs_x64(tensor.data_type):
                yield Fault(self.name, f"{path}.DataType", X64_RULE, tensor.data_type.shown())
            elif isinstance(array, jax.Array):
                if array.is_deleted():
                    yield Fault(self.name, path, "be there", _deleted(array))
                elif sharding and array.committed and array.devices() != sharding.device_set:
                    rule = f"lie on {_devices(sharding.device_set)}, for which it is compiled"
                    yield Fault(self.name, path, rule, Unquoted(_devices(array.devices())))

    def cost(self) -> Cost:
        """What XLA says that one call takes."""
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
        """The optimised HLO."""
        return _text_of(self._executable)

    def export(self, platforms: Sequence[str] | None = None) -> bytes:
        """StableHLO that a process with JAX alone runs: `jax.export.deserialize(data).call(x)`.

        JAX needs the package flatbuffers for both.

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

        return bytes(export.export(self._jitted, platforms=platforms)(*self._shapes).serialize())

    def bind(
        self,
        inputs: Sequence[Buffer | BufferBinding],
        outputs: Sequence[Buffer | BufferBinding],
    ) -> BindingTable:
        """A table of the function on memory, by DirectML's rules.

        Each range is large enough, and starts at a multiple of 16 bytes (more where the tensor
        guarantees it); outputs overlap nothing, but the same input where the operator runs in
        place. What is OWNED_BY_DML is copied, as by DirectML's initializer. A buffer may be of
        another type or shape than the tensor: bytes count. The table is a program of its own,
        compiled here, and runs where the buffers lie. Raises one `DmlError` for all that is wrong.
        """
        expect = Expect(self.name)
        bounds: list[Bound] = []
        buffers: dict[str, Buffer] = {}
        names: dict[int, str] = {}  # by the array: two buffers of one array are one memory
        beside: tuple[str, Collection[Any]] | None = None
        for kind, tensors, given, output in (
            ("inputs", self._inputs, inputs, False),
            ("outputs", self._outputs, outputs, True),
        ):
            count = len(tensors)
            if not isinstance(given, (list, tuple)) or len(given) != count:
                got = len(given) if isinstance(given, (list, tuple)) else shown_array(given)
                expect(False, kind, f"be a list of {count} buffers", got)
                continue
            for index, ((path, tensor), value) in enumerate(zip(tensors, given, strict=True)):
                binding = value if isinstance(value, BufferBinding) else BufferBinding(value)
                if not isinstance(binding.buffer, Buffer):
                    owned = TensorFlags.OWNED_BY_DML in tensor.flags
                    then = " (it is OWNED_BY_DML: `bind` copies it, once)" if owned else ""
                    got = shown_array(binding.buffer)
                    if binding is value:
                        got = Unquoted(f"a BufferBinding of {got}")
                    expect(False, path, f"be bound to a Buffer{then}", got)
                    continue
                whole, offset, size = (
                    binding.buffer.size_in_bytes,
                    binding.offset,
                    binding.size_in_bytes,
                )
                rule = "be a number of bytes"
                placed = expect(is_uint(offset), f"{path}.offset", rule, offset)
                sized = size is None or is_uint(size)
                if not (expect(sized, f"{path}.size_in_bytes", rule, size) and placed):
                    continue
                name = names.setdefault(id(binding.buffer.array), f"{kind}[{index}]")
                first = buffers.setdefault(name, binding.buffer)
                rule = f"be bound to the Buffer of {name}, which holds the same array"
                expect(first is binding.buffer, path, rule, Unquoted("another Buffer"))
                array = binding.buffer.array
                if not expect(not array.is_deleted(), path, IS_LOST, _deleted(array)):
                    continue
                lies = Unquoted(_devices(array.devices()))
                if self._device is not None:
                    rule = f"lie on {self._device}, for which it is compiled"
                    expect(array.devices() == {self._device}, path, rule, lies)
                elif array.committed:  # JAX moves what is not to where the others are
                    beside = beside or (path, array.devices())
                    rule = f"lie on {_devices(beside[1])}, as {beside[0]} does"
                    expect(array.devices() == beside[1], path, rule, lies)
                end = offset + (size or 0)
                rule = f"stay within the {whole} bytes of its buffer"
                expect(end <= whole, path, rule, Unquoted(f"byte {end}"))
                bounds.append(Bound(path, tensor, output, name, offset))
                available = whole - offset if size is None else size
                check_range(bounds[-1], available, expect, offset + available == whole)
        check_overlaps(bounds, getattr(self._function, "in_place", False), expect)
        expect.check()
        return BindingTable(self.name, self._function, bounds, buffers)


def compile(  # noqa: A001  (IDMLDevice::CompileOperator)
    function: Callable[..., Any],
    *inputs: Any,
    in_shardings: Any = None,
    out_shardings: Any = None,
    device: Any = None,
) -> Compiled:
    """Compiles an operator, a graph, or any function of them, ahead of time.

    What it takes and returns is described as tensors are: arrays of 1 to 8 dimensions.

    Args:
        function: an operator, a graph, or a function of arrays.
        inputs: for a function, one `TensorDesc`, array or `jax.ShapeDtypeStruct` an argument; an
            operator or a graph knows its own.
        in_shardings: as of `jax.jit`.
        out_shardings: as of `jax.jit`.
        device: where to run; None is the default device.

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
    options: dict[str, Any] = {}
    if in_shardings is not None:
        options["in_shardings"] = in_shardings
    if out_shardings is not None:
        options["out_shardings"] = out_shardings
    program = whole_program(function)
    told = compiler_options(function)
    jitted = jax.jit(lambda *arrays: program(*arrays), compiler_options=told, **options)
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
    return Compiled(function, tensors, results, jitted, device)


def _tensors(name: str, values: Sequence[Any]) -> list[tuple[str, TensorDesc]]:
    """What a function takes or returns, beside what each is called."""
    faults, tensors = list[Fault](), list[tuple[str, TensorDesc]]()
    for index, value in enumerate(values):
        path = f"{name}[{index}]"
        if not (isinstance(value, TensorDesc) or is_array(value)):
            rule = "be a TensorDesc or an array, an argument for each"
            faults.append(Fault("compile", path, rule, shown_array(value)))
            continue
        try:
            tensors.append((path, value if isinstance(value, TensorDesc) else TensorDesc.of(value)))
        except DmlError as error:
            faults += error.moved("compile", path)
    if faults:
        raise DmlError(faults)
    return tensors
