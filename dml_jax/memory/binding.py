"""Tensors in memory, and DirectML's rules for their places.

Source: IDMLBindingTable::BindInputs and BindOutputs, DML_BUFFER_BINDING.
"""

import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax import lax

from dml_jax.description.descriptor import snake_case
from dml_jax.description.tensor import MINIMUM_BUFFER_TENSOR_ALIGNMENT, TensorDesc
from dml_jax.enums import TensorFlags
from dml_jax.errors import Expect, Unquoted
from dml_jax.lowering import strided_memory as memory


@dataclass(frozen=True)
class TensorInMemory:
    """A tensor of an operator, and its place in memory.

    Attributes:
        path: the name of the tensor in its operator (`InputTensors[1]`).
        tensor: its description.
        output: whether the operator writes it.
        memory: the name of the memory: of a resource or a buffer.
        offset: the byte at which the tensor starts.
    """

    path: str
    tensor: TensorDesc
    output: bool
    memory: str
    offset: int = 0

    @property
    def end(self) -> int:
        """Return the byte behind the tensor."""
        return self.offset + self.tensor.total_tensor_size_in_bytes

    @property
    def has_copy(self) -> bool:
        """Return whether DirectML has a copy, from when the operator is initialised."""
        return TensorFlags.OWNED_BY_DML in self.tensor.flags

    def read(self, buffer: jax.Array) -> jax.Array:
        """Return the tensor out of `buffer`, the whole memory."""
        return self.tensor.read(self._elements(buffer.reshape(-1)))

    def write(self, buffer: jax.Array, tensor: jax.Array) -> jax.Array:
        """Return `buffer`, the whole memory, with the elements of `tensor` in their place."""
        # The tensor takes the type of the buffer, not the buffer that of the tensor: it may be much
        # larger, and XLA writes to its memory in place.
        flat = buffer.reshape(-1)
        new = memory.reinterpret(self.tensor.write(self._elements(flat), tensor), buffer.dtype)
        if new.shape != flat.shape:
            start = self.offset // buffer.dtype.itemsize
            if start < 2**32:  # JAX's default, int32, wraps silently from 2^31 on
                new = lax.dynamic_update_slice(flat, new, [np.uint32(start)])
            else:
                stop = start + new.shape[0]
                new = lax.concatenate([flat[:start], new, flat[stop:]], 0)
        return new.reshape(buffer.shape)

    def fills(self, buffer: jax.Array | np.ndarray) -> bool:
        """Return whether the tensor is all of `buffer`, packed: `write` moves no element."""
        tensor = self.tensor
        return tensor.is_packed and (tensor.span, tensor.dtype) == (buffer.size, buffer.dtype)

    def _elements(self, flat: jax.Array) -> jax.Array:
        """Return the elements that hold the bytes of the tensor, in the type of its buffers."""
        size = flat.dtype.itemsize
        stop = self.offset + self.tensor.implied_size_in_bytes
        window = lax.slice_in_dim(flat, self.offset // size, min(-(-stop // size), flat.shape[0]))
        return memory.reinterpret(window, self.tensor.memory_dtype)


def check_range(place: TensorInMemory, available: int, expect: Expect, to_end: bool = True) -> None:
    """Check that a tensor lies within its memory, at an aligned byte.

    `available` are the bytes from its offset to the end of the binding, which is the end of the
    memory where it reaches `to_end`.
    """
    needed = place.tensor.total_tensor_size_in_bytes
    if to_end and available >= place.tensor.span_in_bytes:
        # What is rounded up to 4 bytes ends, in a buffer of 5 float16, after 10.
        available = max(available, place.tensor.implied_size_in_bytes)
    rule = f"be bound to at least {needed} bytes (TotalTensorSizeInBytes)"
    expect(
        available >= needed, place.path, rule, Unquoted(f"{available} bytes of {place.memory!r}")
    )
    alignment = place.tensor.guaranteed_base_offset_alignment
    alignment = max(MINIMUM_BUFFER_TENSOR_ALIGNMENT, alignment)
    rule = f"start at a multiple of {alignment} bytes"
    expect(place.offset % alignment == 0, place.path, rule, Unquoted(f"byte {place.offset}"))


def check_overlaps(
    tensors: Sequence[TensorInMemory], in_place: Mapping[str, Collection[str]], expect: Expect
) -> None:
    """Check that outputs overlap nothing, but exactly inputs that `in_place` has for them."""
    # An owned tensor is read from the copy that initialisation makes.
    order = {tensor: index for index, tensor in enumerate(tensors) if not tensor.has_copy}
    outputs: dict[str, list[TensorInMemory]] = {}  # by memory, from its start to its end
    for tensor in sorted(order, key=lambda t: t.offset):
        if tensor.output:
            before = outputs.setdefault(tensor.memory, [])
            if before and before[-1].end > tensor.offset:
                first, second = sorted((before[-1], tensor), key=order.__getitem__)
                expect(False, second.path, f"not overlap {first.path}", _places(second, first))
            else:
                before.append(tensor)
    for tensor in order:
        others = outputs.get(tensor.memory, ())
        if tensor.output or not others:
            continue
        # Outputs that stand here overlap no other output, so that their ends are in order as well.
        index = bisect.bisect_right(others, tensor.offset, key=lambda t: t.end)
        while index < len(others) and others[index].offset < tensor.end:
            output = others[index]
            allowed = in_place.get(_field_of(output), ())
            if _field_of(tensor) in allowed:
                good = (output.offset, output.end) == (tensor.offset, tensor.end)
                rule = f"lie exactly where {tensor.path} does, or apart from it"
            else:
                good = False
                inputs = [t.path for t in tensors if not t.output and _field_of(t) in allowed]
                reason = f"it may lie on {', '.join(inputs)}"
                if not inputs:
                    reason = "the operator does not run in place"
                rule = f"not overlap {tensor.path} ({reason})"
            if not expect(good, output.path, rule, _places(output, tensor)):
                break
            index += 1


def _field_of(tensor: TensorInMemory) -> str:
    return snake_case(tensor.path.partition("[")[0])


def _places(a: TensorInMemory, b: TensorInMemory) -> Unquoted:
    return Unquoted(f"both in {a.memory!r} at bytes {a.offset} and {b.offset}")
