"""Work that is divided between processes: results as they come, errors beside them, and an end in time."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import TimeoutError as JobsTimeoutError
from multiprocessing import get_context
from typing import Any


def run_jobs(
    work: Callable[[Any], Any], jobs: Sequence[Any], n_processes: int, seconds: float | None = None
) -> Iterator[tuple[Any, Any, str]]:
    """Yield each job with its result, or with what went wrong, in the order in which they end.

    Jobs begin in the order in which they are given. After so many seconds, or if the process is asked to terminate or
    is interrupted, those that have not ended are given up, and the iterator ends as if there were no more.
    """
    if not jobs:  # processes that end before they have begun may hang
        return
    end = time.monotonic() + (1e9 if seconds is None else seconds)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        if n_processes == 1:
            for job in jobs:
                if time.monotonic() > end:
                    return
                yield _try(work, job)
            return
        with get_context("fork").Pool(n_processes, _leave_signals) as pool:  # leaving it ends processes that still work
            results = pool.imap_unordered(partial(_try, work), jobs)
            for _ in jobs:
                yield results.next(timeout=max(end - time.monotonic(), 0.0))
    except KeyboardInterrupt:
        print("stopped", flush=True)
    except JobsTimeoutError:
        print(f"stopped after {seconds:g} seconds", flush=True)
    finally:
        signal.signal(signal.SIGTERM, before)


def _try(work: Callable[[Any], Any], job: Any) -> tuple[Any, Any, str]:
    try:
        return job, work(job), ""
    except Exception:
        return job, None, traceback.format_exc(limit=-3)


def _leave_signals() -> None:
    """Let a signal end this process at once; the one that started it says what was reached."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
