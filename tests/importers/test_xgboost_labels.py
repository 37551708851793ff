"""Labels of XGBoost where margins are next to the threshold or to each other."""

import copy
import json

import numpy as np
import pytest
import xgboost as xgb

import scurry
from support.xgboost_models import document, train, tree_documents


def single_leaves(objective, margins, n_class=0):
    """A model whose rows reach, by the value of feature 0, exactly these margins (one row each per output)."""
    model = train(objective, rounds=1, max_depth=1, base_score=0.5 if objective == "binary:logistic" else 0.0)
    saved = document(model)
    template = tree_documents(saved)[0]
    size = len(margins)
    trees = []
    for output in range(max(n_class, 1)):
        tree = copy.deepcopy(template)
        n = 2 * size - 1  # a chain: node 2i tests x < i + 0.5, its left child 2i + 1 is leaf i
        inner = [node % 2 == 0 and node < n - 1 for node in range(n)]
        leaf = [margins[min(node // 2, size - 1)][output] for node in range(n)]
        tree |= {
            "left_children": [node + 1 if split else -1 for node, split in enumerate(inner)],
            "right_children": [node + 2 if split else -1 for node, split in enumerate(inner)],
            "parents": [2147483647] + [(node - 1) // 2 * 2 for node in range(1, n)],
            "split_conditions": [node // 2 + 0.5 if split else float(leaf[node]) for node, split in enumerate(inner)],
            "tree_param": template["tree_param"] | {"num_nodes": str(n)},
            "id": output,
        }
        for name in ("base_weights", "loss_changes", "sum_hessian"):
            tree[name] = [1.0] * n
        for name in ("default_left", "split_indices", "split_type"):
            tree[name] = [0] * n
        trees.append(tree)
    tree_documents(saved)[:] = trees
    loaded = xgb.XGBClassifier()
    loaded.load_model(bytearray(json.dumps(saved).encode()))
    rows = np.zeros((size, 5), np.float32)
    rows[:, 0] = np.arange(size)
    return loaded, rows


def neighbours(center, n=20):
    """Float32 numbers around `center`, not below zero."""
    bits = np.float32(center).view(np.int32) + np.arange(-n, n + 1)
    return bits[bits >= 0].astype(np.int32).view(np.float32)


@pytest.mark.parametrize("objective", ["binary:logistic", "binary:logitraw", "binary:hinge"])
def test_labels_beside_the_decision_threshold(objective):
    threshold = scurry.from_model(single_leaves(objective, [[0.0], [1.0]])[0]).decision_threshold
    margins = np.concatenate([neighbours(threshold), [0.0, -0.0, 1e-45, -1e-45, 0.5, 0.50000006, 89, -89, -200]])
    margins = np.concatenate([margins, neighbours(2**-24), neighbours(2**-23)])
    model, rows = single_leaves(objective, np.float32(margins).reshape(-1, 1))
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.scores(rows)[:, 0], model.predict(rows, output_margin=True))
    np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
    assert set(forest.predict(rows)) == {0, 1}


@pytest.mark.parametrize("objective", ["multi:softprob", "multi:softmax"])
def test_labels_of_nearly_equal_margins(objective):
    rng = np.random.default_rng(5)
    margins = np.float32(rng.choice([0.3, 1.0, 8.5], (200, 1)) * np.ones(3))
    margins = (margins.view(np.int32) + rng.integers(-2, 3, margins.shape)).astype(np.int32).view(np.float32)
    model, rows = single_leaves(objective, margins, n_class=3)
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.scores(rows), margins)
    np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
    # The rule matters: rounding makes ties of probabilities that are none of margins.
    differs = (margins.argmax(axis=1) != model.predict(rows)).any()
    assert differs == (objective == "multi:softprob")
