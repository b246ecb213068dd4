"""The names of operators elsewhere are there, and mean these operators."""

import importlib
import re
from typing import Any

import pytest

import dml_jax
from dml_jax import OPERATORS, facts, functional
from dml_jax.graph import OperatorNode
from dml_jax.show.names import in_jax, names, search


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_the_names_of_libraries_are_there(library: str):
    pytest.importorskip(library)
    for entry in facts.names().values():
        assert all(callable(found(path)) for path in entry.get(library, ()))


def found(path: str) -> Any:
    """Return what a path of names, such as `jax.nn.relu`, leads to."""
    module, *rest = path.split(".")
    value: Any = importlib.import_module(module)
    for name in rest:
        if not hasattr(value, name):
            value = importlib.import_module(f"{value.__name__}.{name}")
        else:
            value = getattr(value, name)
    return value


def test_entries_are_of_operators():
    """An entry without a number is of all versions."""
    assert set(facts.names()) <= set(facts.catalogue())
    assert set(names()) == set(facts.catalogue())
    assert all(names()[name]["function"] for name in names())
    for own in names().values():
        assert all(hasattr(functional, function) for function in own["function"])


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("jnp.max", ["REDUCE"]),
        ("jnp.where", ["ELEMENT_WISE_IF"]),
        ("np.take", ["GATHER"]),
        ("jnp.linalg.norm", ["REDUCE"]),
        ("optax.adam", ["ADAM_OPTIMIZER"]),
        ("dml_jax.if_", ["ELEMENT_WISE_IF"]),
        ("nn.Conv", ["CONVOLUTION"]),
        ("F.gelu", ["ACTIVATION_GELU"]),
        ("softmax", ["ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1"]),
        ("Max", ["ELEMENT_WISE_MAX", "REDUCE"]),
    ],
)
def test_a_whole_name_is_told_from_a_part(word: str, expected: list[str]):
    exact, others = search(word)
    assert list(exact) == expected
    assert not exact.keys() & others.keys()


def test_a_part_of_a_name_or_a_library_finds_operators():
    assert list(search("optax")[1]) == ["ADAM_OPTIMIZER"]
    assert "ELEMENT_WISE_MAX" in search("jnp.max")[1]
    assert search("nowhere") == search("") == ({}, {})


@pytest.mark.parametrize("word", ["reshape", "jnp.transpose", "transpose", "stack", "jnp.var"])
def test_what_no_operator_computes_is_a_function_of_jax(word: str):
    path = in_jax(word)
    assert path == f"jax.numpy.{word.removeprefix('jnp.')}"
    assert callable(found(path))


def test_other_names_of_functions_of_jax():
    assert found(in_jax("dropout")) is found("jax.random.bernoulli")
    assert found(in_jax("torch.permute")) is found("jax.numpy.transpose")
    others = ("jnp.max", "max", "jnp.float32", "jnp.linalg", "nowhere", "torch.sum", "")
    assert [word for word in others if in_jax(word) != ""] == []


def of_onnx() -> dict[str, set[str]]:
    """Return the operators that have each name of ONNX."""
    by_name: dict[str, set[str]] = {}
    for operator, own in names().items():
        for name in own["ONNX"]:
            by_name.setdefault(name, set()).add(operator)
    return by_name


def test_the_names_of_onnx_mean_these_operators():
    """A network of each op type has one of the operators that are called so."""
    from conformance import onnx_nodes

    from dml_jax.onnx.nodes.op_types import OP_TYPES

    own = onnx_nodes.translated()
    others = {
        op_type for (domain, op_type), record in OP_TYPES.items() if domain and record.translators
    }
    assert set(of_onnx()) <= own | others
    tests, right, wrong = onnx_nodes.load(), set(), {}
    for name, operators in of_onnx().items():
        if name not in own:  # of ONNX Runtime, which ONNX has no tests of
            continue
        made: set[str] = set()
        for test in tests.get(name, ()):
            given = zip(onnx_nodes.inputs_of(test.model), test.data_sets[0][0], strict=False)
            inputs = {value.name: onnx_nodes.array_of(array) for value, array in given}
            try:
                graph = onnx_nodes.network_of(test.model, inputs).graph
            except Exception:
                continue
            nodes = graph.nodes if graph else ()
            made |= {n.operator.short_name for n in nodes if isinstance(n, OperatorNode)}
            if made & operators:
                break
        if made & operators:
            right.add(name)
        elif made:  # others are known at load, or refused
            wrong[name] = made
    assert wrong == {}
    assert len(right) > 0.9 * len(own & set(of_onnx()))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("softmax", "(dml_jax.activation_softmax; `dml-jax operators softmax`)"),
        ("sum", "(dml_jax.reduce(x, 'SUM'))"),
        ("where", "(dml_jax.if_; `dml-jax operators where`)"),
        ("Conv", "(dml_jax.Convolution; `dml-jax operators Conv`)"),
        ("Reduc", "(did you mean 'Reduce'?)"),
        ("_zzz", "has no attribute '_zzz'"),
    ],
)
def test_a_name_of_another_library_leads_to_the_operator(name: str, hint: str):
    with pytest.raises(AttributeError, match=re.escape(hint) + "$"):
        getattr(dml_jax, name)


@pytest.mark.parametrize("spelling", ["lower", "short", "camel"])
def test_directml_names_lead_to_the_function_or_the_class(spelling: str):
    """Advice for each operator's name that is no attribute works, and makes that operator."""
    for full, op in OPERATORS.items():
        name = full.removeprefix("DML_OPERATOR_").lower()
        short = name.removeprefix("element_wise_")
        word = {"lower": name, "short": short, "camel": op.__name__.upper()}[spelling]
        if hasattr(dml_jax, word):
            continue
        with pytest.raises(AttributeError) as refused:
            getattr(dml_jax, word)
        advice = re.search(r"\(dml_jax\.(\w+); `dml-jax operators", str(refused.value))
        assert advice, (word, str(refused.value))
        made = getattr(dml_jax, advice[1])
        if spelling == "camel":
            assert made is op
        else:
            assert op in made.family.operators, (word, advice[1])
