"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scurry.errors import OutputError


def _check_folder(output: Path | None) -> Path | None:
    """Refuse at once what could not be written after minutes of work, and return the rest."""
    if output is not None and not output.absolute().parent.is_dir():
        raise OutputError(f"{output} cannot be written: there is no folder {output.parent}; make it, or name another")
    return output


# Defined once, so that an option has the same name and help in every command.
ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="Model file: XGBoost (.json, .ubj), LightGBM (.txt), skops, .scurry; pickle and joblib with "
        "--trust-pickle.",
        show_default=False,
    ),
]
Rows = Annotated[
    list[str],
    typer.Argument(metavar="ROWS", help="Parquet, CSV or Arrow files, folders or patterns.", show_default=False),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="File to write.", show_default=False, callback=_check_folder)
]
MaybeOutput = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write.", show_default=False, callback=_check_folder)
]
Label = Annotated[str | None, typer.Option(help="Column with the labels.", show_default=False)]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Dask = Annotated[str | None, typer.Option(help="Dask cluster: local, or tcp://host:port.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="Load pickle and joblib files. This runs code from the file.")
]
