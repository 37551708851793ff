"""Charts: numbers land where the axes say."""

import re

import numpy as np

from scurry.report.charts import Axis, Chart


def test_ticks_are_round_and_inside():
    for low, high in ((0, 101), (0.8612, 0.8614), (-2.2, 2.9), (0, 1e-5), (3, 3)):
        ticks = Axis("x", low, high).find_ticks()
        assert (ticks >= low - 1e-9).all()
        assert (ticks <= high + 1e-9).all()
        assert len(ticks) <= 9


def test_values_outside_the_range_are_drawn_at_its_end():
    assert Axis("x", 2, 4).scale([0, 2, 3, 4, 9]).tolist() == [0, 0, 0.5, 1, 1]


def test_a_range_around_values_holds_them_and_has_a_width():
    for values in ([0.2, 0.4], [-1.0, 3.0], [5.0, 5.0], [0.0]):
        axis = Axis.around("x", values)
        assert axis.low <= min(values)
        assert axis.high > max(values)
        assert axis.low >= 0 or min(values) < 0


def test_a_line_has_gaps_where_values_are_missing():
    chart = Chart("title", Axis("x", 0, 3), Axis("y", 0, 1))
    chart.draw_line([0, 1, 2, 3], [0.5, np.nan, 0.5, 1.0], "main")
    (path,) = re.findall(r'd="([^"]*)" class="line main"', chart.to_svg())
    assert re.sub(r"[0-9. ]+", "", path) == "MML"
