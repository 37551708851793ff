"""Other ways to solve the pruning problem than the exact closure path: the peers that papers compare with."""
