"""Inputs that break engines: forests with ties and odd shapes, rows on and next to thresholds."""

import numpy as np
from hypothesis import strategies as st

from scurry import Forest

SPECIAL = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        -0.0,
        0.0,
        1e-35,
        -1e-36,
        5e-324,
        1e300,
        -1e300,
        3.4e38,
        16777217.0,
        0.5,
        -0.5,
        -1.0,
    ]
)


def adversarial_rows(forest: Forest, X: np.ndarray, n_rows: int, seed: int = 0, special: bool = True) -> np.ndarray:
    """Rows of `X` in which most cells are replaced by a threshold of their feature, a float32 or float64 neighbour
    of one, or (with `special`) NaN, infinities, signed zeros, denormals and huge values.
    float64, shape (n_rows, n_features).
    """
    rng = np.random.default_rng(seed)
    rows = np.asarray(X, dtype=np.float64)[rng.integers(0, len(X), n_rows)]
    inner = (forest.left >= 0) & (forest.category_set < 0)
    for j in range(forest.n_features):
        thresholds = forest.threshold[inner & (forest.feature == j)]
        thresholds = thresholds[np.isfinite(thresholds)]
        if len(thresholds):
            t = rng.choice(thresholds, n_rows)
            with np.errstate(over="ignore", under="ignore"):
                f = t.astype(np.float32)
                nearby = np.stack(
                    [
                        t,
                        np.nextafter(t, -np.inf),
                        np.nextafter(t, np.inf),
                        f.astype(np.float64),
                        np.nextafter(f, np.float32(-np.inf)).astype(np.float64),
                        np.nextafter(f, np.float32(np.inf)).astype(np.float64),
                    ]
                )
            pick = rng.random(n_rows) < 0.6
            rows[pick, j] = nearby[rng.integers(0, len(nearby), n_rows), np.arange(n_rows)][pick]
        if special:
            pick = rng.random(n_rows) < 0.1
            rows[pick, j] = rng.choice(SPECIAL, n_rows)[pick]
    return rows


@st.composite
def trees(draw, n_features: int, n_columns: int, max_nodes: int = 31):
    """One random tree as a mapping for `Forest.from_trees`, values on a coarse grid so that ties are common."""
    n_inner = draw(st.integers(0, (max_nodes - 1) // 2))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n_nodes = 2 * n_inner + 1
    left, right = np.full(n_nodes, -1), np.full(n_nodes, -1)
    open_leaves, size = [0], 1
    for _ in range(n_inner):
        node = open_leaves.pop(rng.integers(len(open_leaves)))
        left[node], right[node] = size, size + 1
        open_leaves += [size, size + 1]
        size += 2
    value = rng.integers(0, 5, (n_nodes, n_columns)) / 4
    if n_columns > 1:
        value = (value + 0.25) / (value + 0.25).sum(axis=1, keepdims=True)
    threshold = rng.choice(np.array([-1.5, -0.0, 0.0, 0.1, 0.25, np.float32(0.1), 1e-40, 3.0]), n_nodes)
    return {
        "feature": rng.integers(0, n_features, n_nodes),
        "threshold": threshold,
        "left": left,
        "right": right,
        "value": value,
        "cover": np.ones(n_nodes),
    }


@st.composite
def forests(draw, max_trees: int = 20, max_features: int = 5, max_classes: int = 4):
    """A random forest of any aggregation and input precision."""
    n_features = draw(st.integers(1, max_features))
    n_columns = draw(st.integers(1, max_classes))
    aggregation = draw(st.sampled_from(["mean", "sum"] if n_columns == 1 else ["mean", "vote", "sum"]))
    return Forest.from_trees(
        draw(st.lists(trees(n_features, n_columns), min_size=1, max_size=max_trees)),
        n_features=n_features,
        aggregation=aggregation,
        input_dtype=draw(st.sampled_from(["float32", "float64"])),
    )


def complete_forest(n_trees=30, depth=8, n_features=6, n_columns=3, seed=0, **header) -> Forest:
    """Complete binary trees with random tests; `header` goes to Forest."""
    rng = np.random.default_rng(seed)
    size = 2 ** (depth + 1) - 1
    inner = np.arange(size) < 2**depth - 1
    left = np.where(inner, 2 * np.arange(size) + 1, -1)
    offset = np.arange(n_trees + 1) * size
    shift = np.repeat(offset[:-1], size)
    left = np.where(np.tile(inner, n_trees), np.tile(left, n_trees) + shift, -1)
    value = rng.random((n_trees * size, n_columns)) * (1 if n_columns == 1 else 2 / n_columns)
    fields = {
        "tree_offset": offset,
        "feature": rng.integers(0, n_features, n_trees * size),
        "threshold": rng.normal(size=n_trees * size).round(2),
        "left": left,
        "right": np.where(left < 0, -1, left + 1),
        "value": value,
        "n_features": n_features,
        "default_left": rng.random(n_trees * size) < 0.5,
        "classes": np.arange(n_columns) if n_columns > 1 else None,
    }
    return Forest(**(fields | header))


def symmetric_forest(
    n_trees=30, depth=6, n_features=6, n_columns=1, seed=0, n_thresholds=40, n_sets=0, **header
) -> Forest:
    """Trees that ask one question per level, of at most `depth` levels, some of them about sets of categories; the last
    tree is a leaf, as a bias is.

    Features 0, 1, … are numeric; with `n_sets`, the last one is categorical.
    """
    rng = np.random.default_rng(seed)
    thresholds = rng.normal(size=(n_features, n_thresholds)).astype(np.float32)
    nan_left = rng.random(n_features) < 0.5
    arrays = {name: [] for name in ("feature", "threshold", "left", "default_left", "category_set")}
    sizes = []
    for tree in range(n_trees):
        levels = 0 if tree == n_trees - 1 else depth if tree % 5 else rng.integers(0, depth + 1)
        size = 2 ** (levels + 1) - 1
        level = np.log2(np.arange(size) + 1).astype(int)
        inner = level < levels
        feature = rng.integers(0, n_features, levels + 1)
        categorical = inner & (feature[level] == n_features - 1) & (n_sets > 0)
        arrays["feature"].append(np.where(inner, feature[level], -1))
        asked = thresholds[feature, rng.integers(0, n_thresholds, levels + 1)]
        arrays["threshold"].append(np.where(inner & ~categorical, asked[level], 0.0))
        arrays["left"].append(np.where(inner, 2 * np.arange(size) + 1 + sum(sizes), -1))
        arrays["default_left"].append(np.where(categorical, False, nan_left[feature[level]]) & inner)
        sets = rng.integers(0, max(n_sets, 1), levels + 1)
        arrays["category_set"].append(np.where(categorical, sets[level], -1))
        sizes.append(size)
    joined = {name: np.concatenate(parts) for name, parts in arrays.items()}
    offset = np.concatenate([[0], np.cumsum(sizes)])
    fields = joined | {
        "tree_offset": offset,
        "right": np.where(joined["left"] < 0, -1, joined["left"] + 1),
        "value": rng.normal(size=(offset[-1], n_columns)),
        "n_features": n_features,
        "classes": np.arange(max(n_columns, 2)) if "classes" not in header else None,
        "aggregation": "sum",
        "category_offset": np.arange(n_sets + 1),
        "category_bits": rng.integers(0, 2**32, n_sets, dtype=np.uint64),
    }
    return Forest(**(fields | header))


def ragged_forest(
    n_trees=30,
    n_leaves=64,
    n_features=6,
    *,
    max_depth=None,
    n_outputs=1,
    seed=0,
    n_thresholds=40,
    n_sets=0,
    set_words=1,
    n_columns=1,
    **header,
) -> Forest:
    """Trees of any shape with up to `n_leaves` leaves, as boosted models have them. Missing values go either way at
    every node. The first tree has as many leaves as allowed, the second is deep, the last is a leaf.

    Features 0, 1, … are numeric; with `n_sets`, the last one is categorical, of 32 * `set_words` categories.
    """
    rng = np.random.default_rng(seed)
    thresholds = rng.normal(size=(n_features, n_thresholds)).astype(np.float32)
    parts, offset = [], [0]
    for tree in range(n_trees):
        size = 1 if tree == n_trees - 1 else n_leaves if tree < 2 else rng.integers(1, n_leaves + 1)
        left, depth, open_nodes = [-1], [0], [0]
        for _ in range(size - 1):
            if not open_nodes:
                break
            among = 2 if tree == 1 else len(open_nodes)  # the last two are siblings
            node = open_nodes.pop(-1 - rng.integers(0, min(among, len(open_nodes))))
            left[node] = len(left)
            if depth[node] + 1 != max_depth:
                open_nodes += [len(left), len(left) + 1]
            left += [-1, -1]
            depth += [depth[node] + 1] * 2
        left = np.array(left)
        inner = left >= 0
        feature = np.where(inner, rng.integers(0, n_features, len(left)), -1)
        in_set = inner & (feature == n_features - 1) & (n_sets > 0)
        asked = thresholds[feature, rng.integers(0, n_thresholds, len(left))]
        parts.append(
            {
                "feature": feature,
                "threshold": np.where(inner & ~in_set, asked, 0.0),
                "left": np.where(inner, left + offset[-1], -1),
                "default_left": inner & (rng.random(len(left)) < 0.5),
                "category_set": np.where(in_set, rng.integers(0, max(n_sets, 1), len(left)), -1),
            }
        )
        offset.append(offset[-1] + len(left))
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    fields = joined | {
        "tree_offset": np.array(offset),
        "right": np.where(joined["left"] < 0, -1, joined["left"] + 1),
        "value": rng.normal(size=(offset[-1], n_columns)),
        "n_features": n_features,
        "classes": np.arange(max(n_outputs, n_columns, 2)),
        "aggregation": "sum",
        "tree_output": np.arange(n_trees) % n_outputs if n_columns == 1 else np.full(n_trees, -1),
        "base_score": rng.normal(size=max(n_outputs, n_columns)),
        "category_offset": np.arange(n_sets + 1) * set_words,
        "category_bits": rng.integers(0, 2**32, n_sets * set_words, dtype=np.uint64),
    }
    return Forest(**(fields | header))
