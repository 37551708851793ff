"""What `solve` was asked for, checked."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scurry.errors import InputError
from scurry.stopping.vote_policy import FloatArray

METHODS = ("minimax", "minimean", "minimixed", "schwing")
SOLVERS = ("sweep", "lp", "exact")


class VoteRequest(NamedTuple):
    """The arguments of `solve` as numbers: `distribution` has shape (n_voters + 1,) and sums to one."""

    n_voters: int
    method: str
    max_disagreement: float
    max_conditional: float | None
    distribution: FloatArray

    @classmethod
    def checked(
        cls,
        n_voters: int,
        method: str,
        max_disagreement: float | Fraction,
        max_conditional: float | Fraction | None,
        distribution: ArrayLike | None,
    ) -> VoteRequest:
        """The request, or an `InputError` that says which argument is wrong."""
        count = checked_count("n_voters", n_voters)
        check_choice("method", method, METHODS)
        if max_conditional is not None and method != "minimean":
            raise InputError(
                f'max_conditional applies to method="minimean" only, got method={method!r}; '
                '"minimixed" and "minimax" bound every n by max_disagreement'
            )
        return cls(
            count,
            method,
            checked_rate("max_disagreement", max_disagreement),
            None if max_conditional is None else checked_rate("max_conditional", max_conditional),
            _checked_distribution(distribution, count),
        )


def checked_count(name: str, value: int, smallest: int = 1) -> int:
    """`value` as an int of at least `smallest`."""
    try:
        count = operator.index(value)
    except TypeError:
        count = smallest - 1
    if count < smallest or isinstance(value, bool):
        raise InputError(f"{name} must be a whole number of at least {smallest}, got {value!r}")
    return count


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a `value` that is not one of `choices`."""
    if value not in choices:
        accepted = ", ".join(f'"{choice}"' for choice in choices)
        raise InputError(f"{name} must be one of {accepted}, got {value!r}")


def check_size(n_voters: int, largest: int, what: str) -> None:
    """Refuse more than `largest` voters for `what`."""
    if n_voters > largest:
        raise InputError(
            f'{what} takes at most {largest} voters, got {n_voters}; solver="sweep" without max_conditional takes any'
        )


def checked_rate(name: str, rate: float | Fraction) -> float:
    """`rate` as a float in [0, 1)."""
    if not isinstance(rate, Real) or isinstance(rate, bool) or not 0.0 <= rate < 1.0:
        hint = ""
        if isinstance(rate, Real) and not isinstance(rate, bool) and 1.0 <= rate < 100.0:
            hint = f" Did you mean {float(rate) / 100:g} ({float(rate):g} %)?"
        raise InputError(f"{name} must be in [0, 1), got {rate!r}.{hint}")
    return float(rate)


def _checked_distribution(distribution: ArrayLike | None, n_voters: int) -> FloatArray:
    if distribution is None:
        return np.full(n_voters + 1, 1.0 / (n_voters + 1))
    try:
        weights = np.array(distribution, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"distribution must be an array of {n_voters + 1} numbers: {error}") from error
    if weights.shape != (n_voters + 1,):
        raise InputError(
            f"distribution must have one weight for each of 0 to {n_voters} positive voters, that is shape "
            f"({n_voters + 1},), got shape {weights.shape}"
        )
    if not np.all(np.isfinite(weights)) or np.any(weights < 0.0):
        index = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))[0])
        raise InputError(f"distribution must be finite and not negative, got {weights[index]} for n = {index}")
    if not weights.any():
        raise InputError("distribution must have a positive weight somewhere; pass None for a uniform one")
    weights /= weights.max()  # so that the sum cannot overflow
    weights /= weights.sum()
    return weights
