"""Commands that show results without a model of one's own: `demo` and `reproduce`.

`demo` trains models on shipped data, makes them cheaper in three ways, and measures the effect, without a network.
`reproduce` runs the experiments of a paper.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import typer
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import scurry
from scurry import FeatureBudgetClassifier, Forest, Predictor, anytime, datasets, early_exit, from_model, report
from scurry.cli.program import AsJson, app, console, make_table, show, show_progress
from scurry.errors import InputError
from scurry.evaluation import feature_bill
from scurry.formatting import format_percent, format_share
from scurry.pruning import Offers
from scurry.timing import race

if TYPE_CHECKING:
    from rich.table import Table

MAX_DISAGREEMENT = 0.005
_N_TREES = 101
_N_CALIBRATION = 8000  # enough for a promise of 0.5 %, and as many are left to test on
_STEP_SHARE = 0.1  # of all steps: the budget of the anytime forest
_MAX_COST = 40.0  # dollars per patient
_N_ROUNDS = 5

# From (way, work, share saved, share promised) to the function that predicts.
Ways: TypeAlias = dict[tuple[str, str, float, float | None], Callable[[Any], NDArray[Any]]]


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
            title="Thyroid: a forest within $40 per patient",
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
    ways: Ways = {
        ("all trees", f"{n_trees} trees", 0.0, None): forest.predict,
        ("early exit", f"{mean_trees:.1f} trees", 1 - mean_trees / n_trees, MAX_DISAGREEMENT): fast.predict,
    }
    return fast, _measure(model, rows, ways)


def _measure_anytime(model: Any, rows: Rows) -> tuple[Predictor, Line]:
    """Measure a part of all steps, in the order that `scurry.anytime` finds."""
    anyt = anytime(_import(model, rows), rows.X_cal, rows.y_cal)
    n_steps = round(_STEP_SHARE * len(anyt.plan.order))
    ways: Ways = {("anytime", f"{n_steps} steps", 1 - _STEP_SHARE, None): partial(anyt.predict, max_steps=n_steps)}
    return anyt, _measure(model, rows, ways)[0]


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
    ways: Ways = {
        ("all features", f"${full_paid:.2f}", 0.0, None): whole.predict,
        (f"within ${_MAX_COST:.0f}", f"${paid:.2f}", 1 - paid / full_paid, None): chosen.predict,
    }
    return found.estimator_, offers, _measure(found.estimator_, rows, ways)


def _write_page(subject: Predictor, path: Path, rows: Rows, model: Any, title: str) -> Path:
    return report.write(subject, path, rows.X_test, rows.y_test, model=model, title=title)


def _measure(model: Any, rows: Rows, ways: Ways) -> list[Line]:
    """Compare each way with the source model: labels, and the time of a batch on one thread."""
    if hasattr(model, "n_jobs"):
        model.n_jobs = 1
    expected = model.predict(rows.X_test)
    with threadpool_limits(1, "openmp"):  # boosted models of scikit-learn have no n_jobs
        runs = [partial(answer, rows.X_test) for answer in (model.predict, *ways.values())]
        reference, *times = race(_N_ROUNDS, *runs)
    lines = []
    for ((way, work, saved, promised), answer), duration in zip(ways.items(), times, strict=True):
        labels = answer(rows.X_test)
        changed, accuracy = float((labels != expected).mean()), float((labels == rows.y_test).mean())
        lines.append(Line(way, work, saved, changed, promised, accuracy, reference / duration))
    return lines


_N_STEPS = 6  # how often `showcase.run` announces a step
_INTRODUCTION = """\

A random forest and a boosted model on census data, and a forest on thyroid
tests that cost money, each made cheaper. All numbers are measured here and now,
on test rows.
"""
_LEGEND = """
early exit  a row stops evaluating trees once its label is clear
anytime     every row stops after a tenth of all tree steps
within $40  the best forest found whose tests cost at most $40 per patient

work        mean per test row
changed     share of labels that differ from the model's
promised    largest share that changes on new rows, with confidence 0.95
speed       relative to scikit-learn, a batch of rows on one thread
"""
_NEXT = """\
Next, with your own model (scikit-learn, XGBoost or LightGBM) and rows:
  [bold]scurry early-exit model.json rows.parquet --output fast.scurry[/bold]
  [bold]scurry predict fast.scurry new.parquet --output labels.parquet[/bold]
or in Python:
  [bold]fast = scurry.early_exit(model, X, max_disagreement=0.005)[/bold]
  [bold]scurry.report.write(fast, "report.html", X_test, y_test)[/bold]
"""


@app.command(epilog="Example: [bold]scurry demo[/bold]")
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the reports.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Make real models cheaper in three ways, show what that saves and costs, and write reports.

    This takes less than two minutes and needs no network and no files.
    """
    from rich.markup import escape

    from scurry.cli.demo import run

    screen, n_begun = console(), 0
    with show_progress("Demo") as update:

        def begin(step: str) -> None:
            nonlocal n_begun
            update(n_begun, _N_STEPS, step)
            n_begun += 1

        found = run(output, begin)
    if as_json:
        models = {name: [line._asdict() for line in lines] for name, lines in found.models.items()}
        typer.echo(json.dumps({"models": models, "pages": [str(page) for page in found.pages]}, indent=1))
        return
    screen.print(_INTRODUCTION)
    screen.print(_make_table(found))
    screen.print(_LEGEND)
    screen.print("Open in a browser:")
    for page in found.pages:
        screen.print(f"  [bold]{escape(str(page))}[/bold]", soft_wrap=True)
    screen.print()
    screen.print(_NEXT)


def _make_table(found: Demonstration) -> Table:
    table = make_table("", "work", "saved", "changed", "promised", "accuracy", "speed")
    for name, lines in found.models.items():
        table.add_row(f"[bold]{name}[/bold]")
        for line in lines:
            table.add_row(
                f"  {line.way}",
                line.work,
                f"{100 * line.saved:.1f} %" if line.saved else "",
                format_share(line.changed),
                "" if line.promised is None else f"≤ {format_percent(line.promised)}",
                f"{100 * line.accuracy:.1f} %",
                f"{line.speedup:.1f} ×",
            )
    return table


_FOLDER = Path("benchmarks", "papers")


@app.command(
    # The experiment itself reads what follows PAPER, --help included.
    context_settings={"allow_extra_args": True, "allow_interspersed_args": False},
    epilog="Example: [bold]scurry reproduce qwyc --quick[/bold]",
)
def reproduce(
    context: typer.Context,
    paper: Annotated[
        str | None, typer.Argument(metavar="PAPER", help="Short name of the paper (default: list all papers).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the experiments of a paper and show the published figures next to those obtained here.

    This needs a checkout of scurry's source and, for most papers, the data they used.

    Options after PAPER go to the experiment: --quick takes minutes instead of hours, PAPER --help lists the rest.

    With --json the report is printed as JSON when it is complete; until then it appears on stderr.
    """
    # The current folder first: it may be another checkout than the one that was installed.
    folder = next(
        (top / _FOLDER for top in (Path.cwd(), *Path(scurry.__file__).parents) if (top / _FOLDER).is_dir()), None
    )
    if folder is None:
        raise InputError(
            f"the experiments are in {_FOLDER} of scurry's source, which is not installed with the package; run this "
            "in a checkout of it"
        )
    known = {path.stem.replace("_", "-"): path for path in sorted(folder.glob("*.py"))}
    if paper is None:
        subjects = {name: _read_subject(path) for name, path in known.items()}
        show(subjects, as_json, subjects)
        return
    if paper not in known:
        raise InputError(f"there is no experiment for {paper!r}; there are {', '.join(known)}")
    options = [option for option in context.args if option != "--json"]
    raise typer.Exit(_run(known[paper], options, as_json or options != context.args))


def _run(script: Path, options: list[str], as_json: bool) -> int:
    command = [sys.executable, str(script), *options]
    if not as_json:
        return subprocess.run(command, check=False).returncode
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        environment = os.environ | {"SCURRY_REPORT_JSON": str(report)}
        done = subprocess.run(command, check=False, stdout=sys.stderr.fileno(), env=environment)
        if report.exists():
            typer.echo(report.read_text(encoding="utf-8"))
    return done.returncode


def _read_subject(path: Path) -> str:
    """Return the first line of an experiment's docstring, without running it."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]
