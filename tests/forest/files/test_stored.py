"""StoredForest: arrays of a packed file are made when they are asked for, and given back by whoever needed them."""

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import scurry
from support.sklearn_models import make_data

X, Y = make_data("binary", 400)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])


def test_arrays_are_released_and_made_again(tmp_path):
    forest = scurry.from_model(RandomForestClassifier(5, random_state=0).fit(X, Y))
    forest.release()  # nothing else has its arrays
    assert forest.left is forest.left
    forest.save(tmp_path / "f.scurry")
    again = scurry.load(tmp_path / "f.scurry")
    left, parent = again.left, again.parent
    assert not again.is_packed
    again.release()
    assert again.is_packed
    assert again.left is not left
    np.testing.assert_array_equal(again.left, left)
    np.testing.assert_array_equal(again.parent, parent)


def test_runners_give_arrays_back(tmp_path):
    """Each predicts as before it was saved; none keeps arrays of nodes, which take several times its own memory."""
    two = RandomForestClassifier(10, max_depth=6, random_state=0).fit(X, Y)
    three = RandomForestClassifier(10, max_depth=6, random_state=0).fit(X, THREE)
    settings = {"max_disagreement": 0.05, "confidence": None, "random_state": 0}
    for predictor in (
        scurry.early_exit(two, X, method="qwyc", **settings),
        scurry.early_exit(two, X, method="minimixed", **settings),
        scurry.early_exit(three, X, method="qwyc", **settings),
        scurry.anytime(two, X, Y),
    ):
        predictor.save(tmp_path / "p.scurry", engine=True)
        again = scurry.load(tmp_path / "p.scurry")
        np.testing.assert_array_equal(again.predict(X), predictor.predict(X))
        assert again.forest.is_packed
        np.testing.assert_array_equal(again.predict_proba(X), predictor.predict_proba(X))
        np.testing.assert_array_equal(again.run(X).steps, predictor.run(X).steps)


def test_pages_that_predictions_do_not_read_are_let_go(tmp_path, monkeypatch):
    """What is read again is the same, before and after."""
    monkeypatch.setattr("scurry.forest.files.storage._MAPPED_FROM", 0)
    forest = scurry.from_model(RandomForestClassifier(40, random_state=0).fit(X, Y))
    for engine in (False, True):
        forest.save(tmp_path / "f.scurry", engine=engine)
        again = scurry.load(tmp_path / "f.scurry")
        np.testing.assert_array_equal(again.predict_proba(X), forest.predict_proba(X))
        again.save(tmp_path / "again.scurry", engine=engine)
        assert (tmp_path / "again.scurry").read_bytes() == (tmp_path / "f.scurry").read_bytes()
        assert again.digest == forest.digest
