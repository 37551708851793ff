"""Floats: where along all numbers the answer to a question changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def first_true(question: Callable[[float], bool], least: float, most: float) -> float:
    """Return the smallest double at which a question is answered yes, if it is yes from there on.

    Parameters
    ----------
    question : callable
    least, most : float
        Where to look.

    Returns
    -------
    float
        `least` if the answer is always yes, and the number after `most` if it never is.

    Examples
    --------
    >>> first_true(lambda x: x * x * x >= 8.0, -10.0, 10.0)
    2.0
    """
    low, high = _rank(least), _rank(most)
    if question(least):
        return least
    if not question(most):
        return float(np.nextafter(most, np.inf))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if question(_number(middle)) else (middle, high)
    return _number(high)


def _rank(x: float) -> int:
    """Return the place of a double among all, 0 at zero."""
    bits = int(np.float64(abs(x)).view(np.int64))
    return bits if x >= 0 else -bits


def _number(rank: int) -> float:
    size = float(np.int64(abs(rank)).view(np.float64))
    return size if rank >= 0 else -size


def neighbours(x: float, n: int) -> list[float]:
    """Return a double with `n` before and `n` after it."""
    return [_number(_rank(x) + step) for step in range(-n, n + 1)]
