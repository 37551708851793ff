"""Probes: rows that find mistakes, on and beside the thresholds of a forest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest

_SPECIAL = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1e-45,
        -1e-45,
        1e-38,
        3.4028235e38,
        -3.4028235e38,
        1e9,
        -1e9,
        0.5,
        -0.5,
        65536.0,
    ],
    dtype=np.float32,
)
_SPECIAL_SHARE, _THRESHOLD_SHARE = 0.05, 0.7


def probe_rows(
    forest: Forest, n_rows: int, *, rows: NDArray[Any] | None = None, special: bool = True, seed: int = 0
) -> NDArray[np.float32]:
    """float32 rows of shape (n_rows, n_features) whose cells are thresholds of their feature or the floats beside them.

    Other cells come from `rows`, where there are some. With `special`, some are NaN, infinite, signed zeros, denormals
    or huge.
    """
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        probes = np.zeros((n_rows, forest.n_features), np.float32)
        if rows is not None and len(rows):
            probes = rows[rng.integers(0, len(rows), n_rows)].astype(np.float32)
        inner = ~forest.is_leaf
        for feature in np.unique(forest.feature[inner]):
            thresholds = forest.threshold[inner & (forest.feature == feature)].astype(np.float32)
            thresholds = thresholds[np.isfinite(thresholds)]
            if not len(thresholds):
                continue
            picked = rng.choice(thresholds, n_rows)
            beside = np.stack(
                [np.nextafter(picked, np.float32(-np.inf)), picked, np.nextafter(picked, np.float32(np.inf))]
            )
            cells = beside[rng.integers(0, 3, n_rows), np.arange(n_rows)]
            probes[:, feature] = np.where(rng.random(n_rows) < _THRESHOLD_SHARE, cells, probes[:, feature])
    if special:
        odd = rng.random(probes.shape) < _SPECIAL_SHARE
        probes[odd] = rng.choice(_SPECIAL, int(odd.sum()))
    elif not np.isfinite(probes).all():
        probes = np.nan_to_num(probes)
    return probes
