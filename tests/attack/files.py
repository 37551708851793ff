"""Damaged files of every format: each is refused by an error of scurry, or gives a model that predicts."""

import io
import json
import os
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import scurry
from attack.findings import Findings
from scurry.errors import ScurryError
from scurry.forest.files.storage import container_bytes
from support import ubjson_writer
from support.anytime_oracle import anytime_of
from support.mutations import changed_document, changed_lines, members, mutated, rewritten

MAX_SECONDS = 5.0  # of the processor, for one small file
MAX_GROWTH = 300 * 2**20  # bytes of memory
N_FEATURES = 4
GOLDEN = Path(__file__).parents[1] / "golden"
TABLES = (".parquet", ".arrow", ".csv")


def attack(n: int, seed: int) -> Findings:
    """Damage `n` files, one for each seed from `seed` on, and use what can still be read."""
    findings = Findings()
    names = sorted(originals())
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for at in range(seed, seed + n):
            name = names[at % len(names)]
            with findings.of(f"files ({name})", at):
                outcome = _attack_one(Path(folder), name, damaged(name, at))
                findings.counts[f"files of {name}"] += 1
                findings.counts[f"files {outcome}"] += 1
    return findings


@cache
def originals() -> dict[str, bytes]:
    """Return whole files of every format, by name."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, N_FEATURES)).round(2)
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    three = y + (X[:, 3] > 0.5)
    forest = scurry.from_model(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y))
    several = scurry.from_model(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, three))
    boosted = lgb.LGBMClassifier(n_estimators=4, num_leaves=4, n_jobs=1, verbose=-1).fit(X, y)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(c=pd.Categorical(np.where(y, "yes", "no")))
    of_frame = lgb.LGBMClassifier(n_estimators=4, num_leaves=4, n_jobs=1, verbose=-1, min_child_samples=2).fit(frame, y)
    asked = {"max_disagreement": 0.1, "random_state": 0}
    scurries = {
        "forest.scurry": forest,
        "categories.scurry": scurry.from_model(of_frame),
        "votes.scurry": scurry.early_exit(forest, X, method="minimixed", **asked),
        "scores.scurry": scurry.early_exit(boosted, X, method="qwyc", **asked),
        "bins.scurry": scurry.early_exit(boosted, X, method="fan", **asked),
        "leads.scurry": scurry.early_exit(several, X, method="qwyc", **asked),
        "steps.scurry": anytime_of(forest),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, model in scurries.items():
            model.save(folder / file)
        (folder / "plain.scurry").write_bytes(container_bytes("forest", *forest.to_parts()))
        for path in GOLDEN.glob("format/v1-*.scurry"):  # version 1, which has to be read for ever
            (folder / path.name).write_bytes(path.read_bytes())
        _visited().start_row({0: 1.0}).save(folder / "visit.scurry")
        boosted.booster_.save_model(folder / "lightgbm.txt")
        of_frame.booster_.save_model(folder / "categories.txt")
        booster = xgb.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(X, three)
        categorical = xgb.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1, enable_categorical=True).fit(frame, y)
        for suffix in ("json", "ubj"):
            booster.save_model(folder / f"xgboost.{suffix}")
            categorical.save_model(folder / f"categories.{suffix}")
        import skops.io

        skops.io.dump(RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, y), folder / "forest.skops")
        skops.io.dump(HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=4).fit(X, y), folder / "boosted.skops")
        table = pd.DataFrame(X[:60], columns=list("abcd"))
        table.to_parquet(folder / "rows.parquet")
        table.to_feather(folder / "rows.arrow")
        table.to_csv(folder / "rows.csv", index=False)
        for path in (*GOLDEN.glob("onnx/*.onnx"), *GOLDEN.glob("treelite/*.tl")):
            (folder / path.name).write_bytes(path.read_bytes())
        return {path.name: path.read_bytes() for path in folder.iterdir()}


def damaged(name: str, seed: int) -> bytes:
    """Return the file of this name with bytes changed, or, as often, with nonsense at a place that has a meaning."""
    data = originals()[name]
    if seed // len(originals()) % 2:
        return mutated(data, seed)
    match Path(name).suffix:
        case ".scurry" | ".skops":
            return _damaged_member(data, seed)
        case ".json":
            return json.dumps(changed_document(json.loads(data), seed)).encode()
        case ".ubj":
            try:
                json_of = originals()[name.replace(".ubj", ".json")]
                return ubjson_writer.write(changed_document(json.loads(json_of), seed))
            except (OverflowError, UnicodeEncodeError, ubjson_writer.struct.error):
                return mutated(data, seed)
        case ".txt" | ".csv":
            return changed_lines(data, seed)
    return mutated(data, seed)


def _damaged_member(data: bytes, seed: int) -> bytes:
    """Return an archive, checksums and all, in which one document or array is changed."""
    parts = members(data)
    documents = [name for name in parts if name.endswith(".json")]
    rng = np.random.default_rng(seed)
    name = str(rng.choice(documents if rng.random() < 0.5 else sorted(parts)))
    if name in documents:
        return rewritten(data, **{name: json.dumps(changed_document(json.loads(parts[name]), seed)).encode()})
    if rng.random() < 0.3:
        return rewritten(data, **{name: mutated(parts[name], seed)})
    try:
        array = np.load(io.BytesIO(parts[name]))
    except ValueError:
        return rewritten(data, **{name: mutated(parts[name], seed)})
    buffer = io.BytesIO()
    np.save(buffer, _changed_array(array, rng))
    return rewritten(data, **{name: buffer.getvalue()})


def _changed_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    match int(rng.integers(6)):
        case 0:
            return array[: int(rng.integers(len(array) + 1))] if array.ndim else array[None]
        case 1:
            return np.concatenate([array, array]) if array.ndim else array[None]
        case 2:
            return array[..., None] if rng.random() < 0.5 else array[None]
        case 3 if array.dtype.kind in "iufb":
            return array.astype(str(rng.choice(["i1", "i4", "i8", "u4", "f4", "f8", ">f8", "?", "U3"])))
    changed = array.copy()
    if array.size and array.dtype.kind in "iuf":
        extreme = [0, 1, -1, 2, 7, 2**31 - 1, -(2**31), 2**63 - 1, 1e308, -1e308, np.nan, np.inf, 1e-320, 0.5]
        places = rng.integers(0, array.size, int(rng.integers(1, 4)))
        with np.errstate(all="ignore"):
            changed.reshape(-1)[places] = np.array(rng.choice(extreme)).astype(array.dtype)
    return changed


def _attack_one(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    path.write_bytes(data)
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    use: Callable[[Path], str] = _score if path.suffix in TABLES else _predict
    outcome = use(path)
    seconds = time.process_time() - begin
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert seconds < MAX_SECONDS, f"took {seconds:.1f} s of the processor"
    assert grown < MAX_GROWTH, f"took {grown:,} bytes"
    return outcome


def _predict(path: Path) -> str:
    if path.name == "visit.scurry":
        return _continue_visit(path)
    try:
        model = scurry.load(path) if path.suffix == ".scurry" else scurry.from_model(path)
    except ScurryError:
        return "refused"
    forest = getattr(model, "forest", model)
    if forest.n_features > 1000:
        return "accepted"
    # Whatever was accepted must work: a fault of the file is to be found when it is read.
    rows = np.array([[np.nan], [0.0], [1.0], [-np.inf], [1e300]] * 20) * np.ones((1, forest.n_features))
    ranks = model is not forest and isinstance(model.plan.stop, scurry.plan.TopKRule)
    queries = {"groups": np.arange(len(rows)) // 10} if ranks else {}
    model.predict(rows, **queries)
    if forest.is_classifier and not ranks:
        model.predict_proba(rows)
    if model is not forest:
        assert len(model.run(rows, **queries).scores) == len(rows)
    assert len(forest.left) == len(forest.value) == forest.n_nodes  # packed trees can be unpacked
    return "accepted"


def _continue_visit(path: Path) -> str:
    try:
        visit = scurry.Visit.load(path, _visited())
    except ScurryError:
        return "refused"
    while (feature := visit.next_feature) is not None:
        visit.give(feature.name, 0.25)
    assert visit.answer is not None
    return "accepted"


@cache
def _visited() -> scurry.Predictor:
    X = np.random.default_rng(1).normal(size=(100, N_FEATURES))
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, X[:, 0] + X[:, 1] > X[:, 2])
    return scurry.Predictor.full(scurry.from_model(model))


def _score(path: Path) -> str:
    """Score a damaged table beside a whole one, which must be scored whatever the other is."""
    forest = _model_of_rows()
    whole = path.with_name("whole.parquet")
    whole.write_bytes(originals()["rows.parquet"])
    out = path.with_name("out")
    report = scurry.batch.score([path, whole], forest, out, n_threads=1)
    for file in list(out.iterdir()):
        os.unlink(file)
    assert "whole.parquet" in report.written, f"the other file was not scored: {report}"
    return "refused" if report.failed else "accepted"


@cache
def _model_of_rows() -> scurry.Forest:
    stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
             "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}  # fmt: skip
    return scurry.Forest.from_trees([stump], n_features=N_FEATURES).replace(feature_names=list("abcd"))
