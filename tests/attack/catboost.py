"""Random models of CatBoost × hostile rows: labels and raw scores of CatBoost itself, to the last bit."""

import catboost as cb
import numpy as np
import pandas as pd

import scurry
from attack.findings import Findings, check_equal
from support.strategies import adversarial_rows

N_TRAIN, N_ROWS = 400, 20_000
QUIET = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}


def attack(n: int, seed: int, n_rows: int = N_ROWS, features: str = "") -> Findings:
    """Compare `n` models, one for each seed from `seed` on, with CatBoost, on `n_rows` rows each.

    Their features are numbers in three of four models, else also categories, with statistics of single features or of
    combinations; or as asked for.
    """
    findings = Findings()
    for at in range(seed, seed + n):
        with findings.of("catboost", at), np.errstate(all="ignore"):
            rng = np.random.default_rng([7, at])
            drawn = features or ("numbers" if at % 4 < 3 else "categories" if at % 8 == 3 else "combinations")
            if drawn == "numbers":
                _attack_numbers(rng, n_rows, findings)
            else:
                _attack_categories(rng, n_rows, drawn == "combinations", findings)
    return findings


def _draw(rng: np.random.Generator) -> dict:
    policy = rng.choice(["SymmetricTree", "SymmetricTree", "Depthwise", "Lossguide"])
    return QUIET | {
        "iterations": int(rng.choice([1, 7, 33, 120])),
        "depth": int(rng.integers(1, 10)) if policy == "SymmetricTree" else int(rng.integers(2, 7)),
        "grow_policy": str(policy),
        "border_count": int(rng.choice([1, 5, 31, 254, 400])),
        "learning_rate": float(rng.choice([0.03, 0.3, 1.0])),
        "random_seed": int(rng.integers(2**31)),
    }


def _target(rng: np.random.Generator, signal: np.ndarray) -> tuple[type, np.ndarray, dict]:
    kind = rng.integers(5)
    if kind == 0:
        return cb.CatBoostRegressor, signal, {}
    if kind == 1:
        return (
            cb.CatBoostClassifier,
            np.digitize(signal, np.quantile(signal, [0.3, 0.6, 0.8])),
            {"loss_function": str(rng.choice(["MultiClass", "MultiClassOneVsAll"]))},
        )
    return cb.CatBoostClassifier, signal > np.median(signal), {"boost_from_average": bool(kind == 2)}


def _attack_numbers(rng: np.random.Generator, n_rows: int, findings: Findings) -> None:
    n_features = int(rng.choice([1, 3, 8, 20, 70]))
    X = rng.normal(size=(N_TRAIN, n_features)) * 10.0 ** rng.integers(-3, 4, n_features)
    X[rng.random(X.shape) < 0.1] = 0.0
    signal = X @ (rng.normal(size=n_features) / X.std(axis=0).clip(1e-9)) + 0.1 * rng.normal(size=N_TRAIN)
    X[rng.random(X.shape) < 0.1 * rng.integers(0, 2, n_features)] = np.nan
    cls, y, params = _target(rng, signal)
    model = cls(**_draw(rng), **params, nan_mode=str(rng.choice(["Min", "Max"]))).fit(X, y)
    forest = scurry.from_model(model)
    rows = adversarial_rows(forest, X, n_rows // 2, int(rng.integers(2**32)))
    for given in (rows, rows.astype(np.float32)):
        _compare(model, forest, given, findings)


def _attack_categories(rng: np.random.Generator, n_rows: int, combined: bool, findings: Findings) -> None:
    sizes = rng.choice([2, 3, 9, 60], 3)
    table = pd.DataFrame(
        {f"c{j}": [f"value {v}" for v in rng.integers(0, size, N_TRAIN)] for j, size in enumerate(sizes)}
    )
    table["code"] = rng.integers(-5, 20, N_TRAIN)
    table["x"] = rng.normal(size=N_TRAIN)
    names = [name for name in table if name != "x"]
    weights = {
        name: dict(zip(values := table[name].unique(), rng.normal(size=len(values)), strict=True)) for name in names
    }
    signal = sum(table[name].map(weights[name]) for name in names).to_numpy() + table["x"].to_numpy()
    cls, y, params = _target(rng, signal)
    params["one_hot_max_size"] = int(rng.choice([2, 10, 100]))
    # Without a penalty for their size, many combinations of categories, numbers and one-hot values are chosen.
    params |= (
        {"max_ctr_complexity": int(rng.integers(2, 5)), "model_size_reg": 0} if combined else {"max_ctr_complexity": 1}
    )
    if combined:
        table.loc[rng.random(N_TRAIN) < 0.1 * rng.integers(2), "x"] = np.nan
        params |= {"one_hot_max_size": int(rng.choice([2, 3, 9])), "nan_mode": str(rng.choice(["Min", "Max"]))}
        params |= {"grow_policy": "SymmetricTree", "iterations": int(rng.choice([33, 90]))}  # others combine nothing
    model = cls(**_draw(rng) | params).fit(table, y, cat_features=names)
    forest = scurry.from_model(model, categories={name: table[name].unique() for name in names})
    rows = table.iloc[rng.integers(0, N_TRAIN, n_rows)].reset_index(drop=True)
    for name in table:  # every mixture of values, and some that training had not
        rows[name] = rng.permutation(rows[name].to_numpy())
    rows.loc[rng.random(len(rows)) < 0.1, "c0"] = "new"
    rows.loc[rng.random(len(rows)) < 0.1, "code"] = 77
    borders = forest.threshold[(forest.left >= 0) & (forest.feature == list(table).index("x"))]
    if forest.front is not None:
        borders = np.r_[borders, forest.front.border[forest.front.column == list(table).index("x")]]
        rows.loc[rng.random(len(rows)) < 0.05, "x"] = np.nan
    if len(borders):
        near = rng.random(len(rows)) < 0.5
        rows.loc[near, "x"] = rng.choice(np.r_[borders, np.nextafter(borders, 9), np.inf, -0.0], near.sum())
    _compare(model, forest, rows, findings)


def _compare(model: cb.CatBoost, forest: scurry.Forest, rows: object, findings: Findings) -> None:
    pool = rows if isinstance(rows, np.ndarray) else cb.Pool(rows, cat_features=[c for c in rows if c != "x"])
    raw = model.predict(pool, prediction_type="RawFormulaVal", thread_count=1).reshape(len(rows), -1)
    check_equal(forest.scores(rows), raw, "scores")
    expected = model.predict(pool, thread_count=1).reshape(-1)
    check_equal(forest.predict(rows), expected, "labels")
    for row in range(0, len(rows), 997):
        check_equal(forest.scores(rows[row : row + 1]), raw[row : row + 1], "the scores of one row")
    findings.counts["rows compared with CatBoost"] += len(rows)
    findings.counts["rows of tables" if isinstance(rows, pd.DataFrame) else "rows of numbers"] += len(rows)
    findings.counts[f"models of {'one-hot and statistics' if forest.categories else 'numbers'}"] += 1
    if forest.front is not None:
        findings.counts["rows with statistics of combinations"] += len(rows)
        findings.counts["combinations"] += len(forest.front.element_offset) - 1
