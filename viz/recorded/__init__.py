"""Attention given as arrays, as the viewer on the page and in exported files reads it, and as figures."""
