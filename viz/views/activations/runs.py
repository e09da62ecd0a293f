"""Whether a further run of the prompt is made at once or waits for a button."""

QUICK = 8e9  # parameters times tokens up to which it is made at once: about 0.3 s


def is_quick(n_params: int, T: int) -> bool:
    """Whether a run of T tokens takes no longer than a click may."""
    return n_params * T <= QUICK
