"""Rules that end a vote once its outcome is clear enough."""
