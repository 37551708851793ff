"""Agreement: how often an exported model answers as its source does, step by step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.export import replay
from scurry.export.lowered import Lowered
from scurry.forest import Forest
from scurry.predictor import Predictor
from scurry.rows import as_rows


def agreement(pred: Predictor | Forest, lowered: Lowered, X: Any) -> NDArray[np.float64]:
    """The share of rows with the source's label: after 0, 1, … steps, or once for a plan that stops by itself.

    Parameters
    ----------
    pred : Predictor or Forest
        The source.
    lowered : Lowered
        What is exported.
    X : array or DataFrame of shape (n_rows, n_features)

    Returns
    -------
    float64 array of shape (n_steps + 1,) or (1,)
        Where a plan mixes policies at random, all rows of the export follow the first.
    """
    forest = pred.forest if isinstance(pred, Predictor) else pred
    rows = as_rows(forest, X)
    classes = np.asarray(forest.classes)
    if not lowered.is_anytime or isinstance(pred, Forest):
        same = classes[replay.outcomes(lowered, rows).codes] == pred.predict(rows)
        return np.array([same.mean()])
    shares = [
        (classes[lowered.values.labels(sums)] == pred.predict(rows, max_steps=n_steps)).mean()
        for n_steps, (sums, _) in enumerate(replay.states(lowered, rows))
    ]
    return np.array(shares)


def in_percent(share: float) -> str:
    """A share of rows, rounded down: 100 % is all of them.

    Examples
    --------
    >>> in_percent(1.0), in_percent(0.9962825), in_percent(0.9999999)
    ('100 %', '99.628 %', '99.999 %')
    """
    return "100 %" if share == 1 else f"{math.floor(1e5 * share) / 1e3:.3f} %"
