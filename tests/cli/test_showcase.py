"""The work of `scurry demo`, with fewer trees."""

import pytest

from scurry.cli import showcase


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The demonstration itself with few trees, and the steps it announced."""
    steps = []
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SCURRY_DATA", raising=False)
        patch.setattr(showcase, "_N_TREES", 11)
        return showcase.run(tmp_path_factory.mktemp("demo") / "pages", steps.append), steps


def test_all_three_budgets_are_shown(small):
    found, steps = small
    ways = [[line.way for line in lines] for lines in found.models.values()]
    assert ways == [
        ["all trees", "early exit", "anytime"],
        ["all trees", "early exit"],
        ["all features", "mean within $40"],
    ]
    assert len(steps) == 6
    assert [page.name for page in found.pages] == ["report.html", "anytime.html", "budget.html"]
    assert all(page.stat().st_size > 10_000 for page in found.pages)


def test_what_is_claimed(small):
    found, _ = small
    forest, boosted, thyroid = found.models.values()
    for lines in (forest, boosted):
        assert lines[0].changed == 0
        assert lines[0].saved == 0
        assert 0 < lines[1].saved < 1
        assert lines[1].changed <= lines[1].promised == 0.005
    assert thyroid[0].changed == 0
    assert thyroid[1].saved > 0.4
    assert thyroid[1].accuracy > 0.985  # 92.6 % of patients are healthy
    assert all(line.speedup > 0 and 0.5 < line.accuracy <= 1 for lines in found.models.values() for line in lines)
