"""Which rows become shadow rows: drawn by a key and the number of the row, so that batches and threads do not matter.

Rows are numbered in the order in which they come. Each block of `BLOCK` numbers draws the gaps between its shadow rows
from a counter under the key. Gaps of a fair draw have no memory, so that beginning anew in each block makes every row a
shadow row with the same probability, independently of all others; and any block can be drawn without those before it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scurry import _core

BLOCK = _core.DRAW_BLOCK


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
        self._native = _core.Draws(share, self.seed)

    def between(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the numbers of the shadow rows from `start` to before `stop`, ascending."""
        return self._native.between(start, stop)

    def none_before(self, start: int) -> int:
        """Return a number up to which no row from `start` on is drawn: that of the next one, or the end of a block."""
        return self._native.none_before(start)

    def shadow_rows(self, n_features: int, dtype: str) -> _core.ShadowRows:
        """Return what draws rows of batches, and holds them until they are looked at."""
        return _core.ShadowRows(self.share, self.seed, n_features=n_features, is_float32=dtype == "float32")
