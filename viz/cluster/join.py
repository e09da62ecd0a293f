"""Joining a Ray cluster, or starting a private one on this machine, and checking that it is still alive.

`connect` runs before the first import of ray, which reads the address that a local cluster listens on.
"""

import contextlib
import logging
import os
import secrets
import threading
from pathlib import Path

import psutil

from model import IMPORTED_FROM
from model.errors import InputError
from model.private_folder import make_private

log = logging.getLogger("playground")
NAMESPACE = "attention-playground"
STORE = 128 << 20  # size of a local cluster's object store in bytes; answers only pass through it
LOOK = 10.0  # seconds to wait for a remote cluster to list its nodes
LOCAL = ("gcs_server", "raylet")  # processes of a local cluster, which dies with either
_JOINING = threading.Lock()


def joined(address: str) -> str:
    """Return the address of an existing cluster that others may share, or "" for a cluster that is started here."""
    return os.environ.get("RAY_ADDRESS", "") if address == "ray" else address


def connect(address: str, cpus: int | None = None, gpus: int | None = None) -> None:
    """Join the cluster at a ray:// address or RAY_ADDRESS; if `address` is "ray" and neither is given, start a cluster
    on this machine.

    A local cluster has all processors and GPUs that Ray finds, unless specified otherwise, and listens only on
    127.0.0.1. Raises InputError if there is no cluster at the address.
    """
    if not joined(address):
        _keep_private()
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")  # no call may start a cluster during a rejoin
    import ray

    quiet = {"namespace": NAMESPACE, "logging_level": logging.WARNING, "log_to_driver": False}
    try:
        if joined(address):
            ray.init(joined(address), **quiet)
        else:
            ray.init("local", object_store_memory=STORE, num_cpus=cpus, num_gpus=gpus, include_dashboard=False, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        log.debug("no cluster", exc_info=True)
        raise InputError("There is no Ray cluster at this address.", address, "Start one: ray start --head.") from error


def _keep_private() -> None:
    """Set the environment of a local cluster: the project's folder, the loopback address, and a token that only this
    user can read.
    """
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(IMPORTED_FROM) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(IMPORTED_FROM), *paths)))
    # isolates the cluster from other machines, on any system
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    if any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        return
    path = Path.home() / ".ray" / "auth_token"  # Ray's own path, where it would otherwise write a world-readable token
    with contextlib.suppress(OSError):
        if path.exists():
            path.chmod(0o600)
            return
        make_private(path.parent)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))


def is_there(*, shared: bool) -> bool:
    """Return whether the cluster can answer: a local one if its processes are alive, a shared one if one of its nodes
    is.
    """
    if not shared:
        running = set()
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    running.add(process.name().removesuffix(".exe"))
        return running.issuperset(LOCAL)
    alive: list[bool] = []

    def look() -> None:
        import ray

        with contextlib.suppress(Exception):  # on any error the cluster counts as unreachable
            alive.append(any(node["Alive"] for node in ray.nodes()))

    looking = threading.Thread(target=look, daemon=True)  # if its head node is down, the cluster would block this call
    looking.start()
    looking.join(LOOK)
    return alive == [True]


def rejoin(address: str, cpus: int | None = None, gpus: int | None = None) -> None:
    """Leave a lost cluster and join it again, or start another one. Raises InputError on failure."""
    import ray

    with _JOINING:
        if ray.is_initialized() and is_there(shared=bool(joined(address))):
            return  # another engine of this process has already rejoined
        ray.shutdown()
        connect(address, cpus, gpus)
