"""One self-contained HTML page about a predictor: promises, measurements, and what another budget would do."""

from scurry.errors import require_extra

with require_extra("fit", "the report"):
    from scurry.report.page import write

__all__ = ["write"]
