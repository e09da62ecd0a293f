"""Matrix products of the same numbers by different code, and which of them is fastest on this machine."""
