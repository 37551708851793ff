"""Pay for fewer features: prunings of a forest that trade error for cost, exactly.

`scurry.prune` and `exact_path` return a `PruningPath`: ``path[i]`` and ``path.at(max_cost=…)`` are plain `Forest`
objects, which `scurry.early_exit` and `scurry.anytime` take, and which can be saved. ``path.point(…)`` adds what is
proven about them. ``path.problem`` is the problem that every method solves; its ``costs`` price the rows of any forest.

Words used in this package, and in ``core/closure``:

========================  ============================================================================================
word                      meaning
========================  ============================================================================================
split                     an inner node of the forest; pruning keeps some splits and turns others into leaves
kept                      bool for each split: whether a pruning keeps it; a kept split's parent is kept
``kept_until``            how many prunings of a nested path keep a split: the first ones
charge                    what a row pays once: the cost of a feature, or of a group of features
item                      a charge of some rows that any of several splits can cause; keeping one of them buys it
purchase                  a pair of an item and a split that buys it: an entry of ``item_node``
gain, cost                what keeping a split takes from the error, and what it costs apart from items, in units
unit                      errors and costs are whole numbers of ``error_unit`` and ``cost_unit``, so optima are exact
lambda (``lam``)          the trade-off: a pruning minimises error + lambda * cost
theta                     lambda in units: a method minimises error units + theta * cost units
closure                   a set of splits that has every parent of its members, so a pruning
family                    the splits that read one feature, or one group; the greedy methods drop them together
========================  ============================================================================================
"""

import sys
import warnings
from typing import Any

from scurry.costs import FeatureCosts, feature_uses
from scurry.errors import require_extra

with require_extra("fit", "pruning"):
    from scurry.pruning.methods import METHODS, exact_path
    from scurry.pruning.path import PrunedPoint, PruningPath
    from scurry.pruning.problem import PruningProblem
    from scurry.pruning.refine import Offer, Offers

__all__ = [
    "METHODS",
    "FeatureCosts",
    "Offer",
    "Offers",
    "PrunedPoint",
    "PruningPath",
    "PruningProblem",
    "exact_path",
    "feature_uses",
]


def __getattr__(name: str) -> Any:
    if name == "prune":
        warnings.warn("scurry.pruning.prune is deprecated; use scurry.prune", DeprecationWarning, stacklevel=2)
        # Through the loaded package, because verbs are built on this module and not the other way round.
        return sys.modules["scurry"].prune
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
