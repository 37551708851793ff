"""Forests of ensemble pruning's Table 1: the published cells, the readings of what the paper leaves open, one repeat.

``papers/ensemble_pruning.py`` says which repeats are made and what they say about the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

import scurry
from cost_curves import Rows, Task, error_rate, split
from scurry import Forest
from scurry.evaluation import feature_bill
from scurry.forest.structure import ARRAYS, HEADER
from scurry.growing import BudgetedForestClassifier
from scurry.pruning import PruningPath
from scurry.pruning.node_errors import class_counts

N_FOLDS = 10
METHODS = {"ensemble": "exact", "single trees": "independent"}
LEVELS = ("low", "high")
SIZES = {
    "covertype": (36_603, 15_688, 58_101),
    "miniboone": (45_523, 19_510, 65_031),
    "cifar10": (19_761, 8_468, 10_000),
    "nomao": (12_062, 5_169, 17_231),
    "mnist": (19_761, 8_468, 10_000),
}
QUICK_SIZES = (3_000, 1_500, 5_000)


@dataclass(frozen=True)
class Published:
    """A row of Table 1: error unpruned and at the two levels, cost unpruned, costs in percent of it, deviations."""

    title: str
    n_trees: int
    n_runs: int
    cost: float
    errors: tuple[float, float, float]
    shares: dict[str, tuple[float, float]]
    error_deviation: float
    cost_deviation: float
    deviations: dict[str, tuple[float, float]]


def _row(title: str, n_trees: int, n_runs: int, cost: str, error: str, *pruned: str) -> Published:
    """Read a row of the table: costs and errors with their deviations, then share, cost and deviation of each cell."""
    (cost_mean, cost_sd), (errors, error_sd) = (text.split(" ± ") for text in (cost, error))
    cells = [[float(cell) for cell in text.split()] for text in pruned]
    low, high = ({name: (cells[at][k], cells[at + 2][k]) for at, name in enumerate(METHODS)} for k in (0, 1))
    return Published(
        title, n_trees, n_runs, float(cost_mean), tuple(map(float, errors.split())), low,
        float(error_sd), float(cost_sd), high,
    )  # fmt: skip


# Share of the unpruned cost and deviation of the cost: ensemble and single trees, low; the same, high.
TABLE_1 = {
    "miniboone": _row(
        "MiniB", 40, 10, "37.0671 ± 0.3108", "0.0725 0.0724 0.0766 ± 0.0004",
        "68.24 0.3157", "95.02 0.3667", "43.17 0.2498", "55.19 0.1270",
    ),
    "covertype": _row(
        "Forest", 40, 10, "13.9005 ± 0.0498", "0.1122 0.1135 0.1220 ± 0.0009",
        "88.10 0.0834", "93.24 0.1004", "65.16 0.6481", "78.82 0.0729",
    ),
    "cifar10": _row(
        "Cifar", 40, 10, "186.5456 ± 1.3180", "0.3152 0.3165 0.3227 ± 0.0031",
        "92.40 1.8741", "93.02 1.4516", "75.39 2.5059", "77.89 2.4797",
    ),
    "sonar": _row(
        "Sonar", 90, 100, "49.9715 ± 1.1103", "0.1539 0.1838 0.2121 ± 0.0641",
        "45.20 3.9528", "74.31 2.0425", "16.48 1.7930", "28.11 1.6909",
    ),
    "heart_statlog": _row(
        "Heart", 90, 100, "12.1670 ± 0.2341", "0.1721 0.1711 0.1977 ± 0.0756",
        "73.26 0.7524", "96.20 0.2742", "47.75 2.5589", "75.86 0.7036",
    ),
}  # fmt: skip
FOLDED = ("sonar", "heart_statlog")  # too small for given splits: 10 × 10 folds
# Public data of the same kind and, as far as there are any, of the same size: two classes and continuous features for
# MiniBooNE, 400 pixels of two groups of pictures for CIFAR. Their levels are MiniB's and Cifar's.
STAND_INS = {"nomao": "miniboone", "mnist": "cifar10"}


@dataclass(frozen=True, eq=False)
class Reading:
    """One way to understand how the paper's forests are grown and its nodes judged."""

    title: str
    options: Mapping[str, Any] = field(default_factory=dict)  # of BudgetedForestClassifier
    two_classes: bool = False  # the most common class against all others
    on_validation: bool = False  # validation rows are grown on, too
    last_first: bool = False  # features in the opposite order, so that ties go to the last one
    all_rows: bool = False  # a node's class shares and errors are those of all training rows, not of its tree's sample
    n_cuts: int | None = None  # a feature is cut at so many places, evenly spaced over its range, and at no other

    def applies_to(self, name: str) -> bool:
        return name == "covertype" or not (self.two_classes or self.on_validation)


AS_WRITTEN = Reading("as written: Pairs, min-max, bootstrap, all features")
ALL_ROWS = Reading("class shares and errors of nodes from all training rows", all_rows=True)
TEN_CUTS = Reading("thresholds from 10 equal-width cuts", n_cuts=10)
BOTH = Reading("10 equal-width cuts, nodes judged by all training rows", n_cuts=10, all_rows=True)
TWO_CLASSES = Reading("two classes, grown on validation rows too", two_classes=True, on_validation=True)
TWO_ALL_ROWS = Reading(
    "two classes, grown on validation rows too, nodes judged by all these rows",
    two_classes=True,
    on_validation=True,
    all_rows=True,
)
PRUNED = (AS_WRITTEN, ALL_ROWS, TEN_CUTS, BOTH, TWO_CLASSES, TWO_ALL_ROWS)
UNPRUNED = (
    Reading("ties at random: all features but one drawn", {"max_features": 0.99}),
    Reading("ties to the last feature", last_first=True),
    Reading("2/3 of the features drawn at each split", {"max_features": 2 / 3}),
    Reading("1/3 drawn", {"max_features": 1 / 3}),
    Reading("square root drawn", {"max_features": "sqrt"}),
    Reading("no bootstrap, 2/3 drawn", {"bootstrap": False, "max_features": 2 / 3}),
    Reading("no bootstrap, square root drawn", {"bootstrap": False, "max_features": "sqrt"}),
    Reading("expected Pairs", {"split": "expected"}),
    Reading("entropy, expected", {"criterion": "entropy"}),
    Reading("entropy, square root drawn", {"criterion": "entropy", "max_features": "sqrt"}),
    Reading("threshold-Pairs, alpha 1", {"alpha": 1.0}),
)


def grown(reading: Reading, name: str, seed: int, quick: bool) -> Iterator[tuple[Task, Forest]]:
    """A repeat's tasks, one or one for each fold, each with its forest."""
    n_trees = 10 if quick else TABLE_1[STAND_INS.get(name, name)].n_trees
    for at, task in enumerate(_tasks(name, seed, quick)):
        task = _read(task, reading)
        forest = BudgetedForestClassifier(n_trees, random_state=1000 * seed + at, **reading.options)
        trees = forest.fit(*task.train).forest_
        yield task, judged_by(trees, task.train) if reading.all_rows else trees


def _tasks(name: str, seed: int, quick: bool) -> Iterator[Task]:
    X, y = rows_of(name)
    if name in FOLDED:
        for train, test in StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(X, y):
            rows: Rows = (X[train], y[train])  # too few for validation rows of their own
            yield Task(rows, rows, (X[test], y[test]), {})
    else:
        yield Task(*split(X, y, QUICK_SIZES if quick else SIZES[name], seed), {})


@cache
def rows_of(name: str) -> Rows:
    data = scurry.datasets.load(name)
    if name == "mnist":  # the middle of each picture, and digits below 5 against the others
        middle = data.X.reshape(-1, 28, 28)[:, 4:24, 4:24].reshape(-1, 400)
        return np.ascontiguousarray(middle), np.asarray(data.y).astype(int) < 5
    return data.X, data.y


def _read(task: Task, reading: Reading) -> Task:
    """The rows of a task as a reading has them."""
    if reading.two_classes:
        task = two_classes(task)
    if reading.last_first:
        task = _changed(task, lambda X, y: (X[:, ::-1], y))
    if reading.on_validation:
        (X, y), (X_more, y_more) = task.train, task.validation
        task = replace(task, train=(np.vstack([X, X_more]), np.concatenate([y, y_more])))
    if reading.n_cuts is not None:
        cut = cutter(task.train[0], reading.n_cuts)
        task = _changed(task, lambda X, y: (cut(X), y))
    return task


def two_classes(task: Task) -> Task:
    classes, counts = np.unique(task.train[1], return_counts=True)
    common = classes[counts.argmax()]
    return _changed(task, lambda X, y: (X, y == common))


def _changed(task: Task, change: Callable[[NDArray[np.float32], NDArray[Any]], Rows]) -> Task:
    return replace(task, train=change(*task.train), validation=change(*task.validation), test=change(*task.test))


def cutter(X: NDArray[np.float32], n_cuts: int) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """A function that says between which of the evenly spaced cuts of a column's range each value lies."""
    cuts = np.linspace(X.min(axis=0), X.max(axis=0), n_cuts + 2)[1:-1]
    return lambda rows: (rows[None] > cuts[:, None]).sum(axis=0, dtype=np.float32)


def judged_by(forest: Forest, rows: Rows) -> Forest:
    """The same trees, whose nodes have the class shares of all these rows."""
    counts = class_counts(forest, *rows)
    cover = counts.sum(axis=1)
    return forest.replace(value=counts / cover[:, None], cover=cover)


def _as_votes(forest: Forest) -> Forest:
    """The same trees, asked for their majority classes instead of their class shares."""
    parts: dict[str, Any] = {name: getattr(forest, name) for name in (*ARRAYS, *HEADER)}
    return Forest(**parts | {"aggregation": "vote"}, classes=forest.classes)


def measure(task: Task, forest: Forest, name: str, is_pruned: bool) -> dict[str, Any]:
    """Cost, and error by votes and by mean, of a forest and, if wanted, of its prunings at every trade-off."""
    paper = TABLE_1[STAND_INS.get(name, name)]
    found: dict[str, Any] = {"unpruned": _judge(forest, task)}
    if is_pruned:
        for title, method in METHODS.items():
            path = scurry.prune(forest, task.validation[0], method=method)
            found[title] = _by_lambda(path, grid(name, title) * paper.n_trees / forest.n_trees, task)
            found[f"{title}, largest jump"] = float(-np.diff(path.costs).min() / path.costs[0])
    return found


def _judge(forest: Forest, task: Task) -> list[float]:
    X, y = task.test
    return [feature_bill(forest, X).mean_cost, error_rate(_as_votes(forest), (X, y)), error_rate(forest, (X, y))]


def grid(name: str, title: str) -> NDArray[np.float64]:
    """Trade-offs from next to nothing pruned to nearly all; a pruned ensemble saves more for the same one."""
    if name in STAND_INS or name in STAND_INS.values():
        return np.geomspace(1e-5, 5e-2, 24) if title == "ensemble" else np.geomspace(5e-6, 5e-3, 24)
    if name in FOLDED:
        return np.geomspace(5e-4, 0.15, 48) if title == "ensemble" else np.geomspace(2e-4, 5e-3, 48)
    return np.geomspace(3e-4, 4e-2, 16) if title == "ensemble" else np.geomspace(1e-4, 2.5e-3, 16)


def _by_lambda(path: PruningPath, lambdas: NDArray[np.float64], task: Task) -> list[list[float]]:
    places = np.searchsorted(path.lambdas, lambdas)
    once = {at: _judge(path[int(at)], task) for at in np.unique(places)}
    return [once[at] for at in places]
