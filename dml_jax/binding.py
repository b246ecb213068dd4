"""Where tensors lie in memory, and DirectML's rules for it.

Source: IDMLBindingTable::BindInputs and BindOutputs, DML_BUFFER_BINDING.
"""

import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax import lax

from dml_jax.descriptor import snake_case
from dml_jax.enums import TensorFlags
from dml_jax.errors import Expect, Unquoted
from dml_jax.lowering import memory
from dml_jax.tensor import MINIMUM_BUFFER_TENSOR_ALIGNMENT, TensorDesc


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
            if start < 2**32:  # JAX's default, int32, wraps silently from 2^31 on
                new = lax.dynamic_update_slice(flat, new, [np.uint32(start)])
            else:
                stop = start + new.shape[0]
                new = lax.concatenate([flat[:start], new, flat[stop:]], 0)
        return new.reshape(buffer.shape)

    def fills(self, buffer: jax.Array | np.ndarray) -> bool:
        """Whether `write` leaves nothing of the memory, and moves no element."""
        tensor = self.tensor
        return tensor.is_packed and (tensor.span, tensor.dtype) == (buffer.size, buffer.dtype)

    def _typed(self, flat: jax.Array) -> jax.Array:
        """The elements that the tensor's bytes lie in, in the type of its buffers."""
        size = flat.dtype.itemsize
        stop = self.offset + self.tensor.implied_size_in_bytes
        window = lax.slice_in_dim(flat, self.offset // size, min(-(-stop // size), flat.shape[0]))
        return memory.reinterpret(window, self.tensor.memory_dtype)


def check_range(bound: Bound, available: int, expect: Expect, to_end: bool = True) -> None:
    """A tensor's bytes lie within its memory, at an aligned place.

    `available`: bytes from the offset to the end of what is bound; `to_end`: of the memory.
    """
    needed = bound.tensor.total_tensor_size_in_bytes
    if to_end and available >= bound.tensor.span_in_bytes:
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


def check_overlaps(
    bounds: Sequence[Bound], in_place: Mapping[str, Collection[str]], expect: Expect
) -> None:
    """Check that outputs overlap nothing, but exactly inputs that `in_place` names for them.

    Args:
        bounds: the tensors in memory.
        in_place: the inputs that each output may lie on, by field (`Operator.in_place`).
        expect: takes the faults.
    """
    # What is owned is read from the copy made at initialisation.
    places = {bound: index for index, bound in enumerate(bounds) if not bound.owned}
    outputs: dict[str, list[Bound]] = {}  # of each memory, in it one behind the other
    for bound in sorted(places, key=lambda b: b.offset):
        if bound.output:
            before = outputs.setdefault(bound.memory, [])
            if before and before[-1].end > bound.offset:
                first, second = sorted((before[-1], bound), key=places.__getitem__)
                expect(False, second.path, f"not overlap {first.path}", _both(second, first))
            else:
                before.append(bound)
    for bound in places:
        behind = outputs.get(bound.memory, ())
        if bound.output or not behind:
            continue
        place = bisect.bisect_right(behind, bound.offset, key=lambda b: b.end)
        while place < len(behind) and behind[place].offset < bound.end:
            output = behind[place]
            allowed = in_place.get(_field_of(output), ())
            if _field_of(bound) in allowed:
                good = (output.offset, output.end) == (bound.offset, bound.end)
                rule = f"lie exactly where {bound.path} does, or apart from it"
            else:
                good = False
                inputs = [b.path for b in bounds if not b.output and _field_of(b) in allowed]
                reason = f"it may lie on {', '.join(inputs)}"
                if not inputs:
                    reason = "the operator does not run in place"
                rule = f"not overlap {bound.path} ({reason})"
            if not expect(good, output.path, rule, _both(output, bound)):
                break
            place += 1


def _field_of(bound: Bound) -> str:
    return snake_case(bound.path.partition("[")[0])


def _both(a: Bound, b: Bound) -> Unquoted:
    return Unquoted(f"both in {a.memory!r} at bytes {a.offset} and {b.offset}")
