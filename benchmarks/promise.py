"""Whether a promise holds: calibrate on many independent draws of rows, compare with what is true of new ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import scurry
from scurry.errors import InfeasibleError

N_DRAWS = 200
N_FEATURES = 10


@dataclass(frozen=True)
class Draws:
    """What each feasible draw led to: disagreement and trees on new rows, arrays of shape (n_feasible,)."""

    disagreement: NDArray[np.float64]
    trees: NDArray[np.float64]
    n_infeasible: int


def noisy_rows(rng: np.random.Generator, n_rows: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Fresh rows of a problem with curved borders and noisy labels; every call is an independent draw."""
    X = rng.normal(size=(n_rows, N_FEATURES)).astype(np.float32)
    score = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] + 0.5 * X[:, 4] ** 2 - 0.5
    return X, (score + rng.logistic(scale=0.3, size=n_rows) > 0).astype(np.int64)


def simulate_draws(
    forest: scurry.Forest,
    on_new_rows: Callable[[scurry.Predictor], tuple[float, float]],
    n_draws: int,
    n_rows: int,
    **asked: Any,
) -> Draws:
    """Calibrate `forest` on `n_draws` fresh sets of rows.

    `on_new_rows` gives a predictor's true disagreement and mean trees; `asked` goes to `scurry.early_exit`.
    """
    found, n_infeasible = [], 0
    for seed in range(n_draws):
        rows = noisy_rows(np.random.default_rng([1, seed]), n_rows)[0]
        try:
            found.append(on_new_rows(scurry.early_exit(forest, rows, random_state=seed, **asked)))
        except InfeasibleError:
            n_infeasible += 1
    values = np.array(found).reshape(-1, 2)
    return Draws(values[:, 0], values[:, 1], n_infeasible)


def violations_row(draws: Draws, max_disagreement: float, confidence: float | None) -> list[str]:
    """Cells of a table: confidence, violations, what chance allows, mean disagreement, mean trees, infeasible."""
    n_feasible = len(draws.disagreement)
    if n_feasible == 0:
        return [str(confidence), "–", "–", "–", "–", str(draws.n_infeasible)]
    # Of valid rules at most 1 - confidence violate; the count stays under this in 99 of 100 benchmarks.
    most = "–" if confidence is None else str(int(stats.binom.ppf(0.99, n_feasible, 1 - confidence)))
    return [
        str(confidence),
        f"{int((draws.disagreement > max_disagreement).sum())}",
        most,
        f"{draws.disagreement.mean():.4%}",
        f"{draws.trees.mean():.2f}",
        str(draws.n_infeasible),
    ]
