"""Downloads, from a server run here."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlparse
from urllib.request import urlopen

import numpy as np
import pytest

from scurry import datasets
from scurry import datasets as catalogue
from scurry.errors import FormatError, InputError, ScurryError
from support.tiny_dataset import TINY, TINY_X, assert_tiny

ARFF = """@relation tiny
@attribute Age {19, 25, 31, 33, 40, 60}
@attribute row numeric
@attribute job_title {nurse, cook, baker}
@attribute dose numeric
@attribute outcome {NO, YES}
@data
31,1,nurse,0.5,YES
40,2,?,?,NO
25,3,cook,1.25,NO
60,4,nurse,-3.0,YES
33,5,baker,2.0,NO
19,6,cook,0.001,NO
"""
ARFF_COLUMNS = ["Age", "row", "job_title", "dose", "outcome"]


def openml_pages(arff: str, md5: str | None = None) -> dict[str, bytes]:
    """The four answers of OpenML's API from which a dataset is read."""
    description = {
        "id": "7",
        "name": "tiny",
        "version": "1",
        "status": "active",
        "format": "ARFF",
        "description": "",
        "url": "https://www.openml.org/data/v1/download/70/tiny.arff",
        "md5_checksum": md5 or hashlib.md5(arff.encode()).hexdigest(),
    }
    columns = [
        {
            "index": str(index),
            "name": name,
            "data_type": "numeric" if name in ("row", "dose") else "nominal",
            "is_target": str(name == "outcome").lower(),
            "is_ignore": "false",
            "is_row_identifier": str(name == "row").lower(),
            "number_of_missing_values": "0",
        }
        for index, name in enumerate(ARFF_COLUMNS)
    ]
    qualities = [{"name": "NumberOfInstances", "value": str(len(arff.split("@data\n")[1].splitlines()))}]
    return {
        "/api/v1/json/data/7": json.dumps({"data_set_description": description}).encode(),
        "/api/v1/json/data/features/7": json.dumps({"data_features": {"feature": columns}}).encode(),
        "/api/v1/json/data/qualities/7": json.dumps({"data_qualities": {"quality": qualities}}).encode(),
        "/data/v1/download/70/tiny.arff": arff.encode(),
    }


@pytest.fixture
def server(monkeypatch):
    """A web server whose pages the test fills in; OpenML and UCI are asked there. Yields (pages, requested paths)."""
    pages, requested = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            self.send_response(200 if self.path in pages else 404)
            self.end_headers()
            self.wfile.write(pages.get(self.path, b""))

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", lambda ask: urlopen(here + urlparse(ask.full_url).path))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(catalogue, "UCI_URL", here + "/static/public/{}/data.csv")
    yield pages, requested
    http.shutdown()
    thread.join()
    http.server_close()


def test_download_from_openml(catalogue, server, tmp_path):
    pages, requested = server
    pages |= openml_pages(ARFF)
    assert_tiny(datasets.load("tiny"), has_others=False)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["tiny.npz"]
    asked = len(requested)
    assert_tiny(datasets.load("tiny"), has_others=False)
    assert len(requested) == asked


@pytest.mark.filterwarnings("ignore:Invalid cache")
def test_damaged_download_is_refused(catalogue, server, tmp_path):
    pages, _ = server
    pages |= openml_pages(ARFF, md5="0" * 32)
    with pytest.raises(FormatError, match=r"OpenML sent for dataset 7.*md5"):
        datasets.load("tiny")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("19,6,cook,0.001,NO\n", "", "5 rows with classes NO: 3, YES: 2; expected 6 rows"),
        ("0.001", "?", "3 missing cells, expected 2"),
    ],
)
def test_download_of_another_version_is_refused(catalogue, server, old, new, message):
    pages, _ = server
    pages |= openml_pages(ARFF.replace(old, new))
    with pytest.raises(FormatError, match=f"OpenML 7 has {message}"):
        datasets.load("tiny")


def test_download_from_uci(catalogue, server):
    pages, _ = server
    catalogue(
        download="uci",
        uci_id=9,
        uci_target={"column": "grade", "at_least": 3},
        other_columns=["grade"],
        classes={"0": 4, "1": 2},
        class_dtype="uint8",
    )
    table = TINY.drop(columns=["target", "split", "person"]).assign(grade=[3, 2, 0, 4, 1, 2])
    pages["/static/public/9/data.csv"] = table.to_csv(index=False).encode()
    data = datasets.load("tiny")
    np.testing.assert_array_equal(data.X, TINY_X)
    assert data.y.dtype == np.uint8
    assert data.y.tolist() == [1, 0, 0, 1, 0, 0]
    assert data.extras["grade"].tolist() == [3, 2, 0, 4, 1, 2]


@pytest.mark.parametrize("page", [b"a,b\n1\n", b"\xff\xfe\x00", b""])
def test_uci_page_that_is_no_table(catalogue, server, page):
    pages, _ = server
    catalogue(download="uci", uci_id=9, uci_target={"column": "grade"})
    pages["/static/public/9/data.csv"] = page
    with pytest.raises(FormatError, match="UCI"):
        datasets.load("tiny")


@pytest.mark.filterwarnings("ignore:A network error")
@pytest.mark.parametrize("service", ["openml", "uci"])
def test_unreachable_service(catalogue, server, service):
    catalogue(download=service, uci_id=9, uci_target={"column": "grade"})
    with pytest.raises(ScurryError, match=r"'tiny' is not on this machine and .* cannot be reached .*SCURRY_DATA"):
        datasets.load("tiny")


def test_cache_that_cannot_be_written(catalogue, server, tmp_path):
    pages, _ = server
    pages |= openml_pages(ARFF)
    (tmp_path / "cache").write_text("a file in the way")
    with pytest.raises(InputError, match="set SCURRY_CACHE to a folder that can be written to"):
        datasets.load("tiny")
