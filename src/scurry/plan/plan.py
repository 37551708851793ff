"""Plan: an order of trees, a rule to stop and a certificate, and how plans lie in files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_instance
from scurry.costs import FeatureCosts
from scurry.errors import FormatError, InputError
from scurry.forest import Forest
from scurry.forest.files.storage import Container
from scurry.plan.rules import StopRule, SumRule

if TYPE_CHECKING:
    from scurry.promises import Certificate  # loaded where a plan has one

_LITTLE_SAVED = 0.85  # of all trees: rules and estimates take about what the others of a row would


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreMap:
    """How the full model's score is estimated for a row that stopped early.

    The partial score is that of the trees evaluated: their sum with the base score, or their mean. After ``i`` trees
    (rounds, with a LeaderRule) the estimate is ``slope[g, i] * partial + intercept[g, i]``. With two classes ``g`` is 0
    for rows that stopped with the first class and 1 for the second. With more, it is 1 for the score of the leading
    class and 0 for the others. What runs a plan holds estimates on the side of the label, so that no map can make a
    score contradict its label.

    Attributes
    ----------
    slope, intercept : float64 arrays of shape (2, n_positions)
        Slopes are not negative.
    """

    slope: NDArray[np.float64]
    intercept: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.slope.ndim != 2 or len(self.slope) != 2 or self.slope.shape != self.intercept.shape:
            raise InputError("a score map needs slopes and intercepts of shape (2, n_positions)")
        if not (np.isfinite(self.slope).all() and np.isfinite(self.intercept).all() and (self.slope >= 0).all()):
            raise InputError("a score map needs finite intercepts, and finite slopes that are not negative")


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """An order of trees, or of steps in trees, a rule to stop, and the certificate of the pair.

    Attributes
    ----------
    order : int32 array of shape (n_trees,), or (n_steps,) with a StepRule
    stop : StopRule or None
        None evaluates every tree.
    certificate : Certificate or None
        What was promised, on which rows it was tested, and what came out.
    score_map : ScoreMap or None
        How rows that stop early get a score. None: what the trees not evaluated give on average is added.
    feature_costs : FeatureCosts or None
        What rows pay for features, where the plan was made with prices. It changes no answer.

    Examples
    --------
    >>> import numpy as np, scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> forest = scurry.Forest.from_trees([stump, stump])
    >>> scurry.Predictor(forest, scurry.Plan(order=np.array([1, 0], np.int32))).predict([[1.0]])
    array([1])
    """

    order: NDArray[np.int32]
    stop: StopRule | None = None
    certificate: Certificate | None = None
    score_map: ScoreMap | None = None
    feature_costs: FeatureCosts | None = None

    def __post_init__(self) -> None:
        check_instance("order", self.order, np.ndarray)
        if self.order.dtype.kind in "iu" and self.order.dtype != np.int32:
            # Numbers that int32 does not hold are no trees, and `check` says so.
            object.__setattr__(self, "order", np.clip(self.order, -1, 2**31 - 1).astype(np.int32))
        if self.stop is not None:
            check_instance("stop", self.stop, StopRule)
        if self.certificate is not None:
            from scurry.promises import Certificate

            check_instance("certificate", self.certificate, Certificate)
        if self.feature_costs is not None:
            check_instance("feature_costs", self.feature_costs, FeatureCosts)

    @classmethod
    def full(
        cls, forest: Forest, certificate: Certificate | None = None, feature_costs: FeatureCosts | None = None
    ) -> Self:
        """Return the plan that evaluates every tree of `forest`."""
        order = np.arange(forest.n_trees, dtype=np.int32)
        return cls(order=order, certificate=certificate, feature_costs=feature_costs)

    @property
    def by_step(self) -> bool:
        """Whether rows may stop after any step; `order` then names the tree of each step."""
        return self.stop is not None and self.stop.by_step

    @property
    def ranks_groups(self) -> bool:
        """Whether a row's answer depends on the other rows of its query, so that predictions need `groups`."""
        return self.stop is not None and self.stop.ranks_groups

    @property
    def exits_early(self) -> bool:
        """Whether rows may stop before every tree is evaluated, by a rule of the plan."""
        return self.stop is not None and not self.stop.by_step

    @property
    def in_plan_order(self) -> bool:
        """Whether every row evaluates trees in the plan's order; else the rule has several."""
        return self.stop is None or self.stop.in_plan_order

    @property
    def exit_rule(self) -> SumRule | None:
        """The rule by which rows exit early on sums of votes or scores, None if the plan has none."""
        return self.stop if isinstance(self.stop, SumRule) else None

    def node_weights(self, forest: Forest) -> NDArray[np.float64]:
        """Return how many times each node counts, shape (n_nodes,); empty if all count once."""
        return np.empty(0) if self.stop is None else self.stop.node_weights(forest)

    @property
    def method(self) -> str:
        """The name of the method that made the plan."""
        return "full" if self.certificate is None else self.certificate.method

    def describe_saving(self, forest: Forest) -> dict[str, str]:
        """Return a line of a summary that says so where rows evaluate nearly all trees; else nothing."""
        trees = None if self.certificate is None else getattr(self.certificate.measured, "mean_trees", None)
        if trees is None or not self.exits_early or trees < _LITTLE_SAVED * forest.n_trees:
            return {}
        return {
            "little is saved": "stopping takes time too, so all trees (Predictor.full(forest)) may be as fast, and "
            "their answers are the model's own; a promise of more saves more"
        }

    def check(self, forest: Forest) -> None:
        """Raise an error unless this plan can run `forest`."""
        if self.order.dtype != np.int32:
            raise InputError(f"the plan's order must be int32, got {self.order.dtype}", argument="order")
        times = forest.tree_depth if self.by_step else np.ones(forest.n_trees, np.int32)
        if not np.array_equal(np.sort(self.order), np.repeat(np.arange(forest.n_trees), times)):
            often = "as often as it is deep" if self.by_step else "once"
            raise InputError(f"the plan's order must name each of the {forest.n_trees} trees {often}")
        if self.stop is not None:
            self.stop.check(forest)
        if self.feature_costs is not None and len(self.feature_costs.feature_costs) != forest.n_features:
            n_priced = len(self.feature_costs.feature_costs)
            raise InputError(f"the plan has prices of {n_priced} features, the forest has {forest.n_features}")
        if self.score_map is None:
            return
        if self.exit_rule is None:
            raise InputError(
                "a score map is for rows that exit early on sums of votes or scores, and the plan has no such rule"
            )
        if self.score_map.slope.shape[1] != self.exit_rule.n_positions:
            n_mapped = self.score_map.slope.shape[1]
            raise InputError(f"the score map has {n_mapped} positions, not {self.exit_rule.n_positions}")

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a header for JSON and arrays from which `from_container` makes the same plan."""
        stop, arrays = (None, {}) if self.stop is None else self.stop.to_parts()
        facts = {} if self.certificate is None else self.certificate.to_json()
        header: dict[str, Any] = {"facts": facts, "stop": stop}
        if self.score_map is not None:
            header["score_map"] = True
            arrays = arrays | {"score_slope": self.score_map.slope, "score_intercept": self.score_map.intercept}
        if self.feature_costs is not None:
            header["step_cost"] = self.feature_costs.step_cost
            arrays = arrays | self.feature_costs.to_arrays()
        return header, {"plan_order": self.order} | arrays

    @classmethod
    def from_container(cls, container: Container) -> Self:
        """Return the plan of a ``.scurry`` file."""
        from scurry.promises import Certificate

        with container.reading("plan"):
            header = container.field("plan", dict)
            facts, stop = header.get("facts"), header.get("stop")
            if not isinstance(facts, dict) or not isinstance(stop, dict | None):
                raise FormatError("it lacks facts or stop")
            order = container.array("plan_order", np.int32)
            return cls(
                order=order,
                stop=None if stop is None else StopRule.from_container(container, stop),
                certificate=Certificate.from_json(facts) if facts else None,
                score_map=_score_map(container) if header.get("score_map") else None,
                feature_costs=FeatureCosts.from_container(container, header["step_cost"])
                if "step_cost" in header
                else None,
            )


def _score_map(container: Container) -> ScoreMap:
    slope, intercept = (container.array(f"score_{name}", np.float64) for name in ("slope", "intercept"))
    return ScoreMap(slope=slope, intercept=intercept)
