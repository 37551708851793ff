"""Commands that run a model on rows: `predict`, `report` and `bench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from scurry.cli.files import read_model, read_rows
from scurry.cli.options import AsJson, Dask, Label, ModelFile, Output, Rows, TrustPickle
from scurry.cli.program import app
from scurry.cli.screen import columns as table_of
from scurry.cli.screen import console, in_bytes, in_seconds, progress, show, some, working
from scurry.errors import InputError

_OTHER_TABLES = (".csv", ".tsv", ".json", ".arrow", ".feather", ".ipc", ".xlsx")


@app.command(
    epilog="Example: [bold]scurry predict fast.scurry rows/*.parquet --keep id -o scores/[/bold]",
)
def predict(
    model: ModelFile,
    rows: Rows,
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="A folder, or for one input a .parquet file.", show_default=False),
    ],
    columns: Annotated[
        str, typer.Option(help="What to write: label, probability, trees, reason; steps, which take long to count.")
    ] = "label,trees,reason",
    keep: Annotated[str, typer.Option(help="Input columns to pass through, comma-separated.", show_default=False)] = "",
    prefix: Annotated[str, typer.Option(help="Put before the names of written columns.", show_default=False)] = "",
    max_steps: Annotated[
        int | None, typer.Option(help="Of an anytime plan: steps per row.", show_default=False)
    ] = None,
    time_us: Annotated[
        float | None, typer.Option(help="Of an anytime plan: microseconds per row.", show_default=False)
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="That work at the same time; by default as many as cores.", show_default=False)
    ] = None,
    dask: Dask = None,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Score files of any size into Parquet, in constant memory.

    A second run skips what is complete. If some files cannot be read the others are finished, and the exit code is 1.
    """
    from rich.text import Text

    from scurry import batch, distributed

    if Path(output).suffix.lower() in _OTHER_TABLES:
        raise InputError(f"scores are written as Parquet; name a folder, or {Path(output).with_suffix('.parquet')}")
    with working(f"Reading {model.name}"):
        predictor = read_model(model, trust_pickle=trust_pickle).predictor
    if (max_steps is not None or time_us is not None) and not predictor.plan.by_step:
        raise InputError(
            f"--max-steps and --time-us need a plan that can stop after any step, and {model} has none; make one with: "
            "scurry anytime MODEL ROWS --label COLUMN -o ready.scurry"
        )
    asked: dict[str, Any] = {
        "columns": _names(columns),
        "keep": _names(keep),
        "prefix": prefix,
        "max_steps": max_steps,
        "time_us": time_us,
    }
    with progress("Scoring") as tell:
        if dask is None:
            report = batch.score(rows, predictor, output, n_threads=threads, progress=tell, **asked)
        else:
            report = distributed.score(rows, predictor, output, cluster=dask, progress=tell, **asked)
    facts = {
        "output": output,
        "n_rows": report.n_rows,
        "seconds": report.seconds,
        "rows_per_second": report.rows_per_second,
        "written": report.written,
        "skipped": report.skipped,
        "failed": report.failed,
    }
    told = {"rows": f"{report.n_rows:,} in {in_seconds(report.seconds)}, {report.rows_per_second:,.0f} a second"}
    told["written"] = f"{output}: {some(report.written) or 'nothing'}"
    if report.skipped:
        told["skipped"] = f"{len(report.skipped):,} complete since an earlier run"
    show(facts, as_json, told)
    for name, message in report.failed.items():
        console(stderr=True).print(
            "[bold red]failed:[/bold red]", Text(message if name in message else f"{name}: {message}")
        )
    if report.failed:
        raise typer.Exit(1)


@app.command(epilog="Example: [bold]scurry report fast.scurry test.parquet --label income -o report.html[/bold]")
def report(
    model: ModelFile,
    rows: Rows,
    output: Output = Path("report.html"),
    label: Label = None,
    title: Annotated[str | None, typer.Option(help="Of the page.", show_default=False)] = None,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Write a page about a model that needs nothing but a browser.

    ROWS neither trained the model nor calibrated its plan. With --label the page speaks of accuracy too.
    """
    from scurry.report import write

    with working(f"Reading {model.name}"):
        read = read_model(model, trust_pickle=trust_pickle)
    with working("Reading rows"):
        X, y = read_rows(rows, read.forest, label)
    with working(f"Measuring on {len(X):,} rows"):
        table = X if read.source is None else X.to_pandas()
        page = write(read.subject, output, table, y, model=read.source, title=title)
    size = in_bytes(page.stat().st_size)
    show({"file": str(page), "n_rows": len(X)}, as_json, {"written": f"{page} ({size}); open it in a browser"})


@app.command(epilog="Example: [bold]scurry bench fast.scurry rows.parquet[/bold]")
def bench(model: ModelFile, rows: Rows, as_json: AsJson = False, trust_pickle: TrustPickle = False) -> None:
    """Time a model on your rows: with all trees, by its plan, and as its own framework runs it.

    The framework takes part if the file holds its model (skops, pickle).

    All take turns; the best of several rounds counts.
    """
    from scurry.forest import as_rows
    from scurry.timing import Runner, measure_laps, wrap_model

    with working(f"Reading {model.name}"):
        read = read_model(model, trust_pickle=trust_pickle)
    with working("Reading rows"):
        X, _ = read_rows(rows, read.forest)
    runners = [Runner("all trees", read.forest.predict)]
    if read.subject is not read.forest:
        runners.append(Runner("by its plan", read.predictor.predict))
    if read.source is not None:
        runners.insert(0, wrap_model(read.source, X.to_pandas()))
    with working(f"Timing {len(X):,} rows"):
        times = measure_laps(runners, as_rows(read.forest, X))
    if as_json:
        found = {lap.task: dict(zip((r.name for r in runners), lap.seconds, strict=True)) for lap in times}
        typer.echo(json.dumps(found, indent=1))
        return
    table = table_of("", *(runner.name for runner in runners), *(["faster"] if len(runners) > 1 else []))
    for lap in times:
        ratio = [f"{lap.seconds[0] / lap.seconds[-1]:.1f} ×"] if len(runners) > 1 else []
        table.add_row(lap.task, *map(in_seconds, lap.seconds), *ratio)
    console().print(table)


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())
