"""The work of `scurry demo`: train models on shipped data, make them cheaper in three ways, and measure the effect.

Nothing here needs a network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from scurry import FeatureBudgetClassifier, Forest, Predictor, anytime, datasets, early_exit, from_model, report
from scurry.errors import InputError
from scurry.evaluation import feature_bill
from scurry.pruning import Offers
from scurry.timing import race

MAX_DISAGREEMENT = 0.005
_N_TREES = 101
_N_CALIBRATION = 8000  # enough for a promise of 0.5 %, and as many are left to test on
_STEP_SHARE = 0.1  # of all steps: the budget of the anytime forest
_MAX_COST = 40.0  # dollars per patient
_N_ROUNDS = 5


class Way(NamedTuple):
    """A way to predict: its name, the work per row, the share of work saved, the share promised, and the function."""

    name: str
    work: str
    saved: float
    promised: float | None
    predict: Callable[[Any], NDArray[Any]]


class Line(NamedTuple):
    """One way to predict the test rows, and its results: a row of the table.

    `saved` is a share of the work of all trees. `promised` is the largest share of labels that may change, or None
    without a promise. `speedup` is relative to the source model on one thread.
    """

    way: str
    work: str
    saved: float
    changed: float
    promised: float | None
    accuracy: float
    speedup: float


class Demonstration(NamedTuple):
    """The results of each model, by its name, and the reports written."""

    models: dict[str, list[Line]]
    pages: list[Path]


class Rows(NamedTuple):
    """A dataset and its rows to train, to calibrate and to test on."""

    data: datasets.Dataset
    X_train: NDArray[np.float32]
    y_train: NDArray[Any]
    X_cal: NDArray[np.float32]
    y_cal: NDArray[Any]
    X_test: NDArray[np.float32]
    y_test: NDArray[Any]


def run(folder: Path, begin: Callable[[str], None] = lambda step: None) -> Demonstration:
    """Fit models on shipped data, make them cheaper, measure, and write reports.

    Parameters
    ----------
    folder : Path
        Folder for the reports. It is created if it does not exist.
    begin : callable, optional
        Called at the beginning of each step with a text that says what is done.

    Returns
    -------
    Demonstration
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder} ({error.strerror}); name another one") from error
    census, clinic = _load_census(), _load_clinic()
    begin("Fitting a random forest on census data")
    forest = RandomForestClassifier(_N_TREES, max_depth=10, n_jobs=-1, random_state=0)
    forest.fit(census.X_train, census.y_train)
    begin("Early exit and anytime prediction of the forest")
    fast, exit_lines = _measure_exits(forest, census)
    anyt, anytime_line = _measure_anytime(forest, census)
    begin("Fitting a boosted model on census data")
    boosted = HistGradientBoostingClassifier(max_iter=_N_TREES, random_state=0).fit(census.X_train, census.y_train)
    begin("Early exit of the boosted model")
    _, boosted_lines = _measure_exits(boosted, census)
    begin("Looking for a forest on medical tests that cost money")
    diagnosis, offers, budget_lines = _measure_budget(RandomForestClassifier(_N_TREES, max_depth=8), clinic)
    begin("Writing reports")
    pages = [
        _write_page(fast, folder / "report.html", census, forest, "Census forest: early exit"),
        _write_page(anyt, folder / "anytime.html", census, forest, "Census forest: anytime prediction"),
        report.write(
            offers,
            folder / "budget.html",
            clinic.X_test,
            clinic.y_test,
            model=diagnosis,
            title="Thyroid: a forest whose patients cost $40 or less on average",
            max_cost=_MAX_COST,
            currency="$",
        ),
    ]
    models = {
        "Census forest": [*exit_lines, anytime_line],
        "Census boosted": boosted_lines,
        "Thyroid forest": budget_lines,
    }
    return Demonstration(models, pages)


def _load_census() -> Rows:
    data = datasets.load("adult")
    train, rest = np.flatnonzero(data.split == "train"), np.flatnonzero(data.split == "test")
    return _take_rows(data, train, rest[:_N_CALIBRATION], rest[_N_CALIBRATION:])


def _load_clinic() -> Rows:
    data = datasets.load("thyroid_ann_cost")
    shuffled = np.random.default_rng(0).permutation(len(data.y))
    return _take_rows(data, *np.array_split(shuffled, 3))


def _take_rows(data: datasets.Dataset, *parts: NDArray[np.intp]) -> Rows:
    return Rows(data, *(values for part in parts for values in (data.X[part], data.y[part])))


def _import(model: Any, rows: Rows) -> Forest:
    """Import a model that was trained on arrays, and add the names of their columns and categories."""
    return from_model(model, feature_names=rows.data.feature_names, categories=rows.data.categories)


def _measure_exits(model: Any, rows: Rows) -> tuple[Predictor, list[Line]]:
    """Measure all trees, and an early exit with a promise."""
    forest = _import(model, rows)
    # The training rows fit the rule, so that all calibration rows are left to certify it.
    fast = early_exit(forest, rows.X_cal, X_fit=rows.X_train, max_disagreement=MAX_DISAGREEMENT, random_state=0)
    mean_trees = fast.run(rows.X_test).mean_trees
    n_trees = forest.n_trees
    ways = [
        Way("all trees", f"{n_trees} trees", 0.0, None, forest.predict),
        Way("early exit", f"{mean_trees:.1f} trees", 1 - mean_trees / n_trees, MAX_DISAGREEMENT, fast.predict),
    ]
    return fast, _measure(model, rows, ways)


def _measure_anytime(model: Any, rows: Rows) -> tuple[Predictor, Line]:
    """Measure a part of all steps, in the order that `scurry.anytime` finds."""
    anyt = anytime(_import(model, rows), rows.X_cal, rows.y_cal)
    n_steps = round(_STEP_SHARE * len(anyt.plan.order))
    way = Way("anytime", f"{n_steps} steps", 1 - _STEP_SHARE, None, partial(anyt.predict, max_steps=n_steps))
    return anyt, _measure(model, rows, [way])[0]


def _measure_budget(model: Any, rows: Rows) -> tuple[Any, Offers, list[Line]]:
    """Measure a forest that reads all features, and the best that was found within a budget.

    Return the first, fitted, and what there was to choose from.
    """
    data = rows.data
    prices: dict[str, Any] = {
        "feature_costs": data.feature_costs,
        "groups": data.groups,
        "group_costs": data.group_costs,
    }
    found = FeatureBudgetClassifier(model, max_cost=_MAX_COST, random_state=0, **prices)
    found.fit(np.concatenate([rows.X_train, rows.X_cal]), np.concatenate([rows.y_train, rows.y_cal]))
    whole, chosen = found.forest_, found.predictor_.forest
    offers = found.offers_.with_feature_names(data.feature_names)
    full_paid, paid = (feature_bill(f, rows.X_test, **prices).mean_cost for f in (whole, chosen))
    ways = [
        Way("all features", f"${full_paid:.2f}", 0.0, None, whole.predict),
        Way(f"mean within ${_MAX_COST:.0f}", f"${paid:.2f}", 1 - paid / full_paid, None, chosen.predict),
    ]
    return found.estimator_, offers, _measure(found.estimator_, rows, ways)


def _write_page(subject: Predictor, path: Path, rows: Rows, model: Any, title: str) -> Path:
    return report.write(subject, path, rows.X_test, rows.y_test, model=model, title=title)


def _measure(model: Any, rows: Rows, ways: Sequence[Way]) -> list[Line]:
    """Compare each way with the source model: labels, and the time of a batch on one thread."""
    if hasattr(model, "n_jobs"):
        model.n_jobs = 1
    expected = model.predict(rows.X_test)
    with threadpool_limits(1, "openmp"):  # boosted models of scikit-learn have no n_jobs
        runs = [partial(answer, rows.X_test) for answer in (model.predict, *(way.predict for way in ways))]
        reference, *times = race(_N_ROUNDS, *runs)
    lines = []
    for way, duration in zip(ways, times, strict=True):
        labels = way.predict(rows.X_test)
        changed, accuracy = float((labels != expected).mean()), float((labels == rows.y_test).mean())
        lines.append(Line(way.name, way.work, way.saved, changed, way.promised, accuracy, reference / duration))
    return lines
