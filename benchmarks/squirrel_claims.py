"""What the paper on step orders claims, next to what forests here gave."""

from __future__ import annotations

from dataclasses import dataclass, field

from scurry.orders import ORDERS

PAPER_ORDERS = [order for order in ORDERS if order != "auto"]
OURS = {
    "auto": ("auto", "plain"),
    "auto, weighted": ("auto", "weighted"),
    "backward-squirrel, weighted": ("backward-squirrel", "weighted"),
}
CHOSEN = "auto, chosen"  # of the two read-outs the one that does better on the ordering rows


@dataclass(frozen=True)
class Run:
    """What the orders of one forest reach on its test rows."""

    forest: str  # the dataset
    rows: int
    trees: int
    depth: int
    seed: int
    optimal: bool
    nma: dict[str, float]
    padded: dict[str, float]
    final: float
    seconds: dict[str, float]
    curves: dict[str, list[float]] = field(default_factory=dict)


def describe(*a):
    pass


def result_of(*a):
    pass
