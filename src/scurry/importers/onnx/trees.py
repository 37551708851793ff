"""Trees: what becomes of an ONNX ensemble in a `Forest`.

A feature that is tested for whole numbers of sets alone becomes a categorical one, whose values are looked up. Other
sets become two comparisons per member. Where several nodes share a child, as converters of LightGBM's categories write
it, the child is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, UnsupportedModelError
from scurry.forest import mean_of_leaves
from scurry.forest.front import RawRows
from scurry.importers.onnx.ensemble import EQ, GT, GTE, LEAF, LEQ, LT, MEMBER, NEQ, Ensemble

_MAX_COPIES = 2**22  # nodes that a model may have after shared children were copied
_MAX_CATEGORY = 2**24  # whole numbers beyond have gaps in float32


def lower(ensemble: Ensemble, mean: bool) -> tuple[dict[str, Any], NDArray[np.int64] | None]:
    """Return the node arrays of a `Forest`, its categories and what its rows must be, and the output of each tree.

    The second is None if there is one output, or trees serve several. With `mean`, sums are divided by the number of
    trees that serve an output.
    """
    ensemble = _without_unreachable(ensemble)
    inner = ensemble.mode != LEAF
    if (ensemble.feature[inner] < 0).any():
        raise FormatError("a node tests a negative feature")
    if (np.isnan(ensemble.split) & inner & (ensemble.mode != MEMBER)).any():
        raise FormatError("a node compares with NaN")
    ensemble = _without_unequal(ensemble)
    sets: list[tuple[int, ...]] = []
    categories: dict[int, NDArray[np.int64]] = {}
    missing_codes: dict[int, int] = {}
    set_of = np.full(len(inner), -1, np.int64)
    children = np.concatenate([ensemble.true[inner], ensemble.false[inner], ensemble.roots])
    shared = (np.bincount(children, minlength=len(inner)) > 1).any()
    if shared or np.isin(ensemble.mode, (EQ, MEMBER)).any():
        copies = _Copies(ensemble)
        ensemble, set_of = copies.ensemble, copies.set_of
        sets, categories, missing_codes = copies.sets, copies.categories, copies.missing_codes
    nodes = _order(ensemble, set_of)
    order, n_outputs = nodes.pop("order"), ensemble.value.shape[1]
    value, rate = ensemble.value[order], ensemble.hitrate[order]
    output = None
    if n_outputs > 1:
        serves = np.logical_or.reduceat(ensemble.scored[order], nodes["tree_offset"][:-1], axis=0)
        output = _outputs_of_trees(serves, mean)
    if output is not None:
        in_turn = (output.reshape(-1, n_outputs) == np.arange(n_outputs)).all()
        joined = _join_copies(nodes, value, n_outputs) if in_turn else None
        if joined is not None:
            nodes, value, first = joined
            rate, output = rate[first], None
        else:
            value = value.sum(axis=1, keepdims=True)
    nodes |= _inner_values(nodes, value, rate)
    if categories:
        nodes |= pack_sets(sets) | {
            "categories": categories,
            "encode_numbers": True,
            "raw_rows": RawRows(missing_codes=missing_codes) if missing_codes else None,
        }
    return nodes, output


def arrange(ensemble: Ensemble, set_of: NDArray[np.int64]) -> dict[str, Any]:
    """Return the node arrays of a `Forest`, of trees that share no children.

    Parameters
    ----------
    ensemble : Ensemble
    set_of : int64 array of shape (n_nodes,)
        The set that a node tests, -1 where it compares. Members go to the true child.
    """
    nodes = _order(ensemble, set_of)
    order = nodes.pop("order")
    return nodes | _inner_values(nodes, ensemble.value[order], ensemble.hitrate[order])


def _outputs_of_trees(serves: NDArray[np.bool_], mean: bool) -> NDArray[np.int64] | None:
    """Return the output that each tree serves, None if trees serve several, or outputs have too few of them."""
    n_trees, n_outputs = serves.shape
    output = serves.argmax(axis=1)
    counts = np.bincount(output, minlength=n_outputs)
    even = (counts == counts[0]).all() if mean else n_trees % n_outputs == 0
    return output if (serves.sum(axis=1) <= 1).all() and even else None


def _without_unreachable(ensemble: Ensemble) -> Ensemble:
    """Make leaves of nodes that no root leads to, so that nothing they say counts."""
    reached, place = np.zeros(len(ensemble.mode), bool), np.zeros(len(ensemble.mode), np.int64)
    level = ensemble.roots
    while len(level):
        reached[level] = True
        level = level[ensemble.mode[level] != LEAF]
        level = np.concatenate([ensemble.true[level], ensemble.false[level]])
        level = level[~reached[level]]
        # Each node once, so that shared children do not multiply from level to level.
        place[level] = np.arange(len(level))
        level = level[place[level] == np.arange(len(level))]
    if reached.all():
        return ensemble
    return replace(
        ensemble,
        mode=np.where(reached, ensemble.mode, np.uint8(LEAF)),
        true=np.where(reached, ensemble.true, -1),
        false=np.where(reached, ensemble.false, -1),
    )


def _without_unequal(ensemble: Ensemble) -> Ensemble:
    """Write "unequal" as "equal" with children exchanged; missing values are unequal to all numbers."""
    unequal = ensemble.mode == NEQ
    if not unequal.any():
        return ensemble
    return replace(
        ensemble,
        true=np.where(unequal, ensemble.false, ensemble.true),
        false=np.where(unequal, ensemble.true, ensemble.false),
        track=ensemble.track & ~unequal,
        mode=np.where(unequal, np.uint8(EQ), ensemble.mode),
    )


class _Copies:
    """The trees with a copy of each shared child, and with tests of sets that a `Forest` has.

    Attributes
    ----------
    ensemble : Ensemble
    set_of : int64 array of shape (n_nodes,)
        The set that a node tests, -1 where it compares. Members go to the true child.
    sets : list of tuples of int
    categories : dict of int to array
        The values of features that are tested for sets alone.
    missing_codes : dict of int to int
        Codes of missing values, for features in which they go another way than unknown values.
    """

    def __init__(self, source: Ensemble) -> None:
        self._source = source
        self._true, self._false = source.true.tolist(), source.false.tolist()
        self._mode, self._feature = source.mode.tolist(), source.feature.tolist()
        self._track, self._split = source.track.tolist(), source.split.tolist()
        self._tests: dict[int, tuple[tuple[float, ...], int]] = {}
        self._find_categories()
        self.sets: list[tuple[int, ...]] = []
        self._set_index: dict[tuple[int, ...], int] = {}
        self._measure()
        self._copy()

    def _find_categories(self) -> None:
        """Find the features that are tested for whole numbers of sets alone."""
        source = self._source
        inner = source.mode != LEAF
        is_set = (source.mode == EQ) | (source.mode == MEMBER)
        compared = set(source.feature[inner & ~is_set].tolist())
        values: dict[int, set[float]] = {}
        for node in np.flatnonzero(is_set).tolist():
            values.setdefault(self._feature[node], set()).update(self._own_values(node))
        whole = {
            feature: sorted(found)
            for feature, found in values.items()
            if feature not in compared and all(value.is_integer() and abs(value) < _MAX_CATEGORY for value in found)
        }
        tracked = set(source.feature[is_set & source.track].tolist())
        self.categories = {feature: np.array(found, np.int64) for feature, found in whole.items()}
        self.missing_codes = {feature: len(found) for feature, found in whole.items() if feature in tracked}
        self._codes = {feature: {value: code for code, value in enumerate(found)} for feature, found in whole.items()}

    def _own_values(self, node: int) -> list[float]:
        if self._mode[node] == EQ:
            return [self._split[node]]
        members: list[float] = self._source.members[node].tolist()
        return members

    def _test(self, node: int) -> tuple[tuple[float, ...], int]:
        """Return the set that a node tests together with those below it that lead to the same child, and what follows.

        Converters write a set as a chain of comparisons with one number each.
        """
        known = self._tests.get(node)
        if known is None:
            values, last = self._own_values(node), self._false[node]
            seen = {node}
            while (
                self._mode[last] in (EQ, MEMBER)
                and self._feature[last] == self._feature[node]
                and self._true[last] == self._true[node]
                and self._track[last] == self._track[node]
                and last not in seen
            ):
                seen.add(last)
                values += self._own_values(last)
                last = self._false[last]
            known = self._tests[node] = (tuple(sorted(set(values))), last)
        return known

    def _parts(self, node: int) -> tuple[int, list[tuple[int, int]]]:
        """Return how many nodes a node becomes, and its children with how often each is copied."""
        if self._mode[node] not in (EQ, MEMBER):
            return 1, [(self._true[node], 1), (self._false[node], 1)]
        values, last = self._test(node)
        if self._feature[node] in self.categories:
            return 1, [(self._true[node], 1), (last, 1)]
        return max(2 * len(values), 1), [(self._true[node], max(len(values), 1)), (last, len(values) + 1)]

    def _measure(self) -> None:
        """Refuse cycles, and models that would become too large, before anything is copied."""
        size: dict[int, int] = {}
        open_nodes: set[int] = set()
        total = 0
        for root in self._source.roots.tolist():
            waiting = [root]
            while waiting:
                node = waiting[-1]
                if node in size:
                    waiting.pop()
                    continue
                if self._mode[node] == LEAF:
                    size[node] = 1
                    continue
                own, children = self._parts(node)
                if node not in open_nodes:
                    open_nodes.add(node)
                    for child, _ in children:
                        if child in open_nodes and child not in size:
                            raise FormatError("a node is below itself")
                        waiting.append(child)
                    continue
                size[node] = own + sum(size[child] * times for child, times in children)
                waiting.pop()
                total += size[node] if node == root else 0
                if max(total, size[node]) > _MAX_COPIES:
                    raise UnsupportedModelError(
                        f"its nodes share children, and would be more than {_MAX_COPIES:,} nodes without that; give "
                        "scurry the model that was converted to ONNX instead"
                    )

    def _copy(self) -> None:
        # One entry per new node: true, false, feature, split, mode, track, set, and the node it was made of.
        rows: list[list[Any]] = []
        roots: list[int] = []
        for root in self._source.roots.tolist():
            roots.append(len(rows))
            waiting: list[tuple[int, int, int]] = [(root, -1, 0)]
            while waiting:
                node, parent, side = waiting.pop()
                if parent >= 0:
                    rows[parent][side] = len(rows)
                self._write(node, rows, waiting)
        columns = list(zip(*rows, strict=True))
        origin = np.array(columns[7], np.int64)
        source = self._source
        self.set_of = np.array(columns[6], np.int64)
        self.ensemble = Ensemble(
            roots=np.array(roots, np.int64),
            true=np.array(columns[0], np.int64),
            false=np.array(columns[1], np.int64),
            feature=np.array(columns[2], np.int64),
            split=np.array(columns[3], np.float64),
            mode=np.array(columns[4], np.uint8),
            track=np.array(columns[5], bool),
            members={},
            value=source.value[origin],
            scored=source.scored[origin],
            hitrate=np.full(len(origin), np.nan),
        )

    def _write(self, node: int, rows: list[list[Any]], waiting: list[tuple[int, int, int]]) -> None:
        at, feature, track = len(rows), self._feature[node], self._track[node]
        if self._mode[node] == LEAF:
            rows.append([-1, -1, 0, 0.0, LEAF, False, -1, node])
            return
        if self._mode[node] not in (EQ, MEMBER):
            rows.append([-1, -1, feature, self._split[node], self._mode[node], track, -1, node])
            waiting += [(self._false[node], at, 1), (self._true[node], at, 0)]
            return
        values, last = self._test(node)
        if feature in self.categories:
            codes = [self._codes[feature][value] for value in values]
            if track:
                codes.append(self.missing_codes[feature])
            rows.append([-1, -1, feature, 0.0, EQ, False, self._set(tuple(codes)), node])
            waiting += [(last, at, 1), (self._true[node], at, 0)]
            return
        # Between members: below the first, at it, between it and the second, ... Each test leads on to the next.
        tests = []
        for value in values:
            if value != -np.inf:
                tests.append((float(np.nextafter(value, -np.inf)), last, False))
            tests.append((value, self._true[node], track))
        if not tests:
            tests.append((np.inf, last, not track))
            last = self._true[node]  # only missing values can come here
        for k, (split, child, missing) in enumerate(tests):
            here = len(rows)
            rows.append([-1, here + 1, feature, split, LEQ, missing, -1, node])
            waiting.append((child, here, 0))
            if k == len(tests) - 1:
                rows[here][1] = -1
                waiting.append((last, here, 1))

    def _set(self, codes: tuple[int, ...]) -> int:
        known = self._set_index.get(codes)
        if known is None:
            known = self._set_index[codes] = len(self.sets)
            self.sets.append(codes)
        return known


def _order(ensemble: Ensemble, set_of: NDArray[np.int64]) -> dict[str, Any]:
    """Return the arrays of `Forest`: trees one after the other, the root first, children after their parents."""
    levels, trees = [], []
    level, tree = ensemble.roots, np.arange(len(ensemble.roots))
    # A node has one parent at most, so that this ends; what hangs on no root is left out.
    while len(level):
        levels.append(level)
        trees.append(tree)
        down = ensemble.mode[level] != LEAF
        level, tree = level[down], tree[down]
        level = np.concatenate([ensemble.true[level], ensemble.false[level]])
        tree = np.concatenate([tree, tree])
    found, tree_of = np.concatenate(levels), np.concatenate(trees)
    # Numbers of 16 bits are sorted by counting, which takes a fifth of the time.
    few = len(ensemble.roots) <= 2**16
    order = found[np.argsort(tree_of.astype(np.uint16) if few else tree_of, kind="stable")]
    index = np.full(len(ensemble.mode) + 1, -1, np.int64)
    index[order] = np.arange(len(order))
    mode, split, track = ensemble.mode[order], ensemble.split[order], ensemble.track[order]
    true, false = index[ensemble.true[order]], index[ensemble.false[order]]
    inner, categories = mode != LEAF, set_of[order]
    numeric = inner & (categories < 0)
    # Nothing is less than -inf: such a node is written with "at most", see `_sides`.
    strict = bool(numeric.any() and np.isin(mode[numeric], (LT, GTE)).all() and (split[numeric] > -np.inf).all())
    return {
        "order": order,
        "tree_offset": np.append(0, np.cumsum(np.bincount(tree_of, minlength=len(ensemble.roots)))),
        "comparison": "<" if strict else "<=",
        **_sides(mode, split, track, true, false, strict),
        "feature": np.where(inner, ensemble.feature[order], -1),
        "category_set": np.where(inner, categories, -1),
    }


def _sides(
    mode: NDArray[np.uint8],
    split: NDArray[np.float64],
    track: NDArray[np.bool_],
    true: NDArray[np.int64],
    false: NDArray[np.int64],
    strict: bool,
) -> dict[str, NDArray[Any]]:
    """Return thresholds and children: left is what is at most (`strict`: less than) the threshold."""
    if not strict:
        # "Less" is "at most the number before", and nothing is before -inf.
        less = (mode == LT) | (mode == GTE)
        lowest = less & (split == -np.inf)
        mode = np.where(lowest, np.where(mode == LT, np.uint8(GT), np.uint8(LEQ)), mode)
        split = np.where(lowest, np.inf, np.where(less, np.nextafter(split, -np.inf), split))
    above = (mode == GT) | (mode == GTE)
    return {
        "threshold": np.where(mode >= EQ, 0.0, split),
        "left": np.where(above, false, true),
        "right": np.where(above, true, false),
        "default_left": np.where(above, ~track, track) & (mode != LEAF),
    }


def _join_copies(
    nodes: dict[str, Any], value: NDArray[np.float64], n_outputs: int
) -> tuple[dict[str, Any], NDArray[np.float64], NDArray[np.int64]] | None:
    """Return trees with vectors at their leaves, if the file has each tree once for every output; else None.

    Also returns these vectors, and the nodes that are kept: those of each first copy.
    """
    offset = nodes["tree_offset"]
    first, sizes = offset[:-1].reshape(-1, n_outputs), np.diff(offset).reshape(-1, n_outputs)
    if (sizes != sizes[:, :1]).any():
        return None
    size = sizes[:, 0]
    end = np.cumsum(size)
    node = np.arange(end[-1]) + np.repeat(first[:, 0] - end + size, size)  # those of the first copies
    root, inner = np.repeat(first[:, 0], size), nodes["left"][node] >= 0
    values = [value[node, 0]]
    for copy in range(1, n_outputs):
        at = node + np.repeat(first[:, copy] - first[:, 0], size)
        moved = at - node
        same = all(
            np.array_equal(nodes[name][at], nodes[name][node])
            for name in ("feature", "threshold", "default_left", "category_set")
        )
        children = all(
            np.array_equal(nodes[side][at], nodes[side][node] + np.where(inner, moved, 0)) for side in ("left", "right")
        )
        if not same or not children:
            return None
        values.append(value[at, copy])
    down = np.repeat(end - size, size) - root
    kept = {name: nodes[name][node] for name in ("feature", "threshold", "default_left", "category_set")}
    sides = {side: np.where(inner, nodes[side][node] + down, -1) for side in ("left", "right")}
    return nodes | kept | sides | {"tree_offset": np.append(0, end)}, np.stack(values, axis=1), node


def _inner_values(
    nodes: Mapping[str, Any], leaf_value: NDArray[np.float64], rate: NDArray[np.float64]
) -> dict[str, Any]:
    """Return the values of all nodes, inner ones by the mean of the leaves below, and their training weights.

    Few files have training weights: hit rates count as such only where those of two children add up to their parent's.
    """
    left, right = nodes["left"], nodes["right"]
    inner = left >= 0
    sums = rate[left[inner]] + rate[right[inner]]
    with np.errstate(invalid="ignore"):
        known = bool((rate >= 0).all() and inner.any() and (np.abs(sums - rate[inner]) <= 1e-5 * sums).all())
    weight = np.where(rate > 0, rate, 1e-30) if known else np.ones(len(left))
    columns = [
        mean_of_leaves(nodes["tree_offset"], left, right, weight, np.ascontiguousarray(column))
        for column in leaf_value.T
    ]
    return {"value": np.stack(columns, axis=1), "cover": rate if known else None}


def pack_sets(sets: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return `Forest`'s category_offset and category_bits."""
    words = [np.zeros(max(codes, default=-1) // 32 + 1, np.uint32) for codes in sets]
    for word, codes in zip(words, sets, strict=True):
        code = np.array(codes, np.int64)
        np.bitwise_or.at(word, code // 32, np.uint32(1) << (code % 32).astype(np.uint32))
    return {
        "category_offset": np.cumsum([0, *map(len, words)]),
        "category_bits": np.concatenate([*words, np.zeros(0, np.uint32)]),
    }
