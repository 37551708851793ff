"""`scurry demo`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from scurry.cli.program import app
from scurry.cli.screen import columns, console, in_seconds, working

if TYPE_CHECKING:
    from rich.table import Table

    from scurry.datasets import Dataset

_N_TREES = 101
_DEPTHS = {"depth at most 10": 10, "any depth": None}
_NEXT = """\
Next, with a model of yours (scikit-learn, XGBoost or LightGBM):
  [bold]forest = scurry.from_model(model)[/bold]
  [bold]forest.predict(X)[/bold]               the model's own labels, sooner
  [bold]forest.save("model.scurry")[/bold]     then: scurry inspect model.scurry
"""


@app.command(epilog="Example: [bold]scurry demo[/bold]")
def demo() -> None:
    """Import forests fitted on real data; show equal labels and the speed beside scikit-learn's.

    Takes about ten seconds; needs neither a network nor a file.
    """
    from scurry import datasets

    data = datasets.load("adult")
    n_rows, n_features = data.X.shape
    screen = console()
    screen.print(
        f"\nAdult census data: {n_rows:,} rows, {n_features} features ({len(data.categories)} categorical).\n"
        f"Random forests of {_N_TREES} trees, fitted on its training rows, label its test rows.\n"
    )
    table = columns("", "scikit-learn", "scurry", "faster")
    for name, max_depth in _DEPTHS.items():
        with working(f"Fitting and running {_N_TREES} trees of {name}"):
            _compare(table, name, data, max_depth)
    screen.print(table)
    screen.print("\nMeasured here and now; each time is the best of several runs taken in turn.\n")
    screen.print(_NEXT)


def _compare(table: Table, name: str, data: Dataset, max_depth: int | None) -> None:
    """Fit a forest, import it, and add its rows to the demo's table."""
    from sklearn.ensemble import RandomForestClassifier

    from scurry import from_model
    from scurry.rows import thread_count

    train, test = data.X[data.split == "train"], data.X[data.split == "test"]
    model = RandomForestClassifier(_N_TREES, max_depth=max_depth, n_jobs=-1, random_state=0)
    model.fit(train, data.y[data.split == "train"])
    forest = from_model(model)
    table.add_row(f"[bold]{name}[/bold], {forest.n_nodes:,} nodes")
    for n_threads in sorted({1, thread_count(None)}):
        model.n_jobs = n_threads
        theirs, ours = _race(5, partial(model.predict, test), partial(forest.predict, test, n_threads))
        threads = "1 thread" if n_threads == 1 else f"{n_threads} threads"
        table.add_row(
            f"  {len(test):,} rows, {threads}", in_seconds(theirs), in_seconds(ours), f"{theirs / ours:.1f} ×"
        )
    model.n_jobs, row = 1, test[:1]
    theirs, ours = _race(50, partial(model.predict, row), partial(forest.predict, row))
    table.add_row("  one row", in_seconds(theirs), in_seconds(ours), f"{theirs / ours:,.0f} ×")
    changed = int((model.predict(test) != forest.predict(test)).sum())
    table.add_row("  labels that differ", "", f"{changed:,}")


def _race(n_rounds: int, *runs: Callable[[], object]) -> list[float]:
    """The shortest time of each run in seconds; they take turns, so that a slow moment of the machine hits all."""
    best = [float("inf")] * len(runs)
    for _ in range(n_rounds):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[index] = min(best[index], time.perf_counter() - start)
    return best
