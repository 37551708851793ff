"""`scurry reproduce`: a paper's published figures beside those obtained here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import scurry
from scurry.cli.program import app
from scurry.errors import InputError

_FOLDER = Path("benchmarks", "papers")


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example: [bold]scurry reproduce qwyc --quick[/bold]",
)
def reproduce(
    context: typer.Context,
    paper: Annotated[str, typer.Argument(help="Its short name; a wrong one lists all.", show_default=False)],
) -> None:
    """Run a paper's experiments: published figures beside those obtained here.

    Needs a checkout of scurry's source and, for most papers, the data they used. What follows PAPER is passed on;
    --quick is understood by all of them.
    """
    folder = next(
        (top / _FOLDER for top in (Path.cwd(), *Path(scurry.__file__).parents) if (top / _FOLDER).is_dir()), None
    )
    if folder is None:
        raise InputError(
            f"the experiments are in {_FOLDER} of scurry's source, which is not installed with the package; run this "
            "in a checkout of it"
        )
    known = {path.stem.replace("_", "-"): path for path in sorted(folder.glob("*.py"))}
    if paper not in known:
        raise InputError(f"there is no experiment for {paper!r}; there are {', '.join(known)}")
    raise typer.Exit(subprocess.run([sys.executable, str(known[paper]), *context.args], check=False).returncode)
