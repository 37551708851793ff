"""State: what a watch knows so far, computed from the counts of its record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.formatting import align, format_number, format_percent, format_share
from scurry.monitoring.betting import EPOCH, RUN_LENGTH, Counts, find_bounds, find_onset, log_detector, log_e_value
from scurry.monitoring.record import Record
from scurry.monitoring.selection import Selection, find_selection


class Tally(NamedTuple):
    """Shadow rows of one kind, and those of them that changed.

    Attributes
    ----------
    name : object
        A class, or a number of trees.
    n_shadow, n_changed : int
    """

    name: Any
    n_shadow: int
    n_changed: int

    @property
    def rate(self) -> float:
        """The share that changed; 0 without rows."""
        return self.n_changed / max(self.n_shadow, 1)


@dataclass(frozen=True, kw_only=True)
class PartState:
    """How one part of a promise does, such as the rows of one class.

    Attributes
    ----------
    what : str
        What is counted.
    unit : str
        What is counted instead of rows, such as "queries".
    max_rate : float
        What is promised.
    n_shadow, n_broken, n_mended : int
        Shadow rows that it is about; those that broke it; those that make up for it.
    rate, lower, upper : float
        The rate measured, and bounds that hold at all times at once.
    e_value : float
        Evidence against the promise: below 1 there is none.
    """

    what: str
    unit: str
    max_rate: float
    n_shadow: int
    n_broken: int
    n_mended: int
    rate: float
    lower: float
    upper: float
    e_value: float


@dataclass(frozen=True, kw_only=True)
class State:
    """What a watch knows so far.

    Attributes
    ----------
    n_rows, n_shadow, n_changed : int
        Rows predicted; those that the full model evaluated too; those of them whose answer changed.
    rate, lower, upper, max_rate : float
        The rate that the promise limits, as measured; bounds of it that hold at all times at once with `confidence`;
        and what is promised. With several parts, of the one that speaks most against the promise. With a window, of
        the latest shadow rows alone.
    e_value : float
        Evidence against the promise over all rows. If it is kept, this ever reaches ``1 / (1 - confidence)`` with
        probability ``1 - confidence`` at most.
    alarm : bool
        Whether it has reached that: the promise does not hold for the rows so far.
    change : bool
        Whether the detector of changes found that the promise does not hold any more. Where it is kept, a false one
        comes after a million shadow rows on average, or later.
    since : int or None
        The number of the row at which the first of both was raised, up to the length of an epoch; None without one.
    onset : int or None
        From which row on the rows speak most against the promise.
    confidence : float
    n_waiting : int
        Shadow rows whose labels are awaited.
    parts : tuple of PartState
    by_class, by_trees : tuple of Tally
        Shadow rows by the class that all trees give, and by the number of trees evaluated.
    since_time : datetime or None
        When the first of both was raised.
    selection : Selection or None
        Whether labels came for some answers rather than for others. Then neither an alarm nor its absence says
        anything about what is tested by labels.
    """

    n_rows: int
    n_shadow: int
    n_changed: int
    rate: float
    lower: float
    upper: float
    max_rate: float
    e_value: float
    alarm: bool
    change: bool
    since: int | None
    onset: int | None
    confidence: float
    n_waiting: int
    parts: tuple[PartState, ...]
    by_class: tuple[Tally, ...]
    by_trees: tuple[Tally, ...]
    since_time: datetime | None = field(default=None, compare=False)
    selection: Selection | None = None

    @property
    def is_raised(self) -> bool:
        """Whether there is an alarm of either kind."""
        return self.alarm or self.change

    def lines(self) -> dict[str, str]:
        """Return everything a reader may want to know, by name."""
        lines = {
            "verdict": self.verdict,
            "rows": f"{self.n_rows:,}, of which {self.n_shadow:,} were evaluated in full: {self.n_changed:,} changed",
        }
        for part in self.parts:
            mended = f", {part.n_mended:,} the other way round" if part.n_mended else ""
            lines[part.what] = (
                f"{_format_rate(part.rate)} ({_format_rate(part.lower)} to {_format_rate(part.upper)}), promised "
                f"{_format_rate(part.max_rate)}; {part.n_broken:,} of {part.n_shadow:,} {part.unit}{mended}"
            )
        lines["evidence"] = (
            f"e-value {format_e_value(self.e_value)} over all rows; the alarm is at {1 / (1 - self.confidence):.4g}"
            + ("; the detector of changes has raised its own" if self.change else "")
        )
        if self.n_waiting:
            lines["labels awaited"] = f"{self.n_waiting:,}"
        if self.selection is not None:
            lines[SELECTED] = (
                f"{self.selection.describe()}. So neither an alarm nor its absence says anything about what is tested "
                "by labels"
            )
        return lines

    @property
    def verdict(self) -> str:
        """What this means, in one sentence."""
        but = "" if self.selection is None else " But the labels that came were selected by the answer."
        if not self.is_raised:
            return f"No alarm.{but}" if self.n_shadow else "No shadow rows yet."
        time = "" if self.since_time is None else f" ({self.since_time:%Y-%m-%d %H:%M} UTC)"
        return (
            f"ALARM: the promise {'does not hold' if self.alarm else 'no longer holds'}, raised at row {self.since:,}"
            f"{time}; rows speak against it from row {self.onset:,} on."
            f"{but}"
        )

    def describe(self) -> str:
        """Return `lines` as a text."""
        return align(self.lines())

    def to_json(self) -> dict[str, Any]:
        """Return the state as an object of JSON."""
        data = asdict(self) | {"since_time": None if self.since_time is None else self.since_time.isoformat()}
        # JSON has no infinity, and every reader understands a number that is too large for any other meaning.
        data |= {name: [tally._asdict() for tally in getattr(self, name)] for name in _TALLIES}
        return {name: _finite(value) for name, value in data.items()}


SELECTED = "labels selected"
_TALLIES = ("by_class", "by_trees")


class Evidence(NamedTuple):
    """Whether alarms are raised, and in which epoch they were first (None: in none)."""

    log_e: float
    alarm_epoch: int | None
    change_epoch: int | None


def find_evidence(record: Record) -> Evidence:
    """Return the evidence of a record against its promise: averages over its parts."""
    if not len(record.started):
        return Evidence(0.0, None, None)
    e_values, changes = _find_evidence_of_epochs(record)
    limit = -math.log1p(-record.setup.confidence)
    alarms, found = e_values >= limit, changes >= math.log(RUN_LENGTH + EPOCH)
    seen = [
        None if number is None else record.epoch_of(number) for number in (record.alarm_number, record.change_number)
    ]
    epochs: list[int | None] = []
    for raised, epoch in zip((alarms, found), seen, strict=True):
        if record.setup.promise.NEEDS_LABELS:
            # Labels that come late fill earlier epochs, so that only all of them together count; see LatestEvidence.
            epochs.append(int(raised.argmax()) if epoch is None and raised[-1] else epoch)
        else:
            epochs.append(int(raised.argmax()) if raised.any() else epoch)
    return Evidence(float(e_values[-1]), *epochs)


def find_alarm_epoch(record: Record) -> int | None:
    """Return the epoch in which the first alarm of either kind was raised; None without one."""
    return min((epoch for epoch in find_evidence(record)[1:] if epoch is not None), default=None)


def read_state(record: Record) -> State:
    """Return what a record says."""
    setup, evidence = record.setup, find_evidence(record)
    start, confidence = _find_window(record)
    parts = []
    for part, epochs in zip(setup.parts, record.epochs, strict=True):
        total, latest = epochs.sum(axis=0), epochs[start:].sum(axis=0)
        low, high = find_bounds(part, latest, confidence)
        losses = np.array(part.losses)
        parts.append(
            PartState(
                what=part.what,
                unit=part.unit,
                max_rate=part.max_mean,
                n_shadow=int(latest.sum()),
                n_broken=int(latest[losses > 0].sum()),
                n_mended=int(latest[losses < 0].sum()),
                rate=part.mean(latest),
                lower=low,
                upper=high,
                e_value=_exp(float(log_e_value(part, total))),
            )
        )
    worst = max(range(len(parts)), key=lambda at: parts[at].e_value)
    epoch, onset, started = find_alarm_epoch(record), None, math.inf
    if epoch is not None:
        # Rows after the alarm may be fine again, or answered otherwise: they say nothing of how it came about.
        onset = find_onset(setup.parts[worst], record.epochs[worst][: epoch + 1]) * setup.rows_per_epoch
        started = float(record.started[min(epoch, len(record.started) - 1)])
    return State(
        n_rows=record.n_rows,
        n_shadow=record.n_shadow,
        n_changed=record.n_changed,
        rate=parts[worst].rate,
        lower=parts[worst].lower,
        upper=parts[worst].upper,
        max_rate=parts[worst].max_rate,
        e_value=_exp(evidence.log_e),
        alarm=evidence.alarm_epoch is not None,
        change=evidence.change_epoch is not None,
        since=None if epoch is None else epoch * setup.rows_per_epoch,
        onset=onset,
        confidence=setup.confidence,
        n_waiting=len(record.waiting),
        parts=tuple(parts),
        by_class=_tally(setup.classes, record.by_class),
        by_trees=_tally(range(setup.n_trees + 1), record.by_trees),
        since_time=datetime.fromtimestamp(started, UTC) if math.isfinite(started) else None,
        selection=find_selection(record),
    )


class History(NamedTuple):
    """How a watch came to its state, in a few stretches of rows; arrays of shape (n_stretches,).

    Attributes
    ----------
    what : str
        What was counted: of several parts, the one that speaks most against the promise.
    max_rate : float
        What is promised of it.
    first_row, last_row : int64 arrays
        The rows of each stretch.
    n_shadow : int64 array
        Shadow rows among them.
    rate, lower, upper : float64 arrays
        The rate among them, and bounds with the confidence of the watch, each for its own stretch.
    e_value : float64 array
        Evidence against the promise after each stretch, over all rows so far and all parts.
    detector : float64 array
        The detector of changes after each stretch. Its alarm is at a million.
    """

    what: str
    max_rate: float
    first_row: NDArray[np.int64]
    last_row: NDArray[np.int64]
    n_shadow: NDArray[np.int64]
    rate: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    e_value: NDArray[np.float64]
    detector: NDArray[np.float64]


def read_history(record: Record, n_stretches: int) -> History:
    """Return how a record came to its state."""
    setup, n_epochs = record.setup, len(record.started)
    totals = [float(log_e_value(p, e.sum(axis=0))) for p, e in zip(setup.parts, record.epochs, strict=True)]
    part, epochs = setup.parts[int(np.argmax(totals))], record.epochs[int(np.argmax(totals))]
    first_epoch = int(np.isfinite(record.started).argmax()) if n_epochs else 0
    edges = np.unique(np.linspace(first_epoch, n_epochs, n_stretches + 1).round().astype(np.int64))
    starts, ends = edges[:-1], edges[1:]
    counts = [epochs[a:b].sum(axis=0) for a, b in zip(starts, ends, strict=True)]
    bounds = np.array([find_bounds(part, count, setup.confidence) for count in counts]).reshape(-1, 2)
    e_values, detectors = _find_evidence_of_epochs(record)
    return History(
        what=part.what,
        max_rate=part.max_mean,
        first_row=starts * setup.rows_per_epoch,
        last_row=np.minimum(ends * setup.rows_per_epoch, max(record.next_number, 1)) - 1,
        n_shadow=np.array([count.sum() for count in counts], np.int64),
        rate=np.array([part.mean(count) for count in counts]),
        lower=bounds[:, 0],
        upper=bounds[:, 1],
        e_value=np.array([_exp(value) for value in e_values[ends - 1].tolist()]),
        detector=np.array([_exp(value) for value in detectors[ends - 1].tolist()]),
    )


def _find_evidence_of_epochs(record: Record) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return logarithms of the e-value and of the detector of changes after each epoch: averages over parts."""
    begins, parts = np.isfinite(record.started), list(zip(record.setup.parts, record.epochs, strict=True))
    return (
        _log_average([log_e_value(part, epochs.cumsum(axis=0)) for part, epochs in parts]),
        _log_average([log_detector(part, epochs, begins) for part, epochs in parts]),
    )


def read(paths: Sequence[str | PathLike[str]]) -> State:
    """Read the states that watches saved, of one predictor, and return that of all rows together.

    The predictor is not needed.

    Parameters
    ----------
    paths : sequence of str or path

    Returns
    -------
    State

    Raises
    ------
    FormatError
        If a file is corrupt, or holds something else.
    InputError
        If the states do not fit together, or some rows would count twice.
    """
    if not paths:
        raise InputError("paths must name one file or more", argument="paths")
    records = [Record.load(path) for path in paths]
    return read_state(records[0] if len(records) == 1 else Record.merge(records))


def format_e_value(value: float) -> str:
    """Return an e-value as text.

    Examples
    --------
    >>> format_e_value(0.0312), format_e_value(1234.5), format_e_value(math.inf)
    ('0.0312', '1,234.5', 'infinite')
    """
    if math.isinf(value):
        return "infinite"
    return f"{value:.3g}" if value > 1e6 else format_number(value)


def _format_rate(rate: float) -> str:
    return format_percent(rate) if rate == round(rate, 5) else format_share(rate)


def _find_window(record: Record) -> tuple[int, float]:
    """Return the first epoch of the window, and the confidence of bounds for it."""
    setup = record.setup
    if setup.window is None:
        return 0, setup.confidence
    n_rows = np.sum([epochs.sum(axis=1) for epochs in record.epochs], axis=0)
    behind = n_rows[::-1].cumsum()[::-1]
    start = int(np.flatnonzero(behind >= setup.window)[-1]) if (behind >= setup.window).any() else 0
    # Windows begin anywhere. Each begin takes a share of the risk, and all of them together no more than there is.
    return start, 1.0 - (1.0 - setup.confidence) / ((start + 1) * (start + 2))


def _tally(names: Any, counts: Counts) -> tuple[Tally, ...]:
    return tuple(Tally(n, int(s), int(c)) for n, (s, c) in zip(names, counts.tolist(), strict=True) if s)


def _log_average(logs: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    stacked = np.stack(logs)
    largest = stacked.max(axis=0)
    safe = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        average: NDArray[np.float64] = np.log(np.exp(stacked - safe).mean(axis=0)) + safe
    return average


def _exp(value: float) -> float:
    return math.exp(value) if value < 709.0 else math.inf


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return 1e308
    return value.item() if isinstance(value, np.generic) else value
