"""Turn some splits of a forest into leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scurry.forest.forest import Forest
from scurry.forest.structure import NODE_ARRAYS

_AT_LEAVES = {"feature": -1, "threshold": 0.0, "default_left": False, "missing": 0, "category_set": -1}


def keep_splits(forest: Forest, stays: NDArray[np.bool_]) -> Forest:
    """Return the forest with only some of its splits; the other inner nodes become leaves or disappear.

    Parameters
    ----------
    forest : Forest
    stays : bool array of shape (n_nodes,)
        Which inner nodes stay splits; a node's parent must stay with it. Entries of leaves are ignored.

    Returns
    -------
    Forest
        Nodes keep their order and their values; a new leaf answers with its own value. The header is unchanged.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> forest = scurry.from_model(DecisionTreeClassifier().fit([[0], [1], [2]], [0, 1, 1]))
    >>> pruned = keep_splits(forest, np.zeros(forest.n_nodes, bool))
    >>> forest.n_nodes, pruned.n_nodes, pruned.predict([[0.0]]).tolist()
    (3, 1, [1])
    """
    split = stays & (forest.left >= 0)
    # A node is still there if it is a root or a child of a split that stays.
    present = np.zeros(forest.n_nodes, np.bool_)
    present[forest.tree_offset[:-1]] = True
    present[forest.left[split]] = present[forest.right[split]] = True
    index = np.append(np.cumsum(present, dtype=np.int32) - 1, np.int32(-1))
    leaf = ~split[present]
    arrays = {name: getattr(forest, name)[present] for name in (*NODE_ARRAYS, "value")}
    for side in ("left", "right"):
        arrays[side] = np.where(leaf, np.int32(-1), index[arrays[side]])
    # Leaves read none of these, but what is left there of a split would change digests and saved files.
    for name, entry in _AT_LEAVES.items():
        arrays[name] = np.where(leaf, np.asarray(entry, arrays[name].dtype), arrays[name])
    arrays["tree_offset"] = np.append(index[forest.tree_offset[:-1]], present.sum())
    return forest.replace(**arrays)
