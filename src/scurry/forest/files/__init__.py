"""Files: the `.scurry` container, and forests in it."""
