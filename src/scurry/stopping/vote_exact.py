"""The vote programs solved in rational arithmetic: equal primal and dual values prove the optimum.

Every sequence of ``i`` votes with ``j`` positives is equally likely given the number of positive voters, so a state can
carry the weight of *one* such sequence instead of a probability. These weights are integers up to a common factor, a
state's weight is the sum of those of the two states that follow, and the whole sweep is additions and comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import comb, lcm

import numpy as np

from scurry.errors import ScurryError
from scurry.stopping.vote_mixture import Column, Mixture, Prices, Program, cheapest_mixture
from scurry.stopping.vote_policy import BoolArray, Policy, stop_matrix

MAX_VOTERS = 501


def solve_program(n_voters: int, program: Program, start: Sequence[Policy]) -> Mixture:
    """The best mixture of policies, in fractions; `start` begins with one that never disagrees.

    The nearer `start` is to the optimum (the floating-point solution is), the fewer integer sweeps are needed.
    """

    def oracle(prices: Prices) -> Column:
        time = [_dot(prices.time, column) for column in zip(*program.time, strict=True)]
        risk = [_dot(prices.risk, column) for column in zip(*program.risk, strict=True)]
        return _column(program, _integer_sweep(n_voters, time, risk))

    columns = [_column(program, stop_matrix(policy)) for policy in start]
    mixture = cheapest_mixture(n_voters, program, oracle, columns, number=Fraction)
    if mixture.objective != mixture.lower_bound:
        raise ScurryError("exact column generation ended without equal primal and dual values")
    return mixture


def mixture_outcomes(mixture: Mixture) -> tuple[list[Fraction], list[Fraction]]:
    """Expected votes and chance of disagreement of a mixture for every number of positive voters."""
    votes, disagreement = zip(*(_outcomes(stop_matrix(policy)) for policy in mixture.policies), strict=True)
    return [_dot(mixture.weights, v) for v in zip(*votes, strict=True)], [
        _dot(mixture.weights, d) for d in zip(*disagreement, strict=True)
    ]


def _outcomes(stops: BoolArray) -> tuple[list[Fraction], list[Fraction]]:
    n_voters = len(stops) - 1
    # Numbers of sequences of votes, by their positives: still running, votes asked of them, answered.
    reached, asked, said_negative, said_positive = [1], [0], [0], [0]
    for i, stops_here in enumerate(stops.tolist()):
        for j, n_sequences in enumerate(reached):
            if not stops_here[j]:
                asked[j] += n_sequences
                continue
            (said_positive if 2 * j > i else said_negative)[j] += n_sequences
            reached[j] = 0
        if i < n_voters:
            reached, asked, said_negative, said_positive = map(
                _extended, (reached, asked, said_negative, said_positive)
            )
    total = [comb(n_voters, n) for n in range(n_voters + 1)]
    wrong = [said_negative[n] if 2 * n > n_voters else said_positive[n] for n in range(n_voters + 1)]
    return list(map(Fraction, asked, total)), list(map(Fraction, wrong, total))


def _extended(sequences: list[int]) -> list[int]:
    """Numbers of sequences by positives, after either vote is added to each."""
    return [a + b for a, b in zip([*sequences, 0], [0, *sequences], strict=True)]


def _column(program: Program, stops: BoolArray) -> Column:
    votes, disagreement = _outcomes(stops)
    return Column(stops, [_dot(row, votes) for row in program.time], [_dot(row, disagreement) for row in program.risk])


def _dot(weights: Sequence[Fraction], values: Sequence[Fraction]) -> Fraction:
    return sum((weight * value for weight, value in zip(weights, values, strict=True) if weight), Fraction(0))


def _integer_sweep(n_voters: int, time: list[Fraction], risk: list[Fraction]) -> BoolArray:
    """Where the policy of least ``time @ votes + risk @ disagreement`` stops."""
    largest_negative = n_voters // 2
    per_sequence = [
        [weight / comb(n_voters, n) for n, weight in enumerate(weights)]
        for weights in (
            time,
            [weight if n <= largest_negative else Fraction(0) for n, weight in enumerate(risk)],
            [weight if n > largest_negative else Fraction(0) for n, weight in enumerate(risk)],
        )
    ]
    scale = lcm(*(weight.denominator for weights in per_sequence for weight in weights))
    ask, wrong_if_positive, wrong_if_negative = (
        [weight.numerator * (scale // weight.denominator) for weight in weights] for weights in per_sequence
    )
    value = [0] * (n_voters + 1)
    stops = np.ones((n_voters + 1, n_voters + 1), dtype=np.bool_)
    for i in range(n_voters - 1, -1, -1):
        ask, wrong_if_positive, wrong_if_negative, value = map(
            _merged, (ask, wrong_if_positive, wrong_if_negative, value)
        )
        for j in range(i + 1):
            stop = wrong_if_positive[j] if 2 * j > i else wrong_if_negative[j]
            go_on = ask[j] + value[j]
            certain = j > largest_negative or i - j >= n_voters - largest_negative
            stops[i, j] = certain or stop < go_on
            value[j] = stop if stops[i, j] else go_on
    return stops


def _merged(row: list[int]) -> list[int]:
    """Weights of the states before `row`: a sequence weighs as much as its two continuations together."""
    return [a + b for a, b in pairwise(row)]
