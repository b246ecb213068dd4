"""The roofline: the limits that memory and arithmetic set, and each cell below them."""

import math
from collections.abc import Sequence
from pathlib import Path

from dml_jax.bench.cells import REPRESENTATIVES
from dml_jax.bench.measure import Measured
from dml_jax.bench.report import COLOURS, copies, shown
from dml_jax.show.figures import check_picture, save_picture

OPERATORS = ("GEMM", "CONVOLUTION", "MEAN_VARIANCE_NORMALIZATION1", "LSTM", *REPRESENTATIVES)
TYPES, MEBIBYTES = ("FLOAT32", "FLOAT16"), (8.0,)

LEGEND = """\
FLOP/B: floating-point operations for each byte that must move. Of roof: the time that memory (at a
copy's GB/s) or arithmetic (at a product's GFLOP/s) needs at least, divided by Time."""


def peaks(measured: Sequence[Measured]) -> dict[str, float]:
    """Return the GFLOP/s of a product of each type that has one."""
    return {m.cell.tensor.data_type.name: round(m.peak / 1e9, 2) for m in measured if m.peak}


def ridges(measured: Sequence[Measured]) -> str:
    """Return a line that says where each type has its ridge."""
    rates = copies(measured)
    found = (f"{shown(peak / rates[name])} ({name})" for name, peak in peaks(measured).items())
    return f"The ridge, where both limits meet, in FLOP/B: {', '.join(found) or 'none'}"


def draw(title: str, measured: Sequence[Measured], target: Path) -> None:
    """Write the roofline as a .svg or .png file. Raises `DmlError` where it cannot.

    Each cell is a dot with a number, at its operations a byte and its operations a second. The roof
    of a type rises with the bandwidth of a copy up to the ridge, and is flat at the peak of a
    product from there on; types of integers have no peak. Cells without arithmetic are not drawn.
    """
    check_picture(target)
    from matplotlib.figure import Figure

    drawn = [m for m in measured if m.operations]
    labels = list(dict.fromkeys(m.cell.label for m in drawn))
    figure = Figure(figsize=(10, 5.5 + 0.13 * len(labels)), layout="constrained")
    axes = figure.subplots()
    top, rates = peaks(measured), copies(measured)
    ends = [m.intensity for m in drawn] + [top[name] / rates[name] for name in top]
    low, high = min(ends, default=1) / 3, max(ends, default=1) * 3
    for name, rate in rates.items():
        words, points = f"{name}: {shown(rate)} GB/s", [low, high]
        if name in top:
            ridge = top[name] / rate
            words += f", {shown(top[name], 4)} GFLOP/s, ridge {shown(ridge)} FLOP/B"
            points = [low, ridge, high]
            axes.plot([ridge], [top[name]], "D", ms=5, color=COLOURS[name])
        roof = [min(x * rate, top.get(name, math.inf)) for x in points]
        axes.plot(points, roof, color=COLOURS[name], label=words)
    for m in drawn:
        name, number = m.cell.tensor.data_type.name, labels.index(m.cell.label) + 1
        roof = min(m.intensity * rates[name], top.get(name, math.inf))
        place = m.intensity, m.of_roof() * roof  # the copy beside it may have had another speed
        axes.scatter(*place, s=22, color=COLOURS[name], alpha=0.8, zorder=3)
        axes.annotate(str(number), place, (4, -3), textcoords="offset points", fontsize=7)
    for number, label in enumerate(labels, 1):
        axes.plot([], [], " ", label=f"{number}  {label}".replace("$", r"\$"))
    axes.set(title=title, xscale="log", yscale="log", xlim=(low, high))
    axes.set(xlabel="floating-point operations for each byte that must move", ylabel="GFLOP/s")
    axes.grid(which="major", lw=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=7)
    save_picture(figure, target)
