"""`scurry demo`: show what each budget saves on shipped data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scurry.cli.program import AsJson, app
from scurry.cli.screen import console, make_table, show_progress
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
                f"{100 * line.saved:.1f} %" if line.saved else "",
                format_share(line.changed),
                "" if line.promised is None else f"≤ {format_percent(line.promised)}",
                f"{100 * line.accuracy:.1f} %",
                f"{line.speedup:.1f} ×",
            )
    return table
