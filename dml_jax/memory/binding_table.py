"""Functions bound to memory, as IDMLBindingTable has it."""

import functools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from dml_jax.description.arrays import IS_PLAIN, check_untraced, deleted, is_plain
from dml_jax.description.tensor import (
    X64_RULE,
    TensorDesc,
    is_array,
    is_uint,
    needs_x64,
    shown_array,
)
from dml_jax.enums import TensorDataType, TensorFlags
from dml_jax.errors import DmlError, Expect, Fault, Unquoted, moving, with_article
from dml_jax.memory.binding import TensorInMemory, check_overlaps, check_range
from dml_jax.operator.call import Bindable
from dml_jax.runtime.compiler_options import compiled_with

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
        """Return the array in the memory. A new one is checked as that of a new buffer."""
        return self._array

    @array.setter
    def array(self, array: ArrayLike) -> None:
        _check_type(checked_type(array, "a buffer's array"))
        check_untraced(array, "a buffer's array")
        self._array = array if isinstance(array, jax.Array) else jax.numpy.asarray(array)

    @classmethod
    def of(cls, tensor: TensorDesc, device: Any = None) -> "Buffer":
        """Return a buffer of zeros for a tensor, on a `jax.Device`; None is the default one.

        A packed tensor keeps its sizes, since XLA's loops follow the axes of an output; others are
        flat.

        Raises `DmlError` for other arguments.
        """
        expect = Expect("")
        rule = "be a TensorDesc (Buffer itself takes an array)"
        expect(isinstance(tensor, TensorDesc), "a buffer's tensor", rule, shown_array(tensor))
        if device is not None:
            expect(isinstance(device, jax.Device), "a buffer's device", IS_DEVICE, device)
        expect.check()
        dtype, needed = tensor.memory_dtype, tensor.total_tensor_size_in_bytes
        _check_type(TensorDataType.of_dtype(dtype))
        if needed == tensor.implied_size_in_bytes:
            needed = tensor.span_in_bytes  # memory may end with the last element
        zeros = np.zeros(-(-needed // dtype.itemsize), dtype)
        if tensor.is_packed and (zeros.size, dtype) == (tensor.span, tensor.dtype):
            zeros = zeros.reshape(tensor.sizes)
        return cls(jax.device_put(zeros, device))

    @property
    def size_in_bytes(self) -> int:
        """Return the number of bytes of the memory."""
        return self.array.nbytes

    def block_until_ready(self) -> "Buffer":
        """Blocks until what was dispatched to write the memory is done, as arrays do."""
        self.array.block_until_ready()
        return self

    def __repr__(self) -> str:
        return f"Buffer({shown_array(self.array)})"


def checked_type(array: Any, place: str) -> TensorDataType:
    """Return the DirectML type of `array`. Raise `DmlError` if its bytes are not as DirectML's."""
    if not is_array(array):
        raise DmlError([Fault("", place, "be an array", shown_array(array))])
    if not is_plain(array):
        raise DmlError([Fault("", place, IS_PLAIN, Unquoted(with_article(type(array))))])
    with moving("", place):
        data_type = TensorDataType.of_dtype(array.dtype)
    if not array.dtype.isnative:
        rule = f"be in the machine's byte order (x.astype({data_type.dtype.name!r}) converts)"
        raise DmlError([Fault("", place, rule, shown_array(array))])
    return data_type


def _check_type(data_type: TensorDataType) -> None:
    if needs_x64(data_type) or not data_type.element_size:
        cure = " (UINT8 ones hold 4-bit elements: Buffer.of(tensor))"
        rule = X64_RULE if data_type.element_size else f"have elements of whole bytes{cure}"
        raise DmlError([Fault("", "a buffer's type", rule, data_type.shown())])


@dataclass(frozen=True, eq=False)
class BufferBinding:
    """DML_BUFFER_BINDING: a part of a buffer, in bytes; `size_in_bytes` None is up to its end."""

    buffer: Buffer
    offset: int = 0
    size_in_bytes: int | None = None


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
        bounds: Sequence[TensorInMemory],
        buffers: Mapping[str, Buffer],
    ):
        self.name = name
        self._function = function
        self._inputs = [bound for bound in bounds if not bound.output]
        self._outputs = [bound for bound in bounds if bound.output]
        written = {bound.memory for bound in self._outputs}
        keys = dict.fromkeys(b.memory for b in (*self._inputs, *self._outputs) if not b.has_copy)
        self._written = {key: buffers[key] for key in keys if key in written}
        self._read = {key: buffers[key] for key in keys if key not in written}
        owned = {bound.memory for bound in self._inputs if bound.has_copy}
        self._owned = {key: buffers[key].array.copy() for key in owned}
        # They lie beside the memory: a dispatch would otherwise send them from another device.
        constants = function.constants if isinstance(function, Bindable) else ()
        self._constants = [jax.device_put(c, self._place()) for c in constants]
        # An output that no input reads is an argument too: its memory is what is written to.
        program = jax.jit(self._run, donate_argnums=0, keep_unused=True)
        own = function.compiler_options if isinstance(function, Bindable) else {}
        self._program = compiled_with(program.lower(*self._arguments()), own)
        # A program is of these types and places alone; a message says what has changed.
        self._was = {key: _shown(buffers[key].array) for key in keys}

    def __repr__(self) -> str:
        parts = ((b.path, b.memory, b.offset) for b in (*self._inputs, *self._outputs))
        bound = ", ".join(f"{path} at {memory}+{offset}" for path, memory, offset in parts)
        return f"<BindingTable of {self.name}: {bound}>"

    def _arguments(self) -> tuple[Any, ...]:
        held = ({key: b._array for key, b in part.items()} for part in (self._written, self._read))
        return (*held, self._owned, self._constants)

    def _place(self) -> Any:
        """Return where the memory lies; None if JAX may move it."""
        arrays = [b.array for part in (self._written, self._read) for b in part.values()]
        return next((a.sharding for a in (*arrays, *self._owned.values()) if a.committed), None)

    def _run(self, written: Any, read: Any, owned: Any, constants: Any) -> Any:
        memory = {**written, **read}
        arrays = [b.read((owned if b.has_copy else memory)[b.memory]) for b in self._inputs]
        function = self._function
        call = function
        if isinstance(function, Bindable):
            call = functools.partial(function.call_with, constants or None)
        if isinstance(function, Bindable) and function.by_element and self._is_in_place:
            (output,) = self._outputs
            call = functools.partial(_in_place, function, memory[output.memory].shape)
        results = call(*arrays)
        for bound, result in zip(self._outputs, jax.tree.leaves(results), strict=True):
            memory[bound.memory] = bound.write(memory[bound.memory], result)
        return {key: memory[key] for key in written}

    def dispatch(self) -> None:
        """Runs once. Does not wait for the device; `wait` does, or `jax.block_until_ready`.

        Raises `DmlError` where the memory is not what it was when it was bound.
        """
        written = ran(self._program, self._arguments(), self._check_memory)
        for key, array in written.items():
            self._written[key]._array = array

    def _check_memory(self) -> None:
        """Raise `DmlError` if a bound buffer was donated or replaced."""
        expect, held = Expect(self.name), {**self._written, **self._read}
        for bound in (*self._inputs, *self._outputs):
            if not bound.has_copy:
                array, was = held[bound.memory].array, self._was[bound.memory]
                if expect(not array.is_deleted(), bound.path, IS_LOST, deleted(array)):
                    got = _shown(array)
                    expect(got == was, bound.path, f"be bound to {was}, as it was", Unquoted(got))
        expect.check()

    def wait(self) -> None:
        """Blocks until what was dispatched is done."""
        jax.block_until_ready([buffer.array for buffer in self._written.values()])

    @property
    def _is_in_place(self) -> bool:
        """Return whether an output lies where an input does, and elements lie in order."""
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
        return text_of(self._program)


def _in_place(function: Bindable, shape: tuple[int, ...], *arrays: jax.Array) -> Any:
    """Map elements in a loop over the axes of the memory, of this shape.

    With a reshape in the loop XLA would not write to what it reads, but to new memory, and copy it.
    """
    sizes = arrays[0].shape
    over = shape if math.prod(shape) == math.prod(sizes) else (math.prod(sizes),)
    (result,) = function.evaluate(*(x.reshape(over) for x in arrays))
    return result.reshape(sizes)


Described = Sequence[tuple[str, TensorDesc]]  # (path, tensor) of each


def bound_to(
    given: tuple[Any, Any],
    function: Callable[..., Any],
    name: str,
    tensors: tuple[Described, Described],
    device: Any = None,
) -> BindingTable:
    """The table of a function's tensors on memory: of inputs and of outputs.

    `device`: what the function is compiled for; None is where the memory lies. Raises one
    `DmlError`, of what has this name, for all that is wrong.
    """
    binding = _Binding(Expect(name), device)
    for kind, some, values in zip(("inputs", "outputs"), tensors, given, strict=True):
        if not isinstance(values, (list, tuple)) or len(values) != len(some):
            got = len(values) if isinstance(values, (list, tuple)) else shown_array(values)
            binding.expect(False, kind, f"be a list of {len(some)} buffers", got)
            continue
        for index, ((path, tensor), value) in enumerate(zip(some, values, strict=True)):
            binding.add(f"{kind}[{index}]", path, tensor, value, kind == "outputs")
    check_overlaps(binding.bounds, getattr(function, "in_place", {}), binding.expect)
    binding.expect.check()
    return BindingTable(name, function, binding.bounds, binding.buffers)


class _Binding:
    """Tensors that are bound one after the other."""

    def __init__(self, expect: Expect, device: Any):
        self.expect = expect
        self.bounds: list[TensorInMemory] = []
        self.buffers: dict[str, Buffer] = {}
        self._device = device
        self._names: dict[int, str] = {}  # by the array: two buffers of one array are one memory
        self._beside: tuple[str, Collection[Any]] | None = None

    def add(self, place: str, path: str, tensor: TensorDesc, value: Any, output: bool) -> None:
        """Binds a tensor to a Buffer or a BufferBinding, which stands at a place of its list."""
        expect = self.expect
        binding = value if isinstance(value, BufferBinding) else BufferBinding(value)
        if not isinstance(binding.buffer, Buffer):
            owned = TensorFlags.OWNED_BY_DML in tensor.flags
            then = " (it is OWNED_BY_DML: `bind` copies it, once)" if owned else ""
            got = shown_array(binding.buffer)
            if binding is value:
                got = Unquoted(f"a BufferBinding of {got}")
            expect(False, path, f"be bound to a Buffer{then}", got)
            return
        whole, offset, size = binding.buffer.size_in_bytes, binding.offset, binding.size_in_bytes
        rule = "be a number of bytes"
        placed = expect(is_uint(offset), f"{path}.offset", rule, offset)
        sized = size is None or is_uint(size)
        if not (expect(sized, f"{path}.size_in_bytes", rule, size) and placed):
            return
        array = binding.buffer.array
        name = self._names.setdefault(id(array), place)
        first = self.buffers.setdefault(name, binding.buffer)
        rule = f"be bound to the Buffer of {name}, which holds the same array"
        expect(first is binding.buffer, path, rule, Unquoted("another Buffer"))
        if not expect(not array.is_deleted(), path, IS_LOST, deleted(array)):
            return
        self._expect_place(path, array)
        end = offset + (size or 0)
        rule = f"stay within the {whole} bytes of its buffer"
        expect(end <= whole, path, rule, Unquoted(f"byte {end}"))
        self.bounds.append(TensorInMemory(path, tensor, output, name, offset))
        available = whole - offset if size is None else size
        check_range(self.bounds[-1], available, expect, offset + available == whole)

    def _expect_place(self, path: str, array: jax.Array) -> None:
        lies = Unquoted(devices_of(array.devices()))
        if self._device is not None:
            rule = f"lie on {self._device}, for which it is compiled"
            self.expect(array.devices() == {self._device}, path, rule, lies)
        elif array.committed:  # JAX moves what is not to where the others are
            first, devices = self._beside = self._beside or (path, array.devices())
            rule = f"lie on {devices_of(devices)}, as {first} does"
            self.expect(array.devices() == devices, path, rule, lies)


_PLACES = re.compile(
    r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*\n*| stack_frame_id=\d+",
    re.MULTILINE,
)


def ran(program: jax.stages.Compiled, arguments: Sequence[Any], check: Callable[[], None]) -> Any:
    """Run `program`. If JAX refuses its arguments, `check` may raise a clearer error."""
    try:
        if jax.config.jax_disable_jit:  # pyright: ignore[reportAttributeAccessIssue]
            with jax.disable_jit(False):  # else JAX refuses whatever is compiled ahead of time
                return program(*arguments)
        return program(*arguments)
    except jax.errors.JaxRuntimeError:
        raise  # it ran
    # The check comes only after a refusal: on each call it would take longer than small operators.
    except (TypeError, ValueError, RuntimeError):
        check()
        raise
    except Exception as error:
        # JAX's own exception of `jax_debug_nans` has no public name; `jax.jit` turns it into
        # FloatingPointError, and a program that is compiled ahead of time does not.
        if type(error).__name__ != "InternalFloatingPointError":
            raise
        kind, name = vars(error)["ty"], vars(error)["name"]
        raise FloatingPointError(f"invalid value ({kind}) encountered in {name}") from None


def _shown(array: jax.Array) -> str:
    return f"{shown_array(array)} on {devices_of(array.devices())}"


def devices_of(devices: Collection[Any]) -> str:
    return ", ".join(sorted(map(str, devices)))


def text_of(program: jax.stages.Compiled) -> str:
    """Return the HLO without the places in Python's files, which are most of its lines."""
    return _PLACES.sub("", program.as_text() or "")
