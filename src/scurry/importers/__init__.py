"""Importers: a trained model, or its file, as a `Forest` that gives identical labels."""

from scurry.importers.dispatch import Outputs, from_model, import_for

__all__ = ["Outputs", "from_model", "import_for"]
