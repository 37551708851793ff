"""XGBoost's files: of older releases, read without XGBoost, and damaged in every way."""

import copy
import json
import subprocess
import sys

import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry.errors import FormatError, UnsupportedModelError
from support.xgboost_models import GOLDEN, REAL, SMALL, X, document, from_document, train, tree_documents


@pytest.mark.parametrize("version", ["1.7.6", "2.1.4", "3.4.1"])
def test_files_of_other_releases(version, tmp_path):
    golden = json.loads((GOLDEN / f"xgboost-{version}.json").read_text())
    rows = np.array(golden["rows"], np.float32)
    forest = from_document(golden["model"], tmp_path)
    np.testing.assert_array_equal(forest.scores(rows), golden["margins"])


def test_what_the_first_json_files_lack_is_not_needed(tmp_path):
    model = train("multi:softprob", rounds=3)
    old = document(model)
    learner = old["learner"]
    del learner["feature_names"], learner["feature_types"], learner["learner_model_param"]["num_target"]
    booster = learner["gradient_booster"]["model"]
    del booster["cats"], booster["iteration_indptr"], booster["gbtree_model_param"]["num_parallel_tree"]
    for tree in booster["trees"]:
        for name in ("split_type", "categories", "categories_nodes", "categories_segments", "categories_sizes"):
            del tree[name]
        tree["default_left"] = list(map(bool, tree["default_left"]))
    assert from_document(old, tmp_path).digest == scurry.from_model(model).digest


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_files_equal_the_model_they_were_saved_from(suffix, tmp_path):
    for objective, categorical in (("multi:softprob", False), ("binary:logistic", True)):
        model = train(objective, 4, categorical)
        model.save_model(tmp_path / f"model.{suffix}")
        assert scurry.from_model(str(tmp_path / f"model.{suffix}")).digest == scurry.from_model(model).digest


def test_files_are_read_without_xgboost(tmp_path):
    train("binary:logistic", 2).save_model(tmp_path / "model.ubj")
    code = f"import sys, scurry; scurry.from_model({str(tmp_path / 'model.ubj')!r}); sys.exit('xgboost' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_old_binary_format_is_refused_by_name(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"binf\x9a\x99\x99>\x03\x00\x00\x00")
    with pytest.raises(FormatError, match=r"old binary format.*save it as \.json or \.ubj"):
        scurry.from_model(tmp_path / "model.bin")


@pytest.fixture(scope="module")
def small_files():
    model = train("binary:logistic", 2, True, max_depth=2, max_cat_to_onehot=1, booster="dart", rate_drop=0.5)
    return {suffix: bytes(model.save_raw(suffix)) for suffix in ("json", "ubj")}


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_every_truncation_is_refused(suffix, tmp_path):
    matrix = xgb.DMatrix(X[:, :1], REAL)
    path, data = tmp_path / "model", bytes(xgb.train(SMALL | {"max_depth": 1}, matrix, 1).save_raw(suffix))
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError):
            scurry.from_model(path)


@settings(max_examples=300, deadline=None)
@given(suffix=st.sampled_from(["json", "ubj"]), seed=st.integers(0, 2**32 - 1), n_flips=st.integers(1, 4))
def test_flipped_bytes_give_a_forest_or_an_error_of_scurry(suffix, seed, n_flips, small_files, tmp_path_factory):
    rng = np.random.default_rng(seed)
    data = bytearray(small_files[suffix])
    for at in rng.integers(1, len(data), n_flips):
        data[at] = rng.integers(256)
    path = tmp_path_factory.getbasetemp() / "flipped"
    path.write_bytes(data)
    try:
        forest = scurry.from_model(path)
    except (FormatError, UnsupportedModelError):
        return
    assert forest.n_trees >= 1


junk = st.sampled_from(
    [
        None,
        True,
        -1,
        10**30,
        1e300,
        float("nan"),
        "",
        "x",
        "-1",
        "9" * 30,
        "[1e999]",
        [],
        [[]],
        [1, "a"],
        {},
        [{}],
        2**31,
    ]
)


def members(value, path=()):
    """Every path into a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from members(item, (*path, key))


@settings(max_examples=400, deadline=None)
@given(data=st.data(), value=junk, delete=st.booleans())
def test_any_changed_member_gives_a_forest_or_an_error_of_scurry(data, value, delete, small_files, tmp_path_factory):
    model = json.loads(small_files["json"])
    *parents, last = data.draw(st.sampled_from([path for path in members(model) if path]))
    inner = model
    for key in parents:
        inner = inner[key]
    if delete:
        del inner[last]
    else:
        inner[last] = value
    path = tmp_path_factory.getbasetemp() / "changed.json"
    path.write_text(json.dumps(model))
    try:
        forest = scurry.from_model(path)
    except (FormatError, UnsupportedModelError):
        return
    assert forest.n_trees >= 1


def test_trees_that_are_none_are_refused(tmp_path):
    sound = document(train("binary:logistic", 2, True, max_depth=2, max_cat_to_onehot=1))
    tree = tree_documents(sound)[0]

    def refused(message, **members):
        broken = copy.deepcopy(sound)
        tree_documents(broken)[0].update(members)
        with pytest.raises(FormatError, match=message):
            from_document(broken, tmp_path)

    left, right = tree["left_children"], tree["right_children"]
    refused("children", left_children=[len(left), *left[1:]])
    refused("children", left_children=[-1, *left[1:]])
    refused("two nodes", left_children=[0, *left[1:]])
    refused("two nodes", left_children=[right[0], *left[1:]])
    refused("sizes", split_conditions=tree["split_conditions"][1:])
    refused("plain list of numbers", split_conditions=["0.5"] * len(left))
    refused("values of type", left_children=[1.5, *left[1:]])
    refused("without categories", categories_nodes=[], categories_segments=[], categories_sizes=[])
    refused("does not have", categories=[2**24] * len(tree["categories"]))
    refused("does not have", categories_sizes=[2**40] * len(tree["categories_nodes"]))
    refused("does not have", categories_segments=[-1] * len(tree["categories_nodes"]))
    refused("does not have", categories_nodes=[len(left)] * len(tree["categories_nodes"]))
    refused("not sound", split_indices=[5] * len(left))
    refused("not sound", split_conditions=[float("inf")] * len(left))


def test_hostile_counts_allocate_nothing(tmp_path):
    model = document(train("multi:softprob", 1))
    for name, value in (
        ("num_class", "9" * 17),
        ("num_class", "-1"),
        ("num_class", "3" * 40),
        ("base_score", "[1, 2]"),
    ):
        changed = copy.deepcopy(model)
        changed["learner"]["learner_model_param"][name] = value
        with pytest.raises(FormatError):
            from_document(changed, tmp_path)
