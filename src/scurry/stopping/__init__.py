"""When to stop asking: rules that end an evaluation early."""

from scurry.stopping.fan import FanRule, fan
from scurry.stopping.margins import MarginRule, qwyc
from scurry.stopping.multiclass import LeadRule, multiclass_qwyc
from scurry.stopping.preset_orders import preset_order
from scurry.stopping.score_rule import ScoreRule, ScoreStopper

__all__ = [
    "FanRule",
    "LeadRule",
    "MarginRule",
    "ScoreRule",
    "ScoreStopper",
    "fan",
    "multiclass_qwyc",
    "preset_order",
    "qwyc",
]
