"""One self-contained HTML page about a predictor: promises, measurements, and what another budget would do."""

from scurry.report.page import write

__all__ = ["write"]
