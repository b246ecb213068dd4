"""Nodes of strings, maps and sequences in sessions, beside sessions of ONNX Runtime."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build import alike, parse, runtime, saved

import dml_jax.onnxruntime as own
from dml_jax.onnxruntime import host_nodes
from dml_jax.onnxruntime.errors import InvalidGraph, NotImplemented, OnnxRuntimeError

ROWS = np.array([[0, 0], [1, 1], [0, -1]], np.float32)


def words(*values: str) -> np.ndarray:
    return np.array(values, object)


def model(text: str, opset: int = 20, learning: int = 3, **weights: np.ndarray) -> Any:
    """Return the model of `(inputs) => (outputs) { nodes }`, with a version of `ai.onnx.ml`."""
    versions = f'"": {opset}, "ai.onnx.ml": {learning}, "com.microsoft": 1, "l": 1'
    return parse(f"<ir_version: 9, opset_import: [{versions}]> g {text}", **weights)


def session(made: Any) -> own.InferenceSession:
    return own.InferenceSession(made.SerializeToString())


def both(made: Any, **feeds: Any) -> list[Any]:
    """Return the outputs of a session, which are those of ONNX Runtime."""
    found = session(made).run(None, feeds)
    alike(found, runtime(made, feeds), rtol=1e-4, atol=1e-5)
    return found


FLOATS = np.array([1, 100, 16777216, 0.5, -2.25, np.nan, np.inf, -np.inf], np.float32)


@pytest.mark.parametrize(
    ("kind", "x", "to", "wanted"),
    [
        ("float", FLOATS, 8, ["1", "100", "16777216", "0.5", "-2.25", "NaN", "INF", "-INF"]),
        ("bool", np.array([True, False]), 8, ["1", "0"]),
        ("int64", np.array([-(2**60), 7]), 8, ["-1152921504606846976", "7"]),
        ("string", words("1", "-2.5e3", "INF"), 1, [1.0, -2500.0, np.inf]),
        ("string", words("1", "0"), 9, [True, False]),
    ],
)
def test_casts_of_strings(kind: str, x: np.ndarray, to: int, wanted: list[Any]):
    (y,) = both(model(f"({kind}[n] x) => (y) {{ y = Cast <to = {to}> (x) }}"), x=x)
    assert y.tolist() == wanted


LOCALE = 'locale = "C.utf8"'  # ONNX Runtime asks the system for ONNX's default, en_US
SENTENCES = words(" the cat,  a dog", "", "éa Ñ")
STRING_NODES = {
    "upper": f'(y) {{ y = StringNormalizer <case_change_action = "UPPER", {LOCALE}> (x) }}',
    "stopwords": f'(y) {{ y = StringNormalizer <stopwords = ["ÉA Ñ"], {LOCALE}> (x) }}',
    "split": "(y, n) { y, n = StringSplit <maxsplit = 1> (x) }",
    "one hot": "(y) { y = OneHot (i, d, x3) }",
    "pattern": '(y) { y = RegexFullMatch <pattern = ".*a.*"> (x) }',
    "mapped": """(y)
        { y = ai.onnx.ml.CategoryMapper <cats_int64s = [4], cats_strings = ["éa Ñ"]> (x) }""",
    "encoded": """(y)
        { y = ai.onnx.ml.LabelEncoder <keys_strings = ["éa Ñ"], values_floats = [0.5]> (x) }""",
    "moved": """(y) { c = Concat <axis = 0> (x, x)  g = Gather (c, i)  e = Equal (g, g)
        f = Cast <to = 1> (e)  y = Neg (f) }""",
}


def of_strings(text: str, learning: int) -> Any:
    weights = {"i": np.array([1, 2]), "d": np.array(3), "x3": words("no", "yes")}
    return model(f"(string[n] x) => {text}", learning=learning, **weights)


@pytest.mark.parametrize("name", STRING_NODES)
def test_nodes_of_strings(name: str):
    both(of_strings(STRING_NODES[name], 2 if name == "encoded" else 1), x=SENTENCES)


@pytest.mark.parametrize(
    ("key", "encoder", "x"),
    [
        ("string", 'DictVectorizer <string_vocabulary = ["a", "b"]>', {"a": 1.0, "c": 3.0}),
        ("int64", "DictVectorizer <int64_vocabulary = [5, 2]>", {2: 1.0, 7: 3.0}),
        ("int64", 'CastMap <map_form = "SPARSE", max_map = 4>', {0: 1.0, 2: 3.0}),
    ],
)
def test_maps_go_in(key: str, encoder: str, x: Any):
    nodes = f"y = ai.onnx.ml.{encoder} (x)  z = Mul (y, y)"
    both(model(f"(map({key}, float[]) x) => (y, z) {{ {nodes} }}"), x=x)


CLASSIFIERS = {
    "LinearClassifier": """coefficients = [1.0, -2.0, 0.5, 1.0], intercepts = [0.1, 0.0],
        post_transform = "SOFTMAX\"""",
    "SVMClassifier": """coefficients = [0.5, -1.0, 0.25, 0.75], kernel_type = "RBF",
        kernel_params = [0.4, 0.0, 3.0], vectors_per_class = [2, 2],
        support_vectors = [0.5, 0.5, -1.0, 2.0, 3.0, -2.0, 1.0, 0.0], rho = [0.3],
        prob_a = [-1.5], prob_b = [0.1]""",
    # One column of weights, some negative.
    "TreeEnsembleClassifier": """nodes_treeids = [0, 0, 0, 0, 0], nodes_nodeids = [0, 1, 2, 3, 4],
        nodes_featureids = [0, 1, 0, 0, 0], nodes_values = [0.5, -0.2, 0.0, 0.0, 0.0],
        nodes_modes = ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        nodes_truenodeids = [1, 3, 0, 0, 0], nodes_falsenodeids = [2, 4, 0, 0, 0],
        class_treeids = [0, 0, 0], class_nodeids = [2, 3, 4], class_ids = [0, 0, 0],
        class_weights = [-1.0, 0.2, 0.7]""",
}


@pytest.mark.parametrize(
    ("kind", "names", "listed"),
    [("string", ["no", "yes"], '["no", "yes"]'), ("int", [3, 7], "[3, 7]")],
)
@pytest.mark.parametrize("op_type", CLASSIFIERS)
def test_classifiers_and_a_list_of_maps(op_type: str, kind: str, names: list[Any], listed: str):
    of_maps = kind.replace("int", "int64")
    of_labels = of_maps if op_type == "TreeEnsembleClassifier" else kind
    label, maps, scores = both(
        model(
            f"""(float[n, 2] x) => (label, y, p) {{
            label, p = ai.onnx.ml.{op_type}
                <{CLASSIFIERS[op_type]}, classlabels_{of_labels}s = {listed}> (x)
            y = ai.onnx.ml.ZipMap <classlabels_{of_maps}s = {listed}> (p) }}""",
            learning=1,
        ),
        x=ROWS,
    )
    assert maps == [dict(zip(names, row, strict=True)) for row in scores.tolist()]
    assert len(label) == 3


def test_probabilities_of_three_classes_are_coupled_pairs():
    """Libsvm's coupling (Wu, Lin and Weng, 2004), as scikit-learn and ONNX Runtime have it."""
    rng = np.random.default_rng(0)
    vectors, x = rng.standard_normal((6, 2)), rng.standard_normal((5, 2)).astype(np.float32)
    made = model(f"""(float[n, 2] x) => (label, p) {{ label, p = ai.onnx.ml.SVMClassifier
        <classlabels_strings = ["a", "b", "c"], kernel_type = "RBF",
        kernel_params = [0.4, 0.0, 3.0], vectors_per_class = [2, 2, 2],
        coefficients = {rng.standard_normal(12).tolist()},
        support_vectors = {vectors.ravel().tolist()}, rho = [0.3, -0.1, 0.2],
        prob_a = [-1.5, -0.7, -2.0], prob_b = [0.1, -0.2, 0.0]> (x) }}""")
    _, p = both(made, x=x)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-5)


def pipeline() -> tuple[Any, dict[str, np.ndarray]]:
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
    made = model(
        f"""(string[n, 1] text, string[n, 1] word, float[n, 2] numbers) => (label, maps) {{
        texts = Reshape (text, flat)
        lower = StringNormalizer <case_change_action = "LOWER", {LOCALE}> (texts)
        tokens = com.microsoft.Tokenizer <mark = 0, mincharnum = 1, pad_value = "#",
            tokenexp = "[a-zA-Z0-9_]+"> (lower)
        rows = Flatten (tokens)
        counted = TfIdfVectorizer <mode = "TFIDF", min_gram_length = 1, max_gram_length = 2,
            max_skip_count = 0, ngram_counts = [0, 3], ngram_indexes = [0, 1, 2, 3],
            pool_strings = ["cat", "dog", "ran", "dog", "ran"], weights = [1.0, 1.5, 2.0, 2.5]>
            (rows)
        of_text = ai.onnx.ml.Normalizer <norm = "L2"> (counted)
        hot = ai.onnx.ml.OneHotEncoder <cats_strings = ["a", "b", "c"], zeros = 1> (word)
        of_word = Reshape (hot, rows_of_3)
        whole = ai.onnx.ml.Imputer <imputed_value_floats = [0.5, 0.25], replaced_value_float = nan>
            (numbers)
        of_numbers = ai.onnx.ml.Scaler <offset = [0.1, 0.2], scale = [2.0, 0.5]> (whole)
        features = Concat <axis = 1> (of_text, of_word, of_numbers)
        label, scores = ai.onnx.ml.LinearClassifier <classlabels_strings = ["maybe", "no", "yes"],
            coefficients = {rng.standard_normal(27).tolist()}, intercepts = [0.1, 0.0, -0.1],
            multi_class = 1, post_transform = "SOFTMAX"> (features)
        probabilities = ai.onnx.ml.Normalizer <norm = "L1"> (scores)
        maps = ai.onnx.ml.ZipMap <classlabels_strings = ["maybe", "no", "yes"]> (probabilities)
        }}""",
        learning=1,
        flat=np.array([-1]),
        rows_of_3=np.array([-1, 3]),
    )
    return made, feeds


def test_a_pipeline_of_scikit_learn(monkeypatch: pytest.MonkeyPatch):
    data, feeds = pipeline()
    labels, maps = both(data, **feeds)
    assert [max(row, key=row.get) for row in maps] == labels.tolist()
    made = []
    monkeypatch.setattr(
        host_nodes, "_session", lambda m, f=host_nodes._session: made.append(m) or f(m)
    )
    ours = session(data)
    for count in (4, 2, 4):  # rows
        some = {name: array[:count] for name, array in feeds.items()}
        alike(ours.run(None, some), [labels[:count], maps[:count]], rtol=1e-4, atol=1e-5)
    neighbours = [{inner.op_type for inner in m.graph.node} for m in made]
    text = {"Reshape", "StringNormalizer", "Tokenizer", "Flatten", "TfIdfVectorizer"}
    assert neighbours == [{*text, "OneHotEncoder"}, {"LinearClassifier"}, {"ZipMap"}]


def turns(state: str, condition: str, count: int) -> tuple[Any, dict[str, Any]]:
    """Return a Loop of `count` turns that concatenates strings, or collects rows."""
    is_string = state == "strings"
    kind = "string[1]" if is_string else "seq(float[])"
    start = 'Constant <value_strings = ["a"]> ()' if is_string else "SequenceEmpty <dtype = 1> ()"
    product = "c = ConcatFromSequence <axis = 0, new_axis = 1> (y)  m = MatMul (c, w)"
    text = f"""(float[N, 2] x, int64[M] n) => (y, z{"" if is_string else ", m"})
        <bool yes = {{1}}> {{
        s0 = {start}
        most = ReduceMax <keepdims = 0> (n)
        y, z = Loop (most, {condition}, s0) <
            body = body (int64 i, bool go, {kind} s) => (bool on, {kind} t, int64 o) {{
                on = Identity (go)  o = Identity (i)  row = Gather (x, i)
                t = {"StringConcat (s, b)" if is_string else "SequenceInsert (s, row)"} }}>
        {"" if is_string else product}
    }}"""
    # The count is the largest of more numbers than sizes follow from.
    return model(text, b=words("b"), w=ROWS.T.copy()), {"x": ROWS, "n": np.full(5000, count)}


@pytest.mark.parametrize("condition", ["yes", ""])
@pytest.mark.parametrize("state", ["strings", "sequence"])
def test_loops_of_strings_and_sequences(state: str, condition: str):
    made, feeds = turns(state, condition, 3)
    outputs = both(made, **feeds)
    assert outputs[1].tolist() == [0, 1, 2]
    if state == "strings":
        assert outputs[0].tolist() == ["abbb"]
        assert both(made, **feeds | {"n": np.zeros(5000, np.int64)})[1].tolist() == []
    else:
        np.testing.assert_allclose(outputs[2], ROWS @ ROWS.T)


@pytest.mark.parametrize("condition", [True, False])
def test_branches_with_strings(condition: bool):
    made = model("""(bool c, string[n] x) => (string[?] z) {
        y = If (c) <then_branch = a () => (string[?] p) {p = Constant <value_strings = ["q"]> ()},
                    else_branch = b () => (string[?] p) {p = StringConcat (x, x)}>
        z = StringConcat (y, y) }""")
    both(made, c=np.array(condition), x=words("a", "b"))


def test_a_function_of_other_versions():
    made = model(
        """(string[n] x) => (y) { y = l.f (x) }
        <domain: "l", opset_import: ["": 20]> f (a) => (b) { b = StringConcat (a, a) }""",
        opset=18,
    )
    (y,) = session(made).run(None, {"x": words("a", "b")})
    assert y.tolist() == ["aa", "bb"]


def test_sequences_pass_from_host_to_jax_and_back():
    made = model(
        """(seq(string[n]) q, string[n] x) => (r, m, y) { r = SequenceInsert (q, x)
        n = SequenceLength (r)  m = Add (n, n)  y = SequenceAt (r, place) }""",
        place=np.array(-1),
    )
    for q in ([words("c")], []):
        both(made, q=q, x=words("a", "b"))


def test_an_error_has_the_class_of_onnx_runtime_and_one_line():
    made, feeds = (
        model("(string[n] x) => (y) { [cast] y = Cast <to = 1> (x) }"),
        {"x": words("abc")},
    )
    with pytest.raises(Exception) as wanted:
        runtime(made, feeds)
    ours = session(made)
    for _ in range(2):  # the second time without checks of the inputs
        with pytest.raises(OnnxRuntimeError, match=r"^Node 'cast' \(Cast\): \S.*$") as got:
            ours.run(None, feeds)
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


TOKENS = '(y) { y = com.microsoft.Tokenizer <mincharnum = 1, pad_value = "#"> (x) }'
MAPPED = '(y) { y = ai.onnx.ml.CategoryMapper <cats_strings = ["a"], cats_int64s = [1]> (x) }'
TYPO = "(y) { y = com.microsoft.FusedMatMull (x) }"


@pytest.mark.parametrize("text", [*STRING_NODES.values(), TOKENS, MAPPED])
def test_a_missing_package_is_named_when_a_session_is_made(text: str, without_package: None):
    with pytest.raises(NotImplemented, match=r"\(\w+\)[^\n]*: pip install onnxruntime$"):
        session(of_strings(text, 2))


def test_an_op_type_that_the_package_lacks_does_not_ask_for_it(without_package: None):
    with pytest.raises(InvalidGraph, match=r"\(did you mean 'FusedMatMul'\?\), got [^:]*$"):
        session(of_strings(TYPO, 2))


def test_a_missing_package_is_named_by_a_loop_that_data_end(without_package: None):
    made, feeds = turns("sequence", "yes", 3)
    with pytest.raises(OnnxRuntimeError, match=r"\(Loop\), since data decides sizes in it: pip"):
        session(made).run(None, feeds)


@pytest.mark.parametrize(
    ("op_type", "error", "text"),
    [
        ("ImageDecoder", NotImplemented, r"Node 'y' \(ImageDecoder\)"),
        ("com.microsoft.Foo", InvalidGraph, r"com\.microsoft\.Foo"),
    ],
)
def test_what_nobody_computes_is_refused_when_a_session_is_made(
    op_type: str, error: Any, text: str
):
    made = model(f"(uint8[n] x) => (uint8[?,?,3] y) {{ y = {op_type} (x) }}")
    with pytest.raises(error, match=text):
        session(made)


def test_numbers_need_no_package(without_package: None):
    made = model(f"""(int64[n] i, float[m, 2] x) => (j, h, l) {{
        j = ai.onnx.ml.LabelEncoder <keys_int64s = [1, 2], values_floats = [0.5, 2.0]> (i)
        h = ai.onnx.ml.OneHotEncoder <cats_int64s = [2, 7]> (i)
        l, s = ai.onnx.ml.TreeEnsembleClassifier
            <{CLASSIFIERS["TreeEnsembleClassifier"]}, classlabels_int64s = [3, 7]> (x) }}""")
    encoded, hot, labels = session(made).run(None, {"i": np.array([2, 7]), "x": ROWS})
    assert encoded.tolist() == [2.0, 0.0]
    assert hot.tolist() == [[1, 0], [0, 1]]
    assert labels.tolist() == [7, 3, 7]


def test_a_program_that_imports_onnxruntime_has_both(tmp_path: Path):
    """The name is this package's, and its host nodes run in the real one."""
    saved(turns("strings", "", 2)[0], tmp_path, "m.onnx")
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
