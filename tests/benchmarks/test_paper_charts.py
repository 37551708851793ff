"""Charts of papers: every point at its place, drawn from what was stored."""

import re
import sys
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from paper_charts import HEIGHT, LEFT, TOP, WIDTH, Chart, Series, draw


def _points(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]


@pytest.mark.parametrize("log", [False, True])
def test_points_are_where_their_values_are(log):
    chart = Chart("F", "f", "a < b", "x", "y", (Series("s", (1, 10, 100), (3, 2, 1), "points"),), log_x=log)
    svg = draw(chart)
    ElementTree.fromstring(svg)  # the caption's "<" is escaped
    (first, middle, last, *_) = _points(svg)
    assert LEFT <= first[0] < middle[0] < last[0] < WIDTH
    assert TOP < first[1] < middle[1] < last[1] < HEIGHT  # down is less
    share = (middle[0] - first[0]) / (last[0] - first[0])
    assert share == pytest.approx(0.5 if log else 1 / 11, abs=0.01)


def test_names_stand_instead_of_numbers():
    chart = Chart("F", "f", "c", "x", "", (Series("s", (0.1, 0.2), (0, 1), "squares"),), y_names=("adult", "magic"))
    svg = draw(chart)
    assert ">adult<" in svg
    assert ">magic<" in svg


def test_a_stored_chart_is_drawn_the_same():
    chart = Chart("F", "f", "c", "x", "y", (Series("s", (1.0,), (2.0,), "bars"), Series("t", (1.0, 2.0), (2.0, 2.0))))
    assert draw(Chart.of(asdict(chart))) == draw(chart)
