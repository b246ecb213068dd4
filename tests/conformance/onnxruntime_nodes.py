"""Random ONNX nodes, by ONNX Runtime's CPU provider and through `load_onnx`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import build
import numpy as np
import onnx
import onnxruntime
from conformance.cases import Case, compare
from conformance.onnx_nodes import computed, network_of

OPSET = 20
SAMPLES = 3  # of each operator and type

# The types that both have.
MOVED = "float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8"
TYPES = {
    "ArgMax": "float32 float16 int64 int32 int8 uint8",
    "ArgMin": "float32 float16 int64 int32 int8 uint8",
    "Clip": "float32 float16 int64 int32 int8 uint64 uint32 uint8",
    "Concat": f"float64 {MOVED}",
    "DepthToSpace": "float64 float32 float16 int8 uint8",
    "SpaceToDepth": "float64 float32 float16 int8 uint8",
    "Split": f"float64 {MOVED}",
    "Tile": MOVED,
    "ReduceL1": "float32 float16 int64 int32",
    "ReduceL2": "float32 float16",
    "ReduceLogSum": "float32 float16",
    "ReduceLogSumExp": "float32 float16",
    "ReduceMax": "float32 float16 int64 int32 int8 uint8",
    "ReduceMean": "float32 float16",
    "ReduceMin": "float32 float16 int64 int32 int8 uint8",
    "ReduceProd": "float32 float16 int64 int32",
    "ReduceSum": "float32 float16 int64 int32",
    "ReduceSumSquare": "float32 float16 int64 int32",
}
EXACT = {op for op in TYPES if not op.startswith("Reduce")} | {"ReduceMax", "ReduceMin"}

Random = np.random.RandomState  # whose numbers stay the same from version to version


@dataclass(frozen=True)
class Node:
    """An ONNX node with its arrays: the inputs that are left out are Nnode."""

    op_type: str
    attributes: dict[str, Any]
    inputs: Sequence[np.ndarray | None]
    output_count: int

    @property
    def x(self) -> np.ndarray:
        first = self.inputs[0]
        assert first is not None
        return first

    @property
    def given(self) -> dict[str, np.ndarray]:
        return {f"x{k}": x for k, x in enumerate(self.inputs) if x is not None}


def elements(random: Random, shape: Any, dtype: str, low: int = -4, high: int = 4) -> np.ndarray:
    """Random elements: floats in [low, high) with 20 random bits, integers of the same range."""
    if np.dtype(dtype).kind == "f":
        return (random.randint(low << 18, high << 18, shape) / 2**18).astype(dtype)
    return random.randint(max(low, 0) if dtype[0] == "u" else low, high, shape).astype(dtype)


def node_of(random: Random, op_type: str, dtype: str) -> Node:
    """A random node: rank, sizes, axes and attributes, axes from the end as well."""
    rank = random.randint(1, 6)
    shape = random.randint(1, 6, rank).tolist()
    axis = random.randint(-rank, rank)
    attributes: dict[str, Any] = {}
    inputs: list[np.ndarray | None] = []
    outputs = 1
    if op_type == "Concat":
        attributes["axis"] = axis
        for _ in range(random.randint(1, 5)):
            shape[axis] = random.randint(1, 6)
            inputs.append(elements(random, shape, dtype))
    elif op_type == "Split":
        pieces = random.randint(1, 4, random.randint(1, 5))
        attributes["axis"] = axis
        shape[axis] = pieces.sum()
        outputs = len(pieces)
        inputs = [elements(random, shape, dtype), pieces.astype(np.int64)]
    elif op_type == "Tile":
        inputs = [elements(random, shape, dtype), random.randint(1, 4, rank).astype(np.int64)]
    elif op_type in ("DepthToSpace", "SpaceToDepth"):
        n, c, h, w, block = random.randint(1, 5, 5).tolist()
        attributes["blocksize"] = block
        if op_type == "DepthToSpace":
            attributes["mode"] = random.choice(["DCR", "CRD"]).encode()
            shape = [n, c * block**2, h, w]
        else:
            shape = [n, c, h * block, w * block]
        inputs = [elements(random, shape, dtype)]
    elif op_type == "Clip":
        ends = np.sort(elements(random, 2, dtype))
        inputs = [elements(random, shape, dtype, -6, 6)]
        inputs += [None if random.randint(4) == 0 else np.asarray(end) for end in ends]
    elif op_type in ("ArgMax", "ArgMin"):
        attributes |= {"axis": axis, "keepdims": random.randint(2)}
        attributes["select_last_index"] = random.randint(2)
        inputs = [np.round(elements(random, shape, dtype))]  # so that there are ties
    else:
        axes = random.permutation(rank)[: random.randint(1, rank + 1)]
        axes = np.where(random.randint(2, size=len(axes)), axes, axes - rank)
        attributes["keepdims"] = random.randint(2)
        # Positive for the logarithm of the sum; small, so that no product overflows.
        low, high = {"ReduceLogSum": (1, 4), "ReduceProd": (-1, 2)}.get(op_type, (-4, 4))
        inputs = [elements(random, shape, dtype, low, high)]
        inputs.append(None if random.randint(4) == 0 else axes.astype(np.int64))
    return Node(op_type, attributes, inputs, outputs)


def model_of(node: Node) -> onnx.ModelProto:
    """Return a model of nothing but the node."""
    names = " ".join("-" if x is None else f"x{k}" for k, x in enumerate(node.inputs))
    outputs = [f"y{k}" for k in range(node.output_count)]
    made = build.node(node.op_type, names, " ".join(outputs), **node.attributes)
    inputs = {name: (x.dtype, x.shape) for name, x in node.given.items()}
    return build.model_of([made], inputs, outputs, opset=OPSET)


def check(nodes: Sequence[Node]) -> None:
    """Raise `AssertionError` where a node's answers are not ONNX Runtime's."""
    networks = [network_of(model_of(node), node.given) for node in nodes]
    inputs = [
        {name: node.given[name] for name in network.inputs}
        for node, network in zip(nodes, networks, strict=True)
    ]
    for node, results in zip(nodes, computed(networks, inputs), strict=True):
        tolerance: dict[str, float] = {}
        if node.op_type not in EXACT and node.x.dtype.kind == "f":
            step = float(np.finfo(node.x.dtype).eps)
            # Sums of numbers of both signs are as exact as the largest of them.
            tolerance = {"rtol": 8 * step, "atol": 64 * step}
        answers = build.runtime(model_of(node), node.given)
        compare([*results.values()], list(map(np.asarray, answers)), **tolerance)


def cases() -> list[Case]:
    """Return a case for each op type and type, of several random nodes."""
    found = []
    for op_type, types in TYPES.items():
        for dtype in types.split():
            random = Random(sum(map(ord, op_type + dtype)))
            nodes = [node_of(random, op_type, dtype) for _ in range(SAMPLES)]
            found.append(Case(op_type, f"{op_type}-{dtype}", partial(check, nodes)))
    return found


def version() -> str:
    return onnxruntime.__version__
