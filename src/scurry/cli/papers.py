"""`scurry reproduce`: run the experiments of a paper."""

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
from scurry.cli.program import AsJson, app
from scurry.cli.screen import show
from scurry.errors import InputError

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
