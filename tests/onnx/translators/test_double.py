"""DOUBLE in networks: the translator and the lowering of FLOAT, so its values and gradients."""

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from build import model_of, node, refusal, single
from conformance import onnx_nodes
from conformance.onnx_nodes import QUICK, NodeTest, array_of, inputs_of, network_of, wide
from nightly import NIGHTLY

from dml_jax import DmlError, load_onnx
from dml_jax.onnx import Network

FLOAT, DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
AT_ONCE = 24  # tests that one program computes
# ONNX says FLOAT of these outputs, whatever the input is.
KEPT = {"LayerNormalization": 1}
# Two of its corners are equal in FLOAT alone.
AT_A_TIE = {"test_roialign_mode_max"}
# JAX has no gradient of a scatter that multiplies.
NO_GRADIENT = {"test_scatter_elements_with_reduction_mul", "test_scatternd_multiply"}


def widened(test: NodeTest) -> onnx.ModelProto | None:
    """Return a test's model with DOUBLE for FLOAT, where its op type lists both; else None."""
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    (node,) = model.graph.node
    opsets = {o.domain: o.version for o in model.opset_import}
    formal = onnx.defs.get_schema(node.op_type, opsets[node.domain], node.domain).inputs
    kinds = [formal[min(k, len(formal) - 1)].types for k in range(len(node.input))]
    pairs = zip(node.input, kinds, strict=True)
    listed, changed = {name for name, types in pairs if "tensor(double)" in types}, False
    for value in model.graph.input:
        tensor = value.type.tensor_type
        if value.name in listed and tensor.elem_type == FLOAT:
            tensor.elem_type, changed = DOUBLE, True
    for attribute in node.attribute:
        if attribute.name in ("to", "dtype") and attribute.i == FLOAT:
            attribute.i = DOUBLE
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    return model if changed else None


def arrays_of(test: NodeTest, model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Return the inputs of a test, in the types of a model."""
    pairs = [*zip(inputs_of(model), test.data_sets[0][0], strict=False)]
    dtype_of = onnx.helper.tensor_dtype_to_np_dtype
    kinds = {v.name: dtype_of(v.type.tensor_type.elem_type) for v, _ in pairs}
    return {v.name: array_of(array).astype(kinds[v.name]) for v, array in pairs}


def double_tests() -> Iterator[NodeTest]:
    """Yield the tests of one node of an op type that has a translator: some of each op type."""
    turns = itertools.cycle([1, *[0] * 7])
    for op_type, every in onnx_nodes.load().items():
        single = [t for t in every if "_expanded" not in t.name and len(t.model.graph.node) == 1]
        known = [t for t in single if op_type in onnx_nodes.translated() and is_of_tensors(t)]
        known = [t for t in known if op_type != "BitCast" and t.name not in NO_GRADIENT]
        found = [t for t in known if widened(t) is not None]
        yield from found if NIGHTLY else onnx_nodes.sample(found, 1)[: next(turns)]


def is_of_tensors(test: NodeTest) -> bool:
    values = (*test.model.graph.input, *test.model.graph.output)
    return all(value.type.HasField("tensor_type") for value in values)


def values_and_gradients(networks: list[Network], inputs: list[dict[str, Any]]) -> Any:
    """Return the outputs of networks, and the gradients of their sum for all floating inputs."""

    def program(every: list[dict[str, Any]]) -> Any:
        found = []
        for network, own in zip(networks, every, strict=True):
            real = {n: x for n, x in own.items() if jnp.issubdtype(x.dtype, jnp.floating)}

            def total(real: Any, network: Network = network, own: Any = own) -> Any:
                results = network.apply(network.weights, {**own, **real})
                sums = [r.sum() for r in results.values() if jnp.issubdtype(r.dtype, jnp.floating)]
                return sum((s.astype(np.float64) for s in sums), jnp.zeros(())), results

            found.append(jax.grad(total, has_aux=True)(real))
        return found

    return jax.jit(program).lower(inputs).compile(QUICK)(inputs)


def test_double_has_the_values_and_gradients_of_float():
    """Compare each op type that lists both; where FLOAT is refused, so is DOUBLE."""
    with jax.enable_x64(True):
        every = list(double_tests())
        assert len({test.op_type for test in every}) > (110 if NIGHTLY else 12)
        for k in range(0, len(every), AT_ONCE):
            compare(every[k : k + AT_ONCE])


X = np.array([[-3, -1, -0.5, -0.0], [0, 0.5, 1, 3], [0, 0, 1, 1], [0, 0, 0, 0]])
IMAGE = X[None, None]
BOUNDS = {"lo": np.array(-0.5), "hi": np.array(1.0)}
AT_TIES: dict[str, tuple[str, dict[str, np.ndarray], dict[str, Any]]] = {
    op_type: (op_type, {"x": X}, {})
    for op_type in (
        *("Abs", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Round", "Selu"),
        *("Sign", "Softplus", "Softsign", "ThresholdedRelu", "Mish", "Gelu", "Sinh", "Atan"),
        *("ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceProd", "ReduceLogSumExp"),
        *("ReduceSumSquare", "Softmax", "LogSoftmax", "Hardmax", "LpNormalization"),
    )
} | {
    "Shrink": ("Shrink", {"x": X}, {"lambd": 0.5, "bias": 0.25}),
    "Clip": ("Clip", {"x": X, **BOUNDS}, {"constants": ["lo", "hi"]}),
    "Clip by tensors": ("Clip", {"x": X, **BOUNDS}, {}),
    "Max": ("Max", {"x": X, "z": X.T.copy()}, {}),
    "Min": ("Min", {"x": X, "z": X.T.copy()}, {}),
    "PRelu": ("PRelu", {"x": X, "z": X.T.copy()}, {}),
    "Pow": ("Pow", {"x": np.abs(X), "z": np.abs(X.T)}, {}),
    "Pow by a constant": ("Pow", {"x": X, "e": np.array(2.0)}, {"constants": ["e"]}),
    "Where": ("Where", {"c": X > 0, "x": X, "z": X.T.copy()}, {}),
    "ReduceL1 over rows": ("ReduceL1", {"x": X, "a": np.array([1])}, {"constants": ["a"]}),
    "ReduceL2 over rows": ("ReduceL2", {"x": X, "a": np.array([1])}, {"constants": ["a"]}),
    "ReduceMax over rows": ("ReduceMax", {"x": X, "a": np.array([1])}, {"constants": ["a"]}),
    "LpNormalization 1": ("LpNormalization", {"x": X}, {"p": 1}),
    "MaxPool": ("MaxPool", {"x": IMAGE}, {"kernel_shape": [2, 2]}),
    "LpPool": ("LpPool", {"x": IMAGE}, {"kernel_shape": [2, 2]}),
    "GlobalMaxPool": ("GlobalMaxPool", {"x": IMAGE}, {}),
    "LRN": ("LRN", {"x": IMAGE}, {"size": 3}),
}


def test_double_has_the_gradients_of_float_at_ties_and_bounds():
    """Compare them, and some with what the pages of the operators say."""
    with jax.enable_x64(True):
        found = []
        for dtype in (np.float32, np.float64):
            networks, inputs = [], []
            for op_type, arrays, attributes in AT_TIES.values():
                own = {n: a.astype(dtype) if a.dtype.kind == "f" else a for n, a in arrays.items()}
                model = single(op_type, own, opset=20, **attributes)
                networks.append(load_onnx(model, fallback=True))
                inputs.append({n: own[n] for n in networks[-1].inputs})
            found.append(values_and_gradients(networks, inputs))
    made = dict(zip(AT_TIES, found[1], strict=True))
    for name, narrow in zip(AT_TIES, found[0], strict=True):
        for part, (few, more) in enumerate(zip(narrow, made[name], strict=True)):
            for key, answer in few.items():
                kept = answer.dtype != np.float32
                assert more[key].dtype == (answer.dtype if kept else np.float64)
                bounds: Any = {"rtol": 3e-5, "atol": 1e-6, "err_msg": f"{name}: {key} {part}"}
                np.testing.assert_allclose(more[key], answer, **bounds)
    zero = X == 0
    assert not np.asarray(made["Relu"][0]["x"])[zero].any()
    assert not np.asarray(made["ReduceL2 over rows"][0]["x"])[3].any()
    at_bounds = (X == -0.5) | (X == 1)
    assert not np.asarray(made["Clip"][0]["x"])[at_bounds].any()


REGIONS = {"x": IMAGE, "r": X, "b": np.zeros(4, np.int64)}
WRONG = {
    "axis": ("Softmax", {"x": X}, {"axis": 2}),
    "perm": ("Transpose", {"x": X}, {"perm": [0, 0]}),
    "weights": ("Conv", {"x": IMAGE, "w": np.ones((1, 1, 5, 5))}, {}),
    "dims": ("MatMul", {"x": X, "z": X[:3]}, {}),
    "mode": ("RoiAlign", REGIONS, {"sampling_ratio": 0, "mode": "max"}),
    "size": ("LRN", {"x": IMAGE}, {"size": 0}),
    "K": ("TopK", {"x": X, "k": np.array([9])}, {"constants": ["k"], "outputs": "y i"}),
    "axes": ("ReduceSum", {"x": X, "a": np.array([5])}, {"constants": ["a"]}),
    "group": ("Conv", {"x": IMAGE, "w": np.ones((1, 1, 2, 2))}, {"group": 2}),
}


@pytest.mark.parametrize("name", WRONG)
def test_double_is_refused_for_what_float_is_refused_for(name: str):
    op_type, arrays, attributes = WRONG[name]
    messages = []
    with jax.enable_x64(True):
        for dtype in (np.float32, np.float64):
            own = {n: a.astype(dtype) if a.dtype.kind == "f" else a for n, a in arrays.items()}
            message = refusal(single(op_type, own, **attributes), fallback=True)
            messages.append(message.replace("float64", "float32").replace("FLOAT64", "FLOAT32"))
    assert messages[0] == messages[1]


def compare(some: list[NodeTest]) -> None:
    pairs: list[tuple[NodeTest, list[Network], list[dict[str, Any]]]] = []
    for test in some:
        networks, inputs, refused = [], [], []
        for model in (test.model, widened(test)):
            assert model is not None
            arrays = arrays_of(test, model)
            try:
                networks.append(network_of(model, arrays, fallback=True))
                inputs.append({name: arrays[name] for name in networks[-1].inputs})
            except DmlError as error:
                refused.append([(fault.field, fault.rule) for fault in error.faults])
        if refused:
            assert len(refused) == 2, test.name
            assert refused[0] == refused[1], test.name
        else:
            pairs.append((test, networks, inputs))
    found = [
        values_and_gradients([n[k] for _, n, _ in pairs], [i[k] for _, _, i in pairs])
        for k in (0, 1)
    ]
    for (test, (_, network), _), narrow, broad in zip(pairs, *found, strict=True):
        bounds = {"rtol": max(test.rtol, 2e-4), "atol": max(test.atol, 2e-5), "err_msg": test.name}
        for name, kind in list(network.output_types.items())[: KEPT.get(test.op_type)]:
            dtype = np.asarray(narrow[1][name]).dtype
            assert kind.dtype == (np.float64 if dtype == np.float32 else dtype), test.name
        for name, answer in narrow[1].items():
            pair = (wide(np.asarray(x)) for x in (broad[1][name], answer))
            np.testing.assert_allclose(*pair, **bounds)
        for name, answer in narrow[0].items() if test.name not in AT_A_TIE else ():
            np.testing.assert_allclose(broad[0][name], answer, **bounds)


MOVED = "FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ FLOAT8E8M0 FLOAT4E2M1 INT4 UINT4"
MOVED += " INT2 UINT2 COMPLEX64 COMPLEX128 BOOL DOUBLE BFLOAT16 INT16"
PLACES = {"r": [3, 2], "a": [0], "i": [1, 0, 1], "b": [0, 1], "e": [2, 3], "p": [1, 0, 0, 1]}


@pytest.mark.parametrize("name", MOVED.split())
def test_elements_of_every_type_are_moved(name: str):
    """Compare with NumPy, of each op type that ONNX lists the type for."""
    element = onnx.TensorProto.DataType.Value(name)
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
    is_signed = name not in ("BOOL", "FLOAT8E8M0") and not name.startswith("UINT")
    numbers = np.array([[0, 1, 1], [1, 0, -2 if is_signed else 1]], np.float32)
    x = (numbers.astype(np.int8) if "INT" in name else numbers).astype(dtype)
    wanted = {
        "Transpose": x.T,
        "Reshape": x.reshape(3, 2),
        "Unsqueeze": x[None],
        "Identity": x,
        "Flatten": x.reshape(1, 6),
        "Gather": x[[1, 0, 1]],
        "Slice": x[:, :1],
        "Concat": np.concatenate([x, x]),
        "Expand": x,
        "Pad": np.pad(x, [(1, 0), (0, 1)]),
        "Tile": np.tile(x, [2, 3]),
    }
    inputs = {"Reshape": "x r", "Unsqueeze": "x a", "Gather": "x i", "Slice": "x a one one"}
    inputs |= {"Concat": "x x", "Expand": "x e", "Pad": "x p", "Tile": "x e"}
    attributes: dict[str, dict[str, Any]] = {"Concat": {"axis": 0}, "Flatten": {"axis": 0}}
    nodes = []
    for op_type in wanted:
        if f"tensor({name.lower()})" in onnx.defs.get_schema(op_type, 25).inputs[0].types:
            own = attributes.get(op_type, {})
            nodes.append(node(op_type, inputs.get(op_type, "x"), f"{op_type}_", **own))
    constants = {n: np.array(v) for n, v in PLACES.items()}
    constants |= {"one": np.array([1])}
    made = [f"{n.op_type}_" for n in nodes]
    model = model_of(nodes, {"x": (dtype, [2, 3])}, made, constants, opset=25)
    model.graph.input[0].type.tensor_type.elem_type = element
    assert len(made) > 3
    with jax.enable_x64(True):
        results = load_onnx(model, fallback=True)(x)
        for n in nodes:
            found, answer = np.asarray(results[f"{n.op_type}_"]), wanted[n.op_type]
            assert found.dtype == dtype, n.op_type
            np.testing.assert_array_equal(found.astype(complex), answer.astype(complex), n.op_type)
