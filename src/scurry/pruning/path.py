"""PruningPath: prunings of one forest from expensive to cheap, and what is proven about them."""

from __future__ import annotations

import copy
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

from scurry.checks import Progress, float_of, is_number
from scurry.errors import InfeasibleError, InputError, warn
from scurry.forest import Forest
from scurry.predictor import Predictor
from scurry.promises import Cost, read_promise
from scurry.pruning.cost_promise import Candidate, certify_cost
from scurry.pruning.problem import PruningProblem
from scurry.pruning.refine import Offers, ValidationRows, advise, within_cost, within_error

# Budgets, evenly spaced, whose best pruning is judged on the validation rows; refining one takes much longer.
_N_OFFERS, _N_REFINED = 40, 10
# Shares of a promised budget whose prunings may be certified: more of them close to it.
_SHARES = (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 1.0)
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
    single_label : label or None
        The label that every validation row gets; None if there are several, or if the rows are not known here.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0], [1], [2], [3]], [0, 0, 1, 1])
    >>> scurry.prune(tree, [[0], [3]]).point(max_cost=1)
    PrunedPoint(cost=1.0, error=0.0, bound=0.0, gap=0.0, single_label=None)
    """

    forest: Forest = field(repr=False)
    cost: float
    error: float
    bound: float
    gap: float
    single_label: Any = None


class PruningPath:
    """Prunings of a forest from expensive to cheap; `scurry.prune` returns it.

    ``path[i]`` is a pruned `Forest`, ``path.at(max_cost=…)`` the best one found within a budget. If the labels of the
    validation rows are known, `at` chooses from `offers`: prunings that are better on these rows than all cheaper ones.

    Attributes
    ----------
    problem : PruningProblem
    method : str
    validation : ValidationRows or None
        The rows that prunings are judged on.
    lambdas : float64 array
        Where the pruning changes: ``path[i]`` is the method's answer from ``lambdas[i - 1]`` to ``lambdas[i]``, so
        there is one pruning more than lambdas. If `prune` was given lambdas: those, with one pruning for each.
    exact_lambdas : tuple of Fraction
    objectives : float64 array, one for each of `lambdas`
        The lowest error + lambda * cost among the path's prunings.
    lower_bounds : float64 array, one for each of `lambdas`
        No pruning has a lower objective, proven by the method; NaN where it proves nothing.
    errors, costs : float64 arrays, one for each pruning
        The objective's error term, a mean over trees, and the mean cost per validation row.
    ties : str
        Which of several optimal prunings this is: "largest" keeps the most splits, "any" is where the method ended.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier(max_depth=1).fit([[0], [1], [2], [3], [4]], [0, 0, 1, 1, 0])
    >>> path = scurry.prune(tree, [[0], [4]], feature_costs=[3])
    >>> len(path), path.costs.tolist(), [forest.n_nodes for forest in path]
    (2, [3.0, 0.0], [3, 1])
    >>> path.offers[-1].error  # of rows the tree has seen; pass others
    Traceback (most recent call last):
    ...
    scurry.errors.InputError: forests are judged by labels; pass y_val to scurry.prune
    """

    validation: ValidationRows | None = None

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
        # Whether the optimum for every trade-off is here, not only for the lambdas that were given.
        self._is_whole = is_exact and isinstance(prunings, NestedPrunings)
        self._gains, self._cost_units = prunings.measure(problem)
        self.lambdas = np.array([float(lam) for lam in lambdas])
        self.errors = np.array([float(problem.error_after(gain)) for gain in self._gains])
        self.costs = np.array([float(cost * problem.cost_unit) for cost in self._cost_units])
        self.objectives = np.array([float(self.objective(lam)) for lam in lambdas])
        if lower_bounds is None:
            # An exact method's objectives are optimal, so they are their own bounds.
            self.lower_bounds = self.objectives if is_exact else np.full(len(self.lambdas), np.nan)
        else:
            self.lower_bounds = np.asarray(lower_bounds, np.float64)

    def __len__(self) -> int:
        return len(self._gains)

    def __repr__(self) -> str:
        return (
            f"PruningPath(method={self.method!r}, n_prunings={len(self)}, costs={self.costs.max():.4g} to "
            f"{self.costs.min():.4g}, errors={self.errors.min():.4g} to {self.errors.max():.4g})"
        )

    def __getitem__(self, index: int) -> Forest:
        return self.problem.forest_of(self.kept(index))

    def kept(self, index: int) -> NDArray[np.bool_]:
        """Return which splits a pruning keeps, as numbered by ``problem.nodes``.

        Parameters
        ----------
        index : int

        Returns
        -------
        bool array of shape (n_splits,)
        """
        return self._prunings[range(len(self))[operator.index(index)]]

    def judge_on(self, validation: ValidationRows | None) -> PruningPath:
        """Return the same path, whose prunings are judged on some rows, or by the objective's error alone.

        Parameters
        ----------
        validation : ValidationRows or None

        Returns
        -------
        PruningPath
        """
        path = copy.copy(self)
        path.validation = validation
        return path

    @property
    def offers(self) -> Offers:
        """The prunings to choose from: each is better on the validation rows than all cheaper ones."""
        return self._judged[0]

    @cached_property
    def _judged(self) -> tuple[Offers, dict[float, NDArray[np.bool_]]]:
        """The offers, and the splits that the one of each cost keeps."""
        if self.validation is None:
            raise InputError("the validation rows of this path are not known; make it with scurry.prune(…, y_val)")
        many, few = (np.linspace(self.costs.min(), self.costs.max(), n + 1) for n in (_N_OFFERS, _N_REFINED))
        distinct = {id(kept): kept for kept in [*self.spread(many), *self.spread(few, refine=True)]}.values()
        kept_of = {self.validation.judge(self.problem.forest_of(kept), self.method): kept for kept in distinct}
        offers = Offers(kept_of, self.problem.forest, self.problem.costs)
        return offers, {offer.cost: kept_of[offer] for offer in offers}

    def spread(
        self, budgets: Sequence[float] | NDArray[np.float64], *, refine: bool = False
    ) -> list[NDArray[np.bool_]]:
        """Return the splits of the best pruning within each budget, by the objective's error.

        Parameters
        ----------
        budgets : sequence of rising numbers
            None below the lowest cost.
        refine : bool
            Whether to look between prunings of a whole exact path where it has none between two budgets.

        Returns
        -------
        list of bool arrays of shape (n_splits,)
            One for each budget; the same array where several budgets buy the same pruning.
        """
        found: dict[int, NDArray[np.bool_]] = {}
        chosen = []
        for at, budget in enumerate(budgets):
            best = max(self._within_cost(budget), key=lambda i: (self._gains[i], -self._cost_units[i]))
            if refine and self._is_whole and at and self.costs[best] < budgets[at - 1] and best > 0:
                chosen.append(self._refine_cost(best, self._cost_limit(budget)))
            else:
                chosen.append(found.setdefault(best, self.kept(best)))
        return chosen

    @property
    def gaps(self) -> NDArray[np.float64]:
        """How far `objectives` can be above the optimum at most, one for each of `lambdas`."""
        gaps: NDArray[np.float64] = self.objectives - self.lower_bounds
        return gaps

    @overload
    def objective(self, lam: Fraction) -> Fraction: ...
    @overload
    def objective(self, lam: float) -> float: ...
    def objective(self, lam: Fraction | float) -> Fraction | float:
        """Return the lowest error + lam * cost of the path's prunings.

        On an exact path without given lambdas this is the lowest of all prunings there are.

        Parameters
        ----------
        lam : float or Fraction
            0 or more. For a fraction the result is a fraction, and exact.

        Returns
        -------
        float or Fraction
        """
        if not 0 <= float_of(lam) < math.inf:
            raise InputError(f"lam must be a finite number, 0 or more, got {lam!r}", argument="lam")
        theta = self.problem.theta(to_fraction(lam))
        gain, cost = self._best_vertex(theta)
        value = (self.problem.root_error - gain + theta * cost) * self.problem.error_unit
        return value if isinstance(lam, Fraction) else float(value)

    def best_for(self, lambdas: Sequence[Fraction]) -> PruningPath:
        """Return the best of the path's prunings for each trade-off.

        Parameters
        ----------
        lambdas : sequence of Fraction

        Returns
        -------
        PruningPath
        """
        units = list(zip(self._gains, self._cost_units, strict=True))
        best = [units.index(self._best_vertex(self.problem.theta(lam))) for lam in lambdas]
        return PruningPath(self.problem, self.method, SeparatePrunings([self.kept(at) for at in best]), lambdas)

    @overload
    def at(self, *, max_cost: float | None = None, max_error: float | None = None) -> Forest: ...
    @overload
    def at(self, *, promise: Cost | str, X_cal: Any = None) -> Predictor: ...
    def at(
        self,
        *,
        max_cost: float | None = None,
        max_error: float | None = None,
        promise: Cost | str | None = None,
        X_cal: Any = None,
    ) -> Forest | Predictor:
        """Return the best pruning found within a budget; `point` also says how good it is.

        A budget is kept by the rows that the path was made with, by whose costs it was chosen. A promise is kept by new
        rows: the most expensive pruning is returned whose mean cost is certified on `X_cal`. Warns if the pruning
        answers one label to every validation row.

        Parameters
        ----------
        max_cost : float, optional
            The largest mean cost per row, in the unit of `costs`; single rows may pay more.
        max_error : float, optional
            In the unit of `errors`. One of `max_cost`, `max_error` and `promise` must be given.
        promise : Cost or str, optional
            Such as ``scurry.promises.Cost(40)``, or its text, ``"cost<=40"``.
        X_cal : array or DataFrame of shape (n_rows, n_features), optional
            Rows to certify the promise on, independent of each other and like those to come. They must not be among the
            rows that trained the model or those that the path was made with.

        Returns
        -------
        Forest, or Predictor for a promise
            The predictor evaluates every tree of the pruning. It has the promise and its certificate.

        Raises
        ------
        InfeasibleError
            If no pruning of the path is within the budget, or none is certified; `achievable` is the least it needs.
        """
        if promise is None:
            if X_cal is not None:
                raise InputError("X_cal certifies a promise; pass promise=scurry.promises.Cost(…)", argument="X_cal")
            return self.point(max_cost=max_cost, max_error=max_error).forest
        if max_cost is not None or max_error is not None:
            raise InputError("give a promise or a budget, not both; a promise has its budget", argument="promise")
        asked = read_promise(promise)
        if not isinstance(asked, Cost):
            hint = f". Did you mean Cost({promise})?" if is_number(promise) else ""
            raise InputError(
                f"a pruning promises scurry.promises.Cost(max_cost), got {asked!r}{hint}", argument="promise"
            )
        return certify_cost(self._candidates(asked), asked, X_cal, self.problem.costs, self.validation, self.method)

    def _candidates(self, promise: Cost) -> list[Candidate]:
        """Return prunings within the budget of a promise, by rising cost on the rows that the path was made with."""
        limit = self._cost_limit(promise.max_cost) * self.problem.cost_unit
        self._within_cost(promise.max_cost)  # an error if there are none
        if self.validation is not None and self.validation.truth is not None:
            return [Candidate.of(offer) for offer in self.offers.within(float(limit))]
        least, most = float(self.costs.min()), min(float(limit), float(self.costs.max()))
        budgets = sorted({least + share * (most - least) for share in _SHARES} | set(self.costs[self.costs <= most]))
        distinct = {id(kept): kept for kept in self.spread(budgets, refine=True)}.values()
        unit, cost_of = self.problem.cost_unit, self.problem.closure.cost_of
        return [Candidate(self.problem.forest_of(kept), float(cost_of(kept) * unit)) for kept in distinct]

    def point(self, *, max_cost: float | None = None, max_error: float | None = None) -> PrunedPoint:
        """Return the best pruning found within a budget, with a bound on every other.

        A trade-off reaches only vertices of the lower hull of (cost, error). Between two of them an exact path is
        refined greedily, and the hull bounds what the best pruning could do.

        Parameters
        ----------
        max_cost : float, optional
            The largest mean cost per row, in the unit of `costs`; single rows may pay more.
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
        kept = self._choose(max_cost, max_error)
        if max_cost is not None:
            kept = self._cheapest_alike(kept)  # not for `max_error`: it answers alike, but has more errors
        point = self._describe(kept, max_cost, max_error)
        if point.single_label is not None:
            weighed_by = None if self.validation is None else self.validation.error_costs
            advice = advise(point.single_label, point.forest, weighed_by)
            warn(f"the pruning with a mean cost of {point.cost:g} per row is of little use: {advice}")
        return point

    def _choose(self, max_cost: float | None, max_error: float | None) -> NDArray[np.bool_]:
        """Return the splits of the best pruning within a budget."""
        problem, gains, costs = self.problem, self._gains, self._cost_units
        if max_cost is not None:
            limit = self._cost_limit(max_cost)
            within = self._within_cost(max_cost)
            if self.validation is not None and self.validation.truth is not None:
                offers, kept_at = self._judged
                return kept_at[offers.at(float(limit * problem.cost_unit)).cost]
            best = max(within, key=lambda i: (gains[i], -costs[i]))
            return self._refine_cost(best, limit) if self._is_whole else self.kept(best)
        budget = _check_budget("max_error", max_error, problem.error_after(0))
        needed = math.ceil(problem.root_error - _widen(budget) / problem.error_unit)
        within = [i for i, gain in enumerate(gains) if gain >= needed]
        if not within:
            least = float(self.errors.min())
            raise InfeasibleError(
                f"no pruning has an error of {float(budget):g} or less; the lowest is {least:g}", least
            )
        best = min(within, key=lambda i: (costs[i], -gains[i]))
        if self._is_whole and best + 1 < len(self) and gains[best] > needed:
            return within_error(problem, self.kept(best + 1), self.kept(best), needed)
        return self.kept(best)

    def _cost_limit(self, max_cost: float) -> int:
        """Return a budget in units."""
        return math.floor(_widen(_check_budget("max_cost", max_cost, self._full_cost)) / self.problem.cost_unit)

    @cached_property
    def _full_cost(self) -> Fraction:
        """What keeping every split costs."""
        problem = self.problem
        return problem.closure.cost_of(np.ones(problem.n_splits, np.bool_)) * problem.cost_unit

    def _within_cost(self, max_cost: float) -> list[int]:
        """Return the prunings of the path within a budget."""
        limit = self._cost_limit(max_cost)
        within = [i for i, cost in enumerate(self._cost_units) if cost <= limit]
        if not within:
            least = float(self.costs.min())
            raise InfeasibleError(f"no pruning costs {float(max_cost):g} or less; the cheapest costs {least:g}", least)
        return within

    def _refine_cost(self, best: int, limit: int) -> NDArray[np.bool_]:
        """Return a pruning between a vertex and the next expensive one, within a cost in units."""
        if best == 0 or self._cost_units[best] >= limit:
            return self.kept(best)
        return within_cost(self.problem, self.kept(best), self.kept(best - 1), limit)

    def _cheapest_alike(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the cheapest pruning instead of one that answers every validation row just as that does."""
        if self.validation is None:
            return kept
        cheapest = self.kept(int(np.argmin(self.costs)))
        label, least = (self.validation.single_label(self.problem.forest_of(each)) for each in (kept, cheapest))
        return cheapest if label is not None and label == least else kept

    def _describe(self, kept: NDArray[np.bool_], max_cost: float | None, max_error: float | None) -> PrunedPoint:
        """Return a pruning with what is proven about it within a budget."""
        problem, closure = self.problem, self.problem.closure
        # error + lam * cost >= bound for every pruning and each proven lam, so a limit on one bounds the other.
        error = problem.error_after(closure.gain_of(kept))
        cost = closure.cost_of(kept) * problem.cost_unit
        if max_cost is not None:
            reached, allowed = error, _undo_rounding(_check_budget("max_cost", max_cost, self._full_cost), cost)
            bounds = [bound - lam * allowed for lam, bound in self._proven_bounds()]
            extreme = problem.error_after(self._gains[0])
        else:
            reached, allowed = (
                cost,
                _undo_rounding(_check_budget("max_error", max_error, problem.error_after(0)), error),
            )
            bounds = [(bound - allowed) / lam for lam, bound in self._proven_bounds() if lam > 0]
            extreme = self._cost_units[-1] * problem.cost_unit
        if self._is_whole:
            bounds.append(extreme)
        forest = problem.forest_of(kept)
        label = None if self.validation is None else self.validation.single_label(forest)
        if not bounds:
            return PrunedPoint(forest, float(cost), float(error), math.nan, math.nan, label)
        gap = max(reached - max(bounds), Fraction(0))
        return PrunedPoint(forest, float(cost), float(error), float(max(bounds)), float(gap), label)

    def _proven_bounds(self) -> list[tuple[Fraction, Fraction]]:
        """Return trade-offs with what the objective of every pruning is at least."""
        if self._is_exact:
            return [(lam, self.objective(lam)) for lam in self.exact_lambdas]
        known = zip(self.exact_lambdas, self.lower_bounds.tolist(), strict=True)
        return [(lam, Fraction(bound)) for lam, bound in known if math.isfinite(bound)]

    def _best_vertex(self, theta: Fraction) -> tuple[int, int]:
        """Return gain and cost, in units, of the path's best pruning for a trade-off."""
        vertices, slopes = self._hull
        return vertices[bisect_right(slopes, -theta)]

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
                # The vertex before lies on or above the line to this one.
                slopes.pop()
                vertices.pop()
            vertices.append((-loss, cost))
        return vertices, slopes


class NestedPrunings:
    """Prunings of which each keeps a part of what the one before it keeps.

    Parameters
    ----------
    kept_until : int32 array of shape (n_splits,)
        Pruning i keeps the split if ``i < kept_until``.
    n_prunings : int
    """

    def __init__(self, kept_until: NDArray[np.int32], n_prunings: int) -> None:
        self.kept_until, self.n_prunings = kept_until, n_prunings

    def __len__(self) -> int:
        return self.n_prunings

    def __getitem__(self, index: int) -> NDArray[np.bool_]:
        return self.kept_until > range(len(self))[index]

    def measure(self, problem: PruningProblem) -> tuple[list[int], list[int]]:
        """Return the gain and cost of each pruning in units, all in one pass."""
        closure = problem.closure
        gain, cost = np.zeros(len(self) + 1, np.int64), np.zeros(len(self) + 1, np.int64)
        np.add.at(gain, self.kept_until, closure.gain)
        np.add.at(cost, self.kept_until, closure.cost)
        if closure.n_items:
            bought_until = np.maximum.reduceat(self.kept_until[closure.item_node], closure.item_offset[:-1])
            np.add.at(cost, bought_until, closure.item_cost)
        # Entry k is what exactly the first k prunings have: pruning i has all entries beyond i.
        return np.cumsum(gain[:0:-1])[::-1].tolist(), np.cumsum(cost[:0:-1])[::-1].tolist()


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

    def measure(self, problem: PruningProblem) -> tuple[list[int], list[int]]:
        """Return the gain and cost of each pruning in units."""
        closure = problem.closure
        return [closure.gain_of(kept) for kept in self.kept], [closure.cost_of(kept) for kept in self.kept]


def solve_each(
    problem: PruningProblem,
    method: str,
    lambdas: Sequence[Fraction],
    solve: Callable[[float], tuple[NDArray[np.bool_], float]],
    progress: Progress | None,
) -> PruningPath:
    """Solve one trade-off after the other.

    Parameters
    ----------
    problem : PruningProblem
    method : str
    lambdas : sequence of Fraction
    solve : callable
        Takes theta; returns the splits to keep, and a lower bound on error + theta * cost in units of error, NaN if
        there is none.
    progress : callable or None
        Called as ``progress(n_solved, n_lambdas)``.

    Returns
    -------
    PruningPath
    """
    kept, bounds = [], []
    for n_solved, lam in enumerate(lambdas, start=1):
        found, bound = solve(float(problem.theta(lam)))
        kept.append(found)
        bounds.append(bound * float(problem.error_unit))
        if progress is not None:
            progress(n_solved, len(lambdas))
    return PruningPath(problem, method, SeparatePrunings(kept), lambdas, lower_bounds=bounds)


def to_fraction(number: Any) -> Fraction:
    """Return a real number as a fraction; NumPy's numbers go through float."""
    return Fraction(number) if isinstance(number, int | Fraction) else Fraction(float(number))


def _check_budget(name: str, value: Any, largest: Fraction) -> Fraction:
    """Return a budget as a fraction, cut to the largest that makes a difference."""
    number = float_of(value)
    if math.isnan(number):
        raise InputError(f"{name} must be a number, got {value!r}", argument=name)
    if math.isinf(number):
        return largest if value > 0 else Fraction(-1)  # nothing costs less than 0
    return min(to_fraction(value), largest)


def _widen(budget: Fraction) -> Fraction:
    """Return the budget with some room for rounding."""
    return budget + abs(budget) * _TOLERANCE


def _undo_rounding(budget: Fraction, reached: Fraction) -> Fraction:
    """Return what was reached if it differs from the budget by rounding alone, else the budget."""
    return reached if _widen(reached) >= budget else budget
