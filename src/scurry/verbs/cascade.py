"""The verb `scurry.cascade`: a cheap forest answers what it is sure of, and an expensive model the rest.

Bands: how sure the cheap model of a cascade must be, so that a promise holds.

Rows whose certainty lies within the band from 0 to a limit are passed on. The limits are fixed in advance, from 1
(every row is passed on) to below 0 (none is), so that no row is needed to make them and all rows can test them. They
are tested in this order up to the first that fails, which needs no correction for their number
(`scurry.stopping.guarantee`). Where a promise is about changed answers, these only become more along the way, so a
finer grid costs nothing.

What is compared is what the cascade answers, whatever the cheap model did to get there: if it exits early, label and
certainty are those at the exit, and one certificate covers both.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.cascades.cascade import BATCH_SIZE, Cascade, CheapAnswers, Expensive, ask_cheap
from scurry.checks import Progress, check_count, check_number, check_numbers, check_progress, read_column
from scurry.errors import InfeasibleError, InputError, require_extra, warn
from scurry.forest import Forest, as_rows, count_rows, take_rows, without_column
from scurry.formatting import format_number
from scurry.importers import from_model, import_for
from scurry.predictor import Predictor
from scurry.promises import (
    Accuracy,
    CascadeMeasurement,
    Certificate,
    GroupTest,
    Labels,
    LabelsPerClass,
    Outcomes,
    Promise,
    Recall,
    RowSummary,
    Values,
    read_promise,
)
from scurry.stopping.guarantee import InMemory
from scurry.stopping.verdict import Verdict
from scurry.verbs.early_exit import early_exit
from scurry.verbs.options import CheckedRows, check_rows

# Equally spaced in log-odds: close to certainty, where most rows are, a small step of a probability is a large one.
LIMITS = np.concatenate([[1.0], np.tanh(np.arange(480, -1, -1) / 80), [-1.0]])


@dataclass(frozen=True, kw_only=True)
class Band:
    """The band that was found, and how its test came out.

    Attributes
    ----------
    limit : float
        Rows that are surer than this stay with the cheap model.
    kept, changed, cheap_changed : float
        As in `scurry.promises.CascadeMeasurement`.
    n_broken, n_gained : int
    bound : float or None
    tests : tuple of GroupTest
        As in `scurry.promises.Certificate`.
    """

    limit: float
    kept: float
    changed: float
    cheap_changed: float
    n_broken: int
    n_gained: int
    bound: float | None
    tests: tuple[GroupTest, ...]


class BandTest:
    """The test of a promise, for any limit.

    Parameters
    ----------
    promise : Promise
    said : CheapAnswers
    expensive : array of shape (n_rows,)
        What the expensive model answers to the same rows.
    y : array of shape (n_rows,) or None
    classes : sequence
        The labels that may occur; empty for a regressor.
    """

    def __init__(
        self,
        promise: Promise,
        said: CheapAnswers,
        expensive: NDArray[Any],
        y: NDArray[Any] | None,
        classes: Sequence[Any] = (),
    ) -> None:
        self._promise, self._said, self._expensive, self._y = promise, said, expensive, y
        self._classes = tuple(classes)

    def find(self) -> Band | None:
        """Return the boldest band whose promise is certified; None if not even passing all rows on is."""
        limits, n_last = [], -1
        for limit in LIMITS.tolist():
            if (n_kept := self._count_kept(limit)) > n_last:  # of limits that keep the same rows, the first
                limits.append(limit)
                n_last = n_kept
        if isinstance(self._promise, Accuracy):  # gains may come after losses
            n_passed = next((at for at, limit in enumerate(limits) if not self.passes(limit)), len(limits))
        else:  # broken rows only become more, so that the first limit that fails can be found by bisection
            n_passed = bisect_left(limits, True, key=lambda limit: not self.passes(limit))
        if n_passed == 0:
            return None
        found = self.describe(limits[n_passed - 1])
        # A promise leaves room for a few wrong answers. Rows that are kept only to fill it with them are better passed
        # on, and every limit before the last is certified too.
        return found if found.kept > 2 * found.changed else self.describe(float(LIMITS[0]))

    def passes(self, limit: float) -> bool:
        """Return whether the answers with this limit pass the test."""
        return Verdict(self._promise, self._run(limit)).passes

    def describe(self, limit: float) -> Band:
        """Return what the answers with this limit are like."""
        outcomes = self._run(limit)
        verdict = Verdict(self._promise, outcomes)
        return Band(
            limit=limit,
            kept=self._count_kept(limit) / len(self._expensive),
            changed=self._share_changed(outcomes),
            cheap_changed=self._share_changed(self._run(-1.0)),
            n_broken=verdict.n_broken,
            n_gained=verdict.n_gained,
            bound=verdict.bound,
            tests=verdict.tests,
        )

    def _count_kept(self, limit: float) -> int:
        return int((self._said.certainty > limit).sum())

    def _run(self, limit: float) -> Outcomes:
        answers = np.where(self._said.certainty > limit, self._said.answers, self._expensive)
        return Outcomes(answers=answers, full=self._expensive, y=self._y, classes=self._classes)

    def _share_changed(self, outcomes: Outcomes) -> float:
        if self._promise.IS_ABOUT_CLASSES:
            return float(outcomes.changed.mean())
        return float(self._promise.count(outcomes)[0].rate)


_KINDS = (Labels, LabelsPerClass, Recall, Accuracy, Values)
_EXIT_SHARE = 0.05  # of the rate that is promised, which early exits of the cheap model may spend on rows that fit them
_FIT_SHARE = 0.5  # of the calibration rows, where something has to be fitted and no other rows are given
_ROUTER_TREES, _ROUTER_LEAVES = 100, 15
_N_TIMED = 2000


def cascade(
    cheap: Any,
    expensive: Any,
    X_cal: Any,
    y_cal: Any = None,
    *,
    promise: Promise | str | None = None,
    X_fit: Any = None,
    groups: Any = None,
    expensive_us: float | None = None,
    batch_size: int | None = BATCH_SIZE,
    progress: Progress | None = None,
) -> Cascade:
    """Put a cheap forest in front of an expensive model, which then answers only the rows where it matters.

    Parameters
    ----------
    cheap : estimator, booster, path, Forest or Predictor, or a list of them
        Whatever `scurry.from_model` reads, trained for the same task, on the same columns. With a `Predictor` of
        `scurry.early_exit` its exits are certified together with the band: its own promise does not matter. Of several
        models (see `scurry.cascades.train_sizes`) the one is taken that costs least, on rows that certify nothing.
    expensive : estimator, callable or array of shape (n_rows,)
        An object with a ``predict`` method, a function from rows to answers (which may call a server), or the recorded
        answers to `X_cal`. With recorded answers only, predicting a row that must be passed on raises an error.
    X_cal : array or DataFrame of shape (n_rows, n_features)
        Calibration rows: like those to be predicted, and not used to train either model.
    y_cal : array of shape (n_rows,), optional
        Labels. The promises `Recall` and `Accuracy` need them.
    promise : Promise or str, default Labels(0.005)
        How far answers may be from the expensive model's: `Labels`, `LabelsPerClass`, `Recall` or `Accuracy` for
        classifiers, `Values` for regressors. "The model" of the promise is the expensive one.
    X_fit : array or DataFrame, optional
        Rows that choose among several cheap models, fit early exits of the cheap model where these pay, and, for
        `Values`, learn where it is far from the expensive model. The expensive model answers them too. Without them, a
        half of `X_cal` serves where something must be fitted; one cheap classifier needs none.
    groups : str or array of shape (n_rows,), optional
        The group that each row of `X_cal` belongs to, where rows of a group are no independent draws. One row of each
        certifies, and the promise is about a row of a new group. Or the name of a column of a frame `X_cal`, which
        neither model gets, unless the cheap one was trained on it.
    expensive_us : float, optional
        What a call of the expensive model costs per row, in microseconds of the cheap model's time. By default it is
        measured. Where it is not known (recorded answers), the model that keeps most rows is taken.
    batch_size : int or None, default 1024
        The most rows that the expensive model gets at once; None passes all of them on in one call.
    progress : callable, optional
        Called as ``progress(n_done, n_total)`` while the expensive model answers `X_cal`, in rows.

    Returns
    -------
    Cascade

    Raises
    ------
    InfeasibleError
        If the promise cannot be certified on so few rows.

    Warns
    -----
    ScurryWarning
        If no row may stay with the cheap model.
    UserWarning
        If rows of `X_cal` are no independent draws: they are in `X_fit`, they are copies, or they trained the cheap
        model.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(4000, random_state=0)
    >>> expensive = RandomForestClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> cheap = RandomForestClassifier(10, random_state=1).fit(X[:1000], y[:1000])
    >>> both = scurry.cascade(cheap, expensive, X[1000:3000], promise=scurry.promises.Labels(0.02))
    >>> both.run(X[3000:]).share_passed_on < 0.6
    True
    """
    candidates = _read_models(cheap, X_cal)
    asked = _check_promise(read_promise(promise, candidates[0].predictor.forest.classes), candidates)
    size = None if batch_size is None else check_count("batch_size", batch_size)
    model = Expensive(expensive)
    optional = {"y_cal": y_cal, "X_fit": X_fit, "groups": groups, "expensive_us": expensive_us}
    named, groups = groups, read_column("groups", groups, X_cal)
    if isinstance(named, str) and named not in (candidates[0].predictor.forest.feature_names or ()):
        X_cal, X_fit = without_column(X_cal, named), without_column(X_fit, named)
    rows = as_rows(candidates[0].predictor.forest, X_cal)
    if len(rows) == 0:
        raise InputError("X_cal has no rows; pass rows like those to be predicted", argument="X_cal")
    y = _check_labels(y_cal, len(rows), asked)
    if asked.rows_needed() > len(rows):
        raise _infeasible(asked, len(rows))
    fit_rows = None if X_fit is None else as_rows(candidates[0].predictor.forest, X_fit)
    if fit_rows is not None and len(fit_rows) == 0:
        raise InputError("X_fit has no rows; leave it out", argument="X_fit")
    checked = check_rows(candidates[0].predictor.forest, InMemory(rows), y, groups, fit_rows)
    answers = _ask_expensive(model, X_cal, size, check_progress(progress), "X_cal")
    given_us = None if expensive_us is None else check_number("expensive_us", expensive_us)
    calibration = _Calibration(
        promise=asked if groups is None else asked.about_groups(),
        X=X_cal,
        answers=_comparable(answers, candidates[0].predictor.forest),
        y=y,
        checked=checked,
        expensive_us=model.us_per_row if given_us is None else given_us,
        data=(
            *("cheap", "expensive", "X_cal"),
            *(f"{name}={name}" for name, value in optional.items() if value is not None),
        ),
    )
    needs_fit = len(candidates) > 1 or isinstance(asked, Values)
    tests, fitting = calibration.split(needs_fit and X_fit is None)
    if X_fit is not None:
        known = _ask_expensive(model, X_fit, size, None, "X_fit") if model.can_answer else None
        if known is None and needs_fit:
            raise InputError(
                "X_fit needs answers of the expensive model, and only those to X_cal are recorded; leave X_fit out, "
                "and a half of X_cal is used instead",
                argument="X_fit",
            )
        fitting = _Part(X_fit, None if known is None else _comparable(known, candidates[0].predictor.forest), None)
        candidates = _add_exits(candidates, X_fit, asked)
    chosen, why = _choose(candidates, fitting, calibration)
    found = chosen.test(tests, calibration.promise)
    if found is None:
        raise _infeasible(asked, count_rows(tests.X))
    if found.kept == 0.0:
        warn(
            "no row stays with the cheap model: where it is surest, it already differs from the expensive one too "
            "often for this promise. Train a better cheap model (scurry.cascades.train_sizes), on the expensive "
            "model's answers perhaps, or promise less"
        )
    return Cascade(
        chosen.predictor,
        expensive if model.can_answer else None,
        found.limit,
        router=chosen.router,
        certificate=_certify(calibration, found, count_rows(tests.X), fitting, chosen, why),
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows, what the expensive model answers to them (if that is known), and their labels."""

    X: Any
    answers: NDArray[Any] | None
    y: NDArray[Any] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class _Calibration:
    """Everything that is known about the calibration rows."""

    promise: Promise
    X: Any
    answers: NDArray[Any]
    y: NDArray[Any] | None
    checked: CheckedRows
    expensive_us: float | None
    data: tuple[str, ...]

    def split(self, has_to_fit: bool) -> tuple[_Part, _Part | None]:
        """Return the rows that test the promise, one of each unit, and those that fit something, if any do."""
        fits, tests = self.checked.divide(int(_FIT_SHARE * self.checked.n_units) if has_to_fit else 0)
        return self._take(tests), self._take(fits) if has_to_fit else None

    def _take(self, chosen: NDArray[np.bool_]) -> _Part:
        left = self.checked.left
        rows = np.flatnonzero(chosen) if left is None else np.flatnonzero(left)[chosen]
        return _Part(take_rows(self.X, rows), self.answers[rows], None if self.y is None else self.y[rows])


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A way to run a cheap model."""

    predictor: Predictor
    name: str
    router: Forest | None = None

    def test(self, part: _Part, promise: Promise) -> Band | None:
        """Return the boldest band that these rows certify."""
        assert part.answers is not None
        said, forest = ask_cheap(self.predictor, self.router, part.X), self.predictor.forest
        classes: Sequence[Any] = ()
        if forest.is_classifier:
            classes = sorted({*np.asarray(forest.classes).tolist(), *part.answers.tolist()})
        said = CheapAnswers(_comparable(said.answers, forest), said.certainty)
        return BandTest(promise, said, part.answers, part.y, classes).find()

    def time_us(self, X: Any) -> float:
        """Return the microseconds that it takes for a row of a batch."""
        some = take_rows(X, np.arange(min(count_rows(X), _N_TIMED)))
        times = []
        for _ in range(4):  # the first also pays for what is built at the first use
            start = time.perf_counter()
            ask_cheap(self.predictor, self.router, some)
            times.append(time.perf_counter() - start)
        return 1e6 * min(times) / count_rows(some)


def _check_promise(promise: Promise | None, candidates: list[_Candidate]) -> Promise:
    asked = Labels(0.005) if promise is None else promise
    if not isinstance(asked, _KINDS):
        names = ", ".join(kind.__name__ for kind in _KINDS)
        raise InputError(f"promise of a cascade must be one of {names}, got {asked!r}", argument="promise")
    if isinstance(asked, Labels) and (asked.against != "model" or asked.holds != "rows"):
        raise InputError("leave `against` and `holds` of the promise out", argument="promise")
    if isinstance(asked, Labels) and asked.max_changed == 0:
        raise InputError(
            "max_changed must be above 0: rows can prove that few answers change, but not that none does",
            argument="promise",
        )
    if isinstance(asked, Values) and asked.of != "value":
        raise InputError('a cascade compares values: leave of="value" of the promise as it is', argument="promise")
    if any(one.predictor.forest.is_classifier != asked.IS_ABOUT_CLASSES for one in candidates):
        wanted = "classifier; for a regressor promise" if asked.IS_ABOUT_CLASSES else "regressor; promise"
        other = "Values(max_error)" if asked.IS_ABOUT_CLASSES else "Labels(0.005) for a classifier"
        raise InputError(f"cheap must be a {wanted} scurry.promises.{other}", argument="cheap")
    return asked


def _read_models(cheap: Any, X: Any) -> list[_Candidate]:
    models = list(cheap) if isinstance(cheap, list | tuple) else [cheap]
    if not models:
        raise InputError("cheap must name at least one model", argument="cheap")
    found = []
    for model in models:
        predictor = model if isinstance(model, Predictor) else Predictor.full(import_for(model, X))
        forest = predictor.forest
        if predictor.plan.by_step or predictor.plan.ranks_groups:
            raise InputError("cheap must not be a predictor with a budget or one for queries", argument="cheap")
        found.append(_Candidate(predictor, f"{forest.n_trees} trees, {forest.n_nodes:,} nodes"))
    if len({(one.predictor.forest.n_features, one.predictor.forest.is_encoded) for one in found}) > 1:
        raise InputError("the cheap models must be trained on the same columns", argument="cheap")
    return found


def _check_labels(y_cal: Any, n_rows: int, promise: Promise) -> NDArray[Any] | None:
    if y_cal is None:
        if promise.NEEDS_LABELS:
            raise InputError(
                f"y_cal is needed: {type(promise).__name__} compares answers with known labels; pass them, or promise "
                "Labels(…), which needs none",
                argument="y_cal",
            )
        return None
    y = np.asarray(y_cal)
    if y.shape != (n_rows,):
        raise InputError(f"y_cal has shape {y.shape}, X_cal has {n_rows} rows", argument="y_cal")
    return np.array(y.tolist()) if y.dtype.kind == "O" else y


def _ask_expensive(
    model: Expensive, X: Any, batch_size: int | None, progress: Progress | None, table: str
) -> NDArray[Any]:
    if not model.can_answer:
        return model.read_recorded(count_rows(X), table)
    return model.answer(X, np.arange(count_rows(X)), batch_size, progress)


def _comparable(answers: NDArray[Any], forest: Forest) -> NDArray[Any]:
    """Return answers that can be compared with the cheap model's; raise an error if that makes no sense."""
    if not forest.is_classifier:
        return check_numbers("the expensive model's answers", answers)
    # Texts of pandas lie in arrays of objects, on either side: values are compared, whatever holds them.
    answers, classes = (np.array(array.tolist()) for array in (answers, np.asarray(forest.classes)))
    is_text, wants_text = (array.dtype.kind in "US" for array in (answers, classes))
    if is_text != wants_text:
        raise InputError(
            f"the two models have different labels: expensive answers {answers[:1].tolist()[0]!r}, cheap "
            f"{classes.tolist()[0]!r}; make them the same",
            argument="expensive",
        )
    if len(answers) and not np.isin(answers, classes).any():
        raise InputError(
            f"the two models have no label in common: expensive answers {answers[:1].tolist()[0]!r}, cheap knows "
            f"{', '.join(map(repr, classes.tolist()[:5]))}",
            argument="expensive",
        )
    return answers


def _add_exits(candidates: list[_Candidate], X_fit: Any, promise: Promise) -> list[_Candidate]:
    """Return the candidates, and each of them with early exits that change next to no label of the rows that fit."""
    rate = promise.max_rate if promise.max_rate is not None else getattr(promise, "max_loss", None)
    more = list(candidates)
    for one in candidates:
        forest, plan = one.predictor.forest, one.predictor.plan
        if not forest.is_classifier or plan.stop is not None or forest.n_trees < 2 or rate is None:
            continue
        try:
            fast = early_exit(forest, X_fit, max_disagreement=_EXIT_SHARE * rate, confidence=None, random_state=0)
        except (InfeasibleError, InputError):
            continue  # such a forest has no early exits
        if fast.plan.stop is not None:
            more.append(replace(one, predictor=fast, name=f"{one.name}, with early exits"))
    return more


def _choose(candidates: list[_Candidate], fitting: _Part | None, calibration: _Calibration) -> tuple[_Candidate, str]:
    """Return the candidate that costs least on the rows that fit, and why."""
    promise, expensive_us = calibration.promise, calibration.expensive_us
    if fitting is None:
        return candidates[0], ""
    if fitting.answers is None:  # recorded answers: what rows fit exits for is all that is known
        return candidates[-1], ""
    candidates = (
        [_fit_router(one, fitting, promise) for one in candidates] if isinstance(promise, Values) else candidates
    )
    if len(candidates) == 1:
        return candidates[0], ""
    costs: dict[int, tuple[float, float]] = {}
    for at, one in enumerate(candidates):
        # Labels of the rows that fit are not known, so changed answers stand for worse ones.
        found = one.test(fitting, promise if fitting.y is not None else _without_labels(promise))
        passed = 1.0 if found is None else 1.0 - found.kept
        cheap_us = one.time_us(fitting.X)
        # Without a price of the expensive model rows passed on count first, and time decides between equals.
        costs[at] = (passed, cheap_us) if expensive_us is None else (cheap_us + passed * expensive_us, passed)
    best = min(costs, key=lambda at: costs[at])
    unit = "share passed on" if expensive_us is None else "µs per row"
    listed = "; ".join(f"{candidates[at].name}: {format_number(cost)}" for at, (cost, _) in costs.items())
    return candidates[best], f"{unit} on rows that certify nothing: {listed}"


def _without_labels(promise: Promise) -> Promise:
    if not promise.NEEDS_LABELS:
        return promise
    return Labels(getattr(promise, "max_loss", 0.005), confidence=promise.confidence)


def _fit_router(one: _Candidate, fitting: _Part, promise: Values) -> _Candidate:
    """Return the candidate with a small classifier of rows whose value is too far from the expensive model's."""
    assert fitting.answers is not None
    with require_extra("fit", "a cascade of regressors"):
        from sklearn.ensemble import HistGradientBoostingClassifier
    rows = np.asarray(as_rows(one.predictor.forest, fitting.X))
    beyond = np.abs(one.predictor.predict(rows) - fitting.answers) > promise.max_error
    if beyond.all() or not beyond.any():
        # Nothing to learn. Two rows of either kind make a classifier that says the same of all rows.
        rows, beyond = np.concatenate([rows, rows[:1]]), np.append(beyond, not beyond[0])
    router = HistGradientBoostingClassifier(
        max_iter=_ROUTER_TREES, max_leaf_nodes=_ROUTER_LEAVES, learning_rate=0.05, early_stopping=False, random_state=0
    )
    return replace(one, router=from_model(router.fit(rows, beyond)))


def _certify(
    calibration: _Calibration, found: Band, n_rows: int, fitting: _Part | None, chosen: _Candidate, why: str
) -> Certificate:
    checked, promise = calibration.checked, calibration.promise
    known: dict[str, Any] = {
        "promise": promise,
        "n_rows": n_rows,
        "n_broken": found.n_broken,
        "n_gained": found.n_gained,
        "bound": found.bound,
        "tests": found.tests,
        "unit": checked.unit,
        "note": "The model of this promise is the expensive one.",
    }
    if promise.confidence is None:
        known |= {"n_rows": 0, "n_broken": 0, "n_gained": 0}
    if checked.warned:
        known = {"note": "The calibration rows look like rows that trained the cheap model."}
    rows = as_rows(chosen.predictor.forest, calibration.X)
    even = RowSummary.selection(len(rows))
    return Certificate(
        method="cascade",
        n_calibration_rows=len(rows),
        n_fit_rows=0 if fitting is None else count_rows(fitting.X),
        n_shared_rows=checked.n_shared,
        why=why,
        recipe=f"scurry.cascade({', '.join(calibration.data)}, promise=scurry.promises.{promise!r})",
        measured=CascadeMeasurement(
            kept=found.kept,
            changed=found.changed,
            cheap_changed=found.cheap_changed,
            cheap_us=chosen.time_us(calibration.X),
            expensive_us=calibration.expensive_us,
        ),
        rows=RowSummary.of(np.asarray(rows)[even], checksum=RowSummary.checksum_of(np.asarray(rows))),
        **known,
    )


def _infeasible(promise: Promise, n_rows: int) -> InfeasibleError:
    needed = promise.rows_needed()
    enough = needed <= n_rows
    advice = "more calibration rows (of each class)" if enough else f"at least {needed:,} calibration rows"
    return InfeasibleError(
        f"the promise cannot be certified on {n_rows:,} rows, even if every row is passed on. {promise.describe()} "
        f"Pass {advice}, or promise less",
        n_rows_needed=None if enough else needed,
        argument="X_cal",
    )
