"""Output of commands: progress on stderr, tables of at most 80 columns or JSON on stdout."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from scurry import Predictor

_N_SHOWN = 5
# A bar that vanishes at once only flickers, so short work shows none.
_PATIENCE_S = 0.5


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
    table.add_column(style="cyan", no_wrap=True)
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
