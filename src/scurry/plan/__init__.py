"""Plan: how to run a forest cheaper. It says in which order trees are evaluated and when a row may stop.

Algorithms make plans. What runs or shows a plan (the native core, exports, the report, plots) knows the kinds of stop
rules in this folder and asks them for what it needs; it never knows which algorithm made the plan.
"""

from scurry.plan.plan import (
    NEVER_ABOVE,
    NEVER_BELOW,
    READOUTS,
    ExitRule,
    ExitSide,
    LeaderRule,
    Plan,
    ScoreMap,
    StepRule,
    StopRule,
    SumRule,
    Tally,
    band_rule,
    lead_rule,
    readout_weights,
    to_int32,
)
from scurry.plan.regions import Band, Bins, Gaps, Leads, Regions
from scurry.plan.whole_rows import CellRule, SentinelRule, TopKRule

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
    "Tally",
    "TopKRule",
    "band_rule",
    "lead_rule",
    "readout_weights",
    "to_int32",
]
