"""The datasets of the papers by name."""

from scurry.datasets.catalogue import Dataset, cache_folder, load, names

__all__ = ["Dataset", "cache_folder", "load", "names"]
