"""Cascade: a cheap forest, the certainty from which on it answers alone, and the expensive model behind it.

The expensive model is anything that answers rows, or the answers that it once gave.

How sure a cheap model is of its answer is a number between 0 and 1 for each row, by which a cascade keeps it or not.
For a classifier it is the lead of the label: how far its probability is from the point where the label would change,
as a share of the way to the end. For a regressor it is the probability that its value is close enough to the expensive
model's, as a second small forest, fitted for that, estimates it.

`train_sizes` trains cheap models of several sizes. Which of them pays depends on the data, and `scurry.cascade` finds
out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import (
    Progress,
    RandomState,
    check_choice,
    check_count,
    check_instance,
    check_progress,
    draw_seed,
    float_of,
)
from scurry.errors import FormatError, InputError, require_extra
from scurry.forest import Forest, as_rows, count_rows, take_rows
from scurry.forest.files.storage import container_bytes, container_of, read_container, write_container
from scurry.formatting import align, format_share
from scurry.plan import Plan
from scurry.predictor import Predictor
from scurry.promises import Certificate, Promise
from scurry.skops import check_trusted

BATCH_SIZE = 1024


class CheapAnswers(NamedTuple):
    """What the cheap model says.

    Attributes
    ----------
    answers : array of shape (n_rows,)
        Labels, or a regressor's values.
    certainty : float64 array of shape (n_rows,)
        From 0 to 1.
    """

    answers: NDArray[Any]
    certainty: NDArray[np.float64]


def ask_cheap(cheap: Predictor, router: Forest | None, X: Any, n_threads: int | None = 1) -> CheapAnswers:
    """Return the answers of the cheap model, and how sure they are.

    Parameters
    ----------
    cheap : Predictor
    router : Forest or None
        For a regressor: a classifier of the same rows, whose second class are rows that should be passed on.
    X : array or DataFrame of shape (n_rows, n_features)
    n_threads : int or None
    """
    forest, rows = cheap.forest, as_rows(cheap.forest, X)
    if router is not None:
        beyond = router.predict_proba(np.asarray(rows), n_threads)[:, -1]
        return CheapAnswers(cheap.predict(rows, n_threads), 1.0 - beyond)
    if cheap.plan.stop is not None or forest.wrapper is not None:
        asked = forest if cheap.plan.stop is None else cheap
        return CheapAnswers(asked.predict(rows, n_threads), find_lead(forest, asked.predict_proba(rows, n_threads)))
    scores = forest.scores(rows, n_threads)  # one walk through the trees serves both
    return CheapAnswers(forest.decide(scores), find_lead(forest, _probabilities(forest, scores)))


def find_lead(forest: Forest, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each row is from another label, from 0 to 1.

    Parameters
    ----------
    forest : Forest
    probabilities : float64 array of shape (n_rows, n_classes)

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> find_lead(scurry.Forest.from_trees([stump]), np.array([[0.9, 0.1], [0.45, 0.55]])).round(3).tolist()
    [0.8, 0.1]
    """
    if forest.n_outputs == 1 and forest.n_classes == 2 and forest.wrapper is None:
        # The label changes where the score does, which is not always at a probability of one half.
        turn = float(forest.link_scores(np.array([[forest.decision_threshold]]))[0, 0])
        second = probabilities[:, 1]
        way = np.where(second >= turn, 1.0 - turn, turn)
        lead = np.divide(np.abs(second - turn), way, out=np.zeros(len(second)), where=way > 0)
    else:
        top = np.partition(probabilities, -2, axis=1)
        lead = top[:, -1] - top[:, -2]
    return np.clip(lead, 0.0, 1.0)


def _probabilities(forest: Forest, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    linked = forest.link_scores(scores)
    return np.column_stack([1.0 - linked[:, 0], linked[:, 0]]) if forest.n_outputs == 1 else linked


class Expensive:
    """A model that is called with as few rows as possible.

    Parameters
    ----------
    given : estimator, callable, array of shape (n_rows,) or None
        What has a ``predict`` method, what can be called with rows, or recorded answers. None knows no answer.

    Attributes
    ----------
    us_per_row : float or None
        Microseconds that a row took so far; None before the first call, and for recorded answers.
    """

    def __init__(self, given: Any) -> None:
        self.given = given
        predict = getattr(given, "predict", given)
        self._call = predict if callable(predict) else None
        self._n_rows, self._seconds = 0, 0.0

    @property
    def can_answer(self) -> bool:
        """Whether it answers new rows."""
        return self._call is not None

    @property
    def us_per_row(self) -> float | None:
        """Microseconds that a row took so far; None before the first call."""
        return 1e6 * self._seconds / self._n_rows if self._n_rows else None

    def read_recorded(self, n_rows: int, table: str) -> NDArray[Any]:
        """Return the recorded answers, one for each row of a table."""
        return check_answers(self.given, n_rows, f"the recorded answers (expensive) for {table}")

    def answer(
        self, X: Any, rows: NDArray[np.intp], batch_size: int | None, progress: Progress | None = None
    ) -> NDArray[Any]:
        """Return the answers for some rows of `X`, asked for in batches.

        Parameters
        ----------
        X : array or DataFrame
            It is passed on as it is: rows of a frame are frames.
        rows : int array
            Which rows, in this order.
        batch_size : int or None
            The most rows of one call; None calls once.
        progress : callable, optional
        """
        assert self._call is not None
        size, parts, start = batch_size or max(len(rows), 1), [], time.perf_counter()
        for first in range(0, len(rows), size):
            chosen = rows[first : first + size]
            given = X if len(chosen) == count_rows(X) else take_rows(X, chosen)
            parts.append(check_answers(self._call(given), len(chosen), "what expensive returns"))
            if progress is not None:
                progress(first + len(chosen), len(rows))
        self._seconds, self._n_rows = self._seconds + time.perf_counter() - start, self._n_rows + len(rows)
        return np.concatenate(parts) if parts else np.empty(0)


def check_answers(answers: Any, n_rows: int, what: str) -> NDArray[Any]:
    """Return answers as an array of shape (n_rows,), texts as texts of numpy."""
    array = np.asarray(answers)
    if array.shape == (n_rows, 1):  # as CatBoost returns labels
        array = array[:, 0]
    if array.shape != (n_rows,):
        hint = "; pass labels, not probabilities" if array.ndim == 2 and len(array) == n_rows else ""
        raise InputError(f"{what} must have shape ({n_rows},), got {array.shape}{hint}", argument="expensive")
    return np.array(array.tolist()) if array.dtype.kind == "O" else array


@dataclass(frozen=True, eq=False)
class CascadeRun:
    """What happened to each row.

    Attributes
    ----------
    labels : array of shape (n_rows,)
        Answers: labels, or values of a regressor.
    passed_on : bool array of shape (n_rows,)
        The rows that the expensive model answered.
    certainty : float64 array of shape (n_rows,)
        How sure the cheap model was, from 0 to 1.
    """

    labels: NDArray[Any]
    passed_on: NDArray[np.bool_]
    certainty: NDArray[np.float64]

    @property
    def share_passed_on(self) -> float:
        """Share of rows that the expensive model answered, 0 if there are no rows."""
        return float(self.passed_on.sum() / max(len(self.passed_on), 1))

    def __repr__(self) -> str:
        return f"CascadeRun(n_rows={len(self.labels)}, passed_on={format_share(self.share_passed_on)})"


class Cascade:
    """A cheap forest in front of an expensive model. `scurry.cascade` makes one.

    Parameters
    ----------
    cheap : Predictor
        The cheap forest and the plan that runs it.
    expensive : estimator, callable or None
        What answers the rows that are passed on: an object with a ``predict`` method, or a function of rows. With None
        such rows raise an error.
    min_certainty : float
        Rows of which the cheap model is surer than this get its answer. The others are passed on.
    router : Forest, optional
        For a regressor: the classifier of rows by which certainty is estimated.
    certificate : Certificate, optional

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(4000, random_state=0)
    >>> expensive = RandomForestClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> cheap = RandomForestClassifier(10, random_state=1).fit(X[:1000], y[:1000])
    >>> cascade = scurry.cascade(cheap, expensive, X[1000:3000], promise=scurry.promises.Labels(0.02))
    >>> run = cascade.run(X[3000:])
    >>> bool((run.labels[run.passed_on] == expensive.predict(X[3000:][run.passed_on])).all())
    True
    """

    def __init__(
        self,
        cheap: Predictor,
        expensive: Any,
        min_certainty: float,
        *,
        router: Forest | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        check_instance("cheap", cheap, Predictor, hint="; make one with scurry.Predictor.full(forest)")
        limit = float_of(min_certainty)
        if not -1.0 <= limit <= 1.0:
            raise InputError(
                f"min_certainty must be a number from -1, which keeps every row, to 1, which keeps none, got "
                f"{min_certainty!r}",
                argument="min_certainty",
            )
        if router is not None:
            check_instance("router", router, Forest)
        n_classes = None if router is None else router.n_classes
        if n_classes != (None if cheap.forest.is_classifier else 2):
            raise InputError("router is for regressors, and they need one: a classifier of two classes")
        if router is not None and router.n_features != cheap.forest.n_features:
            raise InputError("router must read the same columns as cheap", argument="router")
        self.cheap, self.expensive, self.min_certainty = cheap, expensive, limit
        self.router, self.certificate = router, certificate
        self._expensive = Expensive(expensive)

    @property
    def promise(self) -> Promise | None:
        """What may change, how much and how surely; None if nothing is promised."""
        return None if self.certificate is None else self.certificate.promise

    def predict(
        self,
        X: Any,
        n_threads: int | None = 1,
        *,
        batch_size: int | None = BATCH_SIZE,
        recorded: Any = None,
        progress: Progress | None = None,
    ) -> NDArray[Any]:
        """Predict the label or the value of each row.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
            Threads of the cheap model. None uses all cores.
        batch_size : int or None, default 1024
            The most rows that the expensive model gets at once; None passes all of them on in one call.
        recorded : array of shape (n_rows,), optional
            Answers of the expensive model that are known already. It is not called then.
        progress : callable, optional
            Called as ``progress(n_done, n_total)`` after each batch, with numbers of rows passed on.

        Returns
        -------
        array of shape (n_rows,)

        Raises
        ------
        InputError
            If rows must be passed on, and there is no expensive model.
        """
        return self.run(X, n_threads, batch_size=batch_size, recorded=recorded, progress=progress).labels

    def passes_on(self, X: Any, n_threads: int | None = 1) -> NDArray[np.bool_]:
        """Return which rows would be passed on, without calling the expensive model.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1

        Returns
        -------
        bool array of shape (n_rows,)
        """
        return np.asarray(~self._keeps(self._ask(X, n_threads)))

    def run(
        self,
        X: Any,
        n_threads: int | None = 1,
        *,
        batch_size: int | None = BATCH_SIZE,
        recorded: Any = None,
        progress: Progress | None = None,
    ) -> CascadeRun:
        """Predict, and report which rows were passed on.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads, batch_size, recorded, progress : optional
            As for `predict`.

        Returns
        -------
        CascadeRun
            ``labels, passed_on, certainty``.
        """
        size = None if batch_size is None else check_count("batch_size", batch_size)
        check_progress(progress)
        if not hasattr(X, "columns") and np.ndim(X) == 1:
            X = np.asarray(X).reshape(1, -1)  # one row, of which the expensive model gets a table too
        said = self._ask(X, n_threads)
        kept = self._keeps(said)
        passed = np.flatnonzero(~kept)
        if recorded is not None:
            other = Expensive(recorded).read_recorded(len(kept), "X")[passed]
        elif len(passed) == 0:
            return CascadeRun(said.answers, ~kept, said.certainty)
        elif not self._expensive.can_answer:
            raise InputError(
                f"{len(passed):,} of {len(kept):,} rows must be passed on to the expensive model, which this cascade "
                "does not have: it was made of recorded answers, or loaded without it. Pass the model: "
                "scurry.Cascade.load(path, expensive); or its answers: recorded=. cascade.passes_on(X) says which "
                "rows need one",
                argument="expensive",
            )
        else:
            other = self._expensive.answer(X, passed, size, progress)
        other = _name_alike(other, self.cheap.forest)
        answers = _promote(said.answers, other)
        answers[passed] = other
        return CascadeRun(answers, ~kept, said.certainty)

    def _ask(self, X: Any, n_threads: int | None) -> CheapAnswers:
        return ask_cheap(self.cheap, self.router, X, n_threads)

    def _keeps(self, said: CheapAnswers) -> NDArray[np.bool_]:
        return np.asarray(said.certainty > self.min_certainty)

    def summary(self) -> str:
        """Return what is promised and what was measured when the cascade was made; print it."""
        about = {} if self.certificate is None else self.certificate.lines()
        return align({"cheap": repr(self.cheap.forest), **about})

    def save(self, path: str | PathLike[str]) -> None:
        """Write the cheap forest, the certainty it needs and the certificate to a ``.scurry`` file.

        The expensive model is not part of the file; `load` takes it.

        Parameters
        ----------
        path : str or path
        """
        arrays = {"cheap": _as_bytes("predictor", *self.cheap.to_file_parts())}
        if self.router is not None:
            arrays["router"] = _as_bytes("forest", *self.router.to_packed_parts())
        certificate = None if self.certificate is None else self.certificate.to_json()
        write_container(path, "cascade", {"min_certainty": self.min_certainty, "certificate": certificate}, arrays)

    @classmethod
    def load(cls, path: str | PathLike[str], expensive: Any = None, *, trusted: Sequence[str] = ()) -> Self:
        """Load a cascade; nothing in the file is executed.

        Parameters
        ----------
        path : str or path
        expensive : estimator, callable or None
            The model that answers the rows passed on. It must be the one that the cascade was made for, since the
            promise compares with its answers. Without it, rows that must be passed on raise an error.
        trusted : sequence of str
            Types of transformers to trust besides those that skops trusts, as in `scurry.load`.

        Returns
        -------
        Cascade

        Raises
        ------
        FormatError
            If the file holds no cascade.
        """
        check_trusted(trusted)
        container = read_container(path)
        if container.kind != "cascade":
            raise FormatError(f"{path} holds a {container.kind}, not a cascade; use scurry.load")
        with container.reading("cascade"):
            limit, certificate = container.field("min_certainty", float | int), container.header.get("certificate")
            inner = container_of(container.array("cheap", np.uint8).tobytes())
            cheap = Predictor(Forest.from_container(inner, trusted), Plan.from_container(inner))
            router = None
            if not cheap.forest.is_classifier:
                router = Forest.from_container(container_of(container.array("router", np.uint8).tobytes()))
            return cls(
                cheap,
                expensive,
                limit,
                router=router,
                certificate=None if certificate is None else Certificate.from_json(certificate),
            )

    def __getattr__(self, name: str) -> Any:
        if name == "predict_proba":
            raise AttributeError(
                "a cascade answers with labels: rows that are passed on get the expensive model's answer, which need "
                "not have probabilities. cascade.cheap.predict_proba(X) has those of the cheap model"
            )
        raise AttributeError(f"'Cascade' object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"Cascade({self.cheap!r}, min_certainty={self.min_certainty:.4g})"


def _as_bytes(kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> NDArray[np.uint8]:
    return np.frombuffer(container_bytes(kind, header, arrays), np.uint8)


def _name_alike(other: NDArray[Any], forest: Forest) -> NDArray[Any]:
    """Return answers of the expensive model as the cheap model's own labels, if it knows all of them."""
    if not forest.is_classifier:
        return other
    classes = np.asarray(forest.classes)
    at = {label: place for place, label in enumerate(classes.tolist())}
    places = [at.get(label, -1) for label in other.tolist()]
    return other if -1 in places else classes[np.array(places, np.intp)]


def _promote(answers: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of answers that can also hold the others: longer texts, or a class the cheap model lacks."""
    return answers.astype(np.result_type(answers.dtype, other.dtype)) if len(other) else answers.copy()


# Equally spaced in log-odds: close to certainty, where most rows are, a small step of a probability is a large one.


SIZES = ((30, 7), (100, 15), (300, 31), (600, 63))


def train_sizes(
    X: Any,
    y: Any,
    *,
    task: str = "classification",
    sizes: Sequence[tuple[int, int]] = SIZES,
    random_state: RandomState = None,
    progress: Progress | None = None,
) -> list[Any]:
    """Train boosted trees of several sizes, to choose the cheap model of a cascade from.

    Parameters
    ----------
    X : array or DataFrame of shape (n_rows, n_features)
        Training rows. None of them may be among the rows that `scurry.cascade` gets.
    y : array of shape (n_rows,)
        What to learn: known labels, or the expensive model's answers to these rows. The latter help where the
        expensive model is of another kind, such as a neural network.
    task : {"classification", "regression"}
    sizes : sequence of (n_trees, n_leaves)
        Boosting rounds, and the most leaves of a tree, from the smallest model to the largest.
    random_state : int, Generator, RandomState or None
    progress : callable, optional
        Called as ``progress(n_done, n_total)`` after each model.

    Returns
    -------
    list of HistGradientBoostingClassifier or HistGradientBoostingRegressor

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(500, random_state=0)
    >>> models = scurry.cascades.train_sizes(X, y, sizes=[(5, 4), (20, 8)], random_state=0)
    >>> [scurry.from_model(model).n_trees for model in models]
    [5, 20]
    """
    check_choice("task", task, ("classification", "regression"))
    check_progress(progress)
    if len(getattr(X, "shape", np.shape(X))) != 2:
        raise InputError("X must be a table of rows and columns", argument="X")
    if len(sizes) == 0:
        raise InputError("sizes must have at least one (n_trees, n_leaves)", argument="sizes")
    pairs = [(check_count("sizes", trees), check_count("sizes", leaves, 2)) for trees, leaves in sizes]
    with require_extra("fit", "training a cheap model"):
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    kind = HistGradientBoostingClassifier if task == "classification" else HistGradientBoostingRegressor
    seed, models = draw_seed(random_state) % 2**32, []
    for n_trees, n_leaves in pairs:
        model = kind(max_iter=n_trees, max_leaf_nodes=n_leaves, early_stopping=False, random_state=seed)
        models.append(model.fit(X, y))
        if progress is not None:
            progress(len(models), len(pairs))
    return models
