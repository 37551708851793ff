"""ONNX models: graphs with random trees of every mode, and a slow evaluator of them that follows the standard."""

from typing import Any

import numpy as np

from scurry.importers.onnx.ensemble import EQ, GT, GTE, LEQ, LT, MEMBER, NEQ
from scurry.importers.onnx.graph import DOUBLE, FLOAT, INT64, STRING, TREES, Graph, Node, Value, write_graph

NAMES = {
    LEQ: b"BRANCH_LEQ",
    LT: b"BRANCH_LT",
    GTE: b"BRANCH_GTE",
    GT: b"BRANCH_GT",
    EQ: b"BRANCH_EQ",
    NEQ: b"BRANCH_NEQ",
}
N_FEATURES = 4
SPLITS = np.array([-np.inf, -2.0, -1.0, -0.0, 0.0, 0.1, 1.0, 1.5, 2.0, 3.0, 7.0, 33.0, np.inf])


def graph_of(node: Node, dtype: int = FLOAT, outputs=("label", "scores"), label: int = INT64, **fields) -> Graph:
    # The older operators write float32, whatever they add.
    scores = Value("scores", dtype if node.op == "TreeEnsemble" else FLOAT, (None, None))
    values = tuple(scores if name == "scores" else Value(name, label, (None,)) for name in outputs)
    given: dict[str, Any] = {
        "nodes": (node,),
        "constants": {},
        "inputs": (Value("X", dtype, (None, N_FEATURES)),),
        "outputs": values,
        "opsets": {"": 18, TREES: 5 if node.op == "TreeEnsemble" else 3},
    }
    return Graph(**given | fields)


def save(graph: Graph, folder, name="model.onnx"):
    path = folder / name
    path.write_bytes(write_graph(graph, "test", "1"))
    return path


def random_tree(rng, modes, max_inner=7, whole=False):
    """Nodes as lists [mode, feature, split, true, false, track]; leaves have mode None."""
    nodes, leaves = [[None] * 6], [0]
    for _ in range(rng.integers(0, max_inner + 1)):
        at = leaves.pop(rng.integers(len(leaves)))
        mode = int(rng.choice(modes))
        feature = int(rng.integers(N_FEATURES))
        if whole:  # feature 0 is tested for sets alone, which makes it a categorical one
            mode, feature = (mode, 0) if mode in (EQ, NEQ, MEMBER) else (mode, 1 + feature % (N_FEATURES - 1))
        split = rng.integers(0, 6) if mode in (EQ, NEQ) and whole else rng.choice(SPLITS)
        nodes[at] = [mode, feature, float(split), len(nodes), len(nodes) + 1, int(rng.random() < 0.4)]
        leaves += [len(nodes), len(nodes) + 1]
        nodes += [[None] * 6, [None] * 6]
    return nodes


def listed(rng, kind: str, n_targets: int, *, double=False, n_trees=5, modes=tuple(NAMES), whole=False, **more) -> Node:
    """A TreeEnsembleClassifier or TreeEnsembleRegressor with random trees; each leaf weighs every target."""
    real = np.float64 if double else np.float32
    weights = "class" if kind == "Classifier" else "target"
    rows, weighed = [], []
    for t in range(n_trees):
        tree = random_tree(rng, modes, whole=whole)
        for i, (mode, feature, split, true, false, track) in enumerate(tree):
            rows.append(
                (
                    t,
                    i,
                    b"LEAF" if mode is None else NAMES[mode],
                    feature or 0,
                    split or 0.0,
                    true or 0,
                    false or 0,
                    track or 0,
                )
            )
            if mode is None:
                weighed += [(t, i, k, round(rng.normal(), 2)) for k in range(n_targets)]
    column = list(zip(*rows, strict=True))
    leaf = list(zip(*weighed, strict=True))
    floats = {"nodes_values": np.array(column[4], real), f"{weights}_weights": np.array(leaf[3], real)}
    if double:
        floats = {f"{name}_as_tensor": values for name, values in floats.items()}
    attributes = {
        "nodes_treeids": np.array(column[0]),
        "nodes_nodeids": np.array(column[1]),
        "nodes_modes": list(column[2]),
        "nodes_featureids": np.array(column[3], np.int64),
        "nodes_truenodeids": np.array(column[5], np.int64),
        "nodes_falsenodeids": np.array(column[6], np.int64),
        "nodes_missing_value_tracks_true": np.array(column[7], np.int64),
        f"{weights}_treeids": np.array(leaf[0]),
        f"{weights}_nodeids": np.array(leaf[1]),
        f"{weights}_ids": np.array(leaf[2], np.int64),
        **floats,
        **({"n_targets": n_targets} if weights == "target" else {}),
    }
    outputs = ("label", "scores") if weights == "class" else ("scores",)
    return Node(f"TreeEnsemble{kind}", ("X",), outputs, attributes | more, TREES)


def indexed(
    rng, n_targets: int, *, double=False, n_trees=5, modes=(*NAMES, MEMBER), whole=False, largest=39, **more
) -> Node:
    """A TreeEnsemble with random trees, whose leaves each weigh one target."""
    real = np.float64 if double else np.float32
    inner, leaves, roots, members = [], [], [], []
    for t in range(n_trees):
        tree = random_tree(rng, modes, whole=whole)
        place = {}
        for i, node in enumerate(tree):
            if node[0] is None:
                place[i] = len(leaves)
                leaves.append((t % n_targets, round(rng.normal(), 2)))
        first = len(inner)
        order = [i for i, node in enumerate(tree) if node[0] is not None]
        place |= {i: first + k for k, i in enumerate(order)}
        if not order:
            inner.append((LEQ, 0, 0.0, place[0], 1, place[0], 1, 0))
        for i in order:
            mode, feature, split, true, false, track = tree[i]
            if mode == MEMBER:
                members += [*rng.choice(np.arange(largest + 1.0), rng.integers(1, 6), replace=False), np.nan]
            ends = [(place[child], int(tree[child][0] is None)) for child in (true, false)]
            inner.append((mode, feature, split, *ends[0], *ends[1], track))
        roots.append(first)
    column = list(zip(*inner, strict=True))
    attributes = {
        "n_targets": n_targets,
        "tree_roots": np.array(roots),
        "nodes_modes": np.array(column[0], np.uint8),
        "nodes_featureids": np.array(column[1]),
        "nodes_splits": np.array(column[2], real),
        "nodes_truenodeids": np.array(column[3]),
        "nodes_trueleafs": np.array(column[4]),
        "nodes_falsenodeids": np.array(column[5]),
        "nodes_falseleafs": np.array(column[6]),
        "nodes_missing_value_tracks_true": np.array(column[7]),
        "leaf_targetids": np.array([target for target, _ in leaves]),
        "leaf_weights": np.array([weight for _, weight in leaves], real),
    }
    if members:
        attributes["membership_values"] = np.array(members, real)
    return Node("TreeEnsemble", ("X",), ("scores",), attributes | more, TREES)


def rows_for(rng, n_rows: int, dtype=np.float32, whole=False) -> np.ndarray:
    """Rows at splits, next to them, and of special values."""
    near = np.concatenate(
        [SPLITS, np.nextafter(SPLITS.astype(dtype), dtype(9)), np.nextafter(SPLITS.astype(dtype), dtype(-9))]
    )
    values = np.concatenate([near, np.arange(40.0), [np.nan, np.nan, np.nan, 2.5, -0.5, 1e30]])
    return rng.choice(values, (n_rows, N_FEATURES)).astype(dtype)


def sums_of(node: Node, rows: np.ndarray) -> np.ndarray:
    """The sums of an operator, before base values and transformations, as the standard describes them."""
    a = node.attributes
    real = rows.dtype.type
    walk = _walk_indexed if node.op == "TreeEnsemble" else _walk_listed
    n_targets = (
        a["n_targets"] if "n_targets" in a else len(a.get("classlabels_int64s", a.get("classlabels_strings", [])))
    )
    out = np.zeros((len(rows), n_targets), rows.dtype)
    for i, row in enumerate(rows):
        for target, weight in walk(a, row):
            out[i, target] = real(out[i, target] + real(weight))
    return out


def _holds(mode, x, split, members=()) -> bool:
    return bool(
        {
            LEQ: x <= split,
            LT: x < split,
            GTE: x >= split,
            GT: x > split,
            EQ: x == split,
            NEQ: x != split,
            MEMBER: x in members,
        }[mode]
    )


def _walk_listed(a, row):
    kind = "class" if "class_ids" in a else "target"
    codes = {name: mode for mode, name in NAMES.items()}
    values = a.get("nodes_values", a.get("nodes_values_as_tensor"))
    weights = a.get(f"{kind}_weights", a.get(f"{kind}_weights_as_tensor"))
    at = {pair: i for i, pair in enumerate(zip(a["nodes_treeids"].tolist(), a["nodes_nodeids"].tolist(), strict=True))}
    for tree in dict.fromkeys(a["nodes_treeids"].tolist()):
        node = next(i for (t, _), i in at.items() if t == tree)
        while a["nodes_modes"][node] != b"LEAF":
            x = row[a["nodes_featureids"][node]]
            true = _holds(codes[a["nodes_modes"][node]], x, values[node])
            true = true or (np.isnan(x) and a["nodes_missing_value_tracks_true"][node] == 1)
            node = at[tree, int(a["nodes_truenodeids" if true else "nodes_falsenodeids"][node])]
        chosen = (a[f"{kind}_treeids"] == tree) & (a[f"{kind}_nodeids"] == a["nodes_nodeids"][node])
        yield from zip(a[f"{kind}_ids"][chosen].tolist(), weights[chosen].tolist(), strict=True)


def _walk_indexed(a, row):
    modes = a["nodes_modes"].tolist()
    sets, current = [], []
    for value in a.get("membership_values", np.zeros(0)).tolist():
        if np.isnan(value):
            sets.append(current)
            current = []
        else:
            current.append(value)
    set_of = dict(zip([i for i, mode in enumerate(modes) if mode == MEMBER], [*sets, current], strict=False))
    for root in a["tree_roots"].tolist():
        node, leaf = root, False
        while not leaf:
            x = row[a["nodes_featureids"][node]]
            true = _holds(modes[node], x, a["nodes_splits"][node], set_of.get(node, ()))
            true = true or (np.isnan(x) and a["nodes_missing_value_tracks_true"][node] == 1)
            side = "true" if true else "false"
            node, leaf = int(a[f"nodes_{side}nodeids"][node]), bool(a[f"nodes_{side}leafs"][node])
        yield int(a["leaf_targetids"][node]), float(a["leaf_weights"][node])


def dtype_of(node: Node) -> tuple[int, type]:
    """The ONNX type and the numpy type of the rows that a random operator expects."""
    double = any(isinstance(v, np.ndarray) and v.dtype == np.float64 for v in node.attributes.values())
    return (DOUBLE, np.float64) if double else (FLOAT, np.float32)


TEXT = STRING
