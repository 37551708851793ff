"""Saved models next to YDF itself; `make interop` runs this."""

import numpy as np
import pytest

import scurry
from support.ydf_models import KINDS, data, strange, train

pytest.importorskip("ydf")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", KINDS)
def test_answers_are_those_of_ydf(name, tmp_path):
    model = train(name, num_trees=30, max_depth=6, n_rows=2000)
    model.save(str(tmp_path / "model"))
    forest = scurry.from_model(tmp_path / "model")
    for table in (data(20_000, seed=5)[0], strange(data(20_000, seed=6)[0])):
        expected = model.predict(table)
        ours = forest.predict_proba(table) if forest.is_classifier else forest.predict(table)
        ours = ours[:, 1] if forest.is_classifier and expected.ndim == 1 else ours
        np.testing.assert_allclose(ours, expected, atol=1e-6)
        if forest.is_classifier:
            assert [str(label) for label in forest.classes] == model.label_classes()
