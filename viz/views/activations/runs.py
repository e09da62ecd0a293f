"""Whether a further run of the prompt starts at once or waits for a button."""

QUICK = 8e9  # parameters times tokens up to which it starts at once: about 0.3 s


def is_quick(n_params: int, T: int) -> bool:
    """Whether a run of T tokens takes no longer than a click may."""
    return n_params * T <= QUICK
