"""Methods that solve one trade-off after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.pruning.path import PruningPath
from scurry.pruning.problem import PruningProblem
from scurry.pruning.prunings import SeparatePrunings

Progress = Callable[[int, int], Any]


def solve_each(
    problem: PruningProblem,
    method: str,
    lambdas: Sequence[Fraction],
    solve: Callable[[float], tuple[NDArray[np.bool_], float]],
    progress: Progress | None,
) -> PruningPath:
    """The prunings a method finds for some trade-offs.

    Parameters
    ----------
    problem : PruningProblem
    method : str
    lambdas : sequence of Fraction
    solve : callable
        Takes theta, the price of a unit of cost in units of gain; returns the splits to keep, and a lower bound on
        error + theta * cost in units of error, NaN if there is none.
    progress : callable or None
        Called as ``progress(n_solved, n_lambdas)``.

    Returns
    -------
    PruningPath
    """
    kept, bounds = [], []
    for n_solved, lam in enumerate(lambdas):
        found, bound = solve(float(problem.theta(lam)))
        kept.append(found)
        bounds.append(bound * float(problem.error_unit))
        if progress is not None:
            progress(n_solved + 1, len(lambdas))
    return PruningPath(problem, method, SeparatePrunings(kept), lambdas, lower_bounds=bounds)
