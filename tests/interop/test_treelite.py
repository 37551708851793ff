"""Checkpoints next to treelite's own predictor, bit for bit; `make interop` runs this."""

import numpy as np
import pytest

import scurry
from support.strategies import adversarial_rows
from support.treelite_models import data, sources

treelite = pytest.importorskip("treelite")

pytestmark = pytest.mark.slow


NAMES = [
    "sklearn-forest-2", "sklearn-forest-3", "sklearn-forest-regressor", "sklearn-boosting-3", "sklearn-histograms",
    "lightgbm-2-categories", "lightgbm-3", "xgboost-2", "xgboost-3",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_treelite(name, tmp_path):
    model = sources()[name]()
    model.serialize(str(tmp_path / "model.tl"))
    forest = scurry.from_model(tmp_path / "model.tl")
    assert forest.digest == scurry.from_model(model).digest
    rows = adversarial_rows(forest, data()[0], 100_000)
    if (forest.category_set >= 0).any():
        rows[:, 4] = np.random.default_rng(1).choice(np.r_[np.arange(45), np.nan, -1, 2.5, -0.5], len(rows))
    with np.errstate(over="ignore"):
        rows = rows.astype(forest.input_dtype)
    margins = treelite.gtil.predict(model, rows, nthread=1, pred_margin=True).reshape(len(rows), -1)
    # A base score that is no float32 is added by treelite in float64: stated in the importer.
    np.testing.assert_array_max_ulp(forest.scores(rows).astype(margins.dtype), margins, name.startswith("xgboost"))
    answers = treelite.gtil.predict(model, rows, nthread=1).reshape(len(rows), -1)
    ours = forest.predict_proba(rows) if forest.is_classifier else forest.predict(rows)[:, None]
    np.testing.assert_allclose(ours[:, -answers.shape[1] :], answers, atol=2e-7)
