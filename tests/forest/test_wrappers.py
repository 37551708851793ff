"""Wrappers as data: what they check, and what they answer for given members."""

import numpy as np
import pytest

import scurry
from scurry.errors import FormatError, InputError
from scurry.forest import Averaged, Calibrated, Isolation, OneVsRest, Samme, Thresholded, Voted, Wrapper, as_member
from scurry.forest.wrappers import logistic, softmax


def leaf(shares, classes=None):
    """A forest that gives every row the same probabilities."""
    tree = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [shares]}
    return as_member(scurry.Forest.from_trees([tree], n_features=1), classes or range(len(shares)))


def answer(wrapper, n_classes=2):
    """Labels and probabilities of a forest that wraps leaves."""
    trees = [{"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.5] * n_classes]}]
    whole = scurry.Forest.from_trees(trees * max(len(wrapper.members), 1), n_features=1)
    forest = whole.replace(wrapper=wrapper)
    return forest.predict([[0.0]])[0], forest.predict_proba([[0.0]])[0].tolist()


def test_means_with_weights_and_members_that_know_some_classes():
    members = (leaf([0.5, 0.5], [0, 2]), leaf([0.25, 0.5, 0.25]))
    assert answer(Averaged(members=members, n_classes=3), 3) == (0, [0.375, 0.25, 0.375])
    assert answer(Averaged(members=members, n_classes=3, weights=(1.0, 3.0)), 3) == (1, [0.3125, 0.375, 0.3125])


def test_the_first_of_classes_with_equal_votes_wins():
    members = (leaf([0.2, 0.8, 0.0]), leaf([0.9, 0.1, 0.0]), leaf([0.0, 0.0, 1.0]))
    assert answer(Voted(members=members, n_classes=3), 3)[0] == 0
    assert answer(Voted(members=members, n_classes=3, weights=(1.0, 1.0, 2.0)), 3) == (2, [0.25, 0.25, 0.5])


@pytest.mark.parametrize("last_wins", [False, True])
def test_one_vs_rest_ties(last_wins):
    members = (leaf([0.5, 0.5]), leaf([0.5, 0.5]), leaf([0.75, 0.25]))
    label, shares = answer(OneVsRest(members=members, response="probability", last_wins=last_wins), 3)
    assert label == int(last_wins)
    assert shares == [0.4, 0.4, 0.2]


def test_one_vs_rest_of_classes_without_any_share():
    members = (leaf([1.0, 0.0]),) * 3
    assert answer(OneVsRest(members=members, response="probability"), 3) == (0, [0.0, 0.0, 0.0])


def test_a_threshold_that_is_met():
    for positive, threshold, label in ((1, 0.25, 1), (1, 0.2500001, 0), (0, 0.75, 0), (0, 0.7500001, 1)):
        wrapper = Thresholded(
            members=(leaf([0.75, 0.25]),), response="probability", positive=positive, threshold=threshold
        )
        assert answer(wrapper) == (label, [0.75, 0.25])


def test_calibrated_without_any_share_is_uniform():
    maps = ((0.0, 1.0, 0.0, 0.0),) * 3
    wrapper = Calibrated(
        members=(leaf([0.5, 0.25, 0.25]),), n_classes=3, method="isotonic", response="probability", maps=maps
    )
    assert answer(wrapper, 3) == (0, [1 / 3, 1 / 3, 1 / 3])


def test_isotonic_maps_of_one_knot_and_beyond_their_ends():
    def shares(maps, response):
        wrapper = Calibrated(n_classes=2, method="isotonic", response="score", maps=(maps,))
        return wrapper.calibrate(np.array([[response]]), np.arange(2))[0].tolist()

    assert shares((0.5, 0.25), 7.0) == [0.75, 0.25]
    assert shares((0.0, 1.0, 0.0, 0.5), 7.0) == [0.5, 0.5]
    assert shares((0.0, 1.0, 0.0, 0.5), -7.0) == [1.0, 0.0]
    assert shares((0.0, 1.0, 0.0, 0.5), 0.5) == [0.75, 0.25]


def test_logistic_is_scipys():
    from scipy.special import expit

    z = np.random.default_rng(0).normal(0, 5, 5000)
    np.testing.assert_array_equal(logistic(z), expit(z))


def test_softmax_is_scikit_learns():
    from sklearn.utils.extmath import softmax as theirs

    z = np.random.default_rng(0).normal(0, 5, (500, 4))
    np.testing.assert_array_equal(softmax(z), theirs(z))


WRONG = {
    "weights": lambda: Averaged(members=(leaf([0.5, 0.5]),), n_classes=2, weights=(1.0, 2.0)),
    "no weight": lambda: Voted(members=(leaf([0.5, 0.5]),), n_classes=2, weights=(0.0,)),
    "text": lambda: Voted(members=(leaf([0.5, 0.5]),), n_classes=2, weights=("a",)),
    "dtype": lambda: Averaged(members=(leaf([0.5, 0.5]),), n_classes=2, dtype="float16"),
    "method": lambda: Calibrated(n_classes=2, method="beta", response="score", maps=((1.0, 2.0),)),
    "no maps": lambda: Calibrated(n_classes=2, method="sigmoid", response="score", maps=()),
    "size of maps": lambda: Calibrated(n_classes=2, method="sigmoid", response="score", maps=((1.0,),)),
    "places": lambda: Calibrated(n_classes=2, method="isotonic", response="score", maps=((1.0, 0.0, 0.0, 1.0),)),
    "infinite": lambda: Calibrated(n_classes=2, method="sigmoid", response="score", maps=((np.inf, 1.0),)),
    "two members": lambda: Thresholded(members=(1, 2), response="score", positive=1, threshold=0.5),
    "class": lambda: Thresholded(members=(1,), response="score", positive=2, threshold=0.5),
    "response": lambda: OneVsRest(response="vote"),
    "total": lambda: Samme(n_classes=2, total=0.0),
    "offset": lambda: Isolation(expected=1.0, offset=np.nan),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_fields_raise(name):
    with pytest.raises(InputError):
        WRONG[name]()


def test_members_must_fit_the_forest():
    whole = leaf([0.5, 0.5])
    with pytest.raises(InputError, match="all trees"):
        whole.replace(wrapper=Averaged(members=(whole, whole), n_classes=2))
    with pytest.raises(InputError, match="numbers of the forest's classes"):
        whole.replace(wrapper=Averaged(members=(leaf([0.5, 0.5], [0, 2]),), n_classes=2))
    with pytest.raises(InputError, match="a model of two classes for each class"):
        leaf([0.5, 0.25, 0.25]).replace(wrapper=OneVsRest(members=(whole,), response="score"))
    regressor = whole.replace(classes=None, value=[[1.0]], base_score=[0.0])
    with pytest.raises(InputError, match="must be classifiers if the forest is"):
        whole.replace(wrapper=Averaged(members=(regressor,), n_classes=2))
    with pytest.raises(InputError, match="belong to models inside"):
        whole.replace(wrapper=Averaged(members=(whole,), n_classes=2)).replace(value=[[1.0, 0.0]])


def test_unknown_tags_and_fields_of_files():
    with pytest.raises(FormatError, match="must be one of averaged"):
        Wrapper.from_json({"tag": "stacked"}, ())
    with pytest.raises(FormatError, match="has other fields"):
        Wrapper.from_json({"tag": "samme", "total": 1.0}, ())
    with pytest.raises(FormatError):
        Wrapper.from_json([1], ())
