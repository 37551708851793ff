"""scurry: make trained tree ensembles spend less per prediction, and say exactly what that costs."""

import importlib
from types import ModuleType

from scurry import errors
from scurry.calibration import early_exit
from scurry.forest import Forest
from scurry.importers import from_model
from scurry.plan import Plan
from scurry.predictor import Predictor, load

__all__ = ["Forest", "Plan", "Predictor", "datasets", "early_exit", "errors", "from_model", "load", "stopping"]

_LAZY = ("datasets", "stopping")


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        return importlib.import_module(f"scurry.{name}")
    raise AttributeError(f"module 'scurry' has no attribute {name!r}")
