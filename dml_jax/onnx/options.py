"""The options of a network: sizes, values, and what it is made by."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dml_jax.errors import DmlError, Expect, Fault

if TYPE_CHECKING:
    from dml_jax.onnx.files.external_data import Folder
    from dml_jax.rewrite import GraphRewrite, Rewrite

LAYOUTS = ("file", "channels_last")

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class NetworkOptions:
    """How a network is loaded, by the names of its dimensions, inputs and outputs.

    The attributes are those of `load_onnx` under the same names, and these:

    Attributes:
        names: the sizes that stand for the names of free dimensions.
        denotations: the sizes of dimensions by their denotations ("DATA_BATCH").
        shapes: the sizes of inputs and outputs.
        cache: the folder where compiled programs are kept; None keeps none.
        growth: how many times as large as what it follows from an array may be that follows from
            weights alone and is computed once. An array that is larger is computed at each call.
        folder: where the files of external data are, for a model that is no path.
        is_shared: whether these are for several networks, each of which takes those that it knows.
        looks: whether indices are looked at, which may lie beyond their table.
        is_quick_first: whether a CPU's first calls have a program that was compiled quickly.
    """

    names: Sizes = field(default_factory=dict)
    denotations: Sizes = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    fallback: bool = False
    rewrites: "Sequence[Rewrite | GraphRewrite] | None" = None
    layout: str | None = None
    prepare: bool = True
    tuned: bool = True
    precision: str | None = None
    cache: Path | None = None
    growth: float = 1.0
    folder: "Folder | None" = None
    is_shared: bool = False
    bounds: Sizes = field(default_factory=dict)
    turns: int | None = None
    looks: bool = True
    is_quick_first: bool = False

    @property
    def is_tunable(self) -> bool:
        """Return whether layout and kernels are free to be those that were tuned."""
        return self.tuned and self.prepare and self.layout is None and self.rewrites is None

    def check(self) -> None:
        """Raise `DmlError` where an option has no value that it takes, before a file is read."""
        if self.layout not in (None, *LAYOUTS):
            rule = f"be {' or '.join(map(repr, LAYOUTS))}, or None"
            raise DmlError([Fault("load_onnx", "layout", rule, self.layout)])
        if self.precision is not None:
            from dml_jax.lowering.precision import check_precision  # JAX, which a help lacks

            check_precision(self.precision)

    def rewrites_on(self, platform: str) -> "Sequence[Rewrite | GraphRewrite]":
        """Return the rewrites for a platform."""
        from dml_jax.rewrite import (
            ATTENTIONS,
            CHANNELS_LAST,
            DEFAULT,
            MATRICES,
            QUANTIZED,
            RECURRENCES,
            ChannelsLast,
        )

        if self.rewrites is not None:
            return self.rewrites
        left_out: set[Any] = set() if self.prepare else {MATRICES, RECURRENCES}
        first = [] if platform == "cpu" else [QUANTIZED]
        others = [*first, *(r for r in DEFAULT if r not in {*left_out, CHANNELS_LAST})]
        if platform == "gpu":
            others.append(ATTENTIONS)
        is_forced = self.layout == "channels_last"
        if self.layout == "file" or not (self.prepare or is_forced):
            return others
        if platform != "gpu":
            return [*others, ChannelsLast(is_forced)] if is_forced or platform == "cpu" else others
        is_rounded = self.precision in ("tensorfloat32", "bfloat16")
        types = ("FLOAT16", "FLOAT32") if is_rounded or is_forced else ("FLOAT16",)
        return [*others, ChannelsLast(is_forced, types, is_gpu=True)]

    def known_to(self, model: Any) -> "NetworkOptions":
        """Return those that a model knows; all of them if these are for one."""
        if not self.is_shared:
            return self
        from dml_jax.onnx.files.model import names_within, sizes_of

        names, denotations, tensors = sizes_of(model)
        inner = names_within(model) if self.bounds else ()
        return replace(
            self,
            names={name: size for name, size in self.names.items() if name in names},
            denotations={name: n for name, n in self.denotations.items() if name in denotations},
            shapes={name: sizes for name, sizes in self.shapes.items() if name in tensors},
            constants={name: value for name, value in self.constants.items() if name in tensors},
            bounds={name: most for name, most in self.bounds.items() if name in inner},
            is_shared=False,
        )

    def over(self, other: "NetworkOptions") -> "NetworkOptions":
        """Return these options, with the sizes of `other` that these leave out."""
        names, denotations = (
            {**other.names, **self.names},
            {**other.denotations, **self.denotations},
        )
        return replace(self, names=names, denotations=denotations, is_shared=False)


AS_THE_MODEL_SAYS = NetworkOptions()


def check_named(options: Mapping[str, Any]) -> None:
    """Raise `DmlError` where options of `load_onnx` have no value for each name, or no whole sizes.

    `options` has the dictionaries by the option.
    """
    expect = Expect("load_onnx")
    for option, given in options.items():
        if not isinstance(given, Mapping):
            expect(False, option, "be a dict, {'NAME': VALUE}", given)
            continue
        are_lists = option == "input_shapes"
        for name, value in given.items() if are_lists or option == "free_dimensions" else ():
            rule = "be a list of whole numbers (free_dimensions= has sizes of names)"
            rule = rule if are_lists else "be a whole number"
            expect(_are_whole(value if are_lists else [value]), f"{option}[{name!r}]", rule, value)
    expect.check()


def _are_whole(sizes: Any) -> bool:
    try:
        return all(isinstance(operator.index(size), int) for size in sizes)
    except TypeError:
        return False
