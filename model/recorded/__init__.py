"""Attention that was computed elsewhere and is given as arrays: checked, read from files, and measured."""
