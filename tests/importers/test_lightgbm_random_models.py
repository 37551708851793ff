"""Models that LightGBM reads and nobody trained: every kind of node beside every other."""

import lightgbm as lgb
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from support.lightgbm_models import QUIET, ZERO
from support.strategies import SPECIAL, adversarial_rows

THRESHOLDS = np.r_[
    SPECIAL[np.isfinite(SPECIAL)], ZERO, -ZERO, np.nextafter(ZERO, 0), 0.1, np.float32(0.1), 1e-40, 2.5, -3.0
]


def random_tree(rng, index, n_features):
    n_leaves = int(rng.integers(1, 10))
    left, right, parent = [], [], {0: None}
    for node in range(n_leaves - 1):
        leaf = int(rng.integers(0, node + 1))
        if parent[leaf] is not None:
            at, side = parent[leaf]
            side[at] = node
        left.append(-1 - leaf)
        right.append(-1 - (node + 1))
        parent[leaf], parent[node + 1] = (node, left), (node, right)
    categorical = rng.random(n_leaves - 1) < 0.3
    n_sets = int(categorical.sum())
    sizes = rng.integers(1, 4, n_sets)
    threshold = np.where(categorical, np.cumsum(categorical) - 1, rng.choice(THRESHOLDS, n_leaves - 1))
    entries = {
        "num_leaves": [n_leaves],
        "num_cat": [n_sets],
        "split_feature": rng.integers(0, n_features, n_leaves - 1),
        "split_gain": np.ones(n_leaves - 1, int),
        "threshold": [f"{x:.17g}" for x in threshold],
        "decision_type": categorical + 2 * rng.integers(0, 2, n_leaves - 1) + 4 * rng.integers(0, 3, n_leaves - 1),
        "left_child": left,
        "right_child": right,
        "leaf_value": [f"{x:.17g}" for x in rng.normal(size=n_leaves)],
        "leaf_weight": rng.integers(1, 9, n_leaves),
        "leaf_count": rng.integers(1, 9, n_leaves),
        "internal_value": np.zeros(n_leaves - 1, int),
        "internal_weight": np.zeros(n_leaves - 1, int),
        "internal_count": np.ones(n_leaves - 1, int),
    }
    if n_sets:
        entries |= {
            "cat_boundaries": np.r_[0, np.cumsum(sizes)],
            "cat_threshold": rng.integers(0, 2**32, sizes.sum()),
        }
    entries |= {"is_linear": [0], "shrinkage": [1]}
    lines = "\n".join(f"{key}={' '.join(map(str, values))}" for key, values in entries.items())
    return f"Tree={index}\n{lines}\n\n\n"


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_outputs=st.sampled_from([1, 3]), average=st.booleans())
def test_random_models(seed, n_outputs, average):
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 4))
    trees = [random_tree(rng, index, n_features) for index in range(n_outputs * int(rng.integers(1, 5)))]
    header = {
        "version": "v4",
        "num_class": n_outputs,
        "num_tree_per_iteration": n_outputs,
        "label_index": 0,
        "max_feature_idx": n_features - 1,
        "objective": f"multiclass num_class:{n_outputs}" if n_outputs > 1 else "binary sigmoid:1",
        "feature_names": " ".join(f"f{j}" for j in range(n_features)),
        "feature_infos": " ".join(["none"] * n_features),
        "tree_sizes": " ".join(str(len(tree)) for tree in trees),
    }
    lines = ["tree", *(f"{key}={value}" for key, value in header.items()), "average_output" if average else "", "", ""]
    text = "\n".join(lines) + "".join(trees) + "end of trees\n\npandas_categorical:null\n"
    booster = lgb.Booster(model_str=text)
    forest = scurry.from_model(booster)
    pool = np.r_[
        THRESHOLDS, np.nextafter(THRESHOLDS, -np.inf), np.nextafter(THRESHOLDS, np.inf), SPECIAL, np.arange(-2, 99)
    ]
    with np.errstate(over="ignore", under="ignore"):
        rows = rng.choice(pool, (300, n_features))
        for matrix in (rows, rows.astype(np.float32)):
            raw = booster.predict(matrix, raw_score=True, num_threads=1).reshape(300, -1)
            raw /= len(trees) // n_outputs if average else 1
            np.testing.assert_array_equal(forest.scores(matrix), raw)
            expected = booster.predict(matrix, num_threads=1)
            labels = expected.argmax(axis=1) if n_outputs > 1 else expected > 0.5
            np.testing.assert_array_equal(forest.predict(matrix), labels)


def test_a_larger_model(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 8)).astype(np.float32)
    y = (rows[:, 0] * rows[:, 1] + rows[:, 2] > rng.normal(size=4000)) * 1
    booster = lgb.train(QUIET | {"objective": "binary", "num_leaves": 63, "max_bin": 63}, lgb.Dataset(rows, y), 150)
    booster.save_model(tmp_path / "model.txt")
    forest = scurry.from_model(tmp_path / "model.txt")
    assert forest.n_trees == 150
    hard = adversarial_rows(forest, rows, 4000)
    np.testing.assert_array_equal(forest.scores(hard)[:, 0], booster.predict(hard, raw_score=True, num_threads=1))
    np.testing.assert_array_equal(forest.predict(hard), booster.predict(hard, num_threads=1) > 0.5)
