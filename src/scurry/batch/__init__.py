"""Score files of any size: Arrow record batches in, Parquet files out, in constant memory."""

from scurry.batch.rows import Scoring
from scurry.batch.run import Report, score

__all__ = ["Report", "Scoring", "score"]
