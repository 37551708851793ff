"""Record: everything a watch has counted and kept. Records add up, and lie in files."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from os import PathLike
from types import UnionType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, InputError
from scurry.forest.files.storage import Container, pack_values, read_container, unpack_values, write_container
from scurry.monitoring.betting import EPOCH, Counts, Part
from scurry.promises import Promise

KIND = "watch"
UNKNOWN = -1  # the label of a row before it is known


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What records must have in common to be merged.

    Attributes
    ----------
    digest : str
        Of the predictor.
    promise : Promise
        What is watched.
    parts : tuple of Part
        Its parts.
    share, confidence : float
    window, max_kept : int or None, int
    n_trees, n_features : int
    classes : tuple
        The model's labels as Python's own; empty for a regressor.
    row_dtype : str
        Of kept rows.
    """

    digest: str
    promise: Promise
    parts: tuple[Part, ...]
    share: float
    confidence: float
    window: int | None
    max_kept: int
    n_trees: int
    n_features: int
    classes: tuple[Any, ...]
    row_dtype: str

    @cached_property
    def rows_per_epoch(self) -> int:
        """Numbers of rows in an epoch, shadow rows and others."""
        return math.ceil(EPOCH / self.share)

    def find_difference(self, other: Setup) -> str | None:
        """Return the name of something that is not the same; None if everything is."""
        return next((f.name for f in fields(self) if getattr(self, f.name) != getattr(other, f.name)), None)


@dataclass(frozen=True, eq=False)
class Kept:
    """Shadow rows that are kept, with what is known of each. Rows of one query have the same number.

    Attributes
    ----------
    rows : array of shape (n_rows, n_features)
    numbers : int64 array of shape (n_rows,)
        Numbers of rows, or of queries, in the order in which their process got them.
    origins : uint64 array of shape (n_rows,)
        Which process that was.
    changed : bool array of shape (n_rows,)
        Whether the answer is another than the full model's, or too far from it.
    trees : int32 array of shape (n_rows,)
        Trees evaluated before the row stopped.
    labels : int32 array of shape (n_rows,)
        Numbers of true classes; -1 if not known.
    """

    rows: NDArray[Any]
    numbers: NDArray[np.int64]
    origins: NDArray[np.uint64]
    changed: NDArray[np.bool_]
    trees: NDArray[np.int32]
    labels: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def empty(cls, setup: Setup) -> Self:
        """Return no rows."""
        columns: list[NDArray[Any]] = [np.empty(0, dtype) for dtype in _KEPT_DTYPES.values()]
        return cls(np.empty((0, setup.n_features), setup.row_dtype), *columns)

    @classmethod
    def join(cls, parts: Iterable[Kept], max_kept: int) -> Self:
        """Return the latest rows of all parts, each of which is in order, whatever the order of the parts is."""
        listed = list(parts)
        filled = [part.numbers for part in listed if len(part)]
        is_ordered = all(before[-1] < after[0] for before, after in pairwise(filled))
        while is_ordered and len(listed) > 1 and sum(map(len, listed[1:])) >= max_kept:
            del listed[0]  # too old, as of one process most are
        joined = cls(*(np.concatenate([getattr(part, f.name) for part in listed]) for f in fields(cls)))
        if not is_ordered:
            order = np.lexsort((joined.origins, joined.numbers))  # stable, so that rows of a query stay as they were
            joined = joined.where(order)
        if len(joined) <= max_kept:
            return joined
        # From the first row of a query on, because half of one cannot be ranked.
        starts = np.flatnonzero(np.diff(joined.units, prepend=-1))
        cut = starts[starts >= len(joined) - max_kept]
        return joined.where(np.arange(cut[0] if len(cut) else len(joined), len(joined)))

    @property
    def units(self) -> NDArray[np.int64]:
        """The row, query or group of each row, numbered from 0 on: numbers alone are those of one process."""
        is_next = (np.diff(self.numbers) != 0) | (self.origins[1:] != self.origins[:-1])
        units: NDArray[np.int64] = np.concatenate([np.zeros(min(len(self), 1), np.int64), is_next.cumsum()])
        return units

    def find(self, number: int, origin: int) -> int | None:
        """Return the place of a row; None if it is not kept."""
        first, end = (int(np.searchsorted(self.numbers, number, side)) for side in ("left", "right"))
        place = first + int(np.searchsorted(self.origins[first:end], np.uint64(origin)))
        return place if place < end and self.origins[place] == origin else None

    def where(self, chosen: NDArray[Any]) -> Self:
        """Return some of the rows: a mask, or indices."""
        return type(self)(*(getattr(self, f.name)[chosen] for f in fields(self)))


@dataclass(frozen=True, eq=False)
class Waiting:
    """A shadow row whose label is awaited, with the classes that the predictor and all trees answer.

    Its number and its process are those of `Kept`.
    """

    number: int
    answer: int
    full: int
    origin: int


class Record:
    """What a watch has counted and kept so far. Not safe to use from several threads: its watch takes care of that.

    Parameters
    ----------
    setup : Setup
    seed : int
        Draws the shadow rows.
    first_number : int
        The number of the first row.
    """

    def __init__(self, setup: Setup, seed: int, first_number: int = 0) -> None:
        self.setup, self.seed = setup, seed
        self.first_number = self.next_number = first_number
        # Tells processes apart, so that no rows are counted twice.
        self.origins: tuple[str, ...] = (secrets.token_hex(8),)
        self.n_rows = self.n_shadow = self.n_changed = 0
        self.epochs: list[Counts] = [np.zeros((0, len(part.losses)), np.int64) for part in setup.parts]
        self.started = np.zeros(0, np.float64)  # when the first shadow row of each epoch came, in seconds since 1970
        self.by_class = np.zeros((len(setup.classes), 2), np.int64)
        self.by_trees = np.zeros((setup.n_trees + 1, 2), np.int64)
        self.waiting: dict[Any, Waiting] = {}
        # Of epochs with such rows: how many wait for their label, and how many have learned it, by what they were
        # answered; int64 arrays of shape (2, n_classes).
        self.labels: dict[int, Counts] = {}
        # Whether rows of which the label does not matter count only once it is known, as in early files.
        self.counts_lag = False
        # Where each alarm was first seen: within an epoch, at whose end there may be less evidence again.
        self.alarm_number: int | None = None
        self.change_number: int | None = None
        self._kept = [Kept.empty(setup)]
        self._n_more = 0  # rows behind the first part, which `kept` joins

    @property
    def kept(self) -> Kept:
        """The shadow rows that are kept, by their numbers."""
        if len(self._kept) > 1:
            self.replace_kept(Kept.join(self._kept, self.setup.max_kept))
        return self._kept[0]

    def keep(self, rows: Kept) -> None:
        """Keep rows, and forget the oldest ones if there are too many."""
        self._kept.append(rows)
        self._n_more += len(rows)
        if self._n_more > self.setup.max_kept:
            self.replace_kept(self.kept)

    def replace_kept(self, kept: Kept) -> None:
        """Replace all rows that are kept."""
        self._kept, self._n_more = [kept], 0

    @property
    def is_raised(self) -> bool:
        """Whether an alarm of either kind was seen."""
        return self.alarm_number is not None or self.change_number is not None

    @property
    def origin(self) -> np.uint64:
        """The number by which kept rows name this process."""
        return np.uint64(int(self.origins[0], 16))

    def epoch_of(self, number: int) -> int:
        """Return the epoch of a row."""
        return number // self.setup.rows_per_epoch

    def wait_for(self, name: Any, row: Waiting) -> None:
        """Wait for the label of a row."""
        self.waiting[name] = row
        epoch = self.epoch_of(row.number)
        if epoch not in self.labels:
            self.labels[epoch] = np.zeros((2, len(self.setup.classes)), np.int64)
        self.labels[epoch][0, row.answer] += 1

    def learn(self, name: Any) -> Waiting:
        """Return a row whose label has come."""
        row = self.waiting.pop(name)
        epoch = self.epoch_of(row.number)
        counts = self.labels[epoch]
        counts[:, row.answer] += -1, 1
        if not counts[0].any():
            del self.labels[epoch]  # nobody waits: there is nothing to compare
        return row

    def reach(self, epoch: int) -> None:
        """Make room for the counts of all epochs up to this one."""
        n_more = epoch + 1 - len(self.started)
        if n_more > 0:
            self.epochs = [np.concatenate([old, np.zeros((n_more, old.shape[1]), np.int64)]) for old in self.epochs]
            self.started = np.concatenate([self.started, [np.inf] * n_more])

    def add(self, epoch: int, counts: Sequence[Counts | Sequence[int]], now: float) -> None:
        """Count losses of rows of one epoch."""
        self.reach(epoch)
        for total, more in zip(self.epochs, counts, strict=True):
            total[epoch] += more
        self.started[epoch] = min(self.started[epoch], now)

    def append(self, other: Record) -> None:
        """Add the rows of another record behind those counted so far, as if they had come next.

        Its epochs begin within the current one, so that many short records make no more epochs than one long one.
        """
        first = self.epoch_of(self.next_number)
        for epoch in np.flatnonzero(np.isfinite(other.started)).tolist():
            self.add(first + epoch, [counts[epoch] for counts in other.epochs], float(other.started[epoch]))
        kept = other.kept
        numbers, origins = kept.numbers + self.next_number, np.full(len(kept), self.origin, np.uint64)
        self.keep(Kept(kept.rows, numbers, origins, kept.changed, kept.trees, kept.labels))
        for name in ("n_rows", "n_shadow", "n_changed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.by_class += other.by_class
        self.by_trees += other.by_trees
        self.next_number += other.next_number

    @classmethod
    def merge(cls, records: Sequence[Record]) -> Record:
        """Return one record of the rows of all, whatever their order.

        Raises
        ------
        InputError
            If they do not fit together, or some rows would count twice.
        """
        first = records[0]
        for other in records[1:]:
            difference = first.setup.find_difference(other.setup)
            if difference == "digest":
                raise InputError("the states are of different predictors; merge those of one")
            if difference is not None:
                raise InputError(f"the states differ in {difference}; merge states of watches with the same settings")
        origins = sorted(origin for record in records for origin in record.origins)
        if len(set(origins)) < len(origins):
            raise InputError(
                "two of the states continue the same one, so that their common rows would count twice; merge only the "
                "latest state of each process, and let every process begin with a new one"
            )
        merged = cls(first.setup, min(record.seed for record in records))
        merged.first_number = min(record.first_number for record in records)
        merged.next_number = max(record.next_number for record in records)
        merged.origins = tuple(origins)
        for name in ("n_rows", "n_shadow", "n_changed", "by_class", "by_trees"):
            setattr(merged, name, sum(getattr(record, name) for record in records))
        n_epochs = max(len(record.started) for record in records)
        merged.epochs = [np.zeros((n_epochs, total.shape[1]), np.int64) for total in merged.epochs]
        merged.started = np.full(n_epochs, np.inf)
        for record in records:
            for total, more in zip(merged.epochs, record.epochs, strict=True):
                total[: len(more)] += more
            begun = merged.started[: len(record.started)]
            np.minimum(begun, record.started, out=begun)
            repeated = merged.waiting.keys() & record.waiting.keys()
            if repeated:
                raise InputError(f"the id {min(repeated, key=repr)!r} waits for its label in two of the states")
            merged.waiting |= record.waiting
            merged.counts_lag |= record.counts_lag
            for epoch, counts in record.labels.items():
                merged.labels[epoch] = merged.labels.get(epoch, 0) + counts
        merged._kept = [Kept.join([record.kept for record in records], first.setup.max_kept)]
        return merged

    @staticmethod
    def write(path: str | PathLike[str], header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Write what `to_parts` returned to a file in one move: a reader sees the old file or the new one.

        So does one after the machine lost power.
        """
        write_container(path, KIND, header, arrays, durable=True)

    def copy(self) -> Record:
        """Return a record that later counts do not change."""
        record = Record(self.setup, self.seed)
        vars(record).update(vars(self))
        record.epochs, record.started = [counts.copy() for counts in self.epochs], self.started.copy()
        record.by_class, record.by_trees = self.by_class.copy(), self.by_trees.copy()
        record.waiting, record._kept = dict(self.waiting), list(self._kept)
        record.labels = {epoch: counts.copy() for epoch, counts in self.labels.items()}
        return record

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a header for JSON and arrays from which `from_container` makes the same record."""
        setup, kept = self.setup, self.kept
        header: dict[str, Any] = {
            "setup": {
                "digest": setup.digest,
                "promise": setup.promise.to_json(),
                "parts": [[part.what, list(part.losses), part.max_mean, part.unit] for part in setup.parts],
                "share": setup.share,
                "confidence": setup.confidence,
                "window": setup.window,
                "max_kept": setup.max_kept,
                "n_trees": setup.n_trees,
                "n_features": setup.n_features,
                "classes": list(setup.classes),
                "row_dtype": setup.row_dtype,
            },
            "seed": str(self.seed),
            "origins": list(self.origins),
            "alarm_number": self.alarm_number,
            "change_number": self.change_number,
            "waiting": pack_values(_as_objects(list(self.waiting))),
        }
        header |= {name: getattr(self, name) for name in _NUMBERS}
        waiting = [(row.number, row.answer, row.full) for row in self.waiting.values()]
        arrays: dict[str, NDArray[Any]] = {
            "started": self.started,
            "by_class": self.by_class,
            "by_trees": self.by_trees,
            "waiting": np.array(waiting, np.int64).reshape(-1, 3),
            "waiting_origins": np.array([row.origin for row in self.waiting.values()], np.uint64),
            "label_epochs": np.array(list(self.labels), np.int64),
            "labels_learned": np.array([counts[1] for counts in self.labels.values()], np.int64).reshape(
                len(self.labels), len(setup.classes)
            ),
        }
        arrays |= {f"epochs_{at}": counts for at, counts in enumerate(self.epochs)}
        return header, arrays | {f"kept_{f.name}": getattr(kept, f.name) for f in fields(kept)}

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Record:
        """Return the record that a file holds; nothing in it is executed.

        Raises
        ------
        FormatError
            If the file is corrupt, or holds something else.
        """
        container = read_container(path)
        if container.kind != KIND:
            raise FormatError(f"{container.path} holds a {container.kind!r}, not the state of a watch")
        return cls.from_container(container)

    @classmethod
    def from_container(cls, container: Container) -> Record:
        """Return the record of an opened file."""
        with container.reading("state of a watch"):
            try:
                return cls._read(container)
            except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
                if isinstance(error, FormatError):
                    raise
                raise FormatError(f"it cannot be read: {error}") from error

    @classmethod
    def _read(cls, container: Container) -> Record:
        given = container.field("setup", dict)
        setup = Setup(
            promise=Promise.from_json(given["promise"]),
            parts=tuple(
                Part(str(what), tuple(map(float, losses)), float(most), str(unit))
                for what, losses, most, unit in given["parts"]
            ),
            classes=tuple(given["classes"]),
            **{name: given[name] for name in _PLAIN},
        )
        _check_setup(setup)
        # Before anything of that size is made.
        by_trees = _read_array(container, "by_trees", (setup.n_trees + 1, 2))
        record = cls(setup, int(container.field("seed", str)))
        for name in _NUMBERS:
            setattr(record, name, container.field(name, int))
        record.alarm_number = container.field("alarm_number", int | None)
        record.change_number = container.field("change_number", int | None)
        record.origins = tuple(map(str, container.field("origins", list)))
        record.started = container.array("started", np.float64).copy()
        n_epochs = len(record.started)
        record.epochs = [
            _read_array(container, f"epochs_{at}", (n_epochs, len(part.losses))) for at, part in enumerate(setup.parts)
        ]
        record.by_class = _read_array(container, "by_class", (len(setup.classes), 2))
        record.by_trees = by_trees
        dtypes = {"rows": np.dtype(setup.row_dtype).type} | _KEPT_DTYPES
        kept = Kept(*(container.array(f"kept_{f.name}", dtypes[f.name]) for f in fields(Kept)))
        if kept.rows.shape[1:] != (setup.n_features,) or len({len(getattr(kept, f.name)) for f in fields(kept)}) != 1:
            raise FormatError("its kept rows do not fit together")
        record._kept = [kept]
        ids, waiting = unpack_values(container.field("waiting", dict)).tolist(), container.array("waiting", np.int64)
        origins = np.full(len(waiting), record.origin, np.uint64)  # early files do not say
        if container.has_array("waiting_origins"):
            origins = container.array("waiting_origins", np.uint64)
        n_classes = len(setup.classes)
        if ((kept.labels < UNKNOWN) | (kept.labels >= n_classes)).any() or (
            (waiting[:, 1:] < 0) | (waiting[:, 1:] >= n_classes)
        ).any():
            raise FormatError("it names classes that there are not")
        if min(getattr(record, name) for name in _NUMBERS) < 0 or (kept.numbers < 0).any() or (waiting < 0).any():
            raise FormatError("it has numbers below 0")
        if not setup.promise.NEEDS_LABELS:
            return record  # early files have rows that wait for labels which do not matter
        for name, (number, answer, full), origin in zip(ids, waiting.tolist(), origins.tolist(), strict=True):
            record.wait_for(name, Waiting(number, answer, full, origin))
        record.counts_lag = not container.has_array("label_epochs")
        if not record.counts_lag:
            epochs = container.array("label_epochs", np.int64)
            learned = _read_array(container, "labels_learned", (len(epochs), n_classes))
            if set(epochs.tolist()) != record.labels.keys():
                raise FormatError("its labels are not of the rows that wait for theirs")
            for epoch, counts in zip(epochs.tolist(), learned, strict=True):
                record.labels[epoch][1] = counts
        return record


_NUMBERS = ("first_number", "next_number", "n_rows", "n_shadow", "n_changed")
_PLAIN = ("digest", "share", "confidence", "window", "max_kept", "n_trees", "n_features", "row_dtype")
_KEPT_DTYPES: dict[str, type] = {
    "numbers": np.int64,
    "origins": np.uint64,
    "changed": np.bool_,
    "trees": np.int32,
    "labels": np.int32,
}


def _check_setup(setup: Setup) -> None:
    """Raise an error unless the settings of a file are such as a watch makes."""
    wanted: dict[str, type | UnionType] = dict.fromkeys(("max_kept", "n_trees", "n_features"), int)
    wanted |= {"digest": str, "row_dtype": str, "share": int | float, "confidence": int | float, "window": int | None}
    is_sound = all(
        isinstance(getattr(setup, name), kind) and not isinstance(getattr(setup, name), bool)
        for name, kind in wanted.items()
    )
    if not (
        is_sound
        and 0 < setup.share <= 1
        and 0 < setup.confidence < 1
        and min(setup.max_kept, setup.n_trees, setup.n_features) >= 0
        and (setup.window is None or setup.window > 0)
        and setup.row_dtype in ("float32", "float64")
        and setup.parts
    ):
        raise FormatError("it has impossible settings")


def _read_array(container: Container, name: str, shape: tuple[int, int]) -> Counts:
    array = container.array(name, np.int64)
    if array.shape != shape or (array < 0).any():
        raise FormatError(f"array {name!r} has shape {array.shape}, not {shape}, or counts below 0")
    return array.copy()


def _as_objects(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array
