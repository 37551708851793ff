"""XGBoost models with several outputs: trees with vector leaves as trees of one output each."""

from __future__ import annotations

from typing import Any

import numpy as np

from scurry.errors import FormatError


def split_vectors(model: dict[str, Any], sizes: list[int], n_outputs: int) -> dict[str, Any]:
    """Return a model whose trees have one output each, instead of a vector of all outputs in each leaf.

    A tree becomes as many trees with the same splits. XGBoost adds the vectors number by number, so that sums are the
    same.

    Parameters
    ----------
    model : dict
        With ``trees``, ``tree_info`` and ``iteration_indptr``.
    sizes : list of int
        The numbers in a leaf of each tree.
    n_outputs : int

    Returns
    -------
    dict
        The same model where no leaf is a vector.
    """
    if max(sizes) <= 1:
        return model
    if set(sizes) != {n_outputs}:
        raise FormatError(f"the model has leaves of {max(sizes)} numbers for {n_outputs} outputs")
    trees = [_single_output(tree, output, n_outputs) for tree in model["trees"] for output in range(n_outputs)]
    ends = {}
    if "iteration_indptr" in model:
        ends["iteration_indptr"] = [n_outputs * int(end) for end in model["iteration_indptr"]]
    return model | ends | {"trees": trees, "tree_info": list(range(n_outputs)) * len(model["trees"])}


def _single_output(tree: Any, output: int, n_outputs: int) -> dict[str, Any]:
    try:
        left = np.asarray(tree["left_children"], np.int64)
        right, condition = np.array(tree["right_children"], np.int64), np.array(tree["split_conditions"], np.float32)
        weights = np.asarray(tree["leaf_weights"], np.float32).reshape(-1, n_outputs)
        is_leaf = left < 0
        # A leaf says by its second child which vector is its own.
        condition[is_leaf] = weights[right[is_leaf], output]
        right[is_leaf] = -1
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise FormatError("the model has a tree with vector leaves whose vectors it lacks") from error
    return dict(tree) | {"left_children": left, "right_children": right, "split_conditions": condition}
