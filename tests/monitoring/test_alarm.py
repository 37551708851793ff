"""What is looked at after every few rows is what the whole record says."""

from dataclasses import replace

import numpy as np
import pytest

import scurry
from scurry import _core
from scurry.monitoring.alarm import LatestEvidence
from scurry.monitoring.betting import EPOCH, RUN_LENGTH, Part, log_detector, log_e_value
from scurry.monitoring.record import Record
from scurry.monitoring.shadow import find_parts
from scurry.monitoring.state import find_evidence, read_history
from scurry.promises import Accuracy, Certain


def make_record(fast):
    return Record(scurry.watch(fast, share=1.0, random_state=0)._record.setup, 0)


def test_it_is_the_evidence_of_the_record(fast):
    rng = np.random.default_rng(0)
    n_raised = 0
    for seed in range(6):
        record = make_record(fast)
        latest, was = LatestEvidence(record), (False, False)
        for epoch in range(30):
            for _ in range(2):
                n_broken = rng.binomial(128, 0.02 if epoch < 20 else 0.02 + 0.01 * (seed % 4))
                record.add(epoch, [np.array([128 - n_broken, n_broken])], 0.0)
                latest.touch(epoch)
                found = latest.look()
                was = was[0] or found[0], was[1] or found[1]
            evidence = find_evidence(record)
            assert was[0] >= (evidence.alarm_epoch is not None)
            assert was[1] >= (evidence.change_epoch is not None)
            if not any(was):
                e_value, change = (values[-1] for values in latest._measure())
                history = read_history(record, 100)
                assert np.allclose([e_value, change], [history.e_value[-1], history.detector[-1]], rtol=1e-9)
        n_raised += any(was)
    assert 0 < n_raised < 6


def test_labels_that_come_late_count_where_they_belong(fast):
    record = make_record(fast)
    latest = LatestEvidence(record)
    for epoch in range(6):
        record.add(epoch, [np.array([250, 6])], 0.0)
        latest.touch(epoch)
        assert latest.look() == (False, False)
    record.add(1, [np.array([0, 120])], 0.0)
    latest.touch(1)
    assert latest.look() == (True, True)
    assert find_evidence(record).alarm_epoch == 1


def test_nothing_is_raised_without_rows(fast):
    assert LatestEvidence(make_record(fast)).look() == (False, False)


class TestLabelsInAnyOrder:
    """Where labels are awaited, only all that have come are looked at, and an alarm that was seen stays."""

    def make_record(self, fast):
        setup = scurry.watch(fast, share=1.0, random_state=0)._record.setup
        return Record(replace(setup, promise=Accuracy(0.02), parts=find_parts(Accuracy(0.02))), 0)

    def test_epochs_that_fill_up_later_raise_nothing_by_themselves(self, fast):
        record = self.make_record(fast)
        latest = LatestEvidence(record)
        for epoch in range(40):
            record.add(epoch, [np.array([1, 255, 0])], 0.0)
            latest.touch(epoch)
            assert latest.look() == (False, False)
        record.add(1, [np.array([0, 0, 60])], 0.0)
        latest.touch(1)
        # Of the first epochs alone the promise would seem broken, but they are some of all rows, chosen afterwards.
        assert read_history(record, 40).e_value[1] > 20
        assert latest.look() == (False, False)
        assert find_evidence(record)[1:] == (None, None)

    def test_an_alarm_stays(self, fast):
        record = self.make_record(fast)
        record.add(0, [np.array([0, 200, 56])], 0.0)
        assert LatestEvidence(record).look() == (True, True)
        assert find_evidence(record).alarm_epoch == 0
        record.alarm_number = 100
        for epoch in range(1, 60):
            record.add(epoch, [np.array([9, 247, 0])], 0.0)
        assert find_evidence(record).log_e < 0
        assert find_evidence(record).alarm_epoch == 0

    @pytest.mark.slow
    def test_false_alarms(self, fast):
        """Labels come in an order drawn at random, at exactly the rate that is promised."""
        rng, n_raised = np.random.default_rng(0), 0
        for _ in range(200):
            record = self.make_record(fast)
            latest, rows = LatestEvidence(record), rng.permutation(40 * 256)
            losses, was = rng.choice(3, len(rows), p=[0.02, 0.94, 0.04]), False
            for some in rows.reshape(-1, 256):
                for epoch in np.unique(some // 256):
                    counts = np.bincount(losses[some[some // 256 == epoch]], minlength=3)
                    record.add(int(epoch), [counts], 0.0)
                    latest.touch(int(epoch))
                was = was or latest.look()[0]
            n_raised += was
        assert n_raised <= 18


@pytest.mark.parametrize(
    "part",
    [
        Part("rows", (0.0, 1.0), 0.02),
        Part("costs", (-2.0, -0.5, 0.0, 1.0, 3.0), 0.1),
        Part("rows that must not be", (0.0, 1.0), 0.0),
    ],
)
def test_bets_are_those_of_the_slow_reference(part):
    """Epoch by epoch, with gaps between them and however they are cut into calls."""
    rng, n_epochs, n_losses = np.random.default_rng(3), 40, len(part.losses)
    counts = rng.multinomial(60, np.full(n_losses, 1 / n_losses), size=n_epochs)
    counts[: n_epochs // 2, 1:] //= 20
    if part.max_mean == part.losses[0]:
        counts[: n_epochs // 2, 1] = 0
    counts[rng.random(n_epochs) < 0.2] = 0
    started = np.where(counts.sum(axis=1) > 0, 5.0, np.inf)
    with np.errstate(over="ignore"):
        e_values = np.exp(log_e_value(part, counts.cumsum(axis=0)))
        changes = np.exp(log_detector(part, counts, np.isfinite(started)))
    log_capital, begun = np.zeros(len(part.log_gains)), np.zeros(len(part.log_gains))
    at = 0
    for n_more in (1, 7, 1, 20, 14):
        found = np.zeros((2, n_more))
        _core.follow_bets(
            counts[at : at + n_more],
            started[at : at + n_more],
            part.log_gains,
            first_capital=0.0 if part.allows_nothing else EPOCH,
            log_capital=log_capital,
            begun=begun,
            e_values=found[0],
            changes=found[1],
        )
        for ours, reference in zip(found, (e_values, changes), strict=True):
            expected = np.minimum(reference[at : at + n_more], 1e280)
            if part.allows_nothing:  # it is broken by a single row, and else there is no evidence at all
                ours, expected = ours >= 1e280, expected >= 1e280
            assert np.allclose(np.minimum(ours, 1e280), expected, rtol=1e-9)
        at += n_more - 1  # the last epoch stays open


def test_a_promise_that_nothing_happens_is_not_doubted_while_nothing_does(fast):
    """However many rows there are; and a single one breaks it."""
    setup = scurry.watch(fast, share=1.0, random_state=0)._record.setup
    record = Record(replace(setup, promise=Certain(), parts=find_parts(Certain())), 0)
    record.reach(2 * RUN_LENGTH // EPOCH)
    record.epochs[0][:, 0] = EPOCH
    record.started[:] = 0.0
    assert LatestEvidence(record).look() == (False, False)
    assert find_evidence(record)[1:] == (None, None)
    record.epochs[0][-1, 1] = 1
    assert LatestEvidence(record).look() == (True, True)
    assert None not in find_evidence(record)[1:]


def test_bets_that_do_not_fit_are_refused():
    gains, row = Part("rows", (0.0, 1.0), 0.02).log_gains, np.zeros(1)
    state = {"log_capital": np.zeros(len(gains)), "begun": np.zeros(len(gains)), "e_values": row, "changes": row}
    with pytest.raises(ValueError, match="every loss"):
        _core.follow_bets(np.zeros((1, 3), np.int64), row, gains, first_capital=1.0, **state)
    with pytest.raises(ValueError, match="every epoch"):
        _core.follow_bets(np.zeros((2, 2), np.int64), row, gains, first_capital=1.0, **state)
    with pytest.raises(ValueError, match="size"):
        _core.follow_bets(np.zeros((1, 2), np.int64), row, gains, first_capital=1.0, **state | {"begun": row})
