"""How each kind of plan runs: `exits` by tree, `sentinels` at a few numbers of trees, `steps` by tree step.

`acquire` and `visit` run them while features are bought.

`rules` turns rules of `scurry.stopping` into plans.
"""

from scurry.forest import Forest
from scurry.plan import Plan
from scurry.runners import cells, exits, sentinels, steps  # noqa: F401 - each registers its runners
from scurry.runners.runner import Runner, make_runner

__all__ = ["runner_of"]


def runner_of(forest: Forest, plan: Plan) -> Runner:
    """Return what runs `forest` by `plan`."""
    return make_runner(plan.stop, forest, plan)
