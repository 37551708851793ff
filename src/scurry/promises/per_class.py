"""LabelsPerClass and Recall: promises that a rare class cannot pay for the others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_rate
from scurry.errors import InputError
from scurry.formatting import format_percent
from scurry.promises.kinds import Count, Outcomes, Promise, read_rate

_HOLDS = ("rows", "groups")
# A class and its rate. The last "<=" before the rate counts, as names of classes may have one too.
_PART = r"""\s*("[^"]*"|'[^']*'|[^"'\s].*?)\s*<=\s*([^,<]*?)\s*(?:,|$)"""
_RECALL = re.compile(r"recall\((.*)\)\s*<=\s*([^,<]*?)\s*(?:,\s*others\s*<=\s*([^,<]*?)\s*)?")


@dataclass(frozen=True)
class LabelsPerClass(Promise):
    """Of each class, at most a share of the rows that the model gives it get another label; all classes at once.

    A promise about all rows may be kept by losing most of a rare class. This one cannot. Only what rows of a class look
    like matters, not how many there are: the promise survives a change of class shares, and calibration rows of a rare
    class may be added from elsewhere, as long as they look like that class's rows to come.

    Parameters
    ----------
    rates : mapping from class to float in (0, 1)
        The largest share of each class's rows whose label may change. Every class of the model must be named.
    confidence : float, default 0.95
        The probability with which all of it holds for new rows at once.
    holds : {"rows", "groups"}, default "rows"
        Over new rows, or over one row of each new group. `scurry.early_exit` sets it.

    Examples
    --------
    >>> import scurry
    >>> promise = scurry.promises.LabelsPerClass({"no": 0.002, "yes": 0.02})
    >>> print(promise.describe())
    With confidence 0.95, of new rows at most 0.2 % that the model labels 'no' and 2 % that it labels 'yes' get another.
    >>> promise.rows_needed()
    1497
    """

    rates: Any  # given as a mapping, kept as pairs of class and rate: they cannot change and can be hashed
    _: KW_ONLY
    holds: str = "rows"

    TAG: ClassVar[str] = "labels per class"
    EXAMPLE: ClassVar[str] = "yes<=2%,no<=0.2%"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_confident(self)
        check_choice("holds", self.holds, _HOLDS)
        object.__setattr__(self, "rates", _read_rates(self.rates))

    @property
    def max_rate(self) -> float:
        """The largest rate of all: whatever the class shares are, no more of all labels change."""
        return float(max(rate for _, rate in self.rates))

    def describe(self) -> str:
        """Return the promise as one plain sentence, with rates in percent."""
        parts = [f"{format_percent(rate)} that it labels {label!r}" for label, rate in self.rates]
        parts[0] = parts[0].replace("that it labels", "that the model labels")
        listed = ", ".join(parts[:-1]) + f" and {parts[-1]}"
        return f"With confidence {self.confidence:g}, of {_name_new(self.holds)} at most {listed} get another."

    def describe_test(self, units: str, n_broken: int, bound: float | None) -> str:
        """Return how the promise was tested, as a part of a sentence."""
        return f"{units} that had no part in the fit: {n_broken:,} got another label"

    def count(self, outcomes: Outcomes) -> tuple[Count, ...]:
        """Return how many labels of each class changed."""
        return tuple(
            _count_changed(
                outcomes, f"other labels for rows that the model labels {label!r}", outcomes.full == label, rate
            )
            for label, rate in self.rates
        )

    def rows_needed(self) -> int:
        """Return how many calibration rows it takes, at the least, of the class that needs most of them.

        That is without a mistake, and as if no other class had to be tested.
        """
        return max(_rows_without_mistake(rate, self.confidence) for _, rate in self.rates)

    def about_groups(self) -> LabelsPerClass:
        """Return the same promise about one row of each new group, so that every group counts the same."""
        return replace(self, holds="groups")

    @classmethod
    def read_text(cls, text: str, classes: Sequence[Any]) -> LabelsPerClass | None:
        """Return the promise that a text such as "yes<=2%,no<=0.2%" asks for; None if it asks for another kind."""
        if text.startswith("recall(") or not re.fullmatch(f"({_PART})+", text):
            return None
        named = [(find_class(part[1], classes), part[2]) for part in re.finditer(_PART, text)]
        if len(named) == 1 and named[0][0] not in [plain_label(label) for label in classes]:
            return None  # a word that stands for another kind, or for none
        return cls([(label, read_rate(rate)) for label, rate in named])


@dataclass(frozen=True)
class Recall(Promise):
    """Of the rows of a class that the model finds, at most a share are lost. It needs labels.

    The rows found are those of the class that the model labels so. Their share among all rows of the class is the
    model's recall, so recall falls by at most `max_loss`. The labels of other rows may change too, but no more than
    `max_changed` of them: a promise about recall alone would be kept by answering the class to every row.

    Parameters
    ----------
    class_ : label
        The class, as the model names it.
    max_loss : float in (0, 1)
        The largest share of the rows found that may be lost: 0.01 is one in a hundred.
    max_changed : float in (0, 1), default 0.001
        The largest share of the rows that the model gives other labels whose label may change.
    confidence : float, default 0.95
        The probability with which all of it holds for new rows at once.
    holds : {"rows", "groups"}, default "rows"
        Over new rows, or over one row of each new group. `scurry.early_exit` sets it.

    Examples
    --------
    >>> import scurry
    >>> print(scurry.promises.Recall("yes", 0.01).describe())
    With confidence 0.95, of new rows at most 1 % of those of class 'yes' that the model finds are lost, and at most \
0.1 % of those that it gives other labels get another.
    """

    class_: Any
    max_loss: float
    max_changed: float = 0.001
    _: KW_ONLY
    holds: str = "rows"

    TAG: ClassVar[str] = "recall"
    NEEDS_LABELS: ClassVar[bool] = True
    EXAMPLE: ClassVar[str] = "recall(yes)<=1%"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_confident(self)
        check_choice("holds", self.holds, _HOLDS)
        object.__setattr__(self, "class_", plain_label(self.class_))
        for name in ("max_loss", "max_changed"):
            object.__setattr__(self, name, check_positive_rate(name, getattr(self, name)))

    @property
    def max_rate(self) -> None:
        """None: labels of rows of other classes that the model gives `class_` may change."""
        return

    def describe(self) -> str:
        """Return the promise as one plain sentence, with rates in percent."""
        return (
            f"With confidence {self.confidence:g}, of {_name_new(self.holds)} at most {format_percent(self.max_loss)} "
            f"of those of class {self.class_!r} that the model finds are lost, and at most "
            f"{format_percent(self.max_changed)} of those that it gives other labels get another."
        )

    def describe_test(self, units: str, n_broken: int, bound: float | None) -> str:
        """Return how the promise was tested, as a part of a sentence."""
        return (
            f"{units} that had no part in the fit: {n_broken:,} broke it. Rows that the model labels {self.class_!r} "
            "wrongly may change and are not counted here"
        )

    def count(self, outcomes: Outcomes) -> tuple[Count, ...]:
        """Return how many rows of the class are lost, and how many other labels changed."""
        if outcomes.y is None:
            return ()
        is_given, name = outcomes.full == self.class_, repr(self.class_)
        found = is_given & (outcomes.y == self.class_)
        lost = f"rows of class {name} that the model finds and this does not"
        others = f"other labels for rows that the model does not label {name}"
        return (
            _count_changed(outcomes, lost, found, self.max_loss),
            _count_changed(outcomes, others, ~is_given, self.max_changed),
        )

    def rows_needed(self) -> int:
        """Return how many calibration rows it takes, at the least, of the kind that needs most of them."""
        return max(_rows_without_mistake(rate, self.confidence) for rate in (self.max_loss, self.max_changed))

    def about_groups(self) -> Recall:
        """Return the same promise about one row of each new group, so that every group counts the same."""
        return replace(self, holds="groups")

    @classmethod
    def read_text(cls, text: str, classes: Sequence[Any]) -> Recall | None:
        """Return the promise that a text such as "recall(yes)<=1%" asks for; None if it asks for another kind.

        "recall(yes)<=1%,others<=0.5%" says how many other labels may change.
        """
        found = _RECALL.fullmatch(text)
        if found is None:
            return None
        asked = cls(find_class(found[1], classes), read_rate(found[2]))
        return asked if found[3] is None else replace(asked, max_changed=read_rate(found[3]))


def find_class(name: str, classes: Iterable[Any]) -> Any:
    """Return the class that a text names, with or without quotes: "1" may be the class 1.

    Examples
    --------
    >>> find_class("1", [0, 1]), find_class("yes", []), find_class("'<=50K'", [])
    (1, 'yes', '<=50K')
    """
    known, text = {str(label): plain_label(label) for label in classes}, name.strip()
    if text in known:
        return known[text]
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    plain = text[1:-1] if is_quoted else text
    return known.get(plain, plain)


def plain_label(label: Any) -> Any:
    """Return a label as Python's own text, number or bool, which files can hold."""
    plain = label.item() if hasattr(label, "item") else label
    if not isinstance(plain, str | int | float) or plain != plain:
        raise InputError(f"class_ must be a label of the model, a text or a number, got {label!r}", argument="class_")
    return plain


def check_positive_rate(name: str, rate: Any) -> float:
    """Return `rate` as a float in (0, 1)."""
    checked = check_rate(name, rate)
    if checked == 0.0:
        raise InputError(
            f"{name} must be above 0: no number of rows proves that nothing ever changes. Promise Certain() "
            "instead: every label stays, and no rows are needed to prove it",
            argument=name,
        )
    return checked


def _read_rates(given: Any) -> tuple[tuple[Any, float], ...]:
    items = given.items() if isinstance(given, Mapping) else given
    try:
        pairs = [(plain_label(label), rate) for label, rate in items]
    except (TypeError, ValueError) as error:
        raise InputError(
            f'rates must be a mapping from classes to rates, such as {{"yes": 0.02, "no": 0.002}}, got {given!r}',
            argument="rates",
        ) from error
    rates = {label: check_positive_rate(f"the rate of class {label!r}", rate) for label, rate in pairs}
    if len(rates) < 2 or len(rates) < len(pairs):
        raise InputError(
            f"rates must name every class of the model, two classes or more, each once; got "
            f"{[label for label, _ in pairs]}. Say too how many rows of the other classes may change, such as "
            '{"yes": 0.02, "no": 0.002}; for one class alone there is Recall("yes", 0.02), which needs labels',
            argument="rates",
        )
    # Sorted, so that promises with the same rates are equal.
    return tuple(sorted(rates.items(), key=repr))


def _check_confident(promise: Promise) -> None:
    if promise.confidence is None:
        raise InputError(
            f"{type(promise).__name__} needs a confidence: without one nothing is promised for new rows. "
            "max_disagreement with confidence=None limits changes on the calibration rows alone",
            argument="confidence",
        )


def _count_changed(outcomes: Outcomes, what: str, rows: NDArray[np.bool_], max_rate: float) -> Count:
    return Count(what, int(rows.sum()), int(outcomes.changed[rows].sum()), max_rate)


def _rows_without_mistake(rate: float, confidence: float | None) -> int:
    assert confidence is not None
    return math.ceil(math.log1p(-confidence) / math.log1p(-rate))


def _name_new(holds: str) -> str:
    return "new groups, with one row of each drawn at random," if holds == "groups" else "new rows"
