"""LightGBM's text files: read without LightGBM, and damaged in every way."""

import json
import subprocess
import sys
import tracemalloc

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry.errors import FormatError, UnsupportedModelError
from scurry.importers.lightgbm import import_file
from support.lightgbm_models import BINARY, TABLE, TARGET, fitted, train


def test_file_round_trip(tmp_path):
    booster = fitted(lgb.LGBMClassifier, TARGET, TABLE).booster_
    booster.save_model(tmp_path / "model.txt")
    digest = scurry.from_model(booster).digest
    assert scurry.from_model(tmp_path / "model.txt").digest == digest
    (tmp_path / "windows.txt").write_bytes((tmp_path / "model.txt").read_bytes().replace(b"\n", b"\r\n"))
    assert scurry.from_model(str(tmp_path / "windows.txt")).digest == digest
    scurry.from_model(booster).save(tmp_path / "model.scurry")
    assert scurry.load(tmp_path / "model.scurry").digest == digest


def test_file_is_read_without_lightgbm(tmp_path):
    train("binary", BINARY).save_model(tmp_path / "model.txt")
    code = (
        "import sys; sys.modules['lightgbm'] = None; import scurry; "
        f"print(scurry.from_model({str(tmp_path / 'model.txt')!r}).n_trees)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "8\n"


TEXT = train("binary", BINARY, categorical=(3,), rounds=3).model_to_string()


def import_text(folder, text):
    path = folder / "model.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return import_file(path)


def replaced_entry(key, value, tree=1):
    """TEXT with another value of `key`, in the header or in one tree."""
    start = TEXT.index(
        f"\n{key}=", TEXT.index(f"\nTree={tree}\n") if TEXT.index(f"\n{key}=") > TEXT.index("\nTree=0") else 0
    )
    end = TEXT.index("\n", start + 1)
    old = TEXT[start:end].partition("=")[2]
    return TEXT[:start] + f"\n{key}={value(old) if callable(value) else value}" + TEXT[end:]


def first(value):
    return lambda old: " ".join([value, *old.split()[1:]])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", "v2"),
        ("version", "v5"),
        ("num_class", "0"),
        ("num_class", "100000000"),
        ("num_tree_per_iteration", "2"),
        ("max_feature_idx", "2000000000"),
        ("max_feature_idx", "x"),
        ("feature_names", "a b c"),
        ("tree_sizes", "100 100"),
        ("objective", "binary sigmoid:0"),
        ("objective", "binary sigmoid:nan"),
        ("objective", "binary sigmoid:one"),
        ("num_leaves", "1000000000"),
        ("num_leaves", "0"),
        ("num_leaves", "6.5"),
        ("num_leaves", ""),
        ("num_cat", "1000000000"),
        ("num_cat", "0"),
        ("split_feature", first("5")),
        ("split_feature", first("-1")),
        ("split_feature", first("1e300")),
        ("threshold", first("nan")),
        ("threshold", first("0x10")),
        ("decision_type", first("12")),
        ("decision_type", first("-1")),
        ("left_child", first("0")),
        ("left_child", first("999999999")),
        ("left_child", first("-8")),
        ("right_child", lambda old: old.rpartition(" ")[0]),
        ("leaf_value", first("inf")),
        ("leaf_value", first("nan")),
        ("leaf_value", lambda old: old + " 1"),
        ("leaf_weight", first("nan")),
        ("leaf_count", first("-3")),
        ("leaf_count", "1"),
        ("cat_boundaries", lambda old: " ".join(reversed(old.split()))),
        ("cat_boundaries", lambda old: " ".join(["1", *old.split()[1:]])),
        ("cat_boundaries", lambda old: old.rpartition(" ")[0] + " 4000000000"),
        ("cat_threshold", first("4294967296")),
        ("cat_threshold", first("0.5")),
    ],
)
def test_damaged_entries(tmp_path, key, value):
    damaged = replaced_entry(key, value)
    assert damaged != TEXT
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"model\.txt"):
            import_text(tmp_path, damaged)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_node_with_two_parents(tmp_path):
    children = {side: next(x for x in TEXT.split("\n") if x.startswith(side)) for side in ("left_child", "right_child")}
    damaged = TEXT.replace(children["right_child"], children["left_child"].replace("left", "right"))
    with pytest.raises(FormatError, match="child"):
        import_text(tmp_path, damaged)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"tree\n",
        b"tree\nversion=v4\nend of trees\n",
        TEXT.encode().replace(b"Column_1", b"\xff\xfe"),
        TEXT.replace("pandas_categorical:null", "pandas_categorical:[[1, 2"),
        TEXT.replace("pandas_categorical:null", "pandas_categorical:" + "[" * 100_000),
        TEXT.replace("pandas_categorical:null", 'pandas_categorical:{"a": 1}'),
        TEXT[: TEXT.index("\nTree=2")] + TEXT[TEXT.index("\nend of trees") :],
    ],
)
def test_damaged_texts(tmp_path, damaged):
    with pytest.raises(FormatError):
        import_text(tmp_path, damaged)


def test_weights_of_leaves_may_be_anything(tmp_path):
    """Hessians of a user's objective may be zero or negative; inner values still lie within those of their leaves."""
    text = replaced_entry("leaf_weight", lambda old: " ".join(["-5", "0", *old.split()[2:]]))
    forest = import_text(tmp_path, text)
    low, high = forest.value[:, 0].copy(), forest.value[:, 0].copy()
    for node in np.flatnonzero(~forest.is_leaf)[::-1]:
        children = [forest.left[node], forest.right[node]]
        low[node], high[node] = low[children].min(), high[children].max()
    assert ((low - 1e-12 <= forest.value[:, 0]) & (forest.value[:, 0] <= high + 1e-12)).all()


def test_unknown_objective_is_named(tmp_path):
    with pytest.raises(UnsupportedModelError, match="'survival'"):
        import_text(tmp_path, replaced_entry("objective", "survival"))


def usable_or_refused(folder, text):
    try:
        forest = import_text(folder, text)
    except (FormatError, UnsupportedModelError):
        return
    assert forest.scores(np.zeros((2, forest.n_features))).shape == (2, forest.n_outputs)


@settings(max_examples=150, deadline=None)
@given(cut=st.integers(0, TEXT.index("end of trees") + 12))
def test_truncated_files_are_refused(tmp_path_factory, cut):
    with pytest.raises(FormatError):
        import_text(tmp_path_factory.getbasetemp(), TEXT[:cut])


WORDS = st.one_of(
    st.sampled_from(
        ["", "-1", "0", "1e400", "-1e400", "nan", "99999999999999999999", "1_0", "é", "=", "Tree=0", "\n\n"]
    ),
    st.integers(-(2**40), 2**40).map(str),
    st.floats().map(repr),
)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_garbage_in_place_of_words(tmp_path_factory, data):
    words = TEXT.split(" ")
    for _ in range(data.draw(st.integers(1, 3))):
        words[data.draw(st.integers(0, len(words) - 1))] = data.draw(WORDS)
    usable_or_refused(tmp_path_factory.getbasetemp(), " ".join(words))


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(10**400)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=2)),
)


@settings(max_examples=200, deadline=None)
@given(values=st.lists(JSON, max_size=4))
def test_any_lists_of_categories(tmp_path_factory, values):
    assert "[categorical_feature: 3]" in TEXT
    text = TEXT.replace("pandas_categorical:null", f"pandas_categorical:{json.dumps([values])}")
    usable_or_refused(tmp_path_factory.getbasetemp(), text)


@settings(max_examples=200, deadline=None)
@given(a=st.integers(0, 60), b=st.integers(0, 60), delete=st.booleans())
def test_swapped_and_lost_lines(tmp_path_factory, a, b, delete):
    lines = TEXT.split("\n")
    lines[a], lines[b] = lines[b], lines[a]
    if delete:
        del lines[a]
    usable_or_refused(tmp_path_factory.getbasetemp(), "\n".join(lines))


@settings(max_examples=200, deadline=None)
@given(position=st.integers(0, len(TEXT) - 1), byte=st.binary(min_size=1, max_size=3))
def test_flipped_bytes(tmp_path_factory, position, byte):
    data = TEXT.encode()
    usable_or_refused(tmp_path_factory.getbasetemp(), data[:position] + byte + data[position + len(byte) :])
