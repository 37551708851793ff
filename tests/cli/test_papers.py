"""`scurry reproduce`."""

from typer.testing import CliRunner

from scurry import cli


def test_runs_the_experiment_with_its_options(monkeypatch, tmp_path, capfd):
    folder = tmp_path / "benchmarks" / "papers"
    folder.mkdir(parents=True)
    (folder / "some_paper.py").write_text("import sys; print('options:', *sys.argv[1:]); sys.exit(len(sys.argv))")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.app, ["reproduce", "some-paper", "--quick", "--datasets", "adult"])
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


def test_a_paper_that_is_not_there(fail, monkeypatch, tmp_path):
    (tmp_path / "benchmarks" / "papers").mkdir(parents=True)
    (tmp_path / "benchmarks" / "papers" / "qwyc.py").touch()
    monkeypatch.chdir(tmp_path)
    assert "no experiment for 'quick'; there are qwyc" in fail("reproduce", "quick")


def test_without_a_checkout(fail, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("scurry.__file__", str(tmp_path / "site-packages" / "scurry" / "__init__.py"))
    assert "run this in a checkout of it" in fail("reproduce", "qwyc")
