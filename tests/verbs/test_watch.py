"""The arguments of `scurry.watch`."""

import numpy as np
import pytest

import scurry
from scurry.errors import InputError
from support.strategies import complete_forest

FAST = scurry.early_exit(complete_forest(9, 4, 4, 2), promise=scurry.promises.Certain())
ROWS = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)


def test_the_short_call_watches():
    watch = scurry.watch(FAST)
    assert (watch.predict(ROWS) == FAST.predict(ROWS)).all()
    assert (watch.share, watch.on_alarm, watch.promise) == (0.002, "warn", FAST.promise)
    assert (watch.state.n_rows, watch.state.confidence) == (50, 0.95)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 0}, r"share must be in \(0, 1\].*nothing would be watched"),
        ({"share": 2}, "Did you mean 0.02"),
        ({"share": -0.1}, "share must be"),
        ({"share": "all"}, "share must be"),
        ({"confidence": 1.0}, "confidence must be"),
        ({"window": 0}, "window must be"),
        ({"keep_rows": -1}, "keep_rows must be"),
        ({"first_row": -1}, "first_row must be"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        scurry.watch(FAST, **options)


def test_a_predictor_without_a_promise_cannot_be_watched():
    with pytest.raises(InputError, match="promises nothing"):
        scurry.watch(scurry.Predictor.full(FAST.forest))
    with pytest.raises(InputError, match="must be a Predictor"):
        scurry.watch(FAST.forest)
