"""Load and predict with numpy alone: a program that a test runs in a process, and `make wheel` in a clean environment.

``python numpy_alone.py FOLDER [--block]`` loads every ``.scurry`` file of a folder and compares its answers with the
``.json`` file of the same name. With ``--block`` no module can be imported except those of Python, numpy and scurry, as
if nothing else were installed.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.abc import MetaPathFinder
from pathlib import Path

INSTALLED = {"numpy", "scurry"}


class Blocker(MetaPathFinder):
    """Finds nothing that is not part of Python, numpy or scurry, and says so as Python does."""

    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package not in INSTALLED and package not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def predict(path: Path) -> None:
    """Compare the answers of a file with those stored next to it."""
    import numpy as np

    import scurry

    expected, subject = json.loads(path.with_suffix(".json").read_text(encoding="utf-8")), scurry.load(path)
    forest = subject if isinstance(subject, scurry.Forest) else subject.forest
    X = np.random.default_rng(0).normal(size=(40, forest.n_features)).astype(np.float32)
    if "labels" not in expected:  # a ranker answers queries
        assert subject.run(X, groups=np.arange(len(X)) // 10).scores.tolist() == expected["probabilities"]
        return
    assert subject.predict(X).tolist() == expected["labels"]
    assert np.abs(subject.predict_proba(X) - expected["probabilities"]).max() <= 1e-15
    if forest is not subject:
        assert subject.summary()
        assert subject.run(X).labels.tolist() == expected["labels"]
        assert subject.predict(X[:1]).tolist() == expected["labels"][:1]


def predict_in_threads(files: list[Path]) -> None:
    """Let threads predict with one predictor at once; a Python that runs without the GIL goes on without it."""
    import numpy as np

    import scurry

    subject = scurry.load(next(path for path in files if path.stem == "v2-exit-scores"))
    X = np.random.default_rng(0).normal(size=(400, subject.forest.n_features)).astype(np.float32)
    with ThreadPoolExecutor(8) as pool:  # the first prediction, which lowers the trees, included
        answers = list(pool.map(lambda _: subject.predict(X), range(32)))
    assert all((labels == answers[0]).all() for labels in answers)
    if "free-threading build" in sys.version:
        assert not sys._is_gil_enabled(), "importing scurry has switched the GIL on"


def refuse() -> None:
    """Look at every public name: it is there, or the error says which extra installs what it needs."""
    import scurry

    missing = {}
    for name in scurry.__all__:
        try:
            getattr(scurry, name)
        except scurry.errors.MissingDependencyError as error:
            missing[name] = str(error)
    assert {"early_exit", "EarlyExitClassifier", "growing", "prune", "report", "stopping"} <= missing.keys()
    assert all(text.endswith('pip install "scurry[fit]"') for text in missing.values()), missing


def main(folder: str, *options: str) -> None:
    """Run every check, and print what was predicted from."""
    if "--block" in options:
        sys.meta_path.insert(0, Blocker())
    files = sorted(Path(folder).glob("*.scurry"))
    for path in files:
        predict(path)
    predict_in_threads(files)
    refuse()
    sys.stdout.write(" ".join(path.stem for path in files) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
