"""The .scurry container: what is broken, truncated or hostile gives FormatError, and nothing else."""

import errno
import json
import os
import resource
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry import Forest, from_model, load
from scurry.errors import FormatError, InputError, OutputError, ScurryError
from scurry.forest.files import storage
from scurry.forest.files.storage import read_container
from support.mutations import members, mutated, rewritten

STUMP = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
         "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}  # fmt: skip


@pytest.fixture(scope="module")
def saved():
    """A forest as version 1 has it, one number for each node, which version 2 may have too."""
    return storage.container_bytes("forest", *Forest.from_trees([STUMP], classes=["no", "yes"]).to_parts())


@pytest.fixture(scope="module")
def packed():
    return storage.container_bytes("forest", *Forest.from_trees([STUMP], classes=["no", "yes"]).to_packed_parts())


def manifest(data: bytes, **changes) -> bytes:
    return json.dumps(json.loads(members(data)["manifest.json"]) | changes).encode()


def header(data: bytes, **changes) -> bytes:
    whole = json.loads(members(data)["manifest.json"])
    return json.dumps(whole | {"header": whole["header"] | changes}).encode()


def npy(shape: tuple, descr: str = "<i4", body: bytes = b"") -> bytes:
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def refused(tmp_path, data: bytes) -> str:
    path = tmp_path / "bad.scurry"
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        load(path)
    assert "bad.scurry" in str(caught.value)
    return str(caught.value)


def test_round_trip_through_from_model(saved, tmp_path):
    path = tmp_path / "stump.scurry"
    path.write_bytes(saved)
    assert from_model(path).predict([[0.0], [1.0]]).tolist() == ["no", "yes"]
    assert from_model(str(path)).digest == load(path).digest


def test_same_forest_same_bytes(packed, tmp_path):
    Forest.from_trees([STUMP], classes=["no", "yes"]).save(tmp_path / "again.scurry")
    assert (tmp_path / "again.scurry").read_bytes() == packed


def test_contents_begin_at_multiples_of_64(saved, packed):
    for data in (saved, packed):
        for name, content in members(data).items():
            start = data.index(content)
            assert start % 64 == 0, name
            if name.endswith(".npy"):
                assert (start + 10 + int.from_bytes(content[8:10], "little")) % 64 == 0, name


def test_failed_save_leaves_the_old_file(saved, tmp_path):
    path = tmp_path / "f.scurry"
    path.write_bytes(saved)
    odd = Forest.from_trees([STUMP], classes=np.array([frozenset({1}), frozenset({2})], dtype=object))
    with pytest.raises(InputError, match="strings, numbers or booleans"):
        odd.save(path)
    assert path.read_bytes() == saved
    assert [p.name for p in tmp_path.iterdir()] == ["f.scurry"]


def test_who_reads_the_old_file_goes_on_reading_it(saved, tmp_path):
    """A new file takes its place in one move, so that nobody sees half of it."""
    path = tmp_path / "f.scurry"
    path.write_bytes(saved)
    with path.open("rb") as reader:
        start = reader.read(100)
        Forest.from_trees([STUMP] * 50).save(path)
        assert start + reader.read() == saved
    assert load(path).n_trees == 50
    assert [p.name for p in tmp_path.iterdir()] == ["f.scurry"]


def test_members_that_share_their_bytes(saved, tmp_path):
    """A small file could claim much memory."""
    content = members(saved)
    listed = saved.index(b"PK\x01\x02")
    # All members are the content of the largest, which the list of members may say as well as anything.
    largest = max(content, key=lambda name: len(content[name]))
    entry = next(at for at in entries(saved) if saved[at + 46 :].startswith(largest.encode()))
    shared = bytearray(saved)
    for at in entries(saved):
        shared[at + 16 : at + 28], shared[at + 42 : at + 46] = (
            saved[entry + 16 : entry + 28],
            saved[entry + 42 : entry + 46],
        )
    assert len(content) * len(content[largest]) > listed
    assert "claim more bytes than the file has" in refused(tmp_path, bytes(shared))


def entries(data: bytes) -> list[int]:
    """Return where each entry of the list of members begins."""
    return [at for at in range(len(data)) if data.startswith(b"PK\x01\x02", at)]


def test_lists_of_members(saved, tmp_path):
    first, second = entries(saved)[:2]
    end = saved.index(b"PK\x05\x06")
    assert "perhaps twice" in refused(
        tmp_path, saved[:first] + saved[first:second] * 2 + saved[second:end] + end_of(saved, 1)
    )
    assert "257 members" in refused(tmp_path, saved[:end] + end_of(saved, 257 - len(members(saved)), in_bytes=0))
    assert "does not end where it should" in refused(tmp_path, saved[:first] + b"x" + saved[first:])
    assert "does not end as a .scurry file" in refused(tmp_path, saved + b"x")
    assert "damaged" in refused(tmp_path, saved.replace(b"feature.npy", b"futures.npy", 1))


def end_of(data: bytes, n_more: int, in_bytes: int | None = None) -> bytes:
    """Return the end record of a file whose list of members has more entries, all as long as the first."""
    first, second = entries(data)[:2]
    end = bytearray(data[data.index(b"PK\x05\x06") :])
    for at, size, more in (
        (8, 2, n_more),
        (10, 2, n_more),
        (12, 4, n_more * (second - first) if in_bytes is None else 0),
    ):
        end[at : at + size] = (int.from_bytes(end[at : at + size], "little") + more).to_bytes(size, "little")
    return bytes(end)


def test_archives_as_large_as_zip64_has_them(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    Forest.from_trees([STUMP] * 40, classes=["no", "yes"]).save(tmp_path / "large.scurry")
    monkeypatch.undo()
    data = (tmp_path / "large.scurry").read_bytes()
    assert b"PK\x06\x06" in data
    assert b"PK\x06\x07" in data
    with zipfile.ZipFile(tmp_path / "large.scurry") as archive:
        assert archive.testzip() is None
    assert load(tmp_path / "large.scurry").predict([[0.0], [1.0]]).tolist() == ["no", "yes"]
    for at in range(data.index(b"PK\x06\x06"), len(data)):
        for byte in (0, 255):
            if data[at] != byte:
                (tmp_path / "odd.scurry").write_bytes(data[:at] + bytes([byte]) + data[at + 1 :])
                try:
                    load(tmp_path / "odd.scurry")
                except FormatError:
                    continue


def test_new_files_have_the_usual_permissions(tmp_path, monkeypatch):
    """They come from the system. To read the umask is to set it, for all threads of the process."""
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patched:
            patched.delattr(os, "umask")
            Forest.from_trees([STUMP]).save(tmp_path / "f.scurry")
        assert stat.S_IMODE((tmp_path / "f.scurry").stat().st_mode) == 0o640
    finally:
        os.umask(before)


def test_a_folder_in_the_way(tmp_path):
    (tmp_path / "f.scurry").mkdir()
    with pytest.raises(OutputError, match=r"f.scurry cannot be written: Is a directory"):
        Forest.from_trees([STUMP]).save(tmp_path / "f.scurry")
    assert [path.name for path in tmp_path.iterdir()] == ["f.scurry"]


def test_labels_that_are_objects_of_numpy(tmp_path):
    classes = np.array([np.int64(3), np.str_("x")], dtype=object)
    Forest.from_trees([STUMP], classes=classes).save(tmp_path / "f.scurry")
    assert load(tmp_path / "f.scurry").predict([[0.0], [1.0]]).tolist() == [3, "x"]
    with pytest.raises(InputError, match="labels must be finite to be saved"):
        Forest.from_trees([STUMP], classes=[1.0, np.nan]).save(tmp_path / "f.scurry")


def test_every_truncation(packed, tmp_path):
    for length in range(0, len(packed), 11):
        refused(tmp_path, packed[:length])


def test_lies_of_all_kinds(saved, tmp_path):
    huge = npy((2**40,))
    assert "bytes" in refused(tmp_path, rewritten(saved, feature__npy=huge))
    assert "start" in refused(tmp_path, rewritten(saved, feature__npy=npy((-1,))))
    assert "start" in refused(tmp_path, rewritten(saved, feature__npy=npy((1,), "|O", b"\0" * 8)))
    assert "dtype" in refused(tmp_path, rewritten(saved, feature__npy=npy((1,), "<f4", b"\0" * 4)))
    assert "lists" in refused(tmp_path, rewritten(saved, feature__npy=None))
    assert "lists" in refused(tmp_path, rewritten(saved, extra__npy=huge))
    assert "upgrade scurry" in refused(tmp_path, rewritten(saved, manifest__json=manifest(saved, version=99)))
    assert "does not know" in refused(tmp_path, rewritten(saved, manifest__json=manifest(saved, kind="virus")))
    assert "compressed" in refused(tmp_path, rewritten(saved, zipfile.ZIP_DEFLATED))
    assert "nested" in refused(tmp_path, rewritten(saved, manifest__json=b"[" * 100_000 + b" " * 2_000_000))
    assert "sound forest" in refused(tmp_path, rewritten(saved, manifest__json=header(saved, n_features=0)))
    assert "labels" in refused(
        tmp_path, rewritten(saved, manifest__json=header(saved, classes={"dtype": "|O", "items": [{}]}))
    )
    assert "labels" in refused(
        tmp_path, rewritten(saved, manifest__json=header(saved, classes={"dtype": "|S999999999", "items": []}))
    )
    for name in json.loads(members(saved)["manifest.json"])["header"]:
        for junk in ([], {}, "x", 1e308, -1, None, "\ud800"):
            changed = rewritten(saved, manifest__json=header(saved, **{name: junk}))
            (tmp_path / "odd.scurry").write_bytes(changed)
            try:
                load(tmp_path / "odd.scurry")
            except FormatError:
                continue


def test_headers_of_any_length_give_aligned_arrays(saved, tmp_path):
    for padding in range(8):
        text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }" + b" " * padding + b"\n"
        body = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + np.array([0.5, 0, 0]).tobytes()
        (tmp_path / "odd.scurry").write_bytes(rewritten(saved, threshold__npy=body))
        assert read_container(tmp_path / "odd.scurry").array("threshold", np.float64).flags.aligned
        assert load(tmp_path / "odd.scurry").predict([[1.0]]).tolist() == ["yes"]


def test_missing_file_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.scurry")
    with pytest.raises(InputError, match="cannot read the model file"):
        from_model(tmp_path / "nowhere.scurry")


def load_mutated(saved: bytes, seed: int, path) -> None:
    """Either a sound forest or FormatError; anything else is a defect. Even seeds keep checksums right."""
    if seed % 2:
        data = mutated(saved, seed)
    else:
        name = sorted(members(saved))[seed // 2 % len(members(saved))]
        data = rewritten(saved, **{name: mutated(members(saved)[name], seed)})
    path.write_bytes(data)
    try:
        forest = load(path)
    except FormatError:
        return
    rows = (
        np.array([[np.nan], [0.0], [1.0]] * 30) * np.ones((1, forest.n_features)) if forest.n_features < 1000 else None
    )
    if rows is not None:
        forest.predict(rows)
    assert len(forest.left) == len(forest.value) == forest.n_nodes  # what was accepted can be unpacked


@pytest.mark.parametrize("layout", ["saved", "packed"])
@settings(max_examples=250, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_mutations(layout, seed, tmp_path_factory, request):
    load_mutated(request.getfixturevalue(layout), seed, tmp_path_factory.getbasetemp() / "mutated.scurry")


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["saved", "packed"])
def test_a_hundred_thousand_mutations(layout, tmp_path, request):
    data = request.getfixturevalue(layout)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # of this process, whatever tests ran in it
    for seed in range(100_000):
        load_mutated(data, seed, tmp_path / "mutated.scurry")
    grown_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown_bytes < 2**30


def test_errors_share_one_root():
    assert issubclass(FormatError, ScurryError)


class TestDurable:
    def write(self, tmp_path, monkeypatch, *, fail=None, **options):
        """Return what was asked of the disk while a file was written: "file", "name" and "folder"."""
        asked, sync, replace = [], os.fsync, Path.replace

        def note_sync(opened):
            is_folder = stat.S_ISDIR(os.fstat(opened).st_mode)
            asked.append("folder" if is_folder else "file")
            if is_folder and fail is not None:
                raise OSError(fail, "no")
            assert is_folder or os.fstat(opened).st_size > 100, "all is written before"
            sync(opened)

        def note_replace(path, target):
            asked.append("name")
            return replace(path, target)

        monkeypatch.setattr(os, "fsync", note_sync)
        monkeypatch.setattr(Path, "replace", note_replace)
        storage.write_container(tmp_path / "f.scurry", "forest", {}, {"a": np.arange(9)}, **options)
        assert read_container(tmp_path / "f.scurry").array("a", np.int64).tolist() == list(range(9))
        return asked

    def test_the_content_is_on_the_disk_before_the_name(self, tmp_path, monkeypatch):
        assert self.write(tmp_path, monkeypatch, durable=True) == ["file", "name", "folder"]

    def test_usual_files_do_not_wait(self, tmp_path, monkeypatch):
        assert self.write(tmp_path, monkeypatch) == ["name"]

    def test_folders_that_cannot_be_synced(self, tmp_path, monkeypatch):
        assert self.write(tmp_path, monkeypatch, durable=True, fail=errno.EINVAL) == ["file", "name", "folder"]
        with pytest.raises(OutputError, match="cannot be written"):
            self.write(tmp_path, monkeypatch, durable=True, fail=errno.EIO)
