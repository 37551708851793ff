"""Visit: one row whose features arrive one at a time, perhaps days apart.

A visit walks trees as far as it knows values, names the feature it needs next, and waits. The walk is a function of the
values given and of the features declared unavailable. So a saved visit is just these, and loading it walks again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_count
from scurry.costs import FeatureCosts
from scurry.errors import FormatError, InputError
from scurry.forest import Forest, as_value
from scurry.forest.files.storage import Container, read_container, write_container
from scurry.formatting import format_share
from scurry.runners.acquisition.known import find_feature
from scurry.runners.acquisition.ledger import Purchase
from scurry.runners.acquisition.row_walk import RowWalk, Runs, Terms, digest_of, read_out


class NextFeature(NamedTuple):
    """The feature that a visit needs next.

    Attributes
    ----------
    name : str or int
        Its name, or its index in a forest without names.
    cost : float
        What it costs now: its own cost, and that of its group if no other feature of the group has been paid for.
    why : str
        Why this one, as a sentence.
    """

    name: Any
    cost: float
    why: str


class VisitAnswer(NamedTuple):
    """The answer of a visit.

    Attributes
    ----------
    label : scalar
        One of the model's classes, or a regressor's value.
    probabilities : float64 array of shape (n_classes,) or None
        None for a regressor.
    cost : float
        What the row paid.
    stop_reason : {"complete", "decided", "max_cost", "unavailable"}
        "complete": every tree reached a leaf. "decided": an early exit. "max_cost": a feature was too expensive.
        "unavailable": a feature could not be obtained. After the last two, some trees answered with an inner node, and
        a promise about labels does not cover the row.
    why : str
        The same as a sentence.
    """

    label: Any
    probabilities: NDArray[np.float64] | None
    cost: float
    stop_reason: str
    why: str

    @property
    def complete(self) -> bool:
        """Whether this is the full model's answer."""
        return self.stop_reason == "complete"


class Visit:
    """One row whose features arrive one at a time. `Predictor.start_row` makes it.

    While `next_feature` names a feature, get its value and `give` it, be it days later, or say that it is
    `unavailable`. Then `answer` has the label. A visit belongs to one row and one thread.

    Attributes
    ----------
    walk : RowWalk
        Where the row stands in every tree.

    Examples
    --------
    >>> import scurry
    >>> tree = {"feature": [1, -1, 0, -1, -1], "threshold": [0.5, 0, 0.5, 0, 0], "left": [1, -1, 3, -1, -1],
    ...         "right": [2, -1, 4, -1, -1], "value": [[0.5, 0.5], [0.9, 0.1], [0.3, 0.7], [0.8, 0.2], [0, 1]]}
    >>> predictor = scurry.Predictor.full(scurry.Forest.from_trees([tree]))
    >>> visit = predictor.start_row(feature_costs=[5, 2])
    >>> visit.next_feature
    NextFeature(name=1, cost=2.0, why="tree 1 of 1 in the plan's order tests it next; 1 tree waits for it")
    >>> visit.give(1, 0.7)
    >>> visit
    Visit(cost=2, next_feature=0)
    >>> visit.unavailable(0)
    >>> visit.answer.label, visit.answer.stop_reason
    (1, 'unavailable')
    """

    def __init__(
        self,
        terms: Terms,
        known: Mapping[int, float],
        number: int,
        given: Mapping[int, float] | None = None,
        unavailable: frozenset[int] = frozenset(),
    ) -> None:
        self.terms, self.number = terms, number
        self._known, self._given, self._unavailable = dict(known), dict(given or {}), set(unavailable)
        self._waiting: Generator[int, None, None] | None = None
        self._advance()

    @property
    def asked(self) -> int | None:
        """The index of the feature that is needed next; None if the row has its answer."""
        if self._waiting is None:
            self._advance()
        return self._asked

    @property
    def next_feature(self) -> NextFeature | None:
        """The feature that is needed next, with its cost and why; None if the row has its answer."""
        if (feature := self.asked) is None:
            return None
        return NextFeature(
            self.terms.forest.name_of(feature), sum(self.walk.budget.prices(feature)), self._explain(feature)
        )

    @property
    def answer(self) -> VisitAnswer | None:
        """The row's answer; None while a feature is needed."""
        if self.asked is not None:
            return None
        labels, scores = read_out(self.terms, [self.walk])
        is_classifier = self.terms.forest.classes is not None
        probabilities = self.walk.probabilities(scores) if is_classifier else None
        label = labels[0].item() if isinstance(labels[0], np.generic) else labels[0]
        return VisitAnswer(label, probabilities, self.cost, self.stop_reason, self._explain_stop())

    @property
    def cost(self) -> float:
        """What the row has paid so far."""
        return self.walk.budget.spent

    @property
    def purchases(self) -> tuple[Purchase, ...]:
        """What the row has bought so far, in order."""
        return tuple(self.walk.budget.purchases)

    @property
    def stop_reason(self) -> str:
        """Why the row needs no more features, see `VisitAnswer`; "waiting" while it does."""
        return "waiting" if self.asked is not None else self.walk.stop_reason

    def give(self, name: Any, value: Any) -> None:
        """Give the value of a feature. The row pays for it when a node first needs it.

        A feature that was not asked for may be given too, such as another result from the same laboratory. It is kept,
        and costs nothing unless it is used.

        Parameters
        ----------
        name : str, int or NextFeature
            `next_feature`, or the name or column of any feature.
        value : number, category or None
            None and NaN are missing values, which go where the model sends them; `answer.why` then says so. That means
            something only if the model was trained with missing values. A test that could not be made is `unavailable`.
        """
        name = name.name if isinstance(name, NextFeature) else name
        feature = find_feature(self.terms.forest, name)
        number = as_value(self.terms.forest, feature, value)
        if feature in self._unavailable:
            raise InputError(
                f"{name!r} was declared unavailable, and trees may have answered without it; start a new row with it",
                argument="name",
            )
        if feature in self.walk.values:
            used = self.walk.values[feature]
            # The same result sent twice is no mistake.
            if not np.array_equal(used, number, equal_nan=True):
                raise InputError(
                    f"{name!r} has the value {used:g}, which trees have used already; start a new row to correct it",
                    argument="name",
                )
            return
        self._given[feature] = number
        if feature == self.asked:
            self._advance()

    def unavailable(self, name: Any) -> None:
        """Declare that a feature cannot be obtained. Trees that need it answer with the node they have reached.

        Parameters
        ----------
        name : str, int or NextFeature
            `next_feature`, or the name or column of any feature.
        """
        name = name.name if isinstance(name, NextFeature) else name
        feature = find_feature(self.terms.forest, name)
        if feature in self.walk.values or feature in self._given:
            raise InputError(f"{name!r} has a value already, so it is not unavailable", argument="name")
        self._unavailable.add(feature)
        if feature == self.asked:
            self._advance()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the visit to a ``.scurry`` file that executes nothing when loaded.

        The file has the values given, the costs and a digest of the predictor, but not the predictor: save that once,
        for all visits.

        Parameters
        ----------
        path : str or path
        """
        terms = self.terms
        header = {
            "predictor": digest_of(terms.predictor),
            "order": terms.order,
            "max_cost": None if np.isinf(terms.max_cost) else terms.max_cost,
            "row": self.number,
        }
        arrays: dict[str, NDArray[Any]] = {
            **terms.costs.to_arrays(),
            "unavailable": np.array(sorted(self._unavailable), np.int64),
        }
        for name, values in (("known", self._known), ("given", self._given)):
            arrays[f"{name}_features"] = np.array(list(values), np.int64)
            arrays[f"{name}_values"] = np.array(list(values.values()), np.float64)
        write_container(path, "visit", header, arrays)

    @classmethod
    def load(cls, path: str | PathLike[str], predictor: Runs) -> Self:
        """Load a visit where it was left.

        Parameters
        ----------
        path : str or path
        predictor : Predictor
            The one that started the visit, which may have been saved and loaded itself.

        Returns
        -------
        Visit

        Raises
        ------
        FormatError
            If the file holds no visit, or one of another predictor.
        """
        if not hasattr(predictor, "plan"):
            raise InputError(
                f"predictor must be the scurry.Predictor that started the visit, got {type(predictor).__name__}",
                argument="predictor",
            )
        container = read_container(path)
        if container.kind != "visit":
            raise FormatError(f"{path} holds a {container.kind}, not a visit; use scurry.load")
        with container.reading("visit"):
            return cls._from_container(container, predictor)

    @classmethod
    def _from_container(cls, container: Container, predictor: Runs) -> Self:
        forest = predictor.forest
        if container.field("predictor", str) != digest_of(predictor):
            raise FormatError(
                "it was started by another predictor, and its values would lead elsewhere in this one. Pass the one "
                "that started it (scurry.load reads its file), or start a new row with this one: "
                "predictor.start_row(known)"
            )
        costs = FeatureCosts.from_container(container)
        if len(costs.feature_costs) != forest.n_features:
            raise FormatError(f"it has prices of {len(costs.feature_costs)} features, not {forest.n_features}")
        max_cost, order = container.field("max_cost", float | int | None), container.field("order", str)
        terms = Terms.of(predictor, costs, max_cost, order)
        known, given = (_read_values(container, name, forest) for name in ("known", "given"))
        # Of an array of any shape, which a damaged file may hold.
        unavailable = container.array("unavailable", np.int64).ravel().tolist()
        features = [*known, *given, *unavailable]
        if not all(0 <= feature < forest.n_features for feature in features) or len(set(features)) != len(features):
            raise FormatError("it names features that the forest does not have, or one of them twice")
        number = check_count("row", container.field("row", int), 0)
        return cls(terms, known, number, given, frozenset(unavailable))

    def __reduce__(self) -> tuple[Any, ...]:
        unavailable = frozenset(self._unavailable)
        return type(self), (self.terms, dict(self._known), self.number, dict(self._given), unavailable)

    def __repr__(self) -> str:
        if self.asked is not None:
            return f"Visit(cost={self.cost:g}, next_feature={self.terms.forest.name_of(self.asked)!r})"
        return f"Visit(cost={self.cost:g}, stop_reason={self.stop_reason!r})"

    def _advance(self) -> None:
        """Walk until a value is needed that is not there."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            self.walk = RowWalk(self.terms, self.number, self._known, self._given, self._unavailable)
            waiting = self.walk.run()
        # What is interrupted here starts again at the next call: a generator that raised would pass for one that ended.
        self._asked: int | None = next(waiting, None)
        self._waiting = waiting

    def _explain(self, feature: int) -> str:
        order, needs = self.walk.plan.order, self.walk.needs_by_tree()
        n_waiting = needs.count(feature)
        waits = f"{n_waiting} tree waits for it" if n_waiting == 1 else f"{n_waiting} trees wait for it"
        n_features = len({*needs} - {None} - self._unavailable)
        if self.terms.order != "plan" and n_features == 1:
            return f"it is the only feature that trees wait for; {waits}"
        if self.terms.order == "cheapest":
            return f"of {n_features} features that trees wait for, it is the cheapest; {waits}"
        if self.terms.order == "informative":
            return (
                f"it is expected to settle {format_share(self.walk.expected_share)} of what is open, for its cost the "
                f"most of {n_features} features that trees wait for; {waits}"
            )
        if self.walk.plan.by_step:
            return f"the next step in the plan's order tests it; {waits}"
        place = [needs[tree] for tree in order.tolist()].index(feature) + 1
        return f"tree {place} of {len(order)} in the plan's order tests it next; {waits}"

    def _explain_stop(self) -> str:
        forest, values = self.terms.forest, self.walk.values
        missing = [str(forest.name_of(feature)) for feature in sorted(values) if np.isnan(values[feature])]
        if not missing:
            return self._explain_end()
        what = "are missing values, which go" if len(missing) > 1 else "is a missing value, which goes"
        # No framework says in its model whether it has seen any, so this is said of every model.
        return (
            f"{self._explain_end()}; {', '.join(missing)} {what} where the model sends missing values. Has it been "
            "trained with such? A test that could not be made is unavailable"
        )

    def _explain_end(self) -> str:
        n_trees = self.terms.forest.n_trees
        n_stuck = self.walk.n_started - self.walk.n_evaluated
        stuck = f"{n_stuck} of {n_trees} trees answered with the inner node that they had reached"
        match self.stop_reason:
            case "complete":
                return "the only tree is evaluated" if n_trees == 1 else f"all {n_trees} trees are evaluated"
            case "decided":
                return f"the answer was clear after {self.walk.n_evaluated} of {n_trees} trees"
            case "max_cost":
                return f"more features would cost more than {self.terms.max_cost:g}: {stuck}"
        names = ", ".join(str(self.terms.forest.name_of(feature)) for feature in sorted(self._unavailable))
        return f"{names} could not be obtained: {stuck}"


def _read_values(container: Container, name: str, forest: Forest) -> dict[int, float]:
    features, values = container.array(f"{name}_features", np.int64), container.array(f"{name}_values", np.float64)
    if features.ndim != 1 or features.shape != values.shape or len(features) > forest.n_features:
        raise FormatError(f"its {name} features and values do not fit together")
    return dict(zip(features.tolist(), values.tolist(), strict=True))
