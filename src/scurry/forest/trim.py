"""A forest with some of its splits turned into leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scurry.forest.forest import Forest
from scurry.forest.structure import NODE_ARRAYS


def trimmed(forest: Forest, stays: NDArray[np.bool_]) -> Forest:
    """Keep only some splits; a node that is no longer one answers with its own value.

    Parameters
    ----------
    forest : Forest
    stays : bool array of shape (n_nodes,)
        Which inner nodes stay splits; a node's parent must stay with it.

    Returns
    -------
    Forest
        With nodes renumbered in the same order, and everything else as it was.

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.7, 0.3], [0.9, 0.1], [0.2, 0.8]]}
    >>> pruned = trimmed(scurry.Forest.from_trees([stump]), np.array([False, False, False]))
    >>> pruned.n_nodes, pruned.predict_proba([[1.0]]).tolist()
    (1, [[0.7, 0.3]])
    """
    split = stays & (forest.left >= 0)
    parent = forest.parent
    present = (parent < 0) | split[parent]
    index = np.append(np.cumsum(present, dtype=np.int32) - 1, np.int32(-1))
    leaf = ~split[present]
    arrays = {name: getattr(forest, name)[present] for name in (*NODE_ARRAYS, "value")}
    for side in ("left", "right"):
        arrays[side] = np.where(leaf, np.int32(-1), index[arrays[side]])
    for name, nothing in {
        "feature": -1,
        "threshold": 0.0,
        "default_left": False,
        "missing": 0,
        "category_set": -1,
    }.items():
        arrays[name] = np.where(leaf, np.asarray(nothing, arrays[name].dtype), arrays[name])
    arrays["tree_offset"] = np.append(index[forest.tree_offset[:-1]], present.sum())
    return forest.replace(**arrays)
