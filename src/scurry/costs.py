"""FeatureCosts: what rows pay for the features that a forest reads. ErrorCosts: what wrong answers cost.

A row pays for a feature once, for a group of features once, and for every inner node that it passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import check_instance, check_number, check_numbers
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.forest.files.storage import Container

_MAX_GROUPS = 1_000_000  # every number up to the largest is a group, used or not


@dataclass(frozen=True, eq=False)
class FeatureCosts:
    """What a row pays for the features its paths read.

    Attributes
    ----------
    feature_costs : float64 array of shape (n_features,)
        Paid at a row's first use of the feature.
    groups : int64 array of shape (n_features,)
        The group of each feature, -1 if it has none.
    group_costs : float64 array of shape (n_groups,)
        Paid at a row's first use of any feature of the group.
    step_cost : float
        Paid for every inner node a row passes.

    Examples
    --------
    Three blood tests at 20, 9 and 5, and 2.10 for drawing blood:

    >>> import scurry
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> forest = scurry.from_model(DecisionTreeClassifier().fit([[0, 0, 0], [0, 0, 1]], [0, 1]))  # reads the last one
    >>> costs = FeatureCosts.of(forest, feature_costs=[20, 9, 5], groups=[0, 0, 0], group_costs=[2.1])
    >>> costs.of_rows(forest, [[0, 0, 1], [1, 1, 0]]).tolist()
    [7.1, 7.1]
    """

    feature_costs: NDArray[np.float64]
    groups: NDArray[np.int64]
    group_costs: NDArray[np.float64]
    step_cost: float

    @classmethod
    def of(
        cls,
        forest: Forest,
        *,
        feature_costs: Any = None,
        groups: Any = None,
        group_costs: Any = None,
        step_cost: float = 0.0,
    ) -> FeatureCosts:
        """Check costs in any accepted form and return them as arrays.

        Parameters
        ----------
        forest : Forest
        feature_costs : sequence of n_features numbers, or mapping of every feature's name to a number, optional
            By default 1 for each, or 0 where groups are given.
        groups : sequence of n_features group indices (-1: none), or mapping of group name to features, optional
        group_costs : sequence of n_groups numbers, or mapping of group name to number, optional
            By default 1 for each group if there are no feature costs either.
        step_cost : float

        Returns
        -------
        FeatureCosts
        """
        forest.refuse_front("count what raw columns cost")
        if groups is None and group_costs is not None:
            raise InputError("group_costs needs groups: which features belong to each of them", argument="groups")
        if groups is not None and group_costs is None and feature_costs is not None:
            # Either default could be meant: 0, or 1 as without feature costs. So neither is guessed.
            raise InputError(
                "groups with feature_costs needs group_costs: what a row pays once for each group",
                argument="group_costs",
            )
        membership, names = _check_groups(forest.names, groups)
        if feature_costs is None:
            per_feature = np.full(forest.n_features, 1.0 if groups is None else 0.0)
        else:
            per_feature = check_costs("feature_costs", feature_costs, forest.names, "feature")
        if group_costs is None:
            per_group = np.ones(len(names))
        else:
            per_group = check_costs("group_costs", group_costs, names, "group")
        return cls(per_feature, membership, per_group, check_number("step_cost", step_cost))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a ``.scurry`` file holds of the prices, all but `step_cost`."""
        return {
            "feature_costs": self.feature_costs,
            "groups": self.groups,
            # Groups behind the last that has a feature, which cost nobody anything, are not in `groups` either.
            "group_costs": self.group_costs[: self.groups.max(initial=-1) + 1],
        }

    @classmethod
    def from_container(cls, container: Container, step_cost: Any = 0.0) -> FeatureCosts:
        """Return the prices that `to_arrays` gave to a ``.scurry`` file, checked."""
        per_feature = container.array("feature_costs", np.float64)
        membership, names = _check_groups(range(per_feature.size), container.array("groups", np.int64))
        return cls(
            check_costs("feature_costs", per_feature, range(per_feature.size), "feature"),
            membership,
            check_costs("group_costs", container.array("group_costs", np.float64), names, "group"),
            check_number("step_cost", step_cost),
        )

    @property
    def charges(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The charges that each feature causes: its own and its group's, int32 arrays of shape (n_features,).

        Features are numbered first, groups after them; -1 where it costs nothing.
        """
        n_features = len(self.feature_costs)
        # Free charges are left out here, once: nothing after this has to look at zero costs.
        of_feature = np.where(self.feature_costs > 0, np.arange(n_features), -1)
        group = np.where(self.group_costs > 0, n_features + np.arange(len(self.group_costs)), -1)
        # Features without a group, -1, find the -1 that is appended.
        return of_feature.astype(np.int32), np.append(group, -1)[self.groups].astype(np.int32)

    @property
    def alone(self) -> NDArray[np.float64]:
        """What each feature costs a row that reads no other: its own cost and its group's."""
        alone: NDArray[np.float64] = self.feature_costs + np.append(self.group_costs, 0.0)[self.groups]
        return alone

    def of_set(self, features: Any) -> float:
        """Return what a row pays that reads these features, given by index."""
        groups = np.unique(self.groups[features])
        return float(self.feature_costs[features].sum() + self.group_costs[groups[groups >= 0]].sum())

    def of_rows(self, forest: Forest, X: Any) -> NDArray[np.float64]:
        """Return what each row pays in `forest`, which may be a pruned one.

        Parameters
        ----------
        forest : Forest
        X : array or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        float64 array of shape (n_rows,)
        """
        return self.of_uses(feature_uses(forest, X))

    def of_uses(self, uses: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return what rows pay that read each feature so many times.

        Parameters
        ----------
        uses : int32 array of shape (n_rows, n_features)

        Returns
        -------
        float64 array of shape (n_rows,)
        """
        used = uses > 0
        paid: NDArray[np.float64] = used @ self.feature_costs + self.step_cost * uses.sum(axis=1)
        for group, cost in enumerate(self.group_costs):
            paid += cost * used[:, self.groups == group].any(axis=1)
        return paid


@dataclass(frozen=True, eq=False)
class ErrorCosts:
    """What wrong answers cost, by the true class and the answer.

    Attributes
    ----------
    n_classes : int
    matrix : float64 array of shape (n_classes, n_classes), or None
        ``matrix[true, answered]``, 0 on the diagonal. None: errors are weighted by their true class.
    class_weight : float64 array of shape (n_classes,), or None
        What an error on a row of each class costs. None: every class counts alike, however many rows it has.

    Examples
    --------
    Missing an ill patient costs ten times as much as a false alarm:

    >>> confusion = np.array([[2, 1], [1, 0]])  # one false alarm among 3 healthy patients; the one ill patient missed
    >>> ErrorCosts.of(["healthy", "ill"], error_costs=[[0, 1], [10, 0]]).mean_cost(confusion)
    2.75
    >>> round(ErrorCosts.of(["healthy", "ill"], class_weight="balanced").mean_cost(confusion), 4)  # of 1/3 and 1
    0.6667
    """

    n_classes: int
    matrix: NDArray[np.float64] | None
    class_weight: NDArray[np.float64] | None

    @classmethod
    def of(cls, classes: Any, *, class_weight: Any = None, error_costs: Any = None) -> ErrorCosts:
        """Check weights or costs in any accepted form; if neither is given, every error costs 1.

        Parameters
        ----------
        classes : sequence of n_classes labels
        class_weight : "balanced", or mapping of every label to a number, optional
        error_costs : array of shape (n_classes, n_classes), or mapping of label to mapping of answer to cost, optional
            What answering ``classes[j]`` costs where ``classes[i]`` is true. Not together with `class_weight`.

        Returns
        -------
        ErrorCosts
        """
        labels = [label.item() if isinstance(label, np.generic) else label for label in classes]
        if error_costs is not None and class_weight is not None:
            raise InputError(
                "give class_weight or error_costs, not both; error_costs can weigh classes too", argument="class_weight"
            )
        if error_costs is not None:
            return cls(len(labels), _check_error_costs(error_costs, labels), None)
        if class_weight is None:
            return cls(len(labels), None, np.ones(len(labels)))
        if isinstance(class_weight, str) and class_weight == "balanced":
            return cls(len(labels), None, None)
        if not isinstance(class_weight, Mapping):
            raise InputError(
                f'class_weight must be "balanced" or a mapping of every label to a number, got {class_weight!r}',
                argument="class_weight",
            )
        weights = check_costs("class_weight", class_weight, labels, "class")
        if not weights.any():
            raise InputError("class_weight is 0 for every class; then no error counts", argument="class_weight")
        return cls(len(labels), None, weights)

    @classmethod
    def of_forest(cls, forest: Forest, *, class_weight: Any = None, error_costs: Any = None) -> ErrorCosts:
        """Check weights or costs for the classes of a forest; a regressor is left for others to refuse."""
        classes = range(forest.n_outputs) if forest.classes is None else forest.classes
        return cls.of(classes, class_weight=class_weight, error_costs=error_costs)

    @property
    def is_weighed(self) -> bool:
        """Whether errors on some classes, or some answers, were given other costs than on the rest."""
        return self.matrix is not None or self.class_weight is None or bool(np.ptp(self.class_weight) > 0)

    def of_counts(self, class_counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return the costs among rows of which so many are of each class, and what their sum is divided by.

        Parameters
        ----------
        class_counts : float64 array of shape (n_classes,)

        Returns
        -------
        matrix : float64 array of shape (n_classes, n_classes)
        total : float
            The number of rows if costs are a matrix, else the weight of all rows: with all answers wrong, errors are 1.
        """
        n_rows = float(class_counts.sum())
        if self.matrix is not None:
            return self.matrix, n_rows
        weights = self.class_weight
        if weights is None:
            present = class_counts > 0
            weights = np.zeros(self.n_classes)
            weights[present] = n_rows / (present.sum() * class_counts[present])
        return weights[:, None] * (1.0 - np.eye(self.n_classes)), float(weights @ class_counts)

    def mean_cost(self, confusion: NDArray[Any]) -> float:
        """Return the mean cost of answers, or the weighted share of wrong ones.

        Parameters
        ----------
        confusion : array of shape (n_classes, n_classes)
            How many rows of each class, by row, got each answer, by column.

        Returns
        -------
        float
        """
        matrix, total = self.of_counts(confusion.sum(axis=1).astype(np.float64))
        return float((confusion * matrix).sum() / total) if total else 0.0


def feature_uses(forest: Forest, X: Any) -> NDArray[np.int32]:
    """Count how often each row reads each feature on its way through all trees.

    Parameters
    ----------
    forest : Forest
    X : array or DataFrame of shape (n_rows, n_features)

    Returns
    -------
    int32 array of shape (n_rows, n_features)

    Examples
    --------
    >>> import scurry
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0, 0], [0, 1], [1, 1], [0, 0]], [0, 1, 2, 0])
    >>> scurry.pruning.feature_uses(scurry.from_model(tree), [[0, 0], [0, 1]]).tolist()
    [[0, 1], [1, 1]]
    """
    check_instance("forest", forest, Forest, hint="; import a model with scurry.from_model(model)")
    return count_uses(forest, forest.apply(X))


def count_uses(forest: Forest, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Count how often rows have read each feature on their way to these nodes.

    Parameters
    ----------
    forest : Forest
    nodes : int32 array of shape (n_rows, n_trees)

    Returns
    -------
    int32 array of shape (n_rows, n_features)
    """
    if forest.n_features == 0:
        return np.zeros((len(nodes), 0), np.int32)
    uses: NDArray[np.int32] = _core.count_uses(forest.feature, forest.parent, nodes, forest.n_features)
    return uses


def check_costs(argument: str, given: Any, names: Sequence[Any], kind: str) -> NDArray[np.float64]:
    """Return costs as an array in the order of `names`, whether they are given as a sequence or by name."""
    if hasattr(given, "to_dict") and not set(given.index).isdisjoint(names):
        given = given.to_dict()  # a pandas Series goes by its labels; without names in common, by position
    if isinstance(given, Mapping):
        nested = next((name for name in given if isinstance(given[name], Mapping)), None)
        if nested is not None:
            raise InputError(
                f"{argument} must have one number for each {kind}, got {dict(given[nested])!r} for {nested!r}. For a "
                "price list with a first and a next test, feature_costs are the discounted prices, and group_costs the "
                "full price less the discounted one; see the price lists in docs/how-to/features.md",
                argument=argument,
            )
        unknown = [name for name in given if name not in set(names)]
        if unknown:
            raise InputError(
                f"{argument} names {unknown[0]!r}, which is no {kind}; known are {_list_some(names)}", argument=argument
            )
        absent = [name for name in names if name not in given]
        if absent:
            raise InputError(
                f"{argument} lacks {_list_some(absent)}; give a cost to every {kind}, 0 if it is free",
                argument=argument,
            )
        given = [given[name] for name in names]
    numbers = check_numbers(argument, given)
    if numbers.shape != (len(names),):
        raise InputError(
            f"{argument} has shape {numbers.shape}, expected ({len(names)},): one cost for every {kind}",
            argument=argument,
        )
    wrong = ~np.isfinite(numbers) | (numbers < 0)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"{argument}[{at}] ({kind} {names[at]!r}) is {numbers[at]:g}; a cost is finite and 0 or more",
            argument=argument,
        )
    return numbers


def _check_groups(features: Sequence[Any], given: Any) -> tuple[NDArray[np.int64], Sequence[Any]]:
    """Return the group of every feature, and the groups' names or indices."""
    if given is None:
        return np.full(len(features), -1), []
    if isinstance(given, Mapping):
        return _check_named_groups(list(features), given)
    membership = np.asarray(given)
    if membership.shape != (len(features),) or membership.dtype.kind not in "iu":
        raise InputError(
            f"groups must be {len(features)} integers, the group of each feature or -1, or a mapping of group to "
            f"features; got shape {membership.shape} and dtype {membership.dtype}",
            argument="groups",
        )
    if membership.min(initial=0) < -1:
        at = int(np.argmin(membership))
        raise InputError(f"groups[{at}] is {membership[at]}; a group is 0, 1, …, and -1 means none", argument="groups")
    if membership.max(initial=-1) >= _MAX_GROUPS:
        at = int(np.argmax(membership))
        raise InputError(
            f"groups[{at}] is {membership[at]}; number the groups 0, 1, …, below {_MAX_GROUPS:,}", argument="groups"
        )
    return membership.astype(np.int64), range(int(membership.max(initial=-1)) + 1)


def _check_named_groups(names: list[Any], given: Mapping[Any, Any]) -> tuple[NDArray[np.int64], list[Any]]:
    membership = np.full(len(names), -1)
    values = list(given.values())
    if given and set(given) <= set(names) and all(isinstance(v, str | int) and v not in names for v in values):
        meant: dict[Any, list[Any]] = {}
        for feature, group_name in given.items():
            meant.setdefault(group_name, []).append(feature)
        raise InputError(
            f"groups names {values[0]!r}, which is no feature; it lists the features of each group, not the group of "
            f"each feature, such as {meant!r:.200}",
            argument="groups",
        )
    for group, members in enumerate(values):
        # A string is one feature's name, not a list of letters.
        for member in [members] if isinstance(members, str) else members:
            at = names.index(member) if member in names else member
            if not isinstance(at, int | np.integer) or not 0 <= at < len(names):
                raise InputError(
                    f"groups names {member!r}, which is no feature; known are {_list_some(names)}", argument="groups"
                )
            if membership[at] >= 0:
                raise InputError(f"groups has feature {member!r} twice; a feature has one group", argument="groups")
            membership[at] = group
    return membership, list(given)


def _check_error_costs(given: Any, labels: Sequence[Any]) -> NDArray[np.float64]:
    """Return what errors cost as a matrix: a row for each true class, a column for each answer."""
    name, n_classes = "error_costs", len(labels)
    if isinstance(given, Mapping):
        unknown = [label for label in given if label not in labels]
        absent = [label for label in labels if label not in given]
        if unknown or absent:
            wrong = f"names {unknown[0]!r}, which is no class" if unknown else f"lacks {absent[0]!r}"
            raise InputError(f"{name} {wrong}; the classes are {_list_some(labels)}", argument=name)
        if not all(isinstance(row, Mapping) for row in given.values()):
            raise InputError(f"{name} must map every label to a mapping of answer to cost", argument=name)
        # A right answer may be left out; every wrong one is named, because 0 would be a guess.
        rows = [{label: 0.0} | dict(given[label]) for label in labels]
        matrix = np.array(
            [check_costs(f"{name}[{label!r}]", row, labels, "class") for label, row in zip(labels, rows, strict=True)]
        )
    else:
        try:
            matrix = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{name} must be numbers: {error}", argument=name) from error
    if matrix.shape != (n_classes, n_classes):
        raise InputError(
            f"{name} has shape {matrix.shape}, expected ({n_classes}, {n_classes}): a row for each true class, a "
            "column for each answer",
            argument=name,
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any() or matrix.diagonal().any() or not matrix.any():
        raise InputError(
            f"{name} must be finite and 0 or more, 0 on the diagonal (a right answer costs nothing), and not all 0",
            argument=name,
        )
    return matrix


def _list_some(names: Sequence[Any]) -> str:
    return ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")
