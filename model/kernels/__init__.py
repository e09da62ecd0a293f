"""Implementations of the same matrix products, and the choice of the fastest on this machine."""
