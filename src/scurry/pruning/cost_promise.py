"""Promise a budget: the mean cost of new rows is at most so much, with a stated confidence.

Prunings are tested from cheap to expensive on rows that chose none of them, up to the first whose mean cost cannot be
shown to be within the budget (`scurry.stopping.guarantee` explains why no correction for their number is needed). What
a row pays is bounded: at most every feature that the pruned forest reads, and their groups. So the test is the betting
bound for means of bounded values. It is exact for any distribution of costs, and assumes that calibration rows are
independent draws like the rows to come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scurry.costs import FeatureCosts
from scurry.errors import InfeasibleError, InputError, warn
from scurry.forest import Forest, as_rows
from scurry.predictor import Predictor
from scurry.promises import Certificate, Cost, CostMeasurement, RowSummary
from scurry.pruning.refine import Offer, ValidationRows, advise
from scurry.stopping.guarantee import are_copied, find_shared, hash_rows, last_certified
from scurry.stopping.losses import certified_mean, loss_p_value


class Candidate(NamedTuple):
    """A pruning that may be certified.

    Attributes
    ----------
    forest : Forest
    cost : float
        Mean cost of the rows that chose it.
    name, found : str
        How it was grown, and the share of each class's rows that it finds, where that is known.
    """

    forest: Forest
    cost: float
    name: str = ""
    found: str = ""

    @classmethod
    def of(cls, offer: Offer) -> Self:
        """Return an offer as a candidate."""
        return cls(offer.forest, offer.cost, offer.name, offer.found)


def certify_cost(
    candidates: Iterable[Candidate],
    promise: Cost,
    X_cal: Any,
    costs: FeatureCosts,
    validation: ValidationRows | None,
    method: str,
) -> Predictor:
    """Return the last of the candidates before the first whose cost is not certified.

    Parameters
    ----------
    candidates : iterable of Candidate
        By rising cost, at least one, chosen without `X_cal`.
    promise : Cost
    X_cal : array or DataFrame of shape (n_rows, n_features)
    costs : FeatureCosts
    validation : ValidationRows or None
        The rows that chose the candidates, where they are known. They must not be among those of `X_cal`. Warns if the
        forest gives them all one label.
    method : str
        What made the prunings.

    Returns
    -------
    Predictor
        It evaluates every tree of the pruning, and has the certificate and the prices.

    Raises
    ------
    InfeasibleError
        If not even the first is certified; `achievable` is the budget that it can be certified for.

    Examples
    --------
    >>> import numpy as np, scurry
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X = np.random.default_rng(0).random((4000, 4))
    >>> y = (X[:, 0] + X[:, 1] * X[:, 2] > 0.8).astype(int)
    >>> model = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X[:1000], y[:1000])
    >>> path = scurry.prune(model, X[1000:2000], feature_costs=[1, 5, 10, 20])
    >>> fast = path.at(promise=scurry.promises.Cost(12), X_cal=X[2000:])
    >>> print(fast.promise.describe())
    With confidence 0.95, new rows pay at most 12 for features on average.
    >>> fast.certificate.measured.mean_cost < fast.certificate.bound <= 12
    True
    """
    if promise.confidence is None:
        chosen = list(candidates)[-1]
        measured = _measure(chosen, chosen.cost, costs, validation)
        return _evaluate_all(chosen, Certificate(method=method, promise=promise, measured=measured), costs)
    cheapest, *others = candidates
    rows, unit, n_given, n_shared = _check_rows(cheapest.forest, X_cal, None if validation is None else validation.rows)

    def p_value_of(candidate: Candidate) -> float:
        paid, most = costs.of_rows(candidate.forest, rows), largest_cost(costs, candidate.forest)
        return loss_p_value(paid, promise.max_cost, max_loss=most)

    found = last_certified([cheapest, *others], p_value_of, promise.confidence)
    chosen = cheapest if found is None else found
    paid = costs.of_rows(chosen.forest, rows)
    bound = certified_mean(paid, promise.confidence, max_loss=largest_cost(costs, chosen.forest))
    if found is None:
        raise InfeasibleError(
            f"a mean cost of {promise.max_cost:g} cannot be promised with confidence {promise.confidence:g}: "
            f"{len(rows):,} rows certify {bound:g} for the cheapest pruning. Allow that, or pass more rows",
            bound,
            argument="promise",
        )
    certificate = Certificate(
        method=method,
        promise=promise,
        n_rows=len(rows),
        unit=unit,
        bound=bound,
        n_calibration_rows=n_given,
        n_shared_rows=n_shared,
        measured=_measure(chosen, float(paid.mean()), costs, validation),
        rows=RowSummary.of(rows),
    )
    return _evaluate_all(chosen, certificate, costs)


def _evaluate_all(chosen: Candidate, certificate: Certificate, costs: FeatureCosts) -> Predictor:
    return Predictor.full(chosen.forest, certificate, costs)


def _measure(
    chosen: Candidate, mean_cost: float, costs: FeatureCosts, validation: ValidationRows | None
) -> CostMeasurement:
    """Return what a forest costs; warn if it answers one label alone."""
    single_label = None if validation is None else validation.single_label(chosen.forest)
    if validation is not None and single_label is not None:
        advice = advise(single_label, chosen.forest, validation.error_costs)
        warn(f"the forest with a mean cost of {mean_cost:g} per row is of little use: {advice}")
    return CostMeasurement(
        mean_cost=mean_cost,
        validation_cost=chosen.cost,
        largest_cost=largest_cost(costs, chosen.forest),
        single_label="" if single_label is None else repr(single_label),
        candidate=chosen.name,
        recalls=chosen.found,
    )


def largest_cost(costs: FeatureCosts, forest: Forest) -> float:
    """Return what a row pays that reads every feature of a forest, on the longest path of every tree.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> forest = scurry.from_model(DecisionTreeClassifier().fit([[0, 0], [0, 1]], [0, 1]))  # reads the last one
    >>> costs = scurry.pruning.FeatureCosts.of(forest, feature_costs=[20, 5], groups=[0, 0], group_costs=[2.5])
    >>> largest_cost(costs, forest)
    7.5
    """
    uses = np.zeros((1, forest.n_features), np.int32)
    uses[0, forest.feature[~forest.is_leaf]] = 1
    features_and_groups = float(costs.of_uses(uses)[0]) - costs.step_cost * int(uses.sum())
    return features_and_groups + costs.step_cost * int(forest.tree_depth.sum())


def _check_rows(forest: Forest, X_cal: Any, chosen_on: NDArray[Any] | None) -> tuple[NDArray[Any], str, int, int]:
    """Return the rows that may certify, what they count, how many were given, and how many chose the candidates too."""
    if X_cal is None:
        raise InputError(
            "X_cal is needed to promise a cost: rows like those to come, other than those that trained the model, and "
            "other than X_val, whose costs the prunings were chosen by",
            argument="X_cal",
        )
    rows = as_rows(forest, X_cal)
    n_given, unit, n_shared = len(rows), "row", 0
    if n_given == 0:
        raise InputError("X_cal has no rows; a promise needs some to be tested on", argument="X_cal")
    digests = hash_rows(rows, forest.input_dtype)
    if chosen_on is not None:
        shared = find_shared(digests, hash_rows(chosen_on, forest.input_dtype))
        if shared is not None:
            n_shared = int(shared.sum())
            if n_shared == n_given:
                raise InputError(
                    f"all {n_given:,} rows of X_cal are among those of X_val, by whose costs the prunings were chosen; "
                    "pass other rows",
                    argument="X_cal",
                )
            warn(
                f"{n_shared:,} of {n_given:,} rows of X_cal are among those of X_val too, by whose costs the prunings "
                "were chosen. They are left out of the certificate",
                UserWarning,
            )
            rows, digests = rows[~shared], digests[~shared]
    if are_copied(digests):
        unit, first = "distinct row", np.sort(np.unique(digests, return_index=True)[1])
        warn(
            f"rows of X_cal are copies of others: {len(rows):,} rows, {len(first):,} of them different. A copy proves "
            "nothing new, so each row counts once",
            UserWarning,
        )
        rows = rows[first]
    return rows, unit, n_given, n_shared
