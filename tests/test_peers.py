"""Results are PyTorch's, for random descriptions of the operators that PyTorch has too."""

import importlib
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from records import combinations, records

from dml_jax import facts
from dml_jax.operator import OPERATORS

MODULES = [
    importlib.import_module(f"conformance.{path.stem}")
    for path in sorted((Path(__file__).parent / "conformance").glob("random_*.py"))
]
PEERS: dict[str, Any] = {name: peer for m in MODULES for name, peer in m.PEERS.items()}
WITHOUT: dict[str, str] = {name: why for m in MODULES for name, why in m.WITHOUT.items()}


def test_all_operators_of_a_family_have_a_peer_or_a_reason():
    assert not PEERS.keys() & WITHOUT.keys()
    named = PEERS.keys() | WITHOUT.keys()
    families = {facts.catalogue()[name]["family"] for name in named}
    of_families = {op.short_name for op in OPERATORS.values() if op.family in families}
    assert of_families == named


@pytest.mark.parametrize("name", PEERS)
def test_results_are_pytorchs(name: str):
    torch = pytest.importorskip("torch")
    op_class, record = OPERATORS[f"{facts.PREFIX}{name}"], records()[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    both = combinations(op_class, record)
    types = next((t for t, _ in both if "FLOAT32" in t.values()), both[0][0])
    for _ in range(2):
        op = record.operator(rng, op_class, types)
        arrays = record.arrays(rng, op)
        results, expected = (
            made if isinstance(made, (list, tuple)) else [made]
            for made in (op(*arrays), PEERS[name](op)(*map(torch.from_numpy, arrays)))
        )
        for result, other in zip(results, expected, strict=True):
            answer = other.numpy().astype(np.asarray(result).dtype)
            np.testing.assert_allclose(result, answer, rtol=1e-5, atol=1e-6, err_msg=repr(op))
