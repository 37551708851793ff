"""ONNX: files with the tree operators of ONNX-ML, read without any package."""

from scurry.importers.onnx.model import import_file, import_model

__all__ = ["import_file", "import_model"]
