"""Commands that show results without a model of one's own: `demo` and `reproduce`.

`demo` shows what each budget saves on shipped data, `reproduce` runs the experiments of a paper.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import scurry
from scurry.cli.program import AsJson, app, console, make_table, show, show_progress
from scurry.errors import InputError
from scurry.formatting import format_percent, format_share

if TYPE_CHECKING:
    from rich.table import Table

    from scurry.cli.showcase import Demonstration

_N_STEPS = 6  # how often `showcase.run` announces a step
_INTRODUCTION = """\

A random forest and a boosted model on census data, and a forest on thyroid
tests that cost money, each made cheaper. All numbers are measured here and now,
on test rows.
"""
_LEGEND = """
early exit       a row stops evaluating trees once its label is clear
anytime          every row stops after a tenth of all tree steps
mean within $40  the best forest found whose tests cost $40 or less on average

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

    from scurry.cli.showcase import run

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
                format_share(line.saved) if line.saved else "",
                format_share(line.changed),
                "" if line.promised is None else f"≤ {format_percent(line.promised)}",
                format_share(line.accuracy),
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
