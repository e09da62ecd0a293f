"""Rate limits per client, shared by the page processes and the proxy in front of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """A rate limit: `burst` requests at once, then `per_second` more each second."""

    burst: float
    per_second: float


# A class of thirty sits behind one address: its pages ask about as often as the model can answer, and open together.
VISITS = Rate(burst=6000, per_second=200)  # of any request, for an address
COMPUTING = Rate(burst=600, per_second=60)  # of calls that compute, for an address
COMPUTING_EACH = Rate(burst=60, per_second=12)  # and for a page: more than fast typing needs, one call an answer
