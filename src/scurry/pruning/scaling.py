"""Errors and costs as integers, so that optima are exact: the scale is chosen, checked and reported."""

from __future__ import annotations

from collections.abc import Callable
from math import floor, gcd, log2

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError

MAX_WEIGHT = 2**62
_ROOM = 60  # bits of all gains times all costs
_MAX_DIGITS = 9
_COUNT_NOISE = 1e-6  # of a unit: what products of fractions and counts leave behind
_COST_NOISE = 1e-12  # of a cost: what writing it in binary leaves behind, so that a small cost stays one
_MAX_ROUNDING = 1e-6  # of the largest value


def choose_scales(node_errors: NDArray[np.float64], costs: NDArray[np.float64], largest_cost: float) -> tuple[int, int]:
    """Units per error and per cost: powers of ten that make them whole, else as fine as 62 bits allow.

    Parameters
    ----------
    node_errors : float64 array
    costs : float64 array
    largest_cost : float
        What keeping everything can cost at most.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> choose_scales(np.array([3.0, 1.0]), np.array([1.0, 7.27]), 1000.0)
    (1, 100)
    """
    error_scale = _decimal_scale(node_errors, lambda scaled: _COUNT_NOISE)
    cost_scale = _decimal_scale(costs, lambda scaled: _COST_NOISE * scaled)
    error_bits = log2(max(float(np.abs(node_errors).sum()), 1.0)) + 1
    cost_bits = log2(largest_cost) if largest_cost > 0 else 0.0
    spare = _ROOM - error_bits - cost_bits
    if error_scale is None:
        error_scale = _binary_scale(
            node_errors, spare / 2 if cost_scale is None else spare - log2(cost_scale), "node errors"
        )
    if cost_scale is None:
        cost_scale = _binary_scale(costs, spare - log2(error_scale), "costs")
    return error_scale, cost_scale


def in_units(values: NDArray[np.float64], scale: int) -> tuple[NDArray[np.int64], int, float]:
    """Whole numbers of ``step / scale`` nearest to the values, and the largest difference.

    Parameters
    ----------
    values : float64 array
    scale : int

    Returns
    -------
    units : int64 array
    step : int
    rounding : float

    Examples
    --------
    >>> in_units(np.array([0.5, 1.5]), 10)
    (array([1, 3]), 5, 0.0)
    """
    scaled = np.rint(values * scale)
    if np.abs(scaled).max(initial=0) >= MAX_WEIGHT:
        largest = float(np.abs(values).max())
        raise InputError(f"{largest:g} is too large to be exact with {scale} units to 1; divide all costs by a factor")
    units = scaled.astype(np.int64)
    step = gcd(*units.tolist()) or 1
    return units // step, step, float(np.abs(units / scale - values).max(initial=0))


def _decimal_scale(
    values: NDArray[np.float64], noise: Callable[[NDArray[np.float64]], NDArray[np.float64] | float]
) -> int | None:
    for digits in range(_MAX_DIGITS + 1):
        scaled = values * 10.0**digits
        if (np.abs(scaled - np.rint(scaled)) <= noise(scaled)).all():
            return int(10**digits)
    return None


def _binary_scale(values: NDArray[np.float64], bits: float, what: str) -> int:
    scale = 1 << max(floor(bits), 0)
    if 0.5 / scale > _MAX_ROUNDING * np.abs(values).max(initial=0):
        raise InputError(
            f"the {what} have more digits than exact arithmetic has room for: they would be rounded to 1/{scale}. "
            f"Round them to a few decimals, or use fewer rows"
        )
    return scale
