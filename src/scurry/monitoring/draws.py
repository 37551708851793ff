"""Which rows become shadow rows: drawn by a key and the number of the row, so that batches and threads do not matter.

Rows are numbered in the order in which they come. Each block of `BLOCK` numbers draws the gaps between its shadow rows
from a counter under the key. Gaps of a fair draw have no memory, so that beginning anew in each block makes every row a
shadow row with the same probability, independently of all others; and any block can be drawn without those before it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 18
_GAMMA = 0x9E3779B97F4A7C15  # SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)


class Draws:
    """The numbers of shadow rows in an endless stream.

    Parameters
    ----------
    share : float in (0, 1]
        The probability with which a row is drawn.
    seed : int
        The key.

    Examples
    --------
    >>> draws = Draws(0.01, seed=7)
    >>> whole = draws.between(0, 100_000)
    >>> parts = [draws.between(start, start + 1000) for start in range(0, 100_000, 1000)]
    >>> bool((np.concatenate(parts) == whole).all()), 900 < len(whole) < 1100
    (True, True)
    """

    def __init__(self, share: float, seed: int) -> None:
        self.share, self.seed = share, seed % 2**64
        self._latest = -1, np.empty(0, np.int64)

    def between(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the numbers of the shadow rows from `start` to before `stop`, ascending."""
        return self.draw(start, stop)[0]

    def draw(self, start: int, stop: int) -> tuple[NDArray[np.int64], int]:
        """Return `between` and what `none_before` says of `stop`."""
        first, last = start // BLOCK, (stop - 1) // BLOCK
        if first == last:  # the common case, for which nothing is joined
            numbers = self._draw(first)
            begin, end = numbers.searchsorted((start, stop)).tolist()
            return numbers[begin:end], int(numbers[end]) if end < len(numbers) else (first + 1) * BLOCK
        parts = [self._draw(block) for block in range(first, last + 1)]
        numbers = np.concatenate([np.empty(0, np.int64), *parts])
        return numbers[(numbers >= start) & (numbers < stop)], self.none_before(stop)

    def none_before(self, start: int) -> int:
        """Return a number up to which no row from `start` on is drawn: that of the next one, or the end of a block."""
        numbers = self._draw(start // BLOCK)
        at = int(numbers.searchsorted(start))
        return int(numbers[at]) if at < len(numbers) else (start // BLOCK + 1) * BLOCK

    def _draw(self, block: int) -> NDArray[np.int64]:
        latest, numbers = self._latest
        if block != latest:
            numbers = self._draw_anew(block)
            self._latest = block, numbers  # in one move, so that no thread sees a block with the numbers of another
        return numbers

    def _draw_anew(self, block: int) -> NDArray[np.int64]:
        if self.share == 1.0:
            return block * BLOCK + np.arange(BLOCK)
        expected = BLOCK * self.share
        n_gaps = int(expected + 6 * math.sqrt(expected) + 16)
        gaps = self._gaps(block, 0, n_gaps)
        while gaps.sum() < BLOCK:  # never, for most keys
            gaps = np.concatenate([gaps, self._gaps(block, len(gaps), n_gaps)])
        places = gaps.cumsum() - 1
        return block * BLOCK + places[places < BLOCK]

    def _gaps(self, block: int, start: int, n: int) -> NDArray[np.int64]:
        key = int(mix(np.array([(self.seed + _GAMMA * (block + 1)) % 2**64], np.uint64))[0])
        with np.errstate(over="ignore"):
            bits = mix(np.uint64(key) + np.uint64(_GAMMA) * np.arange(start + 1, start + 1 + n, dtype=np.uint64))
        uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        # No gap is longer than a block, and the logarithm of a small share would make some too long for int64.
        gaps = 1 + np.floor(np.log(uniform) / math.log1p(-self.share)).clip(0, BLOCK)
        return gaps.astype(np.int64)


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers that look random, one for each value."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))
