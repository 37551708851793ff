"""Trees of one level with any number of leaves: a root each, for fits that know no forest."""

import numpy as np

from scurry.stopping.sentinels.prefix import Leaves, RowLeaves


def stumps(n_leaves: list[int]) -> Leaves:
    offset = np.concatenate([[0], np.cumsum(np.array(n_leaves) + 1)])
    parent = np.concatenate([[-1] + [root] * n for root, n in zip(offset, n_leaves, strict=False)])
    return Leaves.of(offset, parent)


def rows_of(leaves: Leaves, reached: list[list[int]], values: np.ndarray, base: float = 0.0) -> RowLeaves:
    """Rows by the leaf that each reaches in every stump, with the sum of the leaves' values as their full score."""
    at = np.array(reached)
    return RowLeaves(np.ascontiguousarray(at.T.astype(np.uint8)), values[leaves.offset[:-1] + at].sum(axis=1) + base)
