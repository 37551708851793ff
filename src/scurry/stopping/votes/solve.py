"""Optimal sequential testing of a majority vote.

J. Kalman and A. Moscovich, "Optimal Sequential Testing for Binary Ensemble Classifiers", arXiv:2606.15237 (2026):
voters are asked in random order, until the majority is clear enough. Among all stopping strategies that differ from the
full vote with probability at most α, find the one that asks fewest voters.

=============================  ==================================================================
the paper                      here
=============================  ==================================================================
N                              ``n_voters``
n                              the number of positive voters, index of every array over n
D̂                              ``distribution``
α (ADR)                        ``max_disagreement``
θ_ij                           ``VoteRule.theta[i, j]``
b_i, a_i                       ``VoteRule.upper[i]``, ``VoteRule.lower[i]``
E[B | N, n, θ]                 ``VoteRule.expected_votes(n)``
Pr(disagree | N, n, θ)         ``VoteRule.disagreement(n)``
p_ij, π_ij, π̄_ij               `policy.reach_and_stop`, variables of `solve_lp`
Π-Minimax, -Minimean, -mixed   ``method``; as linear programs with ``solver="lp"``
=============================  ==================================================================

Deviations from the paper

1. No linear program is solved by default. A strategy that draws at every state is the same as one that draws a
   deterministic policy in advance. So the problem is to mix policies (`mixture`), and the policy of least
   Lagrangian cost comes from one backward sweep over the states (``core/calibrate/votes.cc``): O(N²) time, O(N)
   memory, no logarithms, and a lower bound with each sweep. N = 101 takes a millisecond instead of a minute.
2. The worst-case constraints are imposed at n = ⌊N/2⌋ and ⌊N/2⌋ + 1 only. That is enough: if one voter turns positive,
   every running count of positives stays or rises, so a threshold policy answers positive at least as often, and the
   two n nearest to the change of the full vote are the worst on their sides. The worst expected time has no such
   argument; every n is checked and becomes a row if it is worse.
3. If N is odd and the distribution symmetric, one multiplier is searched instead of several, and each policy is mixed
   with its mirror image. A policy that stops at a tie has no mirror image (ties are negative); the general search runs
   if that costs anything.
4. α = 0 needs no search: stop where the outcome is certain. A floating-point program is wrong there, because its
   tolerance is above its coefficients.
5. ``max_conditional`` bounds every d(n) next to the mean; without it "minimean" lets d(n) rise to 0.5 near n = N/2.
   With a lopsided distribution the optimum may then stop inside a row of states and continue further out (at a tie,
   say, to answer wrongly on purpose where that is still allowed). Such a rule has no thresholds; it is given by θ.
6. Where the distribution excludes a state, what the rule does there is arbitrary. Smooth an empirical distribution
   (add one half to every count) if other numbers of positive voters may come.

Rules are not cached on disk: solving one is faster than opening a file up to about a thousand voters.

A vote program is solved by sweeps in floating point, by HiGHS, or exactly in fractions.

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
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import linprog
from scipy.special import betainc
from scipy.stats import hypergeom

from scurry import _core
from scurry.checks import check_choice
from scurry.errors import InputError, ScurryError
from scurry.stopping.votes.mixture import Column, Mixture, Number, Prices, Program, Row, find_cheapest_mixture
from scurry.stopping.votes.policy import (
    BoolArray,
    FloatArray,
    Policy,
    Thresholds,
    VotePolicy,
    outcomes,
    stop_immediately,
    stop_matrix,
    stop_when_certain,
)
from scurry.stopping.votes.rule import SOLVERS, ExactOptimum, VoteRequest, VoteRule, make_strategy

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


_MAX_VOTERS_CAPPED = 2001  # with max_conditional every policy is a matrix of n_voters^2 states
_SLACK = 1e-10  # a bound exceeded by less than this fraction is met up to rounding


def solve(
    n_voters: int,
    max_disagreement: float | Fraction,
    method: str = "minimixed",
    distribution: ArrayLike | None = None,
    *,
    solver: str = "sweep",
    max_conditional: float | Fraction | None = None,
) -> VoteRule:
    """Find the stopping rule that asks fewest voters while its answer rarely differs from the full vote.

    Parameters
    ----------
    n_voters : int
        How many voters there are.
    max_disagreement : float in [0, 1)
        The largest accepted chance that the answer differs from the full vote. 0 stops only when the vote is certain.
    method : {"minimixed", "minimean", "minimax", "schwing"}
        - "minimixed": fewest votes on average, disagreement bounded for every number of positive voters;
        - "minimean": fewest votes on average, disagreement bounded on average;
        - "minimax": fewest votes in the worst case, disagreement bounded for every number of positive voters;
        - "schwing": stop when a uniform prior on the share of positive voters puts less than `max_disagreement` on the
          other side of one half (Schwing et al., CVPR 2011); this optimises nothing and promises nothing.
    distribution : array of shape (n_voters + 1,), optional
        Weights of 0, 1, …, n_voters positive voters; uniform by default. They need not sum to one.
    solver : {"sweep", "lp", "exact"}
        "sweep" takes milliseconds. "lp" solves the paper's program with HiGHS (up to 201 voters). "exact" proves the
        optimum in rational arithmetic (up to 501 voters), reading `max_disagreement` as the decimal it prints as.
    max_conditional : float in [0, 1), optional
        With "minimean": a bound on the disagreement for every number of positive voters as well.

    Returns
    -------
    VoteRule

    Examples
    --------
    >>> rule = solve(101, 0.001, "minimean")
    >>> round(rule.objective, 3), round(rule.mean_disagreement, 9)
    (34.494, 0.001)
    """
    request = VoteRequest.from_arguments(n_voters, method, max_disagreement, max_conditional, distribution)
    check_choice("solver", solver, SOLVERS)
    n_voters, alpha, cap = request.n_voters, request.max_disagreement, request.max_conditional
    if cap is not None:
        _check_size(n_voters, _MAX_VOTERS_CAPPED, "max_conditional")
    if method == "schwing":
        return VoteRule(request, policies=[VotePolicy(1.0, *_schwing(n_voters, alpha))])
    if alpha == 0.0 or cap == 0.0:
        return _solve_certain(request)
    if solver == "lp":
        _check_size(n_voters, MAX_LP_VOTERS, 'solver="lp"')
        optimum = solve_lp(
            n_voters, _make_program(method, request.distribution, alpha, cap, list(np.eye(n_voters + 1)))
        )
        return VoteRule(request, theta=optimum.theta, lower_bound=optimum.lower_bound)
    if solver == "exact":
        _check_size(n_voters, MAX_EXACT_VOTERS, 'solver="exact"')
        # From the arguments, not the request: its distribution was normalised in floats.
        weights = None if distribution is None else np.asarray(distribution).tolist()
        exact_cap = None if max_conditional is None else _read_decimal(max_conditional)
        return _solve_exactly(request, weights, _read_decimal(max_disagreement), exact_cap)
    return _solve_by_sweep(request)[0]


def _make_program(method: str, distribution: Row, alpha: Number, cap: Number | None, middle: Sequence[Row]) -> Program:
    """Return the rows of a method, in floats or fractions; `middle` are weights over n of worst-case constraints."""
    if method == "minimax":
        return Program(middle, middle, [alpha] * len(middle), worst_case=True)
    if method == "minimixed":
        return Program([distribution], middle, [alpha] * len(middle), worst_case=False)
    capped, caps = ([], []) if cap is None else (middle, [cap] * len(middle))
    return Program([distribution], [distribution, *capped], [alpha, *caps], worst_case=False)


def _solve_by_sweep(request: VoteRequest) -> tuple[VoteRule, Mixture]:
    n_voters, method, alpha, cap, distribution = request
    start = [stop_when_certain(n_voters), stop_immediately(n_voters)]
    symmetric = method == "minimax" or np.array_equal(distribution, distribution[::-1])
    # Deviation 3: one multiplier instead of several. The general search follows if ties made that worse.
    if n_voters % 2 == 1 and symmetric and (method != "minimean" or cap is not None):
        both = np.eye(2, n_voters + 1, n_voters // 2).mean(axis=0)
        mixture = solve_by_sweep(n_voters, _make_program(method, distribution, alpha, cap, [both]), start)
        mixture = _add_mirror_images(mixture)
        rule = _make_rule(request, mixture)
        if rule.objective - rule.lower_bound <= _SLACK * rule.objective and _measure_excess(rule) <= _SLACK:
            return rule, mixture
    worst = [n_voters // 2, n_voters // 2 + 1]
    while True:
        program = _make_program(method, distribution, alpha, cap, _units(worst, n_voters))
        mixture = solve_by_sweep(n_voters, program, start, any_shape=cap is not None)
        rule = _make_rule(request, mixture)
        profile = rule.expected_votes(), rule.disagreement()
        further = _find_worse_n(program, worst, *profile, mixture.objective * (1 + _SLACK), 1 + _SLACK)
        if further is None:
            return rule, mixture
        worst.append(further)


def _solve_exactly(
    request: VoteRequest, weights: Sequence[Number] | None, alpha: Fraction, cap: Fraction | None
) -> VoteRule:
    n_voters, method = request.n_voters, request.method
    fractions = [Fraction(weight) for weight in weights or [1] * (n_voters + 1)]
    total = sum(fractions)
    distribution = [weight / total for weight in fractions]
    start = [stop_when_certain(n_voters), stop_immediately(n_voters), *_solve_by_sweep(request)[1].policies]
    worst = [n_voters // 2, n_voters // 2 + 1]
    while True:
        program = _make_program(method, distribution, alpha, cap, _units(worst, n_voters))
        mixture = solve_exactly(n_voters, program, start)
        profile = mixture_outcomes(mixture)
        further = _find_worse_n(program, worst, *profile, mixture.objective, 1)
        if further is None:
            proof = ExactOptimum(mixture.objective, mixture.lower_bound, tuple(mixture.weights))
            return _make_rule(request, mixture, proof)
        worst.append(further)


def _units(positions: Sequence[int], n_voters: int) -> list[list[int]]:
    """Return unit vectors, in integers because they must serve floats and fractions."""
    return [[int(n == position) for n in range(n_voters + 1)] for position in positions]


def _find_worse_n(
    program: Program,
    known: Sequence[int],
    votes: Sequence[Number],
    disagreement: Sequence[Number],
    max_votes: Number,
    tolerance: Number,
) -> int | None:
    """Return an n not in `known` with more votes or more disagreement than the worst case may have, if any."""
    slowest = max(range(len(votes)), key=lambda n: votes[n])
    if program.worst_case and slowest not in known and votes[slowest] > max_votes:
        return slowest
    wrongest = max(range(len(votes)), key=lambda n: disagreement[n])
    bounds_every_n = len(program.risk) >= len(known)  # all but "minimean" without a cap
    if bounds_every_n and wrongest not in known and disagreement[wrongest] > program.bounds[-1] * tolerance:
        return wrongest
    return None


def _measure_excess(rule: VoteRule) -> float:
    """Return by what fraction the rule exceeds one of its bounds; negative if it keeps them all."""
    excess = rule.mean_disagreement if rule.method == "minimean" else rule.disagreement().max()
    capped = 0.0 if rule.max_conditional is None else rule.disagreement().max() / rule.max_conditional
    return float(max(excess / rule.max_disagreement, capped) - 1.0)


def _add_mirror_images(mixture: Mixture) -> Mixture:
    """Replace each policy that is not its own mirror image by an even mixture of the two."""
    pairs = []
    for weight, policy in zip(mixture.weights, mixture.policies, strict=True):
        mirrored = policy.mirror()
        images = [policy] if np.array_equal(policy, mirrored) else [policy, mirrored]
        pairs += [(weight / len(images), image) for image in images]
    return mixture._replace(weights=[weight for weight, _ in pairs], policies=[image for _, image in pairs])


def _make_rule(request: VoteRequest, mixture: Mixture, exact: ExactOptimum | None = None) -> VoteRule:
    """Return the rule of a mixture: its thresholds, or θ if a policy has none."""
    weights = [float(weight) for weight in mixture.weights]
    lower_bound = float(mixture.lower_bound)
    thresholds = [p if isinstance(p, Thresholds) else Thresholds.from_stop_matrix(p) for p in mixture.policies]
    policies = [VotePolicy(weight, *found.tidy()) for weight, found in zip(weights, thresholds, strict=True) if found]
    if len(policies) == len(thresholds):
        return VoteRule(request, policies=policies, lower_bound=lower_bound, exact=exact)
    theta = make_strategy(weights, [stop_matrix(policy) for policy in mixture.policies])
    return VoteRule(request, theta=theta, lower_bound=lower_bound, exact=exact)


def _solve_certain(request: VoteRequest) -> VoteRule:
    """Return the optimum at α = 0: stop as soon as every possible n gives the same answer."""
    n_voters, method, _, cap, distribution = request
    certain = stop_when_certain(n_voters)
    fastest = stop_when_certain(n_voters, distribution > 0.0) if method == "minimean" and cap != 0.0 else certain
    votes = outcomes([VotePolicy(1.0, *fastest)])[0]
    lower_bound = float(votes.max() if method == "minimax" else distribution @ votes)
    # With a cap every n counts, also those that the distribution excludes.
    chosen = fastest if cap is None else certain
    return VoteRule(request, policies=[VotePolicy(1.0, *chosen.tidy())], lower_bound=lower_bound)


def _schwing(n_voters: int, alpha: float) -> Thresholds:
    """Return the policy that stops once Pr(Beta(j + 1, i - j + 1) > 1/2) is below α or above 1 - α."""
    if alpha > 0.5:
        return stop_immediately(n_voters).tidy()
    upper = np.arange(1, n_voters + 2, dtype=np.int32)
    j = 1  # the threshold never decreases with i, so the search continues where it was; the lower one mirrors it
    for i in range(1, n_voters):
        while j <= i and (2 * j <= i or betainc(j + 1, i - j + 1, 0.5) >= alpha):
            j += 1
        upper[i] = j
    upper[-1] = n_voters // 2 + 1
    lower = np.maximum(np.arange(n_voters + 1, dtype=np.int32) - upper, -1)
    lower[-1] = n_voters // 2
    return Thresholds(lower, upper)


def _read_decimal(rate: float | Fraction) -> Fraction:
    """Return the fraction that a rate was written as: 0.001 is 1/1000 and not its nearest float."""
    return rate if isinstance(rate, Fraction) else Fraction(repr(float(rate)))


def _check_size(n_voters: int, largest: int, what: str) -> None:
    """Check that `what` is not given more than `largest` voters."""
    if n_voters > largest:
        raise InputError(
            f'{what} takes at most {largest} voters, got {n_voters}; solver="sweep" without max_conditional takes any'
        )
