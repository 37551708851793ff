"""The paper's own linear programs over the set Π, through HiGHS: an independent oracle for the sweep.

Variables are π_ij and π̄_ij of Eq. (14); p_ij is their sum (15.3) and is not carried.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog
from scipy.stats import hypergeom

from scurry.errors import ScurryError
from scurry.stopping.vote_mixture import Program
from scurry.stopping.vote_policy import FloatArray, decided
from scurry.stopping.vote_sweep import priced_optimum

MAX_VOTERS = 201
_NOISE = 1e-9  # chances HiGHS cannot tell from 0 or 1
_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class LinearOptimum(NamedTuple):
    """A stopping strategy θ of shape (n_voters + 1, n_voters + 1), and a lower bound on the objective of any."""

    theta: FloatArray
    lower_bound: float


def solve_lp(n_voters: int, program: Program) -> LinearOptimum:
    """Solve a program whose rows the paper writes: Π-Minimax, Π-Minimean or Π-Minimixed."""
    n_seen, n_positive = np.tril_indices(n_voters + 1)
    n = np.arange(n_voters + 1)[:, None]
    chance = hypergeom.pmf(n_positive, n_voters, n, n_seen)  # Eq. (19), of shape (n_voters + 1, n_states)
    disagrees = (2 * n_positive > n_seen) != (2 * n > n_voters)  # Eq. (4)
    time_weights, risk_weights, bounds = (np.array(rows, dtype=np.float64) for rows in program[:3])
    time = time_weights @ (chance * n_seen)  # Eq. (16)
    risk = risk_weights @ (chance * disagrees) / bounds[:, None]  # Eq. (17), scaled so that the bound is 1

    n_states = len(n_seen)
    n_open = n_states - n_voters - 1  # the states that may go on: all but those of the last row
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
        A_eq=_transitions(n_seen, n_positive, n_open, n_variables),
        b_eq=np.eye(1, n_states)[0],  # Eq. (15.1)
        options=_OPTIONS,
    )
    if solution.status != 0:
        raise ScurryError(f'HiGHS found no optimum ({solution.message}); use solver="sweep"')
    prices = np.maximum(-solution.ineqlin.marginals, 0.0)
    risk_price, time_price = prices[: len(risk)], prices[len(risk) :] if program.worst_case else np.ones(1)
    priced = priced_optimum(n_voters, time_price @ time_weights, (risk_price / bounds) @ risk_weights)
    stop, go_on = solution.x[:n_states], np.r_[solution.x[n_states : n_states + n_open], np.zeros(n_voters + 1)]
    return LinearOptimum(_strategy(n_voters, stop, go_on), (priced - risk_price.sum()) / time_price.sum())


def _transitions(n_seen: NDArray[np.int64], n_positive: NDArray[np.int64], n_open: int, n_variables: int) -> Any:
    """Eqs. (15.3) to (15.5): π_ij + π̄_ij less what π̄ of the row before sends to (i, j)."""
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


def _strategy(n_voters: int, stop: FloatArray, go_on: FloatArray) -> FloatArray:
    """θ = π / p, and where the strategy never leads, stopping only once the vote is certain."""
    states = np.tril_indices(n_voters + 1)
    positives = np.arange(n_voters + 1)
    lower, upper = decided(n_voters)
    theta = ((positives <= lower[:, None]) | (positives >= upper[:, None])).astype(np.float64)
    reach = np.maximum(stop, 0.0) + np.maximum(go_on, 0.0)
    reached = reach > _NOISE
    share = np.maximum(stop, 0.0)[reached] / reach[reached]
    theta[states[0][reached], states[1][reached]] = np.where(abs(share - 0.5) > 0.5 - _NOISE, share.round(), share)
    theta[-1] = 1.0
    return theta
