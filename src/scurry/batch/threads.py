"""Threads that score several fragments at once, and read and write in the background when some of them are idle."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Lock
from typing import Generic, Self, TypeVar

T = TypeVar("T")
_N_AHEAD = 2  # one batch being read while the one before waits; more would only take memory


class _Cancelled(Exception):
    pass


class ThreadBudget:
    """How many threads a run may use, and whether some of them are idle.

    While at least as many fragments as threads are unfinished, each fragment is read, scored and written in one thread,
    which is best for caches. After that, threads are idle: the remaining fragments are read and written in them, next
    to the scoring.

    Parameters
    ----------
    n_threads : int
    n_fragments : int
        Fragments of the run, none of them finished yet.
    """

    def __init__(self, n_threads: int, n_fragments: int) -> None:
        self.n_threads, self._n_left = n_threads, n_fragments
        self._lock, self._cancelled = Lock(), Event()

    def finish_fragment(self) -> None:
        """Note that one more fragment is finished."""
        with self._lock:
            self._n_left -= 1

    def has_idle_threads(self) -> bool:
        """Return whether there are fewer unfinished fragments than threads."""
        return self._n_left < self.n_threads

    def cancel(self) -> None:
        """Make every thread give up before its next batch."""
        self._cancelled.set()

    def raise_if_cancelled(self) -> None:
        """Raise if the run was cancelled."""
        if self._cancelled.is_set():
            raise _Cancelled


def read_ahead(items: Iterable[T], threads: ThreadBudget) -> Iterator[T]:
    """Yield the items, and compute the next ones in another thread as soon as one is idle."""
    iterator = iter(items)
    # Once threads are idle they stay so, because fragments only ever finish: there is no way back to this loop.
    while not threads.has_idle_threads():
        if (item := next(iterator, None)) is None:
            return
        yield item
    with ThreadPoolExecutor(1) as reader:
        pending = deque(reader.submit(next, iterator, None) for _ in range(_N_AHEAD))
        while (item := pending.popleft().result()) is not None:
            pending.append(reader.submit(next, iterator, None))
            yield item


class BackgroundWriter(Generic[T]):
    """Write items one after the other, in another thread while one is idle.

    Errors of a write are raised by the next one, or at the end of the ``with`` block.

    Parameters
    ----------
    write : callable
        Called with one item at a time.
    threads : ThreadBudget
    """

    def __init__(self, write: Callable[[T], None], threads: ThreadBudget) -> None:
        self._write, self._threads = write, threads
        self._executor, self._pending = ThreadPoolExecutor(1), Future[None]()
        self._pending.set_result(None)

    def __enter__(self) -> Self:
        return self

    def write(self, item: T) -> None:
        """Write the item, now or in the background."""
        # Waiting for the write before keeps the order of rows, and at most one batch in memory.
        self._pending.result()
        if self._threads.has_idle_threads():
            self._pending = self._executor.submit(self._write, item)
        else:
            self._write(item)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._executor.shutdown()
        # An error of the block explains more than one of a write that it interrupted.
        if error is None:
            self._pending.result()
