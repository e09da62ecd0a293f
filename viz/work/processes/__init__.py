"""Computation in separate processes, and the files that it produces."""
