"""A transformer's operations on a few numbers that somebody types: every step, and where every number comes from."""
