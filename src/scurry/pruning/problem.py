"""Pruning as a closure: which splits to keep, in exact integers.

Let x_h = 1 iff inner node h stays a split, and call a *charge* what a row pays once for a feature or a group. Then

- x_h <= x_parent(h): a split is reached only through splits;
- x_h <= w_item where h is the first node that reads the charge's features on the row's path in h's tree;
- the error of the pruned trees is the roots' error minus the gains e_h - e_left - e_right of the splits kept.

All constraints have one +1 and one -1, so every optimum is a maximum-weight closure: no linear program is needed.
A charge of a row that a single node can cause is part of that node's cost; the others are items, and rows whose charge
has the same causes share one.

=======================  ==============================================
papers                   here
=======================  ==============================================
e_h                      ``node_errors``
N (errors), N (costs)    ``n_error``, the rows of ``X_val``
c_k, w_{k,i}             ``item_cost`` by its rows, an item
u_{t,k,i}                ``item_node[item_offset[i]:item_offset[i+1]]``
z_h                      ``kept[parent(h)] - kept[h]``
d_h |S_h| (depth term)   ``step_cost`` times the visits of kept nodes
=======================  ==============================================

Errors and costs as integers, so that optima are exact: the scale is chosen, checked and reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor, gcd, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.costs import FeatureCosts
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.pruning.row_charges import RowCharges


@dataclass(frozen=True, eq=False)
class Stretch:
    """Splits that may be kept or not, given others that are: a closure problem.

    Attributes
    ----------
    parent : int32 array of shape (n_splits,)
        -1: none, or one that is kept in any case. A parent comes before its children.
    gain, cost : int64 arrays of shape (n_splits,)
        What keeping the split takes off the error, and what it costs by itself.
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
    def n_splits(self) -> int:
        """Number of splits."""
        return len(self.parent)

    @property
    def arrays(self) -> dict[str, Any]:
        """What the native core takes, by name."""
        return {
            "parent": self.parent,
            "gain": self.gain,
            "cost": self.cost,
            "item_offset": self.item_offset,
            "item_node": self.item_node,
            "item_cost": self.item_cost,
        }

    @cached_property
    def item_of_purchase(self) -> NDArray[np.int32]:
        """The item of each entry of `item_node`."""
        return np.repeat(np.arange(len(self.item_cost), dtype=np.int32), np.diff(self.item_offset))

    def bought(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which items the kept splits buy; shape (n_items,)."""
        if not len(self.item_cost):
            return np.zeros(0, np.bool_)
        return np.logical_or.reduceat(kept[self.item_node], self.item_offset[:-1])

    def gain_of(self, kept: NDArray[np.bool_]) -> int:
        """The gain of keeping these splits."""
        return int(self.gain[kept].sum())

    def cost_of(self, kept: NDArray[np.bool_]) -> int:
        """The cost of keeping these splits."""
        return int(self.cost[kept].sum()) + int(self.item_cost[self.bought(kept)].sum())

    def between(self, inner: NDArray[np.bool_], outer: NDArray[np.bool_]) -> Stretch:
        """The splits in `outer` that are not in `inner`, those of `inner` kept and what they buy paid for."""
        free = outer & ~inner
        index = np.cumsum(free, dtype=np.int32) - 1
        parent = self.parent[free]
        open_items = ~self.bought(inner) if inner.any() else np.ones(len(self.item_cost), np.bool_)
        wanted = free[self.item_node] & open_items[self.item_of_purchase]
        n_buyers = np.bincount(self.item_of_purchase[wanted], minlength=len(self.item_cost))
        return Stretch(
            np.where((parent >= 0) & free[parent], index[parent], -1).astype(np.int32),
            self.gain[free],
            self.cost[free],
            np.concatenate([[0], np.cumsum(n_buyers[n_buyers > 0])]),
            index[self.item_node[wanted]],
            self.item_cost[n_buyers > 0],
        )


@dataclass(frozen=True, eq=False)
class PruningProblem(Stretch):
    """A forest to prune, with what its splits gain and cost as integers.

    Attributes
    ----------
    forest : Forest
    nodes : int32 array of shape (n_splits,)
        The forest's inner nodes; splits are numbered as here.
    node_error : int64 array of shape (n_nodes,)
        What each of the forest's nodes gets wrong, in units.
    costs : FeatureCosts
    error_unit, cost_unit : Fraction
        One unit of gain in the objective's error, one unit of cost in mean cost per row.
    error_rounding, cost_rounding : float
        The largest difference between a node error, or a cost, as given and as used; 0 if none was rounded.
    """

    forest: Forest
    nodes: NDArray[np.int32]
    node_error: NDArray[np.int64]
    costs: FeatureCosts
    error_unit: Fraction
    cost_unit: Fraction
    error_rounding: float
    cost_rounding: float

    @cached_property
    def root_error(self) -> int:
        """The error of the forest with every tree pruned to its root, in units."""
        return int(self.node_error[self.forest.tree_offset[:-1]].sum())

    @cached_property
    def tree(self) -> NDArray[np.int64]:
        """The tree of each split; shape (n_splits,)."""
        return np.searchsorted(self.forest.tree_offset, self.nodes, side="right") - 1

    def theta(self, lam: Fraction) -> Fraction:
        """The price of a unit of cost in units of gain that the trade-off `lam` means."""
        return lam * self.cost_unit / self.error_unit

    def error(self, units: int) -> Fraction:
        """The objective's error term after a gain of so many units."""
        return (self.root_error - units) * self.error_unit

    def keeps(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the forest's nodes stay splits; shape (n_nodes,)."""
        stays = np.zeros(self.forest.n_nodes, np.bool_)
        stays[self.nodes[kept]] = True
        return stays


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
        raise InputError("X_val has no rows; pass rows like those to be predicted")
    prices = np.array([*costs.feature_costs, *costs.group_costs, costs.step_cost])
    largest_cost = charges.n_rows * float(prices[:-1].sum() + costs.step_cost * float(forest.tree_depth.sum()))
    errors_scale, costs_scale = choose_scales(node_errors, prices, largest_cost)
    errors, error_step, error_rounding = in_units(node_errors, errors_scale)
    units, cost_step, cost_rounding = in_units(prices, costs_scale)
    _check_size(forest, errors, int(np.ceil(largest_cost * costs_scale / cost_step)))

    inner = forest.left >= 0
    nodes = np.flatnonzero(inner).astype(np.int32)
    index = np.append(np.cumsum(inner, dtype=np.int32) - 1, np.int32(-1))
    offset, buyer, item_cost = _items(charges, units)
    return PruningProblem(
        index[forest.parent[nodes]],
        errors[nodes] - errors[forest.left[nodes]] - errors[forest.right[nodes]],
        _own_cost(forest, nodes, charges, costs, units),
        offset,
        index[buyer],
        item_cost,
        forest,
        nodes,
        errors,
        costs,
        Fraction(error_step, errors_scale) / (Fraction(n_error) * forest.n_trees),
        Fraction(cost_step, costs_scale) / charges.n_rows,
        error_rounding,
        cost_rounding,
    )


def _own_cost(
    forest: Forest, nodes: NDArray[np.int32], charges: RowCharges, costs: FeatureCosts, units: NDArray[np.int64]
) -> NDArray[np.int64]:
    """What keeping each node costs by itself: charges that it alone causes, and a step of each row through it."""
    # No row pays for what is free, charge -1.
    of_node = np.stack(costs.charges, axis=1)[forest.feature[nodes]]
    paid = (charges.alone[nodes] * units[of_node]).sum(axis=1)
    cost: NDArray[np.int64] = paid + units[-1] * charges.visits[nodes]
    return cost


def _items(
    charges: RowCharges, units: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Offsets, buyers and costs of the items; without those so cheap that they were rounded to nothing."""
    cost = units[charges.item_charge] * charges.item_rows
    n_buyers = np.diff(charges.item_offset)
    node = charges.item_node[np.repeat(cost > 0, n_buyers)]
    return np.concatenate([[0], np.cumsum(n_buyers[cost > 0])]), node, cost[cost > 0]


def _check_size(forest: Forest, errors: NDArray[np.int64], largest_cost: int) -> None:
    inner = np.flatnonzero(forest.left >= 0)
    gains = errors[inner] - errors[forest.left[inner]] - errors[forest.right[inner]]
    largest_gain = sum(map(abs, gains.tolist()))
    needed = (largest_gain + 1) * (largest_cost + 1)
    if needed >= MAX_WEIGHT // 2:
        raise InputError(
            f"errors and costs need {needed.bit_length()} bits to be exact, 61 are at hand: errors sum to "
            f"{largest_gain:,} and costs to {largest_cost:,} units. Give costs with fewer digits, or fewer rows"
        )


MAX_WEIGHT = 2**62
_ROOM = 60  # bits of all gains times all costs
_MAX_DIGITS = 9
_COUNT_NOISE = 1e-6  # of a unit: what products of fractions and counts leave behind
_COST_NOISE = 1e-12  # of a cost: what writing it in binary leaves behind, so that a small cost stays one
_MAX_ROUNDING = 1e-6  # of the largest value


def choose_scales(node_errors: NDArray[np.float64], costs: NDArray[np.float64], largest_cost: float) -> tuple[int, int]:
    """Units per error and per cost: powers of ten that make them whole, else as fine as 62 bits allow.

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
    if error_scale is None:
        error_scale = _binary_scale(
            node_errors, spare / 2 if cost_scale is None else spare - log2(cost_scale), "node errors"
        )
    if cost_scale is None:
        cost_scale = _binary_scale(costs, spare - log2(error_scale), "costs")
    return error_scale, cost_scale


def in_units(values: NDArray[np.float64], scale: int) -> tuple[NDArray[np.int64], int, float]:
    """Whole numbers of ``step / scale`` nearest to the values, and the largest difference.

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
    >>> in_units(np.array([0.5, 1.5]), 10)
    (array([1, 3]), 5, 0.0)
    """
    scaled = np.rint(values * scale)
    if np.abs(scaled).max(initial=0) >= MAX_WEIGHT:
        largest = float(np.abs(values).max())
        raise InputError(f"{largest:g} is too large to be exact with {scale} units to 1; divide all costs by a factor")
    units = scaled.astype(np.int64)
    step = gcd(*units.tolist()) or 1
    return units // step, step, float(np.abs(units / scale - values).max(initial=0))


def _decimal_scale(
    values: NDArray[np.float64], noise: Callable[[NDArray[np.float64]], NDArray[np.float64] | float]
) -> int | None:
    for digits in range(_MAX_DIGITS + 1):
        scaled = values * 10.0**digits
        if (np.abs(scaled - np.rint(scaled)) <= noise(scaled)).all():
            return int(10**digits)
    return None


def _binary_scale(values: NDArray[np.float64], bits: float, what: str) -> int:
    scale = 1 << max(floor(bits), 0)
    if 0.5 / scale > _MAX_ROUNDING * np.abs(values).max(initial=0):
        raise InputError(
            f"the {what} have more digits than exact arithmetic has room for: they would be rounded to 1/{scale}. "
            f"Round them to a few decimals, or use fewer rows"
        )
    return scale
