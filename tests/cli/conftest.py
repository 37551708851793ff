"""What tests of the command line share: calling it, small models, and tables to feed them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from typer.testing import CliRunner

from scurry import Forest, cli

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


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def model(tmp_path):
    forest = Forest.from_trees([STUMP, DEEPER, DEEPER], classes=["no", "yes"], n_features=4)
    path = tmp_path / "model.scurry"
    forest.save(path)
    return forest, path


@pytest.fixture
def run():
    """Run a command that must succeed; its stdout, which must fit 80 columns."""

    def call(*arguments: object) -> str:
        result = CliRunner().invoke(
            cli.load_program().app, [str(argument) for argument in arguments], catch_exceptions=False
        )
        assert result.exit_code == 0, result.output
        if "--json" not in arguments:
            assert max(map(len, result.stdout.splitlines()), default=0) <= 80
        return result.stdout

    return call


@pytest.fixture
def fail(capsys):
    """Run a command that must fail; the single line on stderr with which it ends."""

    def call(*arguments: object) -> str:
        with pytest.raises(SystemExit) as caught:
            cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert caught.value.code == 2
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        return captured.err

    return call


@pytest.fixture(scope="session")
def table():
    data = load_breast_cancer(as_frame=True)
    frame = data.data.astype(np.float32)
    return frame.assign(diagnosis=np.where(data.target == 1, "benign", "malignant"), patient=np.arange(len(frame)))


@pytest.fixture(scope="session")
def forest(table):
    features = table.drop(columns=["diagnosis", "patient"])
    return RandomForestClassifier(25, random_state=0).fit(features[:250], table.diagnosis[:250])


@pytest.fixture(scope="session")
def folder(tmp_path_factory, table, forest):
    """Files as a user has them: a model, rows to calibrate on, new rows."""
    import skops.io

    import scurry

    folder = tmp_path_factory.mktemp("files")
    skops.io.dump(forest, folder / "model.skops")
    scurry.from_model(forest).save(folder / "model.scurry")
    table[250:500].to_parquet(folder / "rows.parquet")
    table[250:500].to_csv(folder / "rows.csv", index=False)
    table[500:].to_parquet(folder / "new.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "rows.parquet"), table[250:500])
    return folder
