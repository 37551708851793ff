"""Early exits of an ensemble's scores, fitted on some rows and judged on others: cells of the paper's experiments."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

import scurry
from boosted import N_TREES, Rows, load, scores_of
from scurry import datasets
from scurry.stopping import FanFit, MarginFit, fan, preset_order, qwyc

GAMMAS = np.linspace(0.0, 6.0, 61)
PRESETS = {"GBT order": "natural", "individual MSE": "individual-mse", "greedy MSE": "greedy-mse", "random": "random"}
# As far as the differences at which trees are read off.
JOINT_ALPHAS = (0.0, 0.001, 0.003, 0.006, 0.01)
PRESET_ALPHAS = (0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03)
SHOWN_DIFFERENCE = 0.005  # of histograms and stand-ins
SIZES, RATES = (10, 40, 160), (0.1, 0.3)  # of smaller ensembles
# What the paper searched or says nothing about, read otherwise on nomao: how trees were grown, on which features and
# rows, and on which rows rules were fitted. The first have ten repeats, the others three.
READINGS: dict[str, dict[str, Any]] = {
    "squared loss": {"squared": True, "learning_rate": 0.05},
    **{f"learning rate {rate:g}": {"learning_rate": rate} for rate in (0.02, 0.03, 0.04)},
}
SEARCHED: dict[str, dict[str, Any]] = {
    **{f"learning rate {rate:g}": {"learning_rate": rate} for rate in (0.1, 0.2)},
    "31 leaves": {"num_leaves": 31},
    "64 leaves": {"num_leaves": 64},
    "31 leaves, learning rate 0.1": {"num_leaves": 31, "learning_rate": 0.1},
    "at least 1 row per leaf": {"min_child_samples": 1},
    "at least 100 rows per leaf": {"min_child_samples": 100},
    "half of the rows drawn for each tree": {"subsample": 0.5, "subsample_freq": 1},
    "features by number of splits": {"features": "splits"},
    "features by a random forest": {"features": "forest"},
    "features by their own AUC": {"features": "AUC"},
    "all features": {"features": "all"},
    "trees without a fifth of the training rows": {"unseen": 0.2},
    "the same, rules fitted on that fifth alone": {"unseen": 0.2, "fitted_on_unseen": True},
}
BIN_WIDTHS = (0.1, 0.05, 0.03)

# LightGBM warns at each prediction that arrays have no column names.
warnings.filterwarnings("ignore", category=UserWarning)


class Ensemble:
    """Scores of an ensemble's models on the rows that rules are fitted to and on others, and what it decides there."""

    def __init__(
        self,
        fitting: NDArray[np.float64],
        y_fit: NDArray[Any],
        test: NDArray[np.float64],
        y_test: NDArray[Any],
        threshold: float,
    ) -> None:
        self.fitting, self.y_fit, self.test, self.y_test = fitting, y_fit, test, y_test
        self.threshold = threshold
        self.full = test.sum(axis=1) >= threshold
        self.n_models = test.shape[1]

    @classmethod
    def of(cls, model: Any, rows: Rows) -> Ensemble:
        """Return the ensemble of a fitted classifier on its own training rows and on test rows."""
        forest = scurry.from_model(model)
        fitting, test = scores_of(forest, rows.X_train, rows.X_test)
        return cls(fitting, rows.y_train, test, rows.y_test, forest.score_threshold)

    @classmethod
    def of_squared_loss(cls, rows: Rows, learning_rate: float) -> Ensemble:
        """Return trees boosted by squared loss on labels 0 and 1: their sums lie between about 0 and 1."""
        from lightgbm import LGBMRegressor

        grown = {"max_depth": rows.depth, "num_leaves": 2**rows.depth, "min_child_samples": 20}
        model = LGBMRegressor(
            n_estimators=N_TREES, learning_rate=learning_rate, n_jobs=1, random_state=0, verbose=-1, **grown
        )
        forest = scurry.from_model(model.fit(rows.X_train, rows.y_train.astype(np.float64)))
        fitting, test = (forest.value[:, 0][forest.apply(X)] for X in (rows.X_train, rows.X_test))
        # On a grid, so that no sum depends on the order of its parts.
        fitting, test = (np.rint(scores * 2.0**30) / 2.0**30 for scores in (fitting, test))
        base = float(np.mean(forest.predict(rows.X_test[:100]) - test[:100].sum(axis=1)))
        return cls(fitting, rows.y_train, test, rows.y_test, 0.5 - base)

    def qwyc(self, alpha: float, order: Any = None, **options: Any) -> MarginFit:
        return qwyc(self.fitting, max_disagreement=alpha, order=order, decision_threshold=self.threshold, **options)

    def order(self, name: str, seed: int = 0) -> NDArray[np.int64]:
        options = {"y": self.y_fit, "decision_threshold": self.threshold, "random_state": seed}
        return preset_order(name, self.fitting, **options)

    def fan(self, order: Any, bin_width: float = 0.1) -> FanFit:
        options = {"bin_width": bin_width, "decision_threshold": self.threshold}
        return fan(self.fitting, gamma=0.0, order=order, **options)

    def qwyc_curve(self, alphas: Sequence[float], order: Any = None, **options: Any) -> dict[str, list[float]]:
        """Return shares of changed and of right labels and mean models on test rows, by alpha, and one histogram."""
        decided = [self.qwyc(alpha, order, **options).decide(self.test) for alpha in alphas]
        return self._curve([d.decision for d in decided], [d.n_models_used for d in decided])

    def fan_curve(self, order: Any, bin_width: float = 0.1) -> dict[str, list[float]]:
        rule = self.fan(order, bin_width)
        changed = rule.widening_curve(self.test, GAMMAS, decisions=self.full)
        # Trees fall as gamma does; the accuracy and the histogram are wanted at few of them.
        places = np.unique(np.searchsorted(-changed.mean_cost[::-1], -np.array([160, 80, 60, 40, 20, 10])))
        places = sorted({len(GAMMAS) - 1 - min(int(at), len(GAMMAS) - 1) for at in places})
        near = int(np.abs(changed.n_mistakes / len(self.full) - SHOWN_DIFFERENCE).argmin())
        some = [rule.widen(float(GAMMAS[at])).decide(self.test) for at in [*places, near]]
        shown = self._curve([d.decision for d in some], [d.n_models_used for d in some])
        return shown | {
            "some_trees": shown["trees"],
            "difference": (changed.n_mistakes / len(self.full)).tolist(),
            "trees": changed.mean_cost.tolist(),
            "unseen": count_unseen(rule.widen(float(GAMMAS[near])), self.test),
            "bins": len(rule.bins) / max(rule.n_models - 1, 1),
        }

    def _curve(self, labels: Sequence[NDArray[Any]], used: Sequence[NDArray[np.int64]]) -> dict[str, Any]:
        difference = [float((label != self.full).mean()) for label in labels]
        near = int(np.abs(np.array(difference) - SHOWN_DIFFERENCE).argmin())
        return {
            "difference": difference,
            "accuracy": [float((label == self.y_test).mean()) for label in labels],
            "trees": [float(one.mean()) for one in used],
            # Of the rule nearest to 0.5 % differences: rows by the number of models they needed, in 50 equal bins.
            "histogram": np.histogram(used[near], bins=50, range=(0, self.n_models + 1e-9))[0].tolist(),
            "histogram_difference": difference[near],
        }


def count_unseen(rule: FanFit, scores: NDArray[np.float64]) -> int:
    """Return how many rows come into a bin that held no row when the rule was fitted, before they stop."""
    sums, unseen = np.zeros(len(scores)), 0
    alive = np.arange(len(scores))
    for position, model in enumerate(rule.order[:-1]):
        sums[alive] += scores[alive, model]
        ratio, _ = rule.ratios(position, sums[alive])
        unseen += int(np.isnan(ratio).sum())
        alive = alive[ratio <= rule.gamma]  # rows in unseen bins are evaluated in full: they leave this count
    return unseen


@cache
def boosted(name: str, seed: int) -> tuple[Rows, Ensemble]:
    """Return rows of adult or nomao and the 500 trees boosted on them."""
    rows = load(name, seed)
    return rows, Ensemble.of(rows.fit(), rows)


def curve(name: str, seed: int, method: str) -> dict[str, Any]:
    """Return a method's trade-off between differences and trees on the test rows of adult or nomao."""
    rows, ensemble = boosted(name, seed)
    kind, _, detail = method.partition(", ")
    if method == "QWYC*":
        return ensemble.qwyc_curve(JOINT_ALPHAS)
    if method == "QWYC*, as published":
        return ensemble.qwyc_curve(JOINT_ALPHAS, spending="upfront", sides="negative-first")
    if kind == "Alg. 2":
        return ensemble.qwyc_curve(PRESET_ALPHAS, ensemble.order(PRESETS[detail], seed))
    if kind == "Fan":
        title, _, width = detail.partition(", bins of ")
        return ensemble.fan_curve(ensemble.order(PRESETS[title], seed), float(width or 0.1))
    if kind == "full":
        return {"accuracy": float((ensemble.full == ensemble.y_test).mean())}
    labels = [_small(rows, size, RATES if detail == "retuned" else (0.05,)).predict(rows.X_test) for size in SIZES]
    return ensemble._curve(labels, [np.full(len(rows.X_test), size) for size in SIZES])


def _small(rows: Rows, n_trees: int, rates: Sequence[float]) -> Any:
    """Return an ensemble that is evaluated in full; of several learning rates the best on held-out training rows."""
    if len(rates) == 1:
        return rows.fit(n_trees, rates[0])
    n_fit = int(0.8 * len(rows.X_train))
    order = np.random.default_rng(0).permutation(len(rows.X_train))
    X, y = rows.X_train[order], rows.y_train[order]
    inner = Rows(rows.name, rows.depth, X[:n_fit], y[:n_fit], X[n_fit:], y[n_fit:])
    best = max(rates, key=lambda rate: (inner.fit(n_trees, rate).predict(inner.X_test) == inner.y_test).mean())
    return rows.fit(n_trees, best)


def trees_at(found: dict[str, Any], difference: float) -> float:
    """Return the fewest trees at a difference, between neighbouring points of the lower envelope; NaN out of reach."""
    at, trees = np.array(found["difference"]), np.array(found["trees"])
    order = np.lexsort([trees, at])
    return float(np.interp(difference, at[order], np.minimum.accumulate(trees[order]), left=np.nan))


def read_otherwise(reading: str, seed: int) -> dict[str, float]:
    """Return trees at 1.1 % differences on nomao, read in another way, by method and width of bins."""
    options = dict((READINGS | SEARCHED)[reading])
    squared, unseen, fitted_on_unseen = (options.pop(name, 0) for name in ("squared", "unseen", "fitted_on_unseen"))
    rows = load("nomao", seed, options.pop("features", "gain"))
    n_seen = round((1 - unseen) * len(rows.y_train))  # training rows are in random order
    seen = replace(rows, X_train=rows.X_train[:n_seen], y_train=rows.y_train[:n_seen])
    if fitted_on_unseen:
        rows = replace(rows, X_train=rows.X_train[n_seen:], y_train=rows.y_train[n_seen:])
    ensemble = Ensemble.of_squared_loss(rows, **options) if squared else Ensemble.of(seen.fit(**options), rows)
    found = {
        "QWYC*": ensemble.qwyc_curve(JOINT_ALPHAS),
        "Alg. 2, GBT order": ensemble.qwyc_curve(PRESET_ALPHAS, "natural"),
    }
    order = ensemble.order("individual-mse")
    found |= {
        f"Fan*, λ = {width:g}": ensemble.fan_curve(order, width)
        for width in ((0.1, 0.01, 0.001) if squared else BIN_WIDTHS)
    }
    models = {method: trees_at(one, 0.011) for method, one in found.items()}
    models |= {f"bins, {method}": one["bins"] for method, one in found.items() if "bins" in one}
    models |= {f"unseen, {method}": one["unseen"] for method, one in found.items() if "unseen" in one}
    return models | {"accuracy": float((ensemble.full == ensemble.y_test).mean())}


# The paper's private data, and public ones of the same size and kind.
STAND_INS = {
    "1": {"dataset": "census_income_kdd", "train": 183_755, "test": 45_940, "features": 16, "used": 13, "models": 5},
    "2": {"dataset": "covertype", "train": 83_817, "test": 20_955, "features": 30, "used": 8, "models": 500},
}
FIT_ROWS = 20_000  # of the training rows, for the rules; all of them for the ensemble


def stand_in(which: str, trained: str, seed: int) -> dict[str, Any]:
    """Return models evaluated at 0.5 % differences by methods that stop at the negative side only, and CPU times."""
    shape = STAND_INS[which]
    data = datasets.load(shape["dataset"])
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(data.y))[: shape["train"] + shape["test"]]
    labels = np.unique(data.y, return_inverse=True)[1][chosen]
    y = (labels == 1).astype(np.int64)  # covertype: lodgepole pine, half of the rows; census: high income, 6 %
    X = data.X[chosen][:, _strongest(which, shape["features"])]
    train, test = np.split(np.arange(len(y)), [shape["train"]])
    share = shape["used"] / shape["features"]
    grown = {"colsample_bytree": share, "random_state": seed, "num_leaves": 64, "min_child_samples": 20}
    if trained == "independently":
        grown |= {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1}
    rows = Rows(which, 10, X[train], y[train], X[test], y[test])
    model = rows.fit(shape["models"], 0.3 if shape["models"] == 5 else 0.05, **grown)
    ensemble = Ensemble.of(model, Rows(which, 10, X[:FIT_ROWS], y[:FIT_ROWS], X[test], y[test]))
    alphas = (0.0, 0.002, 0.005)
    found = {"QWYC*": ensemble.qwyc_curve(alphas, negative_only=True)}
    for title in ("individual MSE", "greedy MSE", "random"):
        order = ensemble.order(PRESETS[title], seed)
        found[f"Alg. 2, {title}"] = ensemble.qwyc_curve(alphas, order, negative_only=True)
    models = {method: trees_at(one, SHOWN_DIFFERENCE) for method, one in found.items()}
    models["Fan*"] = _fan_filter(ensemble)
    models["negative"] = float((~ensemble.full).mean())
    return models | {f"curve, {method}": [one["difference"], one["trees"]] for method, one in found.items()}


@cache
def _strongest(which: str, n_features: int) -> NDArray[np.intp]:
    """Return the features of most gain, in an ensemble on a tenth of the rows."""
    data = datasets.load(STAND_INS[which]["dataset"])
    rows = np.random.default_rng(0).permutation(len(data.y))[: len(data.y) // 10]
    y = (np.unique(data.y, return_inverse=True)[1][rows] == 1).astype(np.int64)
    gains = Rows(which, 6, data.X[rows], y, data.X[:0], y[:0]).fit(100, 0.1).booster_.feature_importance("gain")
    return np.sort(np.argsort(-gains, kind="stable")[:n_features])


def _fan_filter(ensemble: Ensemble) -> float:
    """Return models at 0.5 % differences by Fan's rule if only negative rows may stop, ordered by individual MSE."""
    rule = ensemble.fan(ensemble.order("individual-mse"))
    found: dict[str, list[float]] = {"difference": [], "trees": []}
    for gamma in np.linspace(0.0, 4.0, 9):
        widened = rule.widen(float(gamma))
        decision, used = widened.decide(ensemble.test)
        used = np.where(decision, ensemble.n_models, used)  # a positive row is scored in full
        found["difference"].append(float((~decision & ensemble.full).mean()))
        found["trees"].append(float(used.mean()))
    return trees_at(found, SHOWN_DIFFERENCE)


def small_instance(n_models: int, seed: int) -> dict[str, float]:
    """Compare QWYC with all orders on a few rows without a mistake, and look for the inclusion that the bound rests on.

    Without mistakes, to let as many rows as possible leave at each position is best for an order, so that the best of
    all orders and thresholds is the best order by Algorithm 2.
    """
    rng = np.random.default_rng([n_models, seed])
    scores = rng.integers(-3, 4, (int(rng.integers(6, 15)), n_models)).astype(np.float64)
    costs = np.ones(n_models) if seed % 2 else rng.integers(1, 6, n_models).astype(np.float64)
    threshold = 0.5
    asked: dict[str, Any] = {"max_disagreement": 0.0, "costs": costs, "decision_threshold": threshold}
    found = qwyc(scores, **asked).mean_cost
    best = min(qwyc(scores, order=order, **asked).mean_cost for order in permutations(range(n_models)))
    return {"ratio": found / best, "inclusion": float(_inclusion_holds(scores, threshold))}


def _inclusion_holds(scores: NDArray[np.float64], threshold: float) -> bool:
    """Whether every row that a model decides when it comes first is decided too when others came before it."""
    full = scores.sum(axis=1) >= threshold
    n_models = scores.shape[1]

    def decided(sums: NDArray[np.float64]) -> NDArray[np.bool_]:
        above = sums > sums[~full].max(initial=-np.inf)
        return above | (sums < sums[full].min(initial=np.inf))

    for model in range(n_models):
        first = decided(scores[:, model])
        for other in range(n_models):
            if other != model and (first & ~decided(scores[:, model] + scores[:, other])).any():
                return False
    return True


def overfit(n_rows: int, seed: int) -> dict[str, float]:
    """Return the share of new rows of adult whose label changes after rules were fitted to few rows at 0.5 %."""
    _, ensemble = boosted("adult", 0)
    shuffled = np.random.default_rng(seed).permutation(len(ensemble.test))
    chosen, new = shuffled[:n_rows], shuffled[len(shuffled) // 2 :]
    few = Ensemble(
        ensemble.test[chosen], ensemble.y_test[chosen], ensemble.test[new], ensemble.y_test[new], ensemble.threshold
    )
    found = {"QWYC*": few.qwyc(0.005), "Alg. 2, GBT order": few.qwyc(0.005, "natural")}
    return {method: float((rule.decide(few.test).decision != few.full).mean()) for method, rule in found.items()}


def rows_of_table_1(name: str) -> list[int]:
    """Return features, training rows and test rows of adult or nomao."""
    rows = load(name)
    return [rows.X_train.shape[1], len(rows.X_train), len(rows.X_test)]
