"""Smaller forests: bytes and nodes at a promise, and how often promises are broken.

"sizes" trains a forest of 100 trees of unlimited depth on 40 % of each data set and compresses it: by labels (0.5 %
may change) and by accuracy (one point may be lost, with the training rows and another 10 % as X_fit). A quarter of the
rows certifies, the last quarter measures. "draws" trains a small forest on new training rows for each draw, compresses
it, with calibration rows drawn from a pool with replacement, and counts promises that the pool breaks: the pool is the
population, so the truth is exact. "flash" exports a forest for wearables as C. Results are kept in
``results/compress.json`` as they come; what is there already is not run again.

    python benchmarks/compress.py sizes --only magic
    python benchmarks/compress.py draws --draws 200
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import scurry
from report import RESULTS, commit
from scurry import datasets
from scurry.promises import Accuracy, Labels, Promise, Values

KEPT = RESULTS / "compress.json"
FORESTS = (
    "magic",
    "grinsztajn_california",
    "grinsztajn_credit",
    "grinsztajn_bank_marketing",
    "higgs_12k",
    "grinsztajn_electricity",
    "letter",
    "nomao",
    "adult",
    "covertype",
)
MAX_ROWS = 60_000
KINDS: dict[str, Promise] = {
    "labels 0.5 %": Labels(0.005),
    "accuracy 1 point": Accuracy(0.01),
    "values": Values(0.05, max_share=0.05),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sizes", "draws", "flash", "show"])
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="data sets or kinds of promises")
    parser.add_argument("--draws", type=int, default=200, metavar="N", help="calibrations of each kind of promise")
    parser.add_argument("--seconds", type=float, default=1e9, metavar="N", help="stop after so long")
    arguments = parser.parse_args()
    kept = {"sizes": {}, "draws": {}, "flash": {}} | (json.loads(KEPT.read_text()) if KEPT.exists() else {})
    end = time.monotonic() + arguments.seconds
    if arguments.what == "sizes":
        for name in arguments.only or FORESTS:
            if time.monotonic() < end and name not in kept["sizes"]:
                kept["sizes"][name] = measure_sizes(name)
                keep(kept)
    if arguments.what == "draws":
        for kind in arguments.only or KINDS:
            found = kept["draws"].setdefault(kind, {"commit": commit(), "draws": []})
            while len(found["draws"]) < arguments.draws and time.monotonic() < end:
                found["draws"].append(draw(kind, len(found["draws"])))
                keep(kept)
    if arguments.what == "flash":
        kept["flash"] = measure_flash()
        keep(kept)
    print(summarise(kept))


def keep(kept: dict[str, Any]) -> None:
    KEPT.parent.mkdir(exist_ok=True)
    temporary = KEPT.with_suffix(".tmp")
    temporary.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    temporary.replace(KEPT)


def load(name: str) -> tuple[NDArray[np.float32], NDArray[Any]]:
    data = datasets.load(name)
    order = np.random.default_rng(0).permutation(len(data.y))[:MAX_ROWS]
    return np.nan_to_num(data.X[order]), data.y[order]


def measure_sizes(name: str) -> dict[str, Any]:
    """Return sizes of the forest of a data set, compressed by labels and by accuracy."""
    X, y = load(name)
    n_train, n_fit, n_cal = (int(share * len(y)) for share in (0.4, 0.5, 0.75))
    forest = scurry.from_model(RandomForestClassifier(100, random_state=0).fit(X[:n_train], y[:n_train]))
    cal, test = slice(n_fit, n_cal), slice(n_cal, None)
    full = forest.predict(X[test])
    found: dict[str, Any] = {"commit": commit(), "n_nodes": forest.n_nodes, "n_calibration_rows": n_cal - n_fit}
    for kind in ("labels 0.5 %", "accuracy 1 point"):
        fit = X[:n_fit] if kind.startswith("accuracy") else None
        small = scurry.compress(forest, X[cal], y[cal], promise=KINDS[kind], X_fit=fit)
        measured, own = small.certificate.measured, small.predict(X[test])
        found[kind] = {
            "times_smaller": measured.full_bytes / measured.n_bytes,
            "bytes_per_node": measured.full_bytes / forest.n_nodes,
            "n_bytes": measured.n_bytes,
            "nodes_left": measured.n_nodes / measured.full_nodes,
            "trees_left": measured.n_trees,
            "test_changed": float((own != full).mean()),
            "test_accuracy": float((own == y[test]).mean()),
            "full_accuracy": float((full == y[test]).mean()),
            "how": small.certificate.why,
        }
    return found


def measure_flash() -> dict[str, Any]:
    """Return the bytes of C of 20 trees of depth 10, for all of them and at any moment, in every layout."""
    X, y = load("wearable_body_postures")
    model = RandomForestClassifier(20, max_depth=10, random_state=0).fit(X[:20_000], y[:20_000])
    forest, rows = scurry.from_model(model), X[30_000:33_000]
    anytime = scurry.anytime(forest, X[20_000:23_000], y[20_000:23_000], order="backward-squirrel")
    found: dict[str, Any] = {"commit": commit(), "n_nodes": forest.n_nodes}
    for kind, subject in (("whole forest", forest), ("anytime", anytime)):
        with tempfile.TemporaryDirectory() as folder:
            export = scurry.export.to_c(subject, folder, X_cal=rows)
        found[kind] = {"chosen": export.layout} | {
            option.layout.name: {"flash_bytes": option.sizes.flash_bytes, "least_agreement": option.least_agreement}
            for option in export.candidates
        }
    return found


def draw(kind: str, seed: int) -> dict[str, float]:
    """Train a small forest, compress it, and return by how much the pool keeps the promise: below 0, it is broken."""
    X, y = load("magic")
    rng = np.random.default_rng([7, seed])
    order = rng.permutation(len(y))
    train, pool = order[:1500], order[1500:]
    promise, cal = KINDS[kind], rng.choice(pool, 3000)
    if isinstance(promise, Values):
        y = X[:, 0].astype(np.float64) / 100  # a column to be predicted from the others
        X = X[:, 1:]
        model: Any = RandomForestRegressor(15, random_state=seed).fit(X[train], y[train])
    else:
        model = RandomForestClassifier(15, random_state=seed).fit(X[train], y[train])
    forest = scurry.from_model(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows drawn with replacement repeat, which is as it should be here
        small = scurry.compress(forest, X[cal], y[cal], promise=promise, X_fit=X[train])
    own, full = small.predict(X[pool]), forest.predict(X[pool])
    measured = small.certificate.measured
    if isinstance(promise, Labels):
        margin = promise.max_changed - float((own != full).mean())
    elif isinstance(promise, Accuracy):
        margin = promise.max_loss - float((full == y[pool]).mean() - (own == y[pool]).mean())
    else:
        assert isinstance(promise, Values)
        margin = promise.max_share - float((np.abs(own - full) > promise.max_error).mean())
    return {"margin": margin, "bytes_left": measured.n_bytes / measured.full_bytes}


def summarise(kept: dict[str, Any]) -> str:
    lines = []
    for kind in ("labels 0.5 %", "accuracy 1 point"):
        of_kind = {name: found[kind] for name, found in kept["sizes"].items()}
        for name, found in of_kind.items():
            lines.append(
                f"{kind}, {name}: {found['times_smaller']:.2f} times smaller, {100 * found['nodes_left']:.1f} % of the "
                f"nodes; on test rows {100 * found['test_changed']:.2f} % changed, accuracy "
                f"{100 * (found['test_accuracy'] - found['full_accuracy']):+.2f} points ({found['how']})"
            )
        if of_kind:
            smaller, left = (
                float(np.exp(np.mean(np.log([found[what] for found in of_kind.values()]))))
                for what in ("times_smaller", "nodes_left")
            )
            lines.append(
                f"{kind}, geometric mean of {len(of_kind)}: {smaller:.2f} times smaller, {100 * left:.1f} % of nodes"
            )
    for kind, found in kept["draws"].items():
        margins = [one["margin"] for one in found["draws"]]
        broken, left = sum(margin < 0 for margin in margins), np.mean([one["bytes_left"] for one in found["draws"]])
        most = int(stats.binom.ppf(0.99, len(margins), 0.05))
        lines.append(
            f"{kind}: {broken} of {len(margins)} broken, at most {most} by chance; {100 * left:.1f} % of the bytes left"
        )
    for kind in ("whole forest", "anytime"):
        if kind in kept["flash"]:
            found = kept["flash"][kind]
            sizes = ", ".join(f"{name} {one['flash_bytes']:,}" for name, one in found.items() if name != "chosen")
            lines.append(f"flash of the {kind}, {found['chosen']} chosen: {sizes} bytes")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
