"""Measurements say what was measured, in words that need no explanation."""

from scurry.promises import ExitMeasurement, StepMeasurement, ValueMeasurement


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
