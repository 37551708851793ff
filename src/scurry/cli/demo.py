"""`scurry demo`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scurry.cli.options import AsJson
from scurry.cli.program import app
from scurry.cli.screen import columns, console, percent, progress

if TYPE_CHECKING:
    from rich.table import Table

    from scurry.cli.showcase import Demonstration

_N_STEPS = 6
_INTRODUCTION = """\

A random forest and a boosted model on census data, and a forest on thyroid
tests that cost money, each made cheaper. All numbers are those of test rows,
measured here and now.
"""
_LEGEND = """
early exit  a row stops asking trees once its label is clear
anytime     every row is stopped after a tenth of all steps down the trees
pruned      branches are cut until the features that rows meet cost half

work        of a test row, on average
changed     labels other than the model's
promised    of new rows, with confidence 0.95
speed       against scikit-learn, a batch of rows on one thread
"""
_NEXT = """\
Next, with a model of yours (scikit-learn, XGBoost or LightGBM) and rows:
  [bold]scurry early-exit model.json rows.parquet --output fast.scurry[/bold]
  [bold]scurry predict fast.scurry new.parquet --output labels.parquet[/bold]
or in Python:
  [bold]fast = scurry.early_exit(model, X, max_disagreement=0.005)[/bold]
  [bold]scurry.report.write(fast, "report.html", X_test, y_test)[/bold]
"""


@app.command(epilog="Example: [bold]scurry demo[/bold]")
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the reports.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Make real models cheaper in three ways; show what that saves and costs, and write reports.

    Takes less than two minutes; needs neither a network nor a file.
    """
    from rich.markup import escape

    from scurry.cli.showcase import run

    screen, begun = console(), 0
    with progress("Demo") as tell:

        def began(step: str) -> None:
            nonlocal begun
            tell(begun, _N_STEPS, step)
            begun += 1

        found = run(output, began)
    if as_json:
        models = {name: [line._asdict() for line in lines] for name, lines in found.models.items()}
        typer.echo(json.dumps({"models": models, "pages": [str(page) for page in found.pages]}, indent=1))
        return
    screen.print(_INTRODUCTION)
    screen.print(_table(found))
    screen.print(_LEGEND)
    screen.print("Open in a browser:")
    for page in found.pages:
        screen.print(f"  [bold]{escape(str(page))}[/bold]", soft_wrap=True)
    screen.print()
    screen.print(_NEXT)


def _table(found: Demonstration) -> Table:
    table = columns("", "work", "saved", "changed", "promised", "accuracy", "speed")
    for name, lines in found.models.items():
        table.add_row(f"[bold]{name}[/bold]")
        for line in lines:
            table.add_row(
                f"  {line.way}",
                line.work,
                f"{100 * line.saved:.1f} %" if line.saved else "",
                percent(line.changed),
                "" if line.promised is None else f"≤ {percent(line.promised)}",
                f"{100 * line.accuracy:.1f} %",
                f"{line.speedup:.1f} ×",
            )
    return table
