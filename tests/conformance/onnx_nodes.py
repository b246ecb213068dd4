"""ONNX nodes as DirectML's operators, and ONNX's own backend tests of them.

The mapping is that of ONNX Runtime's DirectML provider (DmlExecutionProvider/src/Operators):
`keepdims` is a matter of shapes alone, `select_last_index` is the axis direction, Clip without a
bound has the type's own end, Concat drops tensors without elements, booleans are UINT8, scalars
have one dimension.
"""

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
from conformance.cases import Case, compare
from onnx import helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

from dml_jax import (
    Argmax,
    Argmin,
    DepthToSpace1,
    DmlError,
    ElementWiseClip,
    ElementWiseClip1,
    Join,
    Operator,
    Reduce,
    SpaceToDepth1,
    Split,
    TensorDesc,
    Tile,
)

Arrays = list[np.ndarray]
Inputs = Sequence[np.ndarray | None]

FUNCTIONS = {
    "ReduceL1": "L1",
    "ReduceL2": "L2",
    "ReduceLogSum": "LOG_SUM",
    "ReduceLogSumExp": "LOG_SUM_EXP",
    "ReduceMax": "MAX",
    "ReduceMean": "AVERAGE",
    "ReduceMin": "MIN",
    "ReduceProd": "MULTIPLY",
    "ReduceSum": "SUM",
    "ReduceSumSquare": "SUM_SQUARE",
}
ORDERS = {"DCR": "DEPTH_COLUMN_ROW", "CRD": "COLUMN_ROW_DEPTH"}


@dataclass(frozen=True)
class Node:
    """An ONNX node with its arrays: the inputs that are not given are None."""

    op_type: str
    attributes: dict[str, Any]
    inputs: Inputs
    output_count: int
    opset: int

    def input(self, index: int) -> np.ndarray | None:
        return self.inputs[index] if index < len(self.inputs) else None

    @property
    def x(self) -> np.ndarray:
        first = self.inputs[0]
        assert first is not None
        return first


@dataclass(frozen=True)
class Call:
    """A node in DirectML: an operator, what it is called with, and the results as ONNX has them."""

    operator: Operator
    arrays: Arrays
    shapes: list[tuple[int, ...]]
    dtype: np.dtype

    def __call__(self) -> Arrays:
        results = self.operator(*self.arrays)
        results = results if isinstance(results, tuple) else (results,)
        arrays = [np.asarray(r).reshape(s) for r, s in zip(results, self.shapes, strict=True)]
        return [a.view(bool) if self.dtype == bool else a for a in arrays]


def direct(array: np.ndarray) -> np.ndarray:
    """The array as DirectML takes it: at least one dimension, booleans as UINT8."""
    return np.atleast_1d(array.view(np.uint8) if array.dtype == bool else array)


def call(op: Operator, *arrays: np.ndarray, shapes: Any = None) -> Call:
    """A call whose results keep the operator's own shapes, where no others are given."""
    sizes = [tensor.sizes for tensor in op.outputs]
    return Call(op, [direct(a) for a in arrays], shapes or sizes, arrays[0].dtype)


def described(array: np.ndarray) -> TensorDesc:
    return TensorDesc.of(direct(array))


def axis_of(node: Node, rank: int, default: int = 0) -> int:
    axis = node.attributes.get("axis", default)
    return axis + rank if axis < 0 else axis


def clip(node: Node) -> Call:
    x, tensor = node.x, described(node.x)
    if node.opset < 11:  # bounds are attributes
        limits = np.finfo(np.float32)
        bounds = {
            "min": node.attributes.get("min", float(limits.min)),
            "max": node.attributes.get("max", float(limits.max)),
        }
        op = ElementWiseClip.infer(input_tensor=tensor, **bounds)
    else:
        integer = np.issubdtype(x.dtype, np.integer)
        limits = np.iinfo(x.dtype) if integer else np.finfo(x.dtype)
        ends = (np.array(limits.min), np.array(limits.max))
        low, high = (
            (end if (given := node.input(k)) is None else given).item()
            for k, end in enumerate(ends, 1)
        )
        op = ElementWiseClip1.infer(
            input_tensor=tensor, min_max_data_type=tensor.data_type, min=low, max=high
        )
    return call(op, x, shapes=[x.shape])


def split(node: Node) -> Call:
    x, axis = node.x, axis_of(node, node.x.ndim)
    given = node.input(1)
    pieces = node.attributes.get("split") if given is None else given.tolist()
    if pieces is None:  # equal ones, the last one smaller
        count, whole = node.output_count, x.shape[axis]
        piece = -(-whole // count)
        pieces = [piece] * (count - 1) + [whole - piece * (count - 1)]
    tensor = described(x)
    sizes = [(*x.shape[:axis], piece, *x.shape[axis + 1 :]) for piece in pieces]
    outputs = [TensorDesc(tensor.data_type, s) for s in sizes]
    return call(Split(input_tensor=tensor, output_tensors=outputs, axis=axis), x)


def concat(node: Node) -> Call:
    arrays = [x for x in node.inputs if x is not None and x.size]
    axis = axis_of(node, arrays[0].ndim)
    return call(Join.infer(input_tensors=list(map(described, arrays)), axis=axis), *arrays)


def tile(node: Node) -> Call:
    repeats = node.input(1)
    assert repeats is not None
    return call(Tile.infer(input_tensor=described(node.x), repeats=repeats.tolist()), node.x)


def blocks(operator: Any, node: Node) -> Call:
    order = ORDERS[node.attributes.get("mode", b"DCR").decode()]
    fields = {"block_size": node.attributes["blocksize"], "order": order}
    return call(operator.infer(input_tensor=described(node.x), **fields), node.x)


def reduced_shape(node: Node, axes: Sequence[int]) -> tuple[int, ...]:
    """What ONNX says of the result; DirectML always keeps the dimensions."""
    keep = node.attributes.get("keepdims", 1)
    sizes = [1 if d in axes else size for d, size in enumerate(node.x.shape)]
    return tuple(size for d, size in enumerate(sizes) if keep or d not in axes)


def reduce(function: str, node: Node) -> Call:
    x, rank = node.x, node.x.ndim
    given = node.input(1)
    axes = node.attributes.get("axes", []) if given is None else given.tolist()
    axes = [axis + rank if axis < 0 else axis for axis in axes]
    if not axes and not node.attributes.get("noop_with_empty_axes", 0):
        axes = list(range(rank))
    op = Reduce.infer(function=function, input_tensor=described(x), axes=axes or [0] * (rank == 0))
    return call(op, x, shapes=[reduced_shape(node, axes)])


def arg(operator: Any, node: Node) -> Call:
    axis = axis_of(node, node.x.ndim)
    last = node.attributes.get("select_last_index", 0)
    op = operator.infer(
        output_data_type="INT64",
        input_tensor=described(node.x),
        axes=[axis],
        axis_direction="DECREASING" if last else "INCREASING",
    )
    return call(op, node.x, shapes=[reduced_shape(node, [axis])])


TRANSLATIONS: dict[str, Callable[[Node], Call]] = {
    "ArgMax": partial(arg, Argmax),
    "ArgMin": partial(arg, Argmin),
    "Clip": clip,
    "Concat": concat,
    "DepthToSpace": partial(blocks, DepthToSpace1),
    "SpaceToDepth": partial(blocks, SpaceToDepth1),
    "Split": split,
    "Tile": tile,
    **{op_type: partial(reduce, function) for op_type, function in FUNCTIONS.items()},
}
PLUMBING = {"Constant", "Reshape"}  # what exported models put around a node


def translate(node: Node) -> Call:
    """The node in DirectML. Raises `DmlError` where its operator does not take it."""
    return TRANSLATIONS[node.op_type](node)


def nodes_of(model: onnx.ModelProto) -> list[str]:
    """The operators of a model, without plumbing."""
    return [n.op_type for n in model.graph.node if n.op_type not in PLUMBING]


def run(model: onnx.ModelProto, inputs: Arrays) -> Arrays:
    """The model's outputs, each node by DirectML's operator."""
    graph, opset = model.graph, model.opset_import[0].version
    values: dict[str, Any] = {"": None}
    values |= {i.name: x for i, x in zip(graph.input, inputs, strict=True)}
    for proto in graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
        given = [values[name] for name in proto.input]
        if proto.op_type == "Constant":
            results = [numpy_helper.to_array(attributes["value"])]
        elif proto.op_type == "Reshape":
            results = [given[0].reshape(given[1])]
        else:
            node = Node(proto.op_type, attributes, given, len(proto.output), opset)
            results = translate(node)()
        values |= zip(proto.output, results, strict=True)
    return [values[output.name] for output in graph.output]


@dataclass(frozen=True)
class Test:
    """One of ONNX's tests: a model, and data sets of inputs and outputs."""

    name: str
    model: onnx.ModelProto
    data_sets: list[tuple[Arrays, Arrays]]
    rtol: float
    atol: float

    def check(self) -> None:
        """Raises `AssertionError` where an answer is not that of the test."""
        for inputs, outputs in self.data_sets:
            compare(run(self.model, inputs), outputs, rtol=self.rtol, atol=self.atol)

    def as_type(self, dtype: type) -> "Test":
        """The same with every float of another type."""

        def cast(arrays: Arrays) -> Arrays:
            return [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]

        return replace(self, data_sets=[(cast(i), cast(o)) for i, o in self.data_sets])


def refused(test: Test) -> DmlError:
    """The error that the test's node ends in."""
    try:
        for inputs, _ in test.data_sets:
            run(test.model, inputs)
    except DmlError as error:
        return error
    raise AssertionError(f"{test.name} is not refused any more")


def has_no_elements(test: Test) -> None:
    fault = refused(test).faults[0]
    assert fault.field.rpartition(".")[2].startswith("Sizes[")
    assert fault.value == 0


def has_no_axes(test: Test) -> None:
    assert [(f.field, f.value) for f in refused(test).faults] == [("AxisCount", 0)]


def is_float64(test: Test) -> None:
    faults = refused(test).faults
    assert {f.field.rpartition(".")[2] for f in faults} == {"DataType"}
    assert faults[0].value == "FLOAT64"
    test.as_type(np.float32).check()


def crosses_its_bounds(test: Test) -> None:
    for inputs, outputs in test.data_sets:
        x, low, high = inputs
        assert low > high
        compare(outputs, [np.full_like(x, high)])
        compare(run(test.model, inputs), [np.full_like(x, low)])


NO_ELEMENTS = "it has a tensor without elements: DirectML's sizes are at least 1", has_no_elements
NO_AXES = "it reduces no axes: REDUCE takes one or more", has_no_axes
CROSSED = "min > max: ONNX gives max, DirectML's formula min", crosses_its_bounds
WIDE = (
    "it is FLOAT64, which REDUCE does not take (narrowed to FLOAT32, the answer is right)",
    is_float64,
)

LEFT_OUT: dict[str, tuple[str, Callable[[Test], None]]] = {
    "test_clip_min_greater_than_max": CROSSED,
    "test_reduce_l1_empty_set": NO_ELEMENTS,
    "test_reduce_l2_empty_set": NO_ELEMENTS,
    "test_reduce_log_sum_empty_set": NO_ELEMENTS,
    "test_reduce_log_sum_exp_empty_set": NO_ELEMENTS,
    "test_reduce_log_sum_exp_default_axes_keepdims_example": WIDE,
    "test_reduce_log_sum_exp_default_axes_keepdims_random": WIDE,
    "test_reduce_log_sum_exp_do_not_keepdims_example": WIDE,
    "test_reduce_log_sum_exp_do_not_keepdims_random": WIDE,
    "test_reduce_log_sum_exp_keepdims_example": WIDE,
    "test_reduce_log_sum_exp_keepdims_random": WIDE,
    "test_reduce_log_sum_exp_negative_axes_keepdims_example": WIDE,
    "test_reduce_log_sum_exp_negative_axes_keepdims_random": WIDE,
    "test_reduce_max_empty_set": NO_ELEMENTS,
    "test_reduce_max_empty_set_bool": NO_ELEMENTS,
    "test_reduce_min_empty_set": NO_ELEMENTS,
    "test_reduce_prod_empty_set": NO_ELEMENTS,
    "test_reduce_sum_empty_axes_input_noop": NO_AXES,
    "test_reduce_sum_empty_axes_input_noop_example": NO_AXES,
    "test_reduce_sum_empty_set": NO_ELEMENTS,
    "test_reduce_sum_empty_set_non_reduced_axis_zero": NO_ELEMENTS,
    "test_reduce_sum_square_empty_set": NO_ELEMENTS,
    "test_split_zero_size_splits_opset13": NO_ELEMENTS,
    "test_split_zero_size_splits_opset18": NO_ELEMENTS,
}


def case_of(test: Test) -> Case:
    reason, check = LEFT_OUT.get(test.name, ("", Test.check))
    return Case(nodes_of(test.model)[0], test.name, partial(check, test), reason)


def node_tests(everything: bool = False) -> list[Case]:
    """ONNX's tests of single nodes of these operators.

    Only the modules that are named after them are loaded, which takes a second; `everything` loads
    all, for what may stand elsewhere.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's own arithmetic on the way
        if everything:
            load_model_tests(kind="node")
        wanted = {op_type.lower() for op_type in TRANSLATIONS}
        for module in pkgutil.iter_modules(node_cases.__path__, f"{node_cases.__name__}."):
            if module.name.rpartition(".")[2].replace("_", "") in wanted:
                importlib.import_module(module.name)
    found: list[Case] = []
    for test in node_cases._NodeTestCases:
        assert test.model is not None
        (*types,) = (node.op_type for node in test.model.graph.node)
        if len(types) == 1 and types[0] in TRANSLATIONS:
            assert test.data_sets is not None
            sets: Any = test.data_sets
            found.append(case_of(Test(test.name, test.model, sets, test.rtol, test.atol)))
    return sorted(found, key=lambda case: (case.group, case.name))


def exported_tests() -> list[Case]:
    """ONNX's tests of models that PyTorch exported, of nothing but these operators."""
    found: list[Case] = []
    for test in load_model_tests(kind="pytorch-operator"):
        folder = Path(str(test.model_dir))
        model = onnx.load(folder / "model.onnx")
        if set(nodes_of(model)) - set(TRANSLATIONS):
            continue
        sets = []
        for part in sorted(folder.glob("test_data_set_*")):
            arrays = [
                [
                    numpy_helper.to_array(onnx.load_tensor(part / f"{kind}_{k}.pb"))
                    for k in range(len(values))
                ]
                for kind, values in (("input", model.graph.input), ("output", model.graph.output))
            ]
            sets.append(tuple(arrays))
        found.append(case_of(Test(test.name, model, sets, test.rtol, test.atol)))
    return sorted(found, key=lambda case: (case.group, case.name))
