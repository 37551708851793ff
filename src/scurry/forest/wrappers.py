"""Wrappers: how a model around other models turns their answers, or the sums of its trees, into its own.

A forest adds up leaves. Bagged, voting, calibrated and thresholded models do more with the sums before they answer. A
`Wrapper` says what, so that the labels are the source's. Two kinds share this class:

- Some answer from the sums of the forest itself: `Isolation`, `Samme`, and `Calibrated` where a threshold on the sums
  decides. The forest's own fields then give the labels, and the wrapper gives the probabilities.
- The others answer from their *members*, forests that share the trees among themselves. The fields of the whole forest
  are then a sum that stands for the model, by which early exits stop rows; every label of a row that does not stop
  comes from the members.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import check_choice
from scurry.errors import FormatError, InputError

FloatArray = NDArray[np.float64]

_NEARLY_ONE = 1.0 + 1e-5  # scikit-learn cuts probabilities between 1 and this to 1
_TINY = 1e-12  # what scikit-learn adds to probabilities before their logarithm


class Scored(Protocol):
    """The whole forest as wrappers see it; members are forests, too, of which they ask more."""

    def scores(self, X: Any, n_threads: int | None = 1) -> FloatArray:
        """Return the sums of trees."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Wrapper(ABC):
    """What a model does with the answers of its members, or with the sums of its own trees.

    Attributes
    ----------
    members : tuple of Forest
        The forests that answer; they take the trees of the whole forest one after the other. Their classes are the
        numbers of the whole forest's classes.
    """

    TAG: ClassVar[str]
    has_probabilities: ClassVar[bool] = True
    members: tuple[Any, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether labels come from the members, and not from the sums of the whole forest."""
        return bool(self.members)

    @property
    def adds_up(self) -> bool:
        """Whether the sum of the whole forest is what the model compares or answers, up to rounding."""
        return False

    @property
    def follows_sum(self) -> bool:
        """Whether the label is that of the sum of the whole forest wherever it leads by more than float64 rounds."""
        return not self.decides

    @abstractmethod
    def describe(self) -> str:
        """Return what the model does with its trees, as a summary says it."""

    @abstractmethod
    def probabilities(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return class probabilities, shape (n_rows, n_classes)."""

    def codes(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> NDArray[np.intp]:
        """Return the number of each row's class."""
        return np.asarray(self.probabilities(forest, rows, n_threads).argmax(axis=1))

    def values(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return a regressor's values, shape (n_rows,)."""
        raise InputError(f"{self.describe()}: it has no values")

    def decision_values(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return what the source calls its decision function, shape (n_rows, n_outputs)."""
        raise InputError(f"{self.describe()}: it has no decision function")

    def link(self, scores: FloatArray) -> FloatArray | None:
        """Return what probabilities the forest's scores give; None if the forest's own link says it."""
        return None

    def check(self, forest: Any) -> None:
        """Check that the members have the trees of the forest."""
        if self.members and sum(member.n_trees for member in self.members) != forest.n_trees:
            raise InputError("the members of a wrapper must have all trees of the forest")
        for member in self.members:
            if (member.n_classes == 0) != (forest.n_classes == 0):
                raise InputError("the members of a wrapper must be classifiers if the forest is, and else regressors")
            codes = np.arange(0) if member.classes is None else member.classes
            if codes.dtype.kind != "i" or ((codes < 0) | (codes >= forest.n_classes)).any():
                raise InputError("the classes of members must be numbers of the forest's classes")

    def to_json(self) -> dict[str, Any]:
        """Return all fields but the members, for the header of a file."""
        named = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "members"}
        return {"tag": self.TAG} | {name: _to_json(value) for name, value in named.items()}

    @staticmethod
    def from_json(stored: Any, members: tuple[Any, ...]) -> Wrapper:
        """Return what `to_json` wrote."""
        known: dict[str, type[Wrapper]] = {kind.TAG: kind for kind in _KINDS}
        if not isinstance(stored, Mapping) or stored.get("tag") not in known:
            raise FormatError(f"wrapper must be one of {', '.join(known)}")
        given = {name: _from_json(value) for name, value in stored.items() if name != "tag"}
        try:
            return known[stored["tag"]](members=members, **given)
        except TypeError as error:
            raise FormatError(f"a wrapper {stored['tag']!r} has other fields") from error


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_to_json(one) for one in value] if isinstance(value, tuple) else value


def _from_json(value: Any) -> Any:
    return tuple(_from_json(one) for one in value) if isinstance(value, list) else value


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    """Return finite numbers as floats; raise an error that names them otherwise."""
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, got {values!r}") from error
    if not np.isfinite(numbers).all():
        raise InputError(f"{name} must be finite")
    return numbers


def logistic(z: FloatArray) -> FloatArray:
    """Return ``1 / (1 + exp(-z))`` as scipy computes it, to the last bit."""
    given = np.ascontiguousarray(z, np.float64)
    out = np.empty_like(given)
    _core.logistic(given.ravel(), out.reshape(-1))
    return out


def softmax(z: NDArray[Any]) -> NDArray[Any]:
    """Return exponentials that add up to 1 in each row, as scikit-learn computes them."""
    out: NDArray[Any] = np.exp(z - z.max(axis=1).reshape(-1, 1))
    out /= out.sum(axis=1).reshape(-1, 1)
    return out


def _respond(member: Any, response: str, rows: NDArray[Any], n_threads: int) -> NDArray[Any]:
    """Return what a wrapper reads of a classifier: one column for two classes, else one for each class."""
    if response == "score":
        return np.asarray(member.decision_values(rows, n_threads))
    shares: NDArray[Any] = member.predict_proba(rows, n_threads)
    # XGBoost's are float32, and what is computed with them is too, where numpy does so.
    shares = shares.astype(np.float32) if member.score_dtype == "float32" else shares
    return shares[:, 1:] if member.n_classes == 2 else shares


@dataclass(frozen=True, eq=False, kw_only=True)
class _Weighted(Wrapper):
    """Several members, some of which may count more than others."""

    n_classes: int
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            object.__setattr__(self, "weights", _numbers("weights", self.weights))
            if len(self.shares) != (len(self.members) or len(self.shares)) or not sum(self.shares) > 0:
                raise InputError("weights must have one number for each member, and a positive sum")

    @property
    def shares(self) -> tuple[float, ...]:
        """The weight of each member."""
        return (1.0,) * len(self.members) if self.weights is None else self.weights


@dataclass(frozen=True, eq=False, kw_only=True)
class Averaged(_Weighted):
    """The mean of the members' probabilities or values: Bagging, soft Voting, several calibrated models.

    Attributes
    ----------
    n_classes : int
        0 for regressors.
    weights : tuple of float or None
        One for each member.
    dtype : {"float64", "float32"}
        The precision in which the source adds up.
    """

    TAG: ClassVar[str] = "averaged"
    dtype: str = "float64"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("dtype", self.dtype, ("float64", "float32"))

    @property
    def adds_up(self) -> bool:
        """Whether all members answer with means, or as regressors with sums."""
        return all(
            member.link == "identity"
            and (self.n_classes == 0 or member.aggregation != "sum")
            and (member.wrapper is None or member.wrapper.adds_up)
            for member in self.members
        )

    @property
    def follows_sum(self) -> bool:
        """Whether probabilities are means in float64 too: they are compared as the sum is."""
        is_wide = self.dtype == "float64" and all(member.score_dtype == "float64" for member in self.members)
        return is_wide and self.n_classes > 1 and self.adds_up and all(m.wrapper is None for m in self.members)

    def describe(self) -> str:
        """Return what the model does with its trees."""
        return f"the mean of {len(self.members)} models"

    def _mean(self, answers: Any, n_rows: int) -> FloatArray:
        total = np.zeros((n_rows, max(self.n_classes, 1)), self.dtype)
        for (columns, answer), weight in zip(answers, self.shares, strict=True):
            # One member after the other, as the source adds them.
            total[:, columns] += answer if self.weights is None else answer * weight
        total /= len(self.members) if self.weights is None else float(np.asarray(self.weights).sum())
        return total.astype(np.float64)

    def probabilities(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return class probabilities."""
        answers = ((member.classes, member.predict_proba(rows, n_threads)) for member in self.members)
        return self._mean(answers, len(rows))

    def values(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return a regressor's values."""
        answers = (([0], member.predict(rows, n_threads)[:, None]) for member in self.members)
        return self._mean(answers, len(rows))[:, 0]


@dataclass(frozen=True, eq=False, kw_only=True)
class Voted(_Weighted):
    """The class with most votes of the members, each of which has one: hard Voting.

    Attributes
    ----------
    members : tuple
        Empty where each is a single tree: the forest then adds up the votes itself.
    n_classes : int
    weights : tuple of float or None
        What the vote of each member counts.
    """

    TAG: ClassVar[str] = "voted"
    has_probabilities: ClassVar[bool] = False

    @property
    def adds_up(self) -> bool:
        """Whether the sums of the forest are the votes."""
        return not self.members

    def check(self, forest: Any) -> None:
        """Check that the forest adds up votes where there are no members."""
        super().check(forest)
        wanted = ("vote" if self.weights is None else "sum", forest.n_classes)
        if not self.members and (forest.aggregation, self.n_classes) != wanted:
            raise InputError("votes of single trees need a forest that adds them up")

    def describe(self) -> str:
        """Return what the model does with its trees."""
        if self.members:
            return f"the vote of {len(self.members)} models"
        return "the vote of all trees" if self.weights is None else "the weighted vote of all trees"

    def probabilities(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return the share of the votes for each class; scikit-learn has no probabilities here."""
        if not self.members:
            return self._divide(forest.scores(rows, n_threads))
        return self._divide(self._count(rows, n_threads))

    def link(self, scores: FloatArray) -> FloatArray | None:
        """Return the share of the votes for each class."""
        return None if self.members else self._divide(scores)

    def _divide(self, votes: FloatArray) -> FloatArray:
        """Return shares of the weight of all votes; a forest that counts votes divides by itself."""
        return votes if self.weights is None and not self.members else votes / float(sum(self.shares))

    def codes(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> NDArray[np.intp]:
        """Return the number of each row's class: the first of those with most votes."""
        found = self._count(rows, n_threads) if self.members else forest.scores(rows, n_threads)
        return np.asarray(found.argmax(axis=1))

    def _count(self, rows: NDArray[Any], n_threads: int) -> FloatArray:
        votes = np.zeros((len(rows), self.n_classes))
        for member, weight in zip(self.members, self.shares, strict=True):
            votes[np.arange(len(rows)), member.predict(rows, n_threads)] += weight
        return votes


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibrated(Wrapper):
    """Probabilities made of a model's response by maps that were fitted to other rows: CalibratedClassifierCV.

    Attributes
    ----------
    members : tuple
        The model; empty where its response is the score of the forest itself.
    n_classes : int
    method : {"sigmoid", "isotonic", "temperature"}
    response : {"score", "probability"}
        What is mapped.
    maps : tuple of float tuples
        For "sigmoid", slope and intercept for each class that is mapped (one of two); for "isotonic", the places of all
        knots and then their heights; for "temperature", one factor.
    dtype : {"float64", "float32"}
        The precision of isotonic maps and of temperatures.
    """

    TAG: ClassVar[str] = "calibrated"
    n_classes: int
    method: str
    response: str
    maps: tuple[tuple[float, ...], ...]
    dtype: str = "float64"

    def __post_init__(self) -> None:
        check_choice("method", self.method, ("sigmoid", "isotonic", "temperature"))
        check_choice("response", self.response, ("score", "probability"))
        check_choice("dtype", self.dtype, ("float64", "float32"))
        if not isinstance(self.maps, tuple) or not self.maps:
            raise InputError("maps must be a list with the numbers of each map")
        object.__setattr__(self, "maps", tuple(_numbers("maps", one) for one in self.maps))
        for one in self.maps:
            sizes = {"sigmoid": len(one) == 2, "temperature": len(one) == 1, "isotonic": one and len(one) % 2 == 0}
            if not sizes[self.method]:
                raise InputError(f"a map of method {self.method!r} cannot have {len(one)} numbers")
            if self.method == "isotonic" and (np.diff(one[: len(one) // 2]) < 0).any():
                raise InputError("the places of an isotonic map must rise")

    def describe(self) -> str:
        """Return what the model does with its trees."""
        return f"probabilities calibrated by {self.method}"

    def probabilities(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return class probabilities."""
        if not self.members:
            return self.calibrate(forest.scores(rows, n_threads), np.arange(2))
        member = self.members[0]
        return self.calibrate(_respond(member, self.response, rows, n_threads), member.classes)

    def link(self, scores: FloatArray) -> FloatArray | None:
        """Return the probabilities of scores, of the second class alone."""
        return None if self.members else self.calibrate(scores, np.arange(2))[:, 1:]

    def calibrate(self, response: NDArray[Any], classes: NDArray[Any]) -> FloatArray:
        """Return the probabilities of all classes, from the response for `classes`."""
        n_rows = len(response)
        if self.method == "temperature":
            if response.shape[1] == 1:
                first = 1 - response if self.response == "probability" else -response
                response = np.concatenate([first, response], axis=1)
            logits = np.log(response + _TINY) if self.response == "probability" else response
            factor = np.dtype(self.dtype).type(self.maps[0][0])
            shares = softmax(factor * logits).astype(np.float64)
        else:
            shares = np.zeros((n_rows, self.n_classes))
            targets = classes[1:] if self.n_classes == 2 else classes
            for target, column, at in zip(targets, response.T, range(len(self.maps)), strict=False):
                shares[:, target] = self._map(column, at)
            if self.n_classes == 2:
                shares[:, 0] = 1.0 - shares[:, 1]
            else:
                total = shares.sum(axis=1)[:, np.newaxis]
                shares = np.divide(shares, total, out=np.full_like(shares, 1 / self.n_classes), where=total != 0)
        shares[(shares > 1.0) & (shares <= _NEARLY_ONE)] = 1.0
        return shares

    @cached_property
    def _knots(self) -> list[NDArray[Any]]:
        return [np.array(one, self.dtype).reshape(2, -1) for one in self.maps]

    def _map(self, response: NDArray[Any], at: int) -> NDArray[Any]:
        if self.method == "sigmoid":
            slope, intercept = map(np.float64, self.maps[at])
            return logistic(-(slope * response + intercept))
        places, heights = self._knots[at]
        x = np.clip(response.astype(self.dtype), places[0], places[-1])
        if len(places) == 1:
            return np.full(len(x), heights[0])
        if self.dtype == "float64":
            return np.asarray(np.interp(x, places, heights))
        above = np.searchsorted(places, x).clip(1, len(places) - 1)
        slope = (heights[above] - heights[above - 1]) / (places[above] - places[above - 1])
        return np.asarray(slope * (x - places[above - 1]) + heights[above - 1])


@dataclass(frozen=True, eq=False, kw_only=True)
class Thresholded(Wrapper):
    """One class from a threshold of its probability on, else the other: FixedThresholdClassifier and the tuned one.

    Attributes
    ----------
    response : {"score", "probability"}
        What is compared.
    positive : {0, 1}
        The number of the class whose response it is.
    threshold : float
    native : bool
        Whether the fields of the forest decide as well, by a threshold on its score.
    """

    TAG: ClassVar[str] = "thresholded"
    response: str
    positive: int
    threshold: float
    native: bool = False

    def __post_init__(self) -> None:
        check_choice("response", self.response, ("score", "probability"))
        if self.positive not in (0, 1) or len(self.members) != 1:
            raise InputError("a threshold is for one model with two classes")
        object.__setattr__(self, "threshold", _numbers("threshold", [self.threshold])[0])

    @property
    def decides(self) -> bool:
        """Whether labels come from the member."""
        return not self.native

    @property
    def adds_up(self) -> bool:
        """Whether a threshold on the sum is the same."""
        return self.native

    def describe(self) -> str:
        """Return what the model does with its trees."""
        return f"the {self.response} of class number {self.positive} compared with {self.threshold:g}"

    def probabilities(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return class probabilities: the member's."""
        shares: FloatArray = self.members[0].predict_proba(rows, n_threads)
        return shares

    def decision_values(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return the member's decision function."""
        found: FloatArray = self.members[0].decision_values(rows, n_threads)
        return found

    def codes(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> NDArray[np.intp]:
        """Return the number of each row's class."""
        member = self.members[0]
        if self.response == "score":
            response = member.decision_values(rows, n_threads)[:, 0] * (1.0 if self.positive else -1.0)
        else:
            response = member.predict_proba(rows, n_threads)[:, self.positive]
        return np.where(response >= self.threshold, self.positive, 1 - self.positive)


@dataclass(frozen=True, eq=False, kw_only=True)
class OneVsRest(Wrapper):
    """The class whose own model of two classes responds most: OneVsRestClassifier.

    Attributes
    ----------
    response : {"score", "probability"}
        What is compared.
    last_wins : bool
        Whether the last of several classes with equal responses is the label, or the first.
    native : bool
        Whether the fields of the forest decide as well. Only with two classes, which share one model.
    """

    TAG: ClassVar[str] = "one-vs-rest"
    response: str
    last_wins: bool = False
    native: bool = False

    def __post_init__(self) -> None:
        check_choice("response", self.response, ("score", "probability"))

    def check(self, forest: Any) -> None:
        """Check that there is a model for each class, or one for two classes."""
        n_models = 1 if forest.n_classes == 2 else forest.n_classes
        if len(self.members) != n_models or any(member.n_classes != 2 for member in self.members):
            raise InputError("one-vs-rest needs a model of two classes for each class")
        super().check(forest)

    @property
    def decides(self) -> bool:
        """Whether labels come from the members."""
        return not self.native

    @property
    def adds_up(self) -> bool:
        """Whether all members make their responses of sums in the same way, so that the largest has the largest sum."""
        kinds = {(m.link, m.link_scale, m.aggregation, m.n_outputs, m.decision_threshold) for m in self.members}
        return self.native or (len(kinds) == 1 and all(member.wrapper is None for member in self.members))

    def describe(self) -> str:
        """Return what the model does with its trees."""
        return "one model for each class"

    def probabilities(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return class probabilities: those of the members, made to add up to 1."""
        shares = np.array([_respond(m, "probability", rows, n_threads)[:, 0] for m in self.members]).T
        if len(self.members) == 1:
            shares = np.concatenate([1 - shares, shares], axis=1)
        total = shares.sum(axis=1)[:, np.newaxis]
        np.divide(shares, total, out=shares, where=total != 0)
        return shares.astype(np.float64)

    def decision_values(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return the decision functions of the members."""
        return np.column_stack([member.decision_values(rows, n_threads)[:, 0] for member in self.members])

    def codes(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> NDArray[np.intp]:
        """Return the number of each row's class: the first or last of those that respond most."""
        found = np.column_stack([_respond(m, self.response, rows, n_threads)[:, 0] for m in self.members])
        if len(self.members) == 1:
            return np.asarray(found[:, 0] > (0.0 if self.response == "score" else 0.5), np.intp)
        if self.last_wins:
            return np.asarray(found.shape[1] - 1 - found[:, ::-1].argmax(axis=1))
        return np.asarray(found.argmax(axis=1))


@dataclass(frozen=True, eq=False, kw_only=True)
class Samme(Wrapper):
    """Votes of trees that count by their weight, for more or fewer classes: AdaBoostClassifier.

    Attributes
    ----------
    n_classes : int
    total : float
        The sum of all weights.
    """

    TAG: ClassVar[str] = "samme"
    n_classes: int
    total: float

    def __post_init__(self) -> None:
        if self.n_classes < 2 or not _numbers("total", [self.total])[0] > 0:
            raise InputError("weights of AdaBoost must have a positive sum, and classes must be two or more")

    @property
    def decides(self) -> bool:
        """Whether labels come from the quotients: two different sums can have the same."""
        return self.n_classes > 2

    @property
    def adds_up(self) -> bool:
        """Whether labels are those of the sums: they are."""
        return True

    @property
    def follows_sum(self) -> bool:
        """Whether labels are those of sums that differ by more than rounding: quotients of such sums differ too."""
        return True

    def describe(self) -> str:
        """Return what the model does with its trees."""
        return "the weighted vote of all trees"

    def decision_values(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return what AdaBoost calls its decision function."""
        return self._divide(forest.scores(rows, n_threads))

    def _divide(self, scores: FloatArray) -> FloatArray:
        quotients: FloatArray = scores / self.total
        return quotients + quotients if self.n_classes == 2 else quotients  # both classes add the same

    def probabilities(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return class probabilities."""
        found = self.decision_values(forest, rows, n_threads)
        if self.n_classes == 2:
            return softmax(np.hstack([-found, found]) / 2)
        return softmax(found / (self.n_classes - 1))

    def codes(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> NDArray[np.intp]:
        """Return the number of each row's class."""
        found = self.decision_values(forest, rows, n_threads)
        return np.asarray(found[:, 0] > 0, np.intp) if self.n_classes == 2 else np.asarray(found.argmax(axis=1))


@dataclass(frozen=True, eq=False, kw_only=True)
class Isolation(Wrapper):
    """How few tests isolate a row: IsolationForest.

    Attributes
    ----------
    expected : float
        The tests that all trees together take for a row like the training rows.
    offset : float
        The score below which rows are outliers.
    """

    TAG: ClassVar[str] = "isolation"
    has_probabilities: ClassVar[bool] = False
    expected: float
    offset: float

    def __post_init__(self) -> None:
        _numbers("expected and offset", [self.expected, self.offset])

    def describe(self) -> str:
        """Return what the model does with its trees."""
        return "how few tests isolate a row"

    def score_samples(self, depths: FloatArray) -> FloatArray:
        """Return the scores of rows that all trees together isolate by so many tests."""
        ratio = depths / self.expected if self.expected != 0 else np.ones_like(depths)
        return np.asarray(-(2**-ratio))

    def decision_values(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Return the scores less the offset, shape (n_rows, 1)."""
        return self.score_samples(forest.scores(rows, n_threads)) - self.offset

    def probabilities(self, forest: Scored, rows: NDArray[Any], n_threads: int) -> FloatArray:
        """Raise an error: scores are no probabilities."""
        raise InputError("an IsolationForest has no probabilities; use forest.score_samples(X)")

    def link(self, scores: FloatArray) -> FloatArray | None:
        """Raise an error: scores are no probabilities."""
        raise InputError("an IsolationForest has no probabilities; use forest.score_samples(X)")


_KINDS = (Averaged, Voted, Calibrated, Thresholded, OneVsRest, Samme, Isolation)
