"""Summaries of calibration rows survive being saved, and hostile ones are refused."""

import json

import numpy as np

from scurry.promises import ExitMeasurement, RowSummary, StepMeasurement, ValueMeasurement
from support.calibration_rows import two_classes

X, Y = two_classes(2000, seed=0)


class TestRowSummary:
    def test_quantiles_are_values_of_the_rows(self):
        values = np.array(
            [[1.0, np.nan, -np.inf, 0.1], [2.0, np.nan, 5.0, np.nan], [3.0, np.nan, np.inf, 0.3], [4.0, np.nan, 7, 0.2]]
        )
        summary = RowSummary.of(values, n_quantiles=3)
        assert summary.n_rows == 4
        assert summary.missing.tolist() == [0, 1, 0, 0.25]
        assert summary.quantiles[0].tolist() == [1, 2, 4]
        assert np.isnan(summary.quantiles[1]).all()
        assert summary.quantiles[2].tolist() == [-np.inf, 5, np.inf]
        assert summary.quantiles[3].tolist() == [float(np.float32(x)) for x in (0.1, 0.2, 0.3)]

    def test_precision_of_the_rows_does_not_matter(self):
        one, two = RowSummary.of(X), RowSummary.of(X.astype(np.float32))
        assert one.to_json() == two.to_json()
        assert one.quantiles.shape == (6, 21)

    def test_infinities_and_missing_values_survive_json(self):
        summary = RowSummary.of(np.array([[np.inf, np.nan], [-np.inf, np.nan]]), n_quantiles=2)
        again = RowSummary.from_json(json.loads(json.dumps(summary.to_json(), allow_nan=False)))
        assert np.array_equal(again.quantiles, summary.quantiles, equal_nan=True)
        assert again.missing.tolist() == [0, 1]
        assert again.n_rows == 2


def test_the_rows_that_probabilities_were_measured_on_are_named():
    quality = {"full_auc": 0.9, "fast_auc": 0.89, "full_log_loss": 0.3, "fast_log_loss": 0.31}
    measured = ExitMeasurement(changed=0.0, mean_trees=3.0, **quality, n_scored=1500)
    assert measured.describe()["AUC"] == "0.8900, full model 0.9000, on 1,500 of the calibration rows"
    old = ExitMeasurement(changed=0.0, mean_trees=3.0, **quality)  # as older files have it
    assert old.describe()["log-loss"] == "0.3100, full model 0.3000"


def test_words_of_methods_are_explained():
    measured = ValueMeasurement(beyond=0.0, mean_trees=3.0, mean_error=0.1, largest_error=0.2, caution=1.59)
    assert measured.describe()["caution"] == (
        "a row stops once 1.59 times its expected error is within the promised one"
    )
    steps = StepMeasurement(order="auto", objective="steps", readout="weighted", n_steps=4, quality="accuracy",
                            first=0.5, mean=0.7, last=0.9)  # fmt: skip
    assert "closer they are to the leaves" in steps.describe()["read-out"]
