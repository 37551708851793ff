"""Watch: a promise that is tested on the rows that a predictor answers, without labels and at any time."""

from scurry.monitoring.explain import Drift, Explanation
from scurry.monitoring.selection import Selection
from scurry.monitoring.state import History, PartState, State, Tally, read
from scurry.monitoring.watch import Watch

__all__ = ["Drift", "Explanation", "History", "PartState", "Selection", "State", "Tally", "Watch", "read"]
