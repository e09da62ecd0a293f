"""Rate limits per client, shared by the page processes and the proxy in front of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """A rate limit: `burst` requests at once, then `per_second` more each second."""

    burst: float
    per_second: float


# Sized for a class of thirty behind one address, whose pages open together and send requests as fast as the model can
# answer.
VISITS = Rate(burst=6000, per_second=200)  # any request, per address
COMPUTING = Rate(burst=600, per_second=60)  # computing calls, per address
COMPUTING_EACH = Rate(burst=60, per_second=12)  # computing calls, per page: more than fast typing needs
