"""A transformer's operations on a few typed numbers: every step, with the formula behind each number."""
