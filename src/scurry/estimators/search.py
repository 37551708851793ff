"""Find cheap forests: prune every candidate exactly, and let rows that did not grow it decide.

With enough rows, a part of them judges forests grown on the others. With few rows such a judgement is mostly chance, so
every row takes its turn: candidates are grown and pruned in folds, and the answers to the rows left out are tallied by
candidate and budget. What is offered is then grown on all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scurry.costs import ErrorCosts, FeatureCosts
from scurry.errors import UnsupportedModelError
from scurry.estimators.candidates import Grower
from scurry.forest import Forest
from scurry.pruning.methods import solve
from scurry.pruning.node_errors import class_counts, weigh_counts
from scurry.pruning.offers import Offer, Offers, Tally, ValidationRows
from scurry.pruning.path import PruningPath
from scurry.pruning.problem import pose
from scurry.pruning.row_charges import RowCharges

GIVEN = "given"
_N_BUDGETS = 24  # at which a candidate is judged, from nothing to the price of all features

Grow: TypeAlias = Callable[[NDArray[np.intp]], Forest]


@dataclass(frozen=True, eq=False, kw_only=True)
class Search:
    """Where to look for cheap forests.

    Attributes
    ----------
    rows : array of shape (n_rows, n_features)
    labels : array of shape (n_rows,)
    grow_given : callable
        Takes row indices, and returns the given estimator grown on them.
    kinds : collection of str
        Of `candidates.KINDS`.
    costs : FeatureCosts
    weights : ErrorCosts
    like : Forest
    errors, method : str
        As of `scurry.prune`.
    seed : int
    """

    rows: NDArray[Any]
    labels: NDArray[Any]
    grow_given: Grow
    kinds: Collection[str]
    costs: FeatureCosts
    weights: ErrorCosts
    like: Forest
    errors: str
    method: str
    seed: int

    def by_split(self, training: NDArray[np.intp], validating: NDArray[np.intp]) -> Offers:
        """Return what candidates grown on some rows offer, judged on others."""
        validation = self._validation(validating)
        judged = (
            validation.judge(forest, name)
            for name, candidate in self._candidates(training)
            for forest in _distinct(self._prunings(candidate, training, validating))
        )
        return Offers(judged, self.like, self.costs)

    def by_folds(self, folds: NDArray[np.intp]) -> Offers:
        """Return what candidates grown on all rows offer, judged by rows left out, fold by fold.

        Parameters
        ----------
        folds : int array of shape (n_rows,)
            The fold of each row; rows of fold -1 are never left out.
        """
        tallies: dict[tuple[str, int], Tally] = {}
        n_folds = int(folds.max()) + 1
        for fold in range(n_folds):
            training, left_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            validation = self._validation(left_out)
            for name, candidate in self._candidates(training):
                prunings = self._prunings(candidate, training, left_out)
                tally_of = {id(forest): validation.tally(forest) for forest in _distinct(prunings)}
                for level, forest in prunings.items():
                    known, tally = tallies.get((name, level)), tally_of[id(forest)]
                    tallies[name, level] = tally if known is None else known + tally
        # A candidate may be too expensive for a budget in some fold: then it was not judged by all rows.
        n_judged = int((folds >= 0).sum())
        judged = [
            _Judged(tally.mean_cost, self.weights.mean_cost(tally.confusion), name, level, tally)
            for (name, level), tally in tallies.items()
            if tally.confusion.sum() == n_judged
        ]
        return Offers(self._grow_all(judged), self.like, self.costs)

    def _grow_all(self, judged: list[_Judged]) -> Iterator[Offer]:
        """Yield what was judged better than everything cheaper, grown on all rows."""
        best: list[_Judged] = []
        for one in sorted(judged, key=lambda one: (one.cost, one.error)):
            if not best or one.error < best[-1].error:
                best.append(one)
        everyone = np.arange(len(self.rows))
        validation = self._validation(everyone)
        for name, candidate in self._candidates(everyone, {one.name for one in best}):
            prunings = self._prunings(candidate, everyone, everyone)
            for one in best:
                if one.name == name and one.level in prunings:
                    forest = prunings[one.level]
                    offer = validation.judge(forest, name)
                    if offer.single_label is None:
                        # What is better on rows left out, not on those it was grown on; what costs more on either.
                        offer = one.tally.offer(forest, name, self.weights, max(offer.cost, one.cost))
                    yield offer

    def _candidates(
        self, training: NDArray[np.intp], names: Collection[str] | None = None
    ) -> Iterator[tuple[str, Forest]]:
        if names is None or GIVEN in names:
            yield GIVEN, self.grow_given(training)
        grower = Grower(self.rows[training], self.labels[training], self.costs, self.weights, self.like, self.seed)
        yield from grower.grow(self.kinds, names)

    def _prunings(self, candidate: Forest, training: NDArray[np.intp], pricing: NDArray[np.intp]) -> dict[int, Forest]:
        """Return the best pruning of a candidate within each of some budgets; boosted trees stay whole."""
        try:
            path = self.path_of(candidate, training, pricing)
        except UnsupportedModelError:
            return {0: candidate}
        total = self.costs.of_set(np.arange(self.rows.shape[1])) + self.costs.step_cost * candidate.tree_depth.sum()
        made: dict[int, Forest] = {}
        forests = {}
        for level, kept in enumerate(path.spread(np.linspace(0.0, total, _N_BUDGETS + 1))):
            if id(kept) not in made:
                made[id(kept)] = path.problem.forest_of(kept)
            forests[level] = made[id(kept)]
        return forests

    def path_of(self, forest: Forest, training: NDArray[np.intp], pricing: NDArray[np.intp]) -> PruningPath:
        """Return the prunings of a forest, with errors and costs measured on some rows each."""
        counted = pricing if self.errors == "validation" else training
        # Counted anew, because a forest grown with class weights counts rows by their weight.
        counts = class_counts(forest, self.rows[counted], self.labels[counted])
        node_errors, n_error = weigh_counts(forest, counts, self.weights)
        charges = RowCharges.of(forest, self.rows[pricing], self.costs)
        return solve(pose(forest, charges, node_errors, n_error, self.costs), self.method, None, None)

    def _validation(self, rows: NDArray[np.intp]) -> ValidationRows:
        return ValidationRows(self.rows[rows], self.like.codes_of(self.labels[rows]), self.costs, self.weights)


@dataclass(frozen=True, eq=False)
class _Judged:
    cost: float
    error: float
    name: str
    level: int
    tally: Tally


def _distinct(prunings: dict[int, Forest]) -> list[Forest]:
    return list({id(forest): forest for forest in prunings.values()}.values())


def assign_folds(
    codes: NDArray[Any], n_folds: int, rng: np.random.Generator, copies: NDArray[np.intp] | None = None
) -> NDArray[np.intp]:
    """Return a fold for each row, every class spread evenly; -1 for classes that would be missing from a training part.

    Parameters
    ----------
    codes : int array of shape (n_rows,)
    n_folds : int
    rng : numpy Generator
    copies : int array of shape (n_rows,), optional
        Rows with the same number are copies of one row, and share its fold.

    Returns
    -------
    int array of shape (n_rows,)

    Examples
    --------
    >>> folds = assign_folds(np.array([0, 0, 0, 0, 1]), 2, np.random.default_rng(0))
    >>> np.bincount(folds[:4]).tolist(), int(folds[4])
    ([2, 2], -1)
    """
    folds = np.empty(len(codes), np.intp)
    start = 0
    for code in np.unique(codes):
        members = rng.permutation(np.flatnonzero(codes == code))
        folds[members] = (start + np.arange(len(members))) % n_folds
        start += len(members)
    if copies is not None:
        folds = folds[np.unique(copies, return_index=True)[1]][copies]
    for code in np.unique(codes):
        of_class = codes == code
        if len(np.unique(folds[of_class])) == 1:
            folds[of_class] = -1
    return folds
