"""Quit When You Can: the paper's experiments and the figures to reach beside what scurry obtains.

500 LightGBM trees on adult and nomao. Without a promise, rules are fitted on training rows and compared at equal
realised test difference; with one, on halves of the test rows: one calibrates, the other judges. Whether the promise
itself holds is the matter of ``benchmarks/promise.py``, evaluation times that of ``qwyc_times.py``. Curves are kept on
disk, so that a run that was interrupted goes on where it was.

    python benchmarks/papers/qwyc.py --quick
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import scurry
from boosted import N_TREES, Rows, load, scores_of
from report import RESULTS, Report, commit, subplots
from scurry.errors import InfeasibleError, ScurryError
from scurry.forest import score_threshold
from scurry.stopping import FanFit, MarginFit, fan, preset_order, qwyc
from scurry.stopping.guarantee import certify_rates

ALPHAS = [0.0, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02]
QUICK_ALPHAS = [0.0, 0.001, 0.005, 0.01]
GAMMAS = np.linspace(0.0, 6.0, 121)
AMOUNTS = np.concatenate([[0.0], np.geomspace(1e-3, 10.0, 120)])
PRESETS = {"GBT order": "natural", "individual MSE": "individual-mse", "greedy MSE": "greedy-mse", "random": "random"}
CERTIFIED_ALPHA, CONFIDENCE = 0.005, 0.95
PARTS = ("curves", "certified")
SHOWN_DIFFERENCE = 0.005  # of the histograms

Rule = MarginFit | FanFit
FitRule = Callable[[NDArray[np.float64]], Rule]


@dataclass(frozen=True)
class Target:
    """What the figures ask of an experiment: trees at equal realised difference, and certified."""

    difference: float
    trees: Mapping[str, str]
    certified: float


TARGETS = {
    "adult": Target(0.006, {"QWYC*": "≤ 40", "Alg. 2, GBT order": "≈ 81", "Fan*": "≈ 67"}, 55),
    "nomao": Target(0.011, {"QWYC*": "≤ 8", "Alg. 2, GBT order": "≈ 10", "Fan*": "≈ 15"}, 36),
}


@dataclass(frozen=True)
class Curve:
    """A method's trade-off on test rows: shares of changed labels and of right labels, and mean trees, by rule.

    Of the rule that changes closest to 0.5 % of the labels, `used` has the trees of each row and `changed` the share.
    """

    difference: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    trees: NDArray[np.float64]
    used: NDArray[np.int64]
    changed: float
    commit: str

    @classmethod
    def of(
        cls,
        difference: NDArray[np.float64],
        accuracy: NDArray[np.float64],
        trees: NDArray[np.float64],
        used_by: Callable[[int], NDArray[np.int64]],
    ) -> Curve:
        shown = int(np.abs(difference - SHOWN_DIFFERENCE).argmin())
        return cls(difference, accuracy, trees, used_by(shown), float(difference[shown]), commit())

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **vars(self))

    @classmethod
    def load(cls, path: Path) -> Curve:
        with np.load(path) as kept:
            arrays = {name: kept[name] for name in ("difference", "accuracy", "trees", "used")}
            return cls(**arrays, changed=float(kept["changed"]), commit=str(kept["commit"]))

    def trees_at(self, difference: float) -> float:
        """Fewest trees at this difference, between neighbouring points of the lower envelope; NaN out of reach."""
        order = np.lexsort([self.trees, self.difference])
        at, trees = self.difference[order], np.minimum.accumulate(self.trees[order])
        return float(np.interp(difference, at, trees, left=np.nan))


class Experiment:
    """A dataset's full ensemble and the scores of its trees on training and test rows."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.model = rows.fit()
        self.forest = scurry.from_model(self.model)
        self.threshold = score_threshold(self.forest)
        self.train, self.test = scores_of(self.forest, rows.X_train, rows.X_test)
        self.full = self.forest.predict(rows.X_test).astype(bool)

    def qwyc(self, scores: NDArray[np.float64], alpha: float, order: Any = None, **options: Any) -> MarginFit:
        return qwyc(scores, max_disagreement=alpha, order=order, decision_threshold=self.threshold, **options)

    def order(self, name: str) -> NDArray[np.int64]:
        y = self.rows.y_train
        return preset_order(name, self.train, y=y, decision_threshold=self.threshold, random_state=0)

    def qwyc_curve(self, alphas: Sequence[float], order: Any = None, **options: Any) -> Curve:
        decisions = [self.qwyc(self.train, alpha, order, **options).decide(self.test) for alpha in alphas]
        return Curve.of(
            np.array([(d.decision != self.full).mean() for d in decisions]),
            np.array([(d.decision == self.rows.y_test).mean() for d in decisions]),
            np.array([d.n_models_used.mean() for d in decisions]),
            lambda shown: decisions[shown].n_models_used,
        )

    def fan_curve(self, order: Any, bin_width: float = 0.1) -> Curve:
        rule = fan(self.train, gamma=0.0, order=order, bin_width=bin_width, decision_threshold=self.threshold)
        return self.widening_curve(rule, GAMMAS)

    def widened_curve(self) -> Curve:
        """QWYC's own thresholds at no mistake on training rows, moved outwards: fewer differences on other rows."""
        return self.widening_curve(self.qwyc(self.train, 0.0), AMOUNTS)

    def widening_curve(self, rule: Rule, amounts: NDArray[np.float64]) -> Curve:
        changed = rule.widening_curve(self.test, amounts, decisions=self.full)
        wrong = rule.widening_curve(self.test, amounts, decisions=self.rows.y_test.astype(bool))
        return Curve.of(
            changed.n_mistakes / len(self.full),
            1 - wrong.n_mistakes / len(self.full),
            changed.mean_cost,
            lambda shown: rule.widen(float(amounts[shown])).decide(self.test).n_models_used,
        )

    def small_ensembles(self, sizes: Sequence[int], rates: Sequence[float]) -> Curve:
        """Fully evaluated boosted ensembles; of several learning rates the best on held-out training rows."""
        predictions = [_best_small(self.rows, size, rates).predict(self.rows.X_test) for size in sizes]
        return Curve.of(
            np.array([(p != self.full).mean() for p in predictions]),
            np.array([(p == self.rows.y_test).mean() for p in predictions]),
            np.array(sizes, dtype=np.float64),
            lambda shown: np.full(len(self.full), sizes[shown]),
        )


def _best_small(rows: Rows, n_trees: int, rates: Sequence[float]) -> Any:
    if len(rates) == 1:
        return rows.fit(n_trees, rates[0])
    n_fit = int(0.8 * len(rows.X_train))
    order = np.random.default_rng(0).permutation(len(rows.X_train))
    X, y = rows.X_train[order], rows.y_train[order]
    inner = Rows(rows.name, rows.depth, X[:n_fit], y[:n_fit], X[n_fit:], y[n_fit:])
    best = max(rates, key=lambda rate: (inner.fit(n_trees, rate).predict(inner.X_test) == inner.y_test).mean())
    return rows.fit(n_trees, best)


def main() -> None:
    arguments = _arguments()
    # Frameworks that were fitted on arrays warn at each prediction that arrays have no column names.
    warnings.filterwarnings("ignore", category=UserWarning)
    report = Report(
        "qwyc",
        "Quit when you can: asked against obtained",
        "LightGBM, 500 trees, learning rate 0.05, 2^depth leaves, at least 20 rows per leaf; adult depth 5 with UCI's "
        "split, nomao depth 9 with the 8 features of most gain and an 80/20 split.",
        ["lightgbm", "scikit-learn"],
    )
    for name in arguments.datasets:
        report.say(f"## {name}")
        try:
            experiment = Experiment(load(name))
        except ScurryError as error:
            report.say(f"{name} skipped: {error}")
            continue
        accuracy = float((experiment.full == experiment.rows.y_test).mean())
        report.say(f"Full ensemble: accuracy {accuracy:.4f} on {len(experiment.full):,} test rows.")
        if "curves" in arguments.parts:
            curves = _curves(experiment, arguments.quick)
            _compare(report, name, curves)
            _trade_offs(report, name, curves, accuracy)
            _histograms(report, name, curves)
        if "certified" in arguments.parts:
            _certified(report, experiment, 3 if arguments.quick else 10)
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer points, orders and repeats")
    parser.add_argument("--datasets", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    return parser.parse_args()


def _curves(experiment: Experiment, quick: bool) -> dict[str, Curve]:
    """Curves by method, each read from disk if it was made before."""
    found = {}
    for title, make in _methods(experiment, quick).items():
        file = f"{experiment.rows.name}-{title}{'-quick' if quick else ''}.npz".replace(" ", "-").replace("*", "-star")
        path = RESULTS / "qwyc-curves" / file
        if not path.exists():
            make().save(path)
            print(f"{experiment.rows.name}, {title}: done", flush=True)
        found[title] = Curve.load(path)
    return found


def _methods(experiment: Experiment, quick: bool) -> dict[str, Callable[[], Curve]]:
    alphas = QUICK_ALPHAS if quick else ALPHAS
    published = {"spending": "upfront", "sides": "negative-first"}
    made: dict[str, Callable[[], Curve]] = {"QWYC*": lambda: experiment.qwyc_curve(alphas)}
    made["QWYC*, widened"] = experiment.widened_curve
    made["QWYC*, as published"] = lambda: experiment.qwyc_curve(alphas, **published)
    for title, name in PRESETS.items():
        made[f"Alg. 2, {title}"] = lambda name=name: experiment.qwyc_curve(alphas, experiment.order(name))
        fan_title = "Fan*" if name == "individual-mse" else f"Fan, {title}"
        made[fan_title] = lambda name=name: experiment.fan_curve(experiment.order(name))
    made["Fan*, bins of 0.01"] = lambda: experiment.fan_curve(experiment.order("individual-mse"), 0.01)
    sizes = (10, 40) if quick else (5, 10, 20, 40, 80, 160)
    rates = (0.3,) if quick else (0.1, 0.2, 0.3, 0.5)
    made["smaller ensemble"] = lambda: experiment.small_ensembles(sizes, (0.05,))
    made["smaller ensemble, retuned"] = lambda: experiment.small_ensembles(sizes, rates)
    dear = ("greedy MSE", "random", "as published", "bins of")
    return {title: make for title, make in made.items() if not (quick and any(part in title for part in dear))}


def _compare(report: Report, name: str, curves: Mapping[str, Curve]) -> None:
    target = TARGETS[name]
    rows = [
        [title, _number(curve.trees_at(target.difference)), target.trees.get(title, ""), f"{curve.accuracy.max():.4f}"]
        for title, curve in curves.items()
    ]
    header = ["method", f"trees at {target.difference:.1%} differences", "asked", "best test accuracy"]
    report.table(f"{name}, no promise, fitted on training rows, at equal test difference", header, rows)
    small = curves["smaller ensemble, retuned"]
    points = zip(small.trees, small.accuracy, small.difference, strict=True)
    report.say(
        "Retuned smaller ensembles, fully evaluated: "
        + "; ".join(
            f"{trees:.0f} trees: accuracy {right:.4f}, {changed:.2%} changed" for trees, right, changed in points
        )
    )
    report.say(f"Curves made at {', '.join(sorted({curve.commit for curve in curves.values()}))}.")


def _trade_offs(report: Report, name: str, curves: Mapping[str, Curve], accuracy: float) -> None:
    figure, ((right, changed),) = subplots(1, 2, (6.0, 5.0))
    for title, curve in curves.items():
        order = np.argsort(curve.trees, kind="stable")
        right.plot(curve.trees[order], curve.accuracy[order], label=title, **_style(title))
        changed.plot(curve.trees[order], 100 * curve.difference[order], label=title, **_style(title))
    right.axhline(accuracy, color="black", linewidth=0.8)
    right.annotate("all 500 trees", (1, accuracy), textcoords="offset points", xytext=(0, 3), fontsize="x-small")
    changed.axhline(100 * TARGETS[name].difference, color="black", linewidth=0.8, linestyle=":")
    right.set(xlabel="mean trees", ylabel="test accuracy", xscale="log", xlim=(0.9, N_TREES), title=f"{name}: accuracy")
    right.set_ylim(accuracy - 0.03, accuracy + 0.003)
    changed.set(xlabel="mean trees", ylabel="% of test labels changed", xscale="log", xlim=(0.9, N_TREES), ylim=(0, 3))
    changed.set_title(f"{name}: differences from all 500 trees")
    figure.legend(
        *right.get_legend_handles_labels(), loc="outside lower center", ncols=5, handlelength=3.5, fontsize="x-small"
    )
    report.figure(f"{name}-figures-1-and-3", figure)


def _style(title: str) -> dict[str, Any]:
    """Colour by order of trees, line by method."""
    colors = {"GBT order": "C0", "individual MSE": "C1", "Fan*": "C1", "greedy MSE": "C2", "random": "C4"}
    color = next((color for part, color in colors.items() if part in title), "C7")
    line = "--" if title.startswith("Fan") else "-"
    if title.startswith("QWYC*"):
        dashes = {"QWYC*": "-", "QWYC*, widened": "-.", "QWYC*, as published": ":"}
        return {"color": "C3", "linestyle": dashes[title], "linewidth": 2.2, "zorder": 3}
    if "bins of" in title or "retuned" in title:
        line = ":"
    return {"color": color, "linestyle": line, "linewidth": 1.1, "marker": ".", "markersize": 3}


def _number(value: float) -> str:
    return "out of reach" if np.isnan(value) else f"{value:.1f}"


def _histograms(report: Report, name: str, curves: Mapping[str, Curve]) -> None:
    shown = {title: curve for title, curve in curves.items() if not title.startswith("smaller")}
    figure, axes = subplots((len(shown) + 2) // 3, 3, (4.0, 2.6))
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    for axis, (title, curve) in zip(axes.flat, shown.items(), strict=False):
        axis.hist(curve.used, bins=50, range=(0, N_TREES), log=True, color=_style(title)["color"])
        axis.set_title(f"{title}\n{curve.changed:.2%} changed, mean {curve.used.mean():.1f}", fontsize="small")
        axis.set(xlabel="trees evaluated", ylabel="test rows", ylim=(0.7, len(curve.used)))
    report.figure(f"{name}-figure-5-trees-per-row", figure)


def _strategies(experiment: Experiment) -> dict[str, Callable[[NDArray[np.intp], int], tuple[float, float]]]:
    """Ways to spend calibration rows (indices of test rows): each gives an order, thresholds and how far to widen."""

    def on_training_rows(fit: FitRule) -> Callable[[NDArray[np.intp], int], Any]:
        rule = fit(experiment.train)
        return lambda rows, _: (rule, rows)

    def on_a_share(share: float, fit: FitRule) -> Callable[[NDArray[np.intp], int], Any]:
        def split(rows: NDArray[np.intp], seed: int) -> tuple[Rule, NDArray[np.intp]]:
            shuffled = np.random.default_rng(seed).permutation(rows)
            n_fit = int(share * len(rows))
            return fit(experiment.test[shuffled[:n_fit]]), shuffled[n_fit:]

        return split

    def joint(budget: float) -> FitRule:
        return lambda scores: experiment.qwyc(scores, budget * CERTIFIED_ALPHA)

    def natural(scores: NDArray[np.float64]) -> Rule:
        return experiment.qwyc(scores, CERTIFIED_ALPHA, "natural")

    def fan_star(scores: NDArray[np.float64]) -> Rule:
        return fan(scores, gamma=0.0, decision_threshold=experiment.threshold)

    found = {f"QWYC* at {b:g} α on training rows": on_training_rows(joint(b)) for b in (0.1, 0.5, 1.0)}
    found["Alg. 2, GBT order, on training rows"] = on_training_rows(natural)
    found["Fan*, on training rows"] = on_training_rows(fan_star)
    for share in (0.25, 0.5, 0.75):
        found[f"QWYC* on {share:.0%} of the calibration rows"] = on_a_share(share, joint(1.0))
        found[f"Alg. 2, GBT order, on {share:.0%}"] = on_a_share(share, natural)
    return {title: partial(_certify, experiment, choose) for title, choose in found.items()}


def _certify(
    experiment: Experiment, choose: Callable[[NDArray[np.intp], int], Any], rows: NDArray[np.intp], seed: int
) -> tuple[float, float]:
    """Certify on calibration rows; trees and disagreement on all the other test rows."""
    rule, held_out = choose(rows, seed)
    amounts = GAMMAS if isinstance(rule, FanFit) else AMOUNTS
    curve = rule.widening_curve(experiment.test[held_out], amounts, decisions=experiment.full[held_out])
    cautious_first = curve.n_mistakes[::-1]
    chosen = certify_rates(cautious_first, len(held_out), CERTIFIED_ALPHA, CONFIDENCE)
    if chosen < 0:
        return float(N_TREES), 0.0
    new = np.setdiff1d(np.arange(len(experiment.full)), rows)
    decision, used = rule.widen(float(amounts[::-1][chosen])).decide(experiment.test[new])
    return float(used.mean()), float((decision != experiment.full[new]).mean())


def _by_early_exit(
    experiment: Experiment, method: str, on_training_rows: bool, rows: NDArray[np.intp], seed: int
) -> tuple[float, float]:
    new = np.setdiff1d(np.arange(len(experiment.full)), rows)
    X = experiment.rows.X_test
    asked: dict[str, Any] = {"max_disagreement": CERTIFIED_ALPHA, "confidence": CONFIDENCE, "method": method}
    if on_training_rows:
        asked["X_fit"] = experiment.rows.X_train
    try:
        run = scurry.early_exit(experiment.forest, X[rows], random_state=seed, **asked).run(X[new])
    except InfeasibleError:
        return float(N_TREES), 0.0
    return run.mean_trees, float((run.labels.astype(bool) != experiment.full[new]).mean())


def _certified(report: Report, experiment: Experiment, n_repeats: int) -> None:
    strategies = {
        f'early_exit(method="{method}"{", X_fit=training rows" if on_training_rows else ""})': partial(
            _by_early_exit, experiment, method, on_training_rows
        )
        for on_training_rows in (False, True)
        for method in ("auto", "qwyc", "fan")
    } | _strategies(experiment)
    rows = []
    for title, strategy in strategies.items():
        found = []
        for seed in range(n_repeats):
            shuffled = np.random.default_rng(seed).permutation(len(experiment.full))
            found.append(strategy(np.sort(shuffled[: len(shuffled) // 2]), seed))
        trees, changed = np.array(found).T
        rows.append([title, f"{trees.mean():.1f} ± {trees.std():.1f}", f"{changed.mean():.3%}", f"{changed.max():.3%}"])
    report.table(
        f"{experiment.rows.name}, certified: at most {CERTIFIED_ALPHA:.1%} of new rows, confidence {CONFIDENCE:g} "
        f"(asked: {TARGETS[experiment.rows.name].certified:g} trees by the best order)",
        ["strategy", "mean trees on new rows", "changed", "most changed"],
        rows,
    )
    report.say(
        f"{n_repeats} random halves of the {len(experiment.full):,} test rows calibrate; the other half is new. "
        f"{N_TREES} trees count where nothing can be certified."
    )


if __name__ == "__main__":
    main()
