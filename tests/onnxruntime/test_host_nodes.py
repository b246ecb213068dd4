"""Nodes of strings, maps and sequences in sessions, beside sessions of ONNX Runtime."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as real
import pytest
from build import parse
from onnx import TensorProto, helper, numpy_helper, parser

import dml_jax.onnxruntime as own
from dml_jax.onnxruntime import host_nodes
from dml_jax.onnxruntime.errors import InvalidGraph, NotImplemented, OnnxRuntimeError

_VERSIONS = {"": 20, "ai.onnx.ml": 3, "com.microsoft": 1}
node, _STRING, _FLOAT, _INT64 = (
    helper.make_node,
    TensorProto.STRING,
    TensorProto.FLOAT,
    TensorProto.INT64,
)


def ml(op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return node(op_type, inputs, outputs, domain="ai.onnx.ml", **attributes)


def words(*values: str) -> np.ndarray:
    return np.array(values, object)


def kind_of(value: Any) -> onnx.TypeProto:
    if isinstance(value, dict):
        key, number = (_STRING, _FLOAT) if "a" in value else (_INT64, _FLOAT)
        return helper.make_map_type_proto(key, helper.make_tensor_type_proto(number, None))
    if isinstance(value, list):
        return helper.make_sequence_type_proto(kind_of(value[0]))
    is_string = value.dtype == object
    element = _STRING if is_string else helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_type_proto(element, [None] * value.ndim)


def model(nodes, feeds, outputs, weights=None, versions=()) -> bytes:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_value_info(name, kind_of(value)) for name, value in feeds.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid(*item) for item in {**_VERSIONS, **dict(versions)}.items()]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return made.SerializeToString()


def alike(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(b, list):
        assert len(a) == len(b)
        for pair in zip(a, b, strict=True):
            alike(*pair)
    elif isinstance(b, dict):
        assert list(a) == list(b)
        np.testing.assert_allclose([*a.values()], [*b.values()], rtol=1e-4, atol=1e-5)
    else:
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if b.dtype == object:
            assert a.tolist() == b.tolist()
        else:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def both(data: bytes, feeds: dict[str, Any]) -> list[Any]:
    """Return the outputs of a session, which are those of ONNX Runtime."""
    options = real.SessionOptions()
    options.log_severity_level = 4
    wanted = real.InferenceSession(data, options).run(None, feeds)
    got = own.InferenceSession(data).run(None, feeds)
    alike(got, wanted)
    return got


FLOATS = np.array([1, 100, 16777216, 0.5, -2.25, np.nan, np.inf, -np.inf], np.float32)


@pytest.mark.parametrize(
    ("x", "to", "wanted"),
    [
        (FLOATS, _STRING, ["1", "100", "16777216", "0.5", "-2.25", "NaN", "INF", "-INF"]),
        (np.array([True, False]), _STRING, ["1", "0"]),
        (np.array([-(2**60), 7]), _STRING, ["-1152921504606846976", "7"]),
        (words("1", "-2.5e3", "INF"), _FLOAT, [1.0, -2500.0, np.inf]),
        (words("1", "0"), TensorProto.BOOL, [True, False]),
    ],
)
def test_casts_of_strings(x: np.ndarray, to: int, wanted: list[Any]):
    (y,) = both(model([node("Cast", ["x"], ["y"], to=to)], {"x": x}, ["y"]), {"x": x})
    assert y.tolist() == wanted


LOCALE = {"locale": "C.utf8"}  # ONNX Runtime asks the system for ONNX's default, en_US
SENTENCES = words(" the cat,  a dog", "", "éa Ñ")
STRING_NODES = {
    "upper": [node("StringNormalizer", ["x"], ["y"], case_change_action="UPPER", **LOCALE)],
    "stopwords": [node("StringNormalizer", ["x"], ["y"], stopwords=["ÉA Ñ"], **LOCALE)],
    "split": [node("StringSplit", ["x"], ["y", "n"], maxsplit=1)],
    "one hot": [node("OneHot", ["i", "d", "x3"], ["y"])],
    "pattern": [node("RegexFullMatch", ["x"], ["y"], pattern=".*a.*")],
    "mapped": [ml("CategoryMapper", ["x"], ["y"], cats_int64s=[4], cats_strings=["éa Ñ"])],
    "encoded": [ml("LabelEncoder", ["x"], ["y"], keys_strings=["éa Ñ"], values_floats=[0.5])],
    "moved": [
        node("Concat", ["x", "x"], ["c"], axis=0),
        node("Gather", ["c", "i"], ["g"]),
        node("Equal", ["g", "g"], ["e"]),
        node("Cast", ["e"], ["f"], to=_FLOAT),
        node("Neg", ["f"], ["y"]),
    ],
}


@pytest.mark.parametrize("name", STRING_NODES)
def test_nodes_of_strings(name: str):
    weights = {"i": np.array([1, 2]), "d": np.array(3), "x3": words("no", "yes")}
    nodes = STRING_NODES[name]
    versions = {"ai.onnx.ml": 2 if name == "encoded" else 1}
    data = model(nodes, {"x": SENTENCES}, nodes[-1].output, weights, versions)
    both(data, {"x": SENTENCES})


@pytest.mark.parametrize(
    ("encoder", "x"),
    [
        (ml("DictVectorizer", ["x"], ["y"], string_vocabulary=["a", "b"]), {"a": 1.0, "c": 3.0}),
        (ml("DictVectorizer", ["x"], ["y"], int64_vocabulary=[5, 2]), {2: 1.0, 7: 3.0}),
        (ml("CastMap", ["x"], ["y"], map_form="SPARSE", max_map=4), {0: 1.0, 2: 3.0}),
    ],
)
def test_maps_go_in(encoder: onnx.NodeProto, x: Any):
    data = model([encoder, node("Mul", ["y", "y"], ["z"])], {"x": x}, ["y", "z"])
    both(data, {"x": x})


ROWS = np.array([[0, 0], [1, 1], [0, -1]], np.float32)


def labels_of(op_type: str, kind: str) -> dict[str, Any]:
    numbers = "classlabels_int64s" if op_type == "TreeEnsembleClassifier" else "classlabels_ints"
    return {"classlabels_strings": ["no", "yes"]} if kind == "strings" else {numbers: [3, 7]}


CLASSIFIERS: dict[str, dict[str, Any]] = {
    "LinearClassifier": {
        "coefficients": [1.0, -2.0, 0.5, 1.0],
        "intercepts": [0.1, 0.0],
        "post_transform": "SOFTMAX",
    },
    "SVMClassifier": {
        "coefficients": [0.5, -1.0, 0.25, 0.75],
        "kernel_type": "RBF",
        "kernel_params": [0.4, 0.0, 3.0],
        "vectors_per_class": [2, 2],
        "support_vectors": [0.5, 0.5, -1.0, 2.0, 3.0, -2.0, 1.0, 0.0],
        "rho": [0.3],
        "prob_a": [-1.5],
        "prob_b": [0.1],
    },
    "TreeEnsembleClassifier": {  # one column of weights, some negative
        "nodes_treeids": [0] * 5,
        "nodes_nodeids": [0, 1, 2, 3, 4],
        "nodes_featureids": [0, 1, 0, 0, 0],
        "nodes_values": [0.5, -0.2, 0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 3, 0, 0, 0],
        "nodes_falsenodeids": [2, 4, 0, 0, 0],
        "class_treeids": [0] * 3,
        "class_nodeids": [2, 3, 4],
        "class_ids": [0, 0, 0],
        "class_weights": [-1.0, 0.2, 0.7],
    },
}


@pytest.mark.parametrize("kind", ["strings", "numbers"])
@pytest.mark.parametrize("op_type", CLASSIFIERS)
def test_classifiers_and_a_list_of_maps(op_type: str, kind: str):
    labels = labels_of(op_type, kind)
    shown = {k.replace("_ints", "_int64s"): v for k, v in labels.items()}
    nodes = [
        ml(op_type, ["x"], ["label", "p"], **CLASSIFIERS[op_type], **labels),
        ml("ZipMap", ["p"], ["y"], **shown),
    ]
    versions = {"ai.onnx.ml": 1}
    label, maps, scores = both(
        model(nodes, {"x": ROWS}, ["label", "y", "p"], versions=versions), {"x": ROWS}
    )
    (names,) = shown.values()
    assert maps == [dict(zip(names, row, strict=True)) for row in scores.tolist()]
    assert len(label) == 3


def test_probabilities_of_three_classes_are_coupled_pairs():
    """Libsvm's coupling (Wu, Lin and Weng, 2004), as scikit-learn and ONNX Runtime have it."""
    rng = np.random.default_rng(0)
    vectors, x = rng.standard_normal((6, 2)), rng.standard_normal((5, 2)).astype(np.float32)
    coefficients = rng.standard_normal((2, 6))
    svc = ml(
        "SVMClassifier",
        ["x"],
        ["label", "p"],
        classlabels_strings=["a", "b", "c"],
        coefficients=coefficients.ravel().tolist(),
        kernel_type="RBF",
        kernel_params=[0.4, 0.0, 3.0],
        vectors_per_class=[2, 2, 2],
        support_vectors=vectors.ravel().tolist(),
        rho=[0.3, -0.1, 0.2],
        prob_a=[-1.5, -0.7, -2.0],
        prob_b=[0.1, -0.2, 0.0],
    )
    _, p = both(model([svc], {"x": x}, ["label", "p"]), {"x": x})
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-5)


def pipeline() -> tuple[bytes, dict[str, np.ndarray]]:
    """Return a pipeline of scikit-learn as skl2onnx writes it, and its inputs.

    TfidfVectorizer of a text, OneHotEncoder of a word, SimpleImputer and StandardScaler of numbers,
    then LogisticRegression with probabilities.
    """
    rng = np.random.default_rng(0)
    feeds = {
        "text": words("The cat sat, here", "A dog ran", "cat AND dog", "").reshape(-1, 1),
        "word": words("a", "c", "b", "?").reshape(-1, 1),
        "numbers": rng.standard_normal((4, 2)).astype(np.float32),
    }
    feeds["numbers"][1, 0] = np.nan
    nodes = [
        node("Reshape", ["text", "flat"], ["texts"]),
        node("StringNormalizer", ["texts"], ["lower"], case_change_action="LOWER", **LOCALE),
        node(
            "Tokenizer",
            ["lower"],
            ["tokens"],
            domain="com.microsoft",
            mark=0,
            mincharnum=1,
            pad_value="#",
            tokenexp=r"[a-zA-Z0-9_]+",
        ),
        node("Flatten", ["tokens"], ["rows"]),
        node(
            "TfIdfVectorizer",
            ["rows"],
            ["counted"],
            mode="TFIDF",
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=0,
            ngram_counts=[0, 3],
            ngram_indexes=[0, 1, 2, 3],
            pool_strings=["cat", "dog", "ran", "dog", "ran"],
            weights=[1.0, 1.5, 2.0, 2.5],
        ),
        ml("Normalizer", ["counted"], ["of_text"], norm="L2"),
        ml("OneHotEncoder", ["word"], ["hot"], cats_strings=["a", "b", "c"], zeros=1),
        node("Reshape", ["hot", "rows_of_3"], ["of_word"]),
        ml(
            "Imputer",
            ["numbers"],
            ["whole"],
            imputed_value_floats=[0.5, 0.25],
            replaced_value_float=np.nan,
        ),
        ml("Scaler", ["whole"], ["of_numbers"], offset=[0.1, 0.2], scale=[2.0, 0.5]),
        node("Concat", ["of_text", "of_word", "of_numbers"], ["features"], axis=1),
        ml(
            "LinearClassifier",
            ["features"],
            ["label", "scores"],
            classlabels_strings=["maybe", "no", "yes"],
            coefficients=rng.standard_normal(27).tolist(),
            intercepts=[0.1, 0.0, -0.1],
            multi_class=1,
            post_transform="SOFTMAX",
        ),
        ml("Normalizer", ["scores"], ["probabilities"], norm="L1"),
        ml("ZipMap", ["probabilities"], ["maps"], classlabels_strings=["maybe", "no", "yes"]),
    ]
    weights = {"flat": np.array([-1]), "rows_of_3": np.array([-1, 3])}
    return model(nodes, feeds, ["label", "maps"], weights, {"ai.onnx.ml": 1}), feeds


def test_a_pipeline_of_scikit_learn(monkeypatch: pytest.MonkeyPatch):
    data, feeds = pipeline()
    labels, maps = both(data, feeds)
    assert [max(row, key=row.get) for row in maps] == labels.tolist()
    made = []
    monkeypatch.setattr(
        host_nodes, "_session", lambda m, f=host_nodes._session: made.append(m) or f(m)
    )
    session = own.InferenceSession(data)
    for count in (4, 2, 4):  # rows
        some = {name: array[:count] for name, array in feeds.items()}
        alike(session.run(None, some), [labels[:count], maps[:count]])
    neighbours = [{inner.op_type for inner in m.graph.node} for m in made]
    text = {"Reshape", "StringNormalizer", "Tokenizer", "Flatten", "TfIdfVectorizer"}
    assert neighbours == [{*text, "OneHotEncoder"}, {"LinearClassifier"}, {"ZipMap"}]


def turns(op_type: str, state: str, condition: str, count: int) -> tuple[bytes, dict[str, Any]]:
    """Return a Loop of `count` turns that concatenates strings, or collects rows."""
    is_string = state == "strings"
    kind = "string[1]" if is_string else "seq(float[])"
    start = 'Constant <value_strings = ["a"]> ()' if is_string else "SequenceEmpty <dtype = 1> ()"
    product = "c = ConcatFromSequence <axis = 0, new_axis = 1> (y)  m = MatMul (c, w)"
    text = f"""<ir_version: 9, opset_import: ["": 20]> g (float[N, 2] x, int64[M] n) => (y, z)
        <bool yes = {{1}}> {{
        s0 = {start}
        most = ReduceMax <keepdims = 0> (n)
        y, z = {op_type} (most, {condition}, s0) <
            body = body (int64 i, bool go, {kind} s) => (bool on, {kind} t, int64 o) {{
                on = Identity (go)  o = Identity (i)  row = Gather (x, i)
                t = {"StringConcat (s, b)" if is_string else "SequenceInsert (s, row)"} }}>
        {"" if is_string else product}
    }}"""
    made = parse(text, b=words("b"), w=ROWS.T.copy())
    made.graph.output.extend([] if is_string else [onnx.ValueInfoProto(name="m")])
    # The count is the largest of more numbers than sizes follow from.
    return made.SerializeToString(), {"x": ROWS, "n": np.full(5000, count)}


@pytest.mark.parametrize("condition", ["yes", ""])
@pytest.mark.parametrize("state", ["strings", "sequence"])
def test_loops_of_strings_and_sequences(state: str, condition: str):
    outputs = both(*turns("Loop", state, condition, 3))
    assert outputs[1].tolist() == [0, 1, 2]
    if state == "strings":
        assert outputs[0].tolist() == ["abbb"]
        assert both(*turns("Loop", state, condition, 0))[1].tolist() == []
    else:
        np.testing.assert_allclose(outputs[2], ROWS @ ROWS.T)


@pytest.mark.parametrize("condition", [True, False])
def test_branches_with_strings(condition: bool):
    text = """<ir_version: 9, opset_import: ["": 20]>
    g (bool c, string[n] x) => (string[?] z) {
        y = If (c) <then_branch = a () => (string[?] p) {p = Constant <value_strings = ["q"]> ()},
                    else_branch = b () => (string[?] p) {p = StringConcat (x, x)}>
        z = StringConcat (y, y)
    }"""
    data = parser.parse_model(text).SerializeToString()
    both(data, {"c": np.array(condition), "x": words("a", "b")})


def test_a_function_of_other_versions():
    x = words("a", "b")
    made = onnx.ModelProto.FromString(
        model([node("f", ["x"], ["y"], domain="l")], {"x": x}, ["y"], versions={"l": 1, "": 18})
    )
    inner = [node("StringConcat", ["a", "a"], ["b"])]
    opsets = [helper.make_opsetid("", 20)]
    made.functions.append(helper.make_function("l", "f", ["a"], ["b"], inner, opsets))
    (y,) = own.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    assert y.tolist() == ["aa", "bb"]


def test_sequences_pass_from_host_to_jax_and_back():
    x, empty = words("a", "b"), [words("c")]
    nodes = [
        node("SequenceInsert", ["q", "x"], ["r"]),
        node("SequenceLength", ["r"], ["n"]),
        node("Add", ["n", "n"], ["m"]),
        node("SequenceAt", ["r", "place"], ["y"]),
    ]
    data = model(nodes, {"q": empty, "x": x}, ["r", "m", "y"], {"place": np.array(-1)})
    both(data, {"q": empty, "x": x})
    both(data, {"q": [], "x": x})


def test_an_error_has_the_class_of_onnx_runtime_and_one_line():
    x = words("abc")
    data = model([node("Cast", ["x"], ["y"], "cast", to=_FLOAT)], {"x": x}, ["y"])
    with pytest.raises(Exception) as wanted:
        real.InferenceSession(data).run(None, {"x": x})
    session = own.InferenceSession(data)
    for _ in range(2):  # the second time without checks of the inputs
        with pytest.raises(OnnxRuntimeError, match=r"^Node 'cast' \(Cast\): \S.*$") as got:
            session.run(None, {"x": x})
        assert type(got.value).__name__ == type(wanted.value).__name__
        assert "\n" not in str(got.value)


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    caches = (host_nodes._package, host_nodes.knows)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for function in caches:
        function.cache_clear()
    yield
    for function in caches:
        function.cache_clear()


TOKENS = [node("Tokenizer", ["x"], ["y"], domain="com.microsoft", mincharnum=1, pad_value="#")]
VECTORS = [ml("SVMRegressor", ["x"], ["y"])]


@pytest.mark.parametrize("nodes", [*STRING_NODES.values(), TOKENS, VECTORS])
def test_a_missing_package_is_named_when_a_session_is_made(nodes: Any, without_package: None):
    weights = {"i": np.array([1, 2]), "d": np.array(3), "x3": words("no", "yes")}
    data = model(nodes, {"x": SENTENCES}, ["y"], weights, {"ai.onnx.ml": 2})
    with pytest.raises(NotImplemented, match=r"^[^\n]*\(\w+\)[^\n]*: pip install onnxruntime$"):
        own.InferenceSession(data)


def test_a_missing_package_is_named_by_a_loop_that_data_end(without_package: None):
    data, feeds = turns("Loop", "sequence", "yes", 3)
    with pytest.raises(OnnxRuntimeError, match=r"\(Loop\)[^\n]*: pip install onnxruntime$"):
        own.InferenceSession(data).run(None, feeds)


def test_what_nobody_computes_is_refused_when_a_session_is_made():
    text = """<ir_version: 9, opset_import: ["": 20]>
    g (uint8[n] x) => (uint8[?,?,3] y) { y = ImageDecoder (x) }"""
    with pytest.raises(NotImplemented, match=r"Node 'y' \(ImageDecoder\)"):
        own.InferenceSession(parser.parse_model(text).SerializeToString())
    data = model([node("Foo", ["x"], ["y"], domain="com.microsoft")], {"x": ROWS}, ["y"])
    with pytest.raises(InvalidGraph, match=r"com\.microsoft\.Foo"):
        own.InferenceSession(data)


def test_numbers_need_no_package(without_package: None):
    nodes = [
        ml("LabelEncoder", ["i"], ["j"], keys_int64s=[1, 2], values_floats=[0.5, 2.0]),
        ml("OneHotEncoder", ["i"], ["h"], cats_int64s=[2, 7]),
        ml(
            "TreeEnsembleClassifier",
            ["x"],
            ["l", "s"],
            classlabels_int64s=[3, 7],
            **CLASSIFIERS["TreeEnsembleClassifier"],
        ),
    ]
    feeds = {"i": np.array([2, 7]), "x": ROWS}
    session = own.InferenceSession(model(nodes, feeds, ["j", "h", "l"]))
    encoded, hot, labels = session.run(None, feeds)
    assert encoded.tolist() == [2.0, 0.0]
    assert hot.tolist() == [[1, 0], [0, 1]]
    assert labels.tolist() == [7, 3, 7]


def test_a_program_that_imports_onnxruntime_has_both(tmp_path: Path):
    """The name is this package's, and its host nodes run in the real one."""
    data, _ = turns("Loop", "strings", "", 2)
    (tmp_path / "m.onnx").write_bytes(data)
    program = """
import numpy as np
import onnxruntime as ort
session = ort.InferenceSession("m.onnx")
print(session.run(["y"], {"x": np.zeros((3, 2), np.float32), "n": np.full(5000, 2)})[0].tolist())
import onnxruntime, onnxruntime.capi.onnxruntime_pybind11_state as state
print(onnxruntime is ort, ort.__file__.split("/")[-3:-1], state.Fail.__module__)
"""
    (tmp_path / "p.py").write_text(program)
    command = [sys.executable, "-m", "dml_jax.onnxruntime", "--no-cache", "p.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "['abb']"
    assert second == "True ['dml_jax', 'onnxruntime'] dml_jax.onnxruntime.errors"
