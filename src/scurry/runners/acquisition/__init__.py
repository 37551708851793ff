"""Rows whose features are bought one at a time: what is known, what was paid, and what to buy next."""
