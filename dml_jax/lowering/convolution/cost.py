"""Which form and which layout of a convolution is fastest, by sizes: all thresholds stand here.

`python benchmarks/thresholds.py` sweeps the thresholds of forms: it times both forms on both sides
of each. `benchmarks/onnx_networks.py` measures networks in both layouts, by which the thresholds of
layouts are chosen: a layout pays in its neighbours' copies, which one operator does not show.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from dml_jax.lowering.windows import FEW, Window

NCHW, NHWC_HWIO, NHWC_OHWI = "NCHW", "NHWC HWIO", "NHWC OHWI"
"""The layouts. With channels last arrays are {N, spatial..., C}. Filters are then in the order of a
CPU, {spatial..., channels, channels of the result}, or of cuDNN, with the result's channels first.
"""

# A chain of multiply-adds for each element of the result, up to so many: XLA fuses it into one
# loop without a copy, and a longer one fills a CPU's registers. There have to be groups: without
# them the rows of a product of matrices are vectors, which is faster.
FEW_PRODUCTS = 80
# A larger window of one channel is computed by rows of about so many places, since LLVM makes no
# vectors of a longer chain. Sweep: SOME_PLACES.
SOME_PLACES = 50
# Up to so many windows, a sum may have up to twice FEW_PRODUCTS and still be a product with the
# elements of all windows: with more windows these elements leave the caches.
FEW_WINDOWS = 2**16
# With few channels XLA's convolution has short rows, which a product with the elements of all
# windows has not. It stores an element once for each place of the window, hence the limits of the
# places, and of the elements of all windows.
FEW_CHANNELS, FEW_PLACES, FEW_ELEMENTS = 15, 25, 2**21
# Up to so many groups are convolved one by one on a CPU, whose convolution of groups is slow. The
# program grows with them, and so does the time to compile it.
FEW_GROUPS = 16
# Tiles take fewer products and more additions: these pay from so many channels and so many tiles
# on, and as long as the elements of all tiles are in the caches.
TILED_CHANNELS, MANY_TILES, TILED_ELEMENTS = 64, 400, 2**21
# Of a window of one channel, XLA's convolution with channels first is as fast as with channels last
# where a product with the elements of all windows does not pay (from FEW_PLACES on), and while a
# row of the window is no vector of its own. Networks of speech have such filters.
MANY_PLACES = 160
# Up to so many channels of the result, a product of a window of one element reads its input once in
# either layout: it takes the layout that is there.
FEW_OUTPUTS = 32
# A CPU is as fast along a row of so many elements as along channels, where groups are convolved.
LONG_ROW = 64


class Form(Enum):
    """How a correlation is computed. `forms` says of each what it does."""

    PLAIN = auto()  # XLA's convolution of FLOAT32
    NARROW = auto()  # XLA's convolution of elements of 16 bits as they are, for cuDNN
    PATCHES = auto()  # a product of matrices: windows lie side by side
    SHIFTS = auto()  # a chain of multiply-adds for each element
    PRODUCT = auto()  # a product of matrices: the window has one element
    COLUMNS = auto()  # a product of the filter and the elements of all windows
    PLANES = auto()  # the depth of the filter becomes channels of planes
    GROUPS = auto()  # a convolution for each group
    CHANNELS = auto()  # a chain of multiply-adds along channels, which are last
    CHANNEL_ROWS = auto()  # the same of some rows of a large window at a time
    FLAT = auto()  # XLA's convolution of one spatial dimension less, with rows first
    TILES = auto()  # fewer products, of tiles of 2 by 2 results
    INT8_PRODUCT = auto()  # a product of INT8 matrices
    EXACT_PRODUCTS = auto()  # products of BFLOAT16 matrices, with few terms


@dataclass(frozen=True)
class ConvolutionShape:
    """The sizes by which a form is chosen.

    Attributes:
        batch: the number of arrays.
        channels: the channels that one group of the filter reads.
        outputs: the channels of the result, of all groups.
        groups: the number of groups.
        window: the window of the filter's sizes.
        spatial: the spatial sizes of the input.
        dtype: the type of the input.
        is_spread: whether zeros go between the elements of the input, as in a transpose.
    """

    batch: int
    channels: int
    outputs: int
    groups: int
    window: Window
    spatial: Sequence[int]
    dtype: Any
    is_spread: bool = False

    @property
    def places(self) -> int:
        """Return the number of elements of a window in one channel."""
        return math.prod(self.window.sizes)

    @property
    def products(self) -> int:
        """Return how many products an element of the result adds."""
        return self.channels * self.places

    @property
    def windows(self) -> int:
        """Return the number of windows in all arrays."""
        return self.batch * math.prod(self.window.counts(self.spatial))

    @property
    def is_product(self) -> bool:
        """Return whether the convolution is a product of matrices: of one group and one place."""
        return self.groups == 1 and self.places == 1 and not self.is_spread

    @property
    def is_chain(self) -> bool:
        """Return whether an element of the result is a chain of few multiply-adds."""
        return self.groups > 1 and self.products <= FEW_PRODUCTS


def shape_of(
    x: Any, w: Any, window: Window, groups: int, layout: str = NCHW, is_spread: bool = False
) -> ConvolutionShape:
    """Return the sizes of a convolution of arrays, or of tensors that have `shape` and `dtype`.

    The arguments are those of `api.convolution`.
    """
    spatial = x.shape[2:] if layout == NCHW else x.shape[1:-1]
    inputs, outputs = {NCHW: (1, 0), NHWC_HWIO: (-2, -1), NHWC_OHWI: (-1, 0)}[layout]
    sizes = x.shape[0], w.shape[inputs], w.shape[outputs]
    return ConvolutionShape(*sizes, groups, window, spatial, x.dtype, is_spread)


# Which form a convolution gets: the first row of its layout that holds, from top to bottom. What
# is few, short or many, the thresholds say.
#
# layout     platform a convolution that                                         form
# ---------  -------- ---------------------------------------------------------  --------------
# any        any      is of 8-bit integers, in groups of few products            SHIFTS
# any        cpu      is of 8-bit integers                                       INT8_PRODUCT
# any        others   is of 8-bit integers                                       EXACT_PRODUCTS
# NHWC OHWI  any      has a filter for each channel, of few places               CHANNELS
# NHWC OHWI  any      is another one                                             NARROW
# NHWC HWIO  any      has one group and one place                                PRODUCT
# NHWC HWIO  any      has a filter for each channel, of few places               CHANNELS
# NHWC HWIO  any      has a filter for each of many channels                     CHANNEL_ROWS
# NHWC HWIO  any      has groups of few products                                 SHIFTS
# NHWC HWIO  any      has few groups                                             GROUPS
# NHWC HWIO  any      has a last spatial dimension of 1, and others              FLAT
# NHWC HWIO  any      has one group, 3 by 3 places, many channels and tiles      TILES
# NHWC HWIO  any      is another one                                             PLAIN
# NCHW       cuda     is of 16 bits, of few channels in windows side by side     PATCHES
# NCHW       cuda     is of 16 bits, but for a short chain                       NARROW
# NCHW       any      has groups of few products                                 SHIFTS
# NCHW       any      has one group and one place                                PRODUCT
# NCHW       others   is another one                                             PLAIN
# NCHW       cpu      has 3 spatial dimensions                                   PLANES
# NCHW       cpu      has a filter for each of many channels, not spread         CHANNEL_ROWS
# NCHW       cpu      has few groups                                             GROUPS
# NCHW       cpu      has one group, not spread, with short sums or rows         COLUMNS
# NCHW       cpu      is another one                                             PLAIN


def form(shape: ConvolutionShape, platform: str, layout: str = NCHW) -> Form:
    """Return the form of a convolution on a platform ("cpu", "cuda", "tpu"), by the table above."""
    if shape.dtype.kind in "iu" and shape.dtype.itemsize == 1:
        by_products = Form.INT8_PRODUCT if platform == "cpu" else Form.EXACT_PRODUCTS
        return Form.SHIFTS if shape.is_chain else by_products
    if layout == NHWC_OHWI:
        is_short = shape.channels == 1 and shape.places <= FEW_PLACES
        return Form.CHANNELS if is_short else Form.NARROW
    if layout == NHWC_HWIO:
        return _form_of_last_channels(shape)
    is_short = shape.is_chain and shape.places <= FEW_PLACES
    if platform == "cuda" and shape.dtype.itemsize <= 2 and not is_short:
        return Form.PATCHES if _are_patches(shape) else Form.NARROW
    if shape.is_chain:
        return Form.SHIFTS
    if shape.is_product:
        return Form.PRODUCT
    return form_on_cpu(shape) if platform == "cpu" else Form.PLAIN


def form_on_cpu(shape: ConvolutionShape) -> Form:
    """Return the form in which a CPU computes what is no chain, or a part of what is none."""
    if len(shape.spatial) == 3:
        return Form.PLANES
    of_channels = _form_by_channels(shape)
    if of_channels is not None and not shape.is_spread:
        return of_channels
    if 1 < shape.groups <= FEW_GROUPS:
        return Form.GROUPS
    return Form.COLUMNS if _gains_by_columns(shape) else Form.PLAIN


def _form_of_last_channels(shape: ConvolutionShape) -> Form:
    if shape.is_product:
        return Form.PRODUCT
    of_channels = _form_by_channels(shape)
    if of_channels is not None:
        return of_channels
    if shape.is_chain:
        return Form.SHIFTS
    if 1 < shape.groups <= FEW_GROUPS:
        return Form.GROUPS
    is_flat = shape.spatial[-1] == shape.window.sizes[-1] == 1 < len(shape.spatial)
    if is_flat and shape.window.padding[-1] == (0, 0):
        return Form.FLAT
    return Form.TILES if _gains_by_tiles(shape) else Form.PLAIN


def _form_by_channels(shape: ConvolutionShape) -> Form | None:
    """Return the form of filters for each channel by itself; None where another one is faster.

    XLA has no fast kernel for them on a CPU: rows of a few channels are no vectors.
    """
    if not shape.groups > shape.channels == 1:
        return None
    if shape.places <= FEW_PRODUCTS:
        return Form.CHANNELS
    return Form.CHANNEL_ROWS if shape.groups > FEW_GROUPS else None


def _are_patches(shape: ConvolutionShape) -> bool:
    """Return whether windows of few channels lie side by side, and cover the input."""
    window = shape.window
    if shape.groups > 1 or shape.is_spread or shape.places == 1 or window.is_padded:
        return False
    counts = window.counts(shape.spatial)
    covered = tuple(n * k for n, k in zip(counts, window.sizes, strict=True))
    is_apart = tuple(window.sizes) == tuple(window.strides)
    return is_apart and covered == tuple(shape.spatial) and shape.channels <= FEW_CHANNELS


def _gains_by_columns(shape: ConvolutionShape) -> bool:
    """Return whether a CPU convolves faster by a product of matrices: sums or rows are short."""
    if shape.groups > 1 or shape.is_spread:
        return False
    if shape.spatial[-1] == shape.window.sizes[-1] == 1:
        return shape.window.sizes[0] <= FEW  # a program grows with the sizes of the window
    is_small = shape.channels <= FEW_CHANNELS and shape.places <= FEW_PLACES
    if is_small and shape.products * shape.windows <= FEW_ELEMENTS:
        return True
    most = 2 * FEW_PRODUCTS if shape.windows <= FEW_WINDOWS else FEW_PRODUCTS
    return shape.products <= most


def _gains_by_tiles(shape: ConvolutionShape) -> bool:
    """Return whether a CPU convolves arrays with channels last faster by tiles."""
    sizes, strides, dilations = map(tuple, shape.window[:3])
    is_plain = sizes == (3, 3) and strides == (1, 1) == dilations
    if shape.groups > 1 or not is_plain:
        return False
    counts = shape.window.counts(shape.spatial)
    tiles = shape.batch * math.prod(-(-n // 2) for n in counts)
    is_wide = min(shape.channels, shape.outputs) >= TILED_CHANNELS and tiles >= MANY_TILES
    return is_wide and 16 * tiles * shape.channels <= TILED_ELEMENTS


def rows_at_once(window: Window) -> int:
    """Return how many rows of a large window of one channel are one chain of multiply-adds."""
    return max(1, SOME_PLACES // math.prod(window.sizes[1:]))


def prefers_channels_last(shape: ConvolutionShape, platform: str) -> bool:
    """Return whether a convolution is faster with channels last, at least not slower.

    On an NVIDIA GPU each one is: cuDNN reads channels last, and copies what has them first. On a
    CPU it is one that has a fast form of last channels and no faster one of first channels.
    """
    if platform == "cuda":
        return True
    if shape.groups > 1:
        return shape.channels == 1 or shape.groups <= FEW_GROUPS
    is_long = shape.channels == 1 and not FEW_PLACES < shape.places <= MANY_PLACES
    return shape.is_product or shape.channels > FEW_CHANNELS or is_long


def is_free(shape: ConvolutionShape, platform: str) -> bool:
    """Return whether a convolution is as fast with channels last as without."""
    return platform == "cpu" and shape.is_product and shape.outputs <= FEW_OUTPUTS


def copies_anyway(shape: ConvolutionShape, platform: str) -> bool:
    """Return whether a convolution copies its arrays where the graph does not lay them out."""
    if platform == "cuda":
        return True
    has_long_rows = shape.spatial[-1] > LONG_ROW and shape.window.strides[-1] == 1
    return not (shape.is_product or (shape.groups > 1 and has_long_rows))
