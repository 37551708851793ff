"""Forest: what a trained model is. Everything else in scurry takes it or makes it."""

from scurry.forest.forest import Forest

__all__ = ["Forest"]
