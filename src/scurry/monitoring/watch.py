"""Watch: a predictor whose promise is tested on the rows that it predicts.

After an alarm it may evaluate every tree, move thresholds outward, or be calibrated anew on shadow rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.cascades import Cascade
from scurry.checks import RandomState, check_confidence, check_count, check_instance, draw_seed, is_number, read_column
from scurry.errors import InfeasibleError, InputError, warn
from scurry.forest import as_rows, in_blocks, is_other_order
from scurry.forest.files.storage import container_bytes, container_of
from scurry.monitoring.betting import Counts, Part
from scurry.monitoring.counting import Counting
from scurry.monitoring.explain import Explanation, explain
from scurry.monitoring.record import KIND, Kept, Record, Setup
from scurry.monitoring.selection import find_selection
from scurry.monitoring.shadow import Comparison, count_losses, find_parts
from scurry.monitoring.state import History, State, find_alarm_epoch, read_history, read_state
from scurry.plan import Plan
from scurry.predictor import Predictor
from scurry.promises import Labels, Promise, SizeMeasurement, read_promise
from scurry.runners.runner import Run

_FACTORS = (16.0, 8.0, 6.0, 5.0, 4.0, 3.5, 3.0, 2.5, 2.0, 1.75, 1.5, 1.35, 1.2, 1.1)  # the most cautious first
_LEAST_FIT = 2  # times as many rows as certify without a mistake: half of them fit the rule


def find_active(compare: Comparison, record: Record, action: str) -> Predictor:
    """Return what answers after an alarm.

    Parameters
    ----------
    compare : Comparison
    record : Record
        With an alarm.
    action : {"warn", "full", "widen"}
    """
    if action == "warn":
        return compare.predictor
    widened = widen(compare, record) if action == "widen" else None
    return evaluate_all(compare) if widened is None else widened


def evaluate_all(compare: Comparison) -> Predictor:
    """Return the predictor that evaluates every tree; one that ranks queries still does."""
    plan = compare.predictor.plan
    if not compare.by_query or plan.stop is None:
        return compare.full
    return Predictor(compare.predictor.forest, Plan(order=plan.order, stop=plan.stop.without_stops()))


def widen(compare: Comparison, record: Record) -> Predictor | None:
    """Return the predictor with the least caution that the shadow rows certify; None if they certify none.

    The rows are those since the promise began to fail. They raised the alarm, so that they are rather worse than the
    rows to come.
    """
    from scurry.stopping.guarantee import last_certified  # needs scipy, and predictions do not

    setup, plan, forest = record.setup, compare.predictor.plan, compare.predictor.forest
    onset = read_state(record).onset or 0
    kept = _usable(setup, record.kept, onset)
    if plan.stop is None or not len(kept) or find_selection(record, int(kept.numbers[0])):
        return None
    candidates = []
    for factor in _FACTORS:
        stop = plan.stop.with_scaled_thresholds(forest, factor)
        if stop is None:
            return None
        candidates.append(Predictor(forest, replace(plan, stop=stop)))

    def p_value_of(candidate: Predictor) -> float:
        counts = _count(Comparison(candidate, compare.promise), setup, kept)
        # Each part takes its share of the risk.
        return len(setup.parts) * max(_p_value(part, c) for part, c in zip(setup.parts, counts, strict=True))

    return last_certified(candidates, p_value_of, setup.promise.confidence or setup.confidence)


def recalibrate(compare: Comparison, record: Record, kept: Kept, first: int, options: dict[str, Any]) -> Predictor:
    """Return a new predictor with the same promise, certified on kept rows with numbers from `first` on."""
    setup = record.setup
    if setup.max_kept == 0:
        raise InputError(
            "no shadow rows are kept; make the watch with keep_rows=True, or calibrate on rows of your own"
        )
    rows = _usable(setup, kept, first)
    try:
        return _calibrate_again(compare, setup, rows, first, options)
    except InfeasibleError as error:
        n_since, n_needed = int((kept.numbers >= first).sum()), error.n_rows_needed
        n_found = len(np.unique(rows.units))
        if n_needed is not None and n_found >= n_needed:  # of one kind, such as rows that the model should find
            of_kinds = [int(counts.sum()) for counts in _count(compare, setup, rows)]
            n_found = min((n for n in of_kinds if 0 < n < n_needed), default=n_found)
        # Rows of a kind come by chance, so that a tenth is added.
        growth = 2.0 if n_needed is None else 1.1 * n_needed / max(n_found, 1)
        n_kept = 100 * math.ceil(growth * n_since / 100)
        has_forgotten = len(kept) > 0 and kept.numbers[0] > first and record.n_shadow > len(np.unique(kept.units))
        if n_found == 0 or n_kept <= setup.max_kept or not (has_forgotten or (n_needed or 0) > setup.max_kept):
            raise
        older = " and has forgotten older ones" if has_forgotten else ""
        raise InfeasibleError(
            f"{error}. This watch keeps the latest {setup.max_kept:,} shadow rows{older}, so that waiting does not "
            f"help: begin another with scurry.watch(…, keep_rows={n_kept})",
            error.achievable,
            n_rows_needed=n_needed,
            argument=error.argument,
        ) from None


def _calibrate_again(compare: Comparison, setup: Setup, rows: Kept, first: int, options: dict[str, Any]) -> Predictor:
    from scurry.verbs.early_exit import early_exit

    groups = rows.units if compare.by_query or compare.by_group else None
    n_units = len(np.unique(rows.units))
    promise = read_promise(options.pop("promise", None), compare.predictor.forest.classes) or _as_asked(compare)
    if promise.rows_needed():
        _check_enough(setup, n_units, _LEAST_FIT * promise.rows_needed(), first)
    y = None
    if setup.classes and len(rows) and (rows.labels >= 0).all():
        y = np.asarray(compare.predictor.forest.classes)[rows.labels]
    if isinstance(setup.promise, Labels) and setup.promise.against == "vote":
        options = {"method": compare.predictor.plan.method} | options
    try:
        return early_exit(
            compare.predictor.forest, compare.restore(rows.rows), y, groups=groups, promise=promise, **options
        )
    except InfeasibleError as error:
        if error.n_rows_needed is not None and error.n_rows_needed > n_units:
            _check_enough(setup, n_units, error.n_rows_needed, first)
        raise


def _as_asked(compare: Comparison) -> Any:
    """Return the promise as `early_exit` takes it: it finds out itself what it is compared with and holds for."""
    promise = compare.promise
    if isinstance(promise, Labels):
        return replace(promise, against="model", holds="rows")
    return replace(promise, holds="rows") if compare.by_group else promise  # type: ignore[call-arg]


def _usable(setup: Setup, kept: Kept, first: int) -> Kept:
    chosen = kept.numbers >= first
    return kept.where(chosen & (kept.labels >= 0) if setup.promise.NEEDS_LABELS else chosen)


def _check_enough(setup: Setup, n_rows: int, n_needed: int, first: int) -> None:
    if n_rows >= n_needed:
        return
    what = "shadow rows with labels" if setup.promise.NEEDS_LABELS else f"shadow {setup.parts[0].unit}"
    since = " since the alarm" if first else ""
    missing = n_needed - n_rows
    raise InfeasibleError(
        f"{n_rows:,} {what}{since} are too few to certify the promise again: at least {missing:,} are missing, which "
        f"are about {math.ceil(missing / setup.share):,} more {setup.parts[0].unit} at a share of {setup.share:g}",
        n_rows_needed=n_needed,
    )


def _count(compare: Comparison, setup: Setup, kept: Kept) -> list[Counts]:
    outcomes = compare.observe(compare.restore(kept.rows), kept.units)
    if setup.promise.NEEDS_LABELS:
        outcomes = replace(outcomes, y=np.asarray(compare.predictor.forest.classes)[kept.labels])
    return count_losses(setup.promise, setup.parts, outcomes)


def _p_value(part: Part, counts: Counts) -> float:
    """Return the p-value of "the mean loss is above what is promised"."""
    from scurry.stopping.guarantee import rate_p_value
    from scurry.stopping.losses import loss_p_value, paired_p_value

    n_rows = int(counts.sum())
    if n_rows == 0:
        return 1.0
    if part.is_rate:
        return rate_p_value(int(counts[1]), n_rows, part.max_mean)
    if part.losses == (-1.0, 0.0, 1.0):
        return paired_p_value(n_rows, int(counts[2]), int(counts[0]), part.max_mean)
    least = part.losses[0]
    return loss_p_value(
        np.array(part.losses) - least, part.max_mean - least, max_loss=part.losses[-1] - least, repeats=counts
    )


DEFAULT_SHARE, DEFAULT_KEPT = 0.002, 20_000
ACTIONS = ("warn", "full", "widen")

OnAlarm = str | Callable[[State], object]


class Watch:
    """A predictor whose promise is tested while it predicts; `scurry.watch` makes it. Safe to use from several threads.

    A random share of the rows, the shadow rows, is evaluated by the full model too. Which rows these are depends on the
    seed and on the numbers of rows alone. They are evaluated together, 64 to 1024 at a time,
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
        self._record, self._lock, self._counting = record, RLock(), Counting(predictor, record)
        self._told_of_selection = False
        self._saving = RLock()  # of two threads that save, the later state stays
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
        hint = "; make one with scurry.early_exit(model, X_cal)"
        if isinstance(predictor, Cascade):
            hint = (
                ". A cascade is not watched; send a random share of the rows that it keeps to the expensive model too, "
                "and compare the answers"
            )
        check_instance("predictor", predictor, Predictor, hint=hint)
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
                "predictor was made by scurry.compress and does not hold the model that its promise compares with; "
                "compare recent rows with scurry.report.write(predictor, path, X, y, model=model)",
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
        return self._counting.needs_groups

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
            Names of rows, numbers or texts, by which `learn_labels` finds them. Promises about accuracy and recall
            need them; for others they are not used.
        groups : str or array of shape (n_rows,), optional
            The query of each row, or the group, where the promise is about queries or groups, or the name of a column
            of a frame `X`. All rows of one must come in one call.

        Returns
        -------
        array of shape (n_rows,)
        """
        if type(X) is not np.ndarray and ids is None and groups is None:
            in_parts = in_blocks(X, lambda some: self.predict(some, n_threads))
            if in_parts is not None:
                return in_parts
        groups, rows = read_column("groups", groups, X), as_rows(self.predictor.forest, X)
        self._counting.check_names(rows, ids, groups)
        active = self._active
        answers = active.predict(rows, n_threads, groups=groups if self.predictor.plan.ranks_groups else None)
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
        groups, rows = read_column("groups", groups, X), as_rows(self.predictor.forest, X)
        self._counting.check_names(rows, ids, groups)
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
        groups, rows = read_column("groups", groups, X), as_rows(self.predictor.forest, X)
        self._counting.check_names(rows, ids, groups)
        active = self._active
        run = active.run(rows, n_threads, groups=groups if self.predictor.plan.ranks_groups else None)
        self._draw(rows, ids, groups, run.labels if active is self.predictor else None)
        return run

    @property
    def state(self) -> State:
        """What is known so far."""
        with self._flush():
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
        with self._flush():
            return read_history(self._record, n_stretches)

    def learn_labels(self, ids: Any, y: Any) -> int:
        """Learn the labels of rows that were predicted with these `ids`.

        Labels of all rows may be passed; those of shadow rows count. They must come for all shadow rows
        (`awaited_ids`), or for some that were chosen without regard to the answer. Labels of flagged rows alone tell
        nothing about those that should have been flagged; a warning says so once this is plain.

        Parameters
        ----------
        ids : array of shape (n_rows,)
        y : array of shape (n_rows,)
            Their true labels.

        Returns
        -------
        int
            How many of them were awaited: none where the promise is not tested by labels.

        Raises
        ------
        InputError
            If an id was never predicted, or a label is none of the model's. Nothing is learned then.
        """
        with self._flush():
            n_learned = self._counting.learn(ids, y)
        of_labels: Any = getattr(y, "index", None)
        if hasattr(of_labels, "equals") and is_other_order(list(ids), list(of_labels)):
            warn("ids and the index of y are the same in another order, and labels are taken in the order of ids")
        with self._flush():  # with the evidence of what was learned
            selection = None if self._told_of_selection else find_selection(self._record)
        if selection is not None:
            self._told_of_selection = True
            warn(
                f"{selection.describe()}. So neither an alarm nor its absence says anything about what is tested by "
                "labels. Learn those of all shadow rows (watch.awaited_ids), or of some chosen without regard to the "
                "answer"
            )
        return n_learned

    @property
    def awaited_ids(self) -> list[Any]:
        """The ids of shadow rows whose labels are awaited."""
        with self._flush():
            return list(self._record.waiting)

    def explain(self) -> Explanation:
        """Return where changed rows concentrate, and which features left what the calibration rows looked like.

        Returns
        -------
        Explanation
            Print it.
        """
        with self._flush():
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
        InputError
            If their labels came for some answers rather than for others.
        """
        with self._flush():
            kept, epoch = self._record.kept, find_alarm_epoch(self._record)
            # An epoch in which an alarm was raised had a part in it, to its end.
            first = 0 if epoch is None else (epoch + 1) * self._record.setup.rows_per_epoch
            oldest = int(kept.numbers[0]) if len(kept) else 0
            selection = find_selection(self._record, max(first, oldest))
        if selection is not None:
            raise InputError(
                f"{selection.describe()}. A predictor certified on such rows would keep no promise on others; learn "
                "the labels of watch.awaited_ids first"
            )
        return recalibrate(self._counting.compare, self._record, kept, first, options)

    def count(self, X: Any, *, ids: Any = None, groups: Any = None) -> None:
        """Count rows that were predicted elsewhere by the same predictor: some of them become shadow rows.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        ids, groups : optional
            As for `predict`.
        """
        groups, rows = read_column("groups", groups, X), as_rows(self.predictor.forest, X)
        self._counting.check_names(rows, ids, groups)
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
            branch._counting.evaluate()
            self._counting.evaluate()
            self._counting.append(branch._record)
            raised = self._raise_alarm()
        self._act(raised)

    def to_bytes(self) -> bytes:
        """Return what `save` would write, for another process."""
        with self._flush():
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
        with self._saving:
            with self._flush():
                # Other threads may count while the file is written.
                parts = self._record.copy().to_parts()
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
            with watch._flush():
                records.append(watch._record.copy())
        merged = cls(listed[0].predictor, Record.merge(records), listed[0].on_alarm)
        merged._raise_alarm()
        return merged

    def __repr__(self) -> str:
        record, n_shadow = self._record, self._record.n_shadow + len(self._counting.pending)
        return f"Watch({self.predictor!r}, n_rows={record.n_rows}, n_shadow={n_shadow})"

    def _draw(self, rows: NDArray[Any], ids: Any, groups: Any, answers: NDArray[Any] | None) -> None:
        """Draw shadow rows of a batch that was answered, and evaluate them once there are enough."""
        with self._lock:
            if not self._counting.draw(rows, ids, groups, answers):
                return
            self._counting.judge()
            raised = self._raise_alarm()
        self._act(raised)

    @contextmanager
    def _flush(self) -> Iterator[None]:
        """Hold the lock for a block, with all shadow rows drawn so far counted; act on an alarm behind it."""
        raised = None
        try:
            with self._lock:
                self._counting.evaluate()
                raised = self._raise_alarm()
                yield
        finally:  # an alarm is raised once, also if the block fails
            self._act(raised)

    def _raise_alarm(self) -> State | None:
        """Return the state if an alarm is raised now, and none was before."""
        record, was_raised = self._record, self._record.is_raised
        is_alarm, is_change = self._counting.look()
        latest = max(record.next_number - 1, 0)
        if is_alarm and record.alarm_number is None:
            record.alarm_number = latest
        if is_change and record.change_number is None:
            record.change_number = latest
        if was_raised or not record.is_raised:
            return None
        self._counting.evaluate()  # what follows reads all that is known
        self._active = self._find_active()
        return read_state(record)

    def _find_active(self) -> Predictor:
        action = self._on_alarm
        return find_active(self._counting.compare, self._record, action if isinstance(action, str) else "warn")

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


def _check_share(share: Any) -> float:
    if not is_number(share) or not 0.0 < share <= 1.0:
        hint = ""
        if is_number(share) and share == 0:
            hint = "; with 0 nothing would be watched"
        elif is_number(share) and 1 < share <= 100:
            hint = f". Did you mean {share / 100:g} ({share:g} %)?"
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
    return "float64" if raw.dtype is None else predictor.forest.input_dtype
