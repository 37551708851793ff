"""Models of YDF; `python -m support.ydf_models` keeps a few. Needs the package ydf of the extra `interop`."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

GOLDEN = Path(__file__).parents[1] / "golden" / "ydf"


def data(n_rows=300, seed=0):
    """A table with numbers, categories, a boolean and missing values, and its targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3)).round(2)
    X[rng.random(X.shape) < 0.05] = np.nan
    words, codes = rng.choice(["x", "y", "z", "w"], n_rows), rng.integers(0, 3, n_rows)
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "word": words, "code": codes, "flag": X[:, 2] > 0})
    table.loc[rng.random(n_rows) < 0.05, "word"] = None
    score = np.nan_to_num(X[:, 0] + X[:, 1] * X[:, 2]) + (words == "x") - (codes == 2)
    targets = {
        "2": np.array(["no", "yes"])[(score > 0).astype(int)],
        "3": np.digitize(score, [-0.7, 0.7]) + 5,
        "regressor": score,
    }
    return table, targets


def strange(table, seed=1):
    """The table with values that the model has not seen, and more missing ones."""
    rng = np.random.default_rng(seed)
    table = table.copy()
    table.loc[rng.random(len(table)) < 0.2, "word"] = "unseen"
    table.loc[rng.random(len(table)) < 0.2, "code"] = 7
    for name in ("a", "b"):
        table.loc[rng.random(len(table)) < 0.1, name] = np.nan
    return table


KINDS = {
    "forest-2": ("RandomForestLearner", "2", {}),
    "forest-3-mean": ("RandomForestLearner", "3", {"winner_take_all": False}),
    "forest-regressor": ("RandomForestLearner", "regressor", {}),
    "boosted-2": ("GradientBoostedTreesLearner", "2", {}),
    "boosted-3": ("GradientBoostedTreesLearner", "3", {}),
    "boosted-regressor": ("GradientBoostedTreesLearner", "regressor", {"growing_strategy": "BEST_FIRST_GLOBAL"}),
}


def train(name, num_trees=4, max_depth=4, n_rows=300):
    import ydf

    learner, target, more = KINDS[name]
    table, targets = data(n_rows)
    task = ydf.Task.REGRESSION if target == "regressor" else ydf.Task.CLASSIFICATION
    options = {"label": "label", "task": task, "num_trees": num_trees, "max_depth": max_depth} | more
    columns = {"features": [("code", ydf.Semantic.CATEGORICAL)], "include_all_columns": True}
    return getattr(ydf, learner)(**options, **columns).train(table.assign(label=targets[target]), verbose=0)


def write_golden():
    shutil.rmtree(GOLDEN, ignore_errors=True)
    answers = {}
    table = strange(data(40, seed=3)[0])
    for name in KINDS:
        model = train(name)
        model.save(str(GOLDEN / name))
        answers[name] = model.predict(table).astype(float).tolist()
    (GOLDEN / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    write_golden()
