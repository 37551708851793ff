"""Draw docs/readme.svg, the figure of the README: what early exit saves for what it promises, on census data."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import scurry

PROMISES = [0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03]


def main() -> None:
    """Calibrate at every promise, measure on test rows, draw."""
    data = scurry.datasets.load("adult")
    train, test = data.split == "train", data.split == "test"
    X_calibrate, X_new = data.X[test][:8000], data.X[test][8000:]
    models = {
        "random forest, 101 trees": RandomForestClassifier(101, max_depth=10, random_state=0),
        "boosted, 101 trees": HistGradientBoostingClassifier(max_iter=101, random_state=0),
    }
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "scurry", "font.size": 11})
    figure, (saved, kept) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for (name, model), marker in zip(models.items(), "os", strict=True):
        forest = scurry.from_model(model.fit(data.X[train], data.y[train]))
        expected, trees, changed = forest.predict(X_new), [], []
        for promise in PROMISES:
            fast = scurry.early_exit(forest, X_calibrate, X_fit=data.X[train], max_disagreement=promise, random_state=0)
            run = fast.run(X_new)
            trees.append(run.mean_trees)
            changed.append(100 * (run.labels != expected).mean())
        saved.plot(100 * np.array(PROMISES), trees, marker=marker, label=name)
        kept.plot(100 * np.array(PROMISES), changed, marker=marker, label=name)
    limit = [0, 100 * PROMISES[-1]]
    kept.plot(limit, limit, color="black", lw=0.8, ls=":", label="promised limit")
    saved.set(xlabel="promised: labels changed, at most (%)", ylabel="trees evaluated per row", ylim=(0, None))
    kept.set(xlabel="promised: labels changed, at most (%)", ylabel="measured on 8,281 new rows (%)")
    saved.legend(frameon=False)
    kept.legend(frameon=False)
    figure.savefig(Path(__file__).with_name("readme.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
