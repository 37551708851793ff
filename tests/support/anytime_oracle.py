"""An independent anytime evaluator: nodes found as ancestors of the leaves, values added one by one."""

import numpy as np

from scurry import Forest, Plan, Predictor
from scurry.forest import reference
from scurry.plan import StepRule


def depth_steps(forest: Forest) -> np.ndarray:
    """The order that walks tree after tree to the end."""
    return np.repeat(np.arange(forest.n_trees), forest.tree_depth).astype(np.int32)


def shuffled_steps(forest: Forest, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(depth_steps(forest)).astype(np.int32)


def nodes_after(forest: Forest, steps: np.ndarray, n_steps: int, leaves: np.ndarray) -> np.ndarray:
    """Where rows that end in `leaves` stand after the first `n_steps`, shape (n_rows, n_trees)."""
    parent = np.arange(forest.n_nodes)
    for side in (forest.left, forest.right):
        parent[side[side >= 0]] = np.flatnonzero(side >= 0)
    levels = np.bincount(steps[:n_steps], minlength=forest.n_trees)
    nodes = leaves.copy()
    while (too_deep := forest.node_depth[nodes] > levels).any():
        nodes = np.where(too_deep, parent[nodes], nodes)
    return nodes


def scores_of(forest: Forest, nodes: np.ndarray, readout: str = "plain") -> np.ndarray:
    """Scores read from `nodes`, shape (n_rows, n_outputs), in the forest's own precision."""
    kind = forest.score_dtype if forest.value.shape[1] == 1 else "float64"
    values = reference.leaf_values(forest)
    total = np.tile(forest.base_score.astype(kind), (len(nodes), 1))
    weight = np.zeros_like(total, dtype=np.float64)
    for tree, output in enumerate(forest.tree_output):
        node = nodes[:, tree]
        share = (forest.node_depth[node] + 1) / (forest.tree_depth[tree] + 1)
        counts = np.where(forest.is_leaf[node], 1.0, share**2 if readout == "weighted" else 1.0)
        columns = slice(None) if output < 0 else slice(output, output + 1)
        total[:, columns] += (values[node] * counts[:, None]).astype(kind)
        weight[:, columns] += counts[:, None]
    if forest.aggregation != "sum":
        rounds = forest.n_trees if forest.tree_output[0] < 0 else forest.n_trees // forest.n_outputs
        base = forest.base_score
        levelled = (base + (total.astype(np.float64) - base) * rounds / weight).astype(kind)
        total = np.where(weight == rounds, total, levelled) / np.asarray(rounds, kind)
    return total.astype(np.float64)


def labels_of(forest: Forest, scores: np.ndarray) -> np.ndarray:
    """Labels, or a regressor's values."""
    if forest.classes is None:
        return reference.link(forest, scores)[:, 0]
    if scores.shape[1] == 1 and forest.n_classes == 2:
        code = (scores[:, 0] >= forest.decision_threshold).astype(int)
    else:
        code = (scores if forest.label_from == "score" else reference.link(forest, scores)).argmax(axis=1)
    return forest.classes[code]


def anytime_of(forest: Forest, steps: np.ndarray | None = None, readout: str = "plain") -> Predictor:
    steps = shuffled_steps(forest) if steps is None else steps
    return Predictor(forest, Plan(order=steps, stop=StepRule(readout=readout)))
