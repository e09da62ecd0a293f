"""The origin of a request: the client's address behind proxies, the host name, and the website that sent it."""

import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from viz.work.playground import Options


def client_of(scope: Scope, proxies: int) -> str:
    """Return the client's address: the peer's, or the one reported by the outermost trusted proxy. For IPv6, the
    network.

    Each proxy appends the address of its client, so forged entries stay on the left.
    """
    peer = (scope.get("client") or ("",))[0]
    if proxies:
        named = [part.strip() for line in Headers(scope=scope).getlist("x-forwarded-for") for part in line.split(",")]
        peer = named[-proxies] if len(named) >= proxies else (named or [peer])[0]
    return network_of(peer)


def network_of(peer: str) -> str:
    """Return an IPv4 address, or the /64 network of an IPv6 address (one household); other text is cut to 64
    characters.
    """
    try:
        address = ipaddress.ip_address(peer.strip("[]").partition("%")[0])
    except ValueError:
        return peer[:64]
    if address.version == 4:
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


def name_of(host: str) -> str:
    """Return the host name from a Host header, without the port; "" if malformed."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_ours(name: str, options: Options) -> bool:
    """Return whether a private server may answer under a host name.

    A third-party page may point its own host name to this machine (DNS rebinding), but it cannot make the address bar
    show an IP address, this machine's own name, or a name given on the command line. The name "*" stands for all.
    """
    if options.public or "*" in options.hosts:
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
    """Return whether a request was sent by another website's page, other than by following a link to this one.

    Browsers name the sending page in Sec-Fetch-Site on secure connections, and in Origin whenever a script or form
    sends data. Another port of the same machine counts as another website. Programs send neither header.
    """
    headers = Headers(scope=scope)
    if scope["method"] in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate":
        return False
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return True
    return not all(is_our_origin(origin, headers, options) for origin in headers.getlist("origin"))


def is_our_origin(origin: str, headers: Headers, options: Options) -> bool:
    """Return whether an Origin header names this server, according to the Host header, --allow-host, or --embed."""
    scheme, _, authority = origin.lower().partition("://")
    usual = {"http": 80, "https": 443}.get(scheme)
    name, port = name_of(authority), port_of(authority, usual)
    if usual is None or not name or port is None:
        return False
    hosts = [headers.get("host", "")]
    if options.proxies:  # the name that the browser used, if the proxy sends another one
        hosts += [each.strip() for each in headers.get("x-forwarded-host", "").split(",")]
    if (name, port) in [(name_of(host), port_of(host, usual)) for host in hosts if host]:
        return True
    if name in [host.lower() for host in options.hosts] and port in (usual, port_of(hosts[0], usual)):
        return True
    return any(_matches(origin.lower().rstrip("/"), pattern.lower()) for pattern in options.embed)


def port_of(host: str, usual: int | None) -> int | None:
    """Return the port in a Host header, `usual` if it names none, or None if it is malformed."""
    try:
        port = urlsplit(f"//{host}").port
    except ValueError:
        return None
    return usual if port is None else port


def _matches(origin: str, pattern: str) -> bool:
    """Return whether an origin matches a pattern of --embed; a first label of "*" matches any name."""
    before, star, after = pattern.partition("*")
    if not star:
        return origin == pattern
    return origin.startswith(before) and origin.endswith(after) and len(origin) > len(before) + len(after)


# --- the headers of proxies -----------------------------------------------------------------------

SAID_BY_PROXIES = (b"x-forwarded-", b"forwarded", b"x-real-ip", b"x-gradio-server", b"x-original-")


def as_asked(scope: Scope, proxies: int) -> Scope:
    """Copy a request without headers that only a proxy may set, and with the scheme that a trusted proxy reports.

    The key `playground.proxied` says whether any proxy named a client, trusted or not.
    """
    scope = scope | {"playground.proxied": "x-forwarded-for" in Headers(scope=scope)}
    if not proxies:
        return scope | {"headers": [each for each in scope["headers"] if not each[0].startswith(SAID_BY_PROXIES)]}
    schemes = [part.strip() for part in Headers(scope=scope).get("x-forwarded-proto", "").split(",")]
    headers = [each for each in scope["headers"] if each[0] != b"x-gradio-server"]
    return scope | {"headers": headers} | ({"scheme": schemes[-1]} if schemes[-1] in ("http", "https") else {})


def at_itself(scope: Scope) -> Scope:
    """Rewrite a request as if it had been sent to this machine's own address.

    The MCP server calls itself at the address in the request. A Host header must not redirect that call to another
    machine, nor a proxy's scheme to a port without TLS.
    """
    host, port = scope.get("server") or ("127.0.0.1", None)
    name = f"[{host}]" if ":" in host else host
    replaced = (b"host", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-prefix", b"forwarded")
    headers = [each for each in scope["headers"] if each[0] not in replaced]
    return scope | {"scheme": "http", "headers": [(b"host", f"{name}:{port}".encode()), *headers]}
