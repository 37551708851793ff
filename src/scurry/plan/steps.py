"""StepRule: a row may stop after any step, whenever the caller's budget ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice
from scurry.forest import Forest
from scurry.plan.rules import StopRule

READOUTS = ("plain", "weighted")


@dataclass(frozen=True, eq=False, kw_only=True)
class StepRule(StopRule):
    """A row may stop after any step, whenever the caller's budget ends.

    The plan's order then names the tree of each step, every tree as often as it is deep. A row answers from the nodes
    it has reached, inner ones included.

    Attributes
    ----------
    readout : {"plain", "weighted"}
        How inner nodes count. "weighted" counts one at depth ``d`` of a tree of depth ``D`` only
        ``((d + 1) / (D + 1)) ** 2`` times. Leaves always count once, so that the full answer is the model's own.
    """

    readout: str = "plain"

    TAG: ClassVar[str] = "StepRule"
    by_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("readout", self.readout, READOUTS)

    def check(self, forest: Forest) -> None:
        """Raise an error unless this rule can stop `forest`: it can stop any."""

    def node_weights(self, forest: Forest) -> NDArray[np.float64]:
        """Return how many times each node counts, shape (n_nodes,); empty if all count once."""
        return readout_weights(forest, self.readout)


def readout_weights(forest: Forest, readout: str) -> NDArray[np.float64]:
    """Return how many times each node counts in a read-out, shape (n_nodes,); empty if all count once."""
    if check_choice("readout", readout, READOUTS) == "plain":
        return np.empty(0)
    height = np.repeat(forest.tree_depth, np.diff(forest.tree_offset)) + 1
    return np.where(forest.is_leaf, 1.0, ((forest.node_depth + 1) / height) ** 2)
