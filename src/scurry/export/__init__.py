"""Export: models as C for microcontrollers, with a check that they answer as their source does, and as ONNX."""

from scurry.export.c.model import Export, flash_bytes, to_c
from scurry.export.lowered import LAYOUTS
from scurry.export.onnx_model import OnnxFile, to_onnx
from scurry.export.verification import Verification, verify

__all__ = ["LAYOUTS", "Export", "OnnxFile", "Verification", "flash_bytes", "to_c", "to_onnx", "verify"]
