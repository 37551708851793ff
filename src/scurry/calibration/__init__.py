"""Calibration: from rows like those to come, to a plan that keeps its promise on them."""

from scurry.calibration.early_exit import early_exit

__all__ = ["early_exit"]
