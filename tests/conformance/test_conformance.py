"""The operators against other people's tests and implementations (see docs/conformance.md)."""

import importlib.util

import numpy as np
import pytest
from conformance import torch_answers
from conformance.cases import Case
from conformance.report import BY_JAX, EXPORTED, ONNX_TITLE, PAGE, SOURCES, sections
from nightly import NIGHTLY, sample

# ONNX has no test of these, which other tests compare with ONNX Runtime.
UNTESTED = {"GlobalLpPool", "MaxRoiPool", "Affine", "Crop", "ImageScaler", "ParametricSoftplus"}
UNTESTED |= {"Scale", "ScaledTanh", "SimplifiedLayerNormalization"}
# test_op_types.py has their distributions; ONNX's answers are those of NumPy's generator.
UNTESTED |= {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"}
UNTESTED |= {"RandomUniformLike"}
INSTALLED = [name for name, source in SOURCES.items() if source.is_there]
CASES = {name: SOURCES[name].cases() for name in INSTALLED}


def chosen(name: str) -> list[Case]:
    """Return the cases that run: of a large source two of each operator, else every other one."""
    if NIGHTLY or not SOURCES[name].is_sampled:
        return sample(CASES[name])
    groups: dict[str, list[Case]] = {}
    for case in CASES[name]:
        groups.setdefault(case.group, []).append(case)
    return [case for cases in groups.values() for case in cases[:: max(1, len(cases) // 2)][:2]]


@pytest.mark.parametrize("name", SOURCES)
def test_the_source_is_there_and_the_page_says_what_it_has(name: str):
    source = SOURCES[name]
    if not source.is_there:
        pytest.skip(f"{source.needs} is not installed (pip install '.[test]' brings it)")
    names = [case.name for case in CASES[name]]
    assert names
    assert len(set(names)) == len(names)
    row, lines = sections(source, CASES[name], [])
    page, advice = PAGE.read_text(), "python tests/conformance/report.py writes the page"
    assert "\n".join(lines) in page, advice
    # The page's versions are those that it was written with.
    assert row.rpartition(f"{source.version()} |")[2] in page, advice


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{name}-{case.name}") for name in INSTALLED for case in chosen(name)],
)
def test_case(case: Case):
    case.check()


def _listed() -> list[tuple[str, list[int]]]:
    """Return the op types of the page, with their numbers: all, run, right, left out, by JAX."""
    section = PAGE.read_text().partition(f"## {ONNX_TITLE}")[2].partition(f"| {BY_JAX} because")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:2] == "| "]
    return [(name, [*map(int, numbers)]) for name, *numbers in rows if numbers[0].isdigit()]


@pytest.mark.parametrize("op_type", [name for name, (_, run, *_) in _listed() if run])
def test_onnx_tests_of(op_type: str):
    """Run some tests of the op type, and compare the page with the outcomes."""
    onnx_nodes = pytest.importorskip("conformance.onnx_nodes", reason="onnx is not installed")
    if op_type == EXPORTED:
        tests = onnx_nodes.exported()
    else:
        tests = onnx_nodes.load([op_type]).get(op_type, [])
    (count, run, right, left_out, by_jax), page = dict(_listed())[op_type], PAGE.read_text()
    assert (len(tests), run + left_out, right) == (count, count, run)
    outcomes = onnx_nodes.outcomes(onnx_nodes.sample(tests))
    assert not "".join(outcome.wrong for outcome in outcomes)
    for outcome in outcomes:
        if outcome.left_out:
            assert left_out
            assert f"| {outcome.left_out} |" in page
        if outcome.by_jax:
            assert by_jax
            assert f"| {outcome.by_jax} |" in page


def test_every_translator_is_tested_by_onnx():
    onnx_nodes = pytest.importorskip("conformance.onnx_nodes", reason="onnx is not installed")
    run = {name for name, (_, run, _, _, by_jax) in _listed() if run > by_jax}
    assert onnx_nodes.translated() - run == UNTESTED


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="PyTorch is not installed; its answers are kept",
)
def test_the_kept_answers_are_pytorchs():
    for kept in torch_answers.kept()[1]:
        told = torch_answers.answer(kept.operator, kept.inputs)
        for part in torch_answers.PARTS:
            for a, b in zip(getattr(kept, part), getattr(told, part), strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
