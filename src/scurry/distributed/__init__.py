"""Scoring and fitting on a Dask cluster, with the same results as on one machine."""

from scurry.distributed.fitting import anytime, early_exit, find_order, prune
from scurry.distributed.scoring import Scorer, score

__all__ = ["Scorer", "anytime", "early_exit", "find_order", "prune", "score"]
