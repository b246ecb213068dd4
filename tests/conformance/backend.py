"""ONNX's own runner of backend tests, with `dml_jax.onnx.backend`.

`python tests/conformance/backend.py` prints the outcomes of all tests as JSON.
"""

import json
import os
import sys
import unittest
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))  # as pytest has it
    QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK}"

import onnx.backend.test
from conformance.onnx_nodes import reason

from dml_jax import DmlError
from dml_jax.onnx.backend import DmlBackend, DmlRep

SCOREBOARD = "https://github.com/onnx/backend-scoreboard/tree/main/results"
PUBLISHED = (  # backend, folder, version, ONNX, tests, passed, day
    (
        "ONNX's reference implementation",
        "onnx-reference",
        "1.21.0",
        "1.21.0",
        1827,
        1797,
        "2026-03-29",
    ),
    ("ONNX Runtime", "onnx-runtime", "1.19.2", "1.16.2", 1431, 1252, "2024-10-01"),
    ("onnx-tf", "onnx-tf", "1.9.0", "1.11.0", 1013, 945, "2022-03-17"),
    ("jaxonnxruntime, development", "jaxonnxruntime", "0.3.0", "1.16.1", 1431, 500, "2024-06-21"),
)
"""What ONNX's scoreboard published last of a version that ran."""


@dataclass
class Outcomes:
    """What came of the tests of the runner.

    Attributes:
        tests: how many there are on this device.
        passed: how many passed.
        at_load: how many of these had small inputs alone, so that loading computed the outputs.
        others: why the others did not, by name.
    """

    tests: int = 0
    passed: int = 0
    at_load: int = 0
    others: dict[str, str] = field(default_factory=dict)


class _Watched(DmlBackend):
    """The backend, which remembers the last model that it prepared."""

    last: DmlRep | None = None

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> DmlRep:
        _Watched.last = super().prepare(model, device, **kwargs)
        return _Watched.last


class _Result(unittest.TestResult):
    """Counts tests, with the reasons of those that do not pass."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes = Outcomes()

    def _other(self, test: Any, why: str) -> None:
        self.outcomes.tests += 1
        self.outcomes.others[test.id().rpartition(".")[2]] = why

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        self.outcomes.tests += 1
        self.outcomes.passed += 1
        networks = [] if _Watched.last is None else _Watched.last.networks
        self.outcomes.at_load += bool(networks) and not any(n.inputs for n in networks)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        if "compatible" in reason:
            self._other(test, "`is_compatible` says no")

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        is_random = "bernoulli" in test.id()
        random = "the answer is that of NumPy's random numbers"
        self._other(test, random if is_random else "the runner's tolerance is less than ours")

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        found = {reason(fault) for fault in err[1].faults} if isinstance(err[1], DmlError) else {""}
        self._other(test, next(iter(sorted(found - {""})), str(err[1]).partition("\n")[0]))


def outcomes(patterns: Sequence[str] = ()) -> Outcomes:
    """Run the tests whose names have one of some patterns, by default all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's own, on the way
        runner = onnx.backend.test.BackendTest(_Watched, __name__)
        for pattern in patterns:
            runner.include(pattern)
        result = _Result()
        runner.test_suite.run(result)
    return result.outcomes


if __name__ == "__main__":
    print(json.dumps(asdict(outcomes(sys.argv[1:]))))  # noqa: T201
