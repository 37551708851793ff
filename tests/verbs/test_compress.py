"""scurry.compress: promises, sizes, refusals, and what a compressed predictor is good for."""

import json
import warnings

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import scurry
from scurry.errors import FormatError, InfeasibleError, InputError
from scurry.promises import (
    Accuracy,
    Certain,
    Certificate,
    Cost,
    Labels,
    LabelsPerClass,
    Recall,
    SizePoint,
    Values,
)

RNG = np.random.default_rng(7)
X = RNG.normal(size=(9000, 6)).astype(np.float32)
Y = np.where(X[:, 0] * X[:, 1] + X[:, 2] + RNG.normal(size=9000) > 0, "yes", "no")
TRAIN, CAL, TEST = slice(0, 2000), slice(2000, 6000), slice(6000, None)
TARGET = X[:, 0] * X[:, 1] + X[:, 2]


@pytest.fixture(scope="module")
def model():
    return RandomForestClassifier(40, random_state=0).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def by_labels(model):
    return scurry.compress(model, X[CAL])


@pytest.fixture(scope="module")
def by_accuracy(model):
    return scurry.compress(model, X[CAL], Y[CAL], promise=Accuracy(0.02), X_fit=X[TRAIN])


def test_labels(model, by_labels):
    measured, certificate = by_labels.certificate.measured, by_labels.certificate
    assert by_labels.promise == Labels(0.005)
    assert measured.n_bytes < measured.full_bytes / 1.2
    assert measured.n_nodes == measured.full_nodes
    assert certificate.n_rows == 4000
    assert certificate.bound <= 0.005
    changed = by_labels.predict(X[CAL]) != model.predict(X[CAL])
    assert certificate.n_broken == changed.sum()
    assert measured.changed == changed.mean()
    assert (by_labels.predict(X[TEST]) != model.predict(X[TEST])).mean() < 0.007


def test_accuracy(model, by_accuracy):
    measured = by_accuracy.certificate.measured
    assert measured.n_nodes < 0.1 * measured.full_nodes
    assert measured.n_bytes < 0.25 * measured.full_bytes
    assert measured.full_accuracy == (model.predict(X[CAL]) == Y[CAL]).mean()
    assert measured.accuracy == (by_accuracy.predict(X[CAL]) == Y[CAL]).mean()
    lost = (model.predict(X[TEST]) == Y[TEST]).mean() - (by_accuracy.predict(X[TEST]) == Y[TEST]).mean()
    assert lost < 0.025
    assert by_accuracy.certificate.n_fit_rows == 2000
    probabilities = by_accuracy.predict_proba(X[TEST])
    assert probabilities.min() >= 0
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_path(by_accuracy):
    path = by_accuracy.certificate.measured.path
    sizes = [point.n_bytes for point in path]
    assert sizes == sorted(sizes, reverse=True)
    certified = [point.is_certified for point in path]
    assert certified == sorted(certified, reverse=True)
    last = [point for point in path if point.is_certified][-1]
    assert last.n_bytes == by_accuracy.certificate.measured.n_bytes
    assert last.n_nodes == by_accuracy.forest.n_nodes
    # A point says how to make its forest again.
    from scurry.compression.path import Compressor, Step

    model = scurry.from_model(RandomForestClassifier(40, random_state=0).fit(X[TRAIN], Y[TRAIN]))
    again = Compressor(model, X[TRAIN]).make(Step(last.node_share, last.split_bits))
    assert again.digest == by_accuracy.forest.digest


def test_without_fit_rows_covers_weigh_splits(model):
    small = scurry.compress(model, X[CAL], Y[CAL], promise=Accuracy(0.02))
    assert small.certificate.n_fit_rows == 0
    assert small.forest.n_nodes < 0.4 * small.certificate.measured.full_nodes


def test_saved_and_loaded(by_accuracy, tmp_path):
    by_accuracy.save(tmp_path / "small.scurry")
    loaded = scurry.load(tmp_path / "small.scurry")
    assert loaded.certificate.measured == by_accuracy.certificate.measured
    assert str(loaded.summary()) == str(by_accuracy.summary())
    np.testing.assert_array_equal(loaded.predict(X[TEST]), by_accuracy.predict(X[TEST]))


def test_summary(by_accuracy):
    text = str(by_accuracy.summary())
    assert "accuracy is at most 2 points below" in text
    assert "times smaller than the model's" in text
    assert by_accuracy.certificate.recipe.startswith("scurry.compress(model, X_cal, y_cal, promise=")


@pytest.mark.parametrize("change", [{"path": 3}, {"path": [{"node_share": "all"}]}, {"path": [{"extra": 1}]}])
def test_damaged_paths_are_refused(by_accuracy, change):
    data = json.loads(json.dumps(by_accuracy.certificate.to_json()))
    assert Certificate.from_json(data).measured == by_accuracy.certificate.measured
    data["measured"] |= change
    with pytest.raises(FormatError):
        Certificate.from_json(data)
    with pytest.raises(FormatError):
        SizePoint.from_json({"node_share": 0.5})


def test_size_alone(model, tmp_path):
    small = scurry.compress(model, X[CAL], max_bytes=30_000)
    measured, file = small.certificate.measured, tmp_path / "small.scurry"
    small.save(file)
    assert measured.n_bytes < file.stat().st_size <= 30_000
    # The path ends with the first whose file fits: the one before it, which is larger by more than that, did not.
    assert [point.n_bytes for point in measured.path][-1] == measured.n_bytes
    assert measured.path[-2].n_bytes + file.stat().st_size - measured.n_bytes > 30_000
    assert small.promise is None
    assert "chosen by its size" in small.certificate.statement()


@pytest.mark.parametrize("promise", [None, Labels(0.005)])
def test_the_smallest_file_is_named_and_can_be_had(model, promise, tmp_path):
    with pytest.raises(
        InfeasibleError, match=r"too small: the file of the smallest (candidate|that keeps the promise)"
    ) as caught:
        scurry.compress(model, X[CAL], promise=promise, max_bytes=10)
    least = int(caught.value.achievable)
    file = tmp_path / "small.scurry"
    small = scurry.compress(model, X[CAL], promise=promise, max_bytes=least)
    small.save(file)
    assert file.stat().st_size == least
    with pytest.raises(InfeasibleError, match=f"takes {least:,} bytes"):
        scurry.compress(model, X[CAL], promise=promise, max_bytes=least - 1)


def test_another_size(model):
    """The first candidate that is small enough by a measure of one's own."""
    small = scurry.compress(model, X[CAL], max_bytes=400, size_of=lambda forest: forest.n_nodes)
    assert small.forest.n_nodes <= 400 < small.certificate.measured.path[-2].n_nodes
    assert "size_of=size_of" in small.certificate.recipe
    # A forest that is too large to be measured is too large.
    small = scurry.compress(model, X[CAL], max_bytes=400, size_of=at_most(1000))
    assert small.forest.n_nodes <= 400
    with pytest.raises(InfeasibleError, match=r"smallest candidate takes [0-9]+ bytes. Allow as many"):
        scurry.compress(model, X[CAL], max_bytes=1, size_of=lambda forest: forest.n_nodes)
    with pytest.raises(InputError, match="more than 1 nodes"):
        scurry.compress(model, X[CAL], max_bytes=1, size_of=at_most(1))


def at_most(most):
    def size_of(forest):
        if forest.n_nodes > most:
            raise InputError(f"more than {most} nodes")
        return forest.n_nodes

    return size_of


def test_nothing_is_certified_without_a_promise(model, by_labels):
    path = scurry.compress(model, X[CAL], max_bytes=30_000).certificate.measured.path
    assert {point.is_certified for point in path} == {None}
    assert None not in {point.is_certified for point in by_labels.certificate.measured.path}
    assert SizePoint.from_json(vars(path[0])) == path[0]


def test_size_and_promise(model, by_labels, tmp_path):
    """The first that is certified and whose file fits, though smaller ones are certified too."""
    first = by_labels.certificate.measured.path[0].n_bytes
    small = scurry.compress(model, X[CAL], promise=Labels(0.005), max_bytes=first + 8000)
    small.save(tmp_path / "small.scurry")
    assert (tmp_path / "small.scurry").stat().st_size <= first + 8000
    assert small.certificate.measured.n_bytes == first > by_labels.certificate.measured.n_bytes
    assert small.promise == Labels(0.005)


def test_every_label_kept(model):
    small = scurry.compress(model, X[CAL], promise=Labels(0.0))
    np.testing.assert_array_equal(small.predict_proba(X), model.predict_proba(X))
    assert small.promise.describe() == "Every row gets the model's label."


def test_classes_and_recall(model):
    small = scurry.compress(model, X[CAL], promise=LabelsPerClass({"yes": 0.01, "no": 0.02}))
    assert [test.max_rate for test in small.certificate.tests] == [0.02, 0.01]
    assert small.certificate.measured.n_bytes < small.certificate.measured.full_bytes / 1.2
    small = scurry.compress(model, X[CAL], Y[CAL], promise=Recall("yes", 0.05, 0.05))
    assert all(test.bound <= 0.05 for test in small.certificate.tests)


@pytest.mark.parametrize(
    "regressor", [RandomForestRegressor(30, random_state=0), GradientBoostingRegressor(random_state=0)]
)
def test_values(regressor):
    model = regressor.fit(X[TRAIN], TARGET[TRAIN])
    rmse = np.sqrt(np.square(model.predict(X[CAL]) - TARGET[CAL]).mean())
    small = scurry.compress(model, X[CAL], TARGET[CAL], promise=Values(rmse / 2), X_fit=X[TRAIN])
    measured = small.certificate.measured
    assert measured.n_bytes < 0.8 * measured.full_bytes
    far = np.abs(small.predict(X[TEST]) - model.predict(X[TEST])) > rmse / 2
    assert far.mean() < 0.06
    assert measured.rmse < 1.2 * measured.full_rmse


def test_probabilities(model):
    small = scurry.compress(model, X[CAL], promise=Values(0.05, of="probability"), X_fit=X[TRAIN])
    far = np.abs(small.predict_proba(X[TEST]) - model.predict_proba(X[TEST]))[:, 1] > 0.05
    assert far.mean() < 0.06


def test_frames_are_like_arrays(by_labels):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    names = [f"f{i}" for i in range(6)]
    frame = pd.DataFrame(X, columns=names)
    named = RandomForestClassifier(40, random_state=0).fit(frame[TRAIN], Y[TRAIN])
    for table in (frame[CAL], pl.DataFrame(X[CAL], schema=names)):
        small = scurry.compress(named, table[names[::-1]])
        # Only the names make its file a little larger.
        ours, wanted = small.certificate.measured.path, by_labels.certificate.measured.path
        assert [(p.changed, p.is_certified) for p in ours] == [(p.changed, p.is_certified) for p in wanted]


def test_rows_that_must_not_certify(model):
    with pytest.warns(UserWarning, match="trained the model"):
        small = scurry.compress(model, X[TRAIN])
    assert small.promise is None
    with pytest.warns(UserWarning, match="among those of X_fit"):
        small = scurry.compress(model, X[CAL], X_fit=X[:3000])
    assert small.certificate.n_rows == 3000
    with pytest.warns(UserWarning, match="copies"):
        small = scurry.compress(model, np.tile(X[2000:4000], (2, 1)))
    assert (small.certificate.n_rows, small.certificate.unit) == (2000, "distinct row")


def test_progress_may_end_the_search(model):
    seen = []
    scurry.compress(model, X[CAL], progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scurry.compress(model, X[CAL], progress=stop)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"promise": Accuracy(0.01)}, "y_cal is needed"),
        ({"promise": Cost(3)}, "compress can promise Labels"),
        ({"promise": Certain()}, "compress can promise Labels"),
        ({"promise": 0.005}, "compress can promise Labels"),
        ({"promise": Labels(0.01, against="vote")}, "leave `against`"),
        ({"promise": Values(0.1)}, 'promise Values\\(…, of="probability"\\)'),
        ({"promise": Values(0.1, of="log-odds")}, "log-odds need"),
        ({"promise": Recall("maybe", 0.1)}, "maybe"),
        ({"max_bytes": 0}, "max_bytes must be a whole number"),
        ({"max_bytes": 1e6}, "max_bytes must be a whole number"),
        ({"size_of": len}, "pass max_bytes too"),
        ({"max_bytes": 9, "size_of": "flash"}, "size_of must be a function"),
        ({"X_fit": X[:0]}, "X_fit has no rows"),
        ({"y_cal": Y[:7]}, "y_cal has shape"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"progress": 3}, "progress must be"),
    ],
)
def test_misuse_is_refused(model, asked, message):
    with pytest.raises(InputError, match=message):
        scurry.compress(model, X[CAL], **asked)


def test_misuse_of_rows_is_refused(model):
    with pytest.raises(InputError, match="X_cal has no rows"):
        scurry.compress(model, X[:0])
    with pytest.raises(InfeasibleError, match="at least 598 are needed") as caught:
        scurry.compress(model, X[2000:2100])
    assert caught.value.n_rows_needed == 598
    regressor = RandomForestRegressor(3, random_state=0).fit(X[:200], TARGET[:200])
    with pytest.raises(InputError, match=r"promise=scurry\.promises\.Values"):
        scurry.compress(regressor, X[CAL])
    with pytest.raises(InputError, match="the model is a regressor"):
        scurry.compress(regressor, X[CAL], promise=Labels(0.01))


def test_no_candidate_fails_in_silence():
    """One tree of one split cannot become smaller, and stays as it is."""
    stump = RandomForestClassifier(1, max_depth=1, random_state=0).fit(X[TRAIN], Y[TRAIN])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = scurry.compress(stump, X[CAL])
    np.testing.assert_array_equal(small.predict(X), stump.predict(X))


def test_a_watch_cannot_compare_with_a_model_that_is_not_there(by_labels):
    with pytest.raises(InputError, match="does not hold the model"):
        scurry.watch(by_labels)
