"""The configuration of HAProxy (2.4 or later) in front of several page processes.

A cookie keeps a page at the process that opened it, which has its visit. A new page goes to the process with the
fewest connections. If a process is gone, another one answers its pages, which notice the new server and reload.
Programs, which keep no cookies, and logins, whose attempts are counted, are assigned by client address.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from viz.work.rates import COMPUTING, VISITS, Rate

COOKIE = "pg-place"
HEALTH = "/playground/health"
WINDOW = 10  # seconds over which the proxy counts requests


@dataclass(frozen=True)
class Front:
    """The proxy's address, and the clients and proxies that it trusts."""

    host: str
    port: int
    proxies: int = 0  # number of trusted proxies in front of this one, as in --behind-proxy
    public: bool = False  # whether requests are rate-limited by address, across all processes
    framed: bool = False  # whether other websites may embed the page, so that its cookie must be sent cross-site


def config(front: Front, ports: Sequence[int]) -> str:
    """Build the configuration file for processes on these ports of this machine."""
    return "\n".join([*_common(front), *_frontend(front), *_backends(front, ports), ""])


def name_of(number: int) -> str:
    """Return the name of a process, numbered from 0, as used by the proxy and in the cookie."""
    return f"page{number + 1}"


def _common(front: Front) -> list[str]:
    return [
        "global",
        f"    maxconn {min(8192, _files() // 4)}",
        "",
        "defaults",
        "    mode http",
        "    timeout connect 5s",
        "    timeout check 20s  # one that ended refuses the connection at once; a busy one answers late",
        "    timeout http-request 10s",
        "    timeout http-keep-alive 30s",
        "    timeout client 1h  # a page holds a line on which answers come when they come",
        "    timeout server 1h",
        "    retries 3",
        "    retry-on conn-failure  # nothing was asked yet: another process may be",
        "    option redispatch 1",
        "    option forwardfor",
        "    option abortonclose  # a page that is closed is closed for its process, too, at once",
        "",
    ]


def _frontend(front: Front) -> list[str]:
    """Build HAProxy's listening section. Its rules match decoded paths, as the processes do."""
    host = f"[{front.host}]" if ":" in front.host else front.host
    lines = ["frontend page", f"    bind {host}:{front.port}"]
    if not front.proxies:  # a client's own headers are not trusted
        untrusted = ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Real-IP")
        lines += [f"    http-request del-header {name}" for name in untrusted]
        lines.append("    http-request set-header X-Forwarded-Proto http")
    if front.public:
        lines += [
            f"    http-request track-sc0 {_who(front)} table visits",
            "    acl computes path,url_dec -m beg /gradio_api/",
            f"    http-request track-sc1 {_who(front)} table computing if METH_POST computes",
            *_refused(VISITS, "sc0_http_req_rate(visits)"),
            *_refused(COMPUTING, "sc1_http_req_rate(computing)"),
        ]
    return [
        *lines,
        f"    http-request return status 404 if {{ path,url_dec {HEALTH} }}  # of one process: for this proxy alone",
        "    acl logs_in path,url_dec /login /login/",
        f"    acl placed req.cook({COOKIE}) -m found",
        "    acl opens path,url_dec /",
        "    use_backend by_address if logs_in METH_POST",
        "    use_backend places if placed || opens",
        "    default_backend by_address",
        "",
    ]


def _backends(front: Front, ports: Sequence[int]) -> list[str]:
    frame = "None attr Secure" if front.framed else "Lax"  # browsers accept the former only on secure connections
    named = [(name_of(number), port) for number, port in enumerate(ports)]
    lines = [
        "backend places",
        "    balance leastconn",
        f"    cookie {COOKIE} insert indirect nocache httponly attr SameSite={frame}",
        "    option httpchk",
        f"    http-check send meth GET uri {HEALTH} ver HTTP/1.1 hdr Host 127.0.0.1",
        "    http-check disable-on-404  # it drains: its pages go on, new ones go elsewhere",
        "    http-check expect status 200",
        "    default-server check inter 2s fall 5 rise 1",
        *(f"    server {name} 127.0.0.1:{port} cookie {name}" for name, port in named),
        "",
        "backend by_address",
        f"    balance hash {_who(front)}",
        "    hash-type consistent",
        "    option httpchk",
        "    http-check disable-on-404",
        *(f"    server {name} 127.0.0.1:{port} track places/{name}" for name, port in named),
        "",
    ]
    if front.public:
        store = f"type ipv6 size 200k expire 1m store http_req_rate({WINDOW}s)"
        for table in ("visits", "computing"):
            lines += [f"backend {table}", f"    stick-table {store}", ""]
    return lines


def _who(front: Front) -> str:
    """Build the expression for a client's address, as the processes count it."""
    return f"req.hdr_ip(x-forwarded-for,-{front.proxies})" if front.proxies else "src"


def _refused(rate: Rate, count: str) -> list[str]:
    """Build the answer to a request over the limit, in the same form as the processes' own."""
    most = int(rate.burst + rate.per_second * WINDOW)
    body = 'string "{\\"detail\\": \\"busy\\"}"'
    answer = f"http-request return status 429 content-type application/json {body} hdr Retry-After {WINDOW}"
    return [f"    {answer} if {{ {count} gt {most} }}"]


def _files() -> int:
    """Return the limit of open files of this process."""
    return os.sysconf("SC_OPEN_MAX")
