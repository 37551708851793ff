"""PruningPath: prunings of one forest from dear to cheap, and what is proven about them.

Sequences of prunings of one problem, nested or not, and what each gains and costs in units.

Methods that solve one trade-off after the other.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest
from scurry.forest.trim import trimmed
from scurry.pruning.problem import PruningProblem
from scurry.pruning.refine import families, within_cost, within_error

_TOLERANCE = Fraction(1, 10**12)  # relative: a budget copied from `costs` must reach the pruning it came from


@dataclass(frozen=True, eq=False)
class PrunedPoint:
    """A pruning within a budget, and how far from the best possible one it can be.

    Attributes
    ----------
    forest : Forest
        The pruned forest.
    cost : float
        Its mean cost per validation row.
    error : float
        Its error term of the objective.
    bound : float
        No pruning within the `max_cost` has a lower error, or none within the `max_error` a lower cost; NaN if unknown.
    gap : float
        The error, or the cost, minus `bound`: 0 proves that no pruning is better.
    """

    forest: Forest = field(repr=False)
    cost: float
    error: float
    bound: float
    gap: float


class PruningPath:
    """Prunings of a forest by rising trade-off between error and cost; `scurry.prune` makes it.

    ``path[i]`` is a pruned `Forest`, ``path.at(max_cost=…)`` the best one found within a budget.

    Attributes
    ----------
    problem : PruningProblem
    method : str
    lambdas : float64 array
        Where the pruning changes: ``path[i]`` is the method's answer from ``lambdas[i - 1]`` to ``lambdas[i]``, and
        there is one pruning more than lambdas. If lambdas were asked for, those, and one pruning for each.
    exact_lambdas : tuple of Fraction
    objectives : float64 array, one for each of `lambdas`
        The lowest error + lambda * cost among the path's prunings.
    lower_bounds : float64 array, one for each of `lambdas`
        What is proven: no pruning has a lower objective. NaN where nothing is.
    errors, costs : float64 arrays, one for each pruning
        The objective's error term, a mean over trees, and the mean cost per validation row.
    ties : str
        Which of several optimal prunings it holds: "largest" keeps the most splits, "any" is where the method ended.

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.6, 0.4], [0.9, 0.1], [0.0, 1.0]], "cover": [30, 20, 10]}
    >>> path = scurry.prune(scurry.Forest.from_trees([stump]), [[0.0], [1.0]], feature_costs=[3])
    >>> len(path), path.costs.tolist(), [forest.n_nodes for forest in path]
    (2, [3.0, 0.0], [3, 1])
    >>> path.point(max_cost=2)
    PrunedPoint(cost=0.0, error=0.4, bound=0.17777777777777778, gap=0.2222222222222222)
    """

    def __init__(
        self,
        problem: PruningProblem,
        method: str,
        prunings: NestedPrunings | SeparatePrunings,
        lambdas: Sequence[Fraction],
        *,
        is_exact: bool = False,
        lower_bounds: Sequence[float] | None = None,
    ) -> None:
        self.problem, self.method = problem, method
        self.ties = "largest" if is_exact else "any"
        self.exact_lambdas = tuple(lambdas)
        self._prunings, self._is_exact = prunings, is_exact
        self._gains, self._cost_units = prunings.measured(problem)
        self.lambdas = np.array([float(lam) for lam in lambdas])
        self.errors = np.array([float(problem.error(gain)) for gain in self._gains])
        self.costs = np.array([float(cost * problem.cost_unit) for cost in self._cost_units])
        self.objectives = np.array([float(self.objective(lam)) for lam in lambdas])
        unknown = self.objectives if is_exact else np.full(len(self.lambdas), np.nan)
        self.lower_bounds = unknown if lower_bounds is None else np.asarray(lower_bounds, np.float64)

    def __len__(self) -> int:
        return len(self._gains)

    def __repr__(self) -> str:
        return (
            f"PruningPath(method={self.method!r}, n_prunings={len(self)}, costs={self.costs.max():.4g} to "
            f"{self.costs.min():.4g}, errors={self.errors.min():.4g} to {self.errors.max():.4g})"
        )

    def __getitem__(self, index: int) -> Forest:
        return self._forest(self.kept(index))

    def kept(self, index: int) -> NDArray[np.bool_]:
        """Which splits a pruning keeps, as numbered by ``problem.nodes``.

        Parameters
        ----------
        index : int

        Returns
        -------
        bool array of shape (n_splits,)
        """
        return self._prunings[range(len(self))[operator.index(index)]]

    @property
    def gaps(self) -> NDArray[np.float64]:
        """How far `objectives` can lie above the optimum at most, one for each of `lambdas`."""
        gaps: NDArray[np.float64] = self.objectives - self.lower_bounds
        return gaps

    @overload
    def objective(self, lam: Fraction) -> Fraction: ...
    @overload
    def objective(self, lam: float) -> float: ...
    def objective(self, lam: Fraction | float) -> Fraction | float:
        """The lowest error + lam * cost of the path's prunings: of all prunings there are, on a whole exact path.

        Parameters
        ----------
        lam : float or Fraction
            0 or more. For a fraction the result is a fraction, and exact.

        Returns
        -------
        float or Fraction
        """
        if not isinstance(lam, int | float | np.number | Fraction) or not math.isfinite(lam) or lam < 0:
            raise InputError(f"lam must be a finite number, 0 or more, got {lam!r}")
        theta = self.problem.theta(_fraction(lam))
        vertices, slopes = self._hull
        gain, cost = vertices[bisect_right(slopes, -theta)]
        value = (self.problem.root_error - gain + theta * cost) * self.problem.error_unit
        return value if isinstance(lam, Fraction) else float(value)

    def best_for(self, lambdas: Sequence[Fraction]) -> PruningPath:
        """For each trade-off the best of the path's prunings.

        Parameters
        ----------
        lambdas : sequence of Fraction

        Returns
        -------
        PruningPath
        """
        vertices, slopes = self._hull
        units = list(zip(self._gains, self._cost_units, strict=True))
        best = [units.index(vertices[bisect_right(slopes, -self.problem.theta(lam))]) for lam in lambdas]
        return PruningPath(self.problem, self.method, SeparatePrunings([self.kept(at) for at in best]), lambdas)

    def at(self, *, max_cost: float | None = None, max_error: float | None = None) -> Forest:
        """The best pruning found within a budget; `point` says how good it is.

        Parameters
        ----------
        max_cost : float, optional
            In the unit of `costs`.
        max_error : float, optional
            In the unit of `errors`. One of the two must be given.

        Returns
        -------
        Forest
        """
        return self.point(max_cost=max_cost, max_error=max_error).forest

    def point(self, *, max_cost: float | None = None, max_error: float | None = None) -> PrunedPoint:
        """The best pruning found within a budget, with a bound on every other.

        A trade-off reaches only vertices of the lower hull of (cost, error). Between two of them a whole exact path is
        refined greedily, and the hull bounds what the best pruning could do.

        Parameters
        ----------
        max_cost : float, optional
            In the unit of `costs`.
        max_error : float, optional
            In the unit of `errors`. One of the two must be given.

        Returns
        -------
        PrunedPoint

        Raises
        ------
        InfeasibleError
            If no pruning of the path is within the budget; `achievable` is the least it needs.
        """
        if (max_cost is None) == (max_error is None):
            raise InputError("give one of max_cost and max_error")
        if max_cost is not None:
            everything = self.problem.cost_of(np.ones(self.problem.n_splits, np.bool_)) * self.problem.cost_unit
            return self._within_cost(_budget("max_cost", max_cost, everything))
        return self._within_error(_budget("max_error", max_error, self.problem.error(0)))

    @property
    def _is_whole(self) -> bool:
        """Whether every trade-off's optimum is here."""
        return self._is_exact and isinstance(self._prunings, NestedPrunings)

    @cached_property
    def _hull(self) -> tuple[list[tuple[int, int]], list[Fraction]]:
        """Gain and cost of prunings that are best for some trade-off, by rising cost, and minus the gain per cost."""
        vertices: list[tuple[int, int]] = []
        slopes: list[Fraction] = []
        for cost, loss in sorted(set(zip(self._cost_units, (-gain for gain in self._gains), strict=True))):
            if vertices and -loss <= vertices[-1][0]:
                continue
            while vertices:
                slope = Fraction(vertices[-1][0] + loss, cost - vertices[-1][1])
                if not slopes or slope > slopes[-1]:
                    slopes.append(slope)
                    break
                slopes.pop()
                vertices.pop()
            vertices.append((-loss, cost))
        return vertices, slopes

    def _within_cost(self, max_cost: Fraction) -> PrunedPoint:
        limit = math.floor(_slack(max_cost) / self.problem.cost_unit)
        affordable = [i for i, cost in enumerate(self._cost_units) if cost <= limit]
        if not affordable:
            least = float(self.costs.min())
            raise InfeasibleError(f"no pruning costs {float(max_cost):g} or less; the cheapest costs {least:g}", least)
        best = max(affordable, key=lambda i: (self._gains[i], -self._cost_units[i]))
        kept = self.kept(best)
        if self._is_whole and best > 0 and self._cost_units[best] < limit:
            jump = _Jump(self.problem, kept, self.kept(best - 1))
            kept = jump.partly(within_cost(jump.stretch, jump.families, limit - self._cost_units[best]))
        allowed = _meant(max_cost, self.problem.cost_of(kept) * self.problem.cost_unit)
        bounds = [bound - lam * allowed for lam, bound in self._proven()]
        if self._is_whole:
            bounds.append(self.problem.error(self._gains[0]))
        return self._point(kept, bounds, of_cost=False)

    def _within_error(self, max_error: Fraction) -> PrunedPoint:
        needed = math.ceil(self.problem.root_error - _slack(max_error) / self.problem.error_unit)
        good = [i for i, gain in enumerate(self._gains) if gain >= needed]
        if not good:
            least = float(self.errors.min())
            raise InfeasibleError(f"no pruning errs {float(max_error):g} or less; the lowest is {least:g}", least)
        best = min(good, key=lambda i: (self._cost_units[i], -self._gains[i]))
        kept = self.kept(best)
        if self._is_whole and best + 1 < len(self) and self._gains[best] > needed:
            jump = _Jump(self.problem, self.kept(best + 1), kept)
            kept = jump.partly(within_error(jump.stretch, jump.families, needed - self._gains[best + 1]))
        allowed = _meant(max_error, self.problem.error(self.problem.gain_of(kept)))
        bounds = [(bound - allowed) / lam for lam, bound in self._proven() if lam > 0]
        if self._is_whole:
            bounds.append(self._cost_units[-1] * self.problem.cost_unit)
        return self._point(kept, bounds, of_cost=True)

    def _proven(self) -> list[tuple[Fraction, Fraction]]:
        """Trade-offs, and what every pruning's objective is at least."""
        if self._is_exact:
            return [(lam, self.objective(lam)) for lam in self.exact_lambdas]
        known = zip(self.exact_lambdas, self.lower_bounds.tolist(), strict=True)
        return [(lam, Fraction(bound)) for lam, bound in known if math.isfinite(bound)]

    def _point(self, kept: NDArray[np.bool_], bounds: Sequence[Fraction], *, of_cost: bool) -> PrunedPoint:
        error = self.problem.error(self.problem.gain_of(kept))
        cost = self.problem.cost_of(kept) * self.problem.cost_unit
        if not bounds:
            return PrunedPoint(self._forest(kept), float(cost), float(error), math.nan, math.nan)
        bound = max(bounds)
        gap = max((cost if of_cost else error) - bound, Fraction(0))
        return PrunedPoint(self._forest(kept), float(cost), float(error), float(bound), float(gap))

    def _forest(self, kept: NDArray[np.bool_]) -> Forest:
        return trimmed(self.problem.forest, self.problem.keeps(kept))


class _Jump:
    """What lies between two nested prunings."""

    def __init__(self, problem: PruningProblem, inner: NDArray[np.bool_], outer: NDArray[np.bool_]) -> None:
        self.inner, self.between = inner, np.flatnonzero(outer & ~inner)
        self.stretch = problem.between(inner, outer)
        self.families = families(problem)[self.between]

    def partly(self, added: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The inner pruning with some of the splits in between."""
        grown = self.inner.copy()
        grown[self.between[added]] = True
        return grown


def _budget(name: str, value: Any, largest: Fraction) -> Fraction:
    if not isinstance(value, int | float | np.number | Fraction) or math.isnan(value):
        raise InputError(f"{name} must be a number, got {value!r}")
    if value == math.inf:
        return largest
    if value == -math.inf:
        return Fraction(-1)
    return min(_fraction(value), largest)


def _slack(budget: Fraction) -> Fraction:
    return budget + abs(budget) * _TOLERANCE


def _meant(budget: Fraction, reached: Fraction) -> Fraction:
    """The budget, or what was reached if the two differ by rounding alone."""
    return reached if _slack(reached) >= budget else budget


def _fraction(number: Any) -> Fraction:
    return Fraction(number) if isinstance(number, int | Fraction) else Fraction(float(number))


class NestedPrunings:
    """Prunings of which each keeps a part of what the one before it keeps.

    Parameters
    ----------
    kept_by : int32 array of shape (n_splits,)
        How many of the prunings keep each split: the first ones.
    n_prunings : int
    """

    def __init__(self, kept_by: NDArray[np.int32], n_prunings: int) -> None:
        self.kept_by, self.n_prunings = kept_by, n_prunings

    def __len__(self) -> int:
        return self.n_prunings

    def __getitem__(self, index: int) -> NDArray[np.bool_]:
        return self.kept_by > range(len(self))[index]

    def measured(self, problem: PruningProblem) -> tuple[list[int], list[int]]:
        """The gain and cost of each pruning, all in one pass."""
        gain, cost = np.zeros(len(self) + 1, np.int64), np.zeros(len(self) + 1, np.int64)
        np.add.at(gain, self.kept_by, problem.gain)
        np.add.at(cost, self.kept_by, problem.cost)
        if len(problem.item_cost):
            bought_by = np.maximum.reduceat(self.kept_by[problem.item_node], problem.item_offset[:-1])
            np.add.at(cost, bought_by, problem.item_cost)
        # Entry k is what exactly the first k prunings have: pruning i has all entries beyond i.
        return _sums_beyond(gain), _sums_beyond(cost)


class SeparatePrunings:
    """Prunings found one by one.

    Parameters
    ----------
    kept : sequence of bool arrays of shape (n_splits,)
    """

    def __init__(self, kept: Sequence[NDArray[np.bool_]]) -> None:
        self.kept = kept

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, index: int) -> NDArray[np.bool_]:
        return self.kept[index]

    def measured(self, problem: PruningProblem) -> tuple[list[int], list[int]]:
        """The gain and cost of each pruning."""
        return [problem.gain_of(kept) for kept in self.kept], [problem.cost_of(kept) for kept in self.kept]


def _sums_beyond(entries: NDArray[np.int64]) -> list[int]:
    sums: list[int] = np.cumsum(entries[:0:-1])[::-1].tolist()
    return sums


Progress = Callable[[int, int], Any]


def solve_each(
    problem: PruningProblem,
    method: str,
    lambdas: Sequence[Fraction],
    solve: Callable[[float], tuple[NDArray[np.bool_], float]],
    progress: Progress | None,
) -> PruningPath:
    """The prunings a method finds for some trade-offs.

    Parameters
    ----------
    problem : PruningProblem
    method : str
    lambdas : sequence of Fraction
    solve : callable
        Takes theta, the price of a unit of cost in units of gain; returns the splits to keep, and a lower bound on
        error + theta * cost in units of error, NaN if there is none.
    progress : callable or None
        Called as ``progress(n_solved, n_lambdas)``.

    Returns
    -------
    PruningPath
    """
    kept, bounds = [], []
    for n_solved, lam in enumerate(lambdas):
        found, bound = solve(float(problem.theta(lam)))
        kept.append(found)
        bounds.append(bound * float(problem.error_unit))
        if progress is not None:
            progress(n_solved + 1, len(lambdas))
    return PruningPath(problem, method, SeparatePrunings(kept), lambdas, lower_bounds=bounds)
