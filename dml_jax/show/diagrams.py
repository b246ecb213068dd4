"""Diagrams: boxes in layers, joined by lines that data flows along."""

import io
import itertools
import math
import statistics
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dml_jax.description.tensor import TensorDesc
from dml_jax.errors import NOTHING, DmlError, Fault, Unquoted, abbreviate
from dml_jax.graph import ConstantNode, FunctionNode, Graph, Source
from dml_jax.operator import Operator
from dml_jax.operator.call import Bindable
from dml_jax.show.figures import check_picture, save_picture, write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {  # the inside and the edge of a box
    "input": ("#e3f4e1", "#5a9e57"),
    "constant": ("#fdf3d3", "#c9a227"),
    "operator": ("#e4edf9", "#4a78b5"),
    "output": ("#f9e3e6", "#bd5b6a"),
    "mark": ("#fdf3d3", "#8795a1"),
    "label": ("white", "none"),
}
_FONT, _SMALL = 10, 7.5  # points, as all lengths here
_HEIGHT, _LOW = 36.0, 14.0  # of a box with two lines of text, and of one with a single small line
_GAP, _BETWEEN, _BEND, _MARGIN = 14.0, 22.0, 6.0, 18.0
_TALL = 2_400.0  # the height from which on layers stand in columns
_NOTEBOOK_MAX = 200  # boxes of a picture in a notebook
_MOST_PIXELS = 30_000  # along a side; the renderer allows 2^16


@dataclass(frozen=True)
class Box:
    """A box of a picture: its kind (a key of `_COLOURS`) and its two lines of text."""

    kind: str
    title: str
    detail: str


@dataclass
class Picture:
    """Boxes, and lines (from box, to box, label) between them, without cycles."""

    boxes: list[Box] = field(default_factory=list)
    lines: list[tuple[int, int, str]] = field(default_factory=list)

    def add(self, kind: str, title: str, detail: str = "") -> int:
        """Add a box and return its number."""
        texts = (abbreviate(Unquoted(text), 40) for text in (title, detail))
        self.boxes.append(Box(kind, *texts))
        return len(self.boxes) - 1


def kind_of(operator: Bindable) -> str:
    """Return the kind of an operator, graph or network: `REDUCE`, `graph of 3 nodes`."""
    return operator.short_name if isinstance(operator, Operator) else operator.kind


def graph_picture(graph: Graph, weights: Collection[str] = ()) -> Picture:
    """Return the picture of a graph: its inputs, nodes and outputs; graphs within nodes beside it.

    The inputs `weights`, as those of a network, get no box. Where there are such, constants get
    none either; the boxes of their readers name them.
    """
    picture = Picture()
    boxes: dict[int, dict[int, tuple[int, str]]] = {-1: {}}  # by node, output: the box, a label
    names = graph.input_names or ()
    for source, name, tensor in graph.named_inputs:
        if name not in weights:
            words = label(tensor, graph.padded.get(source))
            boxes[-1][source[1]] = picture.add("input", name, "graph input"), words

    def join(sources: Iterable[Source], end: int, views: Iterable[Any]) -> None:
        for (node, index), view in zip(sources, views, strict=True):
            if index in boxes.get(node, ()):
                start, words = boxes[node][index]
                words += f" as {view[1].shown()}" if view else ""
                picture.lines.append((start, end, words))

    for index, node, sources in graph.plan:
        if isinstance(node, ConstantNode):
            if weights:
                continue
            box = picture.add("constant", node.name or str(index), "constant")
        else:
            name = node.label if isinstance(node, FunctionNode) else kind_of(node.operator)
            detail = name if node.name else f"node {index}"
            hidden = [names[k] for n, k in sources if n < 0 and k not in boxes[-1]]
            detail += f": {', '.join(hidden)}" if hidden else ""
            box = picture.add("operator", node.name or name, detail)
            join(sources, box, (graph.views.get((index, k)) for k in range(len(sources))))
        slots = enumerate(node.slots(output=True))
        written = [label(t, graph.padded.get((index, k))) for k, (_, t) in slots if t is not None]
        boxes[index] = {k: (box, words) for k, words in enumerate(written)}
    for index, name in enumerate(graph.output_names or ()):
        box = picture.add("output", name, "graph output")
        join([graph.results[index]], box, [graph.output_views.get(index)])
    for node in graph.nodes:
        for inner in node.graphs if isinstance(node, FunctionNode) else ():
            part, first = graph_picture(inner, weights), len(picture.boxes)
            picture.boxes += part.boxes
            picture.lines += [(start + first, end + first, text) for start, end, text in part.lines]
    return picture


def label(tensor: Any, padding: tuple[int, str] | None = None) -> str:
    """Return the type and sizes of a tensor: `FLOAT32[2,3]`, or `FLOAT32[y.count<=2,3]`.

    `padding` is the dimension whose size data decides, and the name of this size.
    """
    is_tensor = isinstance(tensor, TensorDesc)
    kind = tensor.data_type if is_tensor else tensor.dtype.name
    sizes = [*map(str, tensor.sizes)]
    if padding is not None:
        sizes[padding[0]] = f"{padding[1]}<={sizes[padding[0]]}"
    return f"{kind}[{','.join(sizes)}]"


def check_diagram(target: Path) -> None:
    """Raise the error that `draw` would raise, before there is anything to draw."""
    check_picture(target, "networkx")


def draw(picture: Picture, target: Path) -> None:
    """Write a .svg or .png file. Raises `DmlError` if it cannot, or if a package is missing."""
    check_diagram(target)
    if not picture.boxes:
        raise DmlError([Fault("", "the commands", "be at least one, to be drawn", NOTHING)])
    figure = _figure(picture)
    save_picture(figure, target, min(150, _MOST_PIXELS / max(figure.get_size_inches())))


def svg(picture: Picture) -> str | None:
    """Return a picture as SVG, for notebooks.

    It is None without matplotlib, and of a picture that is empty or too large to be read in a
    notebook: the notebook shows text then.
    """
    if not 0 < len(picture.boxes) <= _NOTEBOOK_MAX:
        return None
    try:
        figure = _figure(picture)
    except ImportError:
        return None
    file = io.BytesIO()
    write_picture(figure, file, "svg")
    return file.getvalue().decode()


def _figure(picture: Picture) -> "Figure":
    from matplotlib.figure import Figure

    columns = columns_of(picture)
    width, height = sum(c.width for c in columns), max(c.height for c in columns)
    figure = Figure(figsize=(width / 72, height / 72))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    left = 0.0
    for column in columns:
        _draw_lines(axes, column, left)
        _draw_boxes(axes, column, left)
        left += column.width
    return figure


def columns_of(picture: Picture) -> "list[Layout]":
    """Return the layouts of a picture's columns: of one, or of several where it is tall.

    A line from one column to another is cut, and a mark with one number stands at both ends.
    """
    layers = _layers(picture)
    # One column is easiest to follow, so the picture is cut only where it is too tall to be read.
    whole = Layout(picture, layers)
    if whole.height <= _TALL:
        return [whole]
    count = math.ceil(math.sqrt(whole.height / whole.width))
    size = math.ceil((max(layers) + 1) / count)
    parts = [(Picture(), list[int]()) for _ in range(max(layers) // size + 1)]
    places = []  # of each box: its column, and its number there
    for box, layer in zip(picture.boxes, layers, strict=True):
        part, rows = parts[layer // size]
        places.append((layer // size, len(rows)))
        part.boxes.append(box)
        rows.append(layer % size + 1)
    marks: dict[tuple[int, str, int], int] = {}  # by box, label, column: lines go on from there
    for start, end, text in picture.lines:
        (column, first), (after, last) = places[start], places[end]
        line = start, text, after
        if column != after and line not in marks:
            (part, rows), (other, heads) = parts[column], parts[after]
            number = str(len(marks) + 1)
            part.lines.append((first, part.add("mark", number), text))
            rows.append(rows[first] + 1)
            marks[line] = other.add("mark", number)
            heads.append(0)
        ends = (first, last, text) if column == after else (marks[line], last, "")
        parts[after][0].lines.append(ends)
    return [Layout(part, rows) for part, rows in parts]


def _layers(picture: Picture) -> list[int]:
    """Return the layer of each box: below the last of its sources; inputs above their readers."""
    import networkx

    graph = networkx.DiGraph([(start, end) for start, end, _ in picture.lines])
    graph.add_nodes_from(range(len(picture.boxes)))
    layers = [0] * len(picture.boxes)
    for layer, generation in enumerate(networkx.topological_generations(graph)):
        for box in generation:
            layers[box] = layer
    for box, layer in enumerate(layers):
        if layer == 0 and graph.out_degree(box):
            layers[box] = min(layers[reader] for reader in graph.successors(box)) - 1
    return layers


class Layout:
    """The places of boxes and lines, from the top down.

    Each line leads through a vertex in each row between its ends: first the label, which lines of
    one box share where they have one text, and then bends. So lines and labels have places of their
    own, as boxes have.

    Attributes:
        boxes: the boxes of the picture, the labels, and None for each bend.
        widths: the width of each of them.
        heights: the height of each of them; a bend is as high as its row.
        x, y: the middle of each of them.
        links: the pairs of them that a piece of a line joins.
        width, height: the size of the whole.
    """

    def __init__(self, picture: Picture, layers: Collection[int]):
        self.boxes: list[Box | None] = [*picture.boxes]
        self._rows: list[list[int]] = [[] for _ in range(2 * max(layers) + 1)]
        where = [2 * layer for layer in layers]
        for box, row in enumerate(where):
            self._rows[row].append(box)
        links: dict[tuple[int, int], None] = {}
        made: dict[Any, int] = {}  # labels and bends, which lines share
        for start, end, text in picture.lines:
            before = start
            for row in range(where[start] + 1, where[end]):
                key = start, text, row
                if key not in made:
                    made[key] = len(self.boxes)
                    is_label = row == where[start] + 1 and text
                    self.boxes.append(Box("label", text, "") if is_label else None)
                    self._rows[row].append(made[key])
                links[before, made[key]] = None
                before = made[key]
            links[before, end] = None
        self.links = list(links)
        self.widths = [_BEND if box is None else _width(box) for box in self.boxes]
        self._above: list[list[int]] = [[] for _ in self.boxes]
        self._below: list[list[int]] = [[] for _ in self.boxes]
        for a, b in self.links:
            self._below[a].append(b)
            self._above[b].append(a)
        self._sort()
        self.x = self._across()
        self.y, self.heights = [0.0] * len(self.boxes), [0.0] * len(self.boxes)
        self.height = _MARGIN
        for row in self._rows:
            high = max((_height(self.boxes[v]) for v in row), default=0.0)
            for v in row:
                self.y[v] = self.height + high / 2
                self.heights[v] = _height(self.boxes[v]) or high
            self.height += high + _GAP
        self.height += _MARGIN - _GAP
        ends = (x + width / 2 for x, width in zip(self.x, self.widths, strict=True))
        self.width = max(ends) + _MARGIN

    def _sort(self) -> None:
        """Order each row by the mean place of its neighbours, down and up, against crossings."""
        place: dict[int, float] = {}
        for turn in range(16):
            down = turn % 2 == 0
            beside = self._above if down else self._below
            for row in self._rows if down else reversed(self._rows):
                old = {v: place.get(v, i / max(1, len(row) - 1)) for i, v in enumerate(row)}
                means = {v: _mean((place.get(n, 0.5) for n in beside[v]), old[v]) for v in row}
                row.sort(key=means.__getitem__)
                place |= {v: i / max(1, len(row) - 1) for i, v in enumerate(row)}

    def _across(self) -> list[float]:
        """Return an x for each vertex, as near to the mean of its neighbours as its row allows."""
        x = [0.0] * len(self.boxes)
        for turn in range(24):
            for row in self._rows if turn % 2 else reversed(self._rows):
                means = [_mean((x[n] for n in self._above[v] + self._below[v]), x[v]) for v in row]
                for v, place in zip(row, self._apart(row, means), strict=True):
                    x[v] = place
        left = min(place - width / 2 for place, width in zip(x, self.widths, strict=True))
        return [place - left + _MARGIN for place in x]

    def _apart(self, row: list[int], targets: list[float]) -> list[float]:
        """Return the places nearest to `targets` (least squares) at which no vertices overlap.

        Without the widths of earlier vertices, places only have to rise. Bends weigh more, which
        keeps long lines straight.
        """
        from scipy.optimize import isotonic_regression

        halves = [self.widths[v] / 2 for v in row]
        rooms = (a + b + _BETWEEN for a, b in itertools.pairwise(halves))
        offsets = np.array([*itertools.accumulate(rooms, initial=0.0)])
        weights = [1.0 if self.boxes[v] else 4.0 for v in row]
        places = isotonic_regression(np.array(targets) - offsets, weights=weights).x + offsets
        return places.tolist()


def _mean(values: Iterable[float], otherwise: float) -> float:
    listed = list(values)
    return statistics.fmean(listed) if listed else otherwise


def _height(box: Box | None) -> float:
    """Return the height of a box or a label; 0 for a bend."""
    return 0.0 if box is None else _HEIGHT if box.detail else _LOW


def _width(box: Box) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    lines = [(box.title, _FONT if box.detail else _SMALL), (box.detail, _SMALL)]
    wide = [
        text_to_path.get_text_width_height_descent(text, FontProperties(size=size), False)[0]
        for text, size in lines
    ]
    return max(wide) + (20 if box.detail else 8)


def _draw_boxes(axes: Any, layout: Layout, left: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    places = zip(layout.x, layout.y, layout.widths, layout.heights, strict=True)
    for box, (x, y, width, high) in zip(layout.boxes, places, strict=True):
        if box is None:
            continue
        fill, edge = _COLOURS[box.kind]
        corner = (left + x - width / 2, y - high / 2)
        style = f"round,pad=0,rounding_size={6 if box.kind == 'operator' else high * 0.39}"
        patch = FancyBboxPatch(
            corner, width, high, boxstyle=style, facecolor=fill, edgecolor=edge, zorder=3
        )
        axes.add_patch(patch)
        texts = [(box.title, _SMALL, "#3e4c59", 0)]
        if box.detail:
            texts = [(box.title, _FONT, "#1c2733", -6), (box.detail, _SMALL, "#52606d", 8)]
        for text, size, colour, down in texts:
            place = {"ha": "center", "va": "center", "zorder": 4}
            shown = text.replace("$", r"\$")  # "$" would begin a formula
            axes.text(left + x, y + down, shown, size=size, color=colour, **place)


def _draw_lines(axes: Any, layout: Layout, left: float) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    codes = [Curve.MOVETO, Curve.LINETO, *[Curve.CURVE4] * 3]
    for a, b in layout.links:
        x0, x1 = left + layout.x[a], left + layout.x[b]
        y0, y1 = layout.y[a] + layout.heights[a] / 2, layout.y[b] - layout.heights[b] / 2
        begin = y0 if layout.boxes[a] else y0 - layout.heights[a]  # through a bend
        middle = (y0 + y1) / 2
        points = [(x0, begin), (x0, y0), (x0, middle), (x1, middle), (x1, y1)]
        box = layout.boxes[b]
        style = "-|>,head_length=5,head_width=2.5" if box is not None and box.detail else "-"
        arrow = FancyArrowPatch(
            path=Curve(points, codes), arrowstyle=style, color="#8795a1", lw=1, zorder=1
        )
        axes.add_patch(arrow)


Graph._repr_svg_ = lambda self: svg(graph_picture(self))
