"""`anytime`: from a model and labelled rows to a predictor that has an answer at any moment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import RandomState, check_choice, draw_seed
from scurry.errors import InputError
from scurry.forest import Forest, as_rows, warn_of_other_order
from scurry.orders.search import StepOrder, find
from scurry.predictor import Predictor, read_forest
from scurry.promises import Certificate, StepMeasurement
from scurry.runners.steps import StepRunner, step_plan

OBJECTIVES = ("steps", "time")
_MAX_TIMED_ROWS = 200
_N_REPEATS = 9
_LEAST_US = 1e-6


def anytime(
    model: Any,
    X_order: Any,
    y_order: Any,
    *,
    order: str = "auto",
    objective: str = "steps",
    readout: str | None = None,
    random_state: RandomState = None,
) -> Predictor:
    """Find an order of steps in which the answers of a tree ensemble become good early.

    Parameters
    ----------
    model : estimator, booster, path or Forest
        Whatever `from_model` accepts.
    X_order : array or DataFrame of shape (n_rows, n_features)
        Rows to find the order on, best those the model was not trained on.
    y_order : array of shape (n_rows,)
        Their labels.
    order : str, default "auto"
        "auto" is the best known here; "optimal", "backward-squirrel", "forward-squirrel", "unoptimal", "random", and
        "depth-…" or "breadth-…" with ie, ea, re, drep or qwyc: see `scurry.orders.find`.
    objective : {"steps", "time"}
        Whether the mean accuracy over steps or over time is to be high. For "time", which "auto" alone can aim at, the
        costs of a step in the same tree as the one before and of one in another are measured on this machine.
    readout : {"plain", "weighted", "auto"}, optional
        How inner nodes count in answers given early: all alike, or the less the further they are from the leaves.
        "auto" takes what does better on the rows given. It is the default for ``order="auto"``; the other orders are
        run as published, "plain".
    random_state : int, Generator, RandomState or None
        For "random".

    Returns
    -------
    Predictor
        Its `predict`, `predict_proba` and `run` take ``max_steps``, ``time_us`` and ``abort``. With none of them it
        gives the model's own labels.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(20, max_depth=6, random_state=0).fit(X[:300], y[:300])
    >>> anyt = scurry.anytime(model, X[300:], y[300:], order="backward-squirrel")
    >>> bool((anyt.predict(X) == model.predict(X)).all())
    True
    >>> bool((anyt.predict(X, max_steps=15) == y).mean() > 0.9)
    True
    >>> len(anyt.predict(X, time_us=5))
    569
    """
    if not isinstance(order, str):
        raise InputError(
            "order must be a name; an order of your own runs as "
            "scurry.Predictor(forest, scurry.Plan(order=steps, stop=scurry.plan.StepRule()))"
        )
    check_choice("objective", objective, OBJECTIVES)
    if objective == "time" and order != "auto":
        raise InputError(f'objective="time" needs order="auto", got {order!r}: the other orders know only steps')
    forest = read_forest(model, X_order)
    if forest.wrapper is not None and forest.wrapper.decides:
        forest = forest.as_sum("answer after any step")
    rows = as_rows(forest, X_order)
    costs = step_costs(forest, rows) if objective == "time" and len(rows) > 0 else None
    if readout is None:
        readout = "auto" if order == "auto" else "plain"
    seed = draw_seed(random_state)
    found = find(forest, rows, y_order, order=order, readout=readout, step_costs=costs, random_state=seed)
    warn_of_other_order(forest, X_order, y_order, rows, ("X_order", "y_order"))
    options: dict[str, str | int] = {"order": order, "objective": objective, "readout": readout}
    # The other orders draw nothing, and do not depend on a seed.
    options |= {"random_state": seed} if order == "random" else {}
    recipe = f"scurry.anytime(model, X_order, y_order, {', '.join(f'{k}={v!r}' for k, v in options.items())})"
    return predictor_of(forest, found, objective=objective, n_rows=len(rows), step_costs_us=costs, recipe=recipe)


def predictor_of(
    forest: Forest,
    found: StepOrder,
    *,
    objective: str,
    n_rows: int,
    step_costs_us: tuple[float, float] | None = None,
    recipe: str = "",
) -> Predictor:
    """Return the predictor that takes the steps of an order, and says how good its answers are."""
    same_us, other_us = (None, None) if step_costs_us is None else step_costs_us
    measured = StepMeasurement(
        order=found.order,
        objective=objective,
        readout=found.readout,
        n_steps=len(found.steps),
        quality="accuracy" if forest.is_classifier else "mean_squared_error",
        first=float(found.curve[0]),
        mean=float(found.curve.mean()),
        last=float(found.curve[-1]),
        same_tree_step_ns=None if same_us is None else 1000 * same_us,
        other_tree_step_ns=None if other_us is None else 1000 * other_us,
    )
    certificate = Certificate(method="anytime", n_calibration_rows=n_rows, measured=measured, recipe=recipe)
    return Predictor(forest, step_plan(found.steps, found.readout, certificate))


def step_costs(forest: Forest, rows: NDArray[Any]) -> tuple[float, float]:
    """Measure, in microseconds, a step in the same tree as the one before, and one in another tree.

    A step in the same tree must wait for the one before; steps in different trees overlap in the processor, and the
    native walk arranges them so as far as it can. Two orders that differ most in this, tree by tree and level by level,
    are timed in turns on up to 200 rows, each row by its best of several runs.
    """
    by_tree = np.repeat(np.arange(forest.n_trees, dtype=np.int32), forest.tree_depth)
    level = np.concatenate([np.arange(depth) for depth in forest.tree_depth])
    orders = [by_tree, by_tree[np.argsort(level, kind="stable")]]
    runners = [StepRunner(forest, order) for order in orders]
    sample = rows[np.linspace(0, len(rows) - 1, min(len(rows), _MAX_TIMED_ROWS)).astype(np.intp)]
    best = np.full((len(orders), len(sample)), np.inf)
    for _ in range(_N_REPEATS):
        for times_us, runner in zip(best, runners, strict=True):
            np.minimum(times_us, runner.measure_walk_us(sample), out=times_us)
    n_same = np.array([(np.diff(order) == 0).sum() for order in orders])
    spent_us = best.mean(axis=1)
    if n_same[0] == n_same[1]:  # one tree, or none deeper than a step
        return (max(float(spent_us.mean()) / max(len(by_tree), 1), _LEAST_US),) * 2
    same, other = np.linalg.solve(np.column_stack([n_same, len(by_tree) - n_same]), spent_us)
    return max(float(same), _LEAST_US), max(float(other), _LEAST_US)
