"""What becomes of a promise when its assumptions do not hold: calibrate on rows that a certificate must not trust.

Rows are drawn from a pool, so what a predictor does to the pool is the truth. Each case is drawn again and again, the
fit included: independent rows, rows that fit and certify, copies, and rows that trained the model. A draw is broken if
its plan promises that at most α of new rows change, and more do. It may also be refused, or promise nothing. No more
than 5 % may be broken, beside the scatter of so many draws.

    python benchmarks/misuse.py --draws 200
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.ensemble import RandomForestClassifier

import scurry
from promise import noisy_rows
from report import RESULTS, commit

ALPHA = 0.01
N_POOL = 20_000


class Outcome(NamedTuple):
    """What a draw led to."""

    stated: bool  # the plan promises something for new rows
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


def _training_rows(rng: np.random.Generator, by_estimator: bool) -> scurry.Predictor:
    chosen = rng.choice(N_POOL, 1500, replace=False)
    X, y = (values[chosen] for values in pool())
    model = RandomForestClassifier(51, random_state=int(rng.integers(2**31)), n_jobs=1).fit(X, y)
    if by_estimator:
        return scurry.EarlyExitClassifier(model, max_disagreement=ALPHA).fit(X, y).predictor_
    return scurry.early_exit(model, X, y, max_disagreement=ALPHA)


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
    "rows that trained a forest": lambda rng: _training_rows(rng, by_estimator=False),
    "rows that trained a forest, by the estimator": lambda rng: _training_rows(rng, by_estimator=True),
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
    stated = fast.certificate.max_rate is not None
    return Outcome(stated, float((run.labels != truth).mean()), run.mean_trees, bool(caught))


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
        broken=sum(outcome.changed > ALPHA for outcome in stated),
        most=int(stats.binom.ppf(0.99, len(drawn), 0.05)),
        warned=sum(outcome.warned for outcome in made) + len(drawn) - len(made),
        changed=float(np.mean([outcome.changed for outcome in stated])) if stated else None,
        trees=float(np.mean([outcome.trees for outcome in made])) if made else None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, metavar="N")
    arguments = parser.parse_args()
    found = {}
    for case in CASES:
        result = found[case] = tally(case, range(arguments.draws))._asdict()
        print(f"{case:<46}", *(f"{name} {value}" for name, value in result.items()), sep="  ", flush=True)
    kept = {"alpha": ALPHA, "confidence": 0.95, "commit": commit(), "cases": found}
    (RESULTS / "misuse.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
