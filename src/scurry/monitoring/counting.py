"""Counting: which rows of a batch become shadow rows, and what they add to the record of a watch.

The evidence of the latest epochs is kept up to date, and looked at after every few shadow rows (`LatestEvidence`).

Shadow rows are drawn by a key and the number of the row, so that batches and threads do not matter (`Draws`). Rows are
numbered in the order in which they come. Each block of `BLOCK` numbers draws the gaps between its shadow rows from a
counter under the key. Gaps of a fair draw have no memory, so that beginning anew in each block makes every row a shadow
row with the same probability, independently of all others; and any block can be drawn without those before it.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.errors import InputError, warn
from scurry.monitoring.betting import EPOCH, RUN_LENGTH
from scurry.monitoring.record import UNKNOWN, Kept, Record, Waiting
from scurry.monitoring.shadow import Comparison, count_losses
from scurry.predictor import Predictor
from scurry.promises import Outcomes


class LatestEvidence:
    """Whether the counts of a record raise an alarm. It looks at the latest epochs, and remembers those before.

    Labels come in any order, and fill epochs that were looked at before. Somebody who looked at every epoch anew each
    time would look far more often than the bets allow for. So where the promise waits for labels, all that have come
    are looked at together.

    Parameters
    ----------
    record : Record
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self._forget()

    def _forget(self) -> None:
        self._n_closed = 0
        n_bets = [len(part.log_gains) for part in self.record.setup.parts]
        # Before the first epoch that is not closed: what each gambler has who began at the first row, and all who began
        # before an epoch.
        self._log_capital, self._begun = [np.zeros(n) for n in n_bets], [np.zeros(n) for n in n_bets]

    def touch(self, epoch: int) -> None:
        """Note that counts of an epoch have changed."""
        if epoch < self._n_closed:
            self._forget()  # labels may come late, so that what was remembered is no longer true

    def look(self) -> tuple[bool, bool]:
        """Return whether an alarm and whether a change is found after one of the epochs not looked at before."""
        if self._n_closed >= len(self.record.started):
            return False, False
        e_values, changes = self._measure()
        if self.record.setup.promise.NEEDS_LABELS:
            e_values, changes = e_values[-1:], changes[-1:]
        limit = 1.0 / (1.0 - self.record.setup.confidence)
        return bool((e_values >= limit).any()), bool((changes >= RUN_LENGTH + EPOCH).any())

    def _measure(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the e-value and the detector of changes after each open epoch, and close all but the last."""
        record, first = self.record, self._n_closed
        parts, started = record.setup.parts, record.started[first:]
        e_values, changes = np.zeros(len(started)), np.zeros(len(started))
        for at, part in enumerate(parts):
            _core.follow_bets(
                record.epochs[at][first:],
                started,
                part.log_gains,
                first_capital=0.0 if part.allows_nothing else EPOCH,
                log_capital=self._log_capital[at],
                begun=self._begun[at],
                e_values=e_values,
                changes=changes,
            )
        self._n_closed += len(started) - 1
        return e_values / len(parts), changes / len(parts)


BLOCK = _core.DRAW_BLOCK


class Draws:
    """The numbers of shadow rows in an endless stream.

    Parameters
    ----------
    share : float in (0, 1]
        The probability with which a row is drawn.
    seed : int
        The key.

    Examples
    --------
    >>> draws = Draws(0.01, seed=7)
    >>> whole = draws.between(0, 100_000)
    >>> parts = [draws.between(start, start + 1000) for start in range(0, 100_000, 1000)]
    >>> bool((np.concatenate(parts) == whole).all()), 900 < len(whole) < 1100
    (True, True)
    """

    def __init__(self, share: float, seed: int) -> None:
        self.share, self.seed = share, seed % 2**64
        self._native = _core.Draws(share, self.seed)

    def between(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the numbers of the shadow rows from `start` to before `stop`, ascending."""
        return self._native.between(start, stop)

    def none_before(self, start: int) -> int:
        """Return a number up to which no row from `start` on is drawn: that of the next one, or the end of a block."""
        return self._native.none_before(start)

    def shadow_rows(self, n_features: int, dtype: str) -> _core.ShadowRows:
        """Return what draws rows of batches, and holds them until they are looked at."""
        return _core.ShadowRows(self.share, self.seed, n_features=n_features, is_float32=dtype == "float32")


# Shadow rows that are judged together: few at the begin of a stream, so that an early alarm is not late; later an
# eighth of those so far, because a handful of rows takes the full model almost as long as a few hundred.
LEAST_AT_ONCE, MOST_AT_ONCE, PART_AT_ONCE = 64, 1024, 8
_FILED_AT_ONCE = 4096  # what no alarm waits for is done for more rows at once
_MAX_REMEMBERED = 1 << 20  # ids of rows that were predicted, by which unknown ones are told apart


class Counting:
    """Draws shadow rows, compares them with the full model, and counts. Its watch holds a lock around every call.

    Parameters
    ----------
    predictor : Predictor
    record : Record
        What was counted so far.
    """

    def __init__(self, predictor: Predictor, record: Record) -> None:
        self.record, self.compare = record, Comparison(predictor, record.setup.promise)
        self._forest = predictor.forest
        self._draws, self._evidence = Draws(record.setup.share, record.seed), LatestEvidence(record)
        self._by_query = self.compare.by_query
        self.needs_groups = self._by_query or self.compare.by_group
        self._needs_names = self.needs_groups or record.setup.promise.NEEDS_LABELS
        self.pending = self._draws.shadow_rows(record.setup.n_features, record.setup.row_dtype)
        self._answers: list[NDArray[Any] | None] = []  # to the pending rows, where they are known
        self._row_dtype, self._at_once = np.dtype(record.setup.row_dtype), LEAST_AT_ONCE
        self._none_before = self._draws.none_before(record.next_number)  # so that most small batches need no look
        # Rows that were judged but not filed: rows, numbers, answers, those of the full model, whether they changed.
        self._judged: list[tuple[NDArray[Any], ...]] = []
        self._n_judged = 0
        self._ids: dict[int, Any] = {}  # of rows that are not filed, by number
        self._drawn_ids: set[Any] = set()  # the same ids
        self._remembered: set[Any] = set()
        # Whether every id that was ever predicted is remembered or waits: else an unknown one may be an old one.
        self._remembers_all = record.n_rows == 0
        if record.counts_lag:
            waiting = list(record.waiting.values())
            self._count_known(*self._read_waiting([(row, row.full) for row in waiting]))
            record.counts_lag = False

    def check_names(self, rows: NDArray[Any], ids: Any, groups: Any) -> None:
        """Raise an error unless `ids` and `groups` name rows as the promise needs it."""
        if ids is None and groups is None and not self._needs_names:
            return  # the common case, which single rows have to pay for in full
        if self.needs_groups and groups is None:
            raise InputError(
                "groups is needed: the promise is about queries or groups; name that of each row", argument="groups"
            )
        if groups is not None and not self.needs_groups:
            raise InputError("groups are for promises about queries or groups; leave them out", argument="groups")
        if groups is not None and len(np.asarray(groups)) != len(rows):
            raise InputError(f"groups must name the group of each of the {len(rows):,} rows", argument="groups")
        if ids is None:
            if self.record.setup.promise.NEEDS_LABELS:
                raise InputError(
                    "ids is needed: the promise compares answers with labels, which arrive later; name each row and "
                    "pass labels to learn_labels(ids, y)",
                    argument="ids",
                )
            return
        if len(_list_ids(ids)) != len(rows):
            raise InputError(f"ids must name each of the {len(rows):,} rows", argument="ids")

    def draw(self, rows: NDArray[Any], ids: Any, groups: Any, answers: NDArray[Any] | None) -> bool:
        """Draw shadow rows of a batch that was answered; return whether there are enough to be evaluated."""
        unit_of = None if groups is None else _find_units(groups)
        n_units = len(rows) if unit_of is None else int(unit_of.max(initial=-1)) + 1
        # Where labels do not matter, nobody waits for them.
        names = self._remember(_list_ids(ids)) if self.record.setup.promise.NEEDS_LABELS else None
        start = self.record.next_number
        self.record.next_number = stop = start + n_units
        self.record.n_rows += len(rows)
        if stop <= self._none_before:
            return False
        if unit_of is None and rows.dtype == self._row_dtype:
            chosen, self._none_before = self.pending.draw(rows, start)
        else:
            chosen = self._draws.between(start, stop) - start
            self._none_before = self._draws.none_before(stop)
            chosen, numbers = (chosen, chosen + start) if unit_of is None else self._choose_rows(unit_of, chosen, start)
            self.pending.add(rows.take(chosen, 0).astype(self._row_dtype, copy=False), numbers)
        if not len(chosen):
            return False
        if names is not None:
            numbers = self.pending.held()[1][-len(chosen) :]
            self._ids |= {int(number): names[at] for number, at in zip(numbers, chosen, strict=True)}
            self._drawn_ids |= {names[at] for at in chosen}
        self._answers.append(None if answers is None else answers.take(chosen))
        return len(self.pending) >= self._at_once

    def learn(self, ids: Any, y: Any) -> int:
        """Learn labels; return how many were awaited. If something is wrong with them, none is learned."""
        names = _list_ids(ids)
        if self._forest.classes is None:
            raise InputError("labels are for classifiers; this model predicts values")
        codes = self._forest.codes_of(y, "y")
        if len(codes) != len(names):
            raise InputError(f"y has {len(codes):,} labels, ids has {len(names):,}", argument="y")
        if len(set(names)) < len(names):
            raise InputError("ids names a row twice; pass one label for each", argument="ids")
        if not self.record.setup.promise.NEEDS_LABELS:
            return 0
        waiting = self.record.waiting
        unknown = [name for name in names if name not in waiting and name not in self._remembered]
        if unknown and self._remembers_all:
            raise InputError(
                f"{len(unknown):,} of {len(names):,} ids were never predicted, such as {unknown[0]!r}; pass those "
                "that were passed to predict(X, ids=…). Nothing was learned",
                argument="ids",
            )
        known = zip(names, codes.tolist(), strict=True)
        found = [(self.record.learn(name), code) for name, code in known if name in waiting]
        if found:
            self._count_labels(found)
        elif unknown:
            warn("none of these labels was awaited, and some ids are unknown; were they predicted by this watch?")
        return len(found)

    def append(self, record: Record) -> None:
        """Add the rows of another record behind those counted so far."""
        self.record.append(record)
        self._none_before = self._draws.none_before(self.record.next_number)
        self._evidence = LatestEvidence(self.record)

    def look(self) -> tuple[bool, bool]:
        """Return whether an alarm and whether a change is found."""
        return self._evidence.look()

    def judge(self) -> None:
        """Evaluate the shadow rows drawn so far by the full model, and count what they lose."""
        if not len(self.pending):
            return
        record, promise = self.record, self.record.setup.promise
        rows, numbers = self.pending.held()
        known = [answers for answers in self._answers if answers is not None]
        answers = np.concatenate(known) if sum(map(len, known)) == len(numbers) else None
        outcomes = self.compare.observe(self.compare.restore(rows), numbers, answers)
        changed = promise.find_changed(outcomes)
        # From here on nothing fails, so that rows are counted once or, if the model cannot answer them, not at all.
        self.pending.clear()
        self._answers = []
        if promise.NEEDS_LABELS:
            self._count_known(outcomes, numbers)
        else:
            self._count(outcomes, numbers, changed)
        n_shadow, n_changed = len(numbers), int(np.count_nonzero(changed))
        if self._by_query:
            is_first = np.diff(numbers, prepend=-1) != 0
            n_shadow = int(is_first.sum())
            n_changed = int((np.add.reduceat(changed, np.flatnonzero(is_first)) > 0).sum())
        record.n_shadow += n_shadow
        record.n_changed += n_changed
        self._at_once = min(max(record.n_shadow // PART_AT_ONCE, LEAST_AT_ONCE), MOST_AT_ONCE)
        self._judged.append((rows, numbers, outcomes.answers, outcomes.full, changed))
        self._n_judged += len(numbers)
        if self._n_judged >= _FILED_AT_ONCE:
            self._file()

    def evaluate(self) -> None:
        """Judge the shadow rows drawn so far, and file all that were judged."""
        self.judge()
        self._file()

    def _file(self) -> None:
        """Note where and of which class the rows are that were judged, and keep them."""
        if not self._judged:
            return
        record, setup, judged = self.record, self.record.setup, self._judged
        rows, numbers, full, changed = (np.concatenate([some[at] for some in judged]) for at in (0, 1, 3, 4))
        trees = self.compare.count_trees(rows, numbers)
        self._judged, self._n_judged = [], 0
        _tally(record.by_trees, trees, changed)
        if setup.classes:
            codes = self._forest.codes_of(full)
            _tally(record.by_class, codes, changed)
            if self._ids:
                answers = np.concatenate([some[2] for some in judged])
                ours, origin = self._forest.codes_of(answers), int(record.origin)
                for at, number in enumerate(numbers.tolist()):
                    if number in self._ids:
                        name = self._ids.pop(number)
                        record.wait_for(name, Waiting(number, int(ours[at]), int(codes[at]), origin))
                self._drawn_ids = set(self._ids.values())
        if setup.max_kept:
            origins, labels = np.full(len(rows), record.origin, np.uint64), np.full(len(rows), UNKNOWN, np.int32)
            record.keep(Kept(rows, numbers, origins, changed, trees, labels))

    def _choose_rows(
        self, unit_of: NDArray[np.int64], drawn: NDArray[np.int64], start: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of drawn queries, or one row of each drawn group; and their numbers."""
        if self._by_query:
            rows = np.flatnonzero(np.isin(unit_of, drawn))
            return rows, unit_of[rows] + start
        key, one = _core.mix_bits(self.record.seed % 2**64), []
        for unit in drawn.tolist():
            members = np.flatnonzero(unit_of == unit)
            one.append(members[_core.mix_bits((unit + start) ^ key) % len(members)])
        return np.array(one, np.int64), drawn + start

    def _remember(self, names: list[Any]) -> list[Any]:
        """Return the ids of rows, after a check that they are new."""
        given, waiting = set(names), self.record.waiting
        repeated = [name for name in given if name in waiting or name in self._drawn_ids]
        if repeated or len(given) < len(names):
            name = repeated[0] if repeated else Counter(names).most_common(1)[0][0]
            raise InputError(f"ids must name each row once, and {name!r} is not new", argument="ids")
        if len(self._remembered) + len(given) > _MAX_REMEMBERED:
            self._remembered, self._remembers_all = set(), False
        self._remembered |= given
        return names

    def _count(self, outcomes: Outcomes, numbers: NDArray[np.int64], changed: NDArray[np.bool_]) -> None:
        """Count rows, whose numbers ascend, in the epochs that they belong to."""
        record, now = self.record, time.time()
        # Few numbers are read: Python is faster at that than numpy.
        setup, listed = record.setup, memoryview(numbers)  # type: ignore[arg-type]  # numpy 1 does not declare it
        size, broken, start = setup.rows_per_epoch, changed.nonzero()[0].tolist(), 0
        record.reach(listed[-1] // size)
        while start < len(listed):
            epoch = listed[start] // size
            end = bisect_left(listed, (epoch + 1) * size, start)
            if setup.promise.COUNTS_CHANGED:
                n_broken = bisect_left(broken, end) - bisect_left(broken, start)
                record.add(epoch, [(end - start - n_broken, n_broken)], now)
            else:
                record.add(epoch, count_losses(setup.promise, setup.parts, outcomes.take(slice(start, end))), now)
            self._evidence.touch(epoch)
            start = end

    def _count_known(self, outcomes: Outcomes, numbers: NDArray[np.int64]) -> None:
        """Count rows whose true label does not matter.

        They count whether it ever comes or not: else a promise about them would be tested on rows of somebody's choice.
        """
        is_known = ~self.record.setup.promise.find_label_bound(outcomes)
        self._count_some(replace(outcomes, y=outcomes.full), numbers, is_known)  # any label will do

    def _count_some(self, outcomes: Outcomes, numbers: NDArray[np.int64], chosen: NDArray[np.bool_]) -> None:
        if chosen.any():
            some = outcomes.take(chosen)
            self._count(some, numbers[chosen], self.record.setup.promise.find_changed(some))

    def _read_waiting(self, found: list[tuple[Waiting, int]]) -> tuple[Outcomes, NDArray[np.int64]]:
        """Return outcomes and numbers of rows with their labels, by number."""
        classes, ordered = np.asarray(self._forest.classes), sorted(found, key=lambda pair: pair[0].number)
        codes = np.array([(row.answer, row.full, label) for row, label in ordered], np.int64).reshape(-1, 3)
        answers, full, y = classes[codes].T
        outcomes = Outcomes(answers=answers, full=full, y=y, classes=tuple(classes.tolist()))
        return outcomes, np.array([row.number for row, _ in ordered], np.int64)

    def _count_labels(self, found: list[tuple[Waiting, int]]) -> None:
        """Count rows whose labels have come, and note them on the rows that are kept."""
        record = self.record
        outcomes, numbers = self._read_waiting(found)
        self._count_some(outcomes, numbers, record.setup.promise.find_label_bound(outcomes))
        kept, labels = record.kept, record.kept.labels.copy()
        for row, label in found:
            place = kept.find(row.number, row.origin)
            if place is not None:
                labels[place] = label
        record.replace_kept(Kept(kept.rows, kept.numbers, kept.origins, kept.changed, kept.trees, labels))


def _tally(counts: NDArray[np.int64], kinds: NDArray[np.int32], changed: NDArray[np.bool_]) -> None:
    """Add shadow rows of each kind, and those that changed, to counts of shape (n_kinds, 2)."""
    counts[:, 0] += np.bincount(kinds, minlength=len(counts))
    counts[:, 1] += np.bincount(kinds[changed], minlength=len(counts))


def _list_ids(ids: Any) -> list[Any]:
    array = np.asarray(ids)
    if array.ndim != 1 or array.dtype.kind not in "iufUSO":
        raise InputError("ids must be an array of numbers or texts, one for each row", argument="ids")
    names: list[Any] = array.tolist()
    if array.dtype.kind == "O" and not all(isinstance(name, str | int) for name in names):
        raise InputError("ids must be numbers or texts, none of them missing", argument="ids")
    return names


def _find_units(groups: Any) -> NDArray[np.int64]:
    """Return the number of each row's query or group, by first appearance from 0 on."""
    _, first, codes = np.unique(np.asarray(groups), return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    units: NDArray[np.int64] = rank[codes]
    return units
