"""Where tensors lie in memory, and DirectML's rules for it.

Source: IDMLBindingTable::BindInputs and BindOutputs, DML_BUFFER_BINDING.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
from jax import lax

from dml_jax.enums import TensorFlags
from dml_jax.errors import Unquoted
from dml_jax.lowering import memory
from dml_jax.tensor import MINIMUM_BUFFER_TENSOR_ALIGNMENT, TensorDesc

Expect = Callable[[bool, str, str, object], bool]


@dataclass(frozen=True)
class Bound:
    """A tensor, and the bytes that it lies in.

    Attributes:
        path: the tensor in its operator (`InputTensors[1]`).
        memory: what names the memory: a resource's name, a buffer's number.
        offset: the byte at which the tensor starts.
    """

    path: str
    tensor: TensorDesc
    output: bool
    memory: str
    offset: int = 0

    @property
    def end(self) -> int:
        return self.offset + self.tensor.total_tensor_size_in_bytes

    @property
    def owned(self) -> bool:
        """Whether DirectML keeps a copy, made when the operator is initialised."""
        return TensorFlags.OWNED_BY_DML in self.tensor.flags

    def read(self, buffer: jax.Array) -> jax.Array:
        """The tensor, out of the whole memory."""
        return self.tensor.read(self._typed(buffer.reshape(-1)))

    def write(self, buffer: jax.Array, tensor: jax.Array) -> jax.Array:
        """The whole memory with the tensor in its place."""
        flat = buffer.reshape(-1)
        new = memory.reinterpret(self.tensor.write(self._typed(flat), tensor), buffer.dtype)
        if new.shape != flat.shape:
            start = self.offset // buffer.dtype.itemsize
            new = lax.dynamic_update_slice_in_dim(flat, new, start, 0)
        return new.reshape(buffer.shape)

    def _typed(self, flat: jax.Array) -> jax.Array:
        """The elements that the tensor's bytes lie in, as elements of its type."""
        size = flat.dtype.itemsize
        stop = self.offset + self.tensor.implied_size_in_bytes
        window = lax.slice_in_dim(flat, self.offset // size, min(-(-stop // size), flat.shape[0]))
        return memory.reinterpret(window, self.tensor.dtype)


def check_range(bound: Bound, available: int, expect: Expect) -> None:
    """A tensor's bytes lie within its memory, at an aligned place.

    `available`: bytes from the offset to the end of what is bound.
    """
    needed, elements = bound.tensor.total_tensor_size_in_bytes, bound.tensor.span
    if available >= elements * bound.tensor.data_type.element_size:
        # What is rounded up to 4 bytes ends, in a buffer of 5 float16, after 10.
        available = max(available, bound.tensor.implied_size_in_bytes)
    rule = f"be bound to at least {needed} bytes (TotalTensorSizeInBytes)"
    expect(
        available >= needed, bound.path, rule, Unquoted(f"{available} bytes of {bound.memory!r}")
    )
    alignment = bound.tensor.guaranteed_base_offset_alignment
    alignment = max(MINIMUM_BUFFER_TENSOR_ALIGNMENT, alignment)
    rule = f"start at a multiple of {alignment} bytes"
    expect(bound.offset % alignment == 0, bound.path, rule, Unquoted(f"byte {bound.offset}"))


def check_overlaps(bounds: Sequence[Bound], in_place: bool, expect: Expect) -> None:
    """Outputs overlap nothing, but an input that lies exactly there if the operator allows it."""
    # What is owned is read from the copy made at initialisation.
    bounds = [bound for bound in bounds if not bound.owned]
    for index, a in enumerate(bounds):
        for b in bounds[:index]:
            apart = a.memory != b.memory or a.end <= b.offset or b.end <= a.offset
            if apart or not (a.output or b.output):
                continue
            where = Unquoted(f"both in {a.memory!r} at bytes {a.offset} and {b.offset}")
            if a.output and b.output:
                expect(False, a.path, f"not overlap {b.path}", where)
            elif not in_place:
                rule = f"not overlap {b.path} (the operator does not run in place)"
                expect(False, a.path, rule, where)
            else:
                same = (a.offset, a.end) == (b.offset, b.end)
                rule = f"lie exactly where {b.path} does, or apart from it"
                expect(same, a.path, rule, where)
