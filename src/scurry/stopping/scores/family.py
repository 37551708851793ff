"""Family: rules in one order of models, from the most cautious to the boldest, to be tested one after another.

A family begins with one rule whose thresholds are moved outwards by falling amounts, and goes on with rules that were
fitted to spend more. It must be made without the rows that test it. Members need not be nested: testing in this order
and stopping at the first that fails is valid anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_number
from scurry.stopping.scores.matrix import FloatArray
from scurry.stopping.scores.qwyc import MarginFit
from scurry.stopping.scores.rule import ScoreFit

_GOLDEN = (5**0.5 - 1) / 2  # its multiples, without their whole parts, fill 0 to 1 evenly from the first few on


@dataclass(frozen=True, eq=False)
class Family:
    """Rules that are tested in turn, the most cautious first.

    Parameters
    ----------
    first : ScoreFit
        The rule that is widened.
    amounts : float64 array of shape (n_amounts,)
        Ascending amounts of widening. Members are tested from the last amount to the first.
    bolder : sequence of ScoreFit
        Rules in the same order of models that follow, as they are.

    Examples
    --------
    >>> from scurry.stopping import qwyc
    >>> rule = qwyc([[3, 1, -1], [2, -1, 1], [1, 1, -3], [-2, 1, -1], [-3, -1, 1]], max_disagreement=0)
    >>> family = Family(rule, np.array([0.0, 0.5]))
    >>> family.answers([[3, -3, -3], [-3, -1, 1]], [False, False])  # rows that leave after 1, 2, 3; answers no, yes
    array([[1, 0, 1, 2, 0],
           [2, 0, 0, 1, 1]])
    """

    first: ScoreFit
    amounts: FloatArray
    bolder: Sequence[ScoreFit] = ()

    def __len__(self) -> int:
        return len(self.amounts) + len(self.bolder)

    def __getitem__(self, at: int) -> ScoreFit:
        """Return a member."""
        n_amounts = len(self.amounts)
        return (
            self.first.widen(float(self.amounts[n_amounts - 1 - at])) if at < n_amounts else self.bolder[at - n_amounts]
        )

    def answers(self, scores: FloatArray, decisions: NDArray[np.generic], n_classes: int = 2) -> NDArray[np.int64]:
        """Count the rows that leave after each model under each member, and those that get each answer.

        Returns
        -------
        int64 array of shape (n_members, n_models + n_classes)
            Counts of parts of the rows add up.
        """
        widened = self.first.widening_answers(scores, self.amounts, decisions, n_classes).T[::-1]
        zero = np.zeros(1)
        others = [fit.widening_answers(scores, zero, decisions, n_classes).T for fit in self.bolder]
        return np.concatenate([widened, *others])

    def staggered(self, unit: float) -> Family:
        """Return the family with the thresholds of its first rule moved inwards, each by another part of `unit`.

        Sums of votes are whole numbers of votes. Equal shifts of all thresholds then pass whole votes together, and
        between one vote wider and not at all there is no rule, though most of what can be saved lies there. Moved by
        different parts of a vote, the thresholds pass it one after another.

        Parameters
        ----------
        unit : float
            By how much the sums of rows differ at least, such as one vote.

        Examples
        --------
        >>> from scurry.stopping import qwyc
        >>> votes = np.array([[1, 1, 1, 1], [1, -1, 1, 1], [-1, -1, 1, -1], [-1, -1, -1, -1]])
        >>> family = Family(qwyc(votes, max_disagreement=0, order="natural"), np.array([0.0, 0.2, 0.4, 0.6]))
        >>> [int(member.widen(0).lower[1] >= -2) for member in (family[2], family.staggered(2.0)[2])]
        [0, 0]
        """
        first = self.first
        assert isinstance(first, MarginFit)
        inwards = unit * (np.arange(1, first.n_models) * _GOLDEN % 1.0)
        lower, upper = first.lower + inwards, first.upper - inwards
        apart = lower < upper
        moved = replace(
            first,
            lower=np.where(apart, lower, first.lower),
            upper=np.where(apart, upper, first.upper),
            mean_cost=None,
            n_mistakes=None,
        )
        return replace(self, first=moved)

    def one_sided(self, *, upper: bool, other: FloatArray) -> Family:
        """Return the family of rules for two classes that have one side of each member, and `other` on the other side.

        Parameters
        ----------
        upper : bool
            Whether the members give their upper thresholds, from which rows stop as positive.
        other : float64 array of shape (n_models - 1,)
            The thresholds of the other side, the same for all members; infinite where it never stops a row.
        """
        return Family(
            OneSidedFit.of(self.first, upper=upper, other=other),
            self.amounts,
            [OneSidedFit.of(fit, upper=upper, other=other) for fit in self.bolder],
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OneSidedFit(MarginFit):
    """A margin rule of which only one side is widened.

    A row that the full ensemble answers as positive can only be lost through `lower`, a negative one through `upper`.
    So each side may be chosen on rows of one class, and holds for that class alone.

    Attributes
    ----------
    moves_upper : bool
        Whether `widen` moves the upper thresholds; else the lower ones.
    """

    moves_upper: bool

    KIND: ClassVar[str] = "one-sided margin rule"

    @classmethod
    def of(cls, fit: ScoreFit, *, upper: bool, other: FloatArray) -> Self:
        """Return one side of `fit` with the thresholds `other` on the other side."""
        if not isinstance(fit, MarginFit):
            raise TypeError(f"only rules for two classes have sides, got {type(fit).__name__}")
        known = {field.name: getattr(fit, field.name) for field in fields(MarginFit)}
        known |= {"mean_cost": None, "n_mistakes": None}
        # Sides of different members could cross. The side that is being chosen then gives way.
        if upper:
            return cls(**known | {"lower": other, "upper": np.maximum(fit.upper, _just_above(other))}, moves_upper=True)
        return cls(**known | {"upper": other, "lower": np.minimum(fit.lower, -_just_above(-other))}, moves_upper=False)

    def widen(self, amount: float) -> Self:
        """Return the rule with the thresholds of its moving side moved outwards by `amount` times `spread`."""
        shift = check_number("amount", amount) * self.spread
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        side = {"upper": self.upper + shift} if self.moves_upper else {"lower": self.lower - shift}
        return type(self)(**known | side | {"mean_cost": None, "n_mistakes": None})

    def _leaves_for(
        self, position: int, sums: FloatArray, amounts: FloatArray
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        shift, always = amounts * self.spread, len(amounts)
        if self.moves_upper:
            as_negative = np.where(sums <= self.lower[position], always, 0)
            as_positive = np.searchsorted(self.upper[position] + shift, sums, side="right")
        else:
            as_negative = always - np.searchsorted((self.lower[position] - shift)[::-1], sums, side="left")
            as_positive = np.where(sums >= self.upper[position], always, 0)
        return np.maximum(as_negative, as_positive), as_positive > as_negative


def _just_above(thresholds: FloatArray) -> FloatArray:
    return np.nextafter(thresholds, np.inf)


def last_accepted(accepted: NDArray[np.bool_]) -> int:
    """Return the index of the last member before the first that is not accepted; -1 if that is the first.

    Examples
    --------
    >>> last_accepted(np.array([True, True, False, True]))
    1
    """
    return int(np.argmin(np.append(accepted, False))) - 1
