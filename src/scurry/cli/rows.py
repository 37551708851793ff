"""Commands that run a model on rows: `predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from scurry.cli.files import read_model
from scurry.cli.options import AsJson, ModelFile, Rows, TrustPickle
from scurry.cli.program import app
from scurry.cli.screen import console, in_seconds, progress, show, some, working
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
        str, typer.Option(help="What to write: label, probability, trees, steps, reason. Fewer are faster.")
    ] = "label,trees,steps,reason",
    keep: Annotated[str, typer.Option(help="Input columns to pass through, comma-separated.", show_default=False)] = "",
    prefix: Annotated[str, typer.Option(help="Put before the names of written columns.", show_default=False)] = "",
    max_steps: Annotated[
        int | None, typer.Option(help="Of an anytime plan: steps per row.", show_default=False)
    ] = None,
    time_us: Annotated[
        float | None, typer.Option(help="Of an anytime plan: microseconds per row.", show_default=False)
    ] = None,
    threads: Annotated[int | None, typer.Option(help="By default all cores.", show_default=False)] = None,
    dask: Annotated[
        str | None, typer.Option(help="Score on a cluster: local, or tcp://host:port.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Score files of any size into Parquet, in constant memory.

    A second run skips what is complete. If some files cannot be read the others are finished, and the exit code is 1.
    """
    from scurry import batch, distributed

    if Path(output).suffix.lower() in _OTHER_TABLES:
        raise InputError(f"scores are written as Parquet; name a folder, or {Path(output).with_suffix('.parquet')}")
    with working(f"Reading {model.name}"):
        predictor = read_model(model, trust_pickle=trust_pickle).predictor
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
            f"[bold red]failed:[/bold red] {message}" if name in message else f"{name}: {message}"
        )
    if report.failed:
        raise typer.Exit(1)


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())
