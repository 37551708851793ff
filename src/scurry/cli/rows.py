"""Commands that run a model on rows: `predict`, `serve`, `report`, `bench` and `watch`.

`watch` says what states of watches hold, and writes the state that other commands go on with.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scurry.cli.files import read_model, read_queries
from scurry.cli.program import (
    BROKEN,
    AsJson,
    Dask,
    Label,
    MaybeOutput,
    ModelFile,
    Output,
    Rows,
    Share,
    TrustPickle,
    WatchFile,
    app,
    console,
    list_first,
    make_table,
    say,
    show,
    show_progress,
    show_spinner,
)
from scurry.errors import InputError
from scurry.formatting import format_bytes, format_seconds

if TYPE_CHECKING:
    from scurry import Predictor, Watch


@app.command(epilog="Example: [bold]scurry watch server-1.scurry-watch server-2.scurry-watch[/bold]")
def watch(
    states: Annotated[
        list[Path], typer.Argument(metavar="STATES", help="Files that watches saved.", show_default=False)
    ],
    model: Annotated[
        Path | None, typer.Option(help="The predictor that is watched; needed for a page.", show_default=False)
    ] = None,
    output: MaybeOutput = None,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Show whether the promise of a predictor is still kept, by what watches have counted.

    States of several processes are added up. The exit code is 3 if there is an alarm. With --output and
    --model, it writes an HTML page.
    """
    from scurry import Watch, monitoring, report

    if (output is None) != (model is None):
        raise InputError("--output and --model go together: a page about a watch needs its predictor")
    state = monitoring.read(states)
    if output is not None and model is not None:
        predictor = read_model(model, trust_pickle=trust_pickle).predictor
        watches = [Watch.load(path, predictor) for path in states]
        report.write(watches[0] if len(watches) == 1 else Watch.merge(watches), output)
    show(state.to_json(), as_json, state.lines())
    if state.is_raised:
        raise typer.Exit(BROKEN)


def open_watch(path: Path, predictor: Predictor, share: float) -> Watch:
    """Return the watch that a file holds, or a new one if there is none."""
    from scurry import Watch
    from scurry import watch as start

    if not path.exists():
        return start(predictor, share)
    found = Watch.load(path, predictor)
    if found.share != share:
        raise InputError(
            f"--share is {share:g}, and {path} was begun with {found.share:g}; pass --share {found.share:g}"
        )
    return found


_OTHER_TABLES = (".csv", ".tsv", ".json", ".arrow", ".feather", ".ipc", ".xlsx")


@app.command(
    epilog="Example: [bold]scurry predict fast.scurry rows/*.parquet --keep id -o scores/[/bold]",
)
def predict(
    model: ModelFile,
    rows: Rows,
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="Folder, or for one input a .parquet file.", show_default=False),
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns to write: label or prediction, probability (of two classes, that of the second, which "
            "`scurry inspect` names last), trees, reason, steps (slow).",
            show_default="label,trees,reason; of a regressor prediction,trees,reason",
        ),
    ] = None,
    keep: Annotated[str, typer.Option(help="Input columns to copy, comma-separated.", show_default=False)] = "",
    prefix: Annotated[str, typer.Option(help="Prefix of the names of written columns.", show_default=False)] = "",
    max_steps: Annotated[
        int | None, typer.Option(help="Largest number of steps per row (anytime plans only).", show_default=False)
    ] = None,
    time_us: Annotated[
        float | None, typer.Option(help="Microseconds per row (anytime plans only).", show_default=False)
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Column with the query of each row (plans that keep the top k only).", show_default=False),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Number of threads (default: all cores).", show_default=False)
    ] = None,
    dask: Dask = None,
    watch: WatchFile = None,
    share: Share = 0.002,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Predict the rows of files of any size, in constant memory, and write Parquet files.

    A second run skips finished outputs. If some files cannot be read, the others are scored, and the exit code is 1.
    """
    from rich.text import Text

    from scurry import batch, distributed

    if Path(output).suffix.lower() in _OTHER_TABLES:
        raise InputError(f"scores are written as Parquet; name a folder, or {Path(output).with_suffix('.parquet')}")
    with show_spinner(f"Reading {model.name}"):
        predictor = read_model(model, rows=rows, trust_pickle=trust_pickle).predictor
    # `Predictor` would refuse them too, but only after rows were read, and once for each file.
    if (max_steps is not None or time_us is not None) and not predictor.plan.by_step:
        raise InputError(
            f"--max-steps and --time-us need a plan that can stop after any step, and {model} has none; make one with: "
            "scurry anytime MODEL ROWS --label COLUMN -o ready.scurry"
        )
    _check_groups(predictor, model, groups)
    written = _split("label,trees,reason" if columns is None else columns)
    if columns is not None and "label" in written and not predictor.forest.is_classifier:
        raise InputError(
            f"--columns: {model} is a regressor and has no labels; write its value: "
            f"--columns {','.join('prediction' if name == 'label' else name for name in written)}"
        )
    options: dict[str, Any] = {
        "columns": written,
        "keep": _split(keep),
        "prefix": prefix,
        "max_steps": max_steps,
        "time_us": time_us,
        "groups": groups,
    }
    watching = None if watch is None else open_watch(watch, predictor, share)
    options |= {"watch": watching, "watch_path": watch}
    with show_progress("Scoring") as update:
        if dask is None:
            report = batch.score(rows, predictor, output, n_threads=threads, progress=update, **options)
        else:
            report = distributed.score(rows, predictor, output, cluster=dask, progress=update, **options)
    facts = {
        "output": output,
        "n_rows": report.n_rows,
        "seconds": report.seconds,
        "rows_per_second": report.rows_per_second,
        "written": report.written,
        "skipped": report.skipped,
        "failed": report.failed,
        "unknown_categories": report.n_unknown,
    }
    if watching is not None and watch is not None:
        watching.save(watch)
        facts["watch"] = watching.state.to_json()
    lines = {"rows": f"{report.n_rows:,} in {format_seconds(report.seconds)}, {report.rows_per_second:,.0f} a second"}
    names = list_first(report.written) or "nothing"
    lines["written"] = output if names == Path(output).name else f"{output}: {names}"
    if report.skipped:
        lines["skipped"] = f"{len(report.skipped):,} finished by an earlier run"
    if watching is not None:
        lines["watch"] = watching.state.verdict
    show(facts, as_json, lines)
    for column, n_unknown in report.n_unknown.items():
        what = f"{n_unknown:,} of {report.n_rows:,} rows have a value that is no category of the model"
        say("warning: ", "bold yellow", f"column {column!r}: {what}; it counts as missing")
    for name, message in report.failed.items():
        console(stderr=True).print(
            "[bold red]failed:[/bold red]", Text(message if name in message else f"{name}: {message}")
        )
    if report.failed:
        raise typer.Exit(1)


@app.command(epilog="Example: [bold]scurry serve fast.scurry --port 8000[/bold]")
def serve(
    model: ModelFile,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all networks.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    name: Annotated[
        str | None, typer.Option(help="Name of the model in URLs.", show_default="the file's, without its ending")
    ] = None,
    budget_us: Annotated[
        float, typer.Option(help="Microseconds to answer a request that does not say how long it may take.")
    ] = 500_000.0,
    min_steps: Annotated[
        int | None,
        typer.Option(
            help="Steps without which a row is not answered (anytime plans only).", show_default="a tenth of all steps"
        ),
    ] = None,
    max_waiting: Annotated[
        int, typer.Option(help="Requests that may wait; further ones are refused with status 503.")
    ] = 1000,
    watch: WatchFile = None,
    share: Share = 0.002,
    trust_pickle: TrustPickle = False,
) -> None:
    r"""Answer requests over HTTP, with version 2 of the Open Inference Protocol.

    Requests that cannot be answered in time are refused with status 503. SIGTERM and Ctrl-C stop the server; it answers
    those that wait first.

    Needs the extra serve: pip install "scurry\[serve]"
    """
    from scurry import serving

    name = re.sub(r"[^A-Za-z0-9._-]+", "-", model.stem).strip("-") if name is None else name
    with show_spinner(f"Reading {model.name}"):
        predictor = read_model(model, trust_pickle=trust_pickle).predictor
    try:
        serving.serve(
            predictor if watch is None else open_watch(watch, predictor, share),
            host=host,
            port=port,
            name=name,
            budget_us=budget_us,
            min_steps=min_steps,
            max_waiting=max_waiting,
            watch_path=watch,
            on_start=lambda url: typer.echo(f"Serving {model.name} at {url}/v2/models/{name}"),
        )
    except InputError as error:
        option = None if error.argument is None else f"--{error.argument.replace('_', '-')}"
        raise InputError(error.describe(option)) from error


@app.command(epilog="Example: [bold]scurry report fast.scurry test.parquet --label income -o report.html[/bold]")
def report(
    model: ModelFile,
    rows: Rows,
    output: Output = Path("report.html"),
    label: Label = None,
    groups: Annotated[
        str | None,
        typer.Option(
            help="Column with the query of each row (plans that keep the top k), or its group (promises about groups).",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Page title.", show_default=False)] = None,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Write a self-contained HTML page about a model.

    Use rows on which the model was neither trained nor calibrated. With --label the page shows accuracy too.
    """
    from scurry.report import write

    with show_spinner(f"Reading {model.name}"):
        read = read_model(model, rows=rows, trust_pickle=trust_pickle)
    with show_spinner("Reading rows"):
        X, y, queries = read_queries(rows, read.forest, label, groups)
    with show_spinner(f"Measuring on {len(X):,} rows"):
        table = X if read.source is None else X.to_pandas()  # most frameworks read no Arrow tables
        try:
            page = write(read.subject, output, table, y, groups=queries, model=read.source, title=title)
        except InputError as error:
            named = {"groups": "--groups", "y_test": "--label"}
            raise InputError(error.describe(named.get(error.argument or ""))) from error
    size = format_bytes(page.stat().st_size)
    show({"file": str(page), "n_rows": len(X)}, as_json, {"written": f"{page} ({size}); open it in a browser"})


@app.command(epilog="Example: [bold]scurry bench fast.scurry rows.parquet[/bold]")
def bench(
    model: ModelFile,
    rows: Rows,
    groups: Annotated[
        str | None,
        typer.Option(help="Column with the query of each row (plans that keep the top k only).", show_default=False),
    ] = None,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Time a model on your rows: with all trees, by its plan, and in its own framework.

    The framework is timed if the file holds its model (skops, pickle).

    They take turns, and the shortest of several times counts. Rows that come one by one are answered by the function
    that one_row() of the model makes, as in a service, and by the framework's predict: the median and the 99th
    percentile of different rows. Documents that are ranked come by query, and are not timed one by one.
    """
    from scurry.timing import Runner, measure_laps, measure_rows, wrap_model

    with show_spinner(f"Reading {model.name}"):
        read = read_model(model, rows=rows, trust_pickle=trust_pickle)
    with show_spinner("Reading rows"):
        _check_groups(read.predictor, model, groups)
        X, _, queries = read_queries(rows, read.forest, None, groups)
    forest, predictor = read.forest, read.predictor

    def rank(table: Any, n_threads: int) -> object:
        return predictor.predict(table, n_threads, groups=queries[: len(table)])  # tables are the first rows

    runners = [Runner("all trees", forest.predict, one_row=forest.one_row)]
    if queries is not None:
        runners.append(Runner("by its plan", rank))
    elif read.subject is not forest:
        runners.append(Runner("by its plan", predictor.predict, one_row=predictor.one_row))
    if read.source is not None:
        # First, because the last column compares the last runner with the first.
        runners.insert(0, wrap_model(read.source))
    with show_spinner(f"Timing {len(X):,} rows"):
        given = X if read.source is None else X.to_pandas()
        # An array that means the same as the table; where it does not, functions of one row get tables.
        has_values = forest.encode_numbers and len(forest.categories) > 0
        is_plain = forest.front is None and forest.raw_rows is None and not has_values
        prepared = forest.encoder(X)(X) if is_plain else None
        times = measure_laps(runners, given)
        times += measure_rows(runners, given, prepared) if queries is None else []
    if as_json:
        found = {lap.task: dict(zip((r.name for r in runners), lap.seconds, strict=True)) for lap in times}
        typer.echo(json.dumps(found, indent=1))
        return
    table = make_table("", *(runner.name for runner in runners), *(["faster"] if len(runners) > 1 else []))
    for lap in times:
        ratio = [f"{lap.seconds[0] / lap.seconds[-1]:.1f} ×"] if len(runners) > 1 else []
        table.add_row(lap.task, *map(format_seconds, lap.seconds), *ratio)
    console().print(table)


def _check_groups(predictor: Predictor, model: Path, groups: str | None) -> None:
    if predictor.plan.ranks_groups != (groups is not None):
        raise InputError(
            f"--groups is for plans that keep the top k of queries, and {model} has none"
            if groups is not None
            else f"{model} keeps the top k of queries; name the column with the query of each row: --groups COLUMN"
        )


def _split(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())
