"""Shadow rows: what a predictor answers next to what the full model answers, counted as the promise counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.forest import CodedRows
from scurry.monitoring.betting import Counts, Part
from scurry.predictor import Predictor
from scurry.promises import Outcomes, Promise, Values
from scurry.runners.cells import bound_sums
from scurry.runners.comparison import compare, plan_in_full


def find_parts(promise: Promise) -> tuple[Part, ...]:
    """Return the parts of a promise that rows can break; none if it is about something else than answers."""
    nothing = np.empty(0)
    known: dict[str, Any] = dict.fromkeys(
        ("probabilities", "full_probabilities", "log_odds", "full_log_odds", "queries", "y"), nothing
    )
    outcomes = Outcomes(answers=nothing, full=nothing, **known)
    parts = [Part(count.what, promise.losses, count.max_rate, count.unit) for count in promise.count(outcomes)]
    mean = promise.mean(outcomes)
    return tuple(parts) if mean is None else (*parts, Part(mean.what, promise.losses, mean.max_rise))


def count_losses(promise: Promise, parts: Sequence[Part], outcomes: Outcomes) -> list[Counts]:
    """Return how often each loss occurred among these rows, for each part."""
    counts = []
    for count in promise.count(outcomes):
        others = count.n_rows - count.n_broken - count.n_mended
        gains = [count.n_mended] if len(promise.losses) == 3 else []
        counts.append(np.array([*gains, others, count.n_broken], np.int64))
    mean = promise.mean(outcomes)
    if mean is not None:
        places = np.searchsorted(parts[-1].losses, mean.values - mean.full_values)
        counts.append(np.bincount(places, minlength=len(parts[-1].losses)).astype(np.int64))
    return counts


@dataclass(frozen=True, eq=False)
class Comparison:
    """A predictor next to its full model.

    Attributes
    ----------
    predictor : Predictor
    promise : Promise
    """

    predictor: Predictor
    promise: Promise

    @cached_property
    def _compared(self) -> str | None:
        """What a promise about values compares; None for labels."""
        return self.promise.of if isinstance(self.promise, Values) else None

    @cached_property
    def by_query(self) -> bool:
        """Whether rows are documents of queries, which are drawn and counted as a whole."""
        return self.predictor.plan.ranks_groups

    @cached_property
    def by_group(self) -> bool:
        """Whether the promise is about one row of each group."""
        return self.promise.is_about_groups

    @cached_property
    def full(self) -> Predictor:
        """The predictor that evaluates every tree: the model itself, or the vote of all trees."""
        forest = self.predictor.forest
        return Predictor(forest, plan_in_full(forest, self.predictor.plan, self.promise))

    @cached_property
    def oracle(self) -> Predictor:
        """What gives rows the answers of `full`, and leaves out trees that provably cannot change a label."""
        forest = self.predictor.forest
        averages = forest.n_classes == 2 and forest.aggregation != "sum" and forest.link == "identity"
        averages = averages and forest.wrapper is None
        if not averages or self.full.plan.stop is not None or self._compared is not None:
            return self.full  # sums are certain too late for this to pay
        return Predictor(forest, bound_sums(forest))

    def restore(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows that were kept as the forest reads them."""
        return rows.view(CodedRows) if self.predictor.forest.is_encoded else rows

    def observe(self, rows: NDArray[Any], numbers: NDArray[np.int64], answers: NDArray[Any] | None = None) -> Outcomes:
        """Return what shadow rows get next to what the full model gives them.

        Parameters
        ----------
        rows : array of shape (n_rows, n_features)
        numbers : int64 array of shape (n_rows,)
            Numbers of rows or, where queries are ranked, of queries.
        answers : array of shape (n_rows,), optional
            The predictor's answers, where they are known.
        """
        queries = numbers if self.by_query else None
        return compare(self.predictor, self.oracle, self.promise, rows, queries=queries, answers=answers)

    def count_trees(self, rows: NDArray[Any], numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return after how many trees the predictor stops each row."""
        return self.predictor.run(self.restore(rows), groups=numbers if self.by_query else None).trees
