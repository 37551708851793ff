"""The vote programs solved in floating point: column generation over the native sweep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scurry import _core
from scurry.stopping.vote_mixture import Column, Mixture, Prices, Program, cheapest_mixture
from scurry.stopping.vote_policy import FloatArray, Thresholds, VotePolicy, outcomes

MAX_GAP = 1e-11
TOLERANCE = 1e-12


class _SweepOracle:
    """Finds the policy of least priced cost by one backward sweep over the states (``core/votes.h``)."""

    def __init__(self, n_voters: int, program: Program, *, any_shape: bool = False) -> None:
        self.n_voters = n_voters
        self.any_shape = any_shape
        self.time = np.array(program.time, dtype=np.float64)
        self.risk = np.array(program.risk, dtype=np.float64)
        negative = 2 * np.arange(n_voters + 1) <= n_voters
        halves = np.concatenate([self.risk * negative, self.risk * ~negative])  # the sweep wants one-sided measures
        used = halves.any(axis=1)
        self._row_of = np.tile(np.arange(len(self.risk)), 2)[used]
        self._sweep = _core.VoteSweep(n_voters, self.time, halves[used])

    def __call__(self, prices: Prices) -> Column:
        n_states = self.n_voters + 1
        lower, upper = np.empty((2, n_states), dtype=np.int32)
        stops = np.empty((n_states, n_states) if self.any_shape else 0, dtype=np.uint8)
        time, halves = np.empty(len(self.time)), np.empty(len(self._row_of))
        risk_price = np.array(prices.risk, dtype=np.float64)[self._row_of]
        self._sweep.cheapest(np.array(prices.time, dtype=np.float64), risk_price, lower, upper, time, halves, stops)
        risk = np.bincount(self._row_of, halves, minlength=len(self.risk))
        policy = stops.astype(np.bool_) if self.any_shape else Thresholds(lower, upper)
        return Column(policy, time.tolist(), risk.tolist())

    def column(self, policy: Thresholds) -> Column:
        votes, disagreement = outcomes([VotePolicy(1.0, *policy)])
        return Column(policy, (self.time @ votes).tolist(), (self.risk @ disagreement).tolist())


def relative_rounding(n_voters: int) -> float:
    """A bound on the sweep's relative error: only sums and products of positive numbers, a few per row of states."""
    return 5 * (n_voters + 2) * float(np.finfo(np.float64).eps)


def solve_program(n_voters: int, program: Program, start: Sequence[Thresholds], *, any_shape: bool = False) -> Mixture:
    """The best mixture of policies; `start` begins with one that never disagrees.

    With `any_shape`, policies are stop matrices, since those of least cost may have no thresholds.
    """
    oracle = _SweepOracle(n_voters, program, any_shape=any_shape)
    return cheapest_mixture(
        n_voters,
        program,
        oracle,
        [oracle.column(policy) for policy in start],
        number=float,
        max_gap=MAX_GAP,
        tolerance=TOLERANCE,
        rounding=relative_rounding(n_voters),
    )


def priced_optimum(n_voters: int, time: FloatArray, risk: FloatArray) -> float:
    """The least ``time @ votes + risk @ disagreement`` of any policy, for weights over n of shape (n_voters + 1,)."""
    column = _SweepOracle(n_voters, Program([time], [risk], [1.0], worst_case=False))(Prices([1.0], [1.0]))
    return float(column.time[0] + column.risk[0]) * (1.0 - relative_rounding(n_voters))
