"""Importers: a trained model, or its file, as a `Forest` that gives identical labels."""

from scurry.importers.dispatch import from_model, import_for
from scurry.importers.outputs import Outputs

__all__ = ["Outputs", "from_model", "import_for"]
