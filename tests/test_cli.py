"""The command line as its user meets it: output, exit codes, and one line for every mistake."""

import json
import re
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest
from typer.testing import CliRunner

from scurry import Forest, cli
from scurry.errors import InputError

STUMP = {
    "feature": [0, -1, -1],
    "threshold": [0.5, 0, 0],
    "left": [1, -1, -1],
    "right": [2, -1, -1],
    "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]],
}
DEEPER = {
    "feature": [2, 0, -1, -1, -1],
    "threshold": [1.5, 0.25, 0, 0, 0],
    "left": [1, 2, -1, -1, -1],
    "right": [4, 3, -1, -1, -1],
    "value": [[0.5, 0.5]] * 5,
}


@pytest.fixture
def model(tmp_path):
    forest = Forest.from_trees([STUMP, DEEPER, DEEPER], classes=["no", "yes"], n_features=4)
    path = tmp_path / "model.scurry"
    forest.save(path)
    return forest, path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, [*arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def fail(capsys, *arguments: str) -> str:
    """The single line on stderr with which a mistake ends."""
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    captured = capsys.readouterr()
    assert caught.value.code == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_inspect_json(model):
    forest, path = model
    facts = json.loads(run("inspect", str(path), "--json"))
    assert facts["engine_bytes"] > 0
    expected_arrays = 13 * (4 + 8 + 4 + 4 + 1 + 8 + 1 + 4 + 16) + 4 * 8 + 3 * 4 + 2 * 8 + 8
    del facts["engine_bytes"]
    assert facts == {
        "file": str(path),
        "file_bytes": path.stat().st_size,
        "n_trees": 3,
        "n_nodes": 13,
        "n_leaves": 8,
        "min_depth": 1,
        "mean_depth": pytest.approx(5 / 3),
        "max_depth": 2,
        "n_features": 4,
        "splits_by_feature": {"column 0": 3, "column 2": 2},
        "n_categorical_splits": 0,
        "classes": ["no", "yes"],
        "aggregation": "mean",
        "score_dtype": "float64",
        "link": "identity",
        "comparison": "<=",
        "input_dtype": "float32",
        "array_bytes": expected_arrays,
        "digest": forest.digest,
    }


def test_inspect_for_people(model):
    forest, path = model
    output = " ".join(run("inspect", str(path)).split())
    for part in (
        "trees 3",
        "nodes 13, of which 8 leaves",
        "depth 1 to 2, mean 1.7",
        "features 2 of 4 used",
        "column 0 (3), column 2 (2)",
        "classes 2: no, yes",
        "mean of the trees in float64, link identity",
        "left if float32(x) <= threshold",
        forest.digest,
    ):
        assert part in output


def test_inspect_fits_80_columns_and_shows_names_literally(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"[red]a rather long feature name[/red] {j}" for j in range(4)]
    trees = [
        {
            "feature": [j, -1, -1],
            "threshold": np.zeros(3),
            "left": [1, -1, -1],
            "right": [2, -1, -1],
            "value": [1, 2, 3],
        }
        for j in range(4)
    ]
    plain = Forest.from_trees(trees)
    arrays = {name: getattr(plain, name) for name in ("tree_offset", "feature", "threshold", "left", "right", "value")}
    Forest(**arrays, n_features=4, feature_names=names).save(tmp_path / "model.scurry")
    output = run("inspect", str(tmp_path / "model.scurry"))
    assert "[red]a rather long feature name[/red] 0 (1)" in output
    assert "none, it is a regressor" in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the model file"),
        (b"", "is not a model file scurry knows"),
        (b"\x80\x04\x95", "looks like a pickle, which runs code when loaded"),
        (b"PK\x03\x04 and then nothing", "is not a readable .scurry file"),
    ],
)
def test_wrong_model_file(tmp_path, capsys, content, message):
    path = tmp_path / "a model with a long name, so that the message is wider than a terminal of 80 columns.bin"
    if content is not None:
        path.write_bytes(content)
    line = fail(capsys, "inspect", str(path))
    assert line.startswith("error: ")
    assert message in line
    assert str(path) in line


def test_message_of_several_lines_becomes_one(capsys, monkeypatch):
    def broken(arguments):
        raise InputError("first [bold]part[/bold]\n  second part")

    monkeypatch.setattr(cli, "app", broken)
    assert fail(capsys) == "error: first [bold]part[/bold] second part\n"


def test_unexpected_errors_are_not_hidden(monkeypatch):
    def broken(arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(ZeroDivisionError):
        cli.main([])


def test_demo(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("SCURRY_DATA", raising=False)
    monkeypatch.setattr(cli, "_N_TREES", 5)
    output = run("demo")
    assert "48,842 rows, 14 features (8 categorical)" in output
    assert re.findall(r"labels that differ +(\S+)", output) == ["0", "0"]
    assert len(re.findall(r"16,281 rows, 1 thread +[\d.]+ [mµ]?s +[\d.]+ [mµ]?s +[\d.]+ ×", output)) == 2
    assert len(re.findall(r"one row +[\d.]+ [mµ]?s +[\d.]+ [mµ]?s +[\d,]+ ×", output)) == 2
    assert "scurry.from_model(model)" in output
    assert max(map(len, output.splitlines())) <= 80


def test_demo_counts_labels_that_differ(monkeypatch):
    monkeypatch.setattr(cli, "_N_TREES", 3)
    monkeypatch.setattr(Forest, "predict", lambda self, X, n_threads=1: np.full(len(X), "neither"))
    assert re.findall(r"labels that differ +(\S+)", run("demo")) == ["16,281", "16,281"]


def test_runs_take_turns(monkeypatch):
    clock = iter([0, 5, 5, 6, 10, 13, 13, 15, 20, 24, 24, 28])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    turns = []
    assert cli._race(3, lambda: turns.append("a"), lambda: turns.append("b")) == [3, 1]
    assert turns == ["a", "b"] * 3


@pytest.mark.parametrize("command", [(), ("inspect",), ("demo",)])
def test_help_has_an_example(command):
    output = run(*command, "--help")
    assert re.search(rf"Example: scurry {command[0] if command else 'demo'}", output)
    assert run(*command, "-h") == output


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (2_500_000, "2.5 MB"), (3e9, "3.0 GB")]
)
def test_bytes(count, shown):
    assert cli._bytes(count) == shown


@pytest.mark.parametrize(("duration", "shown"), [(12.345, "12.3 s"), (0.0123, "12.3 ms"), (4.2e-6, "4.2 µs")])
def test_seconds(duration, shown):
    assert cli._seconds(duration) == shown


def scurry(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; from scurry.cli import main; sys.argv[0] = 'scurry'; main()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def test_as_a_process(model):
    _, path = model
    good = scurry("inspect", str(path), "--json")
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["n_trees"] == 3
    bad = scurry("inspect", str(path.with_suffix(".txt")))
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("error: cannot read the model file")
    assert "Traceback" not in bad.stderr
    assert scurry("--version").stdout == f"scurry {version('scurry')}\n"


def test_starting_imports_nothing_heavy():
    program = (
        "import sys, scurry.cli; print(*(m for m in ('sklearn', 'scipy', 'pandas', 'pyarrow') if m in sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
