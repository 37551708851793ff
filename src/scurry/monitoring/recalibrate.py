"""What may be done after an alarm: evaluate every tree, move thresholds outward, or calibrate anew on shadow rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from scurry.errors import InfeasibleError, InputError
from scurry.monitoring.betting import Counts, Part
from scurry.monitoring.record import Kept, Record, Setup
from scurry.monitoring.shadow import Comparison, count_losses
from scurry.monitoring.state import read_state
from scurry.plan import Plan
from scurry.predictor import Predictor
from scurry.promises import Labels
from scurry.promises.kinds import read_promise

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
    if plan.stop is None or not len(kept):
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


def recalibrate(compare: Comparison, setup: Setup, kept: Kept, first: int, options: dict[str, Any]) -> Predictor:
    """Return a new predictor with the same promise, certified on kept rows with numbers from `first` on."""
    from scurry.verbs.early_exit import early_exit

    if setup.max_kept == 0:
        raise InputError(
            "no shadow rows are kept; make the watch with keep_rows=True, or calibrate on rows of your own"
        )
    rows = _usable(setup, kept, first)
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
        f"are about {math.ceil(missing / setup.share):,} more {setup.parts[0].unit} at a share of {setup.share:g}"
        + (f", and keep_rows must be {n_needed:,} or more" if n_needed > setup.max_kept else ""),
        n_rows_needed=n_needed,
    )


def _count(compare: Comparison, setup: Setup, kept: Kept) -> list[Counts]:
    outcomes = compare.observe(compare.restore(kept.rows), kept.units)
    if setup.promise.NEEDS_LABELS:
        outcomes = replace(outcomes, y=np.asarray(compare.predictor.forest.classes)[kept.labels])
    return count_losses(setup.promise, setup.parts, outcomes)


def _p_value(part: Part, counts: Counts) -> float:
    """Return the p-value of "the mean loss is above what is promised"."""
    from scurry.stopping.guarantee import loss_p_value, paired_p_value, rate_p_value

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
