"""The trees of an XGBoost model document, as flat arrays over all trees, checked member by member.

A document is what `json` or `ubjson` made of a model: nested dicts whose arrays are lists or numpy arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scurry.errors import FormatError, UnsupportedModelError

_END_OF_CATEGORIES = 2**24  # codes are float32 in rows, which has no whole numbers without gaps beyond
_MAX_CATEGORY_BYTES = 2**30  # a few bytes of a file can name a large category, and its set has a bit for each below

T = TypeVar("T")


def field(parent: Any, name: str, kind: type[T], default: T | None = None) -> T:
    """Return the member `name` of an object, which must be of type `kind`; the default if it is absent."""
    value = parent.get(name, default) if isinstance(parent, dict) else None
    if not isinstance(value, kind):
        raise FormatError(f"the model has no {name!r}, or one that is not of type {kind.__name__}")
    return value


def count(parent: Any, name: str) -> int:
    """Return a count, which documents keep as text."""
    text = field(parent, name, str)
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise FormatError(f"the model's {name!r} must be a count, got {text[:50]!r}")
    return int(text)


def numbers(parents: list[Any], name: str, dtype: DTypeLike, sizes: list[int] | None = None) -> NDArray[Any]:
    """Return the arrays `name` of several objects, one after the other; `sizes` are checked where they are known."""
    arrays: list[Any] = [parent.get(name) if isinstance(parent, dict) else None for parent in parents]
    if not all(isinstance(array, list | np.ndarray) for array in arrays):
        raise FormatError(f"the model has no array {name!r}")
    if sizes is not None and [len(array) for array in arrays] != sizes:
        raise FormatError(f"the model's {name!r} do not have the sizes of their trees")
    try:
        joined = np.concatenate([np.asarray(array) for array in arrays])
    except ValueError as error:
        raise FormatError(f"the model's {name!r} must be a plain list of numbers") from error
    if joined.ndim != 1 or (joined.size and joined.dtype.kind not in "biuf"):
        raise FormatError(f"the model's {name!r} must be a plain list of numbers, got {joined.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = joined.astype(dtype)
    if cast.dtype.kind in "biu" and not np.array_equal(cast, joined):
        raise FormatError(f"the model's {name!r} must hold values of type {cast.dtype}")
    return cast


@dataclass
class Trees:
    """Nodes of all trees, deleted ones included; children are global indices, -1 at leaves.

    Where `category_set` names a set, its categories go left, as everywhere in scurry; XGBoost sends them right.
    """

    offset: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    default_left: NDArray[np.bool_]
    feature: NDArray[np.int64]
    condition: NDArray[np.float32]
    cover: NDArray[np.float64]
    category_set: NDArray[np.int64]
    category_offset: NDArray[np.int64]
    category_bits: NDArray[np.uint32]
    levels: list[NDArray[np.int64]]

    def arrays(self, leaf_value: NDArray[np.float32]) -> dict[str, Any]:
        """Return the node arrays of a `Forest`, without the nodes that pruning deleted.

        Parameters
        ----------
        leaf_value : float32 array of shape (n_nodes,)
            Ignored at inner nodes, which get the mean of the leaves below them.
        """
        alive = np.zeros(len(self.left), bool)
        for level in self.levels:
            alive[level] = True
        index = np.append(np.cumsum(alive) - 1, -1)
        inner, categorical = self.left >= 0, self.category_set >= 0
        return {
            "tree_offset": np.append(0, np.cumsum(np.add.reduceat(alive, self.offset[:-1], dtype=np.int64))),
            "left": index[self.left[alive]],
            "right": index[self.right[alive]],
            "default_left": self.default_left[alive],
            "feature": np.where(inner, self.feature, -1)[alive],
            "threshold": np.where(inner & ~categorical, self.condition, np.float32(0))[alive],
            "cover": self.cover[alive],
            "value": self._means(leaf_value)[alive].reshape(-1, 1),
            "category_set": self.category_set[alive],
            "category_offset": self.category_offset,
            "category_bits": self.category_bits,
        }

    def _means(self, leaf_value: NDArray[np.float32]) -> NDArray[np.float64]:
        """Leaf values, and above them their means weighted by cover; shape (n_nodes,).

        XGBoost's own inner weights lack the learning rate that its leaves carry.
        """
        mean, weight = leaf_value.astype(np.float64), self.cover.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            for level in reversed(self.levels):
                node = level[self.left[level] >= 0]
                left, right = self.left[node], self.right[node]
                weight[node] = weight[left] + weight[right]
                share = np.divide(weight[left], weight[node], out=np.full(len(node), 0.5), where=weight[node] > 0)
                mean[node] = share * mean[left] + (1 - share) * mean[right]
        return mean


def read_trees(trees: list[Any]) -> Trees:
    """Read the trees of a document.

    Parameters
    ----------
    trees : list of dict
        At least one.

    Returns
    -------
    Trees
    """
    sizes = [len(numbers([tree], "left_children", np.int64)) for tree in trees]
    if min(sizes) == 0:
        raise FormatError("the model has a tree without nodes")
    offset = np.append(0, np.cumsum(sizes))
    first, size = np.repeat(offset[:-1], sizes), np.repeat(sizes, sizes)
    left, right = (numbers(trees, name, np.int64, sizes) for name in ("left_children", "right_children"))
    if ((left >= size) | (right >= size) | ((left < 0) != (right < 0))).any():
        raise FormatError("the model has a node whose children are not two nodes of its tree")
    left, right = np.where(left < 0, -1, left + first), np.where(left < 0, -1, right + first)
    default_left = numbers(trees, "default_left", np.bool_, sizes)
    category_set, category_offset, category_bits = _category_sets(trees, offset, left >= 0)
    # A set's categories go right in XGBoost and left in scurry: its children change places.
    swap = category_set >= 0
    # Only used as a weight, so what a user's objective makes of it (NaN, negative) counts as nothing.
    cover = numbers(trees, "sum_hessian", np.float32, sizes).astype(np.float64)
    return Trees(
        offset=offset,
        left=np.where(swap, right, left),
        right=np.where(swap, left, right),
        default_left=default_left ^ swap,
        feature=numbers(trees, "split_indices", np.int64, sizes),
        condition=numbers(trees, "split_conditions", np.float32, sizes),
        cover=np.where(np.isfinite(cover) & (cover > 0), cover, 0.0),
        category_set=category_set,
        category_offset=category_offset,
        category_bits=category_bits,
        levels=_levels(offset[:-1], left, right),
    )


def _levels(roots: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the nodes at each depth of any tree, from the roots down; deleted nodes hang on no root."""
    n_parents = np.bincount(np.concatenate([left[left >= 0], right[right >= 0], roots]), minlength=len(left))
    if (n_parents > 1).any():
        raise FormatError(f"the model's node {int(np.argmax(n_parents > 1))} is the child of two nodes")
    # Every node has one parent at most, so that walking from the roots ends even in a damaged file.
    levels, level = [], roots
    while len(level):
        levels.append(level)
        inner = level[left[level] >= 0]
        level = np.concatenate([left[inner], right[inner]])
    return levels


def _category_sets(
    trees: list[Any], offset: NDArray[np.int64], inner: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]:
    """Return the set of each node (-1 unless it is a categorical split), and all sets as bits, as `Forest` has them."""
    sizes = np.diff(offset)
    set_of_node = np.full(len(inner), -1, np.int64)
    categorical = np.zeros(len(inner), bool)
    if any("split_type" in tree for tree in trees):
        categorical = (numbers(trees, "split_type", np.uint8, sizes.tolist()) != 0) & inner
    if not categorical.any():
        return set_of_node, np.zeros(1, np.int64), np.zeros(0, np.uint32)
    n_sets = [len(numbers([tree], "categories_nodes", np.int64)) for tree in trees]
    n_categories = np.array([len(numbers([tree], "categories", np.int64)) for tree in trees])
    node = numbers(trees, "categories_nodes", np.int64, n_sets)
    start = numbers(trees, "categories_segments", np.int64, n_sets)
    length = numbers(trees, "categories_sizes", np.int64, n_sets)
    category = numbers(trees, "categories", np.int64)
    in_tree = (node >= 0) & (node < np.repeat(sizes, n_sets))
    in_list = (start >= 0) & (length >= 0) & (length <= np.repeat(n_categories, n_sets) - start)
    in_range = (category >= 0) & (category < _END_OF_CATEGORIES)
    if not (in_tree.all() and in_list.all() and in_range.all()) or length.sum() > len(category):
        raise FormatError("the model has category sets of nodes or categories that it does not have")
    set_of_node[node + np.repeat(offset[:-1], n_sets)] = np.arange(len(node))
    set_of_node[~categorical] = -1
    if (set_of_node[categorical] < 0).any():
        raise FormatError("the model has a categorical split without categories")
    start += np.repeat(np.cumsum(n_categories) - n_categories, n_sets)
    place = np.repeat(start + length - np.cumsum(length), length) + np.arange(length.sum())
    return set_of_node, *_bits(category[place], length)


def _bits(category: NDArray[np.int64], length: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return sets of `length` categories each as 32-bit words, and where the words of each set start."""
    set_of = np.repeat(np.arange(len(length)), length)
    n_words = np.zeros(len(length), np.int64)
    np.maximum.at(n_words, set_of, category // 32 + 1)
    offset = np.append(0, np.cumsum(n_words))
    if 4 * offset[-1] > _MAX_CATEGORY_BYTES:
        raise UnsupportedModelError(
            f"the model's category sets take {4 * offset[-1]} bytes, at most {_MAX_CATEGORY_BYTES} are accepted; "
            "train it on fewer categories"
        )
    bits = np.zeros(offset[-1], np.uint32)
    np.bitwise_or.at(bits, offset[set_of] + category // 32, np.uint32(1) << (category % 32).astype(np.uint32))
    return offset, bits
