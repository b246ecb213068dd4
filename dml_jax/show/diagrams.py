"""Diagrams: boxes in layers, joined by lines that data flows along."""

import itertools
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dml_jax.description.tensor import TensorDesc
from dml_jax.errors import NOTHING, DmlError, Fault, Unquoted, abbreviate
from dml_jax.graph import ConstantNode, FunctionNode, Graph, Source
from dml_jax.operator import Operator
from dml_jax.operator.callable import Bindable
from dml_jax.show.figures import check_picture, save_picture

_COLOURS = {  # the inside and the edge of a box
    "input": ("#e3f4e1", "#5a9e57"),
    "constant": ("#fdf3d3", "#c9a227"),
    "operator": ("#e4edf9", "#4a78b5"),
    "output": ("#f9e3e6", "#bd5b6a"),
}
_FONT, _SMALL = 10, 7.5  # points, as all lengths here
_HEIGHT, _GAP, _BETWEEN, _BEND, _MARGIN = 36.0, 44.0, 26.0, 12.0, 18.0
_LINE = _SMALL + 3.5  # the height of a label
_STUB = 34.0  # the length of the end of a line that goes on in another column
_TALL = 2_400.0  # the height from which on layers stand in columns
_MOST_PIXELS = 30_000  # along a side; the renderer allows 2^16

Point = tuple[float, float]


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

    def add(self, kind: str, title: str, detail: str) -> int:
        """Add a box and return its number."""
        texts = (abbreviate(Unquoted(text), 40) for text in (title, detail))
        self.boxes.append(Box(kind, *texts))
        return len(self.boxes) - 1


def kind_of(operator: Bindable) -> str:
    """Return the kind of an operator, graph or network: `REDUCE`, `graph of 3 nodes`."""
    return operator.short_name if isinstance(operator, Operator) else operator.kind


def graph_picture(graph: Graph, weights: Collection[str] = ()) -> Picture:
    """Return the picture of a graph: its inputs, nodes and outputs; graphs within nodes beside it.

    Args:
        graph: the graph.
        weights: the inputs that get no box, as those of a network. Where there are such, constants
            get none either; the boxes of their readers name them.
    """
    picture = Picture()
    points = list(graph.bind_points())
    boxes: dict[int, int] = {}
    inputs = {
        index: picture.add("input", point.name, "graph input")
        for index, point in enumerate(p for p in points if not p.output)
        if point.name not in weights
    }

    def is_shown(source: Source) -> bool:
        node, index = source
        if node < 0:
            return index in inputs
        return not (weights and isinstance(graph.nodes[node], ConstantNode))

    def join(source: Source, end: int, read: TensorDesc | None = None) -> None:
        node, index = source
        start = inputs[index] if node < 0 else boxes[node]
        tensors = graph.inputs if node < 0 else _outputs(graph.nodes[node])
        words = label(tensors[index])
        if read is not None:
            words += f" as {read.shown()}"
        picture.lines.append((start, end, words))

    for index, node, sources in graph.plan:
        if not is_shown((index, 0)):
            continue
        if isinstance(node, ConstantNode):
            boxes[index] = picture.add("constant", node.name or str(index), "constant")
            continue
        name = node.label if isinstance(node, FunctionNode) else kind_of(node.operator)
        detail = name if node.name else f"node {index}"
        read_names = [points[i].name for n, i in sources if n < 0 and not is_shown((n, i))]
        if read_names:
            detail = f"{detail}: {', '.join(read_names)}"
        boxes[index] = picture.add("operator", node.name or name, detail)
        for place, source in enumerate(sources):
            if not is_shown(source):
                continue
            _, read = graph.views.get((index, place), (None, None))
            join(source, boxes[index], read)
    outputs = [point for point in points if point.output]
    for index, (point, source) in enumerate(zip(outputs, graph.results, strict=True)):
        _, read = graph.output_views.get(index, (None, None))
        box = picture.add("output", point.name, "graph output")
        if is_shown(source):
            join(source, box, read)
    for node in graph.nodes:
        for inner in node.graphs if isinstance(node, FunctionNode) else ():
            part, first = graph_picture(inner, weights), len(picture.boxes)
            picture.boxes += part.boxes
            picture.lines += [(start + first, end + first, text) for start, end, text in part.lines]
    return picture


def _outputs(node: Any) -> Sequence[Any]:
    if isinstance(node, ConstantNode):
        return (node.tensor,)
    return node.outputs if isinstance(node, FunctionNode) else node.operator.outputs


def label(tensor: Any) -> str:
    """Return the type and sizes of a tensor: `FLOAT32[2,3]`."""
    if not isinstance(tensor, TensorDesc):
        return tensor.shown()
    return TensorDesc(tensor.data_type, tensor.sizes).shown()


def check_diagram(target: Path) -> None:
    """Raise the error that `draw` would raise, before there is anything to draw."""
    check_picture(target, "networkx")


def draw(picture: Picture, target: Path) -> None:
    """Write a .svg or .png file. Raises `DmlError` if it cannot, or if a package is missing."""
    check_diagram(target)
    from matplotlib.figure import Figure

    if not picture.boxes:
        raise DmlError([Fault("", "the commands", "be at least one, to be drawn", NOTHING)])
    layout = _Layout(picture)
    figure = Figure(figsize=(layout.width / 72, layout.height / 72))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, layout.width), ylim=(layout.height, 0))
    axes.set_axis_off()
    _draw_lines(axes, layout)
    _draw_boxes(axes, layout)
    save_picture(figure, target, min(150, _MOST_PIXELS / max(figure.get_size_inches())))


class _Layout:
    """The places of boxes, lines and labels, from the top down.

    A box lies in the layer below the last of its sources. A line across layers has a vertex, a
    bend, in each of them, and so passes between the boxes. Many layers stand in several columns;
    a line from one to the next is cut, and both of its ends have a mark with one number.

    Attributes:
        boxes: the boxes of the picture; they are the first vertices.
        widths: the width of each vertex.
        x, y: the middle of each vertex.
        chains: the vertices of each line.
        paths: the points of each line, two for each space between layers.
        labels: the middle and the width of each line's label.
        pieces: the points of each piece of a line, and whether it ends in an arrow.
        marks: the place and the number of each mark.
    """

    def __init__(self, picture: Picture):
        self.boxes, self.lines = picture.boxes, picture.lines
        self.widths = [
            max(_width(box.title, _FONT), _width(box.detail, _SMALL)) + 20 for box in self.boxes
        ]
        layers = self._layers()
        rows: list[list[int]] = [[] for _ in range(max(layers) + 1)]
        for box, layer in enumerate(layers):
            rows[layer].append(box)
        self.chains: list[list[int]] = []
        for start, end, _ in self.lines:
            bends = range(len(self.widths), len(self.widths) + layers[end] - layers[start] - 1)
            for layer, bend in enumerate(bends, layers[start] + 1):
                rows[layer].append(bend)
                self.widths.append(_BEND)
            self.chains.append([start, *bends, end])
        self._above: list[list[int]] = [[] for _ in self.widths]
        self._below: list[list[int]] = [[] for _ in self.widths]
        for chain in self.chains:
            for a, b in itertools.pairwise(chain):
                self._below[a].append(b)
                self._above[b].append(a)
        self._sort(rows)
        # Labels may be wider than the boxes at the ends of their lines.
        wide = [_width(text, _SMALL) + 8 for *_, text in self.lines]
        self._margin = max(_MARGIN, (max(wide, default=0) - min(self.widths)) / 2 + 4)
        self.x = self._across(rows)
        self._room = [_GAP] * len(rows)
        for _ in range(100):  # a few at most, but for lines without end between two boxes
            self.y = self._down(rows)
            self.paths = list(map(self._path, range(len(self.lines))))
            crowded = self._place_labels(wide, layers)
            if not crowded:
                break
            for layer in crowded:
                self._room[layer] += _LINE
        self.width = max(map(self._right, range(len(self.widths)))) + self._margin
        self.height = max(self.y) + _HEIGHT / 2 + _MARGIN
        self.pieces = [(path, True) for path in self.paths]
        self.marks: list[tuple[float, float, int]] = []
        if self.height > _TALL:
            self._fold(rows)

    def _layers(self) -> list[int]:
        import networkx

        graph = networkx.DiGraph([(start, end) for start, end, _ in self.lines])
        graph.add_nodes_from(range(len(self.boxes)))
        layers = [0] * len(self.boxes)
        for layer, generation in enumerate(networkx.topological_generations(graph)):
            for box in generation:
                layers[box] = layer
        for box, layer in enumerate(layers):  # inputs lie above their first reader
            if layer == 0 and graph.out_degree(box):
                layers[box] = min(layers[reader] for reader in graph.successors(box)) - 1
        return layers

    def _sort(self, rows: list[list[int]]) -> None:
        """Order each row by the mean place of its neighbours, down and up, against crossings."""
        for turn in range(16):
            down = turn % 2 == 0
            beside = self._above if down else self._below
            place = {v: i / max(1, len(row) - 1) for row in rows for i, v in enumerate(row)}
            for row in rows if down else reversed(rows):
                means = {
                    v: statistics.fmean(place[n] for n in beside[v]) if beside[v] else place[v]
                    for v in row
                }
                row.sort(key=means.__getitem__)
                place |= {v: i / max(1, len(row) - 1) for i, v in enumerate(row)}

    def _across(self, rows: list[list[int]]) -> list[float]:
        """Return an x for each vertex, as near to the mean of its neighbours as its row allows."""
        x = [0.0] * len(self.widths)
        for turn in range(24):
            for row in rows if turn % 2 else reversed(rows):
                means = []
                for v in row:
                    beside = self._above[v] + self._below[v]
                    means.append(statistics.fmean(x[n] for n in beside) if beside else x[v])
                for v, place in zip(row, self._apart(row, means), strict=True):
                    x[v] = place
        left = min(x[v] - self.widths[v] / 2 for v in range(len(x)))
        return [place - left + self._margin for place in x]

    def _apart(self, row: list[int], targets: list[float]) -> list[float]:
        """Return the places nearest to `targets` (least squares) at which no vertices overlap.

        This is isotonic regression by pooling, after the widths of earlier vertices are subtracted.
        Bends weigh more, which keeps long lines straight.
        """
        room, offsets = 0.0, []
        for i, v in enumerate(row):
            room += (self.widths[row[i - 1]] + self.widths[v]) / 2 + _BETWEEN if i else 0.0
            offsets.append(room)
        pools: list[tuple[float, float, int]] = []  # weighted sum, weight, members
        for v, place, offset in zip(row, targets, offsets, strict=True):
            weight = 1.0 if v < len(self.boxes) else 4.0
            pool = (weight * (place - offset), weight, 1)
            while pools and pools[-1][0] / pools[-1][1] > pool[0] / pool[1]:
                total, heavy, members = pools.pop()
                pool = (total + pool[0], heavy + pool[1], members + pool[2])
            pools.append(pool)
        places = [total / weight for total, weight, members in pools for _ in range(members)]
        return [place + offset for place, offset in zip(places, offsets, strict=True)]

    def _down(self, rows: list[list[int]]) -> list[float]:
        y, top = [0.0] * len(self.widths), _MARGIN + _HEIGHT / 2
        for row, room in zip(rows, self._room, strict=True):
            for v in row:
                y[v] = top
            top += _HEIGHT + room
        return y

    def _path(self, line: int) -> list[Point]:
        chain = self.chains[line]
        begin, end = self.ports(line)
        points = [(begin, self.y[chain[0]] + _HEIGHT / 2)]
        for v in chain[1:-1]:
            points += [(self.x[v], self.y[v] + side * _HEIGHT / 2) for side in (-1, 1)]
        return [*points, (end, self.y[chain[-1]] - _HEIGHT / 2)]

    def _place_labels(self, widths: list[float], layers: list[int]) -> set[int]:
        """Put each label on its line, clear of the others; return the layers that lack room."""
        self.labels: list[tuple[float, float, float]] = []
        self._label_spans: list[int] = []
        crowded: set[int] = set()
        for path, width, (start, _, _) in zip(self.paths, widths, self.lines, strict=True):
            spans = list(zip(path[::2], path[1::2], strict=True))
            places = [(_between(a, b, t), k) for t in _ALONG for k, (a, b) in enumerate(spans)]
            free = (p for p in places if not any(_hides(p[0], width, o) for o in self.labels))
            found = next(free, None)
            if found is None:
                crowded |= {layers[start] + index for index in range(len(spans))}
                found = places[0]
            self.labels.append((*found[0], width))
            self._label_spans.append(found[1])
        return crowded

    def _fold(self, rows: list[list[int]]) -> None:
        """Put the layers into columns side by side, as wide together as they are high."""
        groups, sides, high, count = [rows], [(0.0, 0.0)], self.height, 1
        while sum(right - left for left, right in sides) < high and count < len(rows):
            count += 1
            size = -(-len(rows) // count)
            groups = [rows[start : start + size] for start in range(0, len(rows), size)]
            sides = [self._sides([v for row in group for v in row]) for group in groups]
            high = max(self._high(group) for group in groups)
        self.width, self.height, shifts = 0.0, high + 2 * _MARGIN, list[Point]()
        column = [0] * len(self.widths)
        for index, (group, (left, right)) in enumerate(zip(groups, sides, strict=True)):
            top = self.y[group[0][0]] - _HEIGHT / 2 - _STUB - _MARGIN
            shifts.append((self.width - left, -top))
            self.width += right - left
            for v in itertools.chain(*group):
                column[v] = index

        def moved(point: Point, index: int) -> Point:
            return point[0] + shifts[index][0], point[1] + shifts[index][1]

        self.labels = [
            (*moved((x, y), column[self.chains[line][span]]), width)
            for line, ((x, y, width), span) in enumerate(
                zip(self.labels, self._label_spans, strict=True)
            )
        ]
        places = list(map(moved, zip(self.x, self.y, strict=True), column))
        self.x, self.y = [x for x, _ in places], [y for _, y in places]
        self.pieces, numbers = [], dict[tuple[int, int], int]()
        for chain, path in zip(self.chains, self.paths, strict=True):
            points: list[Point] = []
            for a, b, span in zip(path[::2], path[1::2], itertools.pairwise(chain), strict=True):
                before, after = (column[v] for v in span)
                points.append(moved(a, before))
                if before != after:
                    number = numbers.setdefault((chain[0], after), len(numbers) + 1)
                    x, y = moved(a, before)
                    self.pieces.append(([*points, (x, y + _STUB)], False))
                    self.marks.append((x, y + _STUB, number))
                    x, y = moved(b, after)
                    points = [(x, y - _STUB)]
                    self.marks.append((x, y - _STUB, number))
                points.append(moved(b, after))
            self.pieces.append((points, True))

    def _sides(self, vertices: list[int]) -> tuple[float, float]:
        """Return the left and the right end of a column of these vertices, with their labels."""
        own = set(vertices)
        ends = [(self.x[v] - self.widths[v] / 2, self._right(v)) for v in vertices]
        ends += [
            (x - width / 2, x + width / 2)
            for (x, _, width), span, chain in zip(
                self.labels, self._label_spans, self.chains, strict=True
            )
            if chain[span] in own
        ]
        return min(left for left, _ in ends) - _MARGIN, max(right for _, right in ends) + _MARGIN

    def _high(self, group: list[list[int]]) -> float:
        """Return the height of a column of these layers, with the ends of cut lines."""
        return self.y[group[-1][0]] - self.y[group[0][0]] + _HEIGHT + 2 * _STUB

    def _right(self, v: int) -> float:
        return self.x[v] + self.widths[v] / 2

    def ports(self, line: int) -> tuple[float, float]:
        """Return the x at which a line leaves its first box, and the x at which it enters its last.

        The lines of a box stand side by side, in the order of their other ends.
        """
        chain = self.chains[line]
        return self._port(line, chain[0], 1, 0), self._port(line, chain[-1], -2, -1)

    def _port(self, line: int, box: int, beside: int, end: int) -> float:
        lines = [i for i, chain in enumerate(self.chains) if chain[end] == box]
        lines.sort(key=lambda i: self.x[self.chains[i][beside]])
        share = (lines.index(line) + 1) / (len(lines) + 1) - 0.5
        return self.x[box] + share * self.widths[box] * 0.8


def _width(text: str, size: float) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    return text_to_path.get_text_width_height_descent(text, FontProperties(size=size), False)[0]


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # "$" would begin a formula


def _draw_boxes(axes: Any, layout: _Layout) -> None:
    from matplotlib.patches import FancyBboxPatch

    for v, box in enumerate(layout.boxes):
        fill, edge = _COLOURS[box.kind]
        x, y, width = layout.x[v], layout.y[v], layout.widths[v]
        corner = (x - width / 2, y - _HEIGHT / 2)
        style = f"round,pad=0,rounding_size={6 if box.kind == 'operator' else 14}"
        axes.add_patch(
            FancyBboxPatch(
                corner, width, _HEIGHT, boxstyle=style, facecolor=fill, edgecolor=edge, zorder=3
            )
        )
        for text, size, colour, place in (
            (box.title, _FONT, "#1c2733", y - 6),
            (box.detail, _SMALL, "#52606d", y + 8),
        ):
            axes.text(
                x, place, _plain(text), size=size, color=colour, ha="center", va="center", zorder=4
            )


def _draw_lines(axes: Any, layout: _Layout) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    for points, is_end in layout.pieces:
        vertices, codes = [points[0]], [Curve.MOVETO]
        for (x0, y0), (x1, y1) in itertools.pairwise(points):
            middle = (y0 + y1) / 2
            vertices += [(x0, middle), (x1, middle), (x1, y1)]
            codes += [Curve.CURVE4] * 3
        style = "-|>,head_length=5,head_width=2.5" if is_end else "-"
        axes.add_patch(
            FancyArrowPatch(
                path=Curve(vertices, codes), arrowstyle=style, color="#8795a1", lw=1, zorder=1
            )
        )
    for (x, y, _), (_, _, text) in zip(layout.labels, layout.lines, strict=True):
        axes.text(
            x,
            y,
            _plain(text),
            size=_SMALL,
            color="#3e4c59",
            ha="center",
            va="center",
            zorder=2,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1},
        )
    for x, y, number in layout.marks:
        axes.text(
            x,
            y,
            str(number),
            size=_SMALL,
            color="#1c2733",
            ha="center",
            va="center",
            zorder=5,
            bbox={"facecolor": "#fdf3d3", "edgecolor": "#8795a1", "boxstyle": "circle,pad=0.2"},
        )


_ALONG = [0.5 + side * step / 40 for step in range(13) for side in (1, -1)]
"""The places along a line that a label may have, from its middle on."""


def _between(a: Point, b: Point, t: float) -> Point:
    """Return the point at `t` in [0, 1] of a curve that leaves `a` and enters `b` vertically."""
    (x0, y0), (x1, y1) = a, b
    middle = 3 * t * (1 - t) * (y0 + y1) / 2
    return x0 + (x1 - x0) * (3 * t**2 - 2 * t**3), (1 - t) ** 3 * y0 + middle + t**3 * y1


def _hides(place: Point, width: float, other: tuple[float, float, float]) -> bool:
    """Return whether a label of this width at `place` overlaps another label."""
    x, y, beside = other
    return abs(place[0] - x) < (width + beside) / 2 and abs(place[1] - y) < _LINE
