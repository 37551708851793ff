"""The verb `scurry.compress`: a smaller forest, and a promise about its answers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import Progress, RandomState, check_count, check_numbers, check_progress, check_random_state
from scurry.compression.path import Compressor, Step, list_steps, packed_size
from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest, as_rows, warn_of_other_order
from scurry.forest.files.storage import container_bytes
from scurry.formatting import format_bytes
from scurry.predictor import Predictor, read_forest
from scurry.promises import (
    Accuracy,
    Certificate,
    Labels,
    LabelsPerClass,
    Outcomes,
    Promise,
    Recall,
    RowSummary,
    SizeMeasurement,
    SizePoint,
    Values,
    read_promise,
)
from scurry.stopping.guarantee import InMemory
from scurry.stopping.verdict import Verdict
from scurry.verbs.options import CheckedRows, check_rows

_KINDS = (Labels, LabelsPerClass, Recall, Accuracy, Values)
_DEFAULT = Labels(0.005)
_N_BEYOND = 3  # candidates after the first that failed, so that the path shows what would have come
_WORTH = 0.99  # a candidate that is hardly smaller than the one before is left out


def compress(
    model: Any,
    X_cal: Any,
    y_cal: Any = None,
    *,
    promise: Promise | str | None = None,
    max_bytes: int | None = None,
    size_of: Callable[[Forest], int] | None = None,
    X_fit: Any = None,
    random_state: RandomState = None,
    progress: Progress | None = None,
) -> Predictor:
    """Make a forest smaller, and promise what that does to its answers.

    Candidates become smaller step by step: nodes share thresholds and leaves share values, then trees and splits go.
    Each is tested on `X_cal` until one fails; the last before it is taken. Where `promise` allows less than one label
    in a hundred to change, no tree and no split goes. Ask for `scurry.promises.Accuracy` to make a forest much smaller:
    many labels may then change, as long as as many become right as become wrong.

    Parameters
    ----------
    model : estimator, booster, path or Forest
        Whatever `scurry.from_model` reads.
    X_cal : array or DataFrame of shape (n_rows, n_features)
        Calibration rows: like those to be predicted, and not used to train the model.
    y_cal : array of shape (n_rows,), optional
        Their labels, or a regressor's targets. The promises `Accuracy` and `Recall` need them; else they are measured.
    promise : Promise or str, optional
        What may change, and how surely: `Labels` (the default is ``Labels(0.005)``), `LabelsPerClass`, `Recall`,
        `Accuracy`, or `Values` for the values of a regressor and for probabilities.
    max_bytes : int, optional
        The largest size of the file that ``save(path)`` of the result writes, plan and certificate included. Alone, it
        takes the first candidate that fits, and nothing is promised. With a promise, the first that fits and is
        certified.
    size_of : callable, optional
        What counts for `max_bytes` instead of the file: it takes a candidate's forest and returns a number of bytes.
        ``size_of=scurry.export.flash_bytes`` counts the flash of a microcontroller.
    X_fit : array or DataFrame, optional
        Rows that weigh splits and refit leaves; no labels are needed. They should include the training rows, and must
        not be in `X_cal`. Without them, splits are weighed by the counts of training rows that the model knows, and
        leaves keep their values: a promise about accuracy then keeps about twice as many nodes.
    random_state : int, Generator, RandomState or None
        Accepted as everywhere. Nothing is drawn at random.
    progress : callable, optional
        Called as ``progress(n_done, n_total)`` after each candidate; an exception it raises ends the search.

    Returns
    -------
    Predictor
        Its `forest` is the smaller forest, all of which is evaluated. ``certificate.measured.path`` has all candidates.

    Raises
    ------
    InfeasibleError
        If no candidate's file fits into `max_bytes`, or so few rows cannot certify the promise. The message says which
        size or number of rows can, also in `achievable` or `n_rows_needed`.

    Warns
    -----
    UserWarning
        If rows of `X_cal` are no independent draws: they are in `X_fit`, they are copies, or they trained the model.

    Notes
    -----
    The test assumes that rows of `X_cal` are independent draws like the rows to come. All candidates are made without
    them, and tested in a fixed order up to the first failure, so their number needs no correction.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(6000, flip_y=0.2, random_state=0)
    >>> model = RandomForestClassifier(30, random_state=0).fit(X[:2000], y[:2000])
    >>> small = scurry.compress(
    ...     model, X[2000:], y[2000:], promise=scurry.promises.Accuracy(0.02), X_fit=X[:2000])
    >>> print(small.promise.describe())
    With confidence 0.95, on new rows accuracy is at most 2 points below the model's.
    >>> measured = small.certificate.measured
    >>> measured.n_nodes < measured.full_nodes / 8
    True
    """
    forest = read_forest(model, X_cal).as_sum("be compressed")
    check_random_state(random_state)
    limit = None if max_bytes is None else check_count("max_bytes", max_bytes)
    if size_of is not None and not callable(size_of):
        raise InputError(f"size_of must be a function that takes a forest, got {size_of!r}", argument="size_of")
    if size_of is not None and limit is None:
        raise InputError("size_of says what max_bytes counts; pass max_bytes too", argument="size_of")
    asked = _check_promise(forest, read_promise(promise, forest.classes), limit, y_cal)
    fit_rows = None if X_fit is None else as_rows(forest, X_fit)
    if fit_rows is not None and len(fit_rows) == 0:
        raise InputError("X_fit has no rows; leave it out, or pass the training rows", argument="X_fit")
    rows = _check_rows(forest, X_cal, y_cal, fit_rows, is_promised=asked is not None and asked.rows_needed() > 0)
    trial = _Trial.of(forest, rows, asked)
    if asked is not None and asked.rows_needed() > len(trial.rows):
        raise InfeasibleError(
            f"{len(trial.rows):,} {rows.unit}s cannot certify the promise: at least {asked.rows_needed():,} are needed."
            f" {asked.describe()} Pass more calibration rows, or promise less",
            n_rows_needed=asked.rows_needed(),
            argument="promise",
        )
    search = _Search(trial, Compressor(forest, fit_rows), rows, len(as_rows(forest, X_cal)), limit, size_of)
    search.walk(check_progress(progress))
    return search.choose()


@dataclass(frozen=True, eq=False)
class _Candidate:
    step: Step
    forest: Forest
    n_bytes: int
    outcomes: Outcomes
    tested: Verdict | None
    is_certified: bool

    def point(self, promise: Promise | None) -> SizePoint:
        right = _share_right(self.outcomes, self.outcomes.answers)
        return SizePoint(
            node_share=self.step.node_share,
            split_bits=self.step.split_bits,
            n_trees=self.forest.n_trees,
            n_nodes=self.forest.n_nodes,
            n_bytes=self.n_bytes,
            changed=_share_changed(self.outcomes, promise),
            accuracy=right,
            is_certified=None if promise is None else self.is_certified,
        )


@dataclass(frozen=True, eq=False)
class _Trial:
    """The rows that test candidates, and what the model answers to them."""

    forest: Forest
    rows: NDArray[Any]
    y: NDArray[Any] | None
    full: Answers
    promise: Promise | None

    @classmethod
    def of(cls, forest: Forest, rows: CheckedRows, promise: Promise | None) -> _Trial:
        tests = np.ones(rows.sample.n_rows, np.bool_) if rows.groups is None else rows.divide(0)[1]
        matrix = rows.sample.gather()[tests]
        return cls(forest, matrix, None if rows.y is None else rows.y[tests], Answers.of(forest, matrix), promise)

    def compare(self, small: Forest) -> Outcomes:
        return compare(self.forest, self.full, Answers.of(small, self.rows), self.y)


@dataclass(frozen=True, eq=False)
class _Search:
    """The candidates from large to small, and which of them is taken.

    Attributes
    ----------
    n_given : int
        Calibration rows that were passed.
    limit : int or None
        The largest size of the predictor's file.
    size_of : callable or None
        What counts instead of that file.
    candidates : list of _Candidate
        Those that `walk` has made.
    """

    trial: _Trial
    compressor: Compressor
    rows: CheckedRows
    n_given: int
    limit: int | None
    size_of: Callable[[Forest], int] | None = None
    candidates: list[_Candidate] = field(default_factory=list)
    _sizes: dict[int, int] = field(default_factory=dict)  # by `size_of`, of each candidate

    def walk(self, progress: Progress | None) -> None:
        """Make candidates to the first whose file fits, or to the first that fails its test and a few more."""
        promise, candidates = self.trial.promise, self.candidates
        steps = list_steps(self.compressor.forest, _max_changed(promise))
        n_beyond, has_failed, is_found = 0, False, False
        for at, step in enumerate(steps):
            small = self.compressor.make(step)
            n_bytes = packed_size(small)
            # Sizes do not depend on the rows that test, so leaving out a candidate does not either.
            if not candidates or n_bytes < _WORTH * candidates[-1].n_bytes:
                outcomes = self.trial.compare(small)
                tested = None if promise is None else Verdict(promise, outcomes)
                # What changes no answer needs no proof.
                passes = tested is None or tested.passes or not step.split_bits
                has_failed = has_failed or not passes
                candidates.append(_Candidate(step, small, n_bytes, outcomes, tested, not has_failed))
                n_beyond += has_failed
                is_found = self._fits(len(candidates) - 1)
            if progress is not None:
                progress(len(steps) if is_found else at + 1, len(steps))
            if is_found or n_beyond >= _N_BEYOND:
                break

    def choose(self) -> Predictor:
        """Return the smallest that is certified, or the first whose file fits."""
        certified = [at for at, candidate in enumerate(self.candidates) if candidate.is_certified]
        if self.limit is None:
            return self._make(certified[-1], self.candidates, None)
        if self._fits(certified[-1]):
            return self._make_for(certified[-1], self.limit)
        promise, smallest = self.trial.promise, min(certified, key=self._size)
        if self.size_of is not None and self._size(smallest) == sys.maxsize:
            self.size_of(self.candidates[smallest].forest)  # says why
        # The limit is written in the certificate, so that the size of a file depends on it a little.
        least = self._size(smallest)
        while (size := self._size(smallest, least)) > least:
            least = size
        least = size if self._size(smallest, size) <= size else least
        what = "the smallest candidate" if promise is None else "the smallest that keeps the promise"
        more = "" if promise is None else f", promise less, or pass more calibration rows. {promise.describe()}"
        if self.size_of is None:
            what = f"the file of {what}"
            shown = f" ({format_bytes(least)}), {self.candidates[smallest].n_bytes:,} of them for the forest"
            larger = "Allow as many; the first candidate that fits is taken, so that more bytes may give better answers"
        else:
            shown, larger = "", "Allow as many"
        raise InfeasibleError(
            f"max_bytes={self.limit:,} is too small: {what} takes {least:,} bytes{shown}. {larger}{more}",
            float(least),
            argument="max_bytes",
        )

    def _fits(self, at: int) -> bool:
        if self.limit is None or not self.candidates[at].is_certified:
            return False
        if self.size_of is None and self.candidates[at].n_bytes > self.limit:  # without the file being made
            return False
        return self._size(at) <= self.limit

    def _size(self, at: int, limit: int | None = None) -> int:
        """Return the bytes of the file of a candidate that is chosen for `limit`, by default that of the search."""
        if self.size_of is not None:
            return self._count_bytes(at, self.size_of)
        predictor = self._make_for(at, self.limit if limit is None else limit)
        return len(container_bytes("predictor", *predictor.to_file_parts()))

    def _count_bytes(self, at: int, size_of: Callable[[Forest], int]) -> int:
        """Return what `size_of` says of a candidate: the most there is if it says that the forest is too large."""
        if at not in self._sizes:
            try:
                self._sizes[at] = int(size_of(self.candidates[at].forest))
            except InputError:  # C has no layout for so many nodes, say
                self._sizes[at] = sys.maxsize
        return self._sizes[at]

    def _make_for(self, at: int, limit: int | None) -> Predictor:
        """Return a candidate as it would be chosen for a size, by which no smaller ones are made."""
        return self._make(at, self.candidates[: at + 1], limit)

    def _make(self, at: int, path: list[_Candidate], limit: int | None) -> Predictor:
        chosen = self.candidates[at]
        return Predictor.full(chosen.forest, self._certificate(chosen, path, limit))

    @cached_property
    def _full_bytes(self) -> int:
        return packed_size(self.trial.forest)

    @cached_property
    def _row_summary(self) -> RowSummary:
        return RowSummary.of(self.trial.rows)

    def _certificate(self, chosen: _Candidate, path: list[_Candidate], limit: int | None) -> Certificate:
        forest, promise, rows, fit_rows = self.trial.forest, self.trial.promise, self.rows, self.compressor.rows
        outcomes, tested = chosen.outcomes, chosen.tested
        n_fit = 0 if fit_rows is None or chosen.step.node_share == 1 else len(fit_rows)
        measured = SizeMeasurement(
            n_bytes=chosen.n_bytes,
            full_bytes=self._full_bytes,
            n_nodes=chosen.forest.n_nodes,
            full_nodes=forest.n_nodes,
            n_trees=chosen.forest.n_trees,
            full_trees=forest.n_trees,
            changed=_share_changed(outcomes, promise),
            accuracy=_share_right(outcomes, outcomes.answers),
            full_accuracy=_share_right(outcomes, outcomes.full),
            path=tuple(candidate.point(None if rows.warned else promise) for candidate in path),
            model=forest.digest,
        )
        if outcomes.y is not None and not forest.is_classifier:
            of_small, of_full = (
                float(np.sqrt(np.square(values - outcomes.y).mean())) for values in (outcomes.answers, outcomes.full)
            )
            measured = replace(measured, rmse=of_small, full_rmse=of_full)
        given = {"promise": promise, "max_bytes": limit}
        data = ["model", "X_cal", *(["y_cal"] if outcomes.y is not None else [])]
        data += [f"{name}={_as_code(value)}" for name, value in given.items() if value is not None]
        data += ["size_of=size_of"] if self.size_of is not None else []
        data += ["X_fit=X_fit"] if fit_rows is not None else []
        certificate = Certificate(
            method="compress",
            promise=promise,
            n_calibration_rows=self.n_given,
            n_fit_rows=n_fit,
            n_shared_rows=rows.n_shared,
            why=chosen.step.describe() + (", leaves refitted" if n_fit else ""),
            recipe=f"scurry.compress({', '.join(data)})",
            measured=measured,
            rows=self._row_summary,
        )
        if rows.warned:
            return replace(
                certificate, promise=None, note="The calibration rows look like rows that trained the model."
            )
        if promise is None:
            return replace(certificate, note="The forest was chosen by its size.")
        if tested is None or promise.confidence is None or not promise.rows_needed():
            return certificate
        return replace(
            certificate,
            n_rows=len(self.trial.rows),
            unit=rows.unit,
            n_broken=tested.n_broken,
            n_gained=tested.n_gained,
            bound=tested.bound,
            tests=tested.tests,
        )


def _check_promise(forest: Forest, promise: Promise | None, max_bytes: int | None, y_cal: Any) -> Promise | None:
    """Return the promise that is asked for, None where only the size is; raise an error that says what is accepted."""
    if promise is None and max_bytes is not None:
        return None
    if promise is None and not forest.is_classifier:
        raise InputError(
            "the model is a regressor: pass promise=scurry.promises.Values(max_error), with a quarter of its RMSE as "
            "max_error, say, or max_bytes",
            argument="promise",
        )
    asked = _DEFAULT if promise is None else promise
    if not isinstance(asked, _KINDS):
        accepted = ", ".join(kind.__name__ for kind in _KINDS)
        raise InputError(f"compress can promise {accepted}, got {promise!r}", argument="promise")
    if isinstance(asked, Labels) and (asked.against != "model" or asked.holds != "rows"):
        raise InputError("compress compares labels with the model's, over rows: leave `against` and `holds` out")
    if asked.IS_ABOUT_CLASSES and forest.n_classes < 2:
        kind = "regressor; promise Values(max_error)" if not forest.is_classifier else "classifier of a single class"
        raise InputError(f"{type(asked).__name__} compares labels, and the model is a {kind}", argument="promise")
    if isinstance(asked, Values):
        _check_values(forest, asked)
    elif isinstance(asked, LabelsPerClass | Recall):
        named = [asked.label] if isinstance(asked, Recall) else [label for label, _ in asked.rates]
        forest.codes_of(named, "promise")
    if asked.NEEDS_LABELS and y_cal is None:
        raise InputError(
            f"y_cal is needed: {type(asked).__name__} compares answers with known labels; pass them, or promise "
            "Labels(…), which needs none",
            argument="y_cal",
        )
    return asked


def _check_values(forest: Forest, promise: Values) -> None:
    if forest.n_outputs != 1 and not forest.n_classes == 2:
        raise InputError(
            "Values compares one value per row, and the model gives several; promise Labels(…) or Accuracy(…)",
            argument="promise",
        )
    if forest.is_classifier == (promise.of == "value"):
        wanted = 'of="probability"' if forest.is_classifier else 'of="value"'
        kind = "classifier" if forest.is_classifier else "regressor"
        raise InputError(f"the model is a {kind}: promise Values(…, {wanted}), got {promise!r}", argument="promise")
    if promise.of == "log-odds" and (forest.link != "logistic" or forest.n_outputs != 1):
        raise InputError(
            'log-odds need a model that adds up scores with a logistic link; promise Values(…, of="probability")',
            argument="promise",
        )


def _check_rows(forest: Forest, X_cal: Any, y_cal: Any, fit_rows: Any, *, is_promised: bool) -> CheckedRows:
    """Return the rows that may test, with what was wrong with the others warned of."""
    matrix = as_rows(forest, X_cal)
    if len(matrix) == 0:
        raise InputError("X_cal has no rows; pass rows like those to be predicted", argument="X_cal")
    y = None if y_cal is None else np.asarray(y_cal)
    if y is not None and y.shape != (len(matrix),):
        raise InputError(f"y_cal has shape {y.shape}, X_cal has {len(matrix)} rows", argument="y_cal")
    if y is not None and forest.is_classifier:
        forest.codes_of(y, "y_cal")
    elif y is not None:
        y = check_numbers("y_cal", y)
        if not np.isfinite(y).all():
            raise InputError("y_cal has missing or infinite values; leave out these rows, or y_cal", argument="y_cal")
    if y is not None:
        warn_of_other_order(forest, X_cal, y_cal, matrix, ("X_cal", "y_cal"))
    sample = InMemory(matrix)
    if not is_promised:
        return CheckedRows(sample=sample, y=y)
    return check_rows(forest, sample, y, None, fit_rows)


def _max_changed(promise: Promise | None) -> float | None:
    """Return the share of labels that may change, where that is what a promise is about."""
    if isinstance(promise, Labels | LabelsPerClass):
        return promise.max_changed if isinstance(promise, Labels) else min(rate for _, rate in promise.rates)
    return min(promise.max_loss, promise.others_rate) if isinstance(promise, Recall) else None


def _share_changed(outcomes: Outcomes, promise: Promise | None) -> float:
    if isinstance(promise, Values):
        return promise.count(outcomes)[0].rate
    return float(outcomes.changed.mean())


def _share_right(outcomes: Outcomes, answers: NDArray[Any]) -> float | None:
    return None if outcomes.y is None or not outcomes.classes else float((answers == outcomes.y).mean())


def _as_code(value: Any) -> str:
    return f"scurry.promises.{value!r}" if isinstance(value, Promise) else repr(value)


@dataclass(frozen=True)
class Answers:
    """What a forest answers to the rows that test.

    Attributes
    ----------
    labels : array of shape (n_rows,)
        Labels, or a regressor's values.
    probabilities, log_odds : float64 arrays of shape (n_rows,) or None
        Of the second of two classes.
    """

    labels: NDArray[Any]
    probabilities: NDArray[np.float64] | None = None
    log_odds: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, forest: Forest, rows: NDArray[Any]) -> Answers:
        """Return what `forest` answers to `rows`."""
        is_told = forest.n_classes == 2 and forest.has_probabilities
        probabilities = forest.predict_proba(rows)[:, 1] if is_told else None
        is_logistic = forest.n_classes == 2 and forest.n_outputs == 1 and forest.link == "logistic"
        log_odds = forest.scores(rows)[:, 0] * forest.link_scale if is_logistic else None
        return cls(forest.predict(rows), probabilities, log_odds)


def compare(forest: Forest, full: Answers, small: Answers, y: NDArray[Any] | None) -> Outcomes:
    """Return the answers of a smaller forest next to the model's."""
    return Outcomes(
        answers=small.labels,
        full=full.labels,
        probabilities=small.probabilities,
        full_probabilities=full.probabilities,
        log_odds=small.log_odds,
        full_log_odds=full.log_odds,
        y=y,
        classes=() if forest.classes is None else tuple(forest.classes.tolist()),
    )
