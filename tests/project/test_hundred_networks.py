"""The list of networks that packages ship, and the results that are kept of it."""

import collections
import json
import re
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NETWORKS = json.loads((BENCHMARKS / "networks.json").read_text())
LIST = {name: entry for name, entry in NETWORKS.items() if "what" in entry}
KEPT = sorted((BENCHMARKS / "results").glob("hundred-networks-*.json"))


def packages() -> list[str]:
    """Return the name of each network's package, without its version."""
    found = (entry["package"] for entry in LIST.values())
    return [re.split("==|(?<!^)@", p if isinstance(p, str) else p[0])[0] for p in found]


def test_a_package_has_at_most_two_of_a_hundred_networks():
    assert len(LIST) >= 100
    assert max(collections.Counter(packages()).values()) == 2


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_kept_results_are_of_the_list(path: Path):
    rows = json.loads(path.read_text())["networks"]
    assert list(rows) == [name for name in LIST if name in rows]
    assert sum(row.get("is_right", False) for row in rows.values()) >= 95
