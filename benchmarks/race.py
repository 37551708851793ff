"""Calls side by side: they take turns, and the best of several rounds counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

_SETTLE_S = 0.01  # idle before each turn: some engines' threads spin on for a while after a batch


def race(calls: Mapping[str, Callable[[], Any]], n_rounds: int) -> dict[str, float]:
    """The shortest time of each call in seconds."""
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    for _ in range(n_rounds):
        for name, call in calls.items():
            time.sleep(_SETTLE_S)
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best
