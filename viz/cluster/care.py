"""Operations on the replicas of a cluster: list them, restart them one by one, stop them."""

from collections.abc import Callable, Iterator

import ray
from ray.exceptions import GetTimeoutError, RayActorError

from model.errors import InputError
from viz.cluster.cluster import START
from viz.cluster.join import NAMESPACE, connect, joined

PATIENCE = 60.0  # seconds to wait for long-running work to end before a restart; interrupted work starts over
ANSWER = 10.0  # seconds to wait for a replica's status


def join(address: str) -> None:
    """Join an existing cluster. Raises InputError if no address is given."""
    if not joined(address):
        raise InputError("No cluster is given.", address, "Give its address, or set RAY_ADDRESS.")
    if not ray.is_initialized():
        connect(address)


def names() -> list[str]:
    """Return the names of the replicas of all pages, in order."""
    return sorted(each["name"] for each in ray.util.list_named_actors(True) if each["namespace"] == NAMESPACE)


def listed(address: str) -> Iterator[str]:
    """Yield one line with the status of each replica."""
    join(address)
    for name in names():
        try:
            status = ray.get(ray.get_actor(name).status.remote(), timeout=ANSWER)
            yield f"{name}: " + ", ".join(f"{what} {value}" for what, value in status.items())
        except (RayActorError, GetTimeoutError):
            yield f"{name}: not there yet, or starting again"


def restarted(address: str) -> Iterator[str]:
    """Restart the replicas one by one, so that code and weights are reloaded; yield one line per replica.

    Ray restarts a replica and repeats the calls that arrived in the meantime, so no question is lost.
    """
    join(address)
    for name in names():
        replica = ray.get_actor(name)
        ended = ray.get(replica.idle.remote(PATIENCE), timeout=PATIENCE + ANSWER)
        ray.kill(replica, no_restart=False)
        ray.get(replica.ready.remote(), timeout=START)
        yield f"{name}: restarted" + ("" if ended else "; its long work is begun again")


def stopped(address: str) -> Iterator[str]:
    """Stop all replicas; yield one line per replica."""
    join(address)
    for name in names():
        ray.kill(ray.get_actor(name))
        yield f"{name}: ended"


DO: dict[str, Callable[[str], Iterator[str]]] = {"list": listed, "restart": restarted, "stop": stopped}
