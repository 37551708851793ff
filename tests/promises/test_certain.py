"""A promise without rows, confidence or anything to choose."""

import pytest

from scurry.errors import InputError
from scurry.promises import Certain, Certificate, Labels, Promise


def test_it_is_certain():
    promise = Certain()
    assert promise.confidence == 1.0
    assert promise.max_rate == 0.0
    assert promise.rows_needed() == 0
    assert promise.describe() == "Every possible input gets the model's label, which is proven from the trees."
    assert promise == Certain()
    assert promise != Labels(0.0)
    assert repr(promise) == "Certain()"


def test_there_is_nothing_to_choose():
    with pytest.raises(TypeError):
        Certain(confidence=0.9)


def test_json_round_trip():
    assert Certain().to_json() == {"kind": "certain"}
    assert Promise.from_json({"kind": "certain"}) == Certain()
    certificate = Certificate(method="bounds", promise=Certain())
    assert Certificate.from_json(certificate.to_json()).promise == Certain()
    assert certificate.lines()["promise"] == Certain().describe()


def test_a_text_asks_for_it():
    assert Promise.parse("certain") == Certain()
    assert Promise.parse(" certain ", confidence=0.9) == Certain()
    with pytest.raises(InputError, match="'certain'"):
        Promise.parse("certainly")


def test_groups_mean_nothing():
    with pytest.raises(InputError, match="groups"):
        Certain().about_groups()
