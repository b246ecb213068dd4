"""The base of operators whose window slides over spatial dimensions."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from dml_jax.lowering.windows import Window
from dml_jax.operator import Operator


class Windowed(Operator):
    """Slides a window over the spatial dimensions, those behind batch and channel.

    Fields:
        strides: the steps from one window to the next, one for each spatial dimension.
        dilations: the steps from one element of a window to the next; 1 where there are none.
        start_padding, end_padding: the elements that padding adds before and behind each spatial
            dimension.
    """

    window_field: ClassVar[str] = "window_size"  # the field that has the window's sizes

    @property
    def window(self) -> Window:
        """The window."""
        sizes = self.window_sizes()
        ones = (1,) * len(sizes)
        dilations = getattr(self, "dilations", ones)
        return Window(sizes, self.strides, dilations, self.start_padding, self.end_padding)

    def window_sizes(self) -> Sequence[int]:
        """Return the sizes of the window."""
        return getattr(self, self.window_field)

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the operator that a function describes: lists that are left out are filled in."""
        first = next(fields[f.name] for f in cls.fields if f.name in fields)
        defaults = {"strides": 1, "dilations": 1}
        for f in cls.fields:
            if f.count == "DimensionCount" and fields.get(f.name) is None:
                fields[f.name] = (defaults.get(f.name, 0),) * (first.dimension_count - 2)
        return super().infer_from(**fields)
