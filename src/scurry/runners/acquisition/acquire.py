"""Predict while features are bought: one row at a time, each feature when a node first needs it.

What composes:

- A forest, pruned or not (``Predictor.full(forest)``): every tree is walked to its leaf. Without a limit the answer is
  that of `predict`, and a row pays for what its paths read and nothing else.
- An early exit: trees are evaluated in the plan's order until its rule stops the row, so features that only later trees
  read are never bought. Labels are those of `predict`. Where a plan is randomised (several policies, or an order for
  each row), draws depend on the row's number instead of its values, which are not known yet: the promise is the same,
  the labels of single rows may differ.
- An anytime plan: one tree step at a time in the plan's order; the answer is read from the nodes reached.
- ``order="cheapest"`` and ``order="informative"`` for the first and the last: of all features that some tree waits for,
  the cheapest is bought next, or the one that is expected to settle most for its cost. An early exit keeps its promise
  only in its own order, so it raises an error.

With `max_cost`, a tree whose next feature would exceed it stays where it is and answers with that node. The others
continue with what is known or affordable.

A row is a `Visit`. Here every feature that a visit asks for is bought at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_count, check_instance
from scurry.errors import InputError, warn
from scurry.forest import Forest
from scurry.runners.acquisition.ledger import Ledger
from scurry.runners.acquisition.row_walk import Terms, read_out
from scurry.runners.acquisition.visit import Visit

GetFeature = Callable[[int, Any], Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Acquisition:
    """What happened to each row.

    Attributes
    ----------
    labels : array of shape (n_rows,)
    scores : float64 array of shape (n_rows, n_outputs)
        The model's own where every tree reached a leaf. Where an early exit stopped, estimates of them by its plan's
        `ScoreMap`, on the side of the label, as in `Run.scores`. Else from the nodes reached; NaN if there are none.
    costs : float64 array of shape (n_rows,)
    bought : bool array of shape (n_rows, n_features)
    n_missing : int64 array of shape (n_rows,)
        Features that came back missing. They are paid for, and go where the model sends missing values.
    trees : int64 array of shape (n_rows,)
        Trees that reached a leaf.
    steps : int64 array of shape (n_rows,)
        Node tests made.
    stop_reason : str array of shape (n_rows,)
        "complete": every tree reached a leaf. "decided": an early exit. "max_cost": a feature was too expensive.
        "failed": a feature was unavailable, see `errors`.
    ledger : Ledger
        Every purchase.
    errors : dict of int to Exception
        For rows that failed, what `get_feature` raised first.
    """

    labels: NDArray[Any]
    scores: NDArray[np.float64]
    costs: NDArray[np.float64]
    bought: NDArray[np.bool_]
    n_missing: NDArray[np.int64]
    trees: NDArray[np.int64]
    steps: NDArray[np.int64]
    stop_reason: NDArray[np.str_]
    ledger: Ledger
    errors: dict[int, Exception] = field(default_factory=dict)

    @property
    def mean_cost(self) -> float:
        """Mean cost per row, 0 if there are no rows."""
        return float(self.costs.sum() / max(len(self.costs), 1))

    def __repr__(self) -> str:
        counts = Counter(self.stop_reason.tolist())
        stopped = ", ".join(f"{reason} {count:,}" for reason, count in counts.items())
        largest = float(self.costs.max(initial=0.0))
        shown = f"n_rows={len(self.costs)}, mean_cost={self.mean_cost:.4g}, largest_cost={largest:.4g}"
        return f"Acquisition({shown}{f'; rows stopped: {stopped}' if stopped else ''})"


def acquire(terms: Terms, get_feature: GetFeature, n_rows: int, ledger: Ledger) -> Acquisition:
    """Predict rows whose features are bought one by one; `Predictor.acquire` explains the arguments."""
    check_count("n_rows", n_rows, 0, largest=2**31 - 1)
    check_instance("ledger", ledger, Ledger)
    if not callable(get_feature):
        raise InputError(
            f"get_feature must be a function of row and feature, got {get_feature!r}", argument="get_feature"
        )
    visits: list[Visit] = []
    errors: dict[int, Exception] = {}
    for row in range(n_rows):
        visit = Visit(terms, {}, ledger.open_row())
        n_recorded = 0
        while (feature := visit.asked) is not None:
            try:
                _ask(visit, feature, get_feature, row)
            except Exception as error:  # the caller's code: whatever it raises, the row is answered with what it has
                errors.setdefault(row, error)
                visit.unavailable(terms.forest.name_of(feature))
            # At once, so that nothing that was paid for is lost if a later feature ends the run.
            ledger.purchases.extend(visit.purchases[n_recorded:])
            n_recorded = len(visit.purchases)
        visits.append(visit)
    if errors:
        warn(_describe_failures(terms.forest, n_rows, errors))
    out = _outcome(terms, visits, ledger, errors)
    if n_rows > 1 and (out.stop_reason == "max_cost").any():  # of a single row, the reason is as easy to see
        warn(_describe_limit(out, terms))
    return out


def _ask(visit: Visit, feature: int, get_feature: GetFeature, row: int) -> None:
    """Give a visit what `get_feature` returns for the feature it asks for, and what comes with it."""
    forest = visit.terms.forest
    name = forest.name_of(feature)
    given = get_feature(row, name)
    if not isinstance(given, Mapping):
        visit.give(name, given)
        return
    unknown = [other for other in given if other not in forest.names]
    if unknown or name not in given:
        raise InputError(
            f"get_feature was asked for {name!r} and returned values of {', '.join(map(repr, given))}; return the "
            "value asked for, and others by the names of features"
        )
    for other, value in given.items():
        if other != name and forest.names.index(other) not in visit.walk.values:  # what was used stays as it was
            visit.give(other, value)
    visit.give(name, given[name])


def _describe_failures(forest: Forest, n_rows: int, errors: dict[int, Exception]) -> str:
    """Return how many rows failed, the first error, and what it may come from."""
    row, error = next(iter(errors.items()))
    hint = ""
    if isinstance(error, LookupError | TypeError):
        name = f"name, such as {forest.names[0]!r}: this forest has names"
        number = "column number: this forest has no names"
        hint = f" It gets a feature by its {number if forest.feature_names is None else name}."
    return (
        f"get_feature raised an error in {len(errors):,} of {n_rows:,} rows; in row {row}, {type(error).__name__}: "
        f"{error}.{hint} Such rows are answered from inner nodes of trees, and no promise covers them; `errors` has "
        "what each raised"
    )


def _describe_limit(out: Acquisition, terms: Terms) -> str:
    """Return how many rows ran out of their budget, and what they were answered from."""
    ended = out.stop_reason == "max_cost"
    reached = out.trees[ended].mean()
    label, count = Counter(out.labels[ended].tolist()).most_common(1)[0]
    answered = f"; {count:,} of them get the label {label!r}" if terms.forest.is_classifier else ""
    return (
        f"max_cost is the most that each row may pay, and {int(ended.sum()):,} of {len(ended):,} rows needed more: "
        f"they are answered from the nodes that their trees had reached ({reached:.1f} of {terms.forest.n_trees} trees "
        f"were at a leaf on average){answered}. No promise covers them; `stop_reason` names them"
    )


def _outcome(terms: Terms, visits: list[Visit], ledger: Ledger, errors: dict[int, Exception]) -> Acquisition:
    walks = [visit.walk for visit in visits]
    bought = np.zeros((len(walks), terms.forest.n_features), np.bool_)
    for row, walk in enumerate(walks):
        bought[row, walk.budget.paid] = True
    labels, scores = read_out(terms, walks)
    reasons = ["failed" if walk.stop_reason == "unavailable" else walk.stop_reason for walk in walks]
    return Acquisition(
        labels=labels,
        scores=scores,
        costs=np.array([walk.budget.spent for walk in walks]),
        bought=bought,
        n_missing=np.array([sum(np.isnan(walk.values[f]) for f in walk.budget.paid) for walk in walks], np.int64),
        trees=np.array([walk.n_evaluated for walk in walks], np.int64),
        steps=np.array([walk.n_steps for walk in walks], np.int64),
        stop_reason=np.array(reasons, dtype=np.str_),
        ledger=ledger,
        errors=errors,
    )
