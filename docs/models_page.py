"""Write docs/models.md: which model takes which function, found out by calling each on a small model.

    python docs/models_page.py

A test makes the page again and compares, so that it says what really happens. Needs LightGBM, XGBoost and CatBoost.
"""

import tempfile
import textwrap
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import scurry
from scurry.errors import ScurryError
from scurry.promises import Certain, Labels, Values
from scurry.serving.model import ServedModel

TOP = Path(__file__).parents[1]
GOLDEN = TOP / "tests" / "golden"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4)).round(2)
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
THREE = Y + (X[:, 3] > 0.5)
VALUES = X[:, 0] * 2 + X[:, 1]
CODES = np.column_stack([X[:, :3], RNG.integers(0, 5, len(X))])
MIXED = (Y + (CODES[:, 3] % 2 == 0)) % 2
TARGETS = {"two": Y, "three": THREE, "values": VALUES, "codes": MIXED, "groups": THREE}
FIT, CAL = slice(0, 200), slice(200, 400)

PAGE = """\
# Which model takes which function

<!-- Written by docs/models_page.py. Do not edit by hand. -->

Each cell was found out by calling the function on a small model of that kind. `yes` means that it works; a number
refers to the reason below the table, which is the beginning of the error's own message. Every model can be predicted
with, saved and loaded.

{table}

{reasons}

Labels are the source's. So are the values of regressors and the scores before a link, to the last bit, of
scikit-learn, XGBoost, LightGBM and CatBoost; treelite's and ONNX's pages state where theirs may differ. Probabilities
are the source's to the last bit too, except where more than two classes are made probabilities by an exponential
function, which differs between libraries: up to 2 units in the last place were seen for scikit-learn's boosted models
(and 1 for its values by a logarithmic link), and 11 for CatBoost's.

How to import each kind: [scikit-learn](how-to/scikit-learn.md), its [pipelines](how-to/pipelines.md) and
[models around models](how-to/wrappers.md), [XGBoost](how-to/xgboost.md), [LightGBM](how-to/lightgbm.md),
[CatBoost](how-to/catboost.md), [ONNX](how-to/onnx.md), [treelite](how-to/treelite.md) and [YDF](how-to/ydf.md).
What the functions are for: [Which budget do I have?](concepts.md)
"""


def models() -> dict[str, Callable[[], tuple[Any, str]]]:
    """Return functions that make a model and say which targets it was trained on, by the name on the page."""
    import lightgbm as lgb
    import xgboost as xgb
    from sklearn import ensemble as sk
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.decomposition import PCA
    from sklearn.model_selection import FixedThresholdClassifier
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    light = {"n_estimators": 8, "num_leaves": 4, "verbose": -1, "n_jobs": 1, "random_state": 0}
    xgb_few = {"n_estimators": 8, "max_depth": 2, "n_jobs": 1}
    few = {"n_estimators": 8, "max_depth": 3, "random_state": 0}
    inside = [("forest", sk.RandomForestClassifier(**few)), ("boosted", sk.GradientBoostingClassifier(**few))]

    def fit(model: Any, target: str, **more: Any) -> tuple[Any, str]:
        rows = CODES if target == "codes" else X
        return model.fit(rows[FIT], TARGETS[target][FIT], **more), target

    def file(name: str, target: str) -> tuple[Any, str]:
        return GOLDEN / name, target

    return {
        "RandomForestClassifier, 2 classes": partial(fit, sk.RandomForestClassifier(**few), "two"),
        "RandomForestClassifier, 3 classes": partial(fit, sk.RandomForestClassifier(**few), "three"),
        "RandomForestRegressor": partial(fit, sk.RandomForestRegressor(**few), "values"),
        "GradientBoostingClassifier": partial(fit, sk.GradientBoostingClassifier(**few), "two"),
        "HistGradientBoosting, categories": partial(
            fit, sk.HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=4, categorical_features=[3]), "codes"
        ),
        "HistGradientBoostingRegressor": partial(
            fit, sk.HistGradientBoostingRegressor(max_iter=8, max_leaf_nodes=4), "values"
        ),
        "BaggingClassifier of trees": partial(fit, sk.BaggingClassifier(n_estimators=8, random_state=0), "two"),
        "VotingClassifier, soft": partial(fit, sk.VotingClassifier(inside, voting="soft"), "two"),
        "VotingClassifier, soft, of forests": partial(
            fit, sk.VotingClassifier([(name, sk.RandomForestClassifier(**few)) for name in "ab"], voting="soft"), "two"
        ),
        "VotingClassifier, hard": partial(fit, sk.VotingClassifier(inside, voting="hard"), "two"),
        "VotingClassifier, hard, of trees": partial(
            fit,
            sk.VotingClassifier([(name, DecisionTreeClassifier(max_depth=3)) for name in "abc"], weights=[1, 2, 3]),
            "two",
        ),
        "VotingRegressor": partial(
            fit, sk.VotingRegressor([(name, sk.RandomForestRegressor(**few)) for name in "ab"]), "values"
        ),
        "AdaBoostClassifier": partial(fit, sk.AdaBoostClassifier(n_estimators=8, random_state=0), "two"),
        "CalibratedClassifierCV": partial(fit, CalibratedClassifierCV(sk.RandomForestClassifier(**few), cv=2), "two"),
        "CalibratedClassifierCV, one model": partial(
            fit, CalibratedClassifierCV(sk.RandomForestClassifier(**few), cv=2, ensemble=False), "two"
        ),
        "FixedThresholdClassifier": partial(
            fit, FixedThresholdClassifier(sk.RandomForestClassifier(**few), threshold=0.4), "two"
        ),
        "OneVsRestClassifier": partial(fit, OneVsRestClassifier(sk.GradientBoostingClassifier(**few)), "three"),
        "IsolationForest": partial(fit, sk.IsolationForest(n_estimators=8, random_state=0), "two"),
        "Pipeline with a scaler": partial(
            fit, make_pipeline(StandardScaler(), sk.RandomForestClassifier(**few)), "two"
        ),
        "Pipeline with a PCA": partial(
            fit, make_pipeline(PCA(4, random_state=0), sk.RandomForestClassifier(**few)), "two"
        ),
        "XGBClassifier, 2 classes": partial(fit, xgb.XGBClassifier(**xgb_few), "two"),
        "XGBClassifier, 3 classes": partial(fit, xgb.XGBClassifier(**xgb_few), "three"),
        "XGBRegressor": partial(fit, xgb.XGBRegressor(**xgb_few), "values"),
        "LGBMClassifier, categories": partial(
            fit,
            lgb.LGBMClassifier(**light, min_data_per_group=5, cat_smooth=1, cat_l2=1),
            "codes",
            categorical_feature=[3],
        ),
        "LGBMClassifier, 3 classes": partial(fit, lgb.LGBMClassifier(**light), "three"),
        "LGBMRanker": partial(fit, lgb.LGBMRanker(**light), "groups", group=[10] * 20),
        "CatBoostClassifier": lambda: fit(_catboost("CatBoostClassifier"), "two"),
        "CatBoostRegressor": lambda: fit(_catboost("CatBoostRegressor"), "values"),
        "CatBoostClassifier, combinations": lambda: (_combinations(), "two"),
        "ONNX file, 2 classes": partial(file, "onnx/sklearn-forest-2.onnx", "two"),
        "ONNX file, 3 classes": partial(file, "onnx/lightgbm-3.onnx", "three"),
        "ONNX file, regressor": partial(file, "onnx/xgboost-regressor.onnx", "values"),
        "treelite checkpoint": partial(file, "treelite/xgboost-3.tl", "three"),
        "YDF folder": partial(file, "ydf/boosted-2", "two"),
    }


def _catboost(name: str) -> Any:
    import catboost

    return getattr(catboost, name)(iterations=8, depth=2, verbose=False, allow_writing_files=False, thread_count=1)


def _combinations() -> scurry.Forest:
    rows, names = _table()[["a", "word", "code"]], ["word", "code"]
    several = {"one_hot_max_size": 2, "max_ctr_complexity": 2, "model_size_reg": 0, "cat_features": names}
    model = _catboost("CatBoostClassifier").set_params(depth=3, learning_rate=0.3, random_seed=0, **several)
    model.fit(rows[FIT], ((CODES[:, 3] + (X[:, 0] > 0)) % 2 == 0)[FIT].astype(int))
    forest = scurry.from_model(model, categories={name: rows[name].unique() for name in names})
    assert forest.front is not None  # else the row says nothing
    return forest


def rows_of(forest: scurry.Forest, target: str) -> Any:
    """Return rows for a forest; those of treelite's files have one more column, and YDF's have names."""
    if forest.feature_names is not None:
        return _table()[list(forest.feature_names[: forest.n_given])]
    rows = CODES if target == "codes" else X
    return rows if forest.n_features == rows.shape[1] else np.column_stack([rows, rows[:, 0]])


def _table() -> Any:
    import pandas as pd

    words = np.array(["x", "y", "z"])[CODES[:, 3].astype(int) % 3]
    named = {"a": X[:, 0], "b": X[:, 1], "word": words, "code": CODES[:, 3].astype(int) % 3, "flag": X[:, 2] > 0}
    return pd.DataFrame(named)


def functions() -> dict[str, Callable[[scurry.Forest, np.ndarray, np.ndarray | None, Path], Any]]:
    """Return what is called on each model, by the column's title."""

    def early_exit(forest: scurry.Forest, rows: np.ndarray, y: Any, folder: Path) -> Any:
        promise = Labels(0.2) if forest.is_classifier else Values(2.0, 0.2)
        return scurry.early_exit(forest, rows, promise=promise, random_state=0)

    def certain(forest: scurry.Forest, rows: np.ndarray, y: Any, folder: Path) -> Any:
        return scurry.early_exit(forest, promise=Certain())

    def anytime(forest: scurry.Forest, rows: np.ndarray, y: Any, folder: Path) -> Any:
        return scurry.anytime(forest, rows, y, order="depth-ie")

    def prune(forest: scurry.Forest, rows: np.ndarray, y: Any, folder: Path) -> Any:
        return scurry.prune(forest, rows, y)

    def compress(forest: scurry.Forest, rows: np.ndarray, y: Any, folder: Path) -> Any:
        promise = Labels(0.2) if forest.is_classifier else Values(2.0, 0.2)
        return scurry.compress(forest, rows, promise=promise, random_state=0)

    def to_c(forest: scurry.Forest, rows: np.ndarray, y: Any, folder: Path) -> Any:
        return scurry.export.to_c(forest, folder / "c", layout="float32")

    def to_onnx(forest: scurry.Forest, rows: np.ndarray, y: Any, folder: Path) -> Any:
        return scurry.export.to_onnx(forest, folder / "model.onnx")

    def serve(forest: scurry.Forest, rows: np.ndarray, y: Any, folder: Path) -> Any:
        return ServedModel(scurry.Predictor.full(forest))

    return {
        "`early_exit`": early_exit,
        "`Certain()`": certain,
        "`anytime`": anytime,
        "`prune`": prune,
        "`compress`": compress,
        "`to_c`": to_c,
        "`to_onnx`": to_onnx,
        "`serve`": serve,
    }


def outcomes(name: str) -> list[str]:
    """Return "yes", or the beginning of the error, for each function."""
    model, target = models()[name]()
    found = []
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        forest = scurry.from_model(model)
        rows = rows_of(forest, target)[CAL]
        y = TARGETS[target][CAL]
        if forest.is_classifier and not set(np.unique(y)) <= set(forest.classes.tolist()):
            y = forest.predict(rows)
        for call in functions().values():
            try:
                call(forest, rows, y, Path(folder))
                found.append("yes")
            except ScurryError as error:
                found.append(reason(str(error)))
    return found


def reason(message: str) -> str:
    """Return the first clause of a message, which says what is wrong; what follows says what to do."""
    for stop in ("; ", ". "):
        message = message.split(stop)[0]
    return message.replace("`", "")


def page() -> str:
    """Return the text of docs/models.md."""
    reasons: list[str] = []
    lines = ["| model | " + " | ".join(functions()) + " |", "|---|" + ":-:|" * len(functions())]
    for name in models():
        cells = []
        for outcome in outcomes(name):
            if outcome != "yes" and outcome not in reasons:
                reasons.append(outcome)
            cells.append("yes" if outcome == "yes" else f"({1 + reasons.index(outcome)})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    told = [textwrap.fill(f"{i}. {text}", 125, subsequent_indent="   ") for i, text in enumerate(reasons, 1)]
    return PAGE.format(table="\n".join(lines), reasons="\n".join(told))


if __name__ == "__main__":
    (TOP / "docs" / "models.md").write_text(page(), encoding="utf-8")
