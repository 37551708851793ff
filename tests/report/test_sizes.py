"""The page of a compressed forest."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import InputError
from scurry.promises import Accuracy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 4)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] + RNG.normal(size=3000) > 0).astype(int)


@pytest.fixture(scope="module")
def model():
    return RandomForestClassifier(15, random_state=0).fit(X[:800], Y[:800])


@pytest.fixture(scope="module")
def small(model):
    return scurry.compress(model, X[800:2400], Y[800:2400], promise=Accuracy(0.03), X_fit=X[:800])


def test_promise_is_compared_with_the_original_model(small, model, tmp_path):
    page = scurry.report.write(small, tmp_path / "page.html", X[2400:], Y[2400:], model=model).read_text("utf-8")
    measured = small.certificate.measured
    assert f"{measured.full_nodes:,}" in page
    assert "times smaller than the model it was made of" in page
    assert "Fall of accuracy" in page
    changed = (small.predict(X[2400:]) != model.predict(X[2400:])).mean()
    assert f"{100 * changed:.2f} %" in page.replace("\u00a0", " ")
    assert page.count("distinct splits") >= len(measured.path) - 1


def test_alone_it_claims_nothing(small, tmp_path):
    page = scurry.report.write(small, tmp_path / "page.html", X[2400:]).read_text("utf-8")
    assert "pass model= to compare" in page
    assert 'class="badge' not in page


def test_another_model_is_refused(small, tmp_path):
    other = RandomForestClassifier(15, random_state=1).fit(X[:800], Y[:800])
    with pytest.raises(InputError, match="not the one that this forest was made of"):
        scurry.report.write(small, tmp_path / "page.html", X[2400:], Y[2400:], model=other)
