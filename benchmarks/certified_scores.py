"""Early exits of scores with a promise: mean trees on new rows, by how the calibration rows are spent.

The ensembles of "Quit When You Can" on adult and nomao. One random half of the test rows calibrates, the other is new.

    python benchmarks/certified_scores.py --repeats 10
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import scurry
from boosted import N_TREES, Rows
from qwyc_ensembles import GAMMAS, Ensemble, boosted
from report import Report
from scurry.errors import InfeasibleError, ScurryError
from scurry.stopping import FanFit, MarginFit
from scurry.stopping.guarantee import certify_rates

AMOUNTS = np.concatenate([[0.0], np.geomspace(1e-3, 10.0, 120)])
ALPHA, CONFIDENCE = 0.005, 0.95
ASKED = {"adult": 55, "nomao": 36}

Strategy = Callable[[NDArray[np.intp], int], tuple[float, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, metavar="N")
    n_repeats = parser.parse_args().repeats
    report = Report("certified-scores", "Early exits of scores with a promise", "500 LightGBM trees.", ["lightgbm"])
    for name, asked in ASKED.items():
        try:
            rows, ensemble = boosted(name, 0)
        except ScurryError as error:
            report.say(f"{name} skipped: {error}")
            continue
        lines = []
        for title, strategy in _strategies(rows, ensemble).items():
            found = []
            for seed in range(n_repeats):
                shuffled = np.random.default_rng(seed).permutation(len(ensemble.full))
                found.append(strategy(np.sort(shuffled[: len(shuffled) // 2]), seed))
            trees, changed = np.array(found).T
            means = [f"{trees.mean():.1f} ± {trees.std():.1f}", f"{changed.mean():.3%}", f"{changed.max():.3%}"]
            lines.append([title, *means])
        report.table(
            f"{name}: at most {ALPHA:.1%} of new rows, confidence {CONFIDENCE:g} (asked: {asked} trees)",
            ["strategy", "mean trees on new rows", "changed", "most changed"],
            lines,
        )
    report.say(f"{n_repeats} random halves. {N_TREES} trees count where nothing can be certified.")
    report.close()


def _strategies(rows: Rows, ensemble: Ensemble) -> dict[str, Strategy]:
    """Ways to spend calibration rows, given as indices of test rows: each gives mean trees and changed labels."""
    forest = scurry.from_model(rows.fit())
    found: dict[str, Strategy] = {
        f'early_exit(method="{method}"{", X_fit=training rows" if fits else ""})': partial(
            _by_early_exit, rows, forest, method, fits
        )
        for fits in (False, True)
        for method in ("auto", "qwyc", "fan")
    }
    for share in (0.1, 0.5, 1.0):
        rule = ensemble.qwyc(share * ALPHA)
        found[f"QWYC* at {share:g} α on training rows"] = partial(_certify, ensemble, rule)
    found["Alg. 2, GBT order, on training rows"] = partial(_certify, ensemble, ensemble.qwyc(ALPHA, "natural"))
    found["Fan*, on training rows"] = partial(_certify, ensemble, ensemble.fan("individual-mse"))
    return found


def _certify(ensemble: Ensemble, rule: MarginFit | FanFit, rows: NDArray[np.intp], seed: int) -> tuple[float, float]:
    """Widen a rule until it is certified on calibration rows; trees and differences on all the other test rows."""
    del seed  # nothing is drawn
    amounts = GAMMAS if isinstance(rule, FanFit) else AMOUNTS
    curve = rule.widening_curve(ensemble.test[rows], amounts, decisions=ensemble.full[rows])
    chosen = certify_rates(curve.n_mistakes[::-1], len(rows), ALPHA, CONFIDENCE)  # from cautious to bold
    if chosen < 0:
        return float(N_TREES), 0.0
    new = np.setdiff1d(np.arange(len(ensemble.full)), rows)
    decision, used = rule.widen(float(amounts[::-1][chosen])).decide(ensemble.test[new])
    return float(used.mean()), float((decision != ensemble.full[new]).mean())


def _by_early_exit(
    rows: Rows, forest: scurry.Forest, method: str, fits: bool, chosen: NDArray[np.intp], seed: int
) -> tuple[float, float]:
    new = np.setdiff1d(np.arange(len(rows.X_test)), chosen)
    asked: dict[str, Any] = {"max_disagreement": ALPHA, "confidence": CONFIDENCE, "method": method}
    if fits:
        asked["X_fit"] = rows.X_train
    try:
        run = scurry.early_exit(forest, rows.X_test[chosen], random_state=seed, **asked).run(rows.X_test[new])
    except InfeasibleError:
        return float(N_TREES), 0.0
    return run.mean_trees, float((run.labels != forest.predict(rows.X_test[new])).mean())


if __name__ == "__main__":
    main()
