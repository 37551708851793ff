"""Rules that stop a vote once its outcome is clear enough."""
