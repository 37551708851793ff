"""Packed: a forest or predictor that travels between processes as the bytes of its file."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

from scurry.forest import Forest
from scurry.predictor import Predictor, load


class Packed:
    """A forest or predictor that can be pickled; it is unpacked once per process.

    Parameters
    ----------
    content : Forest or Predictor
    """

    def __init__(self, content: Forest | Predictor) -> None:
        self.digest = content.digest
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "content.scurry")
            content.save(path)
            self._file = path.read_bytes()

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Packed) and self.digest == other.digest

    @property
    def predictor(self) -> Predictor:
        """What was packed; a forest asks every tree."""
        return _unpacked(self)

    @property
    def forest(self) -> Forest:
        """The forest that was packed, alone or with a plan."""
        return self.predictor.forest

    def _unpack(self) -> Predictor:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "content.scurry")
            path.write_bytes(self._file)
            content = load(path)
        return content if isinstance(content, Predictor) else Predictor.full(content)


@lru_cache(maxsize=4)
def _unpacked(packed: Packed) -> Predictor:
    return packed._unpack()
