"""The `scurry` command: its entry point, the options that commands share, and how errors and results are shown.

Commands write progress to stderr, and tables of at most 80 columns or JSON to stdout.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from scurry.errors import OutputError, ScurryError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from scurry import Predictor

_N_SHOWN = 5
# A bar that vanishes at once only flickers, so short work shows none.
_PATIENCE_S = 0.5
BROKEN = 3  # exit code where a promise is broken, or was asked for and cannot be made
_NAME_WIDTH = 24


def console(*, stderr: bool = False) -> Console:
    """Return a console with the colours and the width of the terminal, if there is one."""
    # Imported here, as everywhere in this package: rich takes longer to import than `scurry --version` to run.
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


@contextmanager
def show_spinner(text: str) -> Iterator[None]:
    """Show a spinner and the time passed while the block runs, on a terminal only."""
    with show_progress(text):
        yield


@contextmanager
def show_progress(text: str) -> Iterator[Callable[..., None]]:
    """Show a progress bar on a terminal, unless the block ends soon.

    The block gets a function ``update(n_done, n_total, message=None)``. Until its first call the bar only pulses.
    Without a message the bar shows the percentage.
    """
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[message]}"))
    screen = console(stderr=True)
    bar = Progress(*columns, TimeElapsedColumn(), console=screen, transient=True)
    task = bar.add_task(text, total=None, message="")
    start = threading.Timer(_PATIENCE_S, bar.start)
    if screen.is_terminal:
        start.start()

    def update(n_done: int, n_total: int, message: str | None = None) -> None:
        shown = f"{n_done / max(n_total, 1):.0%}" if message is None else message
        bar.update(task, total=n_total, completed=n_done, message=shown)

    try:
        yield update
    finally:
        start.cancel()
        if start.ident is not None:
            start.join()
            bar.stop()


def show(facts: Mapping[str, Any], as_json: bool, rows: Mapping[str, str]) -> None:
    """Print `facts` as JSON for machines, or `rows`, names and texts, for people."""
    if as_json:
        typer.echo(json.dumps(facts, indent=1, default=str))
    else:
        console().print(make_pairs(rows))


def certificate_json(predictor: Predictor) -> dict[str, Any]:
    """Return the certificate of a predictor for ``--json``, without the long summary of calibration rows."""
    known = {} if predictor.certificate is None else predictor.certificate.to_json()
    return {name: value for name, value in known.items() if name != "rows"}


def make_pairs(rows: Mapping[str, str]) -> Table:
    """Return a table of names and texts."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", max_width=_NAME_WIDTH)  # long names wrap, so that texts have most of 80 columns
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(value))  # Text: names of columns may look like markup
    return table


def make_table(*headers: str) -> Table:
    """Return a table without lines: names on the left, numbers aligned right."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan")
    table.add_column(headers[0], no_wrap=True)
    for header in headers[1:]:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def list_first(items: Sequence[object]) -> str:
    """Return the first few items, comma-separated."""
    return ", ".join(map(str, items[:_N_SHOWN])) + (", …" if len(items) > _N_SHOWN else "")


_ORDER = (
    "demo",
    "inspect",
    "early-exit",
    "anytime",
    "prune",
    "compress",
    "predict",
    "watch",
    "serve",
    "report",
    "bench",
    "export",
    "reproduce",
)


class _InOrder(TyperGroup):
    """A group that lists commands in the order in which a user meets them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command. Lines of its help are as long as the terminal is wide, not as those of the docstring."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and command.help:
            command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in command.help.split("\n\n"))
        return command


app = typer.Typer(
    cls=_InOrder,
    help="Make trained tree ensembles spend less per prediction, and say exactly what that costs.",
    epilog="Example: [bold]scurry demo[/bold]",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. A mistake of the user ends it with one line and exit code 2.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default the arguments of the process.
    """
    warnings.showwarning = _show_warning
    try:
        app(arguments)
    except BrokenPipeError:  # the reader of our output has gone, as in `scurry … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ScurryError as error:
        _fail(str(error))
    except OSError as error:
        if error.filename is None:  # not about a file of the user, so a bug: show the traceback
            raise
        _fail(f"{error.filename}: {error.strerror}")


def _fail(message: str) -> None:
    say("error: ", "bold red", message)
    sys.exit(2)


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Show a warning as a line: whoever types a command has no use for the place in our code."""
    if not issubclass(category, DeprecationWarning | PendingDeprecationWarning):
        say("warning: ", "bold yellow", str(message))


def say(what: str, style: str, message: str) -> None:
    """Print a line on stderr."""
    from rich.text import Text

    line = " ".join(message.split())  # one line, so that logs and scripts can take it whole
    screen = console(stderr=True)
    screen.print(Text.assemble((what, style), line), soft_wrap=not screen.is_terminal)


def _show_version(wanted: bool) -> None:
    if wanted:
        from scurry import __version__

        typer.echo(f"scurry {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None: ...


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
        help="Model file: XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.cbm, .json), ONNX, treelite, YDF, skops, "
        ".scurry; pickle and joblib with --trust-pickle.",
        show_default=False,
    ),
]
Rows = Annotated[
    list[str],
    typer.Argument(metavar="ROWS", help="Parquet, CSV or Arrow files, folders or patterns.", show_default=False),
]
MaybeRows = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ROWS]", help="Parquet, CSV or Arrow files, folders or patterns.", show_default=False),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="File to write.", show_default=False, callback=_check_folder)
]
MaybeOutput = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write.", show_default=False, callback=_check_folder)
]
WatchFile = Annotated[
    Path | None,
    typer.Option(
        "--watch",
        help="File with the state of a watch, which is continued or created; see scurry watch.",
        show_default=False,
        callback=_check_folder,
    ),
]
Share = Annotated[float, typer.Option(help="Share of rows that a watch evaluates in full (with --watch).")]
Label = Annotated[str | None, typer.Option(help="Column with the labels.", show_default=False)]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Dask = Annotated[str | None, typer.Option(help="Dask cluster: local, or tcp://host:port.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="Load pickle and joblib files. This runs code from the file.")
]
