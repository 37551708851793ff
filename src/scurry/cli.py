"""The command line: every command calls the public API and shows what came back."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from scurry.errors import ScurryError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from scurry.datasets import Dataset
    from scurry.forest import Forest

app = typer.Typer(
    help="Make trained tree ensembles spend less per prediction, and say exactly what that costs.",
    epilog="Example: [bold]scurry demo[/bold]",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_N_TREES = 101
_DEPTHS = {"depth at most 10": 10, "any depth": None}
_N_SHOWN = 5
_NEXT = """\
Next, with a model of yours (scikit-learn, XGBoost or LightGBM):
  [bold]forest = scurry.from_model(model)[/bold]
  [bold]forest.predict(X)[/bold]               the model's own labels, sooner
  [bold]forest.save("model.scurry")[/bold]     then: scurry inspect model.scurry
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error that scurry raises on purpose becomes one line and exit code 2.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.
    """
    try:
        app(arguments)
    except ScurryError as error:
        from rich.text import Text

        line = " ".join(str(error).split())
        _console(stderr=True).print(Text.assemble(("error: ", "bold red"), line), soft_wrap=True)
        sys.exit(2)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"scurry {version('scurry')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None: ...


@app.command(epilog="Example: [bold]scurry inspect model.json[/bold]")
def inspect(
    model: Annotated[
        Path,
        typer.Argument(help="A model file: XGBoost (.json, .ubj), LightGBM (.txt) or .scurry.", show_default=False),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """Show what is in a model file: its trees, how it decides, the memory it takes."""
    from scurry import from_model

    with _progress(f"Reading {model.name}"):
        forest = from_model(model)
        facts = {"file": str(model), "file_bytes": model.stat().st_size} | _facts(forest)
    if as_json:
        typer.echo(json.dumps(facts, indent=1, default=str))
    else:
        _console().print(_facts_table(facts))


@app.command(epilog="Example: [bold]scurry demo[/bold]")
def demo() -> None:
    """Import forests fitted on real data; show equal labels and the speed beside scikit-learn's.

    Takes about ten seconds; needs neither a network nor a file.
    """
    from scurry import datasets

    data = datasets.load("adult")
    n_rows, n_features = data.X.shape
    console = _console()
    console.print(
        f"\nAdult census data: {n_rows:,} rows, {n_features} features ({len(data.categories)} categorical).\n"
        f"Random forests of {_N_TREES} trees, fitted on its training rows, label its test rows.\n"
    )
    table = _columns("", "scikit-learn", "scurry", "faster")
    for name, max_depth in _DEPTHS.items():
        with _progress(f"Fitting and running {_N_TREES} trees of {name}"):
            _compare(table, name, data, max_depth)
    console.print(table)
    console.print("\nMeasured here and now; each time is the best of several runs taken in turn.\n")
    console.print(_NEXT)


def _facts(forest: Forest) -> dict[str, Any]:
    from scurry.forest import ARRAYS

    inner = ~forest.is_leaf
    n_splits = np.bincount(forest.feature[inner], minlength=forest.n_features)
    names = forest.feature_names or [f"column {j}" for j in range(forest.n_features)]
    used = np.argsort(-n_splits, kind="stable")[: np.count_nonzero(n_splits)]
    return {
        "n_trees": forest.n_trees,
        "n_nodes": forest.n_nodes,
        "n_leaves": int(forest.is_leaf.sum()),
        "min_depth": int(forest.tree_depth.min()),
        "mean_depth": float(forest.tree_depth.mean()),
        "max_depth": forest.max_depth,
        "n_features": forest.n_features,
        "splits_by_feature": {names[j]: int(n_splits[j]) for j in used},
        "n_categorical_splits": int((forest.category_set[inner] >= 0).sum()),
        "classes": None if forest.classes is None else forest.classes.tolist(),
        "aggregation": forest.aggregation,
        "score_dtype": forest.score_dtype,
        "link": forest.link,
        "comparison": forest.comparison,
        "input_dtype": forest.input_dtype,
        "array_bytes": sum(getattr(forest, name).nbytes for name in ARRAYS),
        "engine_bytes": forest._engine.node_bytes + forest._engine.leaf_bytes,
        "digest": forest.digest,
    }


def _facts_table(facts: dict[str, Any]) -> Table:
    from rich.text import Text

    splits, classes = facts["splits_by_feature"], facts["classes"]
    table = _columns()
    for name, value in {
        "file": f"{facts['file']} ({_bytes(facts['file_bytes'])})",
        "trees": f"{facts['n_trees']:,}",
        "nodes": f"{facts['n_nodes']:,}, of which {facts['n_leaves']:,} leaves",
        "depth": f"{facts['min_depth']} to {facts['max_depth']}, mean {facts['mean_depth']:.1f}",
        "features": f"{len(splits)} of {facts['n_features']} used",
        "most splits": _some([f"{feature} ({count:,})" for feature, count in splits.items()]),
        "classes": "none, it is a regressor" if classes is None else f"{len(classes)}: {_some(classes)}",
        "decides by": f"{facts['aggregation']} of the trees in {facts['score_dtype']}, link {facts['link']}",
        "split": f"left if {facts['input_dtype']}(x) {facts['comparison']} threshold; "
        f"{facts['n_categorical_splits']:,} categorical splits",
        "memory": f"arrays {_bytes(facts['array_bytes'])}, engine {_bytes(facts['engine_bytes'])} "
        f"({facts['engine_bytes'] / facts['n_nodes']:.1f} bytes per node)",
        "digest": facts["digest"],
    }.items():
        table.add_row(name, Text(value))
    return table


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
        table.add_row(f"  {len(test):,} rows, {threads}", _seconds(theirs), _seconds(ours), f"{theirs / ours:.1f} ×")
    model.n_jobs, row = 1, test[:1]
    theirs, ours = _race(50, partial(model.predict, row), partial(forest.predict, row))
    table.add_row("  one row", _seconds(theirs), _seconds(ours), f"{theirs / ours:,.0f} ×")
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


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


@contextmanager
def _progress(text: str) -> Iterator[None]:
    """A spinner on stderr while the block runs, on a terminal only."""
    console = _console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"{text} …"):
        yield


def _columns(*headers: str) -> Table:
    """A table without lines: names left, and, under `headers`, numbers right."""
    from rich.table import Table

    if not headers:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold")
        return table
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan")
    table.add_column(headers[0], no_wrap=True)
    for header in headers[1:]:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def _some(items: Sequence[object]) -> str:
    return ", ".join(map(str, items[:_N_SHOWN])) + (", …" if len(items) > _N_SHOWN else "")


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _seconds(duration: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if duration >= size:
            return f"{duration / size:.3g} {unit}"
    return f"{duration / 1e-6:.3g} µs"
