"""Smaller forests that answer nearly alike: fewer distinct splits and leaves, fewer and smaller trees."""

from scurry.compression.leaf_values import refit
from scurry.compression.path import packed_size
from scurry.compression.sharing import share_counts, share_probabilities, share_thresholds, share_values
from scurry.compression.weakest_links import keep_share, keep_trees, split_levels

__all__ = [
    "keep_share",
    "keep_trees",
    "packed_size",
    "refit",
    "share_counts",
    "share_probabilities",
    "share_thresholds",
    "share_values",
    "split_levels",
]
