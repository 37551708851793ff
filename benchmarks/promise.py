"""Whether a promise holds: calibrate on many independent draws of rows, compare with what is true of new ones.

A model is fitted once. Then `scurry.early_exit` is called with fresh calibration rows, a fresh order of trees and a
fresh split again and again, and what each predictor handed over does to 100,000 further rows is taken as the truth. Of
predictors that promise to change at most α of new labels with confidence 0.95, no more than 5 % may change more, beside
the scatter of so many draws. Rules without a promise are shown for comparison. Draws are kept on disk, so that a run
that was interrupted goes on where it was; the report names the commits they were made at.

    python benchmarks/promise.py --quick
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import scurry
from report import RESULTS, Report, commit
from scurry.errors import InfeasibleError

N_DRAWS = 200
N_NEW_ROWS = 100_000
N_FEATURES = 10
CONFIDENCE = 0.95
VOTE_METHODS = ("minimean", "minimixed", "minimax", "schwing")
KEPT_AT_A_TIME = 10


@dataclass(frozen=True)
class Draws:
    """What each draw led to, arrays of shape (n_draws,): changed labels and trees on new rows, NaN if infeasible."""

    disagreement: NDArray[np.float64]
    trees: NDArray[np.float64]
    commits: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.trees)

    def __add__(self, other: Draws) -> Draws:
        both = [np.concatenate(pair) for pair in ((self.disagreement, other.disagreement), (self.trees, other.trees))]
        return Draws(*both, self.commits | other.commits)

    def first(self, n_draws: int) -> Draws:
        return Draws(self.disagreement[:n_draws], self.trees[:n_draws], self.commits)

    def save(self, path: Path) -> None:
        np.savez(path, disagreement=self.disagreement, trees=self.trees, commits=sorted(self.commits))

    @classmethod
    def load(cls, path: Path) -> Draws:
        if not path.exists():
            return cls(np.empty(0), np.empty(0))
        with np.load(path) as kept:
            return cls(kept["disagreement"], kept["trees"], frozenset(kept["commits"].tolist()))


@dataclass(frozen=True)
class Cell:
    """A model and what is asked of early exit, again and again."""

    model: str
    n_rows: int
    asked: dict[str, Any]

    @property
    def title(self) -> str:
        shuffle = ", an order per row" if self.asked.get("shuffle") == "row" else ""
        return f"{self.asked['method']}{shuffle}, α = {self.asked['max_disagreement']:g}, {self.n_rows:,} rows"


def noisy_rows(
    rng: np.random.Generator, n_rows: int, n_classes: int = 2
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Fresh rows of a problem with curved borders and noisy labels; every call is an independent draw."""
    X = rng.normal(size=(n_rows, N_FEATURES)).astype(np.float32)
    score = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] + 0.5 * X[:, 4] ** 2 - 0.5
    borders = [0.0] if n_classes == 2 else np.linspace(-1.2, 1.2, n_classes - 1)
    return X, np.searchsorted(borders, score + rng.logistic(scale=0.3, size=n_rows)).astype(np.int64)


def main() -> None:
    arguments = _arguments()
    report = Report(
        "promise",
        "The promise of early exit over independent draws",
        f"{arguments.draws} draws of calibration rows, order of trees and split for each line (a fifth of them without "
        f"a promise); the truth is measured on {N_NEW_ROWS:,} further rows, for the predictor handed over. "
        "Votes are compared with the full vote, scores with the model's own labels. At most: violations that a valid "
        "promise exceeds in 1 of 100 such benchmarks.",
        ["scikit-learn", "lightgbm"],
    )
    for name in arguments.models:
        forest, new = MODELS[name]()
        rows, commits = [], set[str]()
        for cell in _cells(name):
            for confidence in (None, CONFIDENCE):
                if confidence is None and cell.asked["method"] == "minimean" and forest.n_classes > 2:
                    continue  # there is no such rule
                n_draws = arguments.draws if confidence else arguments.draws // 5
                draws = _kept_draws(forest, new, n_draws, cell, confidence)
                commits |= draws.commits
                rows.append([cell.title, *violations_row(draws, cell.asked["max_disagreement"], confidence)])
                print(*rows[-1], sep=" | ", flush=True)
        header = ["rule", "confidence", "draws", "α exceeded", "at most", "mean disagreement", "most", "mean trees"]
        report.table(f"{name}: {forest.n_trees} trees", header, rows)
        report.say(f"Drawn at {', '.join(sorted(commits))}.")
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=N_DRAWS, metavar="N")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--quick", action="store_true", help="ten draws: for trying out, not for figures")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.draws = 10
    return arguments


def _random_forest(n_classes: int = 2) -> tuple[scurry.Forest, NDArray[np.float32]]:
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    X, y = noisy_rows(rng, 4000, n_classes)
    model = RandomForestClassifier(101, max_depth=8, random_state=0).fit(X, y)
    return scurry.from_model(model), noisy_rows(rng, N_NEW_ROWS)[0]


def _boosted() -> tuple[scurry.Forest, NDArray[np.float32]]:
    from lightgbm import LGBMClassifier

    rng = np.random.default_rng(0)
    X, y = noisy_rows(rng, 4000)
    model = LGBMClassifier(n_estimators=100, num_leaves=16, n_jobs=1, random_state=0, verbose=-1).fit(X, y)
    return scurry.from_model(model), noisy_rows(rng, N_NEW_ROWS)[0]


MODELS: dict[str, Callable[[], tuple[scurry.Forest, NDArray[np.float32]]]] = {
    "random forest": _random_forest,
    "boosted": _boosted,
    "random forest of four classes": lambda: _random_forest(4),
}


def _cells(name: str) -> Iterator[Cell]:
    if name == "random forest":
        for alpha, n_rows in ((1e-2, 1000), (1e-2, 4000), (1e-3, 4000), (1e-3, 16_000)):
            yield Cell(name, n_rows, {"max_disagreement": alpha, "method": "minimean"})
        for asked in ({"method": "minimixed"}, {"method": "schwing"}, {"method": "minimean", "shuffle": "row"}):
            yield Cell(name, 4000, {"max_disagreement": 1e-2} | asked)
    methods = {"random forest": ["auto"], "boosted": ["qwyc", "fan", "auto"]}.get(
        name, ["minimixed", "minimean", "qwyc"]
    )
    for alpha, n_rows in ((0.02, 1000), (0.005, 4000)):
        for method in methods:
            yield Cell(name, n_rows, {"max_disagreement": alpha, "method": method})


def _kept_draws(
    forest: scurry.Forest, new: NDArray[np.float32], n_draws: int, cell: Cell, confidence: float | None
) -> Draws:
    """The cell's draws, those made before read from disk."""
    kept = RESULTS / "promise-draws"
    kept.mkdir(parents=True, exist_ok=True)
    path = kept / f"{cell.model}, {cell.title}, {confidence or 'no'} confidence.npz".replace(" ", "-")
    draws = Draws.load(path)
    truth = full_vote(forest, new) if cell.asked["method"] in VOTE_METHODS else forest.predict(new)
    while len(draws) < n_draws:
        seeds = range(len(draws), min(len(draws) + KEPT_AT_A_TIME, n_draws))
        draws += _simulated(forest, new, truth, seeds, cell.n_rows, **cell.asked, confidence=confidence)
        draws.save(path)
    return draws.first(n_draws)


def _simulated(
    forest: scurry.Forest,
    new: NDArray[np.float32],
    truth: NDArray[Any],
    seeds: Iterable[int],
    n_rows: int,
    **asked: Any,
) -> Draws:
    """Calibrate on a fresh set of rows for each of `seeds`, predict `new`; `asked` goes to `scurry.early_exit`."""
    found = []
    for seed in seeds:
        rows = noisy_rows(np.random.default_rng([1, seed]), n_rows)[0]
        try:
            predictor = scurry.early_exit(forest, rows, random_state=seed, **asked)
        except InfeasibleError:
            found.append((np.nan, np.nan))
            continue
        run = predictor.run(new)
        found.append((float((run.labels != truth).mean()), run.mean_trees))
    disagreement, trees = np.array(found).T
    return Draws(disagreement, trees, frozenset([commit()]))


def full_vote(forest: scurry.Forest, rows: NDArray[np.float32]) -> NDArray[Any]:
    """What most trees vote for, the first class on ties."""
    voted, winners = forest.value.argmax(axis=1), []
    for part in np.array_split(rows, max(1, len(rows) // 20_000)):
        votes = voted[forest.apply(part)]
        winners.append(np.stack([(votes == k).sum(axis=1) for k in range(forest.n_classes)]).argmax(axis=0))
    return np.asarray(forest.classes)[np.concatenate(winners)]


def violations_row(draws: Draws, max_disagreement: float, confidence: float | None) -> list[str]:
    """Cells of a table: confidence, draws, violations, what chance allows, mean and most disagreement, trees."""
    feasible = np.isfinite(draws.disagreement)
    n_feasible = int(feasible.sum())
    shown = f"{n_feasible}" + (f" ({len(draws) - n_feasible} infeasible)" if n_feasible < len(draws) else "")
    if n_feasible == 0:
        return [str(confidence), shown, "–", "–", "–", "–", "–"]
    # Of valid rules at most 1 - confidence violate; the count stays under this in 99 of 100 benchmarks.
    most = "–" if confidence is None else str(int(stats.binom.ppf(0.99, n_feasible, 1 - confidence)))
    disagreement, trees = draws.disagreement[feasible], draws.trees[feasible]
    return [
        str(confidence),
        shown,
        f"{int((disagreement > max_disagreement).sum())}",
        most,
        f"{disagreement.mean():.4%}",
        f"{disagreement.max():.4%}",
        f"{trees.mean():.2f}",
    ]


if __name__ == "__main__":
    main()
