"""What may be done after an alarm."""

import warnings

import pytest

import scurry
from scurry.errors import InfeasibleError, InputError


def watch_all(fast, rows, **options):
    watch = scurry.watch(fast, random_state=0, **options)
    watch.predict(rows)
    return watch


class TestRecalibration:
    def test_rows_since_the_alarm_certify_a_new_predictor(self, fast, draw_drifted, drifted):
        watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm=lambda state: None)
        watch.predict(drifted[:400])
        with pytest.raises(InfeasibleError, match=r"since the alarm are too few.*are missing") as caught:
            watch.recalibrate()
        assert caught.value.n_rows_needed >= 2 * fast.promise.rows_needed()
        watch.predict(draw_drifted(5000, 8))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some rows were drawn twice
            new = watch.recalibrate(random_state=0)
        assert new.promise == fast.promise
        fresh = draw_drifted(20_000, 9)
        assert (new.predict(fresh) != new.forest.predict(fresh)).mean() <= 0.02 < 0.09

    def test_without_kept_rows_there_is_nothing_to_calibrate_on(self, fast, rows):
        watch = watch_all(fast, rows, share=1.0, keep_rows=False)
        with pytest.raises(InputError, match="keep_rows=True"):
            watch.recalibrate()
        assert "no shadow rows are kept" in watch.explain().describe()

    def test_only_so_many_rows_are_kept(self, fast, rows):
        watch = watch_all(fast, rows, share=1.0, keep_rows=1000)
        watch._evaluate()
        assert watch._record.kept.numbers.tolist() == list(range(3000, 4000))
