"""Solvers of a vote program: by sweeps in floating point, by HiGHS, and exactly in fractions.

- `solve_by_sweep`: column generation over the native backward sweep. This is the one in use.
- `solve_lp`: the paper's own linear programs over the set Π, an independent check of the sweep. Its variables are π_ij
  and π̄_ij of Eq. (14); p_ij is their sum (15.3) and is left out.
- `solve_exactly`: column generation in rational arithmetic, where equal primal and dual values prove the optimum. Given
  the number of positive voters, every sequence of ``i`` votes with ``j`` positives is equally likely. So a state can
  carry the weight of *one* such sequence instead of a probability. These weights are integers up to a common factor, a
  state's weight is the sum of those of the two states that follow, and the whole sweep is additions and comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import comb, lcm
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog
from scipy.stats import hypergeom

from scurry import _core
from scurry.errors import ScurryError
from scurry.stopping.votes.mixture import Column, Mixture, Prices, Program, find_cheapest_mixture
from scurry.stopping.votes.policy import (
    BoolArray,
    FloatArray,
    Policy,
    Thresholds,
    VotePolicy,
    outcomes,
    stop_matrix,
    stop_when_certain,
)

MAX_GAP = 1e-11  # relative, of objective and lower bound in floating point
TOLERANCE = 1e-12  # what counts as zero in a pivot of floats
MAX_LP_VOTERS = 201
MAX_EXACT_VOTERS = 501
_NOISE = 1e-9  # chances that HiGHS cannot tell from 0 or 1
_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class _SweepOracle:
    """Find the policy of least priced cost by one backward sweep over the states (``core/calibrate/votes.h``)."""

    def __init__(self, n_voters: int, program: Program, *, any_shape: bool = False) -> None:
        self.n_voters = n_voters
        self.any_shape = any_shape
        self.time = np.array(program.time, dtype=np.float64)
        self.risk = np.array(program.risk, dtype=np.float64)
        negative = 2 * np.arange(n_voters + 1) <= n_voters
        # The native sweep takes risks on one side of the full vote only, so each risk row is given as two halves.
        halves = np.concatenate([self.risk * negative, self.risk * ~negative])
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
        """Return a policy with its coordinates."""
        votes, disagreement = outcomes([VotePolicy(1.0, *policy)])
        return Column(policy, (self.time @ votes).tolist(), (self.risk @ disagreement).tolist())


def bound_rounding(n_voters: int) -> float:
    """Return a bound on the relative error of a sweep."""
    # Only positive numbers are added and multiplied, a few times per row of states, so nothing cancels.
    return 5 * (n_voters + 2) * float(np.finfo(np.float64).eps)


def solve_by_sweep(n_voters: int, program: Program, start: Sequence[Thresholds], *, any_shape: bool = False) -> Mixture:
    """Find the best mixture of policies; the first of `start` must never disagree.

    With `any_shape`, policies are stop matrices, because those of least cost may have no thresholds.
    """
    oracle = _SweepOracle(n_voters, program, any_shape=any_shape)
    return find_cheapest_mixture(
        n_voters,
        program,
        oracle,
        [oracle.column(policy) for policy in start],
        number=float,
        max_gap=MAX_GAP,
        tolerance=TOLERANCE,
        rounding=bound_rounding(n_voters),
    )


def bound_priced_cost(n_voters: int, time: FloatArray, risk: FloatArray) -> float:
    """Return a lower bound on ``time @ votes + risk @ disagreement`` of any policy; shapes (n_voters + 1,)."""
    column = _SweepOracle(n_voters, Program([time], [risk], [1.0], worst_case=False))(Prices([1.0], [1.0]))
    return float(column.time[0] + column.risk[0]) * (1.0 - bound_rounding(n_voters))


class LinearOptimum(NamedTuple):
    """A stopping strategy θ of shape (n_voters + 1, n_voters + 1), and a lower bound on every objective."""

    theta: FloatArray
    lower_bound: float


def solve_lp(n_voters: int, program: Program) -> LinearOptimum:
    """Solve one of the paper's linear programs: Π-Minimax, Π-Minimean or Π-Minimixed."""
    n_seen, n_positive = np.tril_indices(n_voters + 1)
    n = np.arange(n_voters + 1)[:, None]
    chance = hypergeom.pmf(n_positive, n_voters, n, n_seen)  # Eq. (19), of shape (n_voters + 1, n_states)
    disagrees = (2 * n_positive > n_seen) != (2 * n > n_voters)  # Eq. (4)
    time_weights, risk_weights, bounds = (np.array(rows, dtype=np.float64) for rows in program[:3])
    time = time_weights @ (chance * n_seen)  # Eq. (16)
    risk = risk_weights @ (chance * disagrees) / bounds[:, None]  # Eq. (17), scaled so that the bound is 1

    n_states = len(n_seen)
    n_open = n_states - n_voters - 1  # the states that may continue: all but those of the last row
    n_variables = n_states + n_open + program.worst_case  # π, π̄ and, for the worst case, the largest expected time
    cost, below, limit = np.zeros(n_variables), np.zeros((len(risk), n_variables)), np.ones(len(risk))
    below[:, :n_states] = risk
    if program.worst_case:
        cost[-1] = 1.0
        largest = np.hstack([time, np.zeros((len(time), n_open)), -np.ones((len(time), 1))])
        below, limit = np.vstack([below, largest]), np.r_[limit, np.zeros(len(time))]
    else:
        cost[:n_states] = time[0]
    solution = linprog(
        cost,
        A_ub=sparse.csr_array(below),
        b_ub=limit,
        A_eq=_make_transitions(n_seen, n_positive, n_open, n_variables),
        b_eq=np.eye(1, n_states)[0],  # Eq. (15.1)
        options=_OPTIONS,
    )
    if solution.status != 0:
        raise ScurryError(f'HiGHS found no optimum ({solution.message}); use solver="sweep"')
    # HiGHS proves optimality to its own tolerance only; its prices and one sweep give a bound that always holds.
    prices = np.maximum(-solution.ineqlin.marginals, 0.0)
    risk_price, time_price = prices[: len(risk)], prices[len(risk) :] if program.worst_case else np.ones(1)
    priced = bound_priced_cost(n_voters, time_price @ time_weights, (risk_price / bounds) @ risk_weights)
    stop, continues = solution.x[:n_states], np.r_[solution.x[n_states : n_states + n_open], np.zeros(n_voters + 1)]
    return LinearOptimum(_make_strategy(n_voters, stop, continues), (priced - risk_price.sum()) / time_price.sum())


def _make_transitions(n_seen: NDArray[np.int64], n_positive: NDArray[np.int64], n_open: int, n_variables: int) -> Any:
    """Return the matrix of Eqs. (15.3) to (15.5): π_ij + π̄_ij less what π̄ of the row before sends to (i, j)."""
    n_states = len(n_seen)
    state = np.arange(n_states)
    before = state - n_seen  # the state (i - 1, j), and the one after it is (i, j) less both
    after_negative, after_positive = (n_seen > 0) & (n_positive < n_seen), n_positive > 0
    entries = [
        (state, state, np.ones(n_states)),
        (state[:n_open], n_states + state[:n_open], np.ones(n_open)),
        (
            state[after_negative],
            n_states + before[after_negative],
            -((n_seen - n_positive) / np.maximum(n_seen, 1))[after_negative],
        ),
        (
            state[after_positive],
            n_states + before[after_positive] - 1,
            -(n_positive / np.maximum(n_seen, 1))[after_positive],
        ),
    ]
    rows, columns, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    return sparse.csr_array((values, (rows, columns)), shape=(n_states, n_variables))


def _make_strategy(n_voters: int, stop: FloatArray, continues: FloatArray) -> FloatArray:
    """Return θ = π / p; in states that the strategy never reaches it stops only once the vote is certain."""
    states = np.tril_indices(n_voters + 1)
    positives = np.arange(n_voters + 1)
    lower, upper = stop_when_certain(n_voters)
    theta = ((positives <= lower[:, None]) | (positives >= upper[:, None])).astype(np.float64)
    reach = np.maximum(stop, 0.0) + np.maximum(continues, 0.0)
    reached = reach > _NOISE
    share = np.maximum(stop, 0.0)[reached] / reach[reached]
    theta[states[0][reached], states[1][reached]] = np.where(abs(share - 0.5) > 0.5 - _NOISE, share.round(), share)
    theta[-1] = 1.0
    return theta


def solve_exactly(n_voters: int, program: Program, start: Sequence[Policy]) -> Mixture:
    """Find the best mixture of policies in fractions; the first of `start` must never disagree.

    The nearer `start` is to the optimum (give the floating-point solution), the fewer integer sweeps are needed.
    """

    def oracle(prices: Prices) -> Column:
        time = [_dot(prices.time, column) for column in zip(*program.time, strict=True)]
        risk = [_dot(prices.risk, column) for column in zip(*program.risk, strict=True)]
        return _column(program, _integer_sweep(n_voters, time, risk))

    columns = [_column(program, stop_matrix(policy)) for policy in start]
    mixture = find_cheapest_mixture(n_voters, program, oracle, columns, number=Fraction)
    if mixture.objective != mixture.lower_bound:
        raise ScurryError("exact column generation ended without equal primal and dual values")
    return mixture


def mixture_outcomes(mixture: Mixture) -> tuple[list[Fraction], list[Fraction]]:
    """Return expected votes and chance of disagreement of a mixture for every number of positive voters."""
    votes, disagreement = zip(*(_outcomes(stop_matrix(policy)) for policy in mixture.policies), strict=True)
    return [_dot(mixture.weights, v) for v in zip(*votes, strict=True)], [
        _dot(mixture.weights, d) for d in zip(*disagreement, strict=True)
    ]


def _outcomes(stops: BoolArray) -> tuple[list[Fraction], list[Fraction]]:
    """Return expected votes and chance of disagreement of a policy for every number of positive voters."""
    n_voters = len(stops) - 1
    # Numbers of sequences of votes, by their positives: still running, votes asked in them, answered.
    reached, asked, said_negative, said_positive = [1], [0], [0], [0]
    for i, stops_here in enumerate(stops.tolist()):
        for j, n_sequences in enumerate(reached):
            if not stops_here[j]:
                asked[j] += n_sequences
                continue
            (said_positive if 2 * j > i else said_negative)[j] += n_sequences
            reached[j] = 0
        if i < n_voters:
            # Either vote is added to each sequence.
            reached, asked, said_negative, said_positive = (
                [a + b for a, b in zip([*counts, 0], [0, *counts], strict=True)]
                for counts in (reached, asked, said_negative, said_positive)
            )
    total = [comb(n_voters, n) for n in range(n_voters + 1)]
    wrong = [said_negative[n] if 2 * n > n_voters else said_positive[n] for n in range(n_voters + 1)]
    return list(map(Fraction, asked, total)), list(map(Fraction, wrong, total))


def _column(program: Program, stops: BoolArray) -> Column:
    """Return a policy with its coordinates."""
    votes, disagreement = _outcomes(stops)
    return Column(stops, [_dot(row, votes) for row in program.time], [_dot(row, disagreement) for row in program.risk])


def _dot(weights: Sequence[Fraction], values: Sequence[Fraction]) -> Fraction:
    return sum((weight * value for weight, value in zip(weights, values, strict=True) if weight), Fraction(0))


def _integer_sweep(n_voters: int, time: list[Fraction], risk: list[Fraction]) -> BoolArray:
    """Return where the policy of least ``time @ votes + risk @ disagreement`` stops."""
    largest_negative = n_voters // 2
    per_sequence = [
        [weight / comb(n_voters, n) for n, weight in enumerate(weights)]
        for weights in (
            time,
            [weight if n <= largest_negative else Fraction(0) for n, weight in enumerate(risk)],
            [weight if n > largest_negative else Fraction(0) for n, weight in enumerate(risk)],
        )
    ]
    # Scaled to integers: sums of fractions would find a common denominator at every state.
    scale = lcm(*(weight.denominator for weights in per_sequence for weight in weights))
    ask, wrong_if_positive, wrong_if_negative = (
        [weight.numerator * (scale // weight.denominator) for weight in weights] for weights in per_sequence
    )
    value = [0] * (n_voters + 1)
    stops = np.ones((n_voters + 1, n_voters + 1), dtype=np.bool_)
    for i in range(n_voters - 1, -1, -1):
        # A sequence weighs as much as its two continuations together.
        ask, wrong_if_positive, wrong_if_negative, value = (
            [a + b for a, b in pairwise(row)] for row in (ask, wrong_if_positive, wrong_if_negative, value)
        )
        for j in range(i + 1):
            stop = wrong_if_positive[j] if 2 * j > i else wrong_if_negative[j]
            continues = ask[j] + value[j]
            certain = j > largest_negative or i - j >= n_voters - largest_negative
            stops[i, j] = certain or stop < continues
            value[j] = stop if stops[i, j] else continues
    return stops
