"""Hostile .scurry files: each is refused when it is loaded, in memory that the size of the file bounds.

Memory is what Python and numpy allocate at most during `load`, against 4 × the bytes of the file.
"""

import io
import json
import os
import tracemalloc
import zipfile

import numpy as np
import pytest

from scurry import Forest, Plan, Predictor, load
from scurry.errors import FormatError, InputError, MissingFileError
from scurry.forest.files.storage import container_bytes, write_container
from scurry.plan import ExitRule, LeaderRule, SentinelRule, TopKRule
from support.strategies import complete_forest

STUMP = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
         "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}  # fmt: skip
N_TREES = 3
FOREST = Forest.from_trees([STUMP] * N_TREES, classes=["no", "yes"])
ORDER = np.arange(N_TREES, dtype=np.int32)


def pieces(**changes) -> ExitRule:
    """A rule with one edge after each number of trees."""
    parts = {
        "kind": "scores",
        "step": 0.01,
        "weights": np.ones(1),
        "lower": np.full((1, N_TREES + 1), -(2**31), np.int32),
        "upper": np.full((1, N_TREES + 1), 2**31 - 1, np.int32),
        "piece_offset": np.arange(N_TREES + 2, dtype=np.uint32),
        "piece_edges": np.zeros(N_TREES + 1, np.int32),
        "piece_sides": np.zeros(2 * N_TREES + 2, np.uint8),
    }
    return ExitRule(**parts | changes)


def votes() -> ExitRule:
    lower, upper = np.array([[-1, -1, 0, 1]], np.int32), np.array([[1, 2, 2, 2]], np.int32)
    return ExitRule(kind="votes", weights=np.ones(1), lower=lower, upper=upper)


def leads() -> LeaderRule:
    return LeaderRule(kind="scores", step=0.01, lead=np.full(N_TREES + 1, 9, np.int32))


def sentinels() -> SentinelRule:
    return SentinelRule(
        sentinels=np.array([1, 2], np.int32),
        lanes=np.ones((FOREST.n_nodes, 2), np.int32),
        lane=np.zeros(2, np.int32),
        scale=np.ones(2),
        offset=np.zeros(2),
        spread_lane=1,
        square=np.zeros(2),
        edge_offset=np.array([0, 1, 3], np.uint32),
        edges=np.array([5, 1, 4], np.int32),
        limits=np.zeros(5),
    )


def ranks() -> TopKRule:
    parts = {name: getattr(sentinels(), name) for name in ("sentinels", "lanes", "lane", "scale", "offset")}
    return TopKRule(k=2, limits=np.ones(2), **parts)


def saved(rule=None) -> bytes:
    """The bytes of a file with this stop rule, or of the plain forest."""
    subject = FOREST if rule is None else Predictor(FOREST, Plan(order=ORDER, stop=rule))
    header, arrays = subject.to_parts()
    return container_bytes("forest" if rule is None else "predictor", header, arrays)


@pytest.fixture(autouse=True, scope="module")
def _imported(tmp_path_factory):
    """Modules that loading imports at its first use are no memory of a file."""
    path = tmp_path_factory.mktemp("sound") / "sound.scurry"
    for rule in (None, pieces(), sentinels()):
        path.write_bytes(saved(rule))
        load(path)


def changed(data: bytes, *, header=None, manifest=None, raw_manifest=None, **arrays) -> bytes:
    """`data` with some arrays and fields of its manifest replaced."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    whole = json.loads(parts["manifest.json"])
    whole |= manifest or {}
    whole["header"] = whole["header"] | (header or {})
    parts["manifest.json"] = json.dumps(whole).encode() if raw_manifest is None else raw_manifest(whole)
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array), version=(1, 0))
        parts[f"{name}.npy"] = buffer.getvalue()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def refused(tmp_path, data: bytes) -> str:
    """The message with which `data` is refused; `load` may not take more than 4 × its size and 64 KiB."""
    path = tmp_path / "hostile.scurry"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError) as caught:
            load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 4 * len(data) + 2**16, f"{peak:,} bytes for a file of {len(data):,}"
    return str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"tree_offset": np.empty(0, np.int64)}, "tree_offset"),
        ({"tree_output": np.full(N_TREES, 2**31 - 1, np.int32)}, "tree_output"),
        ({"category_bits": np.zeros((2, 2), np.uint32)}, "category_bits"),
        ({"category_offset": np.zeros((1, 1), np.int64)}, "category_offset"),
        ({"category_bits": np.zeros((0, 5), np.uint32)}, "category_bits"),
        ({"feature": np.zeros((9, 1), np.int32)}, "feature"),
        ({"base_score": np.zeros((2, 1))}, "base_score"),
        ({"value": np.zeros((0, 2**40))}, "value"),
    ],
    ids=str,
)
def test_arrays_of_a_forest(arrays, message, tmp_path):
    assert message in refused(tmp_path, changed(saved(), **arrays))


@pytest.mark.parametrize(
    "header",
    [
        {"link_scale": 10**400},
        {"link_scale": -(10**400)},
        {"decision_threshold": 10**400},
        {"n_features": True},
        {"n_features": 10**400},
        {"encode_numbers": 1},
        {"link_scale": True},
        {"feature_names": [["a"]]},
        {"categories": {"9" * 5000: {"dtype": "<U1", "items": ["a"]}}},
        {"categories": {"-1": {"dtype": "<U1", "items": ["a"]}}},
        {"feature_names": ["a"] * 100_000},
    ],
    ids=lambda header: str(header)[:40],
)
def test_fields_of_a_forest(header, tmp_path):
    refused(tmp_path, changed(saved(), header=header))


@pytest.mark.parametrize("version", [True, 1.0, "1", 0, -1, None])
def test_versions(version, tmp_path):
    assert "version" in refused(tmp_path, changed(saved(), manifest={"version": version}))


def test_constants_that_are_no_json(tmp_path):
    text = refused(
        tmp_path,
        changed(saved(), raw_manifest=lambda whole: json.dumps(whole | {"x": float("nan")}).encode()),
    )
    assert "NaN" in text


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"stop_piece_sides": np.full(2 * N_TREES + 2, 4, np.uint8)}, "piece_sides must be from 0 to 3"),
        ({"stop_piece_sides": np.full(2 * N_TREES + 2, 255, np.uint8)}, "piece_sides must be from 0 to 3"),
        ({"stop_piece_sides": np.zeros((2 * N_TREES + 2, 1), np.uint8)}, "one list"),
        ({"stop_piece_sides": np.zeros(3, np.uint8)}, "do not fit"),
        ({"stop_piece_edges": np.zeros((2, 2), np.int32)}, "one list"),
        ({"stop_piece_edges": np.zeros((1, 2, 2), np.int32)}, "one list"),
        ({"stop_piece_offset": np.zeros((1, N_TREES + 2), np.uint32)}, "one list"),
        ({"stop_piece_offset": np.array([0, 1, 2, 3, 9], np.uint32)}, "do not fit"),
        ({"stop_piece_offset": np.array([0, 2, 1, 3, 4], np.uint32)}, "do not fit"),
        ({"stop_piece_offset": np.empty(0, np.uint32)}, "do not fit"),
        (
            {
                "stop_piece_offset": np.array([0, 2, 3, 3, 4], np.uint32),
                "stop_piece_edges": np.array([5, 4, 0, 0], np.int32),
            },
            "must rise",
        ),
        ({"stop_weights": np.zeros(1)}, "weights"),
        ({"stop_weights": np.full(1, np.inf)}, "weights"),
        ({"stop_weights": np.full(1, np.nan)}, "weight"),
        ({"stop_weights": np.full(1, -1.0)}, "weight"),
        ({"stop_weights": np.ones((1, 1))}, "weights"),
        ({"base_score": np.array([1e308, -1e308])}, "threshold is more than 2^31"),
        ({"value": np.tile([1e9, -1e9], (9, 1))}, "too small"),
        ({"plan_order": np.zeros(N_TREES, np.int32)}, "order"),
        ({"plan_order": ORDER[None]}, "order"),
    ],
    ids=str,
)
def test_arrays_of_an_exit(arrays, message, tmp_path):
    assert message in refused(tmp_path, changed(saved(pieces()), **arrays))


@pytest.mark.parametrize(
    "stop",
    [{"step": 10**400}, {"step": 0}, {"step": True}, {"step": "1"}, {"seed": True}, {"seed": -1}, {"extra": 1}],
    ids=str,
)
def test_fields_of_an_exit(stop, tmp_path):
    data = saved(votes())

    def with_stop(whole):
        whole["header"]["plan"]["stop"] |= stop
        return json.dumps(whole).encode()

    refused(tmp_path, changed(data, raw_manifest=with_stop))


@pytest.mark.parametrize(
    "arrays",
    [
        {"stop_lead": np.zeros((N_TREES + 1, 1), np.int32)},
        {"stop_need": np.zeros((0, 2**40), np.int32)},
        {"stop_need": np.zeros((N_TREES + 1, N_TREES + 1), np.int32)},
        {"base_score": np.array([1e300, 0.0])},
        {"value": np.tile([1e9, -1e9], (9, 1))},
    ],
    ids=str,
)
def test_arrays_of_a_leader_rule(arrays, tmp_path):
    refused(tmp_path, changed(saved(leads()), **arrays))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"stop_sentinels": np.array([1, N_TREES], np.int32)}, "last sentinel must be below"),
        ({"stop_sentinels": np.array([0, 1], np.int32)}, "rising numbers of trees"),
        ({"stop_sentinels": np.array([2, 2], np.int32)}, "rising numbers of trees"),
        ({"stop_sentinels": np.array([[1, 2]], np.int32)}, "for each sentinel"),
        ({"stop_sentinels": np.array([1], np.int32)}, "for each sentinel"),
        ({"stop_lanes": np.ones((1, 2), np.int32)}, "has lanes for 1 nodes"),
        ({"stop_lanes": np.ones((9, 1), np.int32)}, "spread_lane must be"),
        ({"stop_lanes": np.ones((9, 0), np.int32)}, "lane must be"),
        ({"stop_lanes": np.ones(9, np.int32)}, "for each sentinel"),
        ({"stop_lanes": np.full((9, 2), 2**30, np.int32)}, "more than 2^31"),
        ({"stop_lanes": np.full((9, 2), -(2**31), np.int32)}, "more than 2^31"),
        ({"stop_lane": np.array([0, 2], np.int32)}, "lane must be"),
        ({"stop_lane": np.array([-1, 0], np.int32)}, "lane must be"),
        ({"stop_scale": np.array([np.nan, 1])}, "must be finite"),
        ({"stop_offset": np.array([np.inf, 1])}, "must be finite"),
        ({"stop_square": np.ones(3)}, "for each sentinel"),
        ({"stop_limits": np.full(5, np.nan)}, "no limit may be NaN"),
        ({"stop_limits": np.zeros(4)}, "every interval"),
        ({"stop_limits": np.zeros((5, 1))}, "do not fit"),
        ({"stop_edges": np.array([5, 4, 1], np.int32)}, "must rise"),
        ({"stop_edges": np.array([5, 1], np.int32)}, "rise from 0"),
        ({"stop_edge_offset": np.array([0, 4, 3], np.uint32)}, "rise from 0"),
        ({"stop_edge_offset": np.array([1, 1, 3], np.uint32)}, "rise from 0"),
        ({"stop_edge_offset": np.array([0, 3], np.uint32)}, "do not fit"),
    ],
    ids=str,
)
def test_arrays_of_a_sentinel_rule(arrays, message, tmp_path):
    assert message in refused(tmp_path, changed(saved(sentinels()), **arrays))


@pytest.mark.parametrize(
    "stop",
    [{"spread_lane": 2}, {"spread_lane": -2}, {"spread_lane": True}, {"spread_lane": 1.0}, {"extra": 1}],
    ids=str,
)
def test_fields_of_a_sentinel_rule(stop, tmp_path):
    def with_stop(whole):
        whole["header"]["plan"]["stop"] |= stop
        return json.dumps(whole).encode()

    refused(tmp_path, changed(saved(sentinels()), raw_manifest=with_stop))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"stop_limits": np.array([1.0, np.nan])}, "limits must be 0 or more"),
        ({"stop_limits": np.ones(3)}, "one number for each sentinel"),
        ({"stop_scale": np.array([1.0, -1.0])}, "scale above 0"),
        ({"stop_sentinels": np.array([1, 9], np.int32)}, "last sentinel must be below"),
        ({"stop_lanes": np.full((9, 2), 2**30, np.int32)}, "more than 2^31"),
        ({"stop_lanes": np.ones((3, 2), np.int32)}, "has lanes for 3 nodes"),
    ],
    ids=str,
)
def test_arrays_of_a_top_k_rule(arrays, message, tmp_path):
    regressor = FOREST.replace(value=FOREST.value[:, 1:], classes=None, base_score=[0.0])
    header, parts = Predictor(regressor, Plan(order=ORDER, stop=ranks())).to_parts()
    assert message in refused(tmp_path, changed(container_bytes("predictor", header, parts), **arrays))
    for stop in ({"k": 0}, {"k": True}, {"k": 2.0}, {"keep": "best"}, {"keep": 1}, {"extra": 1}):
        wrong = header | {"plan": header["plan"] | {"stop": header["plan"]["stop"] | stop}}
        refused(tmp_path, container_bytes("predictor", wrong, parts))


def test_votes_of_trees_that_have_one_output():
    boosted = FOREST.replace(value=FOREST.value[:, 1:], tree_output=[0] * N_TREES, base_score=[0.0])
    with pytest.raises(InputError, match="has no vote for every class"):
        Predictor(boosted, Plan(order=ORDER, stop=votes()))


@pytest.mark.parametrize("dtype", ["<U1024", "|S4096"])
@pytest.mark.parametrize("place", ["classes", "categories"])
def test_wide_labels_of_short_texts(dtype, place, tmp_path):
    """A file of 1 MB took 2 GB of memory and 33 s."""
    packed = {"dtype": dtype, "items": ["a"] * 250_000}
    header = {"classes": packed} if place == "classes" else {"categories": {"0": packed}}
    assert "more memory" in refused(tmp_path, changed(saved(), header=header))


def test_wide_labels_in_many_features(tmp_path):
    packed = {"dtype": "<U1024", "items": ["a"] * 64}
    many = {str(feature): packed for feature in range(4_000)}
    assert "more memory" in refused(tmp_path, changed(saved(), header={"categories": many}))


def test_one_long_text_among_short_ones_still_loads(tmp_path):
    """Numpy reserves its length for each of them. Files with such categories exist."""
    names = np.array([f"name {i}" for i in range(5_000)] + ["x" * 1000])
    forest = FOREST.replace(categories={0: names})
    forest.save(tmp_path / "f.scurry")
    found = load(tmp_path / "f.scurry").categories[0]
    assert found.dtype == object
    assert found.tolist() == names.tolist()


@pytest.mark.parametrize("item", [b"[]", b"{}", b"[[]]", b'{"a":0}'])
def test_manifests_of_empty_lists(item, tmp_path):
    """One of 63 MB took 1.4 GB and 16 s to be refused."""
    body = b'{"format": "scurry", "version": 1, "header": [' + b",".join([item] * 300_000) + b"]}"
    assert "more lists" in refused(tmp_path, changed(saved(), raw_manifest=lambda whole: body))


def test_names_may_be_full_of_brackets(tmp_path):
    names = [f"{i}[[[[{{{{{{" for i in range(3_000)]
    forest = FOREST.replace(n_features=len(names), feature_names=names)
    forest.save(tmp_path / "f.scurry")
    assert load(tmp_path / "f.scurry").feature_names == tuple(names)


def test_votes_for_many_classes_take_no_square(tmp_path):
    """One leaf with 20,000 classes: a table of all classes by all classes would take 3.2 GB."""
    n = 20_000
    leaf = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": np.arange(n)[None] / n}
    forest = Forest.from_trees([leaf], classes=np.arange(n), n_features=1, aggregation="vote")
    tracemalloc.start()
    try:
        assert forest.leaf_values().sum() == 1
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(FormatError, match="a folder or a device"):
            load(path)
    with pytest.raises(MissingFileError, match="does not exist") as caught:
        load(tmp_path / "nowhere.scurry")
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(InputError, match="cannot be read"):
        load("a\0b")


@pytest.mark.parametrize(
    "items",
    [
        b"1234," * 800_000,
        b'"ab",' * 800_000,
        b'"",' * 1_300_000,
        b'"' + b"x" * 4_000_000 + rb'\ud83d\ude00",',
        b'"' + b"x" * 4_000_000 + "\U0001f600".encode() + b'",',
    ],
    ids=["numbers", "texts", "empty texts", "one wide escape", "one wide character"],
)
def test_manifests_of_small_values(items, tmp_path):
    """Such a file took 4 to 10 times its size, and 14 times with an object of short keys."""
    body = b'{"format": "scurry", "version": 1, "header": {"classes": [' + items + b"0]}}"
    assert "more memory than 4 times" in refused(tmp_path, changed(saved(), raw_manifest=lambda whole: body))


def test_manifests_of_short_keys(tmp_path):
    body = b'{"format": "scurry", "header": {' + b",".join(b'"%x":0' % i for i in range(400_000)) + b"}}"
    assert "more memory than 4 times" in refused(tmp_path, changed(saved(), raw_manifest=lambda whole: body))


@pytest.mark.parametrize(
    "names",
    [
        np.array([f"{i:05d}" for i in range(100_000)]),
        np.array([f"a, b: {i}, ,,,::::" for i in range(60_000)]),
        np.array([f"город {i}" for i in range(60_000)]),
    ],
    ids=["short", "commas", "not ascii"],
)
def test_many_categories_are_no_attack(names, tmp_path):
    """The largest header that a file without other content may have is far beyond what models hold."""
    FOREST.replace(categories={0: names}).save(tmp_path / "f.scurry")
    assert load(tmp_path / "f.scurry").categories[0].tolist() == names.tolist()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("n_trees", [1, 3, 30])
def test_small_files_take_little_more_than_their_size(n_trees, packed, tmp_path):
    """What a file costs beside 4 × its bytes are the objects of a forest, however small: not the 4 MiB of names."""
    path = tmp_path / "small.scurry"
    forest = complete_forest(n_trees=n_trees, depth=3)
    write_container(path, "forest", *(forest.to_packed_parts() if packed else forest.to_parts()))
    load(path)  # what the first file of a process imports is not of the file
    tracemalloc.start()
    try:
        loaded = load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert loaded.digest == forest.digest
    size = path.stat().st_size
    assert peak <= 4 * size + 2**15, f"{peak:,} bytes for a file of {size:,}"


def test_short_names_need_the_constant_and_stay_within_it(tmp_path):
    """Python takes 57 bytes for a name of 5 characters in a file: 4 × a sound file of nothing else do not suffice."""
    names = np.array([f"{code:05d}" for code in range(60_000)])
    path = tmp_path / "names.scurry"
    FOREST.replace(categories={0: names}).save(path)
    load(path)
    tracemalloc.start()
    try:
        loaded = load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(loaded.categories[0], names)
    size = path.stat().st_size
    assert 4 * size + 2**20 < peak <= 4 * size + 4 * 2**20, f"{peak:,} bytes for a file of {size:,}"
