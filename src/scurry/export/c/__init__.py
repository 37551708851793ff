"""C: models as C99 for microcontrollers."""
