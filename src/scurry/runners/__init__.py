"""How each kind of plan runs: `exits` by tree, `sentinels` at a few numbers of trees, `steps` by tree step.

`acquire` and `visit` run them while features are bought.

`rules` turns rules of `scurry.stopping` into plans.
"""

from typing import Any

from numpy.typing import NDArray

from scurry.forest import Forest
from scurry.plan import CellRule, ExitRule, LeaderRule, Plan, SentinelRule, StepRule, TopKRule
from scurry.runners.cells import CellRunner
from scurry.runners.exits import ExitRunner, FullRunner, LeaderRunner
from scurry.runners.partial import Stops
from scurry.runners.runner import Runner
from scurry.runners.sentinels import SentinelRunner, TopKRunner
from scurry.runners.steps import StepRunner

__all__ = ["runner_of", "stops_of"]


def runner_of(forest: Forest, plan: Plan) -> Runner:
    """Return what runs `forest` by `plan`. The only place that maps kinds of rules to native code."""
    match plan.stop:
        case CellRule() as rule:
            return CellRunner(forest, rule)
        case ExitRule() as rule:
            return ExitRunner(forest, plan.order, rule, plan.score_map)
        case LeaderRule() as rule:
            return LeaderRunner(forest, plan.order, rule, plan.score_map)
        case SentinelRule() as rule:
            return SentinelRunner(forest, plan.order, rule)
        case StepRule() as rule:
            return StepRunner(forest, plan.order, rule)
        case TopKRule() as rule:
            return TopKRunner(forest, plan.order, rule)
    return FullRunner(forest)


def stops_of(forest: Forest, plan: Plan, rows: NDArray[Any]) -> Stops | None:
    """Return where rows exit early, with partial and full scores; None if the plan has no early exit."""
    runner = runner_of(forest, plan)
    return runner.stops(rows) if isinstance(runner, ExitRunner | LeaderRunner) else None
