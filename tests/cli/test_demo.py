"""`scurry demo`: the table says what the demonstration found."""

import json
import re

import pytest

from scurry.cli import showcase as demo
from scurry.cli.showcase import Demonstration, Line


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The demonstration itself with few trees, and the steps it announced."""
    steps = []
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SCURRY_DATA", raising=False)
        patch.setattr(demo, "_N_TREES", 11)
        return demo.run(tmp_path_factory.mktemp("demo") / "pages", steps.append), steps


def test_all_three_budgets_are_shown(small):
    found, steps = small
    ways = [[line.way for line in lines] for lines in found.models.values()]
    assert ways == [["all trees", "early exit", "anytime"], ["all trees", "early exit"], ["all features", "pruned"]]
    assert len(steps) == 6
    assert [page.name for page in found.pages] == ["report.html", "anytime.html", "pruning.html"]
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
    assert all(line.speedup > 0 and 0.5 < line.accuracy <= 1 for lines in found.models.values() for line in lines)


def test_the_table(run, monkeypatch, tmp_path):
    lines = {"A forest": [Line("early exit", "5.3 trees", 0.947, 0.00338, 0.005, 0.8614, 47.25)]}
    given = []

    def pretend(folder, begin):
        given.append(folder)
        begin("Fitting")
        return Demonstration(lines, [folder / "report.html"])

    monkeypatch.setattr(demo, "run", pretend)
    monkeypatch.chdir(tmp_path)
    output = run("demo")
    assert re.search(r"early exit +5\.3 trees +94\.7 % +0\.338 % +≤ 0\.5 % +86\.1 % +47\.\d ×", output)
    assert "demo/report.html" in output
    assert "scurry early-exit model.json" in output
    found = json.loads(run("demo", "--json", "--output", tmp_path / "elsewhere"))
    assert found["models"] == {"A forest": [lines["A forest"][0]._asdict()]}
    assert found["pages"] == [str(tmp_path / "elsewhere" / "report.html")]
    assert [str(folder) for folder in given] == ["demo", str(tmp_path / "elsewhere")]


def test_a_folder_that_cannot_be_made(fail, tmp_path):
    (tmp_path / "taken").write_text("")
    assert "cannot make the folder" in fail("demo", "--output", tmp_path / "taken")
