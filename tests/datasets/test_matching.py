"""Matching the columns and labels of a source that spells them in its own way."""

import numpy as np
import pytest

from scurry.datasets import catalogue
from scurry.datasets import files as dataset_files
from scurry.datasets.files import Column
from scurry.errors import FormatError
from support.tiny_dataset import TINY_FACTS


def test_columns_by_name_in_any_order():
    found = catalogue._match(["fLength", "job_title"], ["Job-Title", "unused", "fLength:"], "there")
    assert found == {"fLength": "fLength:", "job_title": "Job-Title"}


def test_columns_by_position_where_the_source_has_its_own_names():
    assert catalogue._match(["length", "width"], ["V1", "V2"], "there") == {"length": "V1", "width": "V2"}
    marks = ["freq_;", "freq_(", "make"]
    assert catalogue._match(marks, ["freq_%3B", "freq_%28", "make"], "there") == dict(
        zip(marks, ["freq_%3B", "freq_%28", "make"], strict=True)
    )


@pytest.mark.parametrize("found", [["V1"], ["V1", "length"], ["V1", "V2", "V3"]])
def test_columns_in_doubt_are_refused(found):
    with pytest.raises(FormatError, match=f"has {len(found)} feature columns, expected 2"):
        catalogue._match(["length", "width"], found, "there")


def facts(**changes) -> catalogue._Facts:
    return catalogue._Facts(**(TINY_FACTS | changes))


def test_labels_by_spelling_or_by_count():
    classes = facts(classes={"live": 3, "die": 2, "7": 2})
    given_labels = ["LIVE", "DIE", "LIVE", "7", "LIVE", "DIE", "7"]
    labels = catalogue._labels(classes, dataset_files._column(given_labels), "there")
    assert labels.tolist() == ["live", "die", "live", "7", "live", "die", "7"]
    numbers = facts(classes={"1": 1, "2": 3}, class_dtype="uint8")
    labels = catalogue._labels(numbers, dataset_files._column(["sick", "well", "well", "well"]), "there")
    assert labels.dtype == np.uint8
    assert labels.tolist() == [1, 2, 2, 2]


@pytest.mark.parametrize("cells", [["a", "b"], ["no"] * 4 + ["yes"], ["x", "x", "y", "y", "z", "z"]])
def test_other_classes_are_refused(cells):
    with pytest.raises(FormatError, match=f"{len(cells)} rows.*expected 6 rows with no: 4, yes: 2"):
        catalogue._labels(facts(), dataset_files._column(cells), "there")


def test_nominal_numbers_become_numbers():
    column = dataset_files.categorical(np.array([0, 1, -1]), ["10", "9"])
    np.testing.assert_array_equal(
        catalogue._typed("age", column, False, "there").values, np.array([10, 9, np.nan], "float32")
    )
    with pytest.raises(FormatError, match="'no' in 'age', which should be numeric"):
        catalogue._typed("age", dataset_files.categorical(np.array([0]), ["no"]), False, "there")
    with pytest.raises(FormatError, match="numbers in 'job', which should be categorical"):
        catalogue._typed("job", Column(np.zeros(1)), True, "there")
