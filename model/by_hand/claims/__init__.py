"""A page of text whose numbers are recomputed: right, rounded loosely, or wrong."""
