"""Watch: a promise that is tested on the rows that a predictor answers, without labels and at any time."""

from scurry.monitoring.explain import Explanation
from scurry.monitoring.state import PartState, State, Tally
from scurry.monitoring.watch import Watch

__all__ = ["Explanation", "PartState", "State", "Tally", "Watch"]
