"""Rules that stop a sum of scores once its outcome is clear enough."""
