"""`scurry demo`: the table shows what the demonstration found."""

import json
import re

from scurry.cli import showcase
from scurry.cli.showcase import Demonstration, Line


def test_the_table(run, monkeypatch, tmp_path):
    lines = {"A forest": [Line("early exit", "5.3 trees", 0.947, 0.00338, 0.005, 0.8614, 47.25)]}
    given = []

    def pretend(folder, begin):
        given.append(folder)
        begin("Fitting")
        return Demonstration(lines, [folder / "report.html"])

    monkeypatch.setattr(showcase, "run", pretend)
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
