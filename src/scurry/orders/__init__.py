"""Step orders: in which tree to take each step, so that the answer is good whenever the run is stopped."""

from scurry.orders.curves import accuracy_curve, nma
from scurry.orders.search import ORDERS, StepOrder, find

__all__ = ["ORDERS", "StepOrder", "accuracy_curve", "find", "nma"]
