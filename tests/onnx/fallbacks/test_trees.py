"""Ensembles of decision trees, against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest
from build import floats, refusal, same_as_runtime, single
from onnx import numpy_helper

TABULAR = "ai.onnx.ml"
RANDOM = np.random.RandomState(5)
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
X = floats(RANDOM.randint(-2, 3, (12, 4)))
X[3, 1] = X[7, 0] = np.nan


def trees(kind: str, targets: list[int], modes: list[str], low: float = -1.0) -> dict[str, Any]:
    """Return attributes of 3 full trees of 7 nodes, whose leaves are in `targets`."""
    found: dict[str, list[Any]] = {}
    for tree in range(3):
        for own in range(7):
            is_leaf = own > 2
            new = {
                "treeids": tree,
                "nodeids": own,
                "featureids": RANDOM.randint(4),
                "values": float(RANDOM.randint(-2, 3)),
                "modes": "LEAF" if is_leaf else modes[(tree + own) % len(modes)],
                "truenodeids": 0 if is_leaf else 2 * own + 1,
                "falsenodeids": 0 if is_leaf else 2 * own + 2,
                "missing_value_tracks_true": RANDOM.randint(2),
            }
            for name, value in new.items():
                found.setdefault(f"nodes_{name}", []).append(value)
            for target in targets if is_leaf else ():
                weight = float(RANDOM.uniform(low, 1))
                ids = {"treeids": tree, "nodeids": own, "ids": target, "weights": weight}
                for name, value in ids.items():
                    found.setdefault(f"{kind}_{name}", []).append(value)
    return found


def of(op_type: str, outputs: str, version: int = 3, **attributes: Any) -> Any:
    given: Any = {"outputs": outputs, "domain": TABULAR, "version": version}
    return single(op_type, {"x": X}, **given, **attributes)


def check(model: Any) -> None:
    same_as_runtime(model, {"x": X}, fallback=True)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("count", [1, 3])
def test_the_leaves_of_all_trees_are_aggregated(aggregate: str, count: int):
    attributes = trees("target", list(range(count)), MODES[:1])
    added = floats(range(count)).tolist()
    model = {"n_targets": count, "aggregate_function": aggregate, "base_values": added}
    check(of("TreeEnsembleRegressor", "y", **model, **attributes))


def test_a_node_compares_as_its_mode_says():
    check(of("TreeEnsembleRegressor", "y", n_targets=1, **trees("target", [0], MODES)))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_classes_have_the_scores_of_their_leaves(transform: str):
    attributes = trees("class", [0, 1, 2], MODES[:1])
    model = {"classlabels_int64s": [7, 5, 9], "post_transform": transform}
    check(of("TreeEnsembleClassifier", "l z", **model, **attributes))


@pytest.mark.parametrize("low", [-1.0, 0.0])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("added", [[], [0.25]])
def test_two_classes_may_have_one_score(low: float, transform: str, added: list[float]):
    attributes = trees("class", [0], MODES[:1], low) | ({"base_values": added} if added else {})
    model = {"classlabels_int64s": [4, 8], "post_transform": transform}
    check(of("TreeEnsembleClassifier", "l z", **model, **attributes))


def test_leaves_may_be_a_list_of_their_own():
    tensor = numpy_helper.from_array
    sets = floats([0, 2, np.nan, -1])
    check(
        of(
            "TreeEnsemble",
            "y",
            5,
            n_targets=2,
            aggregate_function=1,
            post_transform=0,
            tree_roots=[0],
            nodes_modes=tensor(np.array([0, 6, 6], np.uint8)),
            nodes_featureids=[0, 2, 3],
            nodes_splits=tensor(floats([0.5, 0, 0])),
            nodes_truenodeids=[1, 0, 2],
            nodes_trueleafs=[0, 1, 1],
            nodes_falsenodeids=[2, 1, 3],
            nodes_falseleafs=[0, 1, 1],
            leaf_targetids=[0, 1, 0, 1],
            leaf_weights=tensor(floats([5.5, -1.25, 3, 7])),
            membership_values=tensor(sets),
        )
    )


def test_an_unknown_mode_is_named():
    attributes = trees("target", [0], ["BRANCH_NEAR"])
    message = refusal(of("TreeEnsembleRegressor", "y", n_targets=1, **attributes), fallback=True)
    assert "expected nodes_modes to be" in message
    assert "BRANCH_NEAR" in message


def test_a_column_beyond_the_last_is_named():
    attributes = trees("target", [0], MODES[:1]) | {"nodes_featureids": [4] * 21}
    message = refusal(of("TreeEnsembleRegressor", "y", n_targets=1, **attributes), fallback=True)
    assert "expected nodes_featureids to be columns of the input, from 0 to 3, got 4" in message
