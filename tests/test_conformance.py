"""The operators against other people's tests and implementations (see docs/conformance.md)."""

import importlib.util

import numpy as np
import pytest
from conformance import torch_answers
from conformance.cases import Case
from conformance.report import PAGE, SOURCES, sections

INSTALLED = [name for name, source in SOURCES.items() if source.is_there]
CASES = {name: SOURCES[name].cases() for name in INSTALLED}


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
    [
        pytest.param(case, id=f"{name}-{case.name}", marks=[])
        for name in INSTALLED
        for case in CASES[name]
    ],
)
def test_case(case: Case):
    case.check()


@pytest.mark.skipif("onnx-node" not in CASES, reason="onnx is not installed")
def test_no_node_test_is_forgotten():
    """What stands in modules of other names, and what is listed but is no test."""
    from conformance import onnx_nodes

    everything = {case.name for case in onnx_nodes.node_tests(everything=True)}
    assert everything == {case.name for case in CASES["onnx-node"]}
    assert set(onnx_nodes.LEFT_OUT) <= everything
    assert {case.group for case in CASES["onnx-node"]} == set(onnx_nodes.TRANSLATIONS)


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
