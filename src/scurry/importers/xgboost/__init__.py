"""XGBoost: models, and files that are read without any package."""

from scurry.importers.xgboost.model import import_file, import_model

__all__ = ["import_file", "import_model"]
