"""What the user asked of early exit, checked once.

A two-class model that answers its second class from a given probability on, instead of one half.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_confidence, check_random_state, check_rate
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.forest.forest import fields_of
from scurry.forest.reference import leaf_values
from scurry.forest.rows import as_rows
from scurry.stopping.sample import InMemory, Sample, Sums
from scurry.stopping.scores.matrix import check_costs

METHODS = ("auto", "minimax", "minimean", "minimixed", "schwing", "qwyc", "fan")


@dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """A forest, calibration rows, and the disagreement that is allowed."""

    forest: Forest
    sample: Sample
    y: NDArray[Any] | None
    max_disagreement: float
    confidence: float | None
    shuffle: str
    keep_scores: str | None
    costs: str | NDArray[np.float64]
    threshold: float | None
    rng: np.random.Generator
    fit_rows: NDArray[Any] | None
    split_seed: int
    n_candidates: int = 1

    @classmethod
    def checked(
        cls, forest: Forest, X_cal: Any, y_cal: Any, X_fit: Any, method: str, random_state: Any, **asked: Any
    ) -> Request:
        """The request if it makes sense, else an error that says what does."""
        if not forest.is_classifier:
            raise InputError(
                "early exit compares labels, and this model is a regressor; pass a classifier, or use scurry.anytime, "
                "which takes regressors too"
            )
        check_choice("method", method, METHODS)
        if forest.n_classes < 2:
            only = np.asarray(forest.classes).tolist()[0]
            raise InputError(f"the model knows only the class {only!r} and answers it at once; pass one of two or more")
        asked["max_disagreement"] = check_rate("max_disagreement", asked["max_disagreement"])
        asked["confidence"] = None if asked["confidence"] is None else check_confidence(asked["confidence"])
        check_choice("shuffle", asked["shuffle"], ("fixed", "row"))
        if asked["keep_scores"] not in (None, "positive"):
            raise InputError(f'keep_scores must be None or "positive", got {asked["keep_scores"]!r}')
        if not isinstance(asked["costs"], str):
            asked["costs"] = check_costs(asked["costs"], forest.n_trees)
        elif asked["costs"] not in ("trees", "steps"):
            raise InputError(f'costs must be "trees", "steps" or a number per tree, got {asked["costs"]!r}')
        if asked["threshold"] is not None:
            forest = at_threshold(forest, asked["threshold"])
        sample = X_cal if isinstance(X_cal, Sample) else InMemory(as_rows(forest, X_cal))
        if sample.n_rows == 0:
            raise InputError("X_cal has no rows; pass rows like those to be predicted, labels are not needed")
        y = None if y_cal is None else np.asarray(y_cal)
        if y is not None and y.shape != (sample.n_rows,):
            raise InputError(f"y_cal has shape {y.shape}, X_cal has {sample.n_rows} rows")
        fit_rows = None if X_fit is None else as_rows(forest, X_fit)
        if fit_rows is not None and len(fit_rows) == 0:
            raise InputError("X_fit has no rows; leave it out, and a part of X_cal fits the rule")
        rng = check_random_state(random_state)
        seed = int(rng.integers(2**63))
        return cls(forest=forest, sample=sample, y=y, fit_rows=fit_rows, rng=rng, split_seed=seed, **asked)

    @property
    def allowed(self) -> str:
        """The share of rows whose label may change, as promises say it."""
        return f"{100 * self.max_disagreement:g} %"

    @property
    def cost_unit(self) -> str:
        """What is saved: "trees", "steps", or "cost" in units of the caller."""
        return self.costs if isinstance(self.costs, str) else "cost"

    def tree_costs(self, sample: Sample) -> NDArray[np.float64]:
        """What each tree costs: 1, as given, or the node tests that rows make in it on average; shape (n_trees,)."""
        if not isinstance(self.costs, str):
            return self.costs
        if self.cost_unit == "trees":
            return np.ones(self.forest.n_trees)
        return sample.sums(partial(_node_tests, self.forest)) / sample.n_rows

    @property
    def tested_confidence(self) -> float | None:
        """What each of several candidates is certified with, so that choosing among them leaves `confidence`."""
        return None if self.confidence is None else 1 - (1 - self.confidence) / self.n_candidates

    def certificate(self, n_mistakes: int, n_rows: int) -> dict[str, Any]:
        """What a plan says about the test that certified it."""
        return {
            "promised_disagreement": float(self.max_disagreement),
            "certified_by": f"exact binomial test: {n_mistakes} mistakes on {n_rows} rows that had no part in the fit",
            "certified_on_rows": n_rows,
            "certified_mistakes": n_mistakes,
        }

    def facts(self, method: str, **measured: Any) -> dict[str, Any]:
        """What a plan says about itself."""
        asked = {"method": method, "max_disagreement": float(self.max_disagreement), "confidence": self.confidence}
        if self.threshold is not None:
            asked["threshold"] = float(self.threshold)
        return asked | {"n_calibration_rows": self.sample.n_rows, "n_trees": self.forest.n_trees} | measured


def _node_tests(forest: Forest, rows: NDArray[Any]) -> Sums:
    tests: Sums = forest.node_depth[forest.apply(rows)].sum(axis=0, dtype=np.int64)
    return tests


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
