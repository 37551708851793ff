"""The command `watch`: what states of watches say, and the state that other commands go on with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scurry.cli.files import read_model
from scurry.cli.program import AsJson, MaybeOutput, TrustPickle, app
from scurry.cli.screen import show
from scurry.errors import InputError

if TYPE_CHECKING:
    from scurry import Predictor, Watch

_ALARM = 3  # exit code


@app.command(epilog="Example: [bold]scurry watch server-1.scurry-watch server-2.scurry-watch[/bold]")
def watch(
    states: Annotated[
        list[Path], typer.Argument(metavar="STATES", help="Files that watches saved.", show_default=False)
    ],
    model: Annotated[
        Path | None, typer.Option(help="The predictor that is watched; needed for a page.", show_default=False)
    ] = None,
    output: MaybeOutput = None,
    as_json: AsJson = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Show whether the promise of a predictor is still kept, by what watches have counted.

    States of several processes are added up. The exit code is 3 if there is an alarm. With --output and
    --model, it writes an HTML page.
    """
    from scurry import Watch, monitoring, report

    if (output is None) != (model is None):
        raise InputError("--output and --model go together: a page about a watch needs its predictor")
    state = monitoring.read(states)
    if output is not None and model is not None:
        predictor = read_model(model, trust_pickle=trust_pickle).predictor
        watches = [Watch.load(path, predictor) for path in states]
        report.write(watches[0] if len(watches) == 1 else Watch.merge(watches), output)
    show(state.to_json(), as_json, state.lines())
    if state.is_raised:
        raise typer.Exit(_ALARM)


def open_watch(path: Path, predictor: Predictor, share: float) -> Watch:
    """Return the watch that a file holds, or a new one if there is none."""
    from scurry import Watch
    from scurry import watch as start

    if not path.exists():
        return start(predictor, share)
    found = Watch.load(path, predictor)
    if found.share != share:
        raise InputError(
            f"--share is {share:g}, and {path} was begun with {found.share:g}; pass --share {found.share:g}"
        )
    return found
