"""The addresses at which a server can be opened, from this computer and from others."""

import contextlib
import socket

import psutil

ALL = ("0.0.0.0", "::")  # hosts that stand for every address of this computer


def urls(host: str, port: int) -> tuple[str, tuple[str, ...]]:
    """Return the address for this computer, and those for others: () unless the server listens at all addresses."""
    host = host.strip("[]")
    own = f"http://{_written('localhost' if host == '0.0.0.0' else host)}:{port}/"
    others = network_addresses(ipv6=host == "::") if host in ALL else ()
    return own, tuple(f"http://{_written(each)}:{port}/" for each in others)


def network_addresses(*, ipv6: bool = False) -> tuple[str, ...]:
    """Return this computer's addresses on its networks, that of the default route first."""
    families = (socket.AF_INET, *((socket.AF_INET6,) if ipv6 else ()))
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    found = [
        each.address
        for name, addresses in psutil.net_if_addrs().items()
        if name in up
        for each in addresses
        if each.family in families
        and not each.address.startswith(("127.", "169.254.", "fe80:"))
        and each.address != "::1"
    ]
    first = _default()
    return tuple(sorted(dict.fromkeys(found), key=lambda each: (each != first, ":" in each)))


def _default() -> str:
    """Return the IPv4 address of the default route; "" without one. Connecting a UDP socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as place, contextlib.suppress(OSError):
        place.connect(("192.0.2.1", 9))
        return str(place.getsockname()[0])
    return ""


def _written(host: str) -> str:
    return f"[{host}]" if ":" in host else host
