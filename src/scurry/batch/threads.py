"""Lanes: threads for fragments that are scored at the same time, which help each other when there are few fragments."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Lock
from typing import Self, TypeVar

T = TypeVar("T")
_N_AHEAD = 2


class _Ended(Exception):
    pass


class Lanes:
    """Threads for fragments that are on their way at the same time.

    While there are as many fragments as lanes, each keeps to its thread, which is best for caches. Else its next batch
    is read and its last one written beside the scoring.

    Parameters
    ----------
    n : int
    n_fragments : int
    """

    def __init__(self, n: int, n_fragments: int) -> None:
        self.n, self._n_left = n, n_fragments
        self._lock, self._has_ended = Lock(), Event()

    def finish(self) -> None:
        """One fragment is done with."""
        with self._lock:
            self._n_left -= 1

    def have_room(self) -> bool:
        """Whether some lane has no fragment."""
        return self._n_left < self.n

    def end(self) -> None:
        """Every lane gives up before its next batch."""
        self._has_ended.set()

    def raise_if_ended(self) -> None:
        """Raise if the run is over, though not all fragments."""
        if self._has_ended.is_set():
            raise _Ended


def ahead(items: Iterable[T], lanes: Lanes) -> Iterator[T]:
    """The same items, made in another thread ahead of their use as soon as the lanes have room."""
    iterator = iter(items)
    while not lanes.have_room():
        if (item := next(iterator, None)) is None:
            return
        yield item
    with ThreadPoolExecutor(1) as maker:
        pending = deque(maker.submit(next, iterator, None) for _ in range(_N_AHEAD))
        while (item := pending.popleft().result()) is not None:
            pending.append(maker.submit(next, iterator, None))
            yield item


class Behind:
    """Makes calls one after the other, in another thread while the lanes have room; raises what the last one raised."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes, self._thread, self._pending = lanes, ThreadPoolExecutor(1), Future[None]()
        self._pending.set_result(None)

    def __enter__(self) -> Self:
        return self

    def call(self, function: Callable[[T], None], argument: T) -> None:
        """Call the function, now or soon."""
        self._pending.result()
        if self._lanes.have_room():
            self._pending = self._thread.submit(function, argument)
        else:
            function(argument)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._thread.shutdown()
        if error is None:
            self._pending.result()
