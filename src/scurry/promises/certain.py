"""Certain: a promise that is proven from the trees and needs no rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from scurry.promises.kinds import Promise
from scurry.promises.outcomes import Count, Outcomes


@dataclass(frozen=True)
class Certain(Promise):
    """Every possible input gets the model's own label.

    This is proven from the trees: a row stops once the trees that are left cannot change its label any more. So it
    needs no calibration rows, no confidence, and no assumption about the rows to come: missing values, infinities and
    rows made to deceive the model get its label too.

    Examples
    --------
    >>> import scurry
    >>> promise = scurry.promises.Certain()
    >>> print(promise.describe())
    Every possible input gets the model's label, which is proven from the trees.
    >>> promise.rows_needed()
    0
    """

    confidence: float | None = field(default=1.0, init=False, repr=False)

    TAG: ClassVar[str] = "certain"
    COUNTS_CHANGED: ClassVar[bool] = True
    EXAMPLE: ClassVar[str] = "certain"

    def __post_init__(self) -> None:
        """Check nothing: there is nothing to choose."""

    @property
    def max_rate(self) -> float:
        """The largest share of rows that get another label: none."""
        return 0.0

    def describe(self) -> str:
        """Return the promise as one plain sentence."""
        return "Every possible input gets the model's label, which is proven from the trees."

    def count(self, outcomes: Outcomes) -> tuple[Count, ...]:
        """Return how many labels changed."""
        changed = outcomes.changed
        return (Count("labels other than the model's", len(changed), int(changed.sum()), 0.0),)

    def rows_needed(self) -> int:
        """Return 0: no row is needed to prove it."""
        return 0

    def with_confidence(self, confidence: float | None) -> Promise:
        """Return the same promise, which is certain in any case."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the promise as an object of JSON; `from_json` reads it."""
        return {"kind": self.TAG}

    @classmethod
    def read_text(cls, text: str, classes: Sequence[Any]) -> Promise | None:
        """Return the promise if `text` asks for it."""
        return cls() if text == cls.EXAMPLE else None
