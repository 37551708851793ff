"""A two-class model that answers its second class from a given probability on, instead of one half."""

from __future__ import annotations

from numbers import Real

import numpy as np

from scurry.errors import InputError
from scurry.forest import Forest
from scurry.forest_parts import fields_of
from scurry.reference import leaf_values


def at_threshold(forest: Forest, probability: float) -> Forest:
    """The same forest, positive iff the second class has at least this `probability`.

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.7, 0.3]]}
    >>> at_threshold(scurry.Forest.from_trees([stump]), 0.25).predict([[0.0], [1.0]])
    array([0, 1])
    """
    if not isinstance(probability, Real) or not 0 < probability < 1:
        raise InputError(f"threshold must be a probability between 0 and 1, got {probability!r}")
    if forest.n_classes != 2:
        raise InputError(f"threshold is for two classes, the model has {forest.n_classes}")
    fields = fields_of(forest)
    if forest.n_outputs == 2:
        if forest.link != "identity" or forest.tree_output[0] >= 0:
            raise InputError("threshold is for models with one score, or that average probabilities; this one does not")
        fields |= {"value": leaf_values(forest)[:, 1:], "base_score": forest.base_score[1:]}
        fields["aggregation"] = "mean" if forest.aggregation == "vote" else forest.aggregation
    if forest.link not in ("identity", "logistic"):
        raise InputError(f"threshold needs probabilities, and this model's scores have the link {forest.link!r}")
    probability = float(probability)
    odds = np.log(probability / (1 - probability)) / forest.link_scale
    fields["decision_threshold"] = float(probability if forest.link == "identity" else odds)
    return Forest(**fields)
