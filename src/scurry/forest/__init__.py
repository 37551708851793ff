"""Forest: what a trained model is, and the functions that turn any table into the rows it reads."""

from scurry.forest.combinations import Combinations
from scurry.forest.files.members import as_member
from scurry.forest.forest import Forest
from scurry.forest.front import Front, RawRows
from scurry.forest.pairing import describe_other_index, describe_unrelated, is_other_order, warn_of_other_order
from scurry.forest.precisions import Block, ColumnTypes, RowTypes, float_type_of_arrays, is_number
from scurry.forest.rows import (
    RowCall,
    as_rows,
    as_value,
    columns_read,
    float_columns,
    in_blocks,
    null_texts,
    text_columns,
    thread_count,
)
from scurry.forest.structure import (
    ARRAYS,
    MISSING_NAN,
    MISSING_NONE,
    MISSING_ZERO,
    NODE_ARRAYS,
    ZERO,
    decision_slack,
    label_codes,
    largest_scores,
    leaf_scores,
    score_step,
    score_threshold,
)
from scurry.forest.tables import CodedRows, Encoder, as_frame, count_rows, reader_of, take_rows, without_column
from scurry.forest.tree_answers import first_true, neighbours
from scurry.forest.trees import join_trees, mean_of_leaves
from scurry.forest.wrappers import Averaged, Calibrated, Isolation, OneVsRest, Samme, Thresholded, Voted, Wrapper

__all__ = [
    "ARRAYS",
    "MISSING_NAN",
    "MISSING_NONE",
    "MISSING_ZERO",
    "NODE_ARRAYS",
    "ZERO",
    "Averaged",
    "Block",
    "Calibrated",
    "CodedRows",
    "ColumnTypes",
    "Combinations",
    "Encoder",
    "Forest",
    "Front",
    "Isolation",
    "OneVsRest",
    "RawRows",
    "RowCall",
    "RowTypes",
    "Samme",
    "Thresholded",
    "Voted",
    "Wrapper",
    "as_frame",
    "as_member",
    "as_rows",
    "as_value",
    "columns_read",
    "count_rows",
    "decision_slack",
    "describe_other_index",
    "describe_unrelated",
    "first_true",
    "float_columns",
    "float_type_of_arrays",
    "in_blocks",
    "is_number",
    "is_other_order",
    "join_trees",
    "label_codes",
    "largest_scores",
    "leaf_scores",
    "mean_of_leaves",
    "neighbours",
    "null_texts",
    "reader_of",
    "score_step",
    "score_threshold",
    "take_rows",
    "text_columns",
    "thread_count",
    "warn_of_other_order",
    "without_column",
]
