"""skops: estimators as bytes, with types that must be trusted and sizes that must be true."""

import io
import json
import zipfile

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer

from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.skops import check_sizes, dump_estimator, load_estimator

pytest.importorskip("skops.io")
FITTED = PCA(1).fit([[0.0, 1.0], [1.0, 3.0], [2.0, 4.0]])


def change(data, name, content, compression=zipfile.ZIP_STORED):
    """Return the content of a skops file with one member more, or another one."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(changed, "w") as new:
        for member in old.namelist():
            if member != name:
                new.writestr(member, old.read(member))
        new.writestr(name, content, compression)
    return changed.getvalue()


def test_estimators_come_back():
    data = dump_estimator(FITTED, "it")
    check_sizes(data, "it")
    assert load_estimator(data, (), "it", "").transform([[5.0, 5.0]]) == FITTED.transform([[5.0, 5.0]])


def test_functions_of_a_script_are_refused_when_they_are_stored():
    with pytest.raises(InputError, match="it cannot be stored by skops"):
        dump_estimator(FunctionTransformer(lambda X: X), "it")


def test_types_must_be_trusted():
    data = dump_estimator(FunctionTransformer(json.dumps), "it")
    with pytest.raises(UnsupportedModelError, match=r"it holds types that are not trusted: json\.dumps\. Do this"):
        load_estimator(data, (), "it", "Do this")
    assert load_estimator(data, ["json.dumps"], "it", "").func is json.dumps


def test_content_that_claims_more_than_it_holds():
    data = dump_estimator(FITTED, "it")
    large = io.BytesIO()
    np.save(large, np.zeros(2))
    large = large.getvalue().replace(b"(2,)", b"(9,)")
    for damaged, problem in (
        (change(data, "more.npy", large), r"claims shape \(9,\)"),
        (change(data, "more", bytes(10_000), zipfile.ZIP_DEFLATED), "more bytes than it has"),
        (change(data, "more", b"abc" + bytes(9), zipfile.ZIP_DEFLATED), "compressed or encrypted"),
        (data[:-30], "not readable by skops"),
    ):
        with pytest.raises(FormatError, match=problem):
            check_sizes(damaged, "it")
    with pytest.raises(FormatError, match="it is not readable by skops"):
        load_estimator(change(data, "schema.json", "{"), (), "it", "")
