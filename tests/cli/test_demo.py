"""`scurry demo`: the table shows what the demonstration found.

`scurry reproduce`.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scurry import cli
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
    assert re.search(r"early exit +5\.3 trees +94\.70 % +0\.338 % +≤ 0\.5 % +86\.14 % +47\.\d ×", output)
    assert "demo/report.html" in output
    assert "scurry early-exit model.json" in output
    found = json.loads(run("demo", "--json", "--output", tmp_path / "elsewhere"))
    assert found["models"] == {"A forest": [lines["A forest"][0]._asdict()]}
    assert found["pages"] == [str(tmp_path / "elsewhere" / "report.html")]
    assert [str(folder) for folder in given] == ["demo", str(tmp_path / "elsewhere")]


def test_a_folder_that_cannot_be_made(fail, tmp_path):
    (tmp_path / "taken").write_text("")
    assert "cannot make the folder" in fail("demo", "--output", tmp_path / "taken")


BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_runs_the_experiment_with_its_options(monkeypatch, tmp_path, capfd):
    folder = tmp_path / "benchmarks" / "papers"
    folder.mkdir(parents=True)
    (folder / "some_paper.py").write_text("import sys; print('options:', *sys.argv[1:]); sys.exit(len(sys.argv))")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.load_program().app, ["reproduce", "some-paper", "--quick", "--datasets", "adult"])
    assert result.exit_code == 4
    assert capfd.readouterr().out == "options: --quick --datasets adult\n"


def test_help_is_that_of_the_experiment(monkeypatch, tmp_path, capfd, run):
    folder = tmp_path / "benchmarks" / "papers"
    folder.mkdir(parents=True)
    (folder / "some_paper.py").write_text('"""What it is about.\n\nAnd more."""\nimport sys; print(*sys.argv[1:])')
    monkeypatch.chdir(tmp_path)
    assert "--help lists the rest" in " ".join(run("reproduce", "--help").replace("PAPER", "").split())
    run("reproduce", "some-paper", "--help")
    assert capfd.readouterr().out == "--help\n"
    assert run("reproduce").split() == ["some-paper", "What", "it", "is", "about."]
    assert json.loads(run("reproduce", "--json")) == {"some-paper": "What it is about."}


@pytest.mark.parametrize("arguments", [["--json", "some-paper", "--quick"], ["some-paper", "--quick", "--json"]])
def test_reports_as_json(monkeypatch, tmp_path, capfd, arguments):
    folder = tmp_path / "benchmarks" / "papers"
    folder.mkdir(parents=True)
    (folder / "some_paper.py").write_text(
        f"""
import sys
sys.path.insert(0, {str(BENCHMARKS)!r})
import report
report.RESULTS = report.Path({str(tmp_path)!r})
found = report.Report("some", "Some paper", "Protocol: " + " ".join(sys.argv[1:]))
found.table("Table 1", ["expected", "obtained"], [["2.0", "2.1"]])
found.close()
"""
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        cli.main(["reproduce", *arguments])
    captured = capfd.readouterr()
    assert caught.value.code == 0
    assert "### Table 1" in captured.err
    parts = json.loads(captured.out)
    assert parts[0] == {"text": "# Some paper"}
    assert parts[3] == {"text": "Protocol: --quick"}
    assert parts[4] == {"table": "Table 1", "header": ["expected", "obtained"], "rows": [["2.0", "2.1"]]}


def test_a_paper_that_is_not_there(fail, monkeypatch, tmp_path):
    (tmp_path / "benchmarks" / "papers").mkdir(parents=True)
    (tmp_path / "benchmarks" / "papers" / "qwyc.py").touch()
    monkeypatch.chdir(tmp_path)
    assert "no experiment for 'quick'; there are qwyc" in fail("reproduce", "quick")


def test_without_a_checkout(fail, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("scurry.__file__", str(tmp_path / "site-packages" / "scurry" / "__init__.py"))
    assert "run this in a checkout of it" in fail("reproduce", "qwyc")


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["sequential-testing", "qwyc", "squirrel", "budgetprune", "ensemble-pruning"])
def test_the_quick_form_of_a_paper_ends_within_five_minutes(paper):
    program = [sys.executable, "-c", "from scurry import cli; cli.main()", "reproduce", paper, "--quick"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(program, cwd=BENCHMARKS.parent, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "published" in ended.stdout
