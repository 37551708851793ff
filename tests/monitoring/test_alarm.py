"""What is looked at after every few rows is what the whole record says."""

import numpy as np

import scurry
from scurry.monitoring.alarm import LatestEvidence
from scurry.monitoring.record import Record
from scurry.monitoring.state import find_evidence, read_history


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
                e_value, change = latest._measure()
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
