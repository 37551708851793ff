"""What becomes of a promise when its assumptions do not hold: calibrate on rows that a certificate must not trust.

Rows are drawn from a pool, so what a predictor does to the pool is the truth. Each case is drawn again and again, the
fit included: independent rows, rows that fit and certify, copies, and rows that trained the model, of several kinds. A
draw is broken if its plan promises that at most α of new rows change, and more do. It may also be refused, or promise
nothing. No more than 5 % may be broken, beside the scatter of so many draws.

Then models are trained again and again, and rows that did not train them are shown: how often are they taken for
training rows? A quarter of these rows are the other half of a stratified split.

    python benchmarks/misuse.py --draws 200
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.model_selection import train_test_split

import scurry
from promise import noisy_rows
from report import RESULTS, commit
from scurry.stopping.guarantee import InMemory
from scurry.verbs.training_rows import describe_training

ALPHA = 0.01
N_POOL = 20_000
FIRST_DRAWS = 10
N_NEW = (1500, 300, 1000, 4000)  # rows that did not train a model


class Outcome(NamedTuple):
    """What a draw led to."""

    stated: bool  # the plan promises something for new rows
    is_broken: bool  # more rows of the pool changed than it says
    changed: float  # share of the pool whose label changed
    trees: float
    warned: bool


class Tally(NamedTuple):
    """The draws of a case together."""

    draws: int
    stated: int
    broken: int
    most: int  # that a valid promise exceeds in 1 of 100 such benchmarks
    warned: int
    changed: float | None  # mean share, of plans that state a promise
    trees: float | None


@cache
def pool() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The rows that everything is drawn from."""
    return noisy_rows(np.random.default_rng(7), N_POOL)


@cache
def shallow() -> scurry.Forest:
    """A forest that was trained on rows outside the pool."""
    X, y = noisy_rows(np.random.default_rng(8), 3000)
    return scurry.from_model(RandomForestClassifier(51, max_depth=8, random_state=0, n_jobs=1).fit(X, y))


@cache
def boosted() -> scurry.Forest:
    """A boosted model that was trained on rows outside the pool."""
    from lightgbm import LGBMClassifier

    X, y = noisy_rows(np.random.default_rng(9), 3000)
    return scurry.from_model(
        LGBMClassifier(n_estimators=60, num_leaves=8, n_jobs=1, random_state=0, verbose=-1).fit(X, y)
    )


def _drawn(rng: np.random.Generator, n_rows: int) -> NDArray[np.float32]:
    return pool()[0][rng.integers(0, N_POOL, n_rows)]


def _exit(forest: scurry.Forest, X_cal: Any, **asked: Any) -> scurry.Predictor:
    return scurry.early_exit(forest, X_cal, max_disagreement=ALPHA, **asked)


def _half_shared(forest: scurry.Forest, rng: np.random.Generator) -> scurry.Predictor:
    rows = _drawn(rng, 2250)
    return _exit(forest, rows[:1500], X_fit=rows[750:])


def _forest(**asked: Any) -> Callable[[int], Any]:
    return lambda seed: RandomForestClassifier(51, random_state=seed, n_jobs=1, **asked)


def _lightgbm(**asked: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from lightgbm import LGBMClassifier

        return LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1, **asked)

    return make


def _xgboost(**asked: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from xgboost import XGBClassifier

        return XGBClassifier(random_state=seed, n_jobs=1, **asked)

    return make


def _catboost(**asked: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from catboost import CatBoostClassifier

        return CatBoostClassifier(random_seed=seed, thread_count=1, verbose=0, **asked)

    return make


def _histograms(**asked: Any) -> Callable[[int], Any]:
    return lambda seed: HistGradientBoostingClassifier(early_stopping=False, random_state=seed, **asked)


KINDS: dict[str, Callable[[int], Any]] = {
    "a forest": _forest(),
    "a forest of depth 3": _forest(max_depth=3),
    "a forest of depth 5": _forest(max_depth=5),
    "a forest of depth 8": _forest(max_depth=8),
    "a forest with 5 rows in a leaf": _forest(min_samples_leaf=5),
    "a forest with weighted classes": _forest(class_weight="balanced"),
    "extra trees of depth 5": lambda seed: ExtraTreesClassifier(51, max_depth=5, random_state=seed, n_jobs=1),
    "GradientBoosting": lambda seed: GradientBoostingClassifier(n_estimators=60, random_state=seed),
    "HistGradientBoosting": _histograms(max_iter=60),
    "HistGradientBoosting, 30 trees of 5 leaves": _histograms(max_iter=30, max_leaf_nodes=5),
    "LightGBM": _lightgbm(),
    "LightGBM, 60 trees of 8 leaves": _lightgbm(n_estimators=60, num_leaves=8),
    "LightGBM with bagging": _lightgbm(subsample=0.5, subsample_freq=1),
    "XGBoost": _xgboost(),
    "XGBoost, 60 trees of depth 3": _xgboost(n_estimators=60, max_depth=3),
    "XGBoost with bagging": _xgboost(subsample=0.5),
    "CatBoost": _catboost(iterations=200),
    "CatBoost, 60 trees of depth 4": _catboost(iterations=60, depth=4),
}


def _training_rows(rng: np.random.Generator, kind: str, alpha: float = ALPHA, n_rows: int = 1500) -> scurry.Predictor:
    X, y = noisy_rows(rng, n_rows)
    model = KINDS[kind](int(rng.integers(2**31))).fit(X, y)
    return scurry.early_exit(model, X, y, max_disagreement=alpha)


def _by_estimator(rng: np.random.Generator) -> scurry.Predictor:
    X, y = noisy_rows(rng, 1500)
    model = KINDS["a forest"](int(rng.integers(2**31))).fit(X, y)
    return scurry.EarlyExitClassifier(model, max_disagreement=ALPHA).fit(X, y).predictor_


CASES: dict[str, Callable[[np.random.Generator], scurry.Predictor]] = {
    "independent rows, 600": lambda rng: _exit(shallow(), _drawn(rng, 600)),
    "independent rows, 3,000": lambda rng: _exit(shallow(), _drawn(rng, 3000)),
    "independent rows, 10,000": lambda rng: _exit(shallow(), _drawn(rng, 10_000)),
    "independent rows, boosted, 600": lambda rng: _exit(boosted(), _drawn(rng, 600)),
    "independent rows, boosted, 3,000": lambda rng: _exit(boosted(), _drawn(rng, 3000)),
    "independent rows, boosted, 10,000": lambda rng: _exit(boosted(), _drawn(rng, 10_000)),
    "independent rows, votes, 600": lambda rng: _exit(shallow(), _drawn(rng, 600), method="minimean"),
    "rows that fit certify": lambda rng: _exit(shallow(), rows := _drawn(rng, 1500), X_fit=rows),
    "half of the rows that fit certify": lambda rng: _half_shared(shallow(), rng),
    "half of the rows that fit certify, boosted": lambda rng: _half_shared(boosted(), rng),
    "400 rows, five copies of each": lambda rng: _exit(shallow(), np.repeat(_drawn(rng, 400), 5, axis=0)),
    "400 rows, five copies of each, boosted": lambda rng: _exit(boosted(), np.repeat(_drawn(rng, 400), 5, axis=0)),
    "800 rows, five copies of each": lambda rng: _exit(shallow(), np.repeat(_drawn(rng, 800), 5, axis=0)),
    "groups of 5 rows, by groups=": lambda rng: _exit(
        shallow(), np.repeat(_drawn(rng, 800), 5, axis=0), groups=np.repeat(np.arange(800), 5)
    ),
    "rows that trained a forest, by the estimator": _by_estimator,
} | {
    f"rows that trained {kind}, {100 * alpha:g} %": partial(_training_rows, kind=kind, alpha=alpha)
    for kind in KINDS
    for alpha in (ALPHA, 0.005)
}


def draw(case: str, seed: int) -> Outcome | None:
    """Return what one draw of a case leads to; None if it is refused."""
    rng = np.random.default_rng([11, seed])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fast = CASES[case](rng)
        except (scurry.errors.InputError, scurry.errors.InfeasibleError):
            return None
    rows, truth = pool()[0], fast.forest.predict(pool()[0])
    promise = fast.certificate.promise
    if promise is not None and promise.against == "vote":
        truth = _full_vote(fast.forest, rows)
    run = fast.run(rows)
    allowed, changed = fast.certificate.max_rate, float((run.labels != truth).mean())
    return Outcome(
        allowed is not None, allowed is not None and changed > allowed, changed, run.mean_trees, bool(caught)
    )


def count_false_alarms(kind: str, seeds: Iterable[int]) -> tuple[int, int]:
    """Return how often rows that did not train a model were taken for such that did, and how often that was tried."""
    n_alarms = n_tried = 0
    for seed in seeds:
        rng = np.random.default_rng([12, seed])
        X, y = noisy_rows(rng, 2 * int(rng.choice(N_NEW)))
        X_train, X_split, y_train, y_split = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
        forest = scurry.from_model(KINDS[kind](seed).fit(X_train, y_train))
        for rows, labels in [(X_split, y_split), *(noisy_rows(rng, n_rows) for n_rows in N_NEW[1:])]:
            n_alarms += bool(describe_training(forest, InMemory(rows), labels))
            n_tried += 1
    return n_alarms, n_tried


def _full_vote(forest: scurry.Forest, rows: NDArray[np.float32]) -> NDArray[Any]:
    votes = forest.value.argmax(axis=1)[forest.apply(rows)]
    return np.asarray(forest.classes)[(2 * votes.sum(axis=1) > forest.n_trees).astype(int)]


def tally(case: str, seeds: Iterable[int]) -> Tally:
    """Return what the draws of a case led to, together."""
    drawn = [draw(case, seed) for seed in seeds]
    made = [outcome for outcome in drawn if outcome is not None]
    stated = [outcome for outcome in made if outcome.stated]
    return Tally(
        draws=len(drawn),
        stated=len(stated),
        broken=sum(outcome.is_broken for outcome in stated),
        most=int(stats.binom.ppf(0.99, len(drawn), 0.05)),
        warned=sum(outcome.warned for outcome in made) + len(drawn) - len(made),
        changed=float(np.mean([outcome.changed for outcome in stated])) if stated else None,
        trees=float(np.mean([outcome.trees for outcome in made])) if made else None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, metavar="N")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="cases whose name has it; the others stay as they are"
    )
    arguments = parser.parse_args()
    path = RESULTS / "misuse.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if arguments.only else {}
    kept |= {"alpha": ALPHA, "confidence": 0.95, "commit": commit()}
    cases, alarms = kept.setdefault("cases", {}), kept.setdefault("false_alarms", {})

    def keep() -> None:
        path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")

    for case in filter(lambda case: arguments.only in case, CASES):
        by_training = case.startswith("rows that trained")
        if by_training and case.endswith("0.5 %") and not cases[case.replace("0.5 %", "1 %")]["stated"]:
            continue  # what is noticed does not depend on the promise
        found = tally(case, range(min(arguments.draws, FIRST_DRAWS)))
        if found.stated or not by_training:  # where nothing is promised, nothing breaks
            found = tally(case, range(arguments.draws))
        result = cases[case] = found._asdict()
        print(f"{case:<60}", *(f"{name} {value}" for name, value in result.items()), sep="  ", flush=True)
        keep()
    for kind in filter(lambda kind: arguments.only in f"rows that trained {kind}", KINDS):
        counted = count_false_alarms(kind, range(arguments.draws // len(N_NEW)))
        alarms[kind] = dict(zip(("alarms", "tried"), counted, strict=True))
        print(f"{kind:<60}  {counted[0]} false alarms of {counted[1]}", flush=True)
        keep()


if __name__ == "__main__":
    main()
