"""The cost limit below which a further run of the prompt starts without a button."""

QUICK = 8e9  # parameters x tokens: about 0.3 s


def is_quick(n_params: int, T: int) -> bool:
    """Return whether a run of T tokens is short enough to start on a click."""
    return n_params * T <= QUICK
