"""Operators beside PyTorch's functions, on random input.

A module conformance/random_<family>.py names the function of each operator in `PEERS`, or in
`WITHOUT` why there is none.
"""

import importlib
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from records import combinations, records

from dml_jax.operator import OPERATORS

torch = pytest.importorskip("torch")
FOLDER = Path(__file__).parents[1] / "conformance"
MODULES = [
    importlib.import_module(f"conformance.{path.stem}")
    for path in sorted(FOLDER.glob("random_*.py"))
]
PEERS: dict[str, Any] = {name: peer for m in MODULES for name, peer in m.PEERS.items()}


@pytest.mark.parametrize("name", PEERS)
def test_as_pytorch(name: str):
    op_class, record = OPERATORS[f"DML_OPERATOR_{name}"], records()[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    every = [types for types, _ in combinations(op_class, record)]
    types = next((t for t in every if "FLOAT32" in t.values()), every[0])
    for _ in range(2):
        op = record.operator(rng, op_class, types)
        arrays = record.arrays(rng, op)
        results = op(*arrays)
        expected = PEERS[name](op)(*map(torch.from_numpy, arrays))
        pairs = zip(_listed(results), _listed(expected), strict=True)
        for result, other in pairs:
            answer = other.numpy().astype(np.asarray(result).dtype)
            np.testing.assert_allclose(result, answer, rtol=1e-5, atol=1e-6, err_msg=repr(op))


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_each_operator_of_the_family_is_named(module: Any):
    family = module.__name__.removeprefix("conformance.random_")
    names = {op.short_name for op in OPERATORS.values() if op.family == family}
    assert names == {*module.PEERS, *module.WITHOUT}
