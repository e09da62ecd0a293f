"""The usual slips of a calculation, and which of them gives a number that somebody got."""
