"""`scurry reproduce`: a paper's published figures beside those obtained here."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

import scurry
from scurry.cli.options import AsJson
from scurry.cli.program import app
from scurry.cli.screen import show
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
    as_json: AsJson = False,
) -> None:
    """Run a paper's experiments: published figures beside those obtained here.

    Needs a checkout of scurry's source and, for most papers, the data they used.

    What follows PAPER is passed on: --quick takes minutes instead of hours, PAPER --help lists the rest.

    With --json the report is printed as JSON once it is complete, and on stderr as it grows.
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
        subjects = {name: _subject(path) for name, path in known.items()}
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


def _subject(path: Path) -> str:
    """The first line of what an experiment says about itself."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]
