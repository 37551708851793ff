"""Markup: text is escaped once, and attributes are written as HTML wants them."""

import re

import numpy as np

from scurry.report.markup import Axis, Chart, Markup, join, tabulate, tag


def test_text_is_escaped_and_markup_is_not():
    assert tag("p", "a < b", tag("b", "&")) == "<p>a &lt; b<b>&amp;</b></p>"
    assert join("<", None, Markup("<br>"), 3) == "&lt;<br>3"


def test_attributes():
    assert tag("input", hidden=True, id=None, checked=False, min=0) == '<input hidden min="0">'
    assert tag("path", stroke_width=2, class_='"') == '<path stroke-width="2" class="&quot;"></path>'


def test_tables_name_their_rows_and_columns():
    html = tabulate(["Name", "Value"], [["a", 1], ["b", 2]], caption="Numbers")
    assert html.count('scope="col"') == html.count('scope="row"') == 2
    assert '<td class="n">2</td>' in html
    assert 'aria-label="Numbers"' in html


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
