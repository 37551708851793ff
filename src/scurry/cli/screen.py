"""What the terminal shows: progress on stderr, tables of at most 80 columns and JSON on stdout."""

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

    from scurry.predictor import Predictor

_N_SHOWN = 5
_PATIENCE_S = 0.5


def console(*, stderr: bool = False) -> Console:
    """Where to print; colours and width are those of the terminal, if there is one."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


@contextmanager
def working(text: str) -> Iterator[None]:
    """A spinner and the time passed while the block runs, on a terminal only."""
    with progress(text):
        yield


@contextmanager
def progress(text: str) -> Iterator[Callable[..., None]]:
    """Show a bar on a terminal, unless the block is soon done.

    The block is given ``tell(n_done, n_total, message=None)``; until it calls that, the bar only moves to and fro.
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

    def tell(n_done: int, n_total: int, message: str | None = None) -> None:
        shown = f"{n_done / max(n_total, 1):.0%}" if message is None else message
        bar.update(task, total=n_total, completed=n_done, message=shown)

    try:
        yield tell
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
        console().print(pairs(rows))


def certificate_json(predictor: Predictor) -> dict[str, Any]:
    """Return what is known of a predictor's promise, for ``--json``; without the summary of calibration rows."""
    known = {} if predictor.certificate is None else predictor.certificate.to_json()
    return {name: value for name, value in known.items() if name != "rows"}


def pairs(rows: Mapping[str, str]) -> Table:
    """A table of names and what they are."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table


def columns(*headers: str) -> Table:
    """A table without lines: names left, numbers right."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan")
    table.add_column(headers[0], no_wrap=True)
    for header in headers[1:]:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def some(items: Sequence[object]) -> str:
    """The first few, comma-separated."""
    return ", ".join(map(str, items[:_N_SHOWN])) + (", …" if len(items) > _N_SHOWN else "")


def in_bytes(count: int) -> str:
    """A size with its unit."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def in_seconds(duration: float) -> str:
    """A duration with its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if duration >= size:
            return f"{duration / size:.3g} {unit}"
    return f"{duration / 1e-6:.3g} µs"


def percent(share: float) -> str:
    """A share with as many digits as it deserves."""
    return f"{100 * share:.3g} %"
