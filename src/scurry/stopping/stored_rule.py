"""StoredRule: what all stopping rules share, their stored form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from scurry.errors import FormatError


class StoredRule(ABC):
    """A stopping rule that can be written as a JSON-able header and a few arrays."""

    # What an error calls the rule. Class names do not appear in stored forms or messages, so that they may change.
    KIND: ClassVar[str]

    @abstractmethod
    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a JSON-able header and arrays from which `from_parts` makes the same rule."""

    @classmethod
    def from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the rule whose `to_parts` gave `header` and `arrays`.

        Raises
        ------
        FormatError
            If they are not such parts.
        """
        try:
            return cls._from_parts(header, arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"not the parts of a {cls.KIND}: {error}") from error

    def save(self, path: str | PathLike[str]) -> None:
        """Write the rule to a file, which `load` reads; nothing in it is executed then.

        Parameters
        ----------
        path : str or path
        """
        from scurry.forest.files.storage import write_container  # rules work without files

        header, arrays = self.to_parts()
        write_container(path, "rule", {"of": self.KIND, "parts": header}, arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return the rule that `save` wrote.

        Parameters
        ----------
        path : str or path

        Raises
        ------
        FormatError
            If the file is corrupt, or holds something else.
        """
        from scurry.forest.files.storage import read_container

        container = read_container(path)
        held = container.header.get("of") if container.kind == "rule" else container.kind
        if held != cls.KIND:
            raise FormatError(f"{container.path} holds a {held}, not a {cls.KIND}")
        with container.reading(cls.KIND):
            return cls.from_parts(container.field("parts", dict), container.arrays)

    @classmethod
    @abstractmethod
    def _from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Make the rule; a KeyError, TypeError or ValueError says that the parts are wrong."""
