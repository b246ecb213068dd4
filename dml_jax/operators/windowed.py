"""The base of operators whose window slides over spatial dimensions."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from dml_jax.lowering.windows import Window
from dml_jax.operator import Operator


class Windowed(Operator):
    """Slides a window over the spatial dimensions, those behind batch and channel.

    Fields:
        strides: the steps from one window to the next; 1 where there are none.
        dilations: the steps from one element of a window to the next; 1 where there are none.
        start_padding: the elements that padding adds before each spatial dimension.
        end_padding: the elements that padding adds behind each spatial dimension.
    """

    spatial_count = "DimensionCount"
    window_field: ClassVar[str] = "window_size"  # the field that has the window's sizes

    @property
    def window(self) -> Window:
        """The window."""
        sizes = self.sizes_of_window()
        ones = (1,) * len(sizes)
        dilations = getattr(self, "dilations", ones)
        return Window(sizes, self.strides, dilations, self.start_padding, self.end_padding)

    def sizes_of_window(self) -> Sequence[int]:
        """Return the sizes of the window."""
        return getattr(self, self.window_field)

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the operator that a function describes; lists that are left out are filled in."""
        return super().infer_from(**cls.filled(fields))

    @classmethod
    def filled(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields with steps of 1 and paddings of 0 in the lists that are left out."""
        first = next(fields[f.name] for f in cls.fields if f.name in fields)
        lists = [f.name for f in cls.fields if f.count == "DimensionCount"]
        given = [fields[name] for name in lists if fields.get(name)]
        rank = len(given[0]) if given else first.dimension_count - 2
        made = dict(fields)
        for name in lists:
            if name != cls.window_field:
                is_step = name in ("strides", "dilations")
                made[name] = fields.get(name) or (int(is_step),) * rank
        return made


def first_spatial(layout: str) -> int:
    """Return the first spatial axis of arrays in a layout: NCHW or NHWC."""
    return 2 if layout == "NCHW" else 1


def least_sizes(counts: Sequence[int], sizes: Any, fields: Mapping[str, Any]) -> list[int] | None:
    """Return the least spatial sizes that have so many windows; None where a list is wrong.

    `sizes` are those of a window, and `fields` has the lists of an operator that slides it.
    """
    ones = (1,) * len(counts)
    steps = (fields["strides"], fields.get("dilations", ones))
    cuts = (fields["start_padding"], fields["end_padding"])
    try:
        parts = zip(counts, sizes, *steps, *cuts, strict=True)
        return [max((n - 1) * s + (k - 1) * d + 1 - a - b, 1) for n, k, s, d, a, b in parts]
    except (TypeError, ValueError):
        return None
