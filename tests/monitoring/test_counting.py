"""Labels that come later, and rows that must not count.

What is looked at after every few rows is what the whole record says.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry import _core
from scurry.errors import InputError, ScurryWarning
from scurry.monitoring.betting import EPOCH, RUN_LENGTH, Part, log_detector, log_e_value
from scurry.monitoring.counting import BLOCK, Draws, LatestEvidence
from scurry.monitoring.record import Record
from scurry.monitoring.shadow import find_parts
from scurry.monitoring.state import find_evidence, read_history
from scurry.promises import Accuracy, Certain


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_epochs_are_counted_as_the_promise_counts(fast, rows, dtype):
    """Rows are told apart by epoch, whatever batches they come in and whatever their dtype is."""
    rows = rows.astype(dtype)
    watch = scurry.watch(fast, share=1.0, random_state=0)
    for start in range(0, len(rows), 700):
        watch.predict(rows[start : start + 700])
    watch._counting.evaluate()
    record, size = watch._record, watch._record.setup.rows_per_epoch
    changed = fast.predict(rows) != fast.forest.predict(rows)
    expected = [changed[start : start + size] for start in range(0, len(rows), size)]
    assert record.epochs[0].tolist() == [[int((~some).sum()), int(some.sum())] for some in expected]
    assert np.isfinite(record.started).all()


def test_the_short_way_to_count_is_the_long_one(fast, rows, monkeypatch):
    found = []
    for is_short in (True, False):
        monkeypatch.setattr(scurry.promises.Labels, "COUNTS_CHANGED", is_short)
        watch = scurry.watch(fast, share=0.7, random_state=0)
        watch.predict(rows)
        found.append(watch.state)
    assert found[0] == replace(found[1])


class TestLabels:
    def start(self, accurate, rows):
        watch = scurry.watch(accurate, share=0.2, random_state=0)
        watch.predict(rows[:500], ids=np.arange(500))
        return watch

    def test_unknown_ids_are_refused_and_nothing_is_learned(self, accurate, rows):
        watch = self.start(accurate, rows)
        before = watch.awaited_ids
        with pytest.raises(InputError, match="1 of 2 ids were never predicted, such as 777"):
            watch.learn_labels([before[0], 777], [0, 1])
        with pytest.raises(InputError, match="classes"):
            watch.learn_labels(before[:2], [0, 5])
        with pytest.raises(InputError, match="twice"):
            watch.learn_labels([before[0], before[0]], [0, 1])
        with pytest.raises(InputError, match="has 1 labels, ids has 2"):
            watch.learn_labels(before[:2], [0])
        assert watch.awaited_ids == before
        assert watch.learn_labels(before, np.zeros(len(before), int)) == len(before)

    def test_ids_name_rows_once(self, accurate, rows):
        watch = self.start(accurate, rows)
        state = watch.state
        with pytest.raises(InputError, match="is not new"):
            watch.predict(rows[:1], ids=watch.awaited_ids[:1])
        with pytest.raises(InputError, match="must name each"):
            watch.predict(rows[:2], ids=[5000])
        with pytest.raises(InputError, match="numbers or texts"):
            watch.predict(rows[:2], ids=[None, "a"])
        assert watch.state == state

    def test_after_a_restart_old_ids_are_not_known_to_be_wrong(self, accurate, rows, tmp_path):
        watch = self.start(accurate, rows)
        watch.save(tmp_path / "w.scurry-watch")
        again = scurry.Watch.load(tmp_path / "w.scurry-watch", accurate)
        assert again.awaited_ids == watch.awaited_ids
        with pytest.warns(ScurryWarning, match="none of these labels was awaited"):
            again.learn_labels([10**6], [0])
        assert again.learn_labels(np.arange(500), np.zeros(500, int)) == len(watch.awaited_ids)

    def test_nobody_waits_for_labels_that_do_not_matter(self, fast, rows):
        watch = scurry.watch(fast, share=1.0, random_state=0)
        watch.predict(rows[:500], ids=np.arange(500))
        assert (watch.awaited_ids, watch.state.n_waiting) == ([], 0)
        assert watch.learn_labels(np.arange(500), np.zeros(500, int)) == 0
        assert "labels awaited" not in watch.state.describe()


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


GAMMA = 0x9E3779B97F4A7C15


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([0.0005, 0.002, 0.3, 1.0]),
    st.integers(0, 2**64 - 1),
    st.integers(0, 3 * BLOCK),
    st.lists(st.integers(0, BLOCK), max_size=5),
)
def test_batches_do_not_matter(share, seed, start, sizes):
    whole = Draws(share, seed).between(start, start + sum(sizes) + 1)
    draws, at, parts = Draws(share, seed), start, []
    for size in [*sizes, 1]:
        parts.append(draws.between(at, at + size) if size else np.empty(0, np.int64))
        at += size
    assert np.array_equal(np.concatenate(parts), whole)
    assert np.array_equal(np.unique(whole), whole)
    assert ((whole >= start) & (whole < at)).all()


def test_every_row_is_drawn_with_the_same_probability():
    n_blocks, share = 10, 0.02
    counts = np.zeros(BLOCK)
    for seed in range(n_blocks):
        counts[Draws(share, seed).between(0, BLOCK)] += 1
    n = n_blocks * BLOCK
    assert abs(counts.sum() - n * share) < 5 * np.sqrt(n * share)
    # Independent draws: gaps, and neighbouring halves, say nothing of each other.
    halves = counts.reshape(2, -1).sum(axis=1)
    assert np.ptp(halves) < 5 * np.sqrt(n * share)
    both = np.intersect1d(Draws(0.5, 1).between(0, BLOCK), Draws(0.5, 1).between(0, BLOCK) + 1)
    assert abs(len(both) - BLOCK / 4) < 5 * np.sqrt(BLOCK / 4)


def test_none_are_drawn_before_the_next():
    draws, start = Draws(0.001, 5), 0
    numbers = draws.between(0, 3 * BLOCK)
    for _ in range(900):
        end = draws.none_before(start)
        later = numbers[numbers >= start]
        assert end >= start
        assert not len(later) or end <= later[0]
        start = end + 1 if end in numbers else end
    assert start > BLOCK
    assert draws.none_before(int(numbers[7])) == numbers[7]


def test_a_share_of_1_draws_all_rows():
    assert np.array_equal(Draws(1.0, 3).between(BLOCK - 2, BLOCK + 3), np.arange(BLOCK - 2, BLOCK + 3))


def test_seeds_draw_different_rows():
    a, b = (Draws(0.01, seed).between(0, BLOCK) for seed in (0, 1))
    assert len(np.intersect1d(a, b)) < 30


def test_draws_are_part_of_the_format():
    """States go on after an upgrade, so the same seed draws the same rows in every version."""
    assert Draws(0.002, 7).between(0, 3500).tolist() == [163, 379, 679, 931, 1459, 2310, 2355, 2407, 2481, 3431, 3477]
    assert [_core.mix_bits(value) for value in (0, 1)] == [0, 6238072747940578789]


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
@pytest.mark.parametrize("share", [1e-9, 0.0005, 0.3, 0.9999])
def test_a_slow_reference_draws_the_same(share, seed):
    for block in (0, 5):
        key, place, expected = _core.mix_bits((seed + GAMMA * (block + 1)) % 2**64), -1, []
        for counter in itertools.count(1):
            uniform = ((_core.mix_bits((key + GAMMA * counter) % 2**64) >> 11) + 0.5) * 2.0**-53
            place += 1 + math.floor(min(math.log(uniform) / math.log1p(-share), BLOCK))
            if place >= BLOCK:
                break
            expected.append(block * BLOCK + place)
        assert Draws(share, seed).between(block * BLOCK, (block + 1) * BLOCK).tolist() == expected


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 2), (0, 2**63 - 1)])
def test_impossible_numbers_are_refused(start, stop):
    with pytest.raises(ValueError, match="numbered"):
        Draws(0.5, 0).between(start, stop)


class TestShadowRows:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("order", ["C", "F", "strided"])
    def test_they_are_the_rows_drawn(self, dtype, order):
        rows = np.arange(900.0).reshape(300, 3).astype(dtype)
        given = np.repeat(rows, 2, axis=0)[::2] if order == "strided" else np.asarray(rows, order=order)
        draws = Draws(0.1, 3)
        shadow, start = draws.shadow_rows(3, dtype), BLOCK - 100
        places, none_before = shadow.draw(given[:150], start)
        more, _ = shadow.draw(given[150:], start + 150)
        numbers = draws.between(start, start + 300)
        assert np.concatenate([places, more + 150]).tolist() == (numbers - start).tolist()
        assert none_before == draws.none_before(start + 150)
        held, held_numbers = shadow.held()
        assert len(shadow) == len(numbers) > 10
        assert held.dtype == dtype
        assert np.array_equal(held, rows[numbers - start])
        assert np.array_equal(held_numbers, numbers)
        shadow.clear()
        assert [len(part) for part in shadow.held()] == [0, 0]
        assert np.array_equal(held_numbers, numbers), "what was read does not change"

    def test_rows_that_do_not_fit_are_refused(self):
        shadow = Draws(0.5, 0).shadow_rows(3, "float32")
        for rows in (np.zeros((2, 3)), np.zeros((2, 4), np.float32)):
            with pytest.raises(ValueError, match="rows"):
                shadow.draw(rows, 0)
        with pytest.raises(ValueError, match="size"):
            shadow.add(np.zeros((2, 3), np.float32), np.arange(3))
        with pytest.raises(ValueError, match="numbered"):
            shadow.draw(np.zeros((2, 3), np.float32), 2**63 - 2**18)
        with pytest.raises(ValueError, match="share"):
            Draws(0.0, 0)


@pytest.mark.parametrize("share", [1e-9, 1e-300])
def test_tiny_shares_draw_nothing_and_do_not_overflow(share):
    assert len(Draws(share, 0).between(0, 10 * BLOCK)) == 0
