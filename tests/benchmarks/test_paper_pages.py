"""Pages about papers: what stored results say, with verdicts that follow from the numbers."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from paper_claims import (  # noqa: E402
    CLOSE,
    EXPLAINED,
    FOLDER,
    NOT_RUN,
    UNDECIDED,
    UNEXPLAINED,
    Claim,
    Result,
    Table,
    count_verdicts,
)
from paper_pages import PAGES, write_all, write_counts, write_open, write_page  # noqa: E402
from paper_pictures import Line, Picture  # noqa: E402


def test_pages_and_pictures_are_what_results_say():
    written = write_all()
    assert {page.name for page in PAGES.iterdir()} == written.keys()
    for name, text in written.items():
        assert (PAGES / name).read_text(encoding="utf-8") == text, name


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_what_explains_a_difference_is_in_the_result(path):
    assert Result.load(path).unfounded() == []


def test_evidence_is_a_table_a_note_or_a_reading_that_is_close():
    open_claim = Claim("T", "x", 1.0, (2.0,), evidence="Otherwise")
    assert open_claim.verdict == EXPLAINED
    for reading, unfounded in ((1.0, []), (3.0, ["x"])):
        readings = (Claim("Otherwise", "x", 1.0, (reading,)),)
        assert Result("p", "P", "", (open_claim,), readings=readings).unfounded() == unfounded
    assert Result("p", "P", "", (open_claim,)).unfounded() == ["x"]
    assert Result("p", "P", "", (open_claim,), tables=(Table("Otherwise", (), ()),)).unfounded() == []
    assert Result("p", "P", "", (open_claim,), notes=("**Otherwise.** Said.",)).unfounded() == []


def test_a_repeat_without_an_answer_is_no_figure():
    with pytest.raises(ValueError, match="left out, and told of"):
        Claim("T", "x", None, (0.1, float("nan")), above=0.0)


def test_claims_on_other_data_are_counted_apart():
    near, far, missing = (Claim("T", "x", 1.0, obtained) for obtained in ((1.0,), (2.0,), ()))
    counted = write_counts([Result("p", "P", "", (near, near, far, missing), stand_ins=(far,), further=(far,))])
    assert "| [p](papers/p.md) | 2 | 0 | 1 | 0 | 1 | 2 of 3, 66.7 % |" in counted
    assert "| all | 2 | 0 | 1 | 0 | 1 | 2 of 3, 66.7 % |" in counted
    assert "| [p](papers/p.md) | 0 | 0 | 1 | 0 | 0 | 0 of 1, 0.0 % |" in counted


def test_what_stays_open_is_listed():
    claims = [
        Claim("T", "near", 1.0, (1.0,)),
        Claim("T", "far", 1.0, (2.0,)),
        Claim("T", "far, with evidence", 1.0, (2.0,), evidence="Otherwise"),
        Claim("T", "maybe", None, (-1.0, 1.0), above=0.0),
        Claim("T", "no data", 1.0),
    ]
    lines = write_open([Result("p", "P", "", tuple(claims), stand_ins=tuple(claims))]).splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == [f"| [p](papers/p.md), T: {what}" for what in ("far", "maybe")]


def test_verdicts_follow_from_the_numbers():
    near, far = (1.0, 1.2, 0.9, 1.1), (5.0, 5.1, 4.9)
    claims = [
        Claim("T", "in the interval", 1.05, near),
        Claim("T", "outside", 1.05, far),
        Claim("T", "outside, with evidence", 1.05, far, evidence="Other rows"),
        Claim("T", "outside, with a guess", 1.05, far, why="other rows"),
        Claim("T", "one repeat, to the published digits", 1.05, (1.0524,), tolerance=0.005),
        Claim("T", "one repeat, elsewhere", 1.05, (1.06,), tolerance=0.005),
        Claim("T", "said and seen", None, (1.0,) * 20),
        Claim("T", "said and seen in half", None, (1.0, 0.0)),
        Claim("T", "no data", 1.0, why="not published"),
        Claim("T", "said to be better, and is", None, near, above=0.5),
        Claim("T", "said to be better, and may be", None, near, above=1.0),
        Claim("T", "said to be better, and is not", None, near, above=2.0),
        Claim("T", "in the interval of figures drawn again", 1.05, (1.5,), resampled=(1.0, 1.4, 1.6, 2.0), n_repeats=9),
        Claim("T", "outside of it", 0.8, (1.5,), resampled=(1.0, 1.4, 1.6, 2.0), n_repeats=9),
    ]
    verdicts = [CLOSE, UNEXPLAINED, EXPLAINED, UNEXPLAINED, CLOSE, UNEXPLAINED, CLOSE, UNEXPLAINED, NOT_RUN]
    verdicts += [CLOSE, UNDECIDED, UNEXPLAINED, CLOSE, UNEXPLAINED]
    assert [claim.verdict for claim in claims] == verdicts
    assert count_verdicts(claims) == {CLOSE: 5, EXPLAINED: 1, UNEXPLAINED: 6, UNDECIDED: 1, NOT_RUN: 1}


def test_a_published_mean_that_scatters_as_much_widens_an_interval_of_figures_drawn_again():
    drawn = tuple(np.random.default_rng(0).normal(3.0, 0.1, 1000))
    alone, beside = (Claim("T", "x", 3.0, (3.0,), resampled=drawn, n_repeats=10, n_published=n) for n in (None, 10))
    width = alone.interval[1] - alone.interval[0]
    assert width == pytest.approx(4 * 0.1 * 0.98, rel=0.1)
    assert beside.interval[1] - beside.interval[0] == pytest.approx(np.sqrt(2) * width)


def test_results_are_read_as_they_were_written(tmp_path, monkeypatch):
    monkeypatch.setattr("paper_claims.FOLDER", tmp_path)
    claim = Claim("T", "x", 1.0, (1.5,), resampled=(1.0, 2.0), n_repeats=9)
    picture = Picture(
        "curve", "T", "Curve", "cost", "error", (Line("ours", (0.0, 1.0), (2.0, 3.0), (1.0, 2.0), (3.0, 4.0)),)
    )
    table = Table("More", ("a", "b"), (("1", "2"),), "Said.")
    further = {"readings": (claim,), "pictures": (picture,), "tables": (table,)}
    result = Result("p", "P", "scurry reproduce p", (claim,), ("Note.",), **further)
    again = Result.load(result.store())
    assert again.tables == (table,)
    assert (again.claims, again.readings, again.pictures) == ((claim,), (claim,), (picture,))
    page = write_page(again)
    assert "![Curve](p-curve.svg)" in page
    assert page.count("| x | 1.00 % | 1.50 % | 9 |") == 2
    assert "## More\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\nSaid.\n" in page


def test_pictures_hold_every_line_within_their_axes():
    line = Line("ours", (0.0, 3.0, 7.0), (0.12, 0.31, 0.2), color=1)
    svg = Picture("a", "T", "Title", "cost", "error", (line, Line("points", (1.0,), (0.25,), marks=True))).svg()
    first = next(part for part in svg.splitlines() if "#1f6fb2" in part)
    points = [tuple(map(float, pair.split(","))) for pair in first.split('"')[1].split()]
    assert len(points) == 3
    assert all(70 <= x <= 540 and 46 <= y <= 360 for x, y in points)
    assert points[0][0] < points[1][0] < points[2][0]
    assert points[1][1] < points[2][1] < points[0][1]
    for text in ("Title", "cost", "error", "ours", "points"):
        assert f">{text}<" in svg


def test_pictures_can_have_names_on_an_axis():
    svg = Picture("a", "T", "Title", "", "NMA", (Line("x", (0.0, 1.0), (0.5, 0.6)),), x_names=("adult", "magic")).svg()
    assert svg.index(">adult<") < svg.index(">magic<")


def test_an_axis_of_logarithms_shows_the_numbers():
    line = Line("x", (8.0, 12.0), (-3.0, 0.0))
    svg = Picture("a", "T", "Title", "log2 of rows", "log10 of seconds", (line,)).svg()
    for text in ("rows", "seconds", "256", "4,096", "0.001", "0.1", "1"):
        assert f">{text}<" in svg
    assert "log" not in svg


def test_the_interval_holds_a_published_mean_in_95_of_100_cases():
    """Both means scatter: that of 12 repeats here, and that of 30 published ones."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(2000):
        ours = tuple(rng.normal(3.0, 0.7, 12))
        lowest, highest = Claim("T", "x", 3.0, ours, n_published=30).interval
        inside += lowest <= rng.normal(3.0, 0.7, 30).mean() <= highest
    assert 0.935 < inside / 2000 < 0.965
