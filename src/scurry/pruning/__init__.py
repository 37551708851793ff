"""Pay for fewer features: prunings of a forest that trade error for cost, exactly.

- `prune` and `exact_path` return a `PruningPath`: ``path[i]`` and ``path.at(max_cost=…)`` are plain `Forest` objects,
  which `scurry.early_exit` and `scurry.anytime` take, and which can be saved. ``path.point(…)`` adds its cost and gap.
- ``path.problem`` states the same forest, errors and costs for every method; ``path.problem.costs`` is the
  `FeatureCosts` that prices rows, of this forest or of any other: ``costs.of_rows(forest, X)``.
- `feature_uses` counts how often each row reads each feature: what is paid for, and the papers' table of feature usage.
"""

from scurry.costs import FeatureCosts, feature_uses
from scurry.pruning.path import PrunedPoint, PruningPath
from scurry.pruning.problem import PruningProblem
from scurry.verbs.prune import METHODS, exact_path, prune

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
