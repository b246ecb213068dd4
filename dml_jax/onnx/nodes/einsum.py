"""Labels of the dimensions that ONNX's Einsum names."""

from collections.abc import Sequence


def labels_of(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the labels of operands of these ranks and of the output, letters for an ellipsis."""
    equation = equation.replace(" ", "")
    text, arrow, out = equation.partition("->")
    terms = text.split(",")
    spare = [c for c in map(chr, range(0x3B1, 0x3D1)) if c not in equation]
    missing = [n - len(t.replace("...", "")) for n, t in zip(ranks, terms, strict=True)]
    most = max((m for m, t in zip(missing, terms, strict=True) if "..." in t), default=0)
    dots = "".join(spare[:most])
    terms = [t.replace("...", dots[len(dots) - m :]) for t, m in zip(terms, missing, strict=True)]
    if not arrow:
        once = sorted(c for c in set("".join(terms)) - set(dots) if "".join(terms).count(c) == 1)
        return terms, dots + "".join(once)
    return terms, out.replace("...", dots)


def broadcast_shapes(equation: str, shapes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the shapes of operands, with the size of each label where an operand has size 1."""
    terms, _ = labels_of(equation, [len(shape) for shape in shapes])
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        sizes |= {c: n for c, n in zip(term, shape, strict=False) if n != 1}
    return [
        tuple(sizes.get(c, 1) if n == 1 else n for c, n in zip(term, shape, strict=True))
        for term, shape in zip(terms, shapes, strict=True)
    ]
