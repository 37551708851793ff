"""A forest to prune as a closure problem in exact integers.

Let x_h = 1 if inner node h of the forest stays a split. (`scurry.pruning` explains charge, item and purchase.)

- x_h <= x_parent(h): a row reaches a split only through splits;
- x_h <= w_item if h is the first node of its tree, on a row's path, that reads a feature of the item's charge;
- the error of the pruned trees is the error of the roots minus the gains e_h - e_left - e_right of the splits kept.

Each constraint has one +1 and one -1. So the optimum is a maximum-weight closure, and no linear program is needed.
A charge that only one node can cause is part of that node's cost. The others are items: rows whose charge has the same
causes share one.

=======================  ==============================================
papers                   here
=======================  ==============================================
e_h                      ``node_errors``
N (errors), N (costs)    ``n_error``, the rows of ``X_val``
c_k, w_{k,i}             ``item_cost`` divided by its rows, an item
u_{t,k,i}                ``item_node[item_offset[i]:item_offset[i+1]]``
z_h                      ``kept[parent(h)] - kept[h]``
d_h |S_h| (depth term)   ``step_cost`` times the visits of kept nodes
=======================  ==============================================

Errors and costs are turned into integers so that optima are exact. `choose_scales` picks the units, and the problem
says how much was rounded.

`RowCharges` counts what rows pay for in a forest. The counts add up over parts of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from math import floor, gcd, isfinite, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.costs import FeatureCosts
from scurry.errors import InputError
from scurry.forest import Forest, as_rows


@dataclass(frozen=True, eq=False)
class RowCharges:
    """How many rows pay which charge because of which nodes.

    A charge is the cost of a feature or, numbered after the features, of a group. In each tree, the first node on a
    row's path that reads one of the charge's features causes it. However the rows are divided, the sum of the charges
    of the parts, in any order, equals the charges of all rows, array by array.

    Attributes
    ----------
    n_rows : int
    visits : int64 array of shape (n_nodes,)
        Rows through each inner node.
    alone : int64 array of shape (n_nodes, 2)
        Rows for which the node is the only cause of its feature's charge, and of its group's.
    item_offset, item_node, item_charge, item_rows : arrays
        Items, each once: ``item_rows[i]`` rows pay ``item_charge[i]`` because of any of the nodes
        ``item_node[item_offset[i]:item_offset[i + 1]]``.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> forest = scurry.from_model(ExtraTreesClassifier(2, random_state=0).fit([[0], [1]], [0, 1]))
    >>> costs = scurry.pruning.FeatureCosts.of(forest)
    >>> both = RowCharges.of(forest, [[0.0]], costs) + RowCharges.of(forest, [[1.0], [2.0]], costs)
    >>> both.n_rows, both.item_node.tolist(), both.item_rows.tolist()
    (3, [0, 3], [3])
    """

    n_rows: int
    visits: NDArray[np.int64]
    alone: NDArray[np.int64]
    item_offset: NDArray[np.int64]
    item_node: NDArray[np.int32]
    item_charge: NDArray[np.int32]
    item_rows: NDArray[np.int64]

    @classmethod
    def of(cls, forest: Forest, X: Any, costs: FeatureCosts) -> RowCharges:
        """Count which nodes make rows pay which charges.

        Parameters
        ----------
        forest : Forest
        X : array or DataFrame of shape (n_rows, n_features)
        costs : FeatureCosts
            Zero-cost features are skipped; magnitudes do not matter here.

        Returns
        -------
        RowCharges
        """
        rows = as_rows(forest, X)
        of_feature, of_group = costs.charges
        n_charges = len(costs.feature_costs) + len(costs.group_costs)
        items, alone, visits = _core.find_charges(
            forest.feature, forest.parent, forest.apply(rows), of_feature, of_group, n_charges
        )
        return cls(len(rows), visits, alone, *items)

    def __add__(self, other: RowCharges) -> RowCharges:
        items = _core.merge_items(self._items, other._items)
        return RowCharges(self.n_rows + other.n_rows, self.visits + other.visits, self.alone + other.alone, *items)

    @property
    def _items(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        return self.item_offset, self.item_node, self.item_charge, self.item_rows


MAX_WEIGHT = 2**62  # the core compares sums of weights below this
_ROOM = 60  # bits of all gains times all costs: a cut weighs gains by costs and costs by gains
_MAX_DIGITS = 9  # decimals tried before falling back to binary fractions
_COUNT_NOISE = 1e-6  # of a unit: what products of class shares and row counts leave behind
_COST_NOISE = 1e-12  # of a cost: what writing it in binary leaves behind, so that a small cost stays one
_MAX_ROUNDING = 1e-6  # of the largest value
_MAX_ERROR_ROUNDING = 2.0**-27  # of the sum of all node errors, where that is more


@dataclass(frozen=True, eq=False, kw_only=True)
class ClosureProblem:
    """Nodes that may be kept, each only together with its parent; the core's struct of the same name.

    Attributes
    ----------
    parent : int32 array of shape (n_nodes,)
        -1: none, or one that is kept in any case. A parent comes before its children.
    gain, cost : int64 arrays of shape (n_nodes,)
        How much keeping the node lowers the error, and what it costs by itself.
    item_offset, item_node, item_cost : arrays
        Item i costs ``item_cost[i]`` if any of ``item_node[item_offset[i]:item_offset[i + 1]]`` is kept.
    """

    parent: NDArray[np.int32]
    gain: NDArray[np.int64]
    cost: NDArray[np.int64]
    item_offset: NDArray[np.int64]
    item_node: NDArray[np.int32]
    item_cost: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_cost)

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays by name, as functions of the native core take them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def item_of_purchase(self) -> NDArray[np.int32]:
        """The item of each entry of `item_node`."""
        return np.repeat(np.arange(self.n_items, dtype=np.int32), np.diff(self.item_offset))

    def items_of(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which items the kept nodes buy; shape (n_items,)."""
        if not self.n_items:
            return np.zeros(0, np.bool_)  # reduceat refuses empty offsets
        return np.logical_or.reduceat(kept[self.item_node], self.item_offset[:-1])

    def gain_of(self, kept: NDArray[np.bool_]) -> int:
        """Return the gain of keeping these nodes."""
        return int(self.gain[kept].sum())

    def cost_of(self, kept: NDArray[np.bool_]) -> int:
        """Return the cost of keeping these nodes, each item once."""
        return int(self.cost[kept].sum()) + int(self.item_cost[self.items_of(kept)].sum())

    def between(self, inner: NDArray[np.bool_], outer: NDArray[np.bool_]) -> ClosureProblem:
        """Return the problem of the nodes in `outer` but not in `inner`, whose nodes are kept and items paid for."""
        free = outer & ~inner
        index = np.cumsum(free, dtype=np.int32) - 1
        parent = self.parent[free]
        wanted = free[self.item_node] & ~self.items_of(inner)[self.item_of_purchase]
        n_purchases = np.bincount(self.item_of_purchase[wanted], minlength=self.n_items)
        return ClosureProblem(
            parent=np.where((parent >= 0) & free[parent], index[parent], -1).astype(np.int32),
            gain=self.gain[free],
            cost=self.cost[free],
            item_offset=np.concatenate([[0], np.cumsum(n_purchases[n_purchases > 0])]),
            item_node=index[self.item_node[wanted]],
            item_cost=self.item_cost[n_purchases > 0],
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class PruningProblem:
    """A forest to prune, and the closure problem that pruning it means.

    Attributes
    ----------
    forest : Forest
    costs : FeatureCosts
    closure : ClosureProblem
        Its node i is the forest's inner node ``nodes[i]``. Gains and costs are whole numbers of units.
    nodes : int32 array of shape (n_splits,)
        The forest's inner nodes, in rising order.
    node_error : int64 array of shape (n_nodes,)
        What each of the forest's nodes gets wrong, in units.
    error_unit, cost_unit : Fraction
        One unit of gain in the objective's error, one unit of cost in mean cost per row.
    error_rounding, cost_rounding : float
        The largest difference between a node error, or a cost, as given and as used; 0 if none was rounded.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0], [1], [2], [3]], [0, 0, 1, 1])
    >>> problem = scurry.prune(tree, [[0], [3]], feature_costs=[2.5]).problem
    >>> problem.nodes.tolist(), problem.closure.gain.tolist(), problem.closure.cost.tolist()
    ([0], [1], [2])
    >>> problem.error_unit, problem.cost_unit
    (Fraction(1, 2), Fraction(5, 4))
    """

    forest: Forest
    costs: FeatureCosts
    closure: ClosureProblem
    nodes: NDArray[np.int32]
    node_error: NDArray[np.int64]
    error_unit: Fraction
    cost_unit: Fraction
    error_rounding: float
    cost_rounding: float

    @property
    def n_splits(self) -> int:
        """Number of splits of the forest."""
        return len(self.nodes)

    @cached_property
    def root_error(self) -> int:
        """The error of the forest with every tree pruned to its root, in units."""
        return int(self.node_error[self.forest.tree_offset[:-1]].sum())

    @cached_property
    def tree(self) -> NDArray[np.int64]:
        """The tree of each split; shape (n_splits,)."""
        return np.searchsorted(self.forest.tree_offset, self.nodes, side="right") - 1

    def theta(self, lam: Fraction) -> Fraction:
        """Return the trade-off `lam` in units: the gain in units that a unit of cost is worth."""
        return lam * self.cost_unit / self.error_unit

    def error_after(self, gain: int) -> Fraction:
        """Return the objective's error term after a gain of so many units."""
        return (self.root_error - gain) * self.error_unit

    def forest_of(self, kept: NDArray[np.bool_]) -> Forest:
        """Return the forest with only the kept splits; `kept` has shape (n_splits,)."""
        stays = np.zeros(self.forest.n_nodes, np.bool_)
        stays[self.nodes[kept]] = True
        return self.forest.keep_splits(stays)


def pose(
    forest: Forest, charges: RowCharges, node_errors: NDArray[np.float64], n_error: float, costs: FeatureCosts
) -> PruningProblem:
    """State the pruning of `forest` in integers.

    Parameters
    ----------
    forest : Forest
    charges : RowCharges
        Of the rows whose feature costs count.
    node_errors : float64 array of shape (n_nodes,)
    n_error : float
        The number of rows, or their weight, that `node_errors` were counted on in each tree.
    costs : FeatureCosts

    Returns
    -------
    PruningProblem
    """
    if charges.n_rows == 0:
        raise InputError("X_val has no rows; pass rows like those to be predicted", argument="X_val")
    prices = np.array([*costs.feature_costs, *costs.group_costs, costs.step_cost])
    largest_cost = charges.n_rows * float(prices[:-1].sum() + costs.step_cost * float(forest.tree_depth.sum()))
    if not isfinite(largest_cost):
        raise InputError(f"all costs of {charges.n_rows:,} rows add up to infinity; divide all costs by a factor")
    error_scale, cost_scale = choose_scales(node_errors, prices, largest_cost)
    errors, error_step, error_rounding = round_to_units(node_errors, error_scale)
    units, cost_step, cost_rounding = round_to_units(prices, cost_scale)

    nodes = np.flatnonzero(forest.left >= 0).astype(np.int32)
    gain = errors[nodes] - errors[forest.left[nodes]] - errors[forest.right[nodes]]
    _check_room(gain, int(np.ceil(largest_cost * cost_scale / cost_step)))

    # A free feature has charge -1 and picks the last price here, but no row is counted as paying it.
    charge = np.stack(costs.charges, axis=1)[forest.feature[nodes]]
    cost = (charges.alone[nodes] * units[charge]).sum(axis=1) + units[-1] * charges.visits[nodes]
    # Items so cheap that they were rounded to nothing would only slow the cuts down.
    item_cost = units[charges.item_charge] * charges.item_rows
    n_purchases = np.diff(charges.item_offset)
    index = np.full(forest.n_nodes + 1, -1, np.int32)  # its last entry is the parent of roots
    index[nodes] = np.arange(len(nodes))
    closure = ClosureProblem(
        parent=index[forest.parent[nodes]],
        gain=gain,
        cost=cost,
        item_offset=np.concatenate([[0], np.cumsum(n_purchases[item_cost > 0])]),
        item_node=index[charges.item_node[np.repeat(item_cost > 0, n_purchases)]],
        item_cost=item_cost[item_cost > 0],
    )
    return PruningProblem(
        forest=forest,
        costs=costs,
        closure=closure,
        nodes=nodes,
        node_error=errors,
        error_unit=Fraction(error_step, error_scale) / (Fraction(n_error) * forest.n_trees),
        cost_unit=Fraction(cost_step, cost_scale) / charges.n_rows,
        error_rounding=error_rounding,
        cost_rounding=cost_rounding,
    )


def _check_room(gain: NDArray[np.int64], largest_cost: int) -> None:
    """Raise if products of gains and costs leave the core's 62 bits."""
    largest_gain = sum(map(abs, gain.tolist()))  # in Python's integers: a sum in int64 could wrap unnoticed
    needed = (largest_gain + 1) * (largest_cost + 1)
    if needed >= MAX_WEIGHT // 2:
        raise InputError(
            f"errors and costs need {needed.bit_length()} bits to be exact, 61 are at hand: errors sum to "
            f"{largest_gain:,} and costs to {largest_cost:,} units. Give costs with fewer digits, or fewer rows"
        )


def choose_scales(node_errors: NDArray[np.float64], costs: NDArray[np.float64], largest_cost: float) -> tuple[int, int]:
    """Return units per error and per cost: powers of ten that make them whole, else as fine as 62 bits allow.

    Parameters
    ----------
    node_errors : float64 array
    costs : float64 array
    largest_cost : float
        What keeping everything can cost at most.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> choose_scales(np.array([3.0, 1.0]), np.array([1.0, 7.27]), 1000.0)
    (1, 100)
    """
    error_scale = _decimal_scale(node_errors, lambda scaled: _COUNT_NOISE)
    cost_scale = _decimal_scale(costs, lambda scaled: _COST_NOISE * scaled)
    error_bits = log2(max(float(np.abs(node_errors).sum()), 1.0)) + 1
    cost_bits = log2(largest_cost) if largest_cost > 0 else 0.0
    spare = _ROOM - error_bits - cost_bits
    # Whoever is whole in decimals takes only the bits it needs; the other gets the rest.
    if error_scale is None:
        error_scale = _binary_scale(
            node_errors,
            spare / 2 if cost_scale is None else spare - log2(cost_scale),
            "node errors",
            _MAX_ERROR_ROUNDING * float(np.abs(node_errors).sum()),
        )
    if cost_scale is None:
        cost_scale = _binary_scale(costs, spare - log2(error_scale), "costs")
    return error_scale, cost_scale


def round_to_units(values: NDArray[np.float64], scale: int) -> tuple[NDArray[np.int64], int, float]:
    """Return the values in whole numbers of ``step / scale``, and the largest difference.

    Parameters
    ----------
    values : float64 array
    scale : int

    Returns
    -------
    units : int64 array
    step : int
    rounding : float

    Examples
    --------
    >>> round_to_units(np.array([0.5, 1.5]), 10)
    (array([1, 3]), 5, 0.0)
    """
    scaled = np.rint(values * scale)
    if np.abs(scaled).max(initial=0) >= MAX_WEIGHT:
        largest = float(np.abs(values).max())
        raise InputError(f"{largest:g} is too large to be exact with {scale} units to 1; divide all costs by a factor")
    units = scaled.astype(np.int64)
    step = gcd(*units.tolist()) or 1  # a common factor would waste bits; all zeros have gcd 0
    return units // step, step, float(np.abs(units / scale - values).max(initial=0))


def _decimal_scale(
    values: NDArray[np.float64], noise: Callable[[NDArray[np.float64]], NDArray[np.float64] | float]
) -> int | None:
    """Return the smallest power of ten that makes the values whole but for noise, or None."""
    for digits in range(_MAX_DIGITS + 1):
        scaled = values * 10.0**digits
        if (np.abs(scaled - np.rint(scaled)) <= noise(scaled)).all():
            return int(10**digits)
    return None


def _binary_scale(values: NDArray[np.float64], bits: float, what: str, tolerance: float = 0.0) -> int:
    """Return the power of two that so many bits allow, or raise if it rounds too much."""
    scale = 1 << max(floor(bits), 0)
    if 0.5 / scale > max(_MAX_ROUNDING * np.abs(values).max(initial=0), tolerance):
        raise InputError(
            f"the {what} have more digits than exact arithmetic has room for: they would be rounded to 1/{scale}. "
            f"Round them to a few decimals, or use fewer rows"
        )
    return scale
