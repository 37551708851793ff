"""Queries in files: rows of a query are ranked together, so no batch may divide one, and none may lie apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.batch.files import Fragment, arrow, open_fragment
from scurry.errors import FormatError, InputError

_N_ROWS_PER_BATCH = 1 << 16


def query_codes(column: Any) -> NDArray[np.int32]:
    """Return the queries of an Arrow column as numbers from 0 on."""
    if column.null_count:
        raise InputError("the column of queries has missing values", argument="groups")
    is_coded = arrow().types.is_dictionary(column.type)
    codes: NDArray[Any] = (column if is_coded else column.dictionary_encode()).indices.to_numpy()
    return codes.astype(np.int32)


def join_queries(batches: Iterable[Any], name: str | None) -> Iterator[Any]:
    """Yield the same rows in batches that do not divide queries; the same batches if no column names queries.

    A query that begins again is an error: it would be ranked as two.
    """
    if name is None:
        yield from batches
        return
    pa, seen = arrow(), _Seen(name)
    waiting: list[Any] = []
    for batch in batches:
        starts = seen.find_new(batch.column(name))
        if len(starts):
            last = int(starts[-1])
            if waiting or last:
                yield pa.concat_batches([*waiting, batch.slice(0, last)])
            waiting = [batch.slice(last)]
        else:
            waiting.append(batch)
    if waiting:
        yield pa.concat_batches(waiting)


def check_queries(fragments: Sequence[Fragment], name: str | None) -> None:
    """Raise an error if rows of a query are in several files, or lie apart in one."""
    if name is None:
        return
    seen = _Seen(name)
    for fragment in fragments:
        seen.begin_file()
        try:
            with open_fragment(
                fragment,
                n_rows_per_batch=_N_ROWS_PER_BATCH,
                columns=lambda names: [name] if name in names else [],
                float_columns=(),
            ) as reader:
                for batch in reader.batches if name in reader.schema.names else ():
                    seen.find_new(batch.column(name))
        except FormatError:
            continue  # scoring reports it


class _Seen:
    """The queries that have begun so far, and the one that may go on."""

    def __init__(self, name: str) -> None:
        self._name, self._seen = name, set[Any]()
        self.begin_file()

    def begin_file(self) -> None:
        """Note that the last query is over."""
        self._current: Any = object()

    def find_new(self, column: Any) -> NDArray[np.intp]:
        """Return where new queries begin in the next part of the column; raise an error if one is not new."""
        starts = np.flatnonzero(np.diff(query_codes(column), prepend=-1))
        begun = [column[int(at)].as_py() for at in starts]
        if begun and begun[0] == self._current:
            starts, begun = starts[1:], begun[1:]
        for query in begun:
            if query in self._seen:
                raise InputError(
                    f"rows of the query {query!r} lie apart, and would be ranked as several queries; sort the rows by "
                    f"{self._name!r}, all rows of a query in one file",
                    argument="groups",
                )
            self._seen.add(query)
        self._current = begun[-1] if begun else self._current
        return starts
