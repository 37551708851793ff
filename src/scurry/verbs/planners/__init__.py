"""How each kind of promise becomes a plan: one module for each, and the parts that several of them use."""
