"""Diagrams of graphs and models: boxes in layers, joined by what flows between them."""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dml_jax.bindable import Bindable
from dml_jax.dispatch.model import Dispatch, Model, Print
from dml_jax.errors import NOTHING, DmlError, Fault, Unquoted, abbreviate
from dml_jax.graph import ConstantNode, Graph, Source
from dml_jax.operator import Operator
from dml_jax.pictures import check_picture, save_picture
from dml_jax.tensor import TensorDesc

_COLOURS = {  # of a box, inside and around
    "input": ("#e3f4e1", "#5a9e57"),
    "constant": ("#fdf3d3", "#c9a227"),
    "operator": ("#e4edf9", "#4a78b5"),
    "output": ("#f9e3e6", "#bd5b6a"),
}
_FONT, _SMALL = 10, 7.5  # points, as all lengths here
_HEIGHT, _GAP, _BETWEEN, _BEND, _MARGIN = 36.0, 44.0, 26.0, 12.0, 18.0
_MOST_PIXELS = 30_000  # along a side; the renderer takes 2^16

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    kind: str
    title: str
    detail: str


@dataclass
class Picture:
    """What is drawn: boxes, and lines (from box, to box, words) between them, without cycles."""

    boxes: list[Box] = field(default_factory=list)
    lines: list[tuple[int, int, str]] = field(default_factory=list)

    def add(self, kind: str, title: str, detail: str) -> int:
        shown = (abbreviate(Unquoted(text), 40) for text in (title, detail))
        self.boxes.append(Box(kind, *shown))
        return len(self.boxes) - 1


def kind_of(operator: Bindable) -> str:
    """`REDUCE`, or `graph of 3 nodes`."""
    if isinstance(operator, Graph):
        return f"graph of {len(operator.nodes)} nodes"
    assert isinstance(operator, Operator)
    return operator.short_name


def graph_picture(graph: Graph) -> Picture:
    """The inputs, nodes and outputs of a graph."""
    picture = Picture()
    points = list(graph.bind_points())
    boxes: dict[int, int] = {}
    inputs = [picture.add("input", p.name, "graph input") for p in points if not p.output]

    def join(source: Source, end: int, read: TensorDesc | None = None) -> None:
        node, index = source
        start = inputs[index] if node < 0 else boxes[node]
        tensors = graph.inputs if node < 0 else _outputs(graph.nodes[node])
        words = _words(tensors[index])
        if read is not None:
            words += f" as {read.shown()}"
        picture.lines.append((start, end, words))

    for index, node, sources in graph.plan:
        if isinstance(node, ConstantNode):
            boxes[index] = picture.add("constant", node.name or str(index), "constant")
            continue
        name = kind_of(node.operator)
        boxes[index] = picture.add(
            "operator", node.name or name, name if node.name else f"node {index}"
        )
        for place, source in enumerate(sources):
            _, read = graph.views.get((index, place), (None, None))
            join(source, boxes[index], read)
    outputs = [point for point in points if point.output]
    for point, source in zip(outputs, graph.results, strict=True):
        join(source, picture.add("output", point.name, "graph output"))
    return picture


def _outputs(node: Any) -> Sequence[TensorDesc]:
    return (node.tensor,) if isinstance(node, ConstantNode) else node.operator.outputs


def model_picture(model: Model) -> Picture:
    """The commands of a model, in their order, and what of its resources flows between them."""
    picture = Picture()
    # For each resource, who wrote which of its bytes last; None are its initial values.
    written: dict[str, list[tuple[int, int, int | None]]] = {
        name: [(0, resource.size_in_bytes, None)] for name, resource in model.resources.items()
    }
    initial: dict[str, int] = {}

    def join(name: str, source: int | None, end: int, words: str) -> None:
        if source is None and name not in initial:
            size = f"{model.resources[name].size_in_bytes} bytes"
            initial[name] = picture.add("input", name, size)
        named = words if source is None else f"{name} {words}".strip()
        picture.lines.append((initial[name] if source is None else source, end, named))

    for command in model.commands:
        if not isinstance(command, Dispatch):
            name = command.resource
            shown = ("print", name) if isinstance(command, Print) else (command.target_path, "file")
            box = picture.add("output", *shown)
            for source in dict.fromkeys(source for *_, source in written[name]):
                join(name, source, box, "")
            continue
        operator = command.dispatchable.operator
        box = picture.add("operator", command.dispatchable.name, kind_of(operator))
        for bound in command.bound:
            for start, end, source in () if bound.output else written[bound.memory]:
                if start < bound.end and bound.offset < end:
                    join(bound.memory, source, box, _words(bound.tensor))
        for bound in command.bound:
            if bound.output:
                kept = [
                    part
                    for part in written[bound.memory]
                    if part[0] < bound.offset or bound.end < part[1]
                ]
                written[bound.memory] = [*kept, (bound.offset, bound.end, box)]
    return picture


def _words(tensor: TensorDesc) -> str:
    return TensorDesc(tensor.data_type, tensor.sizes).shown()


def check_diagram(target: Path) -> None:
    """Raises what `draw` would, before there is anything to draw."""
    check_picture(target, "networkx")


def draw(picture: Picture, target: Path) -> None:
    """Writes a .svg or .png file. Raises `DmlError` where it cannot, or a package is missing."""
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
    """Where everything lies, from the top down.

    A box lies in the layer below the last of those that lead to it. A line across layers bends at
    a vertex of its own in each of them, so that it passes between the boxes.

    Attributes:
        boxes, widths: as the picture has them; the first vertices, of those in `x` and `y`.
        chains: for each line, its vertices.
        words: for each line, how wide its words are.
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
        # Words stand at the middle of a line, and may be wider than the boxes at its ends.
        self.words = [_width(words, _SMALL) + 8 for *_, words in self.lines]
        self._margin = max(_MARGIN, (max(self.words, default=0) - min(self.widths)) / 2 + 4)
        self.x = self._across(rows)
        self.y = self._down(rows)
        self.width = max(map(self._right, range(len(self.widths)))) + self._margin
        self.height = max(self.y) + _HEIGHT / 2 + _MARGIN

    def _layers(self) -> list[int]:
        import networkx

        graph = networkx.DiGraph([(start, end) for start, end, _ in self.lines])
        graph.add_nodes_from(range(len(self.boxes)))
        layers = [0] * len(self.boxes)
        for layer, generation in enumerate(networkx.topological_generations(graph)):
            for box in generation:
                layers[box] = layer
        for box, layer in enumerate(layers):  # what begins lies next to what it leads to
            if layer == 0 and graph.out_degree(box):
                layers[box] = min(layers[reader] for reader in graph.successors(box)) - 1
        return layers

    def _sort(self, rows: list[list[int]]) -> None:
        """Orders each row by the mean place of its neighbours, to and fro, against crossings."""
        for turn in range(16):
            down = turn % 2 == 0
            beside = self._above if down else self._below
            place = {v: i / max(1, len(row) - 1) for row in rows for i, v in enumerate(row)}
            for row in rows if down else reversed(rows):
                wanted = {
                    v: statistics.fmean(place[n] for n in beside[v]) if beside[v] else place[v]
                    for v in row
                }
                row.sort(key=wanted.__getitem__)
                place |= {v: i / max(1, len(row) - 1) for i, v in enumerate(row)}

    def _across(self, rows: list[list[int]]) -> list[float]:
        """Each vertex as near to the mean of its neighbours as its row lets it be."""
        x = [0.0] * len(self.widths)
        for turn in range(24):
            for row in rows if turn % 2 else reversed(rows):
                wanted = []
                for v in row:
                    beside = self._above[v] + self._below[v]
                    wanted.append(statistics.fmean(x[n] for n in beside) if beside else x[v])
                for v, place in zip(row, self._apart(row, wanted), strict=True):
                    x[v] = place
        left = min(x[v] - self.widths[v] / 2 for v in range(len(x)))
        return [place - left + self._margin for place in x]

    def _apart(self, row: list[int], wanted: list[float]) -> list[float]:
        """The places nearest to those wanted (least squares) at which no two in a row overlap.

        Without the room that those before it need, each may not lie before the last: what does is
        pooled with it at their mean. Bends weigh more, so that long lines are straight.
        """
        room, offsets = 0.0, []
        for i, v in enumerate(row):
            room += (self.widths[row[i - 1]] + self.widths[v]) / 2 + _BETWEEN if i else 0.0
            offsets.append(room)
        pools: list[tuple[float, float, int]] = []  # weighted sum, weight, members
        for v, place, offset in zip(row, wanted, offsets, strict=True):
            weight = 1.0 if v < len(self.boxes) else 4.0
            pool = (weight * (place - offset), weight, 1)
            while pools and pools[-1][0] / pools[-1][1] > pool[0] / pool[1]:
                total, heavy, members = pools.pop()
                pool = (total + pool[0], heavy + pool[1], members + pool[2])
            pools.append(pool)
        means = [total / weight for total, weight, members in pools for _ in range(members)]
        return [mean + offset for mean, offset in zip(means, offsets, strict=True)]

    def _down(self, rows: list[list[int]]) -> list[float]:
        y, top = [0.0] * len(self.widths), _MARGIN + _HEIGHT / 2
        for row in rows:
            for v in row:
                y[v] = top
            # The more lines there are, the more room their words need.
            top += _HEIGHT + _GAP + 4 * min(12, sum(len(self._below[v]) for v in row))
        return y

    def _right(self, v: int) -> float:
        return self.x[v] + self.widths[v] / 2

    def ports(self, line: int) -> tuple[float, float]:
        """Where a line leaves its first box, and enters its last.

        The lines of a box stand side by side, in the order of where they go to or come from.
        """
        chain = self.chains[line]
        return self._port(line, chain[0], 1, 0), self._port(line, chain[-1], -2, -1)

    def _port(self, line: int, box: int, beside: int, end: int) -> float:
        lines = [i for i, chain in enumerate(self.chains) if chain[end] == box]
        lines.sort(key=lambda i: self.x[self.chains[i][beside]])
        share = (lines.index(line) + 1) / (len(lines) + 1) - 0.5
        return self.x[box] + share * self.widths[box] * 0.8


def _width(text: str, size: float) -> float:
    from matplotlib.textpath import TextPath

    return TextPath((0, 0), _plain(text), size=size).get_extents().width if text.strip() else 0.0


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # which would begin a formula


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

    taken: list[tuple[float, float, float, float]] = []
    for line, (chain, (_, _, words)) in enumerate(zip(layout.chains, layout.lines, strict=True)):
        begin, end = layout.ports(line)
        points = [(begin, layout.y[chain[0]] + _HEIGHT / 2)]
        for v in chain[1:-1]:
            points += [(layout.x[v], layout.y[v] + side * _HEIGHT / 2) for side in (-1, 1)]
        points.append((end, layout.y[chain[-1]] - _HEIGHT / 2))
        vertices, codes = [points[0]], [Curve.MOVETO]
        for (x0, y0), (x1, y1) in itertools.pairwise(points):
            middle = (y0 + y1) / 2
            vertices += [(x0, middle), (x1, middle), (x1, y1)]
            codes += [Curve.CURVE4] * 3
        style = "-|>,head_length=5,head_width=2.5"
        axes.add_patch(
            FancyArrowPatch(
                path=Curve(vertices, codes), arrowstyle=style, color="#8795a1", lw=1, zorder=1
            )
        )
        width = layout.words[line]
        places = [
            _between(a, b, t) for a, b in _gaps(points) for t in (0.5, 0.36, 0.64, 0.25, 0.75)
        ]
        x, y = min(places, key=lambda place: sum(_hidden(place, width, other) for other in taken))
        taken.append((x, y, width, _SMALL + 3))
        axes.text(
            x,
            y,
            _plain(words),
            size=_SMALL,
            color="#3e4c59",
            ha="center",
            va="center",
            zorder=2,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1},
        )


def _gaps(points: list[Point]) -> Iterator[tuple[Point, Point]]:
    """The parts of a line that run between layers."""
    return zip(points[::2], points[1::2], strict=True)


def _between(a: Point, b: Point, t: float) -> Point:
    """The point of a curve that leaves `a` and enters `b` vertically."""
    (x0, y0), (x1, y1) = a, b
    middle = 3 * t * (1 - t) * (y0 + y1) / 2
    return x0 + (x1 - x0) * (3 * t**2 - 2 * t**3), (1 - t) ** 3 * y0 + middle + t**3 * y1


def _hidden(place: Point, width: float, other: tuple[float, float, float, float]) -> float:
    """How much of some words at a place others would hide."""
    across = (width + other[2]) / 2 - abs(place[0] - other[0])
    down = other[3] - abs(place[1] - other[1])
    return max(across, 0.0) * max(down, 0.0)
