"""Rules that stop at sentinels: few numbers of trees, each with an estimate of the full score fitted for it."""
