"""Kinds of promises: what may change, how much and how surely."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_confidence, check_number, check_rate
from scurry.errors import FormatError, InputError
from scurry.formatting import format_number, format_percent, format_share
from scurry.promises.outcomes import Count, Mean, Outcomes

AGAINST = ("model", "vote")
HOLDS = ("rows", "groups", "orders", "each row")
_RATE = re.compile(r"([0-9.]+(?:e-?[0-9]+)?)\s*(%?)")
_KINDS: dict[str, type[Promise]] = {}


@dataclass(frozen=True)
class Promise(ABC):
    """What may change, how much, and how surely. Base class of all kinds.

    Attributes
    ----------
    confidence : float or None
        The probability with which the promise holds for new rows, over the draw of calibration rows. With None nothing
        is promised for new rows.
    """

    _: KW_ONLY
    confidence: float | None = 0.95

    # How files name this kind. It stays as it is when a class is renamed.
    TAG: ClassVar[str]
    # Whether it is about labels, so that the model must be a classifier, and whether only known labels can test it.
    IS_ABOUT_CLASSES: ClassVar[bool] = True
    NEEDS_LABELS: ClassVar[bool] = False
    # Whether every row counts, and breaks the only part of the promise where it has `changed`.
    COUNTS_CHANGED: ClassVar[bool] = False
    # How a text asks for it, such as "labels<=0.5%"; empty if none does.
    EXAMPLE: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # So that each kind can live in a module of its own; `scurry.promises` imports them all.
        _KINDS[cls.TAG] = cls

    def __post_init__(self) -> None:
        if self.confidence is not None:
            object.__setattr__(self, "confidence", check_confidence(self.confidence))

    @property
    @abstractmethod
    def max_rate(self) -> float | None:
        """The largest rate that is promised for new rows; None if nothing is promised for them."""

    @abstractmethod
    def describe(self) -> str:
        """Return the promise as one plain sentence, with rates in percent."""

    def describe_test(self, units: str, n_broken: int, bound: float | None) -> str:
        """Return how the promise was tested, as a part of a sentence.

        Parameters
        ----------
        units : str
            How many rows, or what else, it was tested on.
        n_broken : int
            How many of them broke it.
        bound : float or None
            What the test proves for new rows.
        """
        most = "" if bound is None else f" (at most {format_share(bound)} of new rows)"
        return f"{units} that had no part in the fit: {n_broken:,} broke it{most}"

    @abstractmethod
    def rows_needed(self) -> int:
        """Return how many calibration rows it takes to certify the promise when none of them breaks it."""

    def count(self, outcomes: Outcomes) -> tuple[Count, ...]:
        """Return how many of these rows broke the promise, for each of its parts.

        Nothing if the promise is about something else, or needs labels that are not there.
        """
        return ()

    def changed(self, outcomes: Outcomes) -> NDArray[np.bool_]:
        """Return which rows have another answer, as far as the promise is concerned."""
        return outcomes.changed

    @property
    def losses(self) -> tuple[float, ...]:
        """What one row can add to the mean that is promised, ascending: 1 if it breaks the promise, 0 if not."""
        return (0.0, 1.0)

    def mean(self, outcomes: Outcomes) -> Mean | None:
        """Return what these rows have, where the promise is about a mean; None where it is not, or needs labels."""
        return None

    def with_rate(self, rate: float) -> Promise | None:
        """Return the same promise with another rate; None where there is no single one."""
        return None

    def about_groups(self) -> Promise:
        """Return the same promise about one row of each new group, so that every group counts the same."""
        raise InputError(f"groups= cannot be used with {type(self).__name__}", argument="groups")

    def with_confidence(self, confidence: float | None) -> Promise:
        """Return the same promise with another confidence."""
        return replace(self, confidence=confidence)

    @classmethod
    def read_text(cls, text: str, classes: Sequence[Any]) -> Promise | None:
        """Return the promise of this kind that `text` asks for; None if it asks for another kind."""
        return None

    @staticmethod
    def parse(text: str, *, classes: Sequence[Any] = (), confidence: float | None = 0.95) -> Promise:
        """Return the promise that a text asks for. The verbs and the command line take such texts too.

        Parameters
        ----------
        text : str
            Such as "labels<=0.5%". Names of classes may stand in quotes: ``"'a'<=2%,'b, c'<=0.2%"``.
        classes : sequence of labels, optional
            The classes of the model, so that the text "1" names the class 1.
        confidence : float or None, default 0.95

        Raises
        ------
        InputError
            If no kind of promise is written like this.

        Examples
        --------
        >>> import scurry
        >>> scurry.promises.Promise.parse("labels<=0.5%")
        Labels(confidence=0.95, max_changed=0.005, against='model', holds='rows')
        >>> scurry.promises.Promise.parse(">50K<=2%, <=50K<=0.2%").rates
        (('<=50K', 0.002), ('>50K', 0.02))
        """
        for kind in _KINDS.values():
            found = kind.read_text(text.strip(), classes)
            if found is not None:
                return found.with_confidence(confidence)
        examples = ", ".join(repr(kind.EXAMPLE) for kind in _KINDS.values() if kind.EXAMPLE)
        raise InputError(f"promise must be written like one of {examples}, got {text!r}", argument="promise")

    def to_json(self) -> dict[str, Any]:
        """Return the promise as an object of JSON; `from_json` reads it."""
        return {"kind": self.TAG} | asdict(self)

    @staticmethod
    def from_json(data: Any) -> Promise:
        """Return the promise that `to_json` wrote.

        Raises
        ------
        FormatError
            If `data` is not a promise of a known kind.
        """
        kind = data.get("kind") if isinstance(data, Mapping) else None
        if not isinstance(kind, str) or kind not in _KINDS:
            raise FormatError(f"it has a promise of an unknown kind, {kind!r}")
        try:
            return _KINDS[kind](**{name: value for name, value in data.items() if name != "kind"})
        except (InputError, TypeError) as error:
            raise FormatError(f"its promise cannot be read: {error}") from error


@dataclass(frozen=True)
class Labels(Promise):
    """At most a share of all rows get another label.

    Parameters
    ----------
    max_changed : float in [0, 1)
        The largest share of rows whose label may change: 0.005 is one in 200.
    confidence : float or None, default 0.95
        The probability with which the promise holds for new rows. None promises nothing for new rows.
    against : {"model", "vote"}, default "model"
        Another label than whose: the model's own, or the majority vote of all trees.
    holds : {"rows", "groups", "orders", "each row"}, default "rows"
        "rows": for this predictor, over new rows. "groups": for this predictor, over one row of each new group, so that
        each group counts the same however many rows it has. "orders": over new rows, on average over random orders of
        the trees.
        "each row": for every single row, over random orders of the trees; this needs no confidence.

    Examples
    --------
    >>> import scurry
    >>> promise = scurry.promises.Labels(0.005)
    >>> print(promise.describe())
    With confidence 0.95, at most 0.5 % of new rows get another label than the model's.
    >>> promise.rows_needed()
    598
    """

    max_changed: float
    _: KW_ONLY
    against: str = "model"
    holds: str = "rows"

    TAG: ClassVar[str] = "labels"
    COUNTS_CHANGED: ClassVar[bool] = True
    EXAMPLE: ClassVar[str] = "labels<=0.5%"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "max_changed", check_rate("max_changed", self.max_changed))
        check_choice("against", self.against, AGAINST)
        check_choice("holds", self.holds, HOLDS)

    @property
    def max_rate(self) -> float | None:
        """The largest share that is promised for new rows; None if nothing is promised for them."""
        is_promised = self.confidence is not None or self.holds == "each row" or self.max_changed == 0
        return self.max_changed if is_promised else None

    def count(self, outcomes: Outcomes) -> tuple[Count, ...]:
        """Return how many labels changed."""
        whose = "the model's" if self.against == "model" else "the full vote's"
        changed = outcomes.changed
        return (Count(f"labels other than {whose}", len(changed), int(changed.sum()), self.max_changed),)

    def describe(self) -> str:
        """Return the promise as one plain sentence, with rates in percent."""
        whose = "the model's" if self.against == "model" else "the full vote's"
        if self.max_changed == 0:
            return f"Every row gets {whose} label."
        at_most = f"at most {format_percent(self.max_changed)}"
        if self.holds == "each row":
            return (
                f"Each row gets another label than {whose} with probability {at_most}, over random orders of the trees."
            )
        new = "new groups, with one row of each drawn at random," if self.holds == "groups" else "new rows"
        average = ", on average over random orders of the trees" if self.holds == "orders" else ""
        if self.confidence is None:
            return (
                f"{at_most.capitalize()} of the rows that fitted the rule get another label than {whose}{average}. "
                "Nothing is promised for new rows."
            )
        return f"With confidence {self.confidence:g}, {at_most} of {new} get another label than {whose}{average}."

    def with_rate(self, rate: float) -> Labels:
        """Return the same promise with another share of rows."""
        return replace(self, max_changed=rate)

    def about_groups(self) -> Labels:
        """Return the same promise about one row of each new group, so that every group counts the same."""
        return replace(self, holds="groups")

    @classmethod
    def read_text(cls, text: str, classes: Sequence[Any]) -> Labels | None:
        """Return the promise that a text such as "labels<=0.5%" asks for; None if it asks for another kind."""
        what, sign, rate = text.partition("<=")
        return cls(read_rate(rate)) if sign and what.strip() == "labels" else None

    def rows_needed(self) -> int:
        """Return how many calibration rows it takes to certify the promise when none of them breaks it.

        No number is enough for ``max_changed=0``, which needs no rows: it holds because every tree that matters is
        evaluated.
        """
        if self.max_rate is None or self.max_changed == 0 or self.holds == "each row" or self.confidence is None:
            return 0
        # With rate max_changed, n rows are all unchanged with probability (1 - max_changed)^n.
        return math.ceil(math.log1p(-self.confidence) / math.log1p(-self.max_changed))


@dataclass(frozen=True)
class Cost(Promise):
    """New rows pay at most so much for features, on average.

    Parameters
    ----------
    max_cost : float
        The largest mean cost per row, in the unit of the feature costs.
    confidence : float or None, default 0.95
        The probability with which the promise holds for new rows. None promises nothing for new rows.

    Examples
    --------
    >>> import scurry
    >>> print(scurry.promises.Cost(40).describe())
    With confidence 0.95, new rows pay at most 40 for features on average.
    """

    max_cost: float

    TAG: ClassVar[str] = "cost"
    EXAMPLE: ClassVar[str] = "cost<=40"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "max_cost", check_number("max_cost", self.max_cost))

    @property
    def max_rate(self) -> None:
        """None: a cost is no rate of rows."""
        return

    def describe(self) -> str:
        """Return the promise as one plain sentence."""
        at_most = f"at most {format_number(self.max_cost)} for features on average"
        if self.confidence is None:
            return f"The validation rows pay {at_most}. Nothing is promised for new rows."
        return f"With confidence {self.confidence:g}, new rows pay {at_most}."

    def describe_test(self, units: str, n_broken: int, bound: float | None) -> str:
        """Return how the promise was tested, as a part of a sentence."""
        most = "" if bound is None else f": new ones pay at most {format_number(bound)} on average"
        return f"{units} that had no part in the choice of the forest{most}"

    @classmethod
    def read_text(cls, text: str, classes: Sequence[Any]) -> Cost | None:
        """Return the promise that a text such as "cost<=40" asks for; None if it asks for another kind."""
        what, sign, cost = text.partition("<=")
        if not sign or what.strip() != "cost":
            return None
        try:
            return cls(float(cost))
        except ValueError as error:
            raise InputError(
                f"promise must have a cost such as {cls.EXAMPLE!r}, got {text!r}", argument="promise"
            ) from error

    def rows_needed(self) -> int:
        """Return 0: a forest with which no row can pay more than `max_cost` needs no rows.

        Others need the more rows the closer their mean cost is to `max_cost`.
        """
        return 0


def read_promise(
    given: Promise | str | None, classes: Sequence[Any] | NDArray[Any] | None = None, confidence: float | None = 0.95
) -> Promise | None:
    """Return what a caller passed as `promise`, with a text turned into the promise that it asks for.

    Examples
    --------
    >>> read_promise("recall(1)<=1%", [0, 1]).class_
    1
    """
    if not isinstance(given, str):
        return given
    return Promise.parse(given, classes=() if classes is None else np.asarray(classes).tolist(), confidence=confidence)


def read_rate(text: str) -> float:
    """Return a rate as a text writes it: "0.5%" or "0.005".

    Examples
    --------
    >>> read_rate("0.5 %"), read_rate("0.005")
    (0.005, 0.005)
    """
    found = _RATE.fullmatch(text.strip())
    try:
        # Divided, not multiplied: 0.3 % is then the float 0.003.
        return float(found[1]) / (100 if found[2] else 1) if found else float(text)
    except ValueError as error:
        raise InputError(f"promise must have a rate such as 0.5% or 0.005, got {text!r}", argument="promise") from error
