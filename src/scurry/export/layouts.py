"""Layouts: the forms in which a model can be written as C."""

from __future__ import annotations

from dataclasses import dataclass

from scurry.errors import InputError


@dataclass(frozen=True)
class Layout:
    """How thresholds and node values are stored.

    Attributes
    ----------
    name : str
    float_thresholds : bool
        float32 thresholds and rows; else both are 16-bit integers.
    value_bits : {8, 16, 32}
        Of each number that a node adds to the sums.
    value_in_node : bool
        Whether that number is part of the node; it must then be a single one.
    if_else : bool
        Trees are code, which leaves the number of each node it comes to: for anytime plans only.
    """

    name: str
    float_thresholds: bool
    value_bits: int
    value_in_node: bool = False
    if_else: bool = False


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("float32", True, 32),
        Layout("int16-uint16", False, 16),
        Layout("int16-uint8", False, 8),
        Layout("int16-node8", False, 8, value_in_node=True),
        Layout("breadcrumb", False, 16, if_else=True),
    )
}


def layout_named(name: str) -> Layout:
    """The layout called so."""
    if name not in LAYOUTS:
        raise InputError(f"layout must be auto or one of {', '.join(LAYOUTS)}, got {name!r}")
    return LAYOUTS[name]
