"""Nodes of runners: those of the forest's engine wherever that is as fast, so that there is one copy of them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.forest import Forest

OfValues = Callable[[NDArray[np.float64]], NDArray[np.int32]]
_LOWERING = Lock()  # so that two threads do not lower the same copy
# Looking up what shared leaves add takes a sixth to a third of the time of exits after few trees (adult, census: 101
# trees of depth 10, half a megabyte), so that forests of this size are copied: memory is no matter there.
_SMALL_BYTES = 1 << 20


def nodes_of(forest: Forest, of_values: OfValues, of_nodes: Callable[[], NDArray[np.int32]]) -> _core.Nodes:
    """Return the lowered trees of a forest with an integer at each leaf.

    They are the trees of its engine, unless trees are much smaller, or have a faster loop, once leaves with the same
    integer are one, or there are few nodes that no file holds: then they are a copy that all runners of the forest with
    these integers share.

    Parameters
    ----------
    forest : Forest
    of_values : callable
        Makes the integers of leaves with values of shape (n, n_columns).
    of_nodes : callable
        Returns the integer of each node, of which those of leaves are read.
    """
    values = forest.engine_values if _should_share(forest) else None
    # A tree that adds to one of several outputs may turn the sign of what it adds.
    if values is not None and (forest.n_outputs == 1 or forest.n_columns > 1):
        shared = _core.Nodes(forest.engine, of_values(values))
        if not shared.should_merge:
            return shared
    import hashlib  # most forests need no copy, and it takes long

    integers = np.where(forest.is_leaf, of_nodes(), 0).astype(np.int32)
    key = hashlib.sha256(integers.data).digest()
    with _LOWERING:
        copies: WeakValueDictionary[bytes, _core.Nodes] = forest.__dict__.setdefault("_copies", WeakValueDictionary())
        nodes = copies.get(key)
        if nodes is None:
            nodes = copies[key] = _core.Nodes(forest.arrays, integers)
    forest.release()
    return nodes


def _should_share(forest: Forest) -> bool:
    # Ranks of small trees look up their leaves anyway, and engines in files are there to be used as they are.
    engine = forest.engine
    in_file = isinstance(engine, _core.MappedEngine)
    return in_file or engine.loop != "walked" or engine.node_bytes > _SMALL_BYTES


def shared_vectors(forest: Forest, of_values: OfValues) -> NDArray[np.int32] | None:
    """Return the rows of integers that leaves add, by the values of the engine, if its trees are to be shared.

    None where trees of their own are much smaller, or have a faster loop, as in `nodes_of`.
    """
    values = forest.engine_values
    if values is None:
        return None
    integers = np.ascontiguousarray(of_values(values))
    numbers, _ = _core.distinct_rows(integers.view(np.uint8).reshape(len(integers), -1))
    return None if _core.Nodes(forest.engine, numbers.astype(np.int32)).should_merge else integers


def value_numbers(forest: Forest) -> NDArray[np.int32] | None:
    """Return by which number the engine knows the value of each node; read at leaves. None if it knows none."""
    values = forest.engine_values
    if values is None:
        return None
    of_nodes = np.where(forest.is_leaf[:, None], forest.leaf_values(), values[:1])
    rows = np.ascontiguousarray(np.concatenate([values, of_nodes]))
    numbers, _ = _core.distinct_rows(rows.view(np.uint8).reshape(len(rows), -1))  # by first occurrence
    found = numbers[len(values) :].astype(np.int32)
    return found if found.max() < len(values) else None
