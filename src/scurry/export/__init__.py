"""Export: models as C for microcontrollers, and the check that they answer as their source does."""

from scurry.export.c_model import Export, to_c
from scurry.export.lowered import LAYOUTS
from scurry.export.verification import Verification, verify

__all__ = ["LAYOUTS", "Export", "Verification", "to_c", "verify"]
