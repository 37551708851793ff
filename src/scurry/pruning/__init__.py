"""Pay for fewer features: prunings of a forest that trade error for cost, exactly."""

from scurry.pruning.costs import FeatureCosts, feature_uses
from scurry.pruning.path import PrunedPoint, PruningPath
from scurry.pruning.problem import PruningProblem
from scurry.pruning.search import METHODS, exact_path, prune

__all__ = [
    "METHODS",
    "FeatureCosts",
    "PrunedPoint",
    "PruningPath",
    "PruningProblem",
    "exact_path",
    "feature_uses",
    "prune",
]
