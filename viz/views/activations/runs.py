"""The cost limit up to which another run of the prompt starts automatically, without a button."""

QUICK = 8e9  # maximum of parameters x tokens, about 0.3 s


def is_quick(n_params: int, T: int) -> bool:
    """Return whether a run of T tokens is short enough to start automatically."""
    return n_params * T <= QUICK
