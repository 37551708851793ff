"""Pages about papers: what stored results say, with verdicts that follow from the numbers."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from paper_claims import CLOSE, EXPLAINED, FOLDER, NOT_RUN, UNEXPLAINED, Claim, Result, count_verdicts  # noqa: E402
from paper_pages import PAGES, write_page  # noqa: E402


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_pages_are_what_results_say(path):
    assert (PAGES / f"{path.stem}.md").read_text(encoding="utf-8") == write_page(Result.load(path))


def test_every_page_has_a_result():
    assert {page.stem for page in PAGES.glob("*.md")} == {path.stem for path in FOLDER.glob("*.json")}


def test_verdicts_follow_from_the_numbers():
    near, far = (1.0, 1.2, 0.9, 1.1), (5.0, 5.1, 4.9)
    claims = [
        Claim("T", "in the interval", 1.05, near),
        Claim("T", "outside", 1.05, far),
        Claim("T", "outside, with a reason", 1.05, far, why="other rows"),
        Claim("T", "one repeat, to the published digits", 1.05, (1.0524,), tolerance=0.005),
        Claim("T", "one repeat, elsewhere", 1.05, (1.06,), tolerance=0.005),
        Claim("T", "said and seen", None, (1.0,) * 20),
        Claim("T", "said and seen in half", None, (1.0, 0.0)),
        Claim("T", "no data", 1.0, why="not published"),
    ]
    verdicts = [CLOSE, UNEXPLAINED, EXPLAINED, CLOSE, UNEXPLAINED, CLOSE, UNEXPLAINED, NOT_RUN]
    assert [claim.verdict for claim in claims] == verdicts
    assert count_verdicts(claims) == {CLOSE: 3, EXPLAINED: 1, UNEXPLAINED: 3, NOT_RUN: 1}


def test_the_interval_holds_a_published_mean_in_95_of_100_cases():
    """Both means scatter: that of 12 repeats here, and that of 30 published ones."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(2000):
        ours = tuple(rng.normal(3.0, 0.7, 12))
        lowest, highest = Claim("T", "x", 3.0, ours, n_published=30).interval
        inside += lowest <= rng.normal(3.0, 0.7, 30).mean() <= highest
    assert 0.935 < inside / 2000 < 0.965
