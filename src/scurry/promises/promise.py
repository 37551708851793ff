"""Promise: what may change, how much and how surely. Labels, Cost and Certain."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_confidence, check_number, check_rate
from scurry.errors import FormatError, InputError, warn
from scurry.formatting import format_number, format_percent, format_share

AGAINST = ("model", "vote")
HOLDS = ("rows", "groups", "orders", "each row")
_RATE = re.compile(r"([0-9.]+(?:e-?[0-9]+)?)\s*(%?)")
_BARE_RATE = re.compile(r"<=\s*([0-9]+(?:\.[0-9]+)?)(?=\s*(?:,|$))")  # not in percent
_MUCH = 0.5  # who lets more than this be lost or changed may mean what is to be kept
_KINDS: dict[str, type[Promise]] = {}


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcomes:
    """What rows got from a predictor, next to what the full model gives them.

    Attributes
    ----------
    answers, full : arrays of shape (n_rows,)
        Labels, or a regressor's values, of the predictor and of all trees.
    probabilities, full_probabilities : float64 arrays of shape (n_rows,), or None
        Of the second of two classes.
    log_odds, full_log_odds : float64 arrays of shape (n_rows,), or None
        Of the second of two classes, from scores: probabilities near 0 or 1 are too coarse.
    queries : array of shape (n_rows,), or None
        The query of each row, where rows are documents to be ranked.
    y : array of shape (n_rows,), or None
        True labels or values.
    classes : tuple
        The model's labels; empty for a regressor.
    """

    answers: NDArray[Any]
    full: NDArray[Any]
    probabilities: NDArray[np.float64] | None = None
    full_probabilities: NDArray[np.float64] | None = None
    log_odds: NDArray[np.float64] | None = None
    full_log_odds: NDArray[np.float64] | None = None
    queries: NDArray[Any] | None = None
    y: NDArray[Any] | None = None
    classes: tuple[Any, ...] = ()

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Which rows get another answer than the full model's."""
        return np.asarray(self.answers != self.full)

    def take(self, chosen: NDArray[Any] | slice) -> Outcomes:
        """Return the outcomes of some rows: a mask, indices or a slice."""
        arrays = {name: array for name, array in vars(self).items() if name != "classes" and array is not None}
        return replace(self, **{name: array[chosen] for name, array in arrays.items()})


class Count(NamedTuple):
    """How many rows broke a promise, or a part of it. Counts of several batches add up.

    Attributes
    ----------
    what : str
        What is counted, in words.
    n_rows : int
        Rows that the promise is about.
    n_broken, n_mended : int
        Rows that became worse, and rows that became better where these make up for it.
    max_rate : float
        What was promised: the largest ``(n_broken - n_mended) / n_rows``.
    unit : str
        What is counted instead of rows, such as "queries".
    """

    what: str
    n_rows: int
    n_broken: int
    max_rate: float
    n_mended: int = 0
    unit: str = "rows"

    @property
    def rate(self) -> float:
        """The rate measured; 0 without rows."""
        return (self.n_broken - self.n_mended) / max(self.n_rows, 1)


class Mean(NamedTuple):
    """What a promise about a mean is about: something that every row has, such as what its answer costs.

    Attributes
    ----------
    what : str
        What rises, in words.
    values, full_values : float64 arrays of shape (n_rows,)
        Of the predictor, and of the full model.
    largest : float
        The largest difference of the two that one row can have.
    max_rise : float
        What was promised: the largest mean of their differences.
    """

    what: str
    values: NDArray[np.float64]
    full_values: NDArray[np.float64]
    largest: float
    max_rise: float


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
    # Names that fields had before, as files may have them.
    OLD_NAMES: ClassVar[Mapping[str, str]] = {}
    # How a text asks for it, such as "labels<=0.5%"; empty if none does.
    EXAMPLE: ClassVar[str] = ""
    OTHER_EXAMPLES: ClassVar[tuple[str, ...]] = ()

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

    @property
    def largest_rate(self) -> float | None:
        """The largest share of anything that may be lost or changed; None if the promise has no such share."""
        return self.max_rate

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

    def find_label_bound(self, outcomes: Outcomes) -> NDArray[np.bool_]:
        """Return which rows count only once their true label is known; what others count does not depend on it."""
        return np.full(len(outcomes.full), self.NEEDS_LABELS)

    def find_changed(self, outcomes: Outcomes) -> NDArray[np.bool_]:
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

    @property
    def is_about_groups(self) -> bool:
        """Whether it is about one row of each new group, so that rows are judged only with the group of each."""
        return getattr(self, "holds", "rows") == "groups"

    def about_groups(self) -> Promise:
        """Return the same promise about one row of each new group, so that every group counts the same."""
        raise InputError(f"groups cannot be used with {type(self).__name__}", argument="groups")

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
            try:
                found = kind.read_text(text.strip(), classes)
            except InputError as error:
                raise _name_text(error, text) from error
            if found is not None:
                return found.with_confidence(confidence)
        examples = ", ".join(
            repr(text) for kind in _KINDS.values() for text in (kind.EXAMPLE, *kind.OTHER_EXAMPLES) if text
        )
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
        names = _KINDS[kind].OLD_NAMES
        try:
            return _KINDS[kind](**{names.get(name, name): value for name, value in data.items() if name != "kind"})
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
        return rows_without_mistake(self.max_changed, 1.0 - self.confidence)


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

    A promise that lets most of anything be lost is warned of here, where callers enter, and not where promises are
    made, which files and our own functions do too.

    Examples
    --------
    >>> read_promise("recall(1)<=1%", [0, 1]).label
    1
    """
    known = () if classes is None else np.asarray(classes).tolist()
    promise = Promise.parse(given, classes=known, confidence=confidence) if isinstance(given, str) else given
    rate = promise.largest_rate if isinstance(promise, Promise) else None
    if promise is not None and rate is not None and rate > _MUCH:
        warn(
            f"promise allows a rate of {rate:g}: {promise.describe()} Rates say how much may be lost or changed, not "
            f"how much is kept. Did you mean {1 - rate:g} ({format_percent(1 - rate)})?"
        )
    return promise


def rows_without_mistake(rate: float, risk: float) -> int:
    """Return how many rows without a mistake prove that the rate of mistakes is lower, but for this risk."""
    # Logarithms of the smallest numbers are so small that no float holds the quotient.
    return math.ceil(math.log(risk) / math.log1p(-max(rate, 1e-300)))


def _name_text(error: InputError, text: str) -> InputError:
    """Return the error of a promise that was written as a text, without names of arguments that nobody wrote."""
    if error.argument in (None, "promise", "label"):
        return error
    meant = _BARE_RATE.sub(lambda found: f"{found[0]}%" if 1 <= float(found[1]) < 100 else found[0], text)
    if meant != text:
        message = f"a share must be below 1, which is 100 %. Did you mean {meant!r}?"
    else:
        what = {"max_error": "the error", "max_cost": "the cost"}.get(str(error.argument), "the share")
        message = error.describe(what).partition(" Did you mean")[0]
    return InputError(f"promise {text!r}: {message}", argument="promise")


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
