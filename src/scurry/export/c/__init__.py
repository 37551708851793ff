"""C: models as C99 for microcontrollers."""

from scurry.export.c.model import Export, to_c

__all__ = ["Export", "to_c"]
