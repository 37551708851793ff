"""scurry: make trained tree ensembles spend less per prediction, and say exactly what that costs."""

from scurry.forest import Forest
from scurry.importers import from_model
from scurry.predictor import load

__all__ = ["Forest", "from_model", "load"]
