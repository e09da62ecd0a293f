"""Who asks: the address behind the proxies, the name the server is called by, the website a request is from."""

import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from viz.seam.playground import Options


def client_of(scope: Scope, proxies: int) -> str:
    """The client's address: the peer's, or the one that the outermost trusted proxy saw. Of IPv6 the network.

    Each proxy appends the address of its client, so that anything forged by a visitor stays to the left.
    """
    peer = (scope.get("client") or ("",))[0]
    if proxies:
        named = [part.strip() for line in Headers(scope=scope).getlist("x-forwarded-for") for part in line.split(",")]
        peer = named[-proxies] if len(named) >= proxies else (named or [peer])[0]
    try:
        address = ipaddress.ip_address(peer.strip("[]"))
    except ValueError:
        return peer[:64]
    if address.version == 4:
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


def name_of(host: str) -> str:
    """The name in a Host header, without its port; "" for what is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_ours(name: str, options: Options) -> bool:
    """Whether a server on one's own machine answers to that name.

    A page of a stranger may have its own name point to this machine (DNS rebinding), but it cannot make its address
    bar show a number, this machine's own name, or one that was given on the command line.
    """
    if options.public:
        return True
    hostname = socket.gethostname().lower()
    if name in (
        "localhost",
        options.host.lower(),
        hostname,
        f"{hostname}.local",
        *(host.lower() for host in options.hosts),
    ):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_foreign(scope: Scope, options: Options) -> bool:
    """Whether a request comes from another website's page, other than by a link to this one."""
    headers = Headers(scope=scope)
    if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
        return True
    origin = headers.get("origin")
    if scope["method"] == "POST" and origin is not None and not options.public:
        return not is_ours(name_of(origin.rpartition("//")[2]), options)
    return False
