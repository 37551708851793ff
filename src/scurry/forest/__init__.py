"""Forest: what a trained model is, and the functions that turn any table into the rows it reads."""

from scurry.forest.forest import Forest
from scurry.forest.front import Front, RawRows
from scurry.forest.members import as_member
from scurry.forest.rows import as_rows, as_value, columns_read, float_columns, text_columns, thread_count
from scurry.forest.tables import Encoder
from scurry.forest.tree_answers import decision_slack, leaf_scores, score_step, score_threshold
from scurry.forest.wrappers import Averaged, Calibrated, Isolation, OneVsRest, Samme, Thresholded, Voted, Wrapper

__all__ = [
    "Averaged",
    "Calibrated",
    "Encoder",
    "Forest",
    "Front",
    "Isolation",
    "OneVsRest",
    "RawRows",
    "Samme",
    "Thresholded",
    "Voted",
    "Wrapper",
    "as_member",
    "as_rows",
    "as_value",
    "columns_read",
    "decision_slack",
    "float_columns",
    "leaf_scores",
    "score_step",
    "score_threshold",
    "text_columns",
    "thread_count",
]
