"""A catalogue of one dataset, and folders of the test's own."""

import json

import pytest

from scurry import datasets as module
from support.tiny_dataset import TINY_FACTS


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """No folder of this machine is looked at, unless a test says so."""
    monkeypatch.delenv("SCURRY_DATA", raising=False)
    monkeypatch.setenv("SCURRY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def catalogue(monkeypatch, tmp_path):
    """A function that makes scurry know one dataset, "tiny", with the given facts changed."""

    def know(**changes):
        folder = tmp_path / "shipped"
        folder.mkdir(exist_ok=True)
        (folder / "datasets.json").write_text(json.dumps({"tiny": TINY_FACTS | changes}))
        module._catalogue.cache_clear()

    monkeypatch.setattr(module, "_SHIPPED", tmp_path / "shipped")
    know()
    yield know
    module._catalogue.cache_clear()


@pytest.fixture
def data_folder(monkeypatch, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("SCURRY_DATA", str(folder))
    return folder
