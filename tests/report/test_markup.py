"""Markup: text is escaped once, and attributes are written as HTML wants them."""

from scurry.report.markup import Markup, join, tabulate, tag


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
