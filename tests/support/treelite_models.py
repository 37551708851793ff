"""Models of several frameworks as treelite reads them; `python -m support.treelite_models` keeps a few checkpoints.

Needs the packages of the extra `interop`.
"""

import json
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parents[1] / "golden" / "treelite"


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)).round(2)
    codes = X.copy()
    codes[:, 4] = rng.integers(0, 40, len(X))
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    return X, y, y + (X[:, 3] > 0.5), codes, (y + (codes[:, 4] % 3 == 0)) % 2


def sources():
    """Functions that make models, by name."""
    import lightgbm as lgb
    import treelite
    import xgboost as xgb
    from sklearn.ensemble import (
        GradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )

    X, y, three, codes, mixed = data()
    rf = {"n_estimators": 4, "max_depth": 3, "random_state": 0}
    few = {"n_estimators": 4, "num_leaves": 5, "verbose": -1, "min_data_per_group": 5, "n_jobs": 1}
    load, from_lightgbm = treelite.sklearn.import_model, treelite.frontend.from_lightgbm
    return {
        "sklearn-forest-2": lambda: load(RandomForestClassifier(**rf).fit(X, y)),
        "sklearn-forest-3": lambda: load(RandomForestClassifier(**rf).fit(X, three)),
        "sklearn-forest-regressor": lambda: load(RandomForestRegressor(**rf).fit(X, X[:, 0])),
        "sklearn-boosting-3": lambda: load(GradientBoostingClassifier(n_estimators=3, max_depth=2).fit(X, three)),
        "sklearn-histograms": lambda: load(HistGradientBoostingRegressor(max_iter=3, max_leaf_nodes=5).fit(X, three)),
        "lightgbm-2-categories": lambda: from_lightgbm(
            lgb.LGBMClassifier(**few).fit(codes, mixed, categorical_feature=[4]).booster_
        ),
        "lightgbm-3": lambda: from_lightgbm(lgb.LGBMClassifier(**few).fit(X, three).booster_),
        "xgboost-2": lambda: treelite.frontend.from_xgboost(
            xgb.XGBClassifier(n_estimators=4, max_depth=3, n_jobs=1).fit(X, y).get_booster()
        ),
        "xgboost-3": lambda: treelite.frontend.from_xgboost(
            xgb.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(X, three).get_booster()
        ),
    }


def write_golden():
    import treelite

    GOLDEN.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(30, 5)).round(2)
    rows[:, 4] = rng.choice(np.r_[np.arange(45), np.nan, -1, 2.5, -0.5], len(rows))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    answers = {"rows": [[repr(float(x)) for x in row] for row in rows]}
    for name, make in sources().items():
        model = make()
        model.serialize(str(GOLDEN / f"{name}.tl"))
        real = rows.astype(model.input_type)
        margins = treelite.gtil.predict(model, real, nthread=1, pred_margin=True).reshape(len(rows), -1)
        answers[name] = margins.astype(float).tolist()
    (GOLDEN / "gtil.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    write_golden()
