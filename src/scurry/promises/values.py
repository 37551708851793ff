"""The promise about values: those of a regressor, or the probabilities of a classifier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_number, check_rate
from scurry.errors import InputError
from scurry.formatting import format_number, format_percent
from scurry.promises.kinds import Count, Outcomes, Promise, read_rate

OF = ("value", "probability", "log-odds")
_PLURALS = {"value": "values", "probability": "probabilities", "log-odds": "log-odds"}


@dataclass(frozen=True)
class Values(Promise):
    """The values of at most a share of all rows differ from the model's by more than an error.

    For rows that stop early the answer is an estimate of the model's value. The others get the model's own value.

    Parameters
    ----------
    max_error : float
        The difference that is too large, in the unit of what is compared. For a regressor, a part of its own error is
        a good choice: a quarter of its RMSE changes the RMSE by about 1 %.
    max_share : float in (0, 1), default 0.05
        The largest share of rows whose values may differ by more.
    confidence : float or None, default 0.95
        The probability with which the promise holds for new rows. None promises nothing for new rows.
    of : {"value", "probability", "log-odds"}, default "value"
        What is compared: the values of a regressor, or the probabilities of the second of two classes or their
        log-odds. Where small probabilities have to be ranked, ask for log-odds.
    holds : {"rows", "groups"}, default "rows"
        Over new rows, or over one row of each new group, so that each group counts the same.

    Examples
    --------
    >>> import scurry
    >>> promise = scurry.promises.Values(0.12)
    >>> print(promise.describe())
    With confidence 0.95, the values of at most 5 % of new rows differ from the model's by more than 0.12.
    >>> promise.rows_needed()
    59
    >>> scurry.promises.Promise.parse("probabilities<=0.02 for 99%").max_share
    0.01
    """

    max_error: float
    max_share: float = 0.05
    _: KW_ONLY
    of: str = "value"
    holds: str = "rows"

    TAG: ClassVar[str] = "values"
    IS_ABOUT_CLASSES: ClassVar[bool] = False
    COUNTS_CHANGED: ClassVar[bool] = True
    EXAMPLE: ClassVar[str] = "values<=0.02 for 95%"

    def __post_init__(self) -> None:
        super().__post_init__()
        hint = "; no share of rows may then stop early, so run the model itself" if self.max_error == 0 else ""
        object.__setattr__(self, "max_error", check_number("max_error", self.max_error, above=0.0, hint=hint))
        object.__setattr__(self, "max_share", check_rate("max_share", self.max_share))
        if self.max_share == 0:
            raise InputError(
                "max_share must be above 0: rows can prove that few values differ, but not that none does",
                argument="max_share",
            )
        check_choice("of", self.of, OF)
        check_choice("holds", self.holds, ("rows", "groups"))
        if self.of == "probability" and self.max_error >= 1:
            raise InputError(
                f"max_error is {self.max_error:g}, and probabilities never differ by more than 1; pass one below, "
                "such as 0.02",
                argument="max_error",
            )

    @property
    def max_rate(self) -> float | None:
        """The largest share that is promised for new rows; None if nothing is promised for them."""
        return None if self.confidence is None else self.max_share

    def describe(self) -> str:
        """Return the promise as one plain sentence, with rates in percent."""
        at_most = f"the {_PLURALS[self.of]} of at most {format_percent(self.max_share)}"
        differ = f"differ from the model's by more than {format_number(self.max_error)}"
        if self.confidence is None:
            sentence = f"{at_most} of the rows that fitted the rule {differ}. Nothing is promised for new rows."
            return sentence[0].upper() + sentence[1:]
        new = "new groups, with one row of each drawn at random," if self.holds == "groups" else "new rows"
        return f"With confidence {self.confidence:g}, {at_most} of {new} {differ}."

    def count(self, outcomes: Outcomes) -> tuple[Count, ...]:
        """Return how many values differ from the model's by more than `max_error`."""
        errors = self.errors(outcomes)
        if errors is None:
            return ()
        what = f"{_PLURALS[self.of]} further than {format_number(self.max_error)} from the model's"
        return (Count(what, len(errors), int((errors > self.max_error).sum()), self.max_share),)

    def changed(self, outcomes: Outcomes) -> NDArray[np.bool_]:
        """Return which values differ from the model's by more than `max_error`."""
        errors = self.errors(outcomes)
        return outcomes.changed if errors is None else np.asarray(errors > self.max_error)

    def errors(self, outcomes: Outcomes) -> NDArray[np.float64] | None:
        """Return how far each row is from the model, in the unit of `max_error`; None if that is not known."""
        ours, full = {
            "value": (outcomes.answers, outcomes.full),
            "probability": (outcomes.probabilities, outcomes.full_probabilities),
            "log-odds": (outcomes.log_odds, outcomes.full_log_odds),
        }[self.of]
        return None if ours is None or full is None else np.abs(ours - full)

    def with_rate(self, rate: float) -> Values:
        """Return the same promise with another share of rows."""
        return replace(self, max_share=rate)

    def about_groups(self) -> Values:
        """Return the same promise about one row of each new group, so that every group counts the same."""
        return replace(self, holds="groups")

    @classmethod
    def read_text(cls, text: str, classes: Sequence[Any]) -> Values | None:
        """Return the promise that a text such as "values<=0.02 for 95%" asks for; None if it asks for another kind.

        The share is that of the rows whose values differ by no more. It may be left out.
        """
        what, sign, rest = text.partition("<=")
        kinds = {plural: of for of, plural in _PLURALS.items()}
        if not sign or what.strip() not in kinds:
            return None
        error, _, kept = (part.strip() for part in rest.partition("for"))
        try:
            max_error = float(error)
        except ValueError as cause:
            raise InputError(
                f"promise must be written like {cls.EXAMPLE!r}, with an error such as 0.02; got {text!r}",
                argument="promise",
            ) from cause
        of = kinds[what.strip()]
        # Rounded, because 1 - 0.95 is no 0.05.
        return cls(max_error, round(1.0 - read_rate(kept), 12), of=of) if kept else cls(max_error, of=of)

    def rows_needed(self) -> int:
        """Return how many calibration rows it takes to certify the promise when none of them breaks it."""
        if self.confidence is None:
            return 0
        return math.ceil(math.log1p(-self.confidence) / math.log1p(-self.max_share))
