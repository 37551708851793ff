"""Pairing: whether labels are those of the rows beside them.

Rows and labels are paired by their places. Labels in another order certify promises about them that are false, and no
error tells. Two signs do: an index in another order, and answers that say nothing about the labels.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import warn
from scurry.forest.forest import Forest

# Deviations: answers that say nothing about labels reach the first in 1 of 1,000 cases, and would reach the second if
# they were right on average. Models that learnt noise by heart announce up to 16 of 3,000 rows, and reach less than 3.
_UNRELATED, _SHOULD_BE_RELATED = 3.0, 20.0


def warn_of_other_order(forest: Forest, X: Any, y: Any, rows: NDArray[Any] | None, names: tuple[str, str]) -> None:
    """Warn if labels do not seem to be those of the rows beside them.

    Parameters
    ----------
    forest : Forest
    X, y : array, DataFrame or Series
        Rows and labels as they were given. The labels must suit the model.
    rows : array of shape (n_rows, n_features) or None
        The rows as the forest reads them; None if they are too many to be looked at.
    names : tuple of two str
        What the caller calls rows and labels.
    """
    x_name, y_name = names
    if said := describe_other_index(getattr(X, "index", None), getattr(y, "index", None)):
        warn(
            f"{x_name} and {y_name} have {said}, and rows are paired by their places; pass "
            f"{y_name}.loc[{x_name}.index] if they belong together by index"
        )
    elif rows is not None and (said := describe_unrelated(forest, rows, np.asarray(y))):
        warn(said)


def describe_other_index(of_rows: Any, of_labels: Any) -> str:
    """Return what two indexes have in common if they are the same in another order; an empty text if not."""
    if not all(hasattr(one, "equals") for one in (of_rows, of_labels)) or of_rows.equals(of_labels):
        return ""
    return "the same index in another order" if is_other_order(list(of_rows), list(of_labels)) else ""


def is_other_order(names: list[Any], others: list[Any]) -> bool:
    """Return whether two lists of names, of any types, hold the same ones in different orders."""
    return len(names) == len(others) and names != others and Counter(names) == Counter(others)


def describe_unrelated(forest: Forest, rows: NDArray[Any], y: NDArray[Any]) -> str:
    """Return a warning if the model's answers say nothing about known labels; an empty text if they do.

    What is measured is how well the answers and the labels go together, in deviations of what another order would give
    by chance: about 0 if they are unrelated, and as much as the answers vary if they are right on average.
    """
    if forest.is_classifier:
        answers = forest.predict_proba(rows)
        known = np.eye(forest.n_classes)[forest.codes_of(y)]
    else:
        answers, known = forest.predict(rows)[:, None], np.asarray(y, np.float64)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        answers, known = answers - answers.mean(axis=0), known - known.mean(axis=0)
        # The variance over all orders of the rows, of a sum over columns: classes that exclude one another, or a value.
        scatter = float(np.sqrt(np.trace((answers.T @ answers) @ (known.T @ known)) / max(len(y) - 1, 1)))
        if not 0 < scatter < np.inf:
            return ""  # all answers or all labels are the same
        found, announced = float((answers * known).sum()) / scatter, float(np.square(answers).sum()) / scatter
    if found >= _UNRELATED or not announced >= _SHOULD_BE_RELATED:
        return ""
    return (
        f"the model's answers say nothing about the labels of these {len(y):,} rows: in any other order they would fit "
        "as well. If labels and rows lie in different orders, what is said or promised about true labels is false"
    )
