"""Models as C for microcontrollers, and the proof that they answer as they should."""

from scurry.export.layouts import LAYOUTS
from scurry.export.to_c import Export, to_c
from scurry.export.verify import Verification, verify

__all__ = ["LAYOUTS", "Export", "Verification", "to_c", "verify"]
