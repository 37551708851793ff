"""Labels that come for some answers rather than for others, and labels that come late, in any order or never."""

import warnings

import numpy as np
import pytest

import scurry
from scurry.errors import InputError, ScurryWarning
from scurry.forest.files.storage import container_bytes, container_of
from scurry.monitoring.record import KIND, Record, Waiting
from scurry.monitoring.selection import find_selection
from scurry.promises import Recall
from support.calibration_rows import two_classes

PROMISE = Recall(1, 0.08, 0.08)


@pytest.fixture(scope="module")
def finding(model):
    return scurry.early_exit(model, *two_classes(2500, 1), promise=PROMISE, random_state=0)


@pytest.fixture(scope="module")
def draw(finding):
    """Draw rows with labels, of which exactly these shares are expected to be lost and to be changed."""
    X, y = two_classes(60_000, 5)
    answers, full = finding.predict(X), finding.forest.predict(X)
    is_found, changed = (full == 1) & (y == 1), answers != full

    def draw_rows(n_rows, seed, lost=PROMISE.max_loss, others=PROMISE.max_changed):
        rng = np.random.default_rng(seed)
        kinds = rng.choice(5, n_rows, p=np.array([lost, 1 - lost, 2 * others, 2 - 2 * others, 0.5]) / 3.5)
        pools = [is_found & changed, is_found & ~changed, (full == 0) & changed, (full == 0) & ~changed]
        pools.append((full == 1) & (y == 0))
        places = np.empty(n_rows, int)
        for kind, pool in enumerate(pools):
            places[kinds == kind] = rng.choice(np.flatnonzero(pool), int((kinds == kind).sum()))
        return X[places], y[places]

    return draw_rows


def watch_with_labels(finding, X, y, chosen, seed, n_calls=6, **options):
    """Watch rows, and learn the labels of those that a function of their answers chooses, after each call."""
    watch = scurry.watch(finding, random_state=seed, on_alarm=lambda state: None, **{"share": 1.0, **options})
    for numbers in np.array_split(np.arange(len(X)), n_calls):
        some = numbers[chosen(watch.predict(X[numbers], ids=numbers))]
        watch.learn_labels(some, y[some])
    return watch


def is_flagged(answers):
    return answers == 1


class TestPartsThatNeedNoLabel:
    def test_they_count_at_once_and_once(self, finding, draw):
        X, y = draw(1500, 0)
        answers, full = finding.predict(X), finding.forest.predict(X)
        watch = scurry.watch(finding, share=1.0, random_state=0)
        watch.predict(X, ids=np.arange(1500))
        lost, others = watch.state.parts
        assert (lost.n_shadow, others.n_shadow) == (0, (full == 0).sum())
        assert others.n_broken == (answers != full)[full == 0].sum()
        watch.learn_labels(np.arange(1500), y)
        found = (full == 1) & (y == 1)
        after = watch.state.parts
        assert (after[0].n_shadow, after[0].n_broken) == (found.sum(), (answers != 1)[found].sum())
        assert after[1] == others

    def test_early_files_counted_them_with_their_labels(self, finding, draw):
        X, y = draw(1500, 0)
        watch = scurry.watch(finding, share=1.0, random_state=0)
        watch.predict(X, ids=np.arange(1500))
        watch.learn_labels(np.arange(0, 1500, 3), y[::3])
        now = watch.to_bytes()
        header, arrays = watch._record.copy().to_parts()
        for row in watch._record.waiting.values():
            if row.full == 0:
                arrays["epochs_1"][watch._record.epoch_of(row.number), int(row.answer != 0)] -= 1
        early = {name: array for name, array in arrays.items() if name not in ("label_epochs", "labels_learned")}
        assert Record.from_container(container_of(container_bytes(KIND, header, early))).counts_lag
        for data in (container_bytes(KIND, header, early), now):
            again = scurry.Watch.from_bytes(data, finding)
            assert again.state == watch.state
            assert not again._record.counts_lag
            again.learn_labels(np.arange(1500), y)
            assert [part.n_shadow for part in again.state.parts] == [
                int(((finding.forest.predict(X) == 1) & (y == 1)).sum()),
                int((finding.forest.predict(X) == 0).sum()),
            ]


class TestSelectedLabels:
    @pytest.mark.parametrize("seed", range(8))
    def test_a_promise_that_is_kept_raises_no_alarm(self, finding, draw, seed):
        X, y = draw(3000, seed, lost=0.04, others=0.04)
        with pytest.warns(ScurryWarning, match=r"1 was answered to 100 % of") as caught:
            watch = watch_with_labels(finding, X, y, is_flagged, seed)
        assert len(caught) == 1  # it is said once
        state = watch.state
        assert not state.is_raised
        assert state.selection.n_learned == state.selection.n_learned_so > 0 == state.selection.n_awaited_so
        assert "selected by the answer" in state.verdict
        assert "0 % of" in state.describe()
        assert state.to_json()["selection"]["label"] == 1

    @pytest.mark.parametrize("seed", range(8))
    def test_a_broken_promise_is_noticed_or_the_labels_are(self, finding, draw, seed):
        X, y = draw(3000, seed, lost=0.3, others=0.01)
        with pytest.warns(ScurryWarning, match="some answers rather than others"):
            watch = watch_with_labels(finding, X, y, is_flagged, seed)
        assert watch.state.parts[0].n_broken == 0  # lost rows are not flagged
        with pytest.raises(InputError, match="keep no promise on others"):
            watch.recalibrate()
        # With all labels the alarm comes, and nothing is said of labels any more.
        watch.learn_labels(np.arange(3000), y)
        assert watch.state.alarm
        assert watch.state.selection is None

    def test_accuracy_is_warned_of_too(self, accurate):
        X, y = two_classes(1500, 8)
        with pytest.warns(ScurryWarning, match="some answers rather than others"):
            watch_with_labels(accurate, X, y, is_flagged, 0)

    def test_some_of_the_others_are_not_enough(self, finding, draw):
        """All flagged rows have labels, and one in five of the others."""
        X, y = draw(3000, 0)
        rng = np.random.default_rng(0)
        with pytest.warns(ScurryWarning, match="some answers rather than others"):
            watch_with_labels(finding, X, y, lambda answers: is_flagged(answers) | (rng.random(len(answers)) < 0.2), 0)

    def test_thresholds_are_not_moved_by_them(self, finding, draw):
        """Other labels changed, which raises the alarm; nobody knows how many rows are lost."""
        X, y = draw(3000, 0, others=0.3)
        with pytest.warns(ScurryWarning):
            watch = watch_with_labels(finding, X, y, is_flagged, 0)
        assert watch.state.is_raised
        watch.on_alarm = "widen"
        assert watch.active.certificate is None

    def test_states_of_processes_add_up(self, finding, draw):
        X, y = draw(1600, 0)
        watches = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for seed, part in enumerate(np.array_split(np.arange(1600), 2)):
                watch = scurry.watch(finding, share=1.0, random_state=seed)
                flagged = part[is_flagged(watch.predict(X[part], ids=part))]
                watch.learn_labels(flagged, y[flagged])
                watches.append(watch)
        merged = scurry.Watch.merge(watches)
        assert merged.state.selection.n_learned == sum(watch.state.selection.n_learned for watch in watches)
        assert scurry.Watch.from_bytes(merged.to_bytes(), finding).state == merged.state


class TestFairLabels:
    def test_false_alarms_and_warnings(self, finding, draw):
        """Each part breaks at exactly the rate that is promised, and labels come for rows drawn at random, shuffled."""
        n_raised, n_runs = 0, 200
        for seed in range(n_runs):
            X, y = draw(1500, seed)
            rng = np.random.default_rng(seed + 1000)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                watch = scurry.watch(finding, share=1.0, random_state=seed, on_alarm=lambda state: None)
                watch.predict(X, ids=np.arange(1500))
                for some in np.array_split(rng.permutation(1500)[:1000], 8):
                    watch.learn_labels(some, y[some])
            n_raised += watch.state.alarm
        assert n_raised <= 0.05 * n_runs

    def test_labels_that_come_late_while_answers_drift_are_fair(self, finding):
        """Flagged rows become three times as frequent, and labels lag behind by half of all rows."""
        X, y = two_classes(40_000, 6)
        answers, rng = finding.predict(X), np.random.default_rng(0)
        share = np.linspace(0.15, 0.45, 6000)
        flagged = rng.random(6000) < share
        places = np.where(
            flagged, rng.choice(np.flatnonzero(answers == 1), 6000), rng.choice(np.flatnonzero(answers == 0), 6000)
        )
        watch = scurry.watch(finding, share=1.0, random_state=0, on_alarm=lambda state: None)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for start in range(0, 6000, 500):
                watch.predict(X[places[start : start + 500]], ids=np.arange(start, start + 500))
                late = np.arange(max(start - 3000, 0), max(start - 2500, 0))
                watch.learn_labels(late, y[places[late]])
        assert watch.state.selection is None
        watch.recalibrate(random_state=0, promise=Recall(1, 0.2, 0.2))

    def test_a_random_part_of_the_labels_shows_what_all_of_them_show(self, finding, draw):
        X, y = draw(3000, 1, lost=0.3, others=0.01)
        rng = np.random.default_rng(0)
        watch = watch_with_labels(finding, X, y, lambda answers: rng.random(len(answers)) < 0.3, 1)
        assert watch.state.alarm
        assert watch.state.selection is None


def test_the_bound_is_above_the_exact_level(finding):
    """Of one epoch with 40 flagged rows among 256, so many of 60 labels are those of flagged rows; another follows."""
    from scipy.stats import hypergeom

    setup = scurry.watch(finding, share=1.0, random_state=0)._record.setup
    for n_flagged in range(0, 41, 2):
        record = Record(setup, 0)
        for number in range(260):
            answer = int(number < 40 or number == 256)
            record.wait_for(number, Waiting(number, answer, answer, 0))
        for number in [*range(n_flagged), *range(40, 100 - n_flagged), 256]:
            record.learn(number)
        exact = min(hypergeom.sf(n_flagged - 1, 256, 40, 60), hypergeom.cdf(n_flagged, 256, 40, 60))
        selection = find_selection(record)
        if selection is not None:
            assert exact < 1e-6
            assert (selection.n_learned, selection.n_awaited) == (60, 196)
        elif exact < 1e-9:
            pytest.fail(f"{n_flagged} of 60 are too many, and nothing was found")
