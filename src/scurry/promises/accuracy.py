"""Accuracy: a promise about how often answers are right, not about how often they change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from scurry.checks import check_choice, check_number, check_numbers
from scurry.errors import InputError
from scurry.formatting import format_number
from scurry.promises.kinds import Count, Mean, Outcomes, Promise, read_rate

_FEW = 8.0  # expected losses below which losses alone are tested; see `scurry.stopping.guarantee`


@dataclass(frozen=True)
class Accuracy(Promise):
    """Accuracy falls by at most so much, or the mean cost of answers rises by at most so much. It needs labels.

    Where an early exit changes a label, the new one is often right and the old one wrong. Such gains make up for
    losses, so that this promise needs fewer trees than one about labels that change.

    Parameters
    ----------
    max_loss : float in (0, 1)
        The largest fall in accuracy: 0.003 is 0.3 points, such as from 87.0 % to 86.7 %. With `costs`, the largest rise
        of the mean cost of an answer, in their unit. 0 is refused: to prove that nothing at all is lost, an exit would
        have to be better than the model.
    confidence : float, default 0.95
        The probability with which the promise holds for new rows.
    costs : array of shape (n_classes, n_classes), optional
        ``costs[i][j]`` is the cost of answering the model's class j to a row of class i. By default every wrong answer
        costs 1, and a right one nothing.
    holds : {"rows", "groups"}, default "rows"
        Over new rows, or over one row of each new group. `scurry.early_exit` sets it.

    Examples
    --------
    >>> import scurry
    >>> print(scurry.promises.Accuracy(0.003).describe())
    With confidence 0.95, on new rows accuracy is at most 0.3 points below the model's.
    >>> scurry.promises.Accuracy(0.003).rows_needed()
    998
    >>> print(scurry.promises.Accuracy(0.05, costs=[[0, 1], [10, 0]]).describe())
    With confidence 0.95, on new rows answers cost on average at most 0.05 more than the model's.
    """

    max_loss: float
    _: KW_ONLY
    costs: Any = None  # given as an array, kept as tuples
    holds: str = "rows"

    TAG: ClassVar[str] = "accuracy"
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
        if self.costs is None and loss >= 1.0:
            hint = f" Did you mean {loss / 100:g} ({loss:g} points)?" if loss < 100 else ""
            raise InputError(f"max_loss must be in (0, 1), got {self.max_loss!r}.{hint}", argument="max_loss")
        object.__setattr__(self, "max_loss", loss)
        check_choice("holds", self.holds, ("rows", "groups"))
        if self.costs is not None:
            object.__setattr__(self, "costs", _check_costs(self.costs))
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
    def largest_rise(self) -> float:
        """The largest rise of cost of one row: 1 for accuracy."""
        return 1.0 if self.costs is None else max(max(row) - min(row) for row in self.costs)

    def describe(self) -> str:
        """Return the promise as one plain sentence."""
        where = "over new groups, with one row of each drawn at random," if self.holds == "groups" else "on new rows"
        if self.costs is not None:
            most = f"answers cost on average at most {format_number(self.max_loss)} more than the model's"
        else:
            most = f"accuracy is at most {_in_points(f'{100 * self.max_loss:.5g}')} below the model's"
        return f"With confidence {self.confidence:g}, {where} {most}."

    def describe_test(self, units: str, n_broken: int, bound: float | None) -> str:
        """Return how the promise was tested, as a part of a sentence."""
        if self.costs is not None:
            most = "" if bound is None else f" (on average at most {bound:.3g} more for new rows)"
            return f"{units} that had no part in the fit: {n_broken:,} cost more{most}"
        most = "" if bound is None else f" (accuracy falls by at most {_in_points(f'{100 * bound:.3g}')} on new rows)"
        return f"{units} that had no part in the fit: {n_broken:,} are wrong where the model is right{most}"

    def count(self, outcomes: Outcomes) -> tuple[Count, ...]:
        """Return how many rows became wrong and right; nothing for costs, whose mean is no count."""
        if outcomes.y is None or self.costs is not None:
            return ()
        is_right, was_right = outcomes.answers == outcomes.y, outcomes.full == outcomes.y
        n_lost, n_gained = int((was_right & ~is_right).sum()), int((is_right & ~was_right).sum())
        return (Count("fall of accuracy", len(is_right), n_lost, self.max_loss, n_gained),)

    @property
    def losses(self) -> tuple[float, ...]:
        """What one row can lose, ascending; gains are below 0."""
        if self.costs is None:
            return (-1.0, 0.0, 1.0)
        costs = np.asarray(self.costs)
        return tuple(np.unique(costs[:, :, None] - costs[:, None, :]).tolist())

    def mean(self, outcomes: Outcomes) -> Mean | None:
        """Return what the answers of rows cost, and what the model's cost."""
        if outcomes.y is None or self.costs is None:
            return None
        code_of = {label: code for code, label in enumerate(outcomes.classes)}
        truth, ours, full = (
            np.array([code_of[label] for label in labels.tolist()], np.intp)
            for labels in (outcomes.y, outcomes.answers, outcomes.full)
        )
        costs = np.asarray(self.costs)
        return Mean("mean cost of an answer", costs[truth, ours], costs[truth, full], self.largest_rise, self.max_loss)

    def rows_needed(self) -> int:
        """Return how many calibration rows it takes to certify the promise when no label changes.

        With costs, that is the least: rows that change prove less, and bets are smaller.
        """
        assert self.confidence is not None
        risk = 1.0 - self.confidence
        if self.costs is not None:
            # The largest bet on rows that may rise by r multiplies the capital by r / (r - ε) at each that does not.
            return math.ceil(math.log(risk) / math.log1p(-self.max_loss / self.largest_rise))
        n_rows = math.log(risk) / math.log1p(-self.max_loss)
        # From there on gains are counted too, which takes a twentieth of the risk.
        return math.ceil(n_rows if n_rows * self.max_loss < _FEW else math.log(risk / 20) / math.log1p(-self.max_loss))

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
    matrix = check_numbers("costs", costs)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2 or not np.isfinite(matrix).all():
        raise InputError(
            f"costs must be a square array of finite numbers, one row and one column for each class, got {costs!r}",
            argument="costs",
        )
    if not np.ptp(matrix, axis=1).any():
        raise InputError("costs must differ between answers; here no answer costs more than another", argument="costs")
    return tuple(tuple(row) for row in matrix.tolist())
