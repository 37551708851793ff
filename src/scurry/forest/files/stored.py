"""StoredForest: what of a forest is written to files, and how it is read from them."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry import _core
from scurry.checks import check_flag, check_instance, float_of
from scurry.errors import FormatError, InputError
from scurry.forest.combinations import Combinations
from scurry.forest.files.members import pack_members, unpack_members
from scurry.forest.files.packed import MAX_GROWTH, Packed, pack
from scurry.forest.files.storage import Container, digest, pack_values
from scurry.forest.front import Front, RawRows
from scurry.forest.structure import ARRAYS, HEADER, NODE_ARRAYS, Expanded, check_header, freeze
from scurry.forest.tree_answers import TreeAnswers
from scurry.forest.wrappers import Wrapper


class StoredForest(TreeAnswers):
    """A forest as arrays, or still packed as it lies in a file: a part of `Forest`."""

    def _set_header(
        self,
        *,
        n_features: int,
        classes: ArrayLike | None,
        aggregation: str,
        input_dtype: str,
        score_dtype: str,
        comparison: str,
        link: str,
        link_scale: float,
        label_from: str,
        decision_threshold: float,
        category_rounding: str,
        feature_names: Sequence[str] | None,
        categories: Mapping[int, ArrayLike] | None,
        encode_numbers: bool,
        integer_dtype: str | None,
        raw_rows: RawRows | None,
        front: Front | Combinations | None,
        wrapper: Wrapper | None,
    ) -> None:
        """Set all fields that are no arrays."""
        try:
            self.n_features = operator.index(n_features)
        except TypeError as error:
            raise InputError(f"n_features must be a whole number, got {n_features!r}", argument="n_features") from error
        self.classes = None if classes is None else freeze(classes, None, "classes")
        self.aggregation, self.comparison = aggregation, comparison
        self.input_dtype, self.score_dtype = input_dtype, score_dtype
        self.integer_dtype = input_dtype if integer_dtype is None else integer_dtype
        self.link, self.link_scale = link, float_of(link_scale)
        self.label_from, self.decision_threshold = label_from, float_of(decision_threshold)
        self.category_rounding, self.encode_numbers = category_rounding, check_flag("encode_numbers", encode_numbers)
        if isinstance(feature_names, str):
            raise InputError(f"feature_names must be a list of names, got {feature_names!r}", argument="feature_names")
        self.feature_names = None if feature_names is None else tuple(map(str, feature_names))
        known = {} if categories is None else categories
        check_instance("categories", known, Mapping)
        self.categories = {operator.index(f): freeze(values, None, f"categories[{f}]") for f, values in known.items()}
        self.raw_rows, self.front, self.wrapper = raw_rows, front, wrapper
        self.is_encoded = self.encode_numbers or front is not None

    def _seal(self) -> None:
        self.__dict__["_is_sealed"] = True  # from here on nothing can be set

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything a saved forest holds, as hex."""
        return digest(*self.to_parts())

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays, which a forest of a packed file has once one of them is asked for."""
        of_node = sum(np.dtype(dtype).itemsize for dtype in NODE_ARRAYS.values()) + 8 * self.n_columns
        others = ("tree_offset", "tree_output", "base_score", "category_offset", "category_bits")
        return int(self.n_nodes * of_node + sum(self.__dict__[name].nbytes for name in others))

    @property
    def is_packed(self) -> bool:
        """Whether arrays of nodes are still packed, as they are in a file."""
        return "_packed" in self.__dict__ and "left" not in self.__dict__

    @property
    def n_columns(self) -> int:
        """Number of values of a node: one for each output, or 1 if each tree serves a single one."""
        packed: Packed | None = self.__dict__.get("_packed")
        return int(self.value.shape[1]) if packed is None else packed.n_columns

    @cached_property
    def tree_depth(self) -> NDArray[np.int32]:
        """Depth of each tree, shape (n_trees,); a single leaf has depth 0."""
        packed: Packed | None = self.__dict__.get("_packed")
        return super().tree_depth if packed is None else packed.tree_depth

    def expand(self) -> Mapping[str, NDArray[Any]]:
        """Return all arrays of nodes; those of a packed file are made now, and kept."""
        if not self.is_packed:
            return self.__dict__
        made: dict[str, NDArray[Any]] = self.__dict__["_packed"].expand()
        self.__dict__.update(made)
        return made

    def release(self) -> None:
        """Forget the arrays of nodes if the forest has them packed as well: they are made again if asked for.

        Runners call it once they have lowered the forest. Arrays take several times the memory of everything that
        predictions read.
        """
        if "_packed" in self.__dict__:
            for name in (*_EXPANDED, "parent", "arrays"):
                self.__dict__.pop(name, None)
            _core.give_back_memory()

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the forest as a JSON header and named arrays, one number for each node."""
        header, arrays = self._header_parts(), {name: getattr(self, name) for name in ARRAYS}
        if self.wrapper is not None:
            header["wrapper"], of_members = pack_members(self.wrapper)
            arrays |= of_members
        return header, arrays

    def to_packed_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the forest as a JSON header and packed arrays, from which the same arrays can be made again.

        A forest with very many values for its splits and leaves is returned as by `to_parts`: a reader would not
        believe that a small file has so many.
        """
        packed: Packed | None = self.__dict__.get("_packed")
        about, arrays = pack(self) if packed is None else packed.parts
        if self.n_nodes * self.n_columns > MAX_GROWTH * sum(array.nbytes for array in arrays.values()):
            return self.to_parts()
        header = self._header_parts() | about
        if self.wrapper is not None:
            header["wrapper"], of_members = pack_members(self.wrapper, packed=True)
            arrays = arrays | of_members
        return header, arrays

    def _header_parts(self) -> dict[str, Any]:
        header = {name: getattr(self, name) for name in HEADER} | {
            "feature_names": self.feature_names,
            "classes": None if self.classes is None else pack_values(self.classes),
            "categories": {str(f): pack_values(values) for f, values in self.categories.items()},
        }
        if self.integer_dtype != self.input_dtype:  # only then, so that other forests keep their digest
            header["integer_dtype"] = self.integer_dtype
        if self.raw_rows is not None:
            header["raw_rows"] = self.raw_rows.to_json()
        return header

    @classmethod
    def from_container(cls, container: Container, trusted: Collection[str] = ()) -> Self:
        """Return the forest of a ``.scurry`` file, be it saved alone or with a plan.

        `trusted` are types of a front to trust besides those that skops trusts.
        """
        with container.reading("forest"):
            classes, names = container.field("classes", dict | None), container.field("feature_names", list | None)
            if names is not None and not all(isinstance(name, str) for name in names):
                raise FormatError("feature_names must be texts")
            packed = container.field("categories", dict) | ({} if classes is None else {"classes": classes})
            values = container.values(packed)
            fields: dict[str, Any] = {name: container.field(name, kind) for name, kind in HEADER.items()}
            fields |= {
                "integer_dtype": container.field("integer_dtype", str) if "integer_dtype" in container.header else None,
                "raw_rows": RawRows.from_json(container.header["raw_rows"]) if "raw_rows" in container.header else None,
                "front": _front_of(container, trusted),
                "feature_names": names,
                "classes": values.pop("classes", None),
                # -1 is no feature: the checks refuse it by their own message.
                "categories": {int(f) if f.isdecimal() and len(f) < 11 else -1: one for f, one in values.items()},
            }
            layout = container.header.get("layout", "plain")
            if layout not in ("plain", "packed"):
                raise FormatError(f"it has the layout {layout!r}, which this version of scurry does not know")
            if layout == "packed":
                return cls._of_packed(container, fields)
            arrays = {name: container.array(name, dtype) for name, dtype in ARRAYS.items()}
            whole: Self = _build(cls, arrays, fields, container)
            return whole

    @classmethod
    def _of_packed(cls, container: Container, fields: dict[str, Any]) -> Self:
        packed = Packed(container, fields["n_features"])
        if "member_value_table" in container:
            # Its members read the trees of the whole, so that these are needed at once.
            arrays = packed.fixed | packed.expand()
            del arrays["_node_depth"]
            whole: Self = _build(cls, arrays, fields, container)
            return whole
        forest = cls.__new__(cls)
        forest.__dict__ |= packed.fixed | {"_packed": packed}
        forest._set_header(**fields, wrapper=unpack_members(container, {}, cls))
        check_header(forest)
        if forest.wrapper is not None:
            forest.wrapper.check(forest)
        forest._seal()
        return forest


def _front_of(container: Container, trusted: Collection[str]) -> Front | Combinations | None:
    if "front" not in container.header:
        return None
    about = container.header["front"]
    if isinstance(about, dict) and "combinations" in about:
        return Combinations.from_container(container)
    return Front.from_parts(about, container.array("front", np.uint8), trusted)


def _build(build: Any, arrays: dict[str, NDArray[Any]], fields: dict[str, Any], container: Container) -> Any:
    return build(**arrays, **fields, wrapper=unpack_members(container, arrays, build))


_EXPANDED = (*NODE_ARRAYS, "value", "_node_depth")
for _name in _EXPANDED:
    setattr(StoredForest, _name, Expanded(_name))
