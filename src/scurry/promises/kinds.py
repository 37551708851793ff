"""More kinds of promises.

LabelsPerClass and Recall promise that a rare class does not pay for the others. Accuracy is about how often answers are
right, not about how often they change. Values is about the values of a regressor or the probabilities of a classifier,
TopK about which documents of a query are its best.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_count, check_number, check_numbers, check_rate
from scurry.errors import InputError
from scurry.formatting import format_number, format_percent, format_share
from scurry.promises.promise import Count, Mean, Outcomes, Promise, read_rate, rows_without_mistake

_HOLDS = ("rows", "groups")
_OTHERS_RATE = 0.001  # of other labels that a promise about recall lets change, unless it says another
# A class and its rate. The last "<=" before the rate counts, as names of classes may have one too.
_PART = r"""\s*("[^"]*"|'[^']*'|[^"'\s].*?)\s*<=\s*([^,<]*?)\s*(?:,|$)"""
_RECALL = re.compile(r"recall\((.*)\)\s*<=\s*([^,<]*?)\s*(?:,\s*others\s*<=\s*([^,<]*?)\s*)?")


@dataclass(frozen=True)
class LabelsPerClass(Promise):
    """Of each class, at most a share of the rows that the model gives it get another label; all classes at once.

    A promise about all rows may be kept by losing most of a rare class. This one cannot. Only what the rows look like
    that the model gives a class matters, not how many there are. So calibration rows that the model labels "yes" may be
    added from elsewhere if they look like the new rows that it will label so. Rows that were chosen because they *are*
    "yes" do not: among them the model is surer than among the others that it labels "yes", and the promise would be
    false. `Recall` is about such rows.

    Parameters
    ----------
    rates : mapping from class to float in (0, 1)
        The largest share of each class's rows whose label may change. Nothing is promised for rows that the model gives
        a class that is not named.
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
    1543
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
        """The largest rate of all. If every class is named, no more of all labels change, whatever the class shares."""
        return float(max(rate for _, rate in self.rates))

    def describe(self) -> str:
        """Return the promise as one plain sentence, with rates in percent."""
        parts = [f"{format_percent(rate)} that it labels {label!r}" for label, rate in self.rates]
        parts[0] = parts[0].replace("that it labels", "that the model labels")
        listed = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
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
        """Return how many rows the test takes, at the least, of the class that needs most of them.

        That is without a mistake, and if there are many rows of the other classes.
        """
        return max(_rows_without_mistake(rate, self.confidence, len(self.rates)) for _, rate in self.rates)

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

    Calibration rows of the class that the model finds may be added from elsewhere, chosen by their true class, if they
    look like those to come.

    Parameters
    ----------
    label : label
        The class, as the model names it.
    max_loss : float in (0, 1)
        The largest share of the rows found that may be lost: 0.01 is one in a hundred.
    max_changed : float in (0, 1) or None, default None
        The largest share of the rows that the model gives other labels whose label may change. None is 0.001; of
        `scurry.early_exit` it is the least share that the calibration rows can certify well, where they are too few for
        that. The promise of the predictor says which.
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

    label: Any
    max_loss: float
    max_changed: float | None = None
    _: KW_ONLY
    holds: str = "rows"

    TAG: ClassVar[str] = "recall"
    OLD_NAMES: ClassVar[Mapping[str, str]] = {"class_": "label"}
    NEEDS_LABELS: ClassVar[bool] = True
    EXAMPLE: ClassVar[str] = "recall(yes)<=1%"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_confident(self)
        check_choice("holds", self.holds, _HOLDS)
        object.__setattr__(self, "label", plain_label(self.label))
        object.__setattr__(self, "max_loss", check_positive_rate("max_loss", self.max_loss))
        if self.max_changed is not None:
            object.__setattr__(self, "max_changed", check_positive_rate("max_changed", self.max_changed))

    @property
    def max_rate(self) -> None:
        """None: labels of rows of other classes that the model gives `label` may change."""
        return

    @property
    def largest_rate(self) -> float:
        """The larger of the shares that may be lost and that may change."""
        return max(self.max_loss, self.others_rate)

    @property
    def others_rate(self) -> float:
        """The largest share of the rows with other labels that may change."""
        return _OTHERS_RATE if self.max_changed is None else self.max_changed

    def describe(self) -> str:
        """Return the promise as one plain sentence, with rates in percent."""
        return (
            f"With confidence {self.confidence:g}, of {_name_new(self.holds)} at most {format_percent(self.max_loss)} "
            f"of those of class {self.label!r} that the model finds are lost, and at most "
            f"{format_percent(self.others_rate)} of those that it gives other labels get another."
        )

    def describe_test(self, units: str, n_broken: int, bound: float | None) -> str:
        """Return how the promise was tested, as a part of a sentence."""
        return (
            f"{units} that had no part in the fit: {n_broken:,} broke it. Rows that the model labels {self.label!r} "
            "wrongly may change and are not counted here"
        )

    def count(self, outcomes: Outcomes) -> tuple[Count, ...]:
        """Return how many rows of the class are lost, and how many other labels changed."""
        if outcomes.y is None:
            return ()
        is_given, name = outcomes.full == self.label, repr(self.label)
        found = is_given & (outcomes.y == self.label)
        lost = f"rows of class {name} that the model finds and this does not"
        others = f"other labels for rows that the model does not label {name}"
        return (
            _count_changed(outcomes, lost, found, self.max_loss),
            _count_changed(outcomes, others, ~is_given, self.others_rate),
        )

    def find_label_bound(self, outcomes: Outcomes) -> NDArray[np.bool_]:
        """Return which rows the model gives the class; others only count by whether their label changes."""
        return np.asarray(outcomes.full == self.label)

    def rows_needed(self) -> int:
        """Return how many calibration rows it takes, at the least, of the kind that needs most of them."""
        rates = (self.max_loss, 1.0 if self.max_changed is None else self.max_changed)
        return max(_rows_without_mistake(rate, self.confidence, 2) for rate in rates if rate < 1)

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
        raise InputError(f"label must be a class of the model, a text or a number, got {label!r}", argument="label")
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
    if not rates or len(rates) < len(pairs):
        raise InputError(
            f"rates must name one class or more, each once, got {[label for label, _ in pairs]}; pass a mapping such "
            'as {"yes": 0.02, "no": 0.002}',
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


def _rows_without_mistake(rate: float, confidence: float | None, n_parts: int = 1) -> int:
    """Return the least number of rows of one part of a promise whose parts are tested at once.

    Each of the others takes at least a part of the risk (`scurry.stopping.guarantee.split_risk`), however many rows
    it has.
    """
    assert confidence is not None
    weight = 1 + 0.2 * (n_parts - 1) / n_parts
    return rows_without_mistake(rate, 1.0 - confidence ** (1 / weight))


def _name_new(holds: str) -> str:
    return "new groups, with one row of each drawn at random," if holds == "groups" else "new rows"


_FEW = 8.0  # expected losses below which losses alone are tested; see `scurry.stopping.guarantee`


@dataclass(frozen=True)
class Accuracy(Promise):
    """Accuracy falls by at most so much, or the mean cost of answers rises by at most so much. It needs labels.

    Where an early exit changes a label, the new one is often right and the old one wrong. Such gains make up for
    losses, so that this promise needs fewer trees than one about labels that change.

    Parameters
    ----------
    max_loss : float in (0, 1)
        The largest fall in accuracy: 0.003 is 0.3 points, such as from 87.0 % to 86.7 %. With `error_costs`, the
        largest rise of the mean cost of an answer, in their unit. 0 is refused: to prove that nothing at all is lost,
        an exit would have to be better than the model.
    confidence : float, default 0.95
        The probability with which the promise holds for new rows.
    error_costs : array of shape (n_classes, n_classes), optional
        ``error_costs[i][j]`` is the cost of answering the model's class j to a row of class i. By default every wrong
        answer costs 1, and a right one nothing.
    holds : {"rows", "groups"}, default "rows"
        Over new rows, or over one row of each new group. `scurry.early_exit` sets it.

    Examples
    --------
    >>> import scurry
    >>> print(scurry.promises.Accuracy(0.003).describe())
    With confidence 0.95, on new rows accuracy is at most 0.3 points below the model's.
    >>> scurry.promises.Accuracy(0.003).rows_needed()
    998
    >>> print(scurry.promises.Accuracy(0.05, error_costs=[[0, 1], [10, 0]]).describe())
    With confidence 0.95, on new rows answers cost on average at most 0.05 more than the model's.
    """

    max_loss: float
    error_costs: Any = None  # given as an array, kept as tuples
    _: KW_ONLY
    holds: str = "rows"

    TAG: ClassVar[str] = "accuracy"
    OLD_NAMES: ClassVar[Mapping[str, str]] = {"costs": "error_costs"}
    NEEDS_LABELS: ClassVar[bool] = True
    EXAMPLE: ClassVar[str] = "accuracy<=0.3%"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.confidence is None:
            raise InputError(
                "Accuracy needs a confidence: without one nothing is promised for new rows", argument="confidence"
            )
        loss = check_number("max_loss", self.max_loss)
        if loss == 0.0:
            raise InputError(
                "max_loss must be above 0: that nothing at all is lost can only be proven of an exit that is better "
                "than the model. Allow a small loss, such as 0.001, or promise Certain(), which changes no label",
                argument="max_loss",
            )
        if self.error_costs is None and loss >= 1.0:
            hint = f" Did you mean {loss / 100:g} ({loss:g} points)?" if loss < 100 else ""
            raise InputError(f"max_loss must be in (0, 1), got {self.max_loss!r}.{hint}", argument="max_loss")
        object.__setattr__(self, "max_loss", loss)
        check_choice("holds", self.holds, ("rows", "groups"))
        if self.error_costs is not None:
            object.__setattr__(self, "error_costs", _check_costs(self.error_costs))
            if loss >= self.largest_rise:
                raise InputError(
                    f"max_loss must be below {self.largest_rise:g}, which is the most that a row can lose",
                    argument="max_loss",
                )

    @property
    def max_rate(self) -> None:
        """None: any number of labels may change, as long as answers stay as good."""
        return

    @property
    def largest_rate(self) -> float | None:
        """The fall in accuracy that is allowed; None for costs, which are no share."""
        return self.max_loss if self.error_costs is None else None

    @property
    def largest_rise(self) -> float:
        """The largest rise of cost of one row: 1 for accuracy."""
        return 1.0 if self.error_costs is None else max(max(row) - min(row) for row in self.error_costs)

    def describe(self) -> str:
        """Return the promise as one plain sentence."""
        where = "over new groups, with one row of each drawn at random," if self.holds == "groups" else "on new rows"
        if self.error_costs is not None:
            most = f"answers cost on average at most {format_number(self.max_loss)} more than the model's"
        else:
            most = f"accuracy is at most {_in_points(f'{100 * self.max_loss:.5g}')} below the model's"
        return f"With confidence {self.confidence:g}, {where} {most}."

    def describe_test(self, units: str, n_broken: int, bound: float | None) -> str:
        """Return how the promise was tested, as a part of a sentence."""
        if self.error_costs is not None:
            most = "" if bound is None else f" (on average at most {bound:.3g} more for new rows)"
            return f"{units} that had no part in the fit: {n_broken:,} cost more{most}"
        most = "" if bound is None else f" (accuracy falls by at most {_in_points(f'{100 * bound:.3g}')} on new rows)"
        return f"{units} that had no part in the fit: {n_broken:,} are wrong where the model is right{most}"

    def count(self, outcomes: Outcomes) -> tuple[Count, ...]:
        """Return how many rows became wrong and right; nothing for costs, whose mean is no count."""
        if outcomes.y is None or self.error_costs is not None:
            return ()
        is_right, was_right = outcomes.answers == outcomes.y, outcomes.full == outcomes.y
        n_lost, n_gained = int((was_right & ~is_right).sum()), int((is_right & ~was_right).sum())
        return (Count("fall of accuracy", len(is_right), n_lost, self.max_loss, n_gained),)

    @property
    def losses(self) -> tuple[float, ...]:
        """What one row can lose, ascending; gains are below 0."""
        if self.error_costs is None:
            return (-1.0, 0.0, 1.0)
        costs = np.asarray(self.error_costs)
        return tuple(np.unique(costs[:, :, None] - costs[:, None, :]).tolist())

    def mean(self, outcomes: Outcomes) -> Mean | None:
        """Return what the answers of rows cost, and what the model's cost."""
        if outcomes.y is None or self.error_costs is None:
            return None
        code_of = {label: code for code, label in enumerate(outcomes.classes)}
        truth, ours, full = (
            np.array([code_of[label] for label in labels.tolist()], np.intp)
            for labels in (outcomes.y, outcomes.answers, outcomes.full)
        )
        costs = np.asarray(self.error_costs)
        return Mean("mean cost of an answer", costs[truth, ours], costs[truth, full], self.largest_rise, self.max_loss)

    def rows_needed(self) -> int:
        """Return how many calibration rows it takes to certify the promise when no label changes.

        With costs, that is the least: rows that change prove less, and bets are smaller.
        """
        assert self.confidence is not None
        risk = 1.0 - self.confidence
        if self.error_costs is not None:
            # The largest bet on rows that may rise by r multiplies the capital by r / (r - ε) at each that does not.
            return rows_without_mistake(self.max_loss / self.largest_rise, risk)
        # From there on gains are counted too, which takes a twentieth of the risk.
        counts_gains = math.log(risk) / math.log1p(-self.max_loss) * self.max_loss >= _FEW
        return rows_without_mistake(self.max_loss, risk / 20 if counts_gains else risk)

    def about_groups(self) -> Accuracy:
        """Return the same promise about one row of each new group, so that every group counts the same."""
        return replace(self, holds="groups")

    @classmethod
    def read_text(cls, text: str, classes: Sequence[Any]) -> Accuracy | None:
        """Return the promise that a text such as "accuracy<=0.3%" asks for; None if it asks for another kind."""
        what, sign, rate = text.partition("<=")
        return cls(read_rate(rate)) if sign and what.strip() == "accuracy" else None


def _in_points(number: str) -> str:
    return f"{number} point{'' if number == '1' else 's'}"


def _check_costs(costs: Any) -> tuple[tuple[float, ...], ...]:
    matrix = check_numbers("error_costs", costs)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2 or not np.isfinite(matrix).all():
        raise InputError(
            "error_costs must be a square array of finite numbers, one row and one column for each class, got "
            f"{costs!r}",
            argument="error_costs",
        )
    if not np.ptp(matrix, axis=1).any():
        raise InputError(
            "error_costs must differ between answers; here no answer costs more than another", argument="error_costs"
        )
    return tuple(tuple(row) for row in matrix.tolist())


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
        a good choice: a quarter of its RMSE changes the RMSE by about 1 %. With targets (`y_cal`), rules that let it
        grow by more on these rows are not taken, where more cautious ones do not.
    max_share : float in (0, 1), default 0.05
        The largest share of rows whose values may differ by more.
    of : {"value", "probability", "log-odds"}, default "value"
        What is compared: the values of a regressor, or the probabilities of the second of two classes or their
        log-odds. Where small probabilities have to be ranked, ask for log-odds.
    confidence : float or None, default 0.95
        The probability with which the promise holds for new rows. None promises nothing for new rows.
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
    of: str = "value"
    _: KW_ONLY
    holds: str = "rows"

    TAG: ClassVar[str] = "values"
    IS_ABOUT_CLASSES: ClassVar[bool] = False
    COUNTS_CHANGED: ClassVar[bool] = True
    EXAMPLE: ClassVar[str] = "values<=0.02 for 95%"
    OTHER_EXAMPLES: ClassVar[tuple[str, ...]] = ("probabilities<=0.02 for 95%",)

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

    def find_changed(self, outcomes: Outcomes) -> NDArray[np.bool_]:
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
                f"promise must be written like {cls.EXAMPLE!r}, with an error such as 0.02 or 12000; got {text!r}",
                argument="promise",
            ) from cause
        of = kinds[what.strip()]
        if kept and not 0 < read_rate(kept) < 1:
            meant = f"{kept}%" if 1 < read_rate(kept) < 100 else "95%"
            raise InputError(
                f"promise must give the share of rows as a rate below 1, got 'for {kept}'. Did you mean 'for {meant}'?",
                argument="promise",
            )
        # Rounded, because 1 - 0.95 is no 0.05.
        return cls(max_error, round(1.0 - read_rate(kept), 12), of=of) if kept else cls(max_error, of=of)

    def rows_needed(self) -> int:
        """Return how many calibration rows it takes to certify the promise when none of them breaks it."""
        if self.confidence is None:
            return 0
        return rows_without_mistake(self.max_share, 1.0 - self.confidence)


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

    def find_changed(self, outcomes: Outcomes) -> NDArray[np.bool_]:
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
        n_changed = len(np.unique(outcomes.queries[self.find_changed(outcomes)]))
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
        return rows_without_mistake(self.max_changed, 1.0 - self.confidence)


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
