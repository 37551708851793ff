"""`scurry reproduce`: a paper's published figures beside those obtained here."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import scurry
from scurry.cli.program import app
from scurry.cli.screen import console, pairs
from scurry.errors import InputError

_FOLDER = Path("benchmarks", "papers")


@app.command(
    # What follows PAPER is the experiment's own, --help included.
    context_settings={"allow_extra_args": True, "allow_interspersed_args": False},
    epilog="Example: [bold]scurry reproduce qwyc --quick[/bold]",
)
def reproduce(
    context: typer.Context,
    paper: Annotated[
        str | None, typer.Argument(metavar="PAPER", help="Its short name; without it, all are listed.")
    ] = None,
) -> None:
    """Run a paper's experiments: published figures beside those obtained here.

    Needs a checkout of scurry's source and, for most papers, the data they used.

    What follows PAPER is passed on: --quick takes minutes instead of hours, PAPER --help lists the rest.
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
    if paper is None:
        console().print(pairs({name: _subject(path) for name, path in known.items()}))
        return
    if paper not in known:
        raise InputError(f"there is no experiment for {paper!r}; there are {', '.join(known)}")
    raise typer.Exit(subprocess.run([sys.executable, str(known[paper]), *context.args], check=False).returncode)


def _subject(path: Path) -> str:
    """The first line of what an experiment says about itself."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]
