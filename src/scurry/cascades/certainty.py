"""How sure a cheap model is of its answer: a number between 0 and 1 for each row, by which a cascade keeps it or not.

For a classifier it is the lead of the label: how far its probability is from the point where the label would change,
as a share of the way to the end. For a regressor it is the probability that its value is close enough to the expensive
model's, as a second small forest, fitted for that, estimates it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest, as_rows
from scurry.predictor import Predictor


class CheapAnswers(NamedTuple):
    """What the cheap model says.

    Attributes
    ----------
    answers : array of shape (n_rows,)
        Labels, or a regressor's values.
    certainty : float64 array of shape (n_rows,)
        From 0 to 1.
    """

    answers: NDArray[Any]
    certainty: NDArray[np.float64]


def ask_cheap(cheap: Predictor, router: Forest | None, X: Any, n_threads: int | None = 1) -> CheapAnswers:
    """Return the answers of the cheap model, and how sure they are.

    Parameters
    ----------
    cheap : Predictor
    router : Forest or None
        For a regressor: a classifier of the same rows, whose second class are rows that should be passed on.
    X : array or DataFrame of shape (n_rows, n_features)
    n_threads : int or None
    """
    forest, rows = cheap.forest, as_rows(cheap.forest, X)
    if router is not None:
        beyond = router.predict_proba(np.asarray(rows), n_threads)[:, -1]
        return CheapAnswers(cheap.predict(rows, n_threads), 1.0 - beyond)
    if cheap.plan.stop is not None or forest.wrapper is not None:
        asked = forest if cheap.plan.stop is None else cheap
        return CheapAnswers(asked.predict(rows, n_threads), find_lead(forest, asked.predict_proba(rows, n_threads)))
    scores = forest.scores(rows, n_threads)  # one walk through the trees serves both
    return CheapAnswers(forest.decide(scores), find_lead(forest, _probabilities(forest, scores)))


def find_lead(forest: Forest, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each row is from another label, from 0 to 1.

    Parameters
    ----------
    forest : Forest
    probabilities : float64 array of shape (n_rows, n_classes)

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> find_lead(scurry.Forest.from_trees([stump]), np.array([[0.9, 0.1], [0.45, 0.55]])).round(3).tolist()
    [0.8, 0.1]
    """
    if forest.n_outputs == 1 and forest.n_classes == 2 and forest.wrapper is None:
        # The label changes where the score does, which is not always at a probability of one half.
        turn = float(forest.link_scores(np.array([[forest.decision_threshold]]))[0, 0])
        second = probabilities[:, 1]
        way = np.where(second >= turn, 1.0 - turn, turn)
        lead = np.divide(np.abs(second - turn), way, out=np.zeros(len(second)), where=way > 0)
    else:
        top = np.partition(probabilities, -2, axis=1)
        lead = top[:, -1] - top[:, -2]
    return np.clip(lead, 0.0, 1.0)


def _probabilities(forest: Forest, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    linked = forest.link_scores(scores)
    return np.column_stack([1.0 - linked[:, 0], linked[:, 0]]) if forest.n_outputs == 1 else linked
