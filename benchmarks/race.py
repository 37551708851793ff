"""Calls side by side: they take turns, and the best of several rounds counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Calls: TypeAlias = Mapping[str, Callable[[], Any]]
Race: TypeAlias = Callable[[Calls], dict[str, float]]

_SETTLE_S = 0.01  # idle before each turn: some engines' threads spin on for a while after a batch


def race(calls: Calls, n_rounds: int, clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """The shortest time of each call in seconds; `time.process_time` as `clock` helps on a loaded machine."""
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    for _ in range(n_rounds):
        for name, call in calls.items():
            time.sleep(_SETTLE_S)
            start = clock()
            call()
            best[name] = min(best[name], clock() - start)
    return best
