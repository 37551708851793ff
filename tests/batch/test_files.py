"""Fragments: which files are found, how they are named, and how they are read."""

import pyarrow as pa
import pytest
from pyarrow import csv, ipc
from pyarrow import parquet as pq

from scurry.batch.files import Fragment, find, open_fragment
from scurry.errors import FormatError, InputError

TABLE = pa.table({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": ["x", "y", "z"]})


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


def test_folders_are_searched_for_known_suffixes(tmp_path):
    touch(tmp_path, "b.parquet", "day/a.CSV", "day/c.csv.gz", "notes.txt", "_SUCCESS.csv", ".hidden.parquet")
    found = find(tmp_path)
    assert [fragment.name for fragment in found] == ["b.parquet", "day/a.CSV", "day/c.csv.gz"]
    assert [fragment.output_name for fragment in found] == ["b.parquet", "day/a.CSV.parquet", "day/c.csv.gz.parquet"]
    assert [fragment.path for fragment in found] == [tmp_path / fragment.name for fragment in found]


def test_patterns_name_files_from_the_first_wildcard_on(tmp_path):
    touch(tmp_path, "day=1/rows.csv", "day=2/rows.csv")
    assert [fragment.name for fragment in find(f"{tmp_path}/day=*/*.csv")] == ["day=1/rows.csv", "day=2/rows.csv"]
    assert [fragment.name for fragment in find(f"{tmp_path}/day=1/*.csv")] == ["rows.csv"]


def test_a_file_that_is_named_twice_is_read_once(tmp_path):
    touch(tmp_path, "rows.csv")
    assert len(find([tmp_path, tmp_path / "rows.csv"])) == 1


@pytest.mark.parametrize("source", ["empty", "none-*.csv"])
def test_nothing_found_is_an_error(tmp_path, source):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no file|no file matches") as raised:
        find(tmp_path / source)
    assert raised.value.argument == "source"


@pytest.mark.parametrize("suffix", ["parquet", "pq", "csv", "csv.gz", "arrow", "ipc", "feather"])
def test_every_format_gives_the_chosen_columns(tmp_path, suffix):
    path = tmp_path / f"rows.{suffix}"
    if suffix in ("parquet", "pq"):
        pq.write_table(TABLE, path)
    elif suffix.startswith("csv"):
        with pa.CompressedOutputStream(str(path), "gzip") if suffix == "csv.gz" else path.open("wb") as stream:
            csv.write_csv(TABLE, stream)
    else:
        with (ipc.new_stream if suffix == "arrow" else ipc.new_file)(path, TABLE.schema) as writer:
            writer.write_table(TABLE, max_chunksize=2)

    def choose(names):
        assert names == ["a", "b", "c"]
        return ["c", "a"]

    options = {"n_rows_per_batch": 2, "columns": choose, "float_columns": {"a"} if "csv" in suffix else ()}
    with open_fragment(Fragment(path, path.name), **options) as reader:
        found = pa.Table.from_batches(reader.batches, reader.schema)
        assert reader.n_rows in (None, 3)
    assert found.column_names == ["c", "a"]
    assert found.to_pydict() == TABLE.select(["c", "a"]).to_pydict()
    assert found.schema.field("a").type == (pa.float64() if "csv" in suffix else pa.int64())


def test_booleans_and_missing_values_of_csv_files(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c,d\nTrue,1,None,x\nfalse,,NA,None\n,3,7.5,\n")
    options = {"n_rows_per_batch": 2, "columns": list, "float_columns": {"a", "b", "c"}}
    with open_fragment(Fragment(path, path.name), **options, null_texts={"", "None", "NA"}) as reader:
        found = pa.Table.from_batches(reader.batches, reader.schema).to_pydict()
    assert found == {"a": [True, False, None], "b": [1, None, 3], "c": [None, None, 7.5], "d": ["x", None, None]}


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
def test_files_that_cannot_be_read_are_named(tmp_path, suffix):
    path = tmp_path / f"rows.{suffix}"
    path.write_bytes(b"\xff\x00\n1,2,3\n" if suffix == "csv" else b"nothing")
    options = {"n_rows_per_batch": 2, "columns": list, "float_columns": ()}
    with (
        pytest.raises(FormatError, match=rf"rows\.{suffix} cannot be read: "),
        open_fragment(Fragment(path, path.name), **options) as reader,
    ):
        list(reader.batches)


def test_errors_of_the_caller_pass_unchanged(tmp_path):
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    fragment = Fragment(tmp_path / "rows.parquet", "rows.parquet")
    with (
        pytest.raises(OSError, match="disk full"),
        open_fragment(fragment, n_rows_per_batch=2, columns=list, float_columns=()),
    ):
        raise OSError("disk full")


def test_two_files_for_one_output_are_refused(tmp_path):
    touch(tmp_path, "a/rows.csv", "b/rows.csv")
    with pytest.raises(InputError, match=r"would both be written to rows\.csv\.parquet"):
        find([tmp_path / "a" / "rows.csv", tmp_path / "b" / "rows.csv"])


def test_markers_of_other_programs_are_no_rows(tmp_path):
    touch(tmp_path, "part.parquet", "_metadata.parquet", "_temporary.csv", "day/_x.parquet")
    assert [fragment.name for fragment in find(tmp_path)] == ["part.parquet"]
