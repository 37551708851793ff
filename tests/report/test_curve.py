"""The section about other budgets: what the script shows is what was measured."""

import json
import re

import numpy as np

from scurry.formatting import format_share
from scurry.report.page import render_curve
from scurry.report.story import Column, Curve

CURVE = Curve(
    budget="trees per row",
    spent=np.array([1.0, 2.5, 4.0]),
    columns=[Column("labels changed", np.array([0.5, 0.25, 0.0]), format_share), Column("nodes", np.array([3, 6, 9]))],
    calls=["</script>", "b", "c"],
    start=1,
    shipped=None,
    n_drawn=1,
    bound=0.3,
    note="",
)


def test_the_script_gets_every_budget():
    html = render_curve(CURVE)
    data = json.loads(re.search(r'id="budgets">(.*?)</script>', html)[1])
    assert [point["call"] for point in data["points"]] == CURVE.calls
    assert [point["values"] for point in data["points"]] == [["50.00 %", "3"], ["25.00 %", "6"], ["0 %", "9"]]
    assert data["markers"] == ["marker-0"]
    marker = re.search(r'<circle cx="(.*?)" cy="(.*?)"', html).groups()
    assert data["points"][CURVE.start]["places"] == [[float(place) for place in marker]]


def test_the_bound_is_drawn_where_it_is_in_sight():
    assert "promised: at most 30 %" in render_curve(CURVE)
    assert "promised" not in render_curve(CURVE._replace(bound=0.9))


def test_without_a_choice_there_is_no_section():
    assert render_curve(None) is None
    assert render_curve(CURVE._replace(spent=np.array([1.0]))) is None
