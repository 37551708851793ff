"""Plan: how to run a forest cheaper. It says in which order trees are evaluated and when a row may stop.

Algorithms make plans. What runs or shows a plan (the native core, exports, the report, plots) knows the kinds of stop
rules in this folder and asks them for what it needs; it never knows which algorithm made the plan.
"""

from scurry.plan.cells import CellRule
from scurry.plan.plan import Plan, ScoreMap
from scurry.plan.ranks import TopKRule
from scurry.plan.rules import (
    NEVER_ABOVE,
    NEVER_BELOW,
    READOUTS,
    Band,
    Bins,
    ExitRule,
    ExitSide,
    Gaps,
    LeaderRule,
    Leads,
    Regions,
    StepRule,
    StopRule,
    SumRule,
    to_int32,
)
from scurry.plan.sentinels import SentinelRule

__all__ = [
    "NEVER_ABOVE",
    "NEVER_BELOW",
    "READOUTS",
    "Band",
    "Bins",
    "CellRule",
    "ExitRule",
    "ExitSide",
    "Gaps",
    "LeaderRule",
    "Leads",
    "Plan",
    "Regions",
    "ScoreMap",
    "SentinelRule",
    "StepRule",
    "StopRule",
    "SumRule",
    "TopKRule",
    "to_int32",
]
