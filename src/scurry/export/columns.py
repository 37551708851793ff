"""Columns: what an exported model reads of a row, in the numbers it compares.

A node test is always ``x[column] > threshold``. What else a source model knows about a feature is put into the columns:
where missing values go (a feature that sends them left at one node and right at another has two columns), and, in the
quantised layouts, the scale.

A quantised column is ``floor(x * 2**shift) - offset``, clamped: monotone, and exact to repeat with shifts of a float's
bits. It changes a test only for values less than ``2**-shift`` above a threshold.

=================  ================================  ==========================
what               quantised                         float32
=================  ================================  ==========================
missing, left      -32768                            -FLT_MAX
finite values      -32768 … 32766                    as they are
thresholds         -32767 … 32765                    rounded down
… beyond float32   32766: only infinity is above     the float below FLT_MAX
missing, right     32767                             FLT_MAX
infinity           32767                             as it is
=================  ================================  ==========================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import UnsupportedModelError
from scurry.forest import Forest
from scurry.structure import MISSING_NONE, MISSING_ZERO

LEAST, MOST = -(2**15), 2**15 - 1
LARGEST_FLOAT = np.finfo(np.float32).max
_ALMOST_LARGEST = np.nextafter(LARGEST_FLOAT, np.float32(0))
_LEFT, _RIGHT, _ZERO = range(3)
_SPAN = MOST - LEAST - 3
_LARGEST_THRESHOLD = 2.0**29
SATURATED = 2**30
SHIFTS = (-126, 120)


@dataclass(frozen=True, eq=False, kw_only=True)
class Columns:
    """How a row becomes what the nodes compare.

    Attributes
    ----------
    feature : int64 array of shape (n_columns,)
        The feature each column reads.
    missing : float64 array of shape (n_columns,)
        What NaN becomes.
    shift, offset : int64 arrays of shape (n_columns,), or None
        Of the quantised layouts.
    """

    feature: NDArray[np.int64]
    missing: NDArray[np.float64]
    shift: NDArray[np.int64] | None = None
    offset: NDArray[np.int64] | None = None

    @property
    def is_quantised(self) -> bool:
        """Whether rows become 16-bit integers."""
        return self.shift is not None

    def encode(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows of shape (n_rows, n_features) as int16 or float32 columns of shape (n_rows, n_columns)."""
        with np.errstate(over="ignore"):
            x = np.asarray(rows[:, self.feature], dtype=np.float32)
        if self.shift is None or self.offset is None:
            return np.where(np.isnan(x), self.missing, x).astype(np.float32)
        codes = np.clip(_floor(np.nan_to_num(x), self.shift) - self.offset, LEAST, MOST - 1)
        codes = np.where(np.isposinf(x), MOST, np.where(np.isneginf(x), LEAST, codes))
        return np.where(np.isnan(x), self.missing, codes).astype(np.int16)

    def thresholds(self, values: NDArray[np.float32], column: NDArray[np.int64]) -> NDArray[Any]:
        """Thresholds, given as float32, as they are compared with columns."""
        if self.shift is None or self.offset is None:
            return np.minimum(values, _ALMOST_LARGEST)
        codes = _floor(values, self.shift[column]) - self.offset[column]
        return np.where(values >= _ALMOST_LARGEST, MOST - 1, codes).astype(np.int16)


def lower_tests(
    forest: Forest, nodes: NDArray[np.int64], *, quantised: bool
) -> tuple[Columns, NDArray[np.int64], NDArray[Any]]:
    """The columns a forest reads, and the column and threshold of each of its inner `nodes`."""
    if (forest.category_set[nodes] >= 0).any():
        raise UnsupportedModelError(
            "the model tests sets of categories, which the C export has not; train it on numbers (one-hot or ordinal)"
        )
    if (forest.missing[nodes] == MISSING_ZERO).any():
        raise UnsupportedModelError("the model takes zero as missing (zero_as_missing), which the C export does not")
    treatment = np.where(forest.default_left[nodes], _LEFT, _RIGHT)
    treatment = np.where(forest.missing[nodes] == MISSING_NONE, _ZERO, treatment)
    keys, column = np.unique(forest.feature[nodes] * np.int64(3) + treatment, return_inverse=True)
    feature, treatment = keys // 3, keys % 3
    thresholds = _rounded_down(forest, nodes)
    if not quantised:
        missing = np.choose(treatment, [-LARGEST_FLOAT, LARGEST_FLOAT, 0.0])
        columns = Columns(feature=feature, missing=missing)
    else:
        scales = [_scale(thresholds[column == c]) for c in range(len(keys))]
        shift, offset = np.array(scales, dtype=np.int64).reshape(-1, 2).T
        missing = np.choose(treatment, [LEAST, MOST, np.clip(-offset, LEAST, MOST - 1)]).astype(np.float64)
        columns = Columns(feature=feature, missing=missing, shift=shift, offset=offset)
    return columns, column, columns.thresholds(thresholds, column)


def _rounded_down(forest: Forest, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
    """The largest float32 numbers that go left."""
    exact = forest.threshold[nodes]
    if not (exact >= -LARGEST_FLOAT).all():
        raise UnsupportedModelError("a threshold is NaN or below the range of float32, which the C export cannot test")
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    too_large = rounded >= exact if forest.comparison == "<" else rounded > exact
    return np.where(too_large, np.nextafter(rounded, np.float32(-np.inf)), rounded).astype(np.float32)


def _scale(thresholds: NDArray[np.float32]) -> tuple[int, int]:
    """The finest shift by which a column's thresholds fit 16 bits, and the offset that puts them there.

    Thresholds that fit without an offset and without rounding stay so: those of whole numbers then are short constants,
    which a processor compares with at once.
    """
    finite = thresholds[thresholds < _ALMOST_LARGEST].astype(np.float64)
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    largest = max(-low, high)
    if 0 < largest < MOST:
        shift = min(int(np.floor(np.log2((MOST - 2) / largest))), SHIFTS[1])
        if np.equal(np.ldexp(finite, shift) % 1, 0).all():
            return shift, 0
    shift = SHIFTS[1]
    while shift > SHIFTS[0]:
        bottom, top = np.floor(np.ldexp([low, high], shift))
        if top - bottom <= _SPAN and max(-bottom, top) <= _LARGEST_THRESHOLD:
            break
        shift -= 1
    return shift, int(np.floor(np.ldexp(low, shift))) - (LEAST + 1)


def _floor(x: NDArray[np.float32], shift: NDArray[np.int64]) -> NDArray[np.int64]:
    scaled = np.floor(np.ldexp(x.astype(np.float64), shift))
    return np.clip(scaled, -SATURATED, SATURATED).astype(np.int64)
