"""How each kind of plan runs: `exits` by tree, `sentinels` at a few numbers of trees, `steps` by tree step.

`acquire` and `visit` run them while features are bought.

`rules` turns rules of `scurry.stopping` into plans.
"""

from typing import Any

from numpy.typing import NDArray

from scurry.forest import Forest
from scurry.plan import Plan
from scurry.runners import cells, sentinels, steps  # noqa: F401 - each registers its runners
from scurry.runners.exits import ExitRunner, LeaderRunner, Stops
from scurry.runners.runner import Runner, make_runner

__all__ = ["runner_of", "stops_of"]


def runner_of(forest: Forest, plan: Plan) -> Runner:
    """Return what runs `forest` by `plan`."""
    return make_runner(plan.stop, forest, plan)


def stops_of(forest: Forest, plan: Plan, rows: NDArray[Any]) -> Stops | None:
    """Return where rows exit early, with partial and full scores; None if the plan has no early exit."""
    runner = runner_of(forest, plan)
    return runner.stops(rows) if isinstance(runner, ExitRunner | LeaderRunner) else None
