"""Pictures of rules, in the manner of scikit-learn's displays. matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from scurry.errors import InputError, MissingDependencyError
from scurry.stopping.vote_policy import decided
from scurry.stopping.vote_rule import VoteRule

_GO_ON, _POSITIVE, _NEGATIVE, _LOT = "#f2f2f2", "#1f77b4", "#d9822b", "#7a2f8f"
_MAX_LISTED = 1001  # voters for which states are listed one by one


class VoteRuleDisplay:
    """When a vote rule stops, or what it costs.

    Parameters
    ----------
    rule : VoteRule

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from scurry.stopping import solve
    >>> display = VoteRuleDisplay.from_rule(solve(51, 0.001))
    >>> display.ax_.get_xlabel()
    'votes seen'
    """

    def __init__(self, rule: VoteRule) -> None:
        self.rule = rule

    @classmethod
    def from_rule(cls, rule: VoteRule, *, kind: str = "thresholds", ax: Any = None) -> Self:
        """Draw `rule` at once; see `plot`."""
        return cls(rule).plot(kind=kind, ax=ax)

    def plot(self, *, kind: str = "thresholds", ax: Any = None) -> Self:
        """Draw the rule.

        Parameters
        ----------
        kind : {"thresholds", "outcomes"}
            "thresholds": after how many positive votes it stops; "outcomes": expected votes and disagreement by the
            number of positive voters.
        ax : matplotlib Axes, optional
            A new figure by default.

        Returns
        -------
        VoteRuleDisplay
        """
        if kind not in ("thresholds", "outcomes"):
            raise InputError(f'kind must be "thresholds" or "outcomes", got {kind!r}')
        self.ax_ = _new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        (self._plot_thresholds if kind == "thresholds" else self._plot_outcomes)()
        self.ax_.set_title(
            f"{self.rule.method}, {self.rule.n_voters} voters, disagreement ≤ {self.rule.max_disagreement:g}"
        )
        return self

    def _plot_thresholds(self) -> None:
        rule, ax = self.rule, self.ax_
        seen = np.arange(rule.n_voters + 1)
        # The boundary between two counts is drawn half a vote before the one that stops.
        upper, lower = np.minimum(rule.upper, seen + 1) - 0.5, np.maximum(rule.lower, -1) + 0.5
        ax.fill_between(seen, lower, upper, color=_GO_ON, step="mid", label="ask on")
        ax.fill_between(seen, upper, np.maximum(upper, seen + 0.5), color=_POSITIVE, alpha=0.55, step="mid", lw=0)
        ax.fill_between(seen, np.minimum(lower, -0.5), lower, color=_NEGATIVE, alpha=0.55, step="mid", lw=0)
        ax.step(seen, upper, where="mid", color=_POSITIVE, lw=1.2, label="stop: positive")
        ax.step(seen, lower, where="mid", color=_NEGATIVE, lw=1.2, label="stop: negative")
        certain = decided(rule.n_voters)
        ax.step(seen, certain.upper - 0.5, where="mid", color="black", lw=0.8, ls=":", label="vote decided")
        ax.step(seen, certain.lower + 0.5, where="mid", color="black", lw=0.8, ls=":")
        if rule.n_voters <= _MAX_LISTED:
            ax.plot(*np.nonzero(rule.draws_lots()), "o", color=_LOT, ms=4, label="stop by lot")
        ax.set(xlabel="votes seen", ylabel="positive votes", xlim=(0, rule.n_voters), ylim=(-0.5, rule.n_voters + 0.5))
        ax.legend(loc="upper left", frameon=False)

    def _plot_outcomes(self) -> None:
        rule, ax = self.rule, self.ax_
        positives = np.arange(rule.n_voters + 1)
        ax.plot(positives, rule.expected_votes(), color=_POSITIVE)
        ax.set(xlabel="positive voters", xlim=(0, rule.n_voters), ylim=(0, None))
        ax.set_ylabel("expected votes", color=_POSITIVE)
        risk = ax.twinx()
        risk.plot(positives, rule.disagreement(), color=_NEGATIVE)
        risk.axhline(rule.max_disagreement, color=_NEGATIVE, lw=0.8, ls=":")
        risk.set_ylim(0, None)
        risk.set_ylabel("disagreement with the full vote", color=_NEGATIVE)


def _new_axes() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingDependencyError('drawing needs matplotlib: pip install "scurry[plots]"') from error
    return pyplot.subplots(figsize=(6.4, 4.4), layout="constrained")[1]
