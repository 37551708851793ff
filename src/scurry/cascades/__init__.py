"""Cascades: a cheap forest answers the rows it is sure of, and passes the others on to an expensive model.

`scurry.cascade` makes one, with a promise about how often the answers differ from the expensive model's. `train_sizes`
trains cheap models of several sizes, of which `scurry.cascade` takes the one that costs least.
"""

from scurry.cascades.cascade import Cascade, CascadeRun, train_sizes

__all__ = ["Cascade", "CascadeRun", "train_sizes"]
