"""scurry: make trained tree ensembles spend less per prediction, and say exactly what that costs."""

import importlib
from typing import TYPE_CHECKING, Any

from scurry import errors
from scurry.forest import Forest
from scurry.importers import from_model
from scurry.plan import Plan
from scurry.predictor import Predictor, load

if TYPE_CHECKING:
    from scurry import datasets, pruning, stopping
    from scurry.calibration import early_exit
    from scurry.pruning import prune

__all__ = [
    "Forest",
    "Plan",
    "Predictor",
    "datasets",
    "early_exit",
    "errors",
    "from_model",
    "load",
    "prune",
    "pruning",
    "stopping",
]

# Loaded at first use: they need scipy, which takes longer to import than scurry itself.
_LAZY = {
    "datasets": "scurry.datasets",
    "early_exit": "scurry.calibration",
    "prune": "scurry.pruning",
    "pruning": "scurry.pruning",
    "stopping": "scurry.stopping",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'scurry' has no attribute {name!r}")
    module = importlib.import_module(_LAZY[name])
    return module if module.__name__ == f"scurry.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
