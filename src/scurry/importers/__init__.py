"""Importers: a trained model, or its file, as a `Forest` that gives identical labels."""

from scurry.importers.dispatch import from_model

__all__ = ["from_model"]
