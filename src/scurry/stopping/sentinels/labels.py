"""Labels at sentinels: thresholds on estimates of the full score, which decide between two classes.

A rule on scores sees one increment per sentinel, by which the estimate changes, and a last one to the full score. So
`scurry.stopping.qwyc` fits thresholds to it as to a sum of trees.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scurry.stopping.scores.qwyc import MarginFit
from scurry.stopping.sentinels.lanes import SentinelFit
from scurry.stopping.sentinels.leaves import FloatArray

_FAR_WEIGHT, _NEAR = 0.05, 0.5  # the weight of rows far from the decision; what is near, in deviations of the scores
_MARGIN = 1e-6  # deviations: an estimate so close to the decision could round to the other side


def near_decision(scores: FloatArray, threshold: float) -> FloatArray:
    """Return how much each row should count in a fit: most where its full score is near the threshold.

    Examples
    --------
    >>> near_decision(np.array([-2.0, 0.0, 2.0]), 0.0).round(2)
    array([0.1 , 1.05, 0.1 ])
    """
    deviation = float(np.std(scores)) or 1.0
    weight: FloatArray = _FAR_WEIGHT + np.exp(-0.5 * np.square((scores - threshold) / (_NEAR * deviation)))
    return weight


def increments(estimates: FloatArray, full: FloatArray) -> FloatArray:
    """Return what each sentinel adds to the estimate, and last what is missing to the full score.

    Parameters
    ----------
    estimates : float64 array of shape (n_sentinels, n_rows)
    full : float64 array of shape (n_rows,)

    Returns
    -------
    float64 array of shape (n_rows, n_sentinels + 1)
    """
    return np.diff(np.vstack([np.zeros_like(full), estimates, full]), axis=0).T


def keep_apart(fit: MarginFit) -> MarginFit:
    """Return the fit with thresholds on both sides of the decision, so that an estimate implies its label."""
    margin = max(_MARGIN * fit.spread, 4.0 * float(np.spacing(np.float32(abs(fit.decision_threshold)))))
    return replace(
        fit,
        lower=np.minimum(fit.lower, fit.decision_threshold - margin),
        upper=np.maximum(fit.upper, fit.decision_threshold + margin),
        mean_cost=None,
        n_mistakes=None,
    )


def read_estimates(fit: SentinelFit, nodes: NDArray[np.integer]) -> FloatArray:
    """Return the estimates of rows at all sentinels, shape (n_sentinels, n_rows), as they come out at run time."""
    estimates = np.empty((len(fit.sentinels), len(nodes)))
    for at, (total, _) in enumerate(fit.sums(nodes)):
        estimates[at] = fit.estimate(at, total)
    return estimates


def label_rule(fit: SentinelFit, thresholds: MarginFit) -> SentinelFit:
    """Return the rule that stops at estimates up to `lower` and from `upper` on."""
    edges, limits = [], []
    for at in range(len(fit.sentinels)):
        # Offsets are multiples of the unit, a power of two, so that nothing here rounds.
        unit = fit.scale[at]
        below = np.floor(thresholds.lower[at] / unit) - fit.offset[at] / unit + 1
        above = np.ceil(thresholds.upper[at] / unit) - fit.offset[at] / unit
        sides = [(below, -np.inf)] if np.isfinite(below) else []
        sides += [(above, np.inf)] if np.isfinite(above) else []
        first = np.inf if np.isfinite(below) else -np.inf
        edges.append(np.clip([edge for edge, _ in sides], -(2**31), 2**31 - 1).astype(np.int64))
        limits.append(np.array([first, *(limit for _, limit in sides)]))
    return replace(fit, edges=edges, limits=limits)
