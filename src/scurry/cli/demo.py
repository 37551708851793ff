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

    from scurry.demo import Line

_NEXT = """\
[bold]Next, with a model and rows of yours[/bold] (scikit-learn, XGBoost or LightGBM)

  scurry early-exit model.json rows.parquet --max-disagreement 0.005 -o fast.scurry
  scurry predict fast.scurry new.parquet -o scores.parquet

or in Python: [bold]scurry.early_exit(model, X_calibrate, max_disagreement=0.005)[/bold]
"""


@app.command(epilog="Example: [bold]scurry demo[/bold]")
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for reports.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Make models of real data cheaper, three ways, and show what that costs.

    Takes a minute or two; needs neither a network nor a file.
    """
    from scurry import demo

    with progress("") as tell:
        found = demo.run(output, began=lambda step: tell(None, step))
    if as_json:
        models = {model: [line._asdict() for line in lines] for model, lines in found.models.items()}
        typer.echo(json.dumps({"models": models, "pages": [str(page) for page in found.pages]}, indent=1))
        return
    screen = console()
    for model, lines in found.models.items():
        screen.print(f"\n[bold]{model}[/bold]")
        screen.print(_table(lines))
    screen.print(
        "\nChanged: test rows that get another label than the model's, with what was promised. Speed: on one thread,\n"
        "beside the model's own predict, measured here and now.\n"
    )
    screen.print(f"Reports: {', '.join(str(page) for page in found.pages)}\n")
    screen.print(_NEXT)


def _table(lines: list[Line]) -> Table:
    table = columns("", "work per row", "saved", "changed", "promised", "accuracy", "speed")
    for line in lines:
        table.add_row(
            line.way,
            line.work,
            percent(line.saved) if line.saved else "",
            percent(line.changed),
            "" if line.promised is None else f"≤ {percent(line.promised)}",
            f"{100 * line.accuracy:.1f} %",
            f"{line.speedup:.1f} ×",
        )
    return table
