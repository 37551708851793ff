"""Files of every version stay readable, and docs/format.md says enough to read them.

``python tests/forest/files/test_format.py FOLDER`` writes the files of the present version. Once a version is
released its files in tests/golden/format never change.
"""

import json
import re
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import scurry
from scurry.forest.files.storage import FORMAT_VERSION
from support import packed_reader

GOLDEN = Path(__file__).parents[2] / "golden" / "format"
FILES = sorted(GOLDEN.glob("*.scurry"))
KINDS = ("forest", "exit-votes", "exit-scores", "exit-pieces", "leader", "sentinels", "top-k", "anytime", "wrapped")


def rows(n_features: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, n_features)).astype(np.float32)


def make(folder: Path) -> None:
    """Write a file of each kind, and what it answers."""
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, VotingClassifier

    X = np.random.default_rng(1).normal(size=(300, 3)).astype(np.float32)
    two, three = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, "yes", "no"), np.digitize(X[:, 0] + X[:, 2], [-0.5, 0.5])
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, two)
    boosted = GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0).fit(X, two)
    settings = {"max_disagreement": 0.05, "confidence": None, "random_state": 0}
    subjects = {
        "forest": _with_categories(),
        "exit-votes": scurry.early_exit(forest, X, method="minimixed", **settings),
        "exit-scores": scurry.early_exit(boosted, X, method="qwyc", **settings),
        "exit-pieces": scurry.early_exit(boosted, X, method="fan", **settings),
        "leader": scurry.early_exit(
            RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, three), X, method="qwyc", **settings
        ),
        "sentinels": _with_sentinels(scurry.from_model(boosted)),
        "top-k": _with_ranks(),
        "anytime": scurry.anytime(forest, X, two, readout="weighted"),
        "wrapped": scurry.from_model(
            VotingClassifier([("forest", forest), ("boosted", boosted)], voting="soft", weights=[1, 2]).fit(X, two)
        ),
    }
    for kind, subject in subjects.items():
        path = folder / f"v{FORMAT_VERSION}-{kind}.scurry"
        subject.save(path)
        path.with_suffix(".json").write_text(json.dumps(answers(subject), indent=1) + "\n")


def _with_sentinels(forest: scurry.Forest) -> scurry.Predictor:
    """A sentinel with two intervals of its lane and a spread, and one at which the estimate alone decides."""
    units = np.rint(forest.value[:, 0] * 1000)
    rule = scurry.plan.SentinelRule(
        sentinels=np.array([2, 4], np.int32),
        lanes=np.column_stack([2 * units, units, units**2 // 100]).astype(np.int32),
        lane=np.array([0, 1], np.int32),
        scale=np.array([0.001, 0.0012]),
        offset=np.array([-0.1, 0.05]),
        spread_lane=2,
        square=np.array([0.001, 0.0]),
        edge_offset=np.array([0, 1, 3], np.uint32),
        edges=np.array([100, -300, 300], np.int32),
        limits=np.array([100.0, 65.0, 760.0, -np.inf, np.inf]),
    )
    order = np.array([1, 0, 4, 2, 3], np.int32)
    return scurry.Predictor(forest, scurry.Plan(order=order, stop=rule))


def _with_ranks() -> scurry.Predictor:
    """Four stumps of a ranker, of which documents may leave after one and after two."""
    stumps = [
        {
            "feature": [t % 3, -1, -1],
            "threshold": [0.25 * t - 0.5, 0, 0],
            "left": [1, -1, -1],
            "right": [2, -1, -1],
            "value": [[0.0], [-0.5 * t - 1], [1.0]],
        }
        for t in range(4)
    ]
    forest = scurry.Forest.from_trees(stumps, classes=None, aggregation="sum")
    rule = scurry.plan.TopKRule(
        k=3,
        keep="set",
        sentinels=np.array([1, 2], np.int32),
        lanes=np.column_stack([100 * forest.value, 90 * forest.value]).astype(np.int32),
        lane=np.array([0, 1], np.int32),
        scale=np.array([0.02, 0.015]),
        offset=np.array([-0.1, 0.05]),
        limits=np.array([250.0, 100.0]),
    )
    return scurry.Predictor(forest, scurry.Plan(order=np.array([3, 0, 2, 1], np.int32), stop=rule))


def _with_categories() -> scurry.Forest:
    """One tree: colour in {red, blue} and then size < 1.5; every field differs from its default."""
    return scurry.Forest(
        tree_offset=[0, 5],
        feature=[1, 0, -1, -1, -1],
        threshold=[0, 1.5, 0, 0, 0],
        left=[1, 2, -1, -1, -1],
        right=[4, 3, -1, -1, -1],
        value=[[0.0], [0.5], [2.0], [-1.0], [-2.0]],
        default_left=[True, False, False, False, False],
        cover=[10, 6, 4, 2, 4],
        missing=[0, 1, 0, 0, 0],
        tree_output=[0],
        base_score=[0.25],
        category_set=[0, -1, -1, -1, -1],
        category_offset=[0, 1],
        category_bits=[0b101],
        category_rounding="trunc",
        n_features=2,
        classes=["small", "large"],
        aggregation="sum",
        input_dtype="float64",
        score_dtype="float32",
        comparison="<",
        link="logistic",
        link_scale=2.0,
        label_from="score",
        decision_threshold=0.125,
        feature_names=["size", "colour"],
        categories={1: ["red", "green", "blue"]},
        encode_numbers=False,
    )


def answers(subject: scurry.Forest | scurry.Predictor) -> dict:
    forest = subject if isinstance(subject, scurry.Forest) else subject.forest
    X = rows(forest.n_features)
    if isinstance(subject, scurry.Predictor) and isinstance(subject.plan.stop, scurry.plan.TopKRule):
        run = subject.run(X, groups=np.arange(len(X)) // 10)
        found = {"digest": subject.digest, "probabilities": run.scores.tolist()}
        return found | {"trees": run.trees.tolist(), "steps": run.steps.tolist()}
    found = {"digest": subject.digest, "labels": subject.predict(X).tolist()}
    found["probabilities"] = subject.predict_proba(X).tolist()
    if isinstance(subject, scurry.Predictor):
        budget = {"max_steps": 4} if subject.plan.method == "anytime" else {}
        found |= {"trees": subject.run(X, **budget).trees.tolist(), "steps": subject.run(X, **budget).steps.tolist()}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_old_files_answer_as_they_did(path):
    expected, found = json.loads(path.with_suffix(".json").read_text()), answers(scurry.load(path))
    assert found.keys() == expected.keys()
    assert found.pop("probabilities") == pytest.approx(np.array(expected.pop("probabilities")), abs=1e-15)
    assert found == expected


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.stem[3:] not in ("anytime", "top-k")], ids=lambda path: path.stem
)
def test_probabilities_of_old_files_agree_with_their_labels(path):
    """Files of early exits without a score map: what trees not evaluated give on average is added."""
    subject = scurry.load(path)
    forest = subject if isinstance(subject, scurry.Forest) else subject.forest
    X = rows(forest.n_features)
    probabilities, labels = subject.predict_proba(X), forest.codes_of(subject.predict(X))
    np.testing.assert_array_equal(probabilities.argmax(axis=1), labels)
    if isinstance(subject, scurry.Predictor) and getattr(subject.plan.stop, "kind", "scores") == "scores":
        complete = subject.run(X).complete
        np.testing.assert_array_equal(probabilities[complete], forest.predict_proba(X)[complete])


def test_there_is_a_file_of_each_version_and_kind():
    names = {path.stem for path in FILES}
    assert names == {f"v{version}-{kind}" for version in range(1, FORMAT_VERSION + 1) for kind in KINDS}


def members(data: bytes) -> dict[str, bytes]:
    """What docs/format.md says of the container, taken literally."""
    found, at = {}, 0
    while data[at : at + 4] == b"PK\x03\x04":
        version, flags, method, stamp, crc, size, again, n, e = struct.unpack_from("<HHHIIIIHH", data, at + 4)
        assert (version, flags, method, stamp, size) == (20, 0, 0, 0x210000, again)
        name, start = data[at + 30 : at + 30 + n].decode("ascii"), at + 30 + n + e
        if e:
            padding = data[at + 30 + n : start]
            assert padding == b"\x35\xd9" + (e - 4).to_bytes(2, "little") + bytes(e - 4)
            assert start % 64 == 0
        found[name], at = data[start : start + size], start + size
        assert zlib.crc32(found[name]) == crc
    assert data[at : at + 4] == b"PK\x01\x02"
    return found


def array(data: bytes) -> np.ndarray:
    """What docs/format.md says of an array, taken literally."""
    assert data[:8] == b"\x93NUMPY\x01\x00"
    (h,) = struct.unpack_from("<H", data, 8)
    assert (10 + h) % 64 == 0
    text = data[10 : 10 + h].decode("ascii")
    match = re.fullmatch(r"\{'descr': '([|<]\w\d)', 'fortran_order': False, 'shape': \((.*)\), \} *\n", text)
    shape = tuple(int(length) for length in match[2].split(",") if length.strip())
    return np.frombuffer(data[10 + h :], match[1]).reshape(shape)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_page_says_enough_to_read_them(path):
    parts = members(path.read_bytes())
    manifest = json.loads(parts.pop("manifest.json").decode("utf-8"))
    assert (manifest["format"], manifest["version"]) == ("scurry", int(path.stem[1]))
    arrays = {name.removesuffix(".npy"): array(data) for name, data in parts.items()}
    assert list(arrays) == manifest["arrays"] == sorted(arrays)
    loaded, header = scurry.load(path), manifest["header"]
    forest = loaded if manifest["kind"] == "forest" else loaded.forest
    page = (Path(__file__).parents[3] / "docs" / "format.md").read_text(encoding="utf-8")
    for name in (*arrays, *header, *manifest, *(header.get("plan", {}).get("stop") or {}), *header.get("packed", {})):
        assert f"`{name}`" in page or f"`{name.partition('_')[0]}_…`" in page, f"{name} is not documented"
    assert ("layout" in header) == (manifest["version"] > 1)
    if header.get("layout") == "packed":
        arrays = unpacked(header, arrays)
    for name, values in arrays.items():
        if name == "plan_order":
            ours = loaded.plan.order
        elif name.startswith("score_"):
            ours = getattr(loaded.plan.score_map, name.removeprefix("score_"))
        elif name.startswith("member_"):
            of_members = [getattr(member, name.removeprefix("member_")).ravel() for member in forest.wrapper.members]
            ours = np.concatenate(of_members)
        else:
            ours = getattr(loaded.plan.stop if name.startswith("stop_") else forest, name.removeprefix("stop_"))
        assert values.dtype == ours.dtype, name
        assert np.array_equal(values, ours, equal_nan=True), name
    assert (forest.classes is None and header["classes"] is None) or (
        forest.classes.tolist() == header["classes"]["items"]
    )


def unpacked(header: dict, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What docs/format.md says of a packed forest, taken literally."""
    others = {
        name: values for name, values in arrays.items() if name.startswith(("plan_", "stop_", "member_", "score_"))
    }
    if "member_value_table" in others:
        table = others.pop("member_value_table")
        ids = packed_reader.numbers(
            others.pop("member_value_id"), header["wrapper"]["n_values"], packed_reader.bits(len(table))
        )
        others["member_value"] = table[ids]
    return packed_reader.read(header, arrays) | others


def test_the_page_is_about_the_present_version():
    page = (Path(__file__).parents[3] / "docs" / "format.md").read_text(encoding="utf-8")
    assert f"This is **version {FORMAT_VERSION}**" in page


if __name__ == "__main__":
    make(Path(sys.argv[1]))
