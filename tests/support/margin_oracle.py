"""Score matrices for tests, and the joint search of QWYC in plain Python: every pair of thresholds is tried."""

from fractions import Fraction

import numpy as np

INF = float("inf")


def normal_scores(n_rows=300, n_models=12, seed=0):
    """Return scores of models of different strength that mostly agree."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n_rows, 1))
    return (truth + rng.normal(size=(n_rows, n_models))) * rng.uniform(0.1, 0.5, n_models)


def oracle_thresholds(rows, allowed, sides):
    """Return the pair of thresholds with which most rows leave within `allowed` mistakes.

    `rows` are pairs of a running sum and the full decision.
    """
    values = sorted({value for value, _ in rows})

    def negatives(lower):
        return [positive for value, positive in rows if value <= lower]

    def positives(upper):
        return [positive for value, positive in rows if value >= upper]

    if sides == "joint":
        best = None
        for lower in [-INF, *values]:
            for upper in [*values, INF]:
                wrong = negatives(lower).count(True), positives(upper).count(False)
                if lower >= upper or sum(wrong) > allowed:
                    continue
                key = (-len(negatives(lower)) - len(positives(upper)), sum(wrong), wrong[0])
                if best is None or key < best[0]:
                    best = key, lower, upper
        return best[1:]
    lower = max(v for v in [-INF, *values] if negatives(v).count(True) <= allowed)
    if sides == "negative-only":
        return lower, INF
    left = allowed - negatives(lower).count(True)
    return lower, min(v for v in [*values, INF] if v > lower and positives(v).count(False) <= left)


def oracle(scores, beta, budget, costs, order, spending, sides):
    """Return order, lower and upper thresholds, total cost and mistakes, in exact arithmetic."""
    n_rows, n_models = len(scores), len(scores[0])
    full = [sum(row) >= beta for row in scores]
    active, sums, mistakes, total = list(range(n_rows)), [0] * n_rows, 0, 0
    remaining, found, lowers, uppers = list(range(n_models)), [], [], []
    for position in range(n_models):
        earned = budget if spending == "upfront" else budget * (n_rows - len(active)) // n_rows
        choice = None
        for model in remaining if order is None else [order[position]]:
            rows = [(sums[i] + scores[i][model], full[i]) for i in active]
            lower, upper = oracle_thresholds(rows, max(0, earned - mistakes), sides) if rows else (-INF, INF)
            n_exits = sum(value <= lower or value >= upper for value, _ in rows)
            ratio = Fraction(costs[model], n_exits) if n_exits else INF
            if choice is None or ratio < choice[0]:
                choice = ratio, model, lower, upper
        _, model, lower, upper = choice
        found.append(model)
        remaining.remove(model)
        total += costs[model] * len(active)
        if position == n_models - 1:
            break
        lowers.append(lower)
        uppers.append(upper)
        for i in active:
            sums[i] += scores[i][model]
        mistakes += sum((sums[i] <= lower and full[i]) or (sums[i] >= upper and not full[i]) for i in active)
        active = [i for i in active if lower < sums[i] < upper]
    return found, lowers, uppers, total, mistakes
