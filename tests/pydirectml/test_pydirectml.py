"""PyDirectML: its names and defaults, its five sample programs in small, and its errors.

`facts/pydirectml.json` has the arguments of each function, the enumerations, and the calls of
Microsoft's five sample programs with fewer channels and smaller pictures.
"""

import inspect
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from documented_facts import FOLDER
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from processes import python

import dml_jax.pydirectml as dml
from dml_jax import OPERATORS, DmlError, FeatureLevel

FACTS: dict[str, Any] = json.loads((FOLDER / "pydirectml.json").read_text())
Array = np.ndarray
PLAIN: Any = dml  # for calls that a type checker refuses


# Names, arguments and defaults.


def shown(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    if isinstance(default, dml.FusedActivation):
        default = "none"
    return f"{parameter.name}={getattr(default, 'name', default)}"


@pytest.mark.parametrize("name", FACTS["functions"])
def test_functions_have_the_arguments_of_pydirectml(name: str):
    signature = inspect.signature(getattr(dml, name))
    own = ", ".join(map(shown, signature.parameters.values()))
    assert own.replace("reset=True", "reset=1") == FACTS["functions"][name]


@pytest.mark.parametrize("name", FACTS["enumerations"])
def test_enumerations(name: str):
    enumeration = getattr(dml, name)
    names = FACTS["enumerations"][name].split()
    known = {n: value for value, n in enumerate(names) if n != "."}
    assert {n: int(m) for n, m in enumeration.__members__.items()} == known
    for member in enumeration:
        assert enumeration(member.value) is member
        assert str(member) == f"{name}.{member.name}"
        assert repr(member) == f"<{name}.{member.name}: {member.value}>"


def test_operator_types_are_the_operators_of_two_levels():
    early = {
        name.removeprefix("DML_OPERATOR_")
        for name, op in OPERATORS.items()
        if op.support.introduced <= FeatureLevel.of("2_0")
    }
    names = [*dml.OperatorType.__members__]
    assert names[0] == "INVALID" and len(names) == 97
    assert set(names[1:]) == early - {"SCATTER_ELEMENTS"} | {"SCATTER"}
    kinds = dml.OperatorType
    values = kinds.ELEMENT_WISE_ADD, kinds.CONVOLUTION, kinds.GRU, kinds.RESAMPLE
    assert [*map(int, values)] == [4, 53, 78, 96]


def test_members_are_names_of_the_module_too():
    assert PLAIN.NONE is dml.ExecutionFlags.NONE
    assert PLAIN.FORWARD is dml.ConvolutionDirection.FORWARD
    assert PLAIN.CONVOLUTION is dml.OperatorType.CONVOLUTION
    assert PLAIN.FLOAT32 is dml.TensorDataType.FLOAT32
    assert not hasattr(dml, "Both")


def test_two_enumerations_have_arithmetic():
    flags = dml.ExecutionFlags
    both = flags.DISABLE_META_COMMANDS | flags.DESCRIPTORS_VOLATILE
    assert both == 6 and type(both) is int and both & flags.DESCRIPTORS_VOLATILE == 4
    assert ~flags.NONE == -1 and flags.DISABLE_META_COMMANDS == 2
    assert dml.OutputOptions.Single > dml.OutputOptions.Both
    assert dml.TensorDataType.FLOAT32 != 1
    with pytest.raises(TypeError):
        _ = dml.TensorDataType.FLOAT32 | dml.TensorDataType.FLOAT16  # pyright: ignore


# Programs.


def spans(sizes: list[int], strides: list[int] | None) -> int:
    if strides is None:
        return int(np.prod(sizes))
    return 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))


def viewed(data: Array, sizes: list[int], strides: list[int] | None) -> Array:
    if strides is None:
        return data.reshape(sizes)
    return as_strided(data, sizes, [8 * s for s in strides])


def windows(x: Array, size: list[int], steps: list[int]) -> Array:
    views = sliding_window_view(x, size, (2, 3))  # pyright: ignore[reportCallIssue,reportArgumentType]
    return views[:, :, :: steps[0], :: steps[1]]


def convolved(x: Array, w: Array, b: Array | None = None, **o: Any) -> Array:
    steps, groups = o.get("strides", [1, 1]), o.get("group_count", 1)
    if o.get("direction") == "BACKWARD":
        made = np.zeros(o["output_sizes"])
        for i, j in np.ndindex(x.shape[2:]):
            at = np.s_[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
            made[at] += np.einsum("nc,cohw->nohw", x[:, :, i, j], w)
    else:
        pads = zip(o.get("start_padding", [0, 0]), o.get("end_padding", [0, 0]), strict=True)
        seen = windows(np.pad(x, [(0, 0), (0, 0), *pads]), [*w.shape[2:]], steps)
        parts = zip(np.split(seen, groups, 1), np.split(w, groups), strict=True)
        made = np.concatenate([np.tensordot(s, f, ([1, 4, 5], [1, 2, 3])) for s, f in parts], 3)
        made = made.transpose(0, 3, 1, 2)
    return activated(made if b is None else made + b, **o)


def activated(x: Array, fused_activation: str | None = None, **_: Any) -> Array:
    functions = {None: lambda x: x, "RELU": lambda x: np.maximum(x, 0), "TANH": np.tanh}
    return functions[fused_activation](x)


def normalized(
    x: Array, mean: Array, variance: Array, scale: Array, bias: Array, epsilon: float, **o: Any
) -> Array:
    return activated((x - mean) / np.sqrt(variance + epsilon) * scale + bias, **o)


def normalized_by_itself(x: Array, scale: Array, bias: Array, axes: list[int], **o: Any) -> Array:
    by = tuple(axes)
    return normalized(x, x.mean(by, keepdims=True), x.var(by, keepdims=True), scale, bias, **o)


def cut(x: Array, input_window_offsets: list[int], input_window_sizes: list[int], **_: Any):
    pairs = zip(input_window_offsets, input_window_sizes, strict=True)
    return x[tuple(slice(start, start + size) for start, size in pairs)]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


REFERENCES: dict[str, Callable[..., Array]] = {
    "convolution": convolved,
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "activation_relu": lambda x: np.maximum(x, 0),
    "activation_identity": lambda x: x,
    "activation_linear": lambda x, alpha, beta: alpha * x + beta,
    "activation_soft_max": softmax,
    "max_pooling": lambda x, window_sizes, strides: windows(x, window_sizes, strides).max((4, 5)),
    "average_pooling": lambda x, window_sizes, strides, **_: windows(x, window_sizes, strides).mean(
        (4, 5)
    ),
    "reinterpret": lambda x, new_size, **_: np.ascontiguousarray(x).reshape(new_size),
    "gemm": lambda a, b: a @ b,
    "join": lambda *x, axis: np.concatenate(x, axis),
    "slice": cut,
    "batch_normalization": lambda *x, spatial, **o: normalized(*x, **o),
    "mean_variance_normalization": normalized_by_itself,
    "value_scale_2d": lambda x, scale, bias: x * scale + np.reshape(bias, (1, -1, 1, 1)),
    "padding": lambda x, start_padding, end_padding, **_: np.pad(
        x, [*zip(start_padding, end_padding, strict=True)], "reflect"
    ),
}


def argument(name: str, value: Any) -> Any:
    kinds = {
        "direction": dml.ConvolutionDirection,
        "mode": dml.ConvolutionMode,
        "padding_mode": dml.PaddingMode,
        "new_type": dml.TensorDataType,
    }
    if name == "fused_activation":
        return dml.FusedActivation(dml.OperatorType[f"ACTIVATION_{value}"])
    return kinds[name][value] if name in kinds else value


@pytest.mark.parametrize("name", FACTS["programs"])
def test_sample_programs(name: str):
    """The calls with random weights give what NumPy computes in double precision."""
    random = np.random.default_rng(0)
    device = dml.Device(True, True)
    builder = dml.GraphBuilder(device)
    expressions: list[Any] = []
    right: list[Array] = []
    bindings: list[dml.Binding] = []
    for call, *rest in FACTS["programs"][name]:
        if call == "input":
            sizes, strides, owned = [*rest, *[None, 0][len(rest) - 1 :]]
            count = spans(sizes, strides)
            if owned:  # a weight, which keeps the size of values
                data = random.standard_normal(count) * (2 / np.prod(sizes[1:])) ** 0.5
            else:  # a picture, a variance or a factor
                data = random.uniform(0.2, 1, count) * (
                    255 if name == "candy" and not bindings else 1
                )
            data = data.astype(np.float32)
            kind, flags = dml.TensorDataType.FLOAT32, dml.TensorFlags(owned)
            layout = (sizes, strides) if strides else (flags, sizes)
            desc = dml.TensorDesc(kind, *layout)
            expression = dml.input_tensor(builder, len(bindings), desc)
            bindings.append(dml.Binding(expression, data))
            expressions.append(expression)
            right.append(viewed(data.astype(float), sizes, strides))
            continue
        of, options = rest
        taken = [expressions[i] for i in of]
        given = {n: argument(n, v) for n, v in options.items()}
        made = getattr(dml, call)(*([taken] if call == "join" else taken), **given)
        expressions.append(getattr(made, "values", made))
        right.append(REFERENCES[call](*(right[i] for i in of), **options))
    model = builder.build(dml.ExecutionFlags.NONE, [expressions[-1]])
    for _ in range(2):
        (result,) = device.compute(model, bindings, [expressions[-1]])
        assert result.dtype == np.float32
        scale = np.abs(right[-1]).max()
        np.testing.assert_allclose(np.array(result) / scale, right[-1] / scale, rtol=0, atol=2e-5)


# One graph at a time.


class Program:
    """A device, a builder and bindings, for short programs.

    Its attribute `kind` is the type of inputs.
    """

    def __init__(self, kind: str = "FLOAT32", **options: Any):
        self.kind = dml.TensorDataType[kind]
        self.device = dml.Device(False)
        self.builder = dml.GraphBuilder(self.device, **options)
        self.bindings: list[Any] = []

    def input(self, data: Any, owned: int = 0, sizes: Any = None) -> dml.Expression:
        data = np.asarray(data)
        flags = dml.TensorFlags(owned)
        desc = dml.TensorDesc(self.kind, flags, list(sizes or data.shape))
        expression = dml.input_tensor(self.builder, len(self.bindings), desc)
        self.bindings.append(dml.Binding(expression, data))
        return expression

    def values(self, *outputs: dml.Expression) -> list[dml.TensorData]:
        model = self.builder.build(dml.ExecutionFlags.NONE, [*outputs])
        return self.device.compute(model, self.bindings, [*outputs])


A = np.array([[[[1, -2], [3, 4.5]]]], np.float32)
B = np.array([[[[2, 5], [-3, 0.5]]]], np.float32)


def test_operators_of_expressions():
    p = Program()
    a, b = p.input(A), p.input(B)
    c = a
    c += b
    c *= 2
    pairs = [(a + b, A + B), (a - b, A - B), (a * b, A * B), (a / b, A / B), (-a, -A)]
    pairs += [(a % b, np.fmod(A, B)), (a + 2, A + 2), (a - 2, A - 2), (a * 2, A * 2)]
    pairs += [(a / 4, A / 4), (2 + a, 2 + A), (2 - a, 2 - A), (2 * a, 2 * A), (3 / a, 3 / A)]
    pairs += [(a + np.float32(0.5), A + 0.5), (np.float32(2) * a, 2 * A), (c, (A + B) * 2)]
    made, expected = zip(*pairs, strict=True)
    for result, right in zip(p.values(*made), expected, strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-6)
    x: Any = a
    for wrong in (lambda: x % 2, lambda: x < b, lambda: +x, lambda: x + "1"):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(RuntimeError, match="the divisor to not be 0"):
        _ = a / 0


def test_functions_that_the_samples_lack():
    p = Program()
    a, b = p.input(A), p.input(B)
    size = dml.Size2D(2, 3)
    size.height = 1
    pooled = dml.max_pooling(a, [2, 2], output_indices=True)
    linear = dml.FusedActivation(dml.OperatorType.ACTIVATION_LINEAR, 2, 1)
    turned = dml.MatrixTransform.TRANSPOSE
    neighbours = dml.local_response_normalization(a, True, 1, 0.5, 0.75, 2)
    pairs = [
        (dml.up_sample_2d(a, size, dml.InterpolationMode.NEAREST_NEIGHBOR), A.repeat(2, 3)),
        (dml.activation_sigmoid(a), 1 / (1 + np.exp(-A))),
        (dml.activation_tanh(a), np.tanh(A)),
        (dml.average_pooling(a, [], [2, 2], [], [], False), A.mean(keepdims=True)),
        (dml.subtract(a, b), A - B),
        (dml.divide(a, b), A / B),
        (dml.gemm(a, b, a, trans_b=turned, alpha=2, beta=-1), 2 * A @ B.swapaxes(2, 3) - A),
        (dml.add(a, b, linear), 2 * (A + B) + 1),
        (dml.slice(a, [0, 0, 0, 0], [1, 1, 2, 2], [1, 1, 1, -1]), A[..., ::-1]),
        (neighbours, A / (2 + 0.5 * A**2) ** 0.75),
        (pooled.values, A.max(keepdims=True)),
        (pooled.indices, np.full((1, 1, 1, 1), 3)),
    ]
    made, expected = zip(*pairs, strict=True)
    for result, right in zip(p.values(*made), expected, strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-5)
    with pytest.raises(DmlError, match="an empty one"):
        dml.max_pooling(a, [2, 2]).indices.get_output_desc()


@pytest.mark.parametrize("option", dml.OutputOptions)
def test_gru(option: dml.OutputOptions):
    """One step of zero weights halves the hidden state: z = sigmoid(0), h = tanh(0)."""
    p = Program()
    x, w = p.input(np.ones((1, 3, 1, 2))), p.input(np.zeros((1, 1, 3, 2)))
    r, hidden = p.input(np.zeros((1, 1, 3, 1))), p.input([[[[8]]]])
    kinds = dml.OperatorType.ACTIVATION_SIGMOID, dml.OperatorType.ACTIVATION_TANH
    made = dml.gru(
        x,
        w,
        r,
        hidden_init=hidden,
        activation_descs=[*map(dml.FusedActivation, kinds)],
        direction=dml.RecurrentNetworkDirection.FORWARD,
        output_options=option,
    )
    expected = {"sequence": [4, 2, 1], "single": [1]}
    for name, values in expected.items():
        if option.name in ("Both", name.capitalize()):
            (result,) = p.values(getattr(made, name))
            assert np.array(result).reshape(-1).tolist() == values
        else:
            with pytest.raises(RuntimeError):
                getattr(made, name).get_output_desc()


def test_gather_and_types():
    p = Program()
    a = p.input(A)
    p.kind = dml.TensorDataType.UINT32
    rows = p.input(np.array([[[[1, 0]]]], np.uint32))
    made = dml.gather(a, rows, 2, 1)
    bits = dml.reinterpret(made, dml.TensorDataType.INT32, [1, 1, 4, 1], None)
    result, seen = p.values(made, bits)
    np.testing.assert_array_equal(np.array(result).reshape(2, 2), A[0, 0, ::-1])
    assert seen.dtype == np.int32
    np.testing.assert_array_equal(np.array(seen).view(np.float32).reshape(-1), A[0, 0, ::-1].flat)


@pytest.mark.parametrize(
    ("kind", "data", "held"),
    [
        ("UINT32", np.array([1, 2], np.float32), [1065353216, 1073741824]),  # bits
        ("UINT32", np.array([1, 2]), [1, 2]),
        ("FLOAT16", [1, 2.5], [1, 2.5]),
        ("UINT8", [1, 255], [1, 255]),
        ("FLOAT32", np.array([1, 0.1]), [1, np.float32(0.1)]),
        ("FLOAT32", np.array([3, 4], np.uint8), [3, 4]),
    ],
)
def test_bindings_hold_numbers_of_the_type(kind: str, data: Any, held: list[Any]):
    p = Program(kind)
    x = p.input(data, sizes=[1, 1, 1, 2])
    (result,) = p.values(dml.activation_identity(x) if "FLOAT" in kind else dml.join([x], 3))
    assert np.array(result).reshape(-1).tolist() == held


def test_results_are_buffers():
    p = Program()
    (result,) = p.values(p.input(A) * 2)
    view = memoryview(result)  # pyright: ignore[reportArgumentType]
    assert (view.format, view.shape, view.strides) == ("f", (1, 1, 2, 2), (16, 16, 8, 4))
    assert type(np.array(result)) is np.ndarray
    np.testing.assert_array_equal(np.array(PLAIN.TensorData([1, 2])), [1, 2])


def test_interleaved_channels():
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2)
    p = Program(tensor_policy=dml.TensorPolicy.interleaved_channel)
    y = dml.activation_relu(p.input(x))
    assert y.get_output_desc().strides == [12, 1, 6, 3]
    (result,) = p.values(y)
    assert result.strides == (48, 4, 24, 12)
    np.testing.assert_array_equal(result, x)


def test_tensor_descriptions():
    kind, flags = dml.TensorDataType.FLOAT32, dml.TensorFlags.OWNED_BY_DML
    text = "dml.TensorDesc of type 1 and shape [1,2] with flags 0"
    assert repr(dml.TensorDesc(kind, [1, 2])) == text
    policy = dml.TensorPolicy.interleaved_channel
    assert dml.TensorDesc(kind, [1, 3, 2, 2], policy).strides == [12, 1, 6, 3]
    plain = dml.TensorDesc(kind, flags, (1, 2), tensor_policy=dml.TensorPolicy.default)
    assert plain.sizes == [1, 2]
    strided = dml.TensorDesc(kind, [1, 8, 28, 28], [8, 1, 0, 0])
    assert (strided.flags, strided.total_tensor_size_in_bytes) == (dml.TensorFlags.NONE, 32)
    assert dml.TensorDesc(kind, [1, 2], None).strides is None
    whole = dml.TensorDesc(kind, flags, [1, 2], [4, 1], 32, 16)
    assert whole.flags is flags and whole.data_type is kind
    assert (whole.total_tensor_size_in_bytes, whole.guaranteed_base_offset_alignment) == (32, 16)
    for wrong in ((1, [1, 2]), (kind, 0, [1, 2]), (kind, "12"), (kind,)):
        with pytest.raises(TypeError, match=r"TensorDesc: no constructor takes \("):
            dml.TensorDesc(*wrong)
    rule = r"expected Sizes\[1\] to be in \[1, 4294967295\], got 0"
    with pytest.raises(RuntimeError, match=rule):
        dml.TensorDesc(kind, [1, 0])


# What is computed once.


def test_a_second_compute_sends_no_owned_input(monkeypatch: pytest.MonkeyPatch):
    """Owned inputs are sent apart; the call of the program sends the others."""
    p = Program()
    x, w = p.input(A), p.input(B, 1)
    y = x * w
    model = p.builder.build(dml.ExecutionFlags.NONE, [y])
    sent: list[Any] = []
    put = jax.device_put
    monkeypatch.setattr(jax, "device_put", lambda a, d: sent.append(a) or put(a, d))

    def computed() -> Array:
        sent.clear()
        return np.array(p.device.compute(model, p.bindings, [y])[0])

    np.testing.assert_array_equal(computed(), A * B)
    assert len(sent) == 1
    np.testing.assert_array_equal(computed(), A * B)
    assert len(sent) == 0
    p.bindings = [dml.Binding(x, B), dml.Binding(w, B.copy())]  # the same contents
    np.testing.assert_array_equal(computed(), B * B)
    assert len(sent) == 0
    p.bindings[1] = dml.Binding(w, A)
    np.testing.assert_array_equal(computed(), B * A)
    assert len(sent) == 1


def test_weights_are_no_part_of_the_program():
    """The text of the program is as long for large weights as for small ones."""
    lengths = []
    for size in (100, 999):
        p = Program()
        x, w = p.input(np.ones((1, 1, 1, size))), p.input(np.ones((1, 1, size, size)), 1)
        model = p.builder.build(dml.ExecutionFlags.NONE, [dml.gemm(x, w)])
        (program,) = model._programs.values()
        lengths.append(len(program._compiled.as_text()))
    assert abs(lengths[0] - lengths[1]) < 0.2 * lengths[0]


# Errors.


def test_errors_are_of_two_kinds():
    p = Program()
    x, w = p.input(A), p.input(np.ones((1, 2, 1, 1)))
    with pytest.raises(dml.PyDirectMLError, match="CONVOLUTION: expected") as refused:
        dml.convolution(x, w)
    assert isinstance(refused.value, DmlError) and isinstance(refused.value, RuntimeError)
    assert refused.value.operator == "DML_OPERATOR_CONVOLUTION"
    with pytest.raises(RuntimeError, match="ELEMENT_WISE_ADD"):
        _ = x + w


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: PLAIN.add(x, 1), "add: argument 'b' must be Expression, not int"),
        (lambda x: PLAIN.activation_relu(), "_relu: missing a required argument: 'input'"),
        (lambda x: PLAIN.join(x, 1), "argument 'input' must be a list of Expression, not Exp"),
        (lambda x: PLAIN.gemm(x, x, trans_a=1), "'trans_a' must be MatrixTransform, not int"),
        (lambda x: PLAIN.gemm(x, x, alpha="1"), "'alpha' must be float, not str"),
        (lambda x: PLAIN.activation_linear(x, 1, 2, b=2), "got an unexpected keyword argument 'b'"),
        (lambda x: PLAIN.FusedActivation(1), "FusedActivation: argument 'activation' must be Oper"),
        (lambda x: PLAIN.Binding(x, ["a"]), "Binding: argument 'data' must hold numbers, not <U1"),
        (lambda x: PLAIN.Model(), "Model: no constructor"),
        (lambda x: PLAIN.TensorPolicy(), "TensorPolicy: no constructor"),
        (lambda x: PLAIN.Dimensions(), "Dimensions: no constructor"),
        (lambda x: PLAIN.mean_variance_normalization(x, axes=[3]), "'normalize_variance'"),
        (lambda x: PLAIN.Size2D(1, height=2), "Size2D"),
    ],
)
def test_arguments_of_other_types(call: Callable[[Any], Any], text: str):
    with pytest.raises(TypeError) as refused:
        call(Program().input(A))
    assert text in str(refused.value)


class Doubling(Program):
    """A graph of inputs x and y that doubles x; `wide` is another graph's input of 5 elements."""

    def __init__(self):
        super().__init__()
        self.x, self.y = self.input(A), self.input(B)
        self.z = self.x * 2
        outputs = [self.z, None, dml.Expression()]
        self.model = self.builder.build(dml.ExecutionFlags.NONE, outputs)
        self.wide = Program().input(np.ones((1, 1, 1, 5)))

    def compute(self, bindings: list[Any], outputs: list[Any]) -> list[dml.TensorData]:
        return self.device.compute(self.model, bindings, outputs)

    def build(self, *outputs: dml.Expression) -> dml.Model:
        return self.builder.build(dml.ExecutionFlags.NONE, [*outputs])


def test_nothing_stands_among_bindings_and_outputs():
    p = Doubling()
    assert len(p.compute(p.bindings, [None, p.z, dml.Expression()])) == 1
    assert len(p.compute([p.bindings[0], None], [p.z])) == 1  # nothing reads y


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.compute([], [p.z]), r"inputs\[0\] to be bound, got nothing"),
        (
            lambda p: p.compute([*p.bindings, p.bindings[0]], [p.z]),
            r"number of inputs to be at most 2, .* got 3",
        ),
        (
            lambda p: p.compute(p.bindings, [p.y]),
            r"outputs\[0\] to be an expression that the model",
        ),
        (
            lambda p: p.compute([dml.Binding(p.wide, np.ones(5))], [p.z]),
            r"inputs\[0\] to be of graph input 0",
        ),
        (lambda p: p.build(p.x), "be computed by a node, got a graph input"),
        (lambda p: p.build(), "OutputCount"),
        (lambda p: p.x + Program().input(A), "be of this builder"),
        (lambda p: dml.activation_relu(dml.Expression()), "an empty expression"),
        (lambda p: dml.join([], 0), "input_tensors to have at least 1 expression"),
        (
            lambda p: dml.Binding(p.x, np.ones(3, np.float32)),
            r"data to hold 4 elements .*, got float32\[3\]",
        ),
        (lambda p: Program("UINT8").input([256, 1]), "data to hold numbers that UINT8 holds"),
        (
            lambda p: dml.input_tensor(p.builder, 0, p.wide.get_output_desc()),
            "as input_index 0 has",
        ),
        (
            lambda p: dml.reinterpret(p.x, dml.TensorDataType.FLOAT32, [1, 1, 1, 5], None),
            "TotalTensorSizeInBytes",
        ),
    ],
)
def test_what_cannot_be_computed(call: Callable[[Doubling], Any], message: str):
    with pytest.raises(RuntimeError, match=message):
        call(Doubling())


def test_inputs_in_another_order():
    """Two inputs of as many bytes could be taken for each other."""
    p = Program()
    x, w = p.input(np.ones((1, 1, 1, 4))), p.input(np.ones((1, 1, 4, 1)))
    y = dml.gemm(x, w)
    model = p.builder.build(dml.ExecutionFlags.NONE, [y])
    message = r"inputs\[0\] to be of graph input 0, got graph input 1"
    with pytest.raises(RuntimeError, match=message):
        p.device.compute(model, p.bindings[::-1], [y])
    other = Program().input(np.ones((1, 1, 1, 4)))  # of another graph: by position
    bindings = [dml.Binding(other, np.full(4, 2.0)), p.bindings[1]]
    assert np.array(p.device.compute(model, bindings, [y])[0]).item() == 8


def test_devices():
    assert repr(dml.Device(use_gpu=False)) == "dml.Device on CPU"
    is_cpu = jax.local_devices()[0].platform == "cpu"
    assert repr(dml.Device()) == f"dml.Device on {'CPU' if is_cpu else 'GPU'}"


# The command.

PROGRAM = """
import sys
import pydirectml as dml
import neighbour

print(__name__, __file__, sys.argv[1:], neighbour.WORD, dml.__name__)
device = dml.Device(False)
builder = dml.GraphBuilder(device)
x = dml.input_tensor(builder, 0, dml.TensorDesc(dml.FLOAT32, [1, 1, 1, 2]))
if sys.argv[1:]:
    y = x + 1
    model = builder.build(dml.ExecutionFlags.NONE, [y])
    print(device.compute(model, [dml.Binding(x, [[1, 2]])], [y])[0].tolist())
    sys.exit(7)
dml.activation_relu(x, 2)
"""


def ran(folder: Path, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command of PyDirectML's programs; `text` is that of p.py."""
    (folder / "p.py").write_text(f"import sys, pydirectml as dml\n{text}")
    path = str(Path(dml.__file__).parents[2])
    env = {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "PATH": ""}
    return python("-m", "dml_jax.pydirectml", *words, cwd=folder, env=env)


def test_a_program_runs_unmodified(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "program.py").write_text(PROGRAM)
    (tmp_path / "sub" / "neighbour.py").write_text("WORD = 'near'")
    done = ran(tmp_path, "sub/program.py", "-a", "b")
    assert done.returncode == 7 and done.stderr == ""
    assert done.stdout.splitlines() == [
        "__main__ sub/program.py ['-a', 'b'] near dml_jax.pydirectml",
        "[[[[2.0, 3.0]]]]",
    ]
    failed = ran(tmp_path, "sub/program.py")
    assert failed.returncode == 1
    lines = failed.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert 'File "sub/program.py", line 15, in <module>' in lines[1]
    assert lines[-1].startswith("TypeError: pydirectml.activation_relu: too many positional")
    assert "dml_jax/pydirectml" not in failed.stderr
    faulty = PROGRAM.replace("dml.activation_relu(x, 2)", "dml.join([x, x], 4)")
    (tmp_path / "sub" / "program.py").write_text(faulty)
    _, *before, last = ran(tmp_path, "sub/program.py").stderr.splitlines()
    assert [line.lstrip()[:4] == "File" for line in before].count(True) == 1
    assert last.startswith("dml_jax.pydirectml.PyDirectMLError: DML_OPERATOR_JOIN: expected Axis")


def test_pictures_are_saved_where_there_is_no_screen(tmp_path: Path):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    text = "from PIL import Image\nfor k in (3, 5):\n    Image.new('RGB', (k, 2)).show()\n"
    done = ran(tmp_path, "--save-images", "out/shown", "p.py", text=text)
    assert done.returncode == 0, done.stderr
    assert "Saved 'out/shown/2.png'." in done.stderr
    for k, size in ((1, (3, 2)), (2, (5, 2))):
        with image.open(tmp_path / "out/shown" / f"{k}.png") as picture:
            assert picture.size == size


def test_what_is_no_program(tmp_path: Path):
    assert ran(tmp_path).returncode == 2
    assert ran(tmp_path, "--save-images").returncode == 2
    done = ran(tmp_path, "none.py")
    text = "dml_jax.pydirectml: can't open file 'none.py': No such file or directory\n"
    assert (done.returncode, done.stderr) == (2, text)


def test_a_name_that_is_missing(tmp_path: Path):
    """Python suggests a name, and a function of dml_jax is named."""
    lines = ran(tmp_path, "p.py", text="dml.gem(1)").stderr.splitlines()
    assert lines[-1].endswith("has no attribute 'gem'. Did you mean: 'gemm'?")
    assert [line.lstrip()[:4] for line in lines].count("File") == 1
    with pytest.raises(AttributeError, match=r"port the program to dml_jax\.reduce\)"):
        _ = PLAIN.reduce
    with pytest.raises(AttributeError, match="gemm multiplies matrices"):
        _ = PLAIN.matmul


def test_the_excepthook_of_a_program(tmp_path: Path):
    text = "sys.excepthook = lambda *a: print('hook', a[1])\ndml.Device(1, 2, 3)"
    done = ran(tmp_path, "p.py", text=text)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "hook pydirectml.Device: too many positional arguments\n"


def test_a_chain_of_errors_is_shown_whole(tmp_path: Path):
    text = "try:\n    dml.Device(1, 2, 3)\nexcept TypeError as e:\n    raise KeyError(2) from e\n"
    lines = ran(tmp_path, "p.py", text=text).stderr.splitlines()
    assert [line.lstrip() for line in lines if "File" in line] == [
        'File "p.py", line 3, in <module>',
        'File "p.py", line 5, in <module>',
    ]
    assert lines[-1] == "KeyError: 2"
