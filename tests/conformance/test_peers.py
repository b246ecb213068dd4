"""Operators beside PyTorch's functions, on random input.

`PEERS` of a module conformance/peers_of_<kind>.py has the function of each operator, or `WITHOUT`
says why there is none. Operators that move or reduce elements are in conformance/torch_answers.py.
"""

import zlib
from typing import Any

import numpy as np
import pytest
from conformance.torch_answers import EXPRESSIONS
from records import combinations, records

from dml_jax.operator import OPERATORS

torch = pytest.importorskip("torch")

from conformance import peers_of_elements, peers_of_tensors, peers_of_windows  # noqa: E402

MODULES = (peers_of_elements, peers_of_tensors, peers_of_windows)
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
        expected = PEERS[name](op, *map(torch.from_numpy, arrays))
        pairs = zip(_listed(results), _listed(expected), strict=True)
        for result, other in pairs:
            answer = other.numpy().astype(np.asarray(result).dtype)
            np.testing.assert_allclose(result, answer, rtol=1e-5, atol=1e-6, err_msg=repr(op))


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def test_each_operator_is_named():
    without = [name for module in MODULES for name in module.WITHOUT]
    names = {op.short_name for op in OPERATORS.values()}
    assert names == {*PEERS, *without, *EXPRESSIONS}
    assert not PEERS.keys() & without
