"""The plot of a compression's path."""

import numpy as np
import pytest

import scurry
from scurry.display import CompressionDisplay
from scurry.errors import InputError
from scurry.promises import SizeMeasurement, SizePoint

PATH = tuple(
    SizePoint(
        node_share=1.0, split_bits=bits, n_trees=5, n_nodes=99, n_bytes=100 * bits, changed=0.1 / bits,
        accuracy=0.9 - 0.1 / bits, is_certified=bits > 9,
    )
    for bits in (12, 10, 8)
)  # fmt: skip


def measurement(**fields):
    common = {"n_nodes": 99, "full_nodes": 99, "n_trees": 5, "full_trees": 5, "path": PATH}
    return SizeMeasurement(n_bytes=1000, full_bytes=4000, changed=0.01, **common | fields)


def test_points_and_promise():
    shown = CompressionDisplay(measurement(accuracy=0.89, full_accuracy=0.9), 0.011).plot()
    line, *points = shown.ax_.lines
    np.testing.assert_allclose(line.get_xydata(), [(1200, 0.1 / 12), (1000, 0.01), (800, 0.0125)])
    assert [point.get_markerfacecolor() for point in points[:3]] == ["C0", "C0", "white"]
    assert points[3].get_xydata().tolist() == [[1000, 0.01]]
    assert points[4].get_ydata()[0] == 0.011
    assert shown.accuracy_ax_ is not None


def test_without_labels_there_is_no_accuracy():
    path = tuple(SizePoint(**{**vars(point), "accuracy": None}) for point in PATH)
    assert CompressionDisplay(measurement(path=path)).plot().accuracy_ax_ is None


def test_other_predictors_are_refused():
    leaf = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.7, 0.3]]}
    full = scurry.Predictor.full(scurry.Forest.from_trees([leaf], n_features=1))
    with pytest.raises(InputError, match=r"scurry\.compress"):
        CompressionDisplay.from_predictor(full)
