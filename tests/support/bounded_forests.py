"""Small random forests with every kind of split, and all inputs that their splits can tell apart."""

from itertools import product

import numpy as np

from scurry import Forest

ZEROS = (0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e-35)


def bounded_forest(
    seed: int,
    *,
    n_trees: int = 6,
    n_features: int = 3,
    n_leaves: int = 5,
    n_classes: int = 2,
    categories: bool = False,
    missing: bool = True,
    **header,
) -> Forest:
    """Return a forest with splits on few thresholds; `missing` mixes all kinds of missing values and directions."""
    rng = np.random.default_rng(seed)
    n_outputs = 1 if n_classes == 2 else n_classes
    left, right, offset = [], [], [0]
    for _ in range(n_trees):
        first, leaves = len(left), [0]
        left += [-1]
        right += [-1]
        for _ in range(int(rng.integers(0, n_leaves))):
            node = first + leaves.pop(int(rng.integers(len(leaves))))
            size = len(left) - first
            left[node], right[node] = first + size, first + size + 1
            leaves += [size, size + 1]
            left += [-1, -1]
            right += [-1, -1]
        offset.append(len(left))
    n = len(left)
    inner = np.array(left) >= 0
    thresholds = np.array([-1.0, -0.0, 0.0, 0.1, np.float32(0.1), 1e-40, 2.0, np.inf])
    split_is_set = inner & categories & (rng.random(n) < 0.4)
    n_sets = int(split_is_set.sum())
    category_set = np.full(n, -1)
    category_set[split_is_set] = np.arange(n_sets)
    vector = n_classes > 2 and header.get("aggregation", "sum") != "sum"
    value = rng.integers(-8, 9, (n, n_outputs if vector else 1)) / rng.choice([4.0, 3.0, 0.7])
    if header.get("aggregation") == "mean":
        value = np.abs(value) / 16
    return Forest(
        tree_offset=offset,
        feature=np.where(inner, rng.integers(0, n_features, n), -1),
        threshold=np.where(inner, rng.choice(thresholds, n), 0.0),
        left=left,
        right=right,
        value=value,
        n_features=n_features,
        default_left=rng.random(n) < 0.5 if missing else np.zeros(n, bool),
        missing=rng.integers(0, 3, n) if missing else np.zeros(n),
        cover=np.where(rng.random(n) < 0.9, rng.integers(1, 50, n), np.nan),
        classes=np.arange(n_classes),
        tree_output=None if vector or n_outputs == 1 else np.arange(n_trees) % n_outputs,
        base_score=rng.integers(-2, 3, n_outputs) / 4,
        category_set=category_set,
        category_offset=np.arange(n_sets + 1),
        category_bits=rng.integers(0, 16, n_sets),
        **({"aggregation": "sum"} | header),
    )


def all_inputs(forest: Forest, n_rows: int = 20_000) -> np.ndarray:
    """Return every input that some splits of `forest` treat differently, or `n_rows` of them; float64."""
    values = []
    for feature in range(forest.n_features):
        cuts = forest.threshold[(forest.left >= 0) & (forest.feature == feature)]
        near = [cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf)]
        codes = np.arange(6.0) if (forest.category_set >= 0).any() else []
        values.append(np.unique(np.concatenate([*near, codes, ZEROS, [-np.inf, np.inf, 1e300, -1e300]])))
        values[-1] = np.append(values[-1], [-0.0, np.nan])
    if np.prod([float(len(each)) for each in values]) <= n_rows:
        return np.array(list(product(*values)))
    rng = np.random.default_rng(0)
    return np.column_stack([rng.choice(each, n_rows) for each in values])
