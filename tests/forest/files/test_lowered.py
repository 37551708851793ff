"""Lowered forests in files: used where they fit, ignored where they do not, and never another answer."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)

import scurry
from scurry import Forest, _core
from scurry.errors import FormatError, InputError
from scurry.forest.files.lowered import LAYOUT, pack_lowered
from scurry.forest.files.storage import checksum, container_bytes, container_of, read_container
from support.mutations import members, mutated, rewritten
from support.sklearn_models import make_data

GOLDEN = Path(__file__).parents[2] / "golden" / "lowered"
X, Y = make_data("binary", 900)
FOREST = scurry.from_model(RandomForestClassifier(8, random_state=0).fit(X, Y))


def parts_of(forest: Forest) -> tuple[dict, dict]:
    return forest.with_engine(*forest.to_packed_parts())


def loaded(header: dict, arrays: dict) -> Forest:
    return Forest.from_container(container_of(container_bytes("forest", header, arrays)))


def is_mapped(forest: Forest) -> bool:
    return type(forest.engine) is _core.MappedEngine


def test_it_is_used_and_answers_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("scurry.forest.files.storage._MAPPED_FROM", 0)
    FOREST.save(tmp_path / "with.scurry", engine=True)
    FOREST.save(tmp_path / "without.scurry")
    again = scurry.load(tmp_path / "with.scurry")
    assert is_mapped(again)
    assert not is_mapped(scurry.load(tmp_path / "without.scurry"))
    np.testing.assert_array_equal(again.predict(X), FOREST.predict(X))
    np.testing.assert_array_equal(again.predict_proba(X), FOREST.predict_proba(X))
    assert again.one_row()(X[0]) == FOREST.one_row()(X[0])
    assert again.is_packed, "nothing above needs arrays"
    assert again.digest == FOREST.digest
    np.testing.assert_array_equal(again.apply(X), FOREST.apply(X))
    # Written again, it is the same file; a reader that knows nothing of it reads the packed forest.
    again.save(tmp_path / "again.scurry", engine=True)
    assert (tmp_path / "again.scurry").read_bytes() == (tmp_path / "with.scurry").read_bytes()
    with pytest.raises(InputError, match="engine"):
        FOREST.save(tmp_path / "with.scurry", engine="yes")


def test_nodes_lie_at_multiples_of_64_bytes_and_are_not_copied(tmp_path, monkeypatch):
    monkeypatch.setattr("scurry.forest.files.storage._MAPPED_FROM", 0)
    FOREST.save(tmp_path / "f.scurry", engine=True)
    container = read_container(tmp_path / "f.scurry")
    for name, dtype in (("lowered_nodes", "<u8"), ("lowered_values", "<f8")):
        array = container.packed_array(name, (dtype,), 1)
        assert array.ctypes.data % 64 == 0
        assert not array.flags.owndata


def test_predictors(tmp_path):
    predictor = scurry.early_exit(FOREST, X, max_disagreement=0.05, confidence=None, random_state=0)
    predictor.save(tmp_path / "p.scurry", engine=True)
    again = scurry.load(tmp_path / "p.scurry")
    assert is_mapped(again.forest)
    np.testing.assert_array_equal(again.predict(X), predictor.predict(X))
    np.testing.assert_array_equal(again.predict_proba(X), predictor.predict_proba(X))
    assert again.digest == predictor.digest


def test_without_inner_values(tmp_path):
    y = X[:, 0] + np.arange(len(X)) / 7
    forest = scurry.from_model(RandomForestRegressor(4, random_state=0).fit(X, y))
    forest.save(tmp_path / "f.scurry", inner_values=False, engine=True)
    again = scurry.load(tmp_path / "f.scurry")
    assert is_mapped(again)
    np.testing.assert_array_equal(again.predict(X), forest.predict(X))


def test_what_is_stored_without(tmp_path):
    """Symmetric trees have a loop of their own, and trees of members are unpacked at once: theirs are made at load."""
    level = {"feature": [0, 1, 1, -1, -1, -1, -1], "threshold": [0.0, 0.5, 0.5, 0, 0, 0, 0],
             "left": [1, 3, 5, -1, -1, -1, -1], "right": [2, 4, 6, -1, -1, -1, -1],
             "value": np.column_stack([np.arange(7), 7 - np.arange(7)]) / 7}  # fmt: skip
    symmetric = Forest.from_trees([level] * 3, n_features=X.shape[1])
    assert symmetric.engine.loop == "symmetric"
    models = [(str(i), RandomForestClassifier(3, random_state=i)) for i in range(2)]
    voting = scurry.from_model(VotingClassifier(models, voting="soft").fit(X, Y))
    for forest in (symmetric, voting):
        forest.save(tmp_path / "f.scurry", engine=True)
        assert "lowered" not in read_container(tmp_path / "f.scurry").header
        np.testing.assert_array_equal(scurry.load(tmp_path / "f.scurry").predict(X), forest.predict(X))


@pytest.mark.parametrize("link", ["mean", "sum"])
def test_sliced_trees(tmp_path, monkeypatch, link):
    monkeypatch.setattr("scurry.forest.files.storage._MAPPED_FROM", 0)
    model = (
        RandomForestClassifier(30, max_depth=4, random_state=0)
        if link == "mean"
        else GradientBoostingClassifier(n_estimators=20, random_state=0)
    )
    forest = scurry.from_model(model.fit(X, Y))
    assert forest.engine.loop == "sliced"
    forest.save(tmp_path / "f.scurry", engine=True)
    again = scurry.load(tmp_path / "f.scurry")
    assert is_mapped(again)
    assert again.engine.loop == "sliced"
    np.testing.assert_array_equal(again.predict_proba(X), forest.predict_proba(X))
    np.testing.assert_array_equal(again.scores(X[:1]), forest.scores(X[:1]))


def test_trees_that_no_prediction_reads_are_checked_when_they_are_read():
    """Trees of a file with an engine that fits them, both unsound: whoever wrote it knew how to."""
    header, arrays = FOREST.to_packed_parts()
    broken = dict(arrays, topology=arrays["topology"] ^ np.uint8(2))
    forest = loaded(*pack_lowered(FOREST.engine, FOREST._header_of_core, header, broken))
    np.testing.assert_array_equal(forest.predict(X), FOREST.predict(X))
    for read in (lambda: forest.left, lambda: forest.tree_depth, lambda: forest.apply(X)):
        with pytest.raises(FormatError, match="splits"):
            read()
    with pytest.raises(FormatError, match="splits"):
        loaded(header, broken)
    other = loaded(header | {"lowered": {"layout": LAYOUT, "digest": "0" * 64}}, broken)
    with pytest.raises(FormatError, match="splits"):
        other.predict(X)


def test_engines_of_other_forests_and_layouts_are_not_used():
    header, arrays = parts_of(FOREST)
    assert is_mapped(loaded(header, arrays))
    other = scurry.from_model(RandomForestClassifier(8, random_state=1).fit(X, Y))
    mixed = {n: a for n, a in arrays.items() if n.startswith("lowered_")} | other.to_packed_parts()[1]
    about = header["lowered"]
    for wrong in (
        loaded(other.to_packed_parts()[0] | {"lowered": about}, mixed),
        loaded(header | {"lowered": about | {"layout": LAYOUT + 1}}, arrays),
        loaded(header | {"lowered": about | {"digest": "0" * 64}}, arrays),
        loaded(header | {"lowered": None}, arrays),
        loaded(header | {"lowered": [1]}, arrays),
        loaded(header | {"decision_threshold": 0.5}, arrays),
        loaded(header, arrays | {"lowered_trees": arrays["lowered_trees"].astype(np.uint64)}),
        loaded(header, arrays | {"lowered_trees": arrays["lowered_trees"][None]}),
        loaded(header, arrays | {"lowered_nodes": arrays["lowered_nodes"][:-1]}),
        loaded(header, {name: array for name, array in arrays.items() if name != "lowered_columns"}),
    ):
        assert not is_mapped(wrong)
        right = other if wrong.digest == other.digest else FOREST
        np.testing.assert_array_equal(wrong.predict_proba(X), right.predict_proba(X))


def test_damaged_files_are_refused():
    data = container_bytes("forest", *parts_of(FOREST))
    start = data.index(b"lowered_nodes.npy")
    flipped = bytearray(data)
    flipped[start + 400] ^= 1
    with pytest.raises(FormatError, match="lowered_nodes"):
        container_of(bytes(flipped))


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_damage_anywhere(first):
    """A file with a byte changed anywhere is refused, or answers as the forest that it then holds."""
    data = container_bytes("forest", *parts_of(FOREST))
    for seed in range(first, first + 50):
        try:
            forest = Forest.from_container(container_of(mutated(data, seed)))
            found = forest.predict_proba(X)
        except (FormatError, InputError):
            continue
        if forest.digest == FOREST.digest:
            np.testing.assert_array_equal(found, FOREST.predict_proba(X))


@pytest.mark.parametrize("name", ["nodes", "trees", "columns", "values", "shape", "label_start"])
def test_damage_with_right_checksums(name):
    """What a checksum does not see is seen by the core, or stays within its arrays."""
    data = container_bytes("forest", *parts_of(FOREST))
    member = f"lowered_{name}.npy"
    content = bytearray(members(data)[member])
    for seed in range(30):
        rng, damaged = np.random.default_rng(seed), bytearray(content)
        damaged[int(rng.integers(128, len(damaged)))] ^= 1 << int(rng.integers(8))
        again = Forest.from_container(container_of(rewritten(data, **{member.replace(".", "__"): bytes(damaged)})))
        assert again.predict_proba(X).shape == (len(X), 2)
        assert again.digest == FOREST.digest


def test_checksums_are_those_of_members(tmp_path):
    FOREST.save(tmp_path / "f.scurry", engine=True)
    container = read_container(tmp_path / "f.scurry")
    for name, array in FOREST.to_packed_parts()[1].items():
        assert container.checksum(name) == checksum(array)


def walked(arrays: dict, row: np.ndarray) -> list[int]:
    """What docs/format.md says of walking lowered trees, taken literally: the value of each tree's leaf, for floats."""
    bits = (row.astype("<f4") + np.float32(0)).view("<u4")
    keys = np.where(bits >> np.uint32(31) == 1, ~bits, bits | np.uint32(1 << 31))
    n_numeric, pad = arrays["lowered_shape"].tolist()
    columns = arrays["lowered_columns"].reshape(-1, 8)
    found, first = [], 0
    for n, _, _ in arrays["lowered_trees"].reshape(-1, 3).tolist():
        at = first
        while True:
            node = int(arrays["lowered_nodes"][at])
            key, column, left = node & 0xFFFFFFFF, node >> 32 & 0xFFFF, node >> 48
            if left == 0:
                found.append(key)
                break
            x = 0 if column == pad else int(keys[columns[column, 0]])
            assert column <= n_numeric
            at += left + (x > key)
        first += n
    return found


def test_the_page_says_enough_to_walk_them():
    _, arrays = parts_of(FOREST)
    table = arrays["lowered_values"].reshape(-1, 2)
    for row in X[:20]:
        values = table[np.array(walked(arrays, row)) & 0xFFFF]
        assert (values.sum(axis=0) / FOREST.n_trees).tolist() == pytest.approx(FOREST.predict_proba(row[None])[0])
    page = (Path(__file__).parents[3] / "docs" / "format.md").read_text(encoding="utf-8")
    for name in arrays:
        assert f"`{name}`" in page, f"{name} is not documented"
    assert f"`layout` is {LAYOUT}" in page


def make(folder: Path) -> None:
    """Write the file of the present layout, and what it answers."""
    path = folder / f"layout{LAYOUT}.scurry"
    FOREST.save(path, engine=True)
    found = {"digest": FOREST.digest, "probabilities": FOREST.predict_proba(X[:40]).tolist()}
    path.with_suffix(".json").write_text(json.dumps(found) + "\n")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.scurry")), ids=lambda path: path.stem)
def test_old_files_answer_as_they_did(path):
    expected, again = json.loads(path.with_suffix(".json").read_text()), scurry.load(path)
    assert is_mapped(again) == (path.stem == f"layout{LAYOUT}")
    assert again.predict_proba(X[:40]).tolist() == expected["probabilities"]
    assert again.digest == expected["digest"]


def test_there_is_a_file_of_the_present_layout():
    assert (GOLDEN / f"layout{LAYOUT}.scurry").exists()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="tells shared memory on Linux only")
def test_processes_share_nodes(tmp_path):
    """No page of the mapped file becomes a copy of the process that predicts from it."""
    forest = scurry.from_model(RandomForestClassifier(60, random_state=0).fit(X, Y))
    forest.save(tmp_path / "f.scurry", engine=True)
    program = """
import sys, numpy, scurry
forest = scurry.load(sys.argv[1])
forest.predict(numpy.zeros((5, forest.n_features), numpy.float32))
text, copied, size = open("/proc/self/smaps").read(), 0, 0
for block in text.split(sys.argv[1])[1:]:
    fields = dict(line.split(":") for line in block.splitlines()[1:20] if ":" in line)
    size += int(fields["Rss"].split()[0])
    copied += int(fields["Anonymous"].split()[0])
print(size, copied)
"""
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "f.scurry")], capture_output=True, text=True, check=True
    )
    size, copied = map(int, run.stdout.split())
    assert size > 60
    assert copied == 0


if __name__ == "__main__":
    make(Path(sys.argv[1]))
