"""Importer of skops files: scikit-learn estimators stored without code.

A type that neither skops nor scurry trusts raises an error that names it. scurry trusts two more types than skops:
scikit-learn's trees. Their arrays could make their own `predict` read outside its memory, so they are imported, and
thereby checked, before anything else uses them.
"""

from __future__ import annotations

import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

from scurry import skops

_TREES = ["sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor", "sklearn.tree._tree.Tree"]


def holds_estimator(path: str | PathLike[str]) -> bool:
    """Return whether a zip file is one that skops wrote.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    bool
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return "schema.json" in archive.namelist()
    # No zip, a damaged one, or one packed as skops never does: another reader gives the better message.
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def load_estimator(path: str | PathLike[str]) -> Any:
    """Return the estimator in a skops file; import it with `from_model` before it predicts.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    estimator
    """
    return skops.load_estimator(
        Path(path).read_bytes(),
        _TREES,
        f"the skops file {path}",
        "If you trust them, load it with skops.io.load(path, trusted=[…]) and pass the estimator; XGBoost and LightGBM "
        'models have files of their own, written by model.save_model("model.json") and '
        'model.booster_.save_model("model.txt")',
    )
