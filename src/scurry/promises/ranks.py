"""The promise about ranks: which documents of a query are its best."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_count, check_rate
from scurry.errors import InputError
from scurry.formatting import format_percent, format_share
from scurry.promises.kinds import Count, Outcomes, Promise, read_rate

_TEXT = re.compile(r"top\s*(\d+)(\s+set)?\s*<=(.*)")


@dataclass(frozen=True)
class TopK(Promise):
    """At most a share of all queries get other documents among their k best.

    Parameters
    ----------
    k : int
        How many documents of a query count.
    max_changed : float in (0, 1), default 0.01
        The largest share of queries whose k best may be others than the model's.
    confidence : float, default 0.95
        The probability with which the promise holds for new queries.
    keep : {"order", "set"}, default "order"
        "order": the k best have the model's own scores, and are ranked by them. "set": they are the same documents,
        and those that were sure early are ranked by estimates, which saves more.

    Examples
    --------
    >>> import scurry
    >>> promise = scurry.promises.TopK(10, 0.01)
    >>> print(promise.describe())
    With confidence 0.95, at most 1 % of new queries get another top 10 than the model's.
    >>> promise.rows_needed()
    299
    >>> scurry.promises.Promise.parse("top10 set<=5%").keep
    'set'
    """

    k: int
    max_changed: float = 0.01
    _: KW_ONLY
    keep: str = "order"

    TAG: ClassVar[str] = "top-k"
    IS_ABOUT_CLASSES: ClassVar[bool] = False
    EXAMPLE: ClassVar[str] = "top10<=1%"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "k", check_count("k", self.k))
        object.__setattr__(self, "max_changed", check_rate("max_changed", self.max_changed))
        if self.max_changed == 0:
            raise InputError(
                "max_changed must be above 0: queries can prove that few change, but not that none does",
                argument="max_changed",
            )
        check_choice("keep", self.keep, ("order", "set"))
        if self.confidence is None:
            raise InputError("TopK is tested on queries, and needs a confidence such as 0.95", argument="confidence")

    @property
    def max_rate(self) -> float:
        """The largest share of queries that is promised for new ones."""
        return self.max_changed

    def describe(self) -> str:
        """Return the promise as one plain sentence, with rates in percent."""
        sentence = (
            f"With confidence {self.confidence:g}, at most {format_percent(self.max_changed)} of new queries get "
            f"another top {self.k} than the model's"
        )
        return f"{sentence}, whose order is estimated." if self.keep == "set" else f"{sentence}."

    def describe_test(self, units: str, n_broken: int, bound: float | None) -> str:
        """Return how the promise was tested, as a part of a sentence."""
        most = "" if bound is None else f" (at most {format_share(bound)} of new queries)"
        return f"{units.replace('groups', 'queries')} that had no part in the fit: {n_broken:,} broke it{most}"

    def changed(self, outcomes: Outcomes) -> NDArray[np.bool_]:
        """Return which documents have another place among the k best of their query, or in it instead of out."""
        assert outcomes.queries is not None
        ours, full = (
            np.minimum(find_places(scores, outcomes.queries), self.k) for scores in (outcomes.answers, outcomes.full)
        )
        if self.keep == "set":
            return np.asarray((ours < self.k) != (full < self.k))
        return np.asarray(ours != full)

    def count(self, outcomes: Outcomes) -> tuple[Count, ...]:
        """Return how many queries have other documents among their k best, or another order of them."""
        if outcomes.queries is None:
            return ()
        n_changed = len(np.unique(outcomes.queries[self.changed(outcomes)]))
        what = f"queries with another top {self.k}"
        n_queries = len(np.unique(outcomes.queries))
        return (Count(what, n_queries, n_changed, self.max_changed, unit="queries"),)

    def with_rate(self, rate: float) -> TopK:
        """Return the same promise with another share of queries."""
        return replace(self, max_changed=rate)

    def about_groups(self) -> TopK:
        """Return the same promise: it is about groups of rows, the queries, by itself."""
        return self

    @classmethod
    def read_text(cls, text: str, classes: Sequence[Any]) -> TopK | None:
        """Return the promise that a text such as "top10<=1%" asks for; None if it asks for another kind."""
        found = _TEXT.fullmatch(text)
        if found is None:
            return None
        k, by_set, rate = found.groups()
        return cls(int(k), read_rate(rate.strip()), keep="set" if by_set else "order")

    def rows_needed(self) -> int:
        """Return how many queries it takes to certify the promise when none of them breaks it."""
        assert self.confidence is not None
        return math.ceil(math.log1p(-self.confidence) / math.log1p(-self.max_changed))


def find_places(scores: NDArray[np.float64], queries: NDArray[Any]) -> NDArray[np.int64]:
    """Return the place of each document in its query, from 0 on; of equal scores the first is the better.

    Examples
    --------
    >>> find_places(np.array([0.5, 2.0, 0.1, 0.5]), np.array(["a", "a", "b", "a"])).tolist()
    [1, 0, 0, 2]
    """
    _, query, counts = np.unique(queries, return_inverse=True, return_counts=True)
    by_query = np.lexsort((np.arange(len(scores)), -scores, query))
    places = np.empty(len(scores), np.int64)
    places[by_query] = np.arange(len(scores)) - np.repeat(counts.cumsum() - counts, counts)
    return places
