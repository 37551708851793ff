"""Slow and obvious answers about votes, independent of the library, and problems to draw.

Every order of every vote is played.
"""

from functools import cache
from itertools import combinations, permutations, product

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linprog

METHODS = ("minimax", "minimean", "minimixed")


@cache
def sequences(n_voters: int, n_positive: int) -> list[tuple[int, ...]]:
    """Return all orders of the votes."""
    return [tuple(int(i in chosen) for i in range(n_voters)) for chosen in combinations(range(n_voters), n_positive)]


def play(votes, stops) -> tuple[int, bool]:
    """Return the votes asked and the answer if the vote ends where ``stops(n_seen, n_positive)``."""
    n_positive = 0
    for n_seen in range(len(votes) + 1):
        if n_seen == len(votes) or stops(n_seen, n_positive):
            return n_seen, 2 * n_positive > n_seen
        n_positive += votes[n_seen]
    raise AssertionError("a vote ends when all are asked")


def where(thresholds):
    """Return ``stops(n_seen, n_positive)`` of a threshold policy, from its definition."""
    return lambda i, j: j <= thresholds.lower[i] or j >= thresholds.upper[i]


def outcomes(n_voters: int, stops) -> tuple[np.ndarray, np.ndarray]:
    """Return expected votes and disagreement for every number of positive voters."""
    votes, disagreement = np.zeros((2, n_voters + 1))
    for n in range(n_voters + 1):
        played = [play(votes, stops) for votes in sequences(n_voters, n)]
        votes[n] = np.mean([asked for asked, _ in played])
        disagreement[n] = np.mean([answer != (2 * n > n_voters) for _, answer in played])
    return votes, disagreement


@cache
def all_policies(n_voters: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the outcomes of every deterministic policy; two arrays of shape (n_policies, n_voters + 1)."""
    states = [(i, j) for i in range(n_voters) for j in range(i + 1)]
    results = set()
    for choice in product((False, True), repeat=len(states)):
        stopping = {state for state, stop in zip(states, choice, strict=True) if stop}
        votes, disagreement = outcomes(n_voters, lambda i, j, stopping=stopping: (i, j) in stopping)
        results.add((*votes.round(14), *disagreement.round(14)))
    table = np.array(sorted(results))
    return table[:, : n_voters + 1], table[:, n_voters + 1 :]


def best_objective(n_voters, method, distribution, max_disagreement, max_conditional=None) -> float:
    """Return the optimum over all mixtures of all policies."""
    votes, disagreement = all_policies(n_voters)
    risk = [distribution] if method == "minimean" else list(np.eye(n_voters + 1))
    bounds = [max_disagreement] * len(risk)
    if max_conditional is not None:
        risk, bounds = risk + list(np.eye(n_voters + 1)), bounds + [max_conditional] * (n_voters + 1)
    above = [disagreement @ row for row in risk]
    n_policies, worst = len(votes), method == "minimax"
    rows = np.array(above) if not worst else np.hstack([above, np.zeros((len(above), 1))])
    cost = np.r_[np.zeros(n_policies), 1.0] if worst else votes @ distribution
    if worst:
        rows = np.vstack([rows, np.hstack([votes.T, -np.ones((n_voters + 1, 1))])])
        bounds = bounds + [0.0] * (n_voters + 1)
    total = np.r_[np.ones(n_policies), np.zeros(len(cost) - n_policies)][None]
    return linprog(cost, A_ub=rows, b_ub=bounds, A_eq=total, b_eq=[1.0]).fun


def plurality_outcome(votes_per_class, stops) -> tuple[float, float]:
    """Return expected votes and disagreement over all orders; ``stops(counts)`` ends the vote for the first leader."""
    ballot = [k for k, n in enumerate(votes_per_class) for _ in range(n)]
    winner = int(np.argmax(votes_per_class))
    asked, wrong = [], []
    for order in set(permutations(ballot)):
        counts = [0] * len(votes_per_class)
        for n_seen, vote in enumerate(order, start=1):
            counts[vote] += 1
            if n_seen == len(order) or stops(tuple(counts)):
                break
        asked.append(n_seen)
        wrong.append(int(np.argmax(counts)) != winner)
    return float(np.mean(asked)), float(np.mean(wrong))


def relative_gap(rule):
    """Return the gap of objective and lower bound as a fraction of the objective."""
    return (rule.objective - rule.lower_bound) / max(rule.objective, 1e-12)


def broken(rule):
    """Return by what fraction a rule exceeds its bounds."""
    worst = rule.mean_disagreement if rule.method == "minimean" else rule.disagreement().max()
    capped = 0 if rule.max_conditional is None else rule.disagreement().max() / rule.max_conditional
    return max(worst / rule.max_disagreement, capped) - 1


def distributions(n_voters):
    """Draw random, sparse, U-shaped, lopsided and central distributions of the number of positive voters."""
    n = np.arange(n_voters + 1) / n_voters
    smooth = st.tuples(st.floats(-8, 8), st.floats(-20, 20)).map(lambda p: np.exp(p[0] * n + p[1] * (n - 0.5) ** 2))
    rough = st.lists(st.floats(0, 1, width=32), min_size=n_voters + 1, max_size=n_voters + 1).map(np.array)
    sparse = st.sets(st.integers(0, n_voters), min_size=1, max_size=4).map(
        lambda chosen: np.isin(np.arange(n_voters + 1), list(chosen)).astype(float)
    )
    return st.one_of(smooth, rough, sparse).filter(lambda weights: weights.sum() > 1e-3)


@st.composite
def problems(draw, max_voters):
    """Draw the arguments of `solve`: voters, bound, method, distribution and a bound for every n."""
    n_voters = draw(st.integers(1, max_voters))
    alpha = draw(st.sampled_from([1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.3, 0.6, 0.95]))
    method = draw(st.sampled_from(METHODS))
    cap = draw(st.none() | st.sampled_from([0.5, 1.0, 3.0])) if method == "minimean" else None
    cap = None if cap is None else min(cap * alpha, 0.99)
    return n_voters, alpha, method, draw(distributions(n_voters)), cap
