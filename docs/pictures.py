"""Pictures of worked examples: each element a cell, its colour where it goes or comes from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from dml_jax import Operator

CELL, GAP, WIDTH, LINE = 30, 14, 420, 22  # pixels; no wider, so that a phone shows it whole
INK, FAINT = "#1c2733", "#52606d"
HIGHEST = 6.0
"""How far from 0 a curve goes."""


@dataclass(frozen=True)
class Cells:
    """A tensor to draw: its title, values, numbers of a palette, and which elements stand out."""

    title: str
    values: np.ndarray
    colours: np.ndarray
    chosen: np.ndarray


def example_picture(
    op: Operator, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
) -> str | None:
    """Draw a worked example as SVG: the inputs above, the outputs below.

    Return None for an operator that neither moves elements nor reduces them: colours would say
    nothing.
    """
    coloured = _colours(op, inputs, outputs)
    if coloured is None:
        return None
    above, below = coloured
    chosen = [np.zeros(x.shape, bool) for x in inputs]
    if outputs[0].dtype.kind == "u" and hasattr(op, "axes"):  # an index: of which element?
        for group, index in enumerate(outputs[0].ravel()):
            place = np.argwhere(above[0].ravel() == group)[int(index)]
            chosen[0].ravel()[place] = True
    tensors = [(path, t, x) for (path, _, t), x in zip(_inputs(op), inputs, strict=True)]
    results = [(path, t, x) for (path, _, t), x in zip(_outputs(op), outputs, strict=True)]
    drawn: list[str] = []
    y = 0.0
    for (path, t, x), colours, marks in zip(tensors, above, chosen, strict=True):
        y = _tensor(drawn, y, Cells(f"{path}: {t.shown()}", x, colours, marks))
    y += 4
    drawn.append(_text(0, y + 16, f"↓ {op.short_name}", 15, INK, weight="600"))
    y += 28
    for (path, t, x), colours in zip(results, below, strict=True):
        plain = np.zeros(x.shape, bool)
        y = _tensor(drawn, y, Cells(f"{path}: {t.shown()}", x, colours, plain))
    return _svg(drawn, y)


def _inputs(op: Operator) -> Iterator[Any]:
    return op.tensors(output=False)


def _outputs(op: Operator) -> Iterator[Any]:
    return op.tensors(output=True)


def _colours(
    op: Operator, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
    """Return the colours of inputs and outputs.

    A reduced element has the colour of its result; an element that moves keeps its colour.
    """
    if hasattr(op, "axes"):
        if len(inputs) != 1 or len(outputs) != 1 or inputs[0].ndim != outputs[0].ndim:
            return None
        (x,), (y,) = inputs, outputs
        groups = np.arange(y.size).reshape(y.shape)
        return [np.broadcast_to(groups, x.shape).copy()], [groups]
    ends = np.cumsum([0, *(x.size for x in inputs)])
    ids = [
        np.arange(a, b).reshape(x.shape) for a, b, x in zip(ends, ends[1:], inputs, strict=False)
    ]
    moved = op(*(i.astype(x.dtype) for i, x in zip(ids, inputs, strict=True)))
    moved = [np.asarray(m).astype(int) for m in (moved if isinstance(moved, tuple) else (moved,))]
    elements = np.concatenate([x.ravel() for x in inputs]) if inputs else np.zeros(0)
    for places, y in zip(moved, outputs, strict=True):
        if places.size and not 0 <= places.min() <= places.max() < elements.size:
            return None
        if not np.array_equal(elements[places], y):
            return None
    key = np.zeros(ends[-1], int)
    if len(inputs) > 1:
        key = np.concatenate([np.full(x.size, k) for k, x in enumerate(inputs)])
    elif len(moved) > 1:
        for k, piece in enumerate(moved):
            key[piece] = k
    elif inputs[0].ndim == 4 and inputs[0].shape[1] > moved[0].shape[1]:
        key = np.broadcast_to(np.arange(inputs[0].shape[1])[:, None, None], inputs[0].shape).ravel()
    elif moved[0].ndim == 4 and moved[0].shape[1] > inputs[0].shape[1]:
        key[moved[0]] = np.arange(moved[0].shape[1])[:, None, None]
    else:
        key = np.arange(ends[-1])
    return [key[i] for i in ids], [key[m] for m in moved]


def _tensor(drawn: list[str], y: float, cells: Cells) -> float:
    """Draws the rows and columns of each channel, and returns where the next may begin."""
    drawn.append(_text(0, y + 15, cells.title, 13, FAINT))
    y += LINE
    shape = (1,) * max(0, 4 - cells.values.ndim) + cells.values.shape
    values, colours, chosen = (
        a.reshape(-1, *shape[-3:]) for a in (cells.values, cells.colours, cells.chosen)
    )
    many = values.shape[0] * values.shape[1] > 1
    width, height = shape[-1] * CELL, shape[-2] * CELL + (16 if many else 0)
    x = 0.0
    for n, c in np.ndindex(*values.shape[:2]):
        if x and x + width > WIDTH:
            x, y = 0.0, y + height + GAP
        if many:
            drawn.append(_text(x, y + 11, f"channel {c}", 11, FAINT))
        top = y + (16 if many else 0)
        for i, j in np.ndindex(*values.shape[2:]):
            left, up = x + j * CELL, top + i * CELL
            edge = f'stroke="{INK}" stroke-width="2.5"' if chosen[n, c, i, j] else 'stroke="#fff"'
            inset = 1.5 if chosen[n, c, i, j] else 0.5
            side, fill = CELL - 2 * inset, _colour(int(colours[n, c, i, j]))
            drawn.append(
                f'<rect x="{left + inset:g}" y="{up + inset:g}" width="{side:g}" '
                f'height="{side:g}" rx="4" fill="{fill}" {edge}/>'
            )
            words = f"{values[n, c, i, j]:g}"
            drawn.append(_text(left + CELL / 2, up + CELL / 2 + 5, words, 13, INK, "middle"))
        x += width + GAP
    return y + height + GAP


def _colour(number: int) -> str:
    """Pale colours that are far apart: the hues turn by the golden angle."""
    return f"hsl({(205 + number * 137.5) % 360:.0f} {70 - number // 8 % 2 * 25}% 82%)"


def curve(op: Operator, arrays: Sequence[np.ndarray], label: str) -> str:
    """Draw the result of an elementwise operator over its first array, as a curve.

    The curve has gaps where the result is not finite, or further from 0 than `HIGHEST`.
    """
    x, y = arrays[0], np.asarray(op(*arrays), np.float64)  # pyright: ignore[reportArgumentType]
    y = np.where(np.abs(y) <= HIGHEST, y, np.nan)
    height, left = 200.0, 26.0
    low, high = np.nanmin([*y, -0.5]) - 0.5, np.nanmax([*y, 0.5]) + 0.5

    def place(a: float, b: float) -> tuple[float, float]:
        across = (a - float(x[0])) / float(x[-1] - x[0])
        return left + across * (WIDTH - left), height * (high - b) / (high - low)

    drawn = []
    for tick in range(int(np.ceil(low)), int(np.floor(high)) + 1):
        _, b = place(0, tick)
        shade = "#9aa5b1" if tick == 0 else "#e4e7eb"
        drawn.append(f'<path d="M{left} {b:.1f}H{WIDTH}" stroke="{shade}"/>')
        drawn.append(_text(left - 6, b + 4, str(tick), 12, FAINT, "end"))
    for tick in range(int(x[0]), int(x[-1]) + 1):
        a, _ = place(tick, 0)
        shade = "#9aa5b1" if tick == 0 else "#e4e7eb"
        drawn.append(f'<path d="M{a:.1f} 0V{height}" stroke="{shade}"/>')
        drawn.append(_text(a, height + 15, str(tick), 12, FAINT, "middle"))
    for piece in np.ma.clump_unmasked(np.ma.masked_invalid(y)):
        points = " ".join(
            "{:.1f},{:.1f}".format(*place(float(a), float(b)))
            for a, b in zip(x[piece], y[piece], strict=True)
        )
        drawn.append(f'<polyline points="{points}" fill="none" stroke="#4a78b5" stroke-width="3"/>')
    drawn.append(_text(WIDTH, height + 34, label, 13, FAINT, "end"))
    return _svg(drawn, height + 42)


def _text(
    x: float,
    y: float,
    words: str,
    size: float,
    colour: str,
    anchor: str = "start",
    weight: str = "",
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{colour}" '
        f'text-anchor="{anchor}"{bold}>{escape(words)}</text>'
    )


def _svg(drawn: list[str], height: float) -> str:
    """Its own light ground, so that it reads on a dark page too."""
    pad = 14
    box = f"{-pad} {-pad} {WIDTH + 2 * pad} {height + 2 * pad:g}"
    ground = (
        f'<rect x="{-pad}" y="{-pad}" width="{WIDTH + 2 * pad}" height="{height + 2 * pad:g}" '
        'rx="10" fill="#fff"/>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" width="{WIDTH + 2 * pad}" '
        f'height="{height + 2 * pad:g}" font-family="system-ui, sans-serif">\n'
        + "\n".join([ground, *drawn])
        + "\n</svg>\n"
    )


@dataclass(frozen=True)
class Bars:
    """Bars to draw, of which the first ones stand out.

    Attributes:
        title: what they show.
        rows: the name of each, its length, and the words behind it.
        own: how many of the first ones stand out.
        mark: the length at which a line stands; None for no line.
    """

    title: str
    rows: Sequence[tuple[str, float, str]]
    own: int = 1
    mark: float | None = None


def bars(charts: Sequence[Bars]) -> str:
    """Draw charts of bars as SVG, one below the other."""
    left, behind, row, drawn, y = 172.0, 86.0, 24.0, list[str](), 0.0
    for chart in charts:
        drawn.append(_text(0, y + 14, chart.title, 14, INK, weight="600"))
        y += 24
        step = (WIDTH - left - behind) / max(length for _, length, _ in chart.rows)
        for k, (name, length, words) in enumerate(chart.rows):
            middle, colour = y + k * row + 14, "#3f51b5" if k < chart.own else "#9fa8da"
            drawn.append(_text(left - 8, middle, name, 12, INK, "end"))
            size = f'width="{length * step:.1f}" height="18"'
            drawn.append(f'<rect x="{left:g}" y="{y + k * row:g}" {size} fill="{colour}"/>')
            drawn.append(_text(round(left + length * step + 6, 1), middle, words, 12, FAINT))
        end = y + len(chart.rows) * row
        if chart.mark is not None:
            x = left + chart.mark * step
            drawn.append(f'<path d="M{x:.1f} {y:g}V{end:g}" stroke="{INK}" stroke-dasharray="3"/>')
        y = end + 10
    return _svg(drawn, y - 10)
