"""How each kind of plan runs: one module for each."""
