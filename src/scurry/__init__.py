"""scurry: make trained tree ensembles spend less per prediction, and say exactly what that costs."""

import importlib
from typing import TYPE_CHECKING, Any

from scurry import errors
from scurry.forest import Encoder, Forest
from scurry.importers import Outputs, from_model
from scurry.plan import Plan
from scurry.predictor import Predictor, load
from scurry.runners.runner import AbortFlag
from scurry.version import read_version

if TYPE_CHECKING:
    from scurry import (
        batch,
        cascades,
        compression,
        datasets,
        display,
        distributed,
        evaluation,
        export,
        growing,
        monitoring,
        orders,
        promises,
        pruning,
        report,
        serving,
        stopping,
    )
    from scurry.cascades.cascade import Cascade
    from scurry.estimators import (
        AnytimeClassifier,
        EarlyExitClassifier,
        EarlyExitRanker,
        EarlyExitRegressor,
        FeatureBudgetClassifier,
    )
    from scurry.monitoring import Watch
    from scurry.runners.acquisition.visit import Visit
    from scurry.verbs.anytime import anytime
    from scurry.verbs.cascade import cascade
    from scurry.verbs.compress import compress
    from scurry.verbs.early_exit import early_exit
    from scurry.verbs.prune import prune
    from scurry.verbs.watch import watch

    __version__: str

__all__ = [
    "AbortFlag",
    "AnytimeClassifier",
    "Cascade",
    "EarlyExitClassifier",
    "EarlyExitRanker",
    "EarlyExitRegressor",
    "Encoder",
    "FeatureBudgetClassifier",
    "Forest",
    "Outputs",
    "Plan",
    "Predictor",
    "Visit",
    "Watch",
    "anytime",
    "batch",
    "cascade",
    "cascades",
    "compress",
    "compression",
    "datasets",
    "display",
    "distributed",
    "early_exit",
    "errors",
    "evaluation",
    "export",
    "from_model",
    "growing",
    "load",
    "monitoring",
    "orders",
    "promises",
    "prune",
    "pruning",
    "report",
    "serving",
    "stopping",
    "watch",
]

# Loaded at first use: predictions need none of them, and most need scipy, which takes longer to import than scurry.
_LAZY = {
    "AnytimeClassifier": "scurry.estimators",
    "Cascade": "scurry.cascades",
    "EarlyExitClassifier": "scurry.estimators",
    "EarlyExitRanker": "scurry.estimators",
    "EarlyExitRegressor": "scurry.estimators",
    "FeatureBudgetClassifier": "scurry.estimators",
    "Visit": "scurry.runners.acquisition.visit",
    "Watch": "scurry.monitoring",
    "anytime": "scurry.verbs.anytime",
    "batch": "scurry.batch",
    "cascade": "scurry.verbs.cascade",
    "cascades": "scurry.cascades",
    "compress": "scurry.verbs.compress",
    "compression": "scurry.compression",
    "datasets": "scurry.datasets",
    "display": "scurry.display",
    "distributed": "scurry.distributed",
    "early_exit": "scurry.verbs.early_exit",
    "evaluation": "scurry.evaluation",
    "export": "scurry.export",
    "growing": "scurry.growing",
    "monitoring": "scurry.monitoring",
    "orders": "scurry.orders",
    "promises": "scurry.promises",
    "prune": "scurry.verbs.prune",
    "pruning": "scurry.pruning",
    "report": "scurry.report",
    "serving": "scurry.serving",
    "stopping": "scurry.stopping",
    "watch": "scurry.verbs.watch",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return read_version()
    if name not in _LAZY:
        raise AttributeError(f"module 'scurry' has no attribute {name!r}")
    with errors.require_extra("fit", f"scurry.{name}"):
        module = importlib.import_module(_LAZY[name])
    return module if module.__name__ == f"scurry.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
