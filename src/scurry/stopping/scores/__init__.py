"""Rules that end a sum of scores once its outcome is clear enough."""
