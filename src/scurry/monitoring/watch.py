"""Watch: a predictor whose promise is tested on the rows that it predicts."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import RandomState, check_confidence, check_count, check_instance, draw_seed, is_number
from scurry.errors import InputError, warn
from scurry.forest import as_rows, in_blocks
from scurry.forest.storage import container_bytes, container_of
from scurry.monitoring.alarm import LatestEvidence
from scurry.monitoring.draws import Draws, mix
from scurry.monitoring.explain import Explanation, explain
from scurry.monitoring.recalibrate import find_active, recalibrate
from scurry.monitoring.record import KIND, UNKNOWN, Kept, Record, Setup, Waiting
from scurry.monitoring.shadow import Comparison, count_losses, find_parts, take
from scurry.monitoring.state import History, State, find_alarm_epoch, read_history, read_state
from scurry.predictor import Predictor
from scurry.promises import Outcomes, Promise, SizeMeasurement
from scurry.runners.runner import Run

DEFAULT_SHARE, DEFAULT_KEPT = 0.002, 20_000
ACTIONS = ("warn", "full", "widen")
# Shadow rows that are evaluated together: few at the begin of a stream, so that an early alarm is not late; later an
# eighth of those so far, because a handful of rows takes the full model almost as long as a few hundred.
_LEAST_AT_ONCE, _MOST_AT_ONCE, _PART_AT_ONCE = 64, 512, 8
_MAX_REMEMBERED = 1 << 20  # ids of rows that were predicted, by which unknown ones are told apart

OnAlarm = str | Callable[[State], object]


class Watch:
    """A predictor whose promise is tested while it predicts; `scurry.watch` makes it. Safe to use from several threads.

    A random share of the rows, the shadow rows, is evaluated by the full model too. Which rows these are depends on the
    seed and on the numbers of rows alone. They are evaluated together, 64 to 512 at a time,
    and at the latest when `state` is read.

    Parameters
    ----------
    predictor : Predictor
    record : Record
        What was counted so far.
    on_alarm : {"warn", "full", "widen"} or callable
        See `on_alarm`.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(6000, random_state=0)
    >>> model = RandomForestClassifier(21, max_depth=6, random_state=0).fit(X[:1000], y[:1000])
    >>> fast = scurry.early_exit(model, X[1000:4000], max_disagreement=0.02, random_state=0)
    >>> watch = scurry.watch(fast, share=0.5, random_state=0)
    >>> bool((watch.predict(X[4000:]) == fast.predict(X[4000:])).all())
    True
    >>> watch.state.n_rows, watch.state.n_shadow, watch.state.alarm
    (2000, 989, False)
    """

    def __init__(self, predictor: Predictor, record: Record, on_alarm: OnAlarm = "warn") -> None:
        self.predictor = predictor
        self._record, self._lock = record, RLock()
        self._compare = Comparison(predictor, record.setup.promise)
        self._draws = Draws(record.setup.share, record.seed)
        self._evidence = LatestEvidence(record)
        self._by_query, self._by_group = self._compare.by_query, self._compare.by_group
        self._pending: list[tuple[NDArray[Any], NDArray[np.int64], NDArray[Any] | None]] = []
        self._n_pending, self._at_once = 0, _LEAST_AT_ONCE
        self._none_before = self._draws.none_before(record.next_number)  # so that most small batches need no look
        self._ids: dict[int, Any] = {}  # of pending rows, by number
        self._remembered: set[Any] = set()
        # Whether every id that was ever predicted is remembered or waits: else an unknown one may be an old one.
        self._remembers_all = record.n_rows == 0
        self.on_alarm = on_alarm

    @classmethod
    def start(
        cls,
        predictor: Predictor,
        *,
        share: float = DEFAULT_SHARE,
        confidence: float = 0.95,
        window: int | None = None,
        random_state: RandomState = None,
        keep_rows: bool | int = True,
        on_alarm: OnAlarm = "warn",
        first_row: int = 0,
    ) -> Watch:
        """Return a watch that has seen no rows yet; `scurry.watch` explains the arguments."""
        check_instance("predictor", predictor, Predictor, hint="; make one with scurry.early_exit(model, X_cal)")
        promise, forest = predictor.promise, predictor.forest
        parts = () if promise is None else find_parts(promise)
        if promise is None or not parts:
            raise InputError(
                "predictor must promise something about its answers, and this one "
                f"{'promises nothing' if promise is None else 'promises a cost'}; make one with "
                "scurry.early_exit(model, X_cal)",
                argument="predictor",
            )
        if predictor.certificate is not None and isinstance(predictor.certificate.measured, SizeMeasurement):
            # Rows would be compared with the small forest itself, and no promise would ever seem broken.
            raise InputError(
                "predictor was made by scurry.compress and does not hold the model that its promise compares with; compare "
                "recent rows with scurry.report.write(predictor, path, X, y, model=model)",
                argument="predictor",
            )
        setup = Setup(
            digest=predictor.digest,
            promise=promise,
            parts=parts,
            share=_check_share(share),
            confidence=check_confidence(confidence),
            window=None if window is None else check_count("window", window, hint="; None counts all shadow rows"),
            max_kept=_check_kept(keep_rows),
            n_trees=forest.n_trees,
            n_features=forest.n_features,
            classes=() if forest.classes is None else tuple(forest.classes.tolist()),
            row_dtype=_row_dtype(predictor),
        )
        return cls(predictor, Record(setup, draw_seed(random_state), check_count("first_row", first_row, 0)), on_alarm)

    @property
    def share(self) -> float:
        """The share of rows that the full model evaluates too."""
        return self._record.setup.share

    @property
    def promise(self) -> Promise:
        """What is watched."""
        return self._record.setup.promise

    @property
    def needs_groups(self) -> bool:
        """Whether the promise is about queries or groups, so that predictions need `groups`."""
        return self._by_query or self._by_group

    @property
    def on_alarm(self) -> OnAlarm:
        """What happens when an alarm of either kind is raised.

        "warn": a warning, once, and answers as before. "full": a warning, and every tree is evaluated from then on.
        "widen": a warning, and thresholds are moved outward until the kept shadow rows certify the promise again; every
        tree is evaluated if they do not. A callable is called once, with the state; answers stay as they are.
        """
        return self._on_alarm

    @on_alarm.setter
    def on_alarm(self, action: OnAlarm) -> None:
        if not callable(action) and action not in ACTIONS:
            accepted = ", ".join(f'"{name}"' for name in ACTIONS)
            raise InputError(f"on_alarm must be {accepted} or a callable, got {action!r}", argument="on_alarm")
        with self._lock:
            self._on_alarm: OnAlarm = action
            self._active = self.predictor
            if self._record.is_raised:
                self._active = self._find_active()

    @property
    def active(self) -> Predictor:
        """What answers: the predictor or, after an alarm, what `on_alarm` asks for."""
        return self._active

    def predict(self, X: Any, n_threads: int | None = 1, *, ids: Any = None, groups: Any = None) -> NDArray[Any]:
        """Predict the label or the value of each row, as the predictor does.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
            None uses all cores.
        ids : array of shape (n_rows,), optional
            Names of rows, numbers or texts, by which `learn_labels` finds them. Promises about labels need them.
        groups : array of shape (n_rows,), optional
            The query of each row, or the group, where the promise is about queries or groups. All rows of one must
            come in one call.

        Returns
        -------
        array of shape (n_rows,)
        """
        in_parts = None if ids is not None or groups is not None else in_blocks(X, lambda x: self.predict(x, n_threads))
        if in_parts is not None:
            return in_parts
        rows = as_rows(self.predictor.forest, X)
        self._check_names(rows, ids, groups)
        active = self._active
        answers = active.predict(rows, n_threads, groups=groups if self._by_query else None)
        self._draw(rows, ids, groups, answers if active is self.predictor else None)
        return answers

    def predict_proba(
        self, X: Any, n_threads: int | None = 1, *, ids: Any = None, groups: Any = None
    ) -> NDArray[np.float64]:
        """Predict class probabilities, as the predictor does.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
        ids, groups : optional
            As for `predict`.

        Returns
        -------
        float64 array of shape (n_rows, n_classes)
        """
        in_parts = (
            None if ids is not None or groups is not None else in_blocks(X, lambda x: self.predict_proba(x, n_threads))
        )
        if in_parts is not None:
            return in_parts
        rows = as_rows(self.predictor.forest, X)
        self._check_names(rows, ids, groups)
        answers = self._active.predict_proba(rows, n_threads)
        self._draw(rows, ids, groups, None)
        return answers

    def run(self, X: Any, n_threads: int | None = 1, *, ids: Any = None, groups: Any = None) -> Run:
        """Predict, and report how much work each row took and why it ended, as the predictor does.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
        ids, groups : optional
            As for `predict`.

        Returns
        -------
        Run
        """
        rows = as_rows(self.predictor.forest, X)
        self._check_names(rows, ids, groups)
        active = self._active
        run = active.run(rows, n_threads, groups=groups if self._by_query else None)
        self._draw(rows, ids, groups, run.labels if active is self.predictor else None)
        return run

    @property
    def state(self) -> State:
        """What is known so far."""
        with self._flushed():
            return read_state(self._record)

    def history(self, n_stretches: int = 30) -> History:
        """Return how the state came about: rates and evidence in a few stretches of rows.

        Parameters
        ----------
        n_stretches : int, default 30
            At most so many.

        Returns
        -------
        History
        """
        check_count("n_stretches", n_stretches)
        with self._flushed():
            return read_history(self._record, n_stretches)

    def learn_labels(self, ids: Any, y: Any) -> int:
        """Learn the labels of rows that were predicted with these `ids`.

        Labels of all rows may be passed; those of shadow rows count.

        Parameters
        ----------
        ids : array of shape (n_rows,)
        y : array of shape (n_rows,)
            Their true labels.

        Returns
        -------
        int
            How many of them were awaited.

        Raises
        ------
        InputError
            If an id was never predicted, or a label is none of the model's. Nothing is learned then.
        """
        names, forest = _list_ids(ids), self.predictor.forest
        if forest.classes is None:
            raise InputError("labels are for classifiers; this model predicts values")
        codes = forest.codes_of(y, "y")
        if len(codes) != len(names):
            raise InputError(f"y has {len(codes):,} labels, ids has {len(names):,}", argument="y")
        if len(set(names)) < len(names):
            raise InputError("ids names a row twice; pass one label for each", argument="ids")
        with self._lock:
            self._evaluate()
            waiting = self._record.waiting
            unknown = [name for name in names if name not in waiting and name not in self._remembered]
            if unknown and self._remembers_all:
                raise InputError(
                    f"{len(unknown):,} of {len(names):,} ids were never predicted, such as {unknown[0]!r}; pass those "
                    "that were passed to predict(X, ids=…). Nothing was learned",
                    argument="ids",
                )
            found = [(waiting.pop(name), int(code)) for name, code in zip(names, codes, strict=True) if name in waiting]
            if found:
                self._count_labels(found)
            elif unknown:
                warn("none of these labels was awaited, and some ids are unknown; were they predicted by this watch?")
            raised = self._raise_alarm()
        self._act(raised)
        return len(found)

    @property
    def awaited_ids(self) -> list[Any]:
        """The ids of shadow rows whose labels are awaited."""
        with self._flushed():
            return list(self._record.waiting)

    def explain(self) -> Explanation:
        """Return where changed rows concentrate, and which features left what the calibration rows looked like.

        Returns
        -------
        Explanation
            Print it.
        """
        with self._flushed():
            state, kept = read_state(self._record), self._record.kept
        return explain(self.predictor, state, kept)

    def recalibrate(self, **options: Any) -> Predictor:
        """Return a new predictor with the same promise, certified on the shadow rows.

        After an alarm these are the shadow rows since, which had no part in raising it; else all that are kept.

        Parameters
        ----------
        **options
            Of `scurry.early_exit`, such as `method`, `promise` and `random_state`.

        Returns
        -------
        Predictor

        Raises
        ------
        InfeasibleError
            If there are too few; `n_rows_needed` and the message say how many are missing.
        """
        with self._flushed():
            kept, epoch = self._record.kept, find_alarm_epoch(self._record)
        # An epoch in which an alarm was raised had a part in it, to its end.
        first = 0 if epoch is None else (epoch + 1) * self._record.setup.rows_per_epoch
        return recalibrate(self._compare, self._record.setup, kept, first, options)

    def count(self, X: Any, *, ids: Any = None, groups: Any = None) -> None:
        """Count rows that were predicted elsewhere by the same predictor: some of them become shadow rows.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        ids, groups : optional
            As for `predict`.
        """
        rows = as_rows(self.predictor.forest, X)
        self._check_names(rows, ids, groups)
        self._draw(rows, ids, groups, None)

    def branch(self, name: str) -> Watch:
        """Return a new watch with the same settings, for a part of the rows such as a file; see `join`.

        Parameters
        ----------
        name : str
            Of the part. It draws other shadow rows than parts with other names.

        Returns
        -------
        Watch
            Its own alarms do nothing.
        """
        digest = hashlib.sha256(f"{self._record.seed} {name}".encode()).digest()
        record = Record(self._record.setup, int.from_bytes(digest[:8], "little"))
        return Watch(self.predictor, record, lambda state: None)

    def join(self, branch: Watch) -> None:
        """Add the rows of a branch behind those counted so far. It must not count any more.

        Parameters
        ----------
        branch : Watch
            Of `branch`.
        """
        with branch._lock, self._lock:
            branch._evaluate()
            self._evaluate()
            self._record.append(branch._record)
            self._none_before = self._draws.none_before(self._record.next_number)
            self._evidence = LatestEvidence(self._record)
            raised = self._raise_alarm()
        self._act(raised)

    def to_bytes(self) -> bytes:
        """Return what `save` would write, for another process."""
        with self._flushed():
            return container_bytes(KIND, *self._record.to_parts())

    @classmethod
    def from_bytes(cls, data: bytes, predictor: Predictor, *, on_alarm: OnAlarm = "warn") -> Watch:
        """Return the watch that `to_bytes` wrote; see `load`."""
        return cls._of_record(Record.from_container(container_of(data)), predictor, on_alarm)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file in one move; nothing in it is executed when it is loaded.

        Parameters
        ----------
        path : str or path
        """
        with self._flushed():
            parts = self._record.to_parts()
        self._record.write(path, *parts)

    @classmethod
    def load(cls, path: str | PathLike[str], predictor: Predictor, *, on_alarm: OnAlarm = "warn") -> Watch:
        """Return the watch that `save` wrote, which goes on from there.

        Parameters
        ----------
        path : str or path
        predictor : Predictor
            The one that was watched.
        on_alarm : {"warn", "full", "widen"} or callable
            As in `scurry.watch`.

        Returns
        -------
        Watch

        Raises
        ------
        InputError
            If the state is of another predictor.
        FormatError
            If the file is corrupt.
        """
        return cls._of_record(Record.load(path), predictor, on_alarm)

    @classmethod
    def _of_record(cls, record: Record, predictor: Predictor, on_alarm: OnAlarm) -> Watch:
        check_instance("predictor", predictor, Predictor, hint="; load it with scurry.load(path)")
        if record.setup.digest != predictor.digest:
            raise InputError(
                f"the state is that of another predictor (digest {record.setup.digest[:12]}…, this one has "
                f"{predictor.digest[:12]}…); begin a new state, or load the predictor that was watched",
                argument="predictor",
            )
        return cls(predictor, record, on_alarm)

    @classmethod
    def merge(cls, watches: Sequence[Watch]) -> Watch:
        """Return one watch of the rows of all, whatever their order: counts add up.

        Parameters
        ----------
        watches : sequence of Watch
            Of the same predictor with the same settings, each with rows of its own.

        Returns
        -------
        Watch
            It has its own alarm, from all rows together.

        Raises
        ------
        InputError
            If they do not fit together, or some rows would count twice.
        """
        listed = list(watches) if isinstance(watches, Sequence) else []
        if not listed or not all(isinstance(watch, Watch) for watch in listed):
            raise InputError(f"watches must be a list of Watch, got {watches!r:.60}", argument="watches")
        records = []
        for watch in listed:
            with watch._flushed():
                records.append(watch._record.copy())
        merged = cls(listed[0].predictor, Record.merge(records), listed[0].on_alarm)
        merged._raise_alarm()
        return merged

    def __repr__(self) -> str:
        record = self._record
        return f"Watch({self.predictor!r}, n_rows={record.n_rows}, n_shadow={record.n_shadow + self._n_pending})"

    def _check_names(self, rows: NDArray[Any], ids: Any, groups: Any) -> None:
        needs_groups = self.needs_groups
        if ids is None and groups is None and not needs_groups and not self._record.setup.promise.NEEDS_LABELS:
            return  # the common case, which single rows have to pay for in full
        if needs_groups and groups is None:
            raise InputError(
                "groups is needed: the promise is about queries or groups; name that of each row", argument="groups"
            )
        if groups is not None and not needs_groups:
            raise InputError("groups are for promises about queries or groups; leave them out", argument="groups")
        if groups is not None and len(np.asarray(groups)) != len(rows):
            raise InputError(f"groups must name the group of each of the {len(rows):,} rows", argument="groups")
        if ids is None:
            if self._record.setup.promise.NEEDS_LABELS:
                raise InputError(
                    "ids is needed: the promise compares answers with labels, which arrive later; name each row and "
                    "pass labels to learn_labels(ids, y)",
                    argument="ids",
                )
            return
        if len(_list_ids(ids)) != len(rows):
            raise InputError(f"ids must name each of the {len(rows):,} rows", argument="ids")

    def _draw(self, rows: NDArray[Any], ids: Any, groups: Any, answers: NDArray[Any] | None) -> None:
        """Draw shadow rows of a batch that was answered, and evaluate them once there are enough."""
        unit_of = None if groups is None else _find_units(groups)
        n_units = len(rows) if unit_of is None else int(unit_of.max(initial=-1)) + 1
        raised = None
        with self._lock:
            record = self._record
            start = record.next_number
            names = None if ids is None else self._remember(_list_ids(ids))
            record.next_number = stop = start + n_units
            record.n_rows += len(rows)
            if stop <= self._none_before:
                return
            drawn = self._draws.between(start, stop)
            self._none_before = self._draws.none_before(stop)
            if not len(drawn):
                return
            chosen, numbers = drawn - start, drawn
            if unit_of is not None:
                chosen, numbers = self._choose_rows(unit_of, chosen, start)
            if names is not None:
                self._ids |= {int(number): names[at] for number, at in zip(numbers, chosen, strict=True)}
            self._pending.append((rows.take(chosen, 0), numbers, None if answers is None else answers.take(chosen)))
            self._n_pending += len(chosen)
            if self._n_pending >= self._at_once:
                self._evaluate()
                raised = self._raise_alarm()
        if raised is not None:
            self._act(raised)

    def _choose_rows(
        self, unit_of: NDArray[np.int64], drawn: NDArray[np.int64], start: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of drawn queries, or one row of each drawn group; and their numbers."""
        if self._compare.by_query:
            rows = np.flatnonzero(np.isin(unit_of, drawn))
            return rows, unit_of[rows] + start
        seed = np.uint64(self._record.seed % 2**64)
        draws = mix((drawn + start).astype(np.uint64) ^ mix(np.array([seed], np.uint64)))
        members = [np.flatnonzero(unit_of == unit) for unit in drawn]
        one = [int(m[int(draw % np.uint64(len(m)))]) for m, draw in zip(members, draws, strict=True)]
        return np.array(one, np.int64), drawn + start

    def _remember(self, names: list[Any]) -> list[Any]:
        given = set(names)
        repeated = given & (self._record.waiting.keys() | set(self._ids.values()))
        if repeated or len(given) < len(names):
            name = min(repeated, key=repr) if repeated else next(n for n in names if names.count(n) > 1)
            raise InputError(f"ids must name each row once, and {name!r} is not new", argument="ids")
        if len(self._remembered) + len(given) > _MAX_REMEMBERED:
            self._remembered, self._remembers_all = set(), False
        self._remembered |= given
        return names

    def _evaluate(self) -> None:
        """Evaluate the shadow rows drawn so far by the full model, count them and keep them."""
        if not self._pending:
            return
        pending, record = self._pending, self._record
        setup, promise = record.setup, record.setup.promise
        rows = np.concatenate([some for some, _, _ in pending]).astype(setup.row_dtype, copy=False)
        numbers = np.concatenate([some for _, some, _ in pending])
        known = [answers for _, _, answers in pending if answers is not None]
        answers = np.concatenate(known) if len(known) == len(pending) else None
        outcomes = self._compare.observe(self._compare.restore(rows), numbers, answers)
        trees, changed = self._compare.count_trees(rows, numbers), promise.changed(outcomes)
        # From here on nothing fails, so that rows are counted once or, if the model cannot answer them, not at all.
        self._pending, self._n_pending = [], 0
        if not promise.NEEDS_LABELS:
            self._count(outcomes, numbers)
        n_shadow, n_changed = len(numbers), int(changed.sum())
        if self._by_query:
            is_first = np.diff(numbers, prepend=-1) != 0
            n_shadow = int(is_first.sum())
            n_changed = int((np.add.reduceat(changed, np.flatnonzero(is_first)) > 0).sum())
        record.n_shadow += n_shadow
        record.n_changed += n_changed
        self._at_once = min(max(record.n_shadow // _PART_AT_ONCE, _LEAST_AT_ONCE), _MOST_AT_ONCE)
        _tally(record.by_trees, trees, changed)
        if setup.classes:
            codes = self.predictor.forest.codes_of(outcomes.full)
            _tally(record.by_class, codes, changed)
            if self._ids:
                ours = self.predictor.forest.codes_of(outcomes.answers)
                for at, number in enumerate(numbers.tolist()):
                    if number in self._ids:
                        record.waiting[self._ids.pop(number)] = Waiting(number, int(ours[at]), int(codes[at]))
        if setup.max_kept:
            origins, labels = np.full(len(rows), record.origin, np.uint64), np.full(len(rows), UNKNOWN, np.int32)
            record.keep(Kept(np.asarray(rows), numbers, origins, changed, trees, labels))

    def _count(self, outcomes: Outcomes, numbers: NDArray[np.int64]) -> None:
        record, now = self._record, time.time()
        setup = record.setup
        first, last = int(numbers.min()) // setup.rows_per_epoch, int(numbers.max()) // setup.rows_per_epoch
        for epoch in range(first, last + 1):
            some = outcomes
            if first < last:
                is_inside = numbers // setup.rows_per_epoch == epoch
                if not is_inside.any():
                    continue
                some = take(outcomes, is_inside)
            record.add(epoch, count_losses(setup.promise, setup.parts, some), now)
            self._evidence.touch(epoch)

    def _count_labels(self, found: list[tuple[Waiting, int]]) -> None:
        """Count rows whose labels have come, and note them on the rows that are kept."""
        record, forest = self._record, self.predictor.forest
        classes = np.asarray(forest.classes)
        numbers = np.array([row.number for row, _ in found], np.int64)
        codes = np.array([(row.answer, row.full, label) for row, label in found], np.int64)
        if record.setup.promise.NEEDS_LABELS:
            outcomes = Outcomes(
                answers=classes[codes[:, 0]],
                full=classes[codes[:, 1]],
                y=classes[codes[:, 2]],
                classes=tuple(classes.tolist()),
            )
            self._count(outcomes, numbers)
        kept = record.kept
        if len(kept):
            place = np.searchsorted(kept.numbers, numbers).clip(0, len(kept) - 1)
            there = (kept.numbers[place] == numbers) & (kept.origins[place] == record.origin)
            labels = kept.labels.copy()
            labels[place[there]] = codes[there, 2]
            record.replace_kept(Kept(kept.rows, kept.numbers, kept.origins, kept.changed, kept.trees, labels))

    @contextmanager
    def _flushed(self) -> Iterator[None]:
        """Hold the lock for a block, with all shadow rows drawn so far counted; act on an alarm behind it."""
        with self._lock:
            self._evaluate()
            raised = self._raise_alarm()
            yield
        self._act(raised)

    def _raise_alarm(self) -> State | None:
        """Return the state if an alarm is raised now, and none was before."""
        record, was_raised = self._record, self._record.is_raised
        is_alarm, is_change = self._evidence.look()
        latest = max(record.next_number - 1, 0)
        if is_alarm and record.alarm_number is None:
            record.alarm_number = latest
        if is_change and record.change_number is None:
            record.change_number = latest
        if was_raised or not record.is_raised:
            return None
        self._active = self._find_active()
        return read_state(record)

    def _find_active(self) -> Predictor:
        action = self._on_alarm
        return find_active(self._compare, self._record, action if isinstance(action, str) else "warn")

    def _act(self, raised: State | None) -> None:
        """Do what the user asked for; outside of the lock, because a callable may take its time."""
        if raised is None:
            return
        if callable(self._on_alarm):
            self._on_alarm(raised)
            return
        now = "thresholds were moved outward"
        if self._active is self.predictor:
            now = "answers stay as they are"
        elif self._active.certificate is None:
            now = "every tree is evaluated from now on"
        warn(f"{raised.verdict} What now: {now}; see watch.explain() and watch.recalibrate()")


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


def _check_share(share: Any) -> float:
    if not is_number(share) or not 0.0 < share <= 1.0:
        hint = ""
        if is_number(share):
            hint = (
                "; with 0 nothing would be watched" if share == 0 else f". Did you mean {share / 100:g} ({share:g} %)?"
            )
        raise InputError(f"share must be in (0, 1], got {share!r}{hint}", argument="share")
    return float(share)


def _check_kept(keep_rows: Any) -> int:
    if isinstance(keep_rows, bool | np.bool_):
        return DEFAULT_KEPT if keep_rows else 0
    return check_count("keep_rows", keep_rows, hint="; True keeps 20,000, False none")


def _row_dtype(predictor: Predictor) -> str:
    raw = predictor.forest.raw_rows
    if raw is None:
        return predictor.forest.input_dtype
    return "float64" if raw.dtype is None else raw.dtype
