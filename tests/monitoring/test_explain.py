import numpy as np

import scurry
from scurry.monitoring.explain import Explanation, compare_features
from scurry.monitoring.state import Tally
from scurry.promises import RowSummary


def test_features_that_left_the_calibration_rows_are_named(fast, rows):
    watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm=lambda state: None)
    shifted = rows.copy()
    shifted[:, 2] += 1.0
    shifted[::2, 4] = np.nan
    watch.predict(shifted)
    found = watch.explain()
    assert [drift.name for drift in found.drifted] == ["column 4", "column 2"]
    assert "missing or unknown in 50" in found.drifted[0].text
    assert "of shadow rows are above" in found.drifted[1].text
    text = found.describe()
    assert "2 of 6 left the calibration rows (4,000 shadow rows)" in text
    assert "stopped after" in text
    assert "class" in text


def test_rows_like_the_calibration_rows_have_no_drift(fast, rows):
    watch = scurry.watch(fast, share=1.0, random_state=0)
    watch.predict(rows)
    assert watch.explain().drifted == ()
    assert watch.explain().n_rows == len(rows)


def test_values_that_many_rows_share_are_no_drift():
    rng = np.random.default_rng(0)
    forest = scurry.Forest.from_trees(
        [{"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}],
        n_features=3,
    )  # fmt: skip

    def draw(n):
        return np.stack([rng.integers(0, 3, n), np.zeros(n), rng.exponential(size=n)], axis=1)

    summary = RowSummary.of(draw(4000))
    assert not any(drift.is_drift for drift in compare_features(forest, summary, draw(2000)))
    other = draw(2000)
    other[:, 1] = 1.0
    other[:, 2] *= 0.5
    found = compare_features(forest, summary, other)
    assert [drift.is_drift for drift in found] == [False, True, True]
    assert found[1].distance == 1.0
    assert "below" in found[2].text


def test_rows_since_the_onset_explain_an_alarm(fast, rows, drifted):
    watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm=lambda state: None)
    watch.predict(rows)
    watch.predict(drifted)
    state = watch.state
    assert state.is_raised
    assert watch.explain().n_rows == 8000 - state.onset


def test_categories_are_named_and_not_their_codes():
    forest = scurry.Forest.from_trees(
        [{"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}],
        n_features=1,
    ).replace(feature_names=["city"], categories={0: ["Bonn", "Oslo", "Rome", "York", "Zug"]})  # fmt: skip
    rng = np.random.default_rng(0)
    summary = RowSummary.of(rng.integers(0, 5, (4000, 1)))
    (fallen,) = compare_features(forest, summary, rng.choice(2, (2000, 1), p=[0.2, 0.8]))
    assert fallen.is_drift
    assert fallen.text.startswith("100 % of shadow rows have 'Oslo' or 'Bonn', at most 40")
    (risen,) = compare_features(forest, summary, np.full((2000, 1), 4))
    assert risen.text.startswith("100 % of shadow rows have 'Zug', at most")
    (many,) = compare_features(forest, summary, rng.choice([0, 1, 2, 3, 9], (2000, 1), p=[0.7, 0.1, 0.1, 0.05, 0.05]))
    assert "'Bonn'" in many.text
    assert "below" not in many.text


def test_large_multiples_are_written_in_full():
    tally = Tally(name=1, n_shadow=100, n_changed=50)
    text = Explanation(n_rows=0, features=(), by_class=(tally,), by_trees=(), rate=0.5 / 130).describe()
    assert "130 times the mean" in text
