"""Response headers: the content security policy, caching, and the id of this server."""

import base64
import hashlib
import uuid
from collections.abc import Collection

from starlette.datastructures import MutableHeaders
from starlette.types import Message

from viz.work.playground import Options

SERVER = uuid.uuid4().hex  # changes at a restart, so that open pages reload
SERVER_HEADER = "x-playground-server"
KEPT = "public, max-age=3600"
HASHED = ("/assets/", "/playground/static/")
WORKER = "page/server/line_worker.js"  # name among the page's scripts


def page_policy(options: Options, scripts: Collection[str] = (), styles: Collection[str] = ()) -> str:
    """Build the content security policy of a page: this server's files, and inline scripts and styles with the given
    hashes.

    Gradio compiles functions from text, so 'unsafe-eval' is allowed, but Trusted Types admit only the text that
    static/page/server/policy.js accepts. No inline event handler runs. Style attributes are allowed, because Gradio's
    and Plotly's elements have them. Browsers without `style-src-elem` use `style-src` for both.
    """
    sources = {
        "default-src": "'self'",
        "script-src": " ".join(("'self'", "'unsafe-eval'", *scripts)),
        "script-src-attr": "'none'",
        "style-src": "'self' 'unsafe-inline'",
        "style-src-elem": " ".join(("'self'", EMPTY, MAPS, *styles)),
        "style-src-attr": "'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": "'self' data: blob:",
        "worker-src": "'self' blob:",
        "object-src": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
        "frame-ancestors": ancestors(options),
        "require-trusted-types-for": "'script'",
        "trusted-types": "default svelte-trusted-html",  # the second is Gradio's, for markup only
    }
    return "; ".join(f"{name} {value}" for name, value in sources.items())


def other_policy(options: Options, path: str = "") -> str:
    """Build the policy of an answer that is not a page: nothing may load or run if a browser renders it as a page.

    The shared worker runs under the policy of its own script: it may import scripts of this server and connect to it.
    """
    needs = "script-src 'self'; connect-src 'self'; " if path.endswith(f"/{WORKER}") else ""
    return f"default-src 'none'; {needs}base-uri 'none'; form-action 'none'; frame-ancestors {ancestors(options)}"


def ancestors(options: Options) -> str:
    """Build the policy's list of sites that may show an answer in a frame."""
    return " ".join(("'self'", *options.embed))


def hashed(text: bytes) -> str:
    """Hash a script or style sheet in the format of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"


# The style sheet for maps that Plotly's script (7.1) adds at run time; a test extracts it from the script.
MAPS = "'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='"
EMPTY = hashed(b"")  # Plotly and the framework add empty style elements and fill them through the CSSOM


def always(options: Options) -> dict[str, str]:
    """Return the headers of every answer, except its policy."""
    headers = {
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()",
        "cross-origin-resource-policy": "same-origin",
        SERVER_HEADER: SERVER,
    }
    return headers if options.embed else headers | {"x-frame-options": "SAMEORIGIN"}


def cached(path: str) -> str:
    """Return the caching header of an answer: only files under a hash never change."""
    if path.startswith(HASHED):
        return "public, max-age=31536000, immutable"
    return KEPT if path.startswith(("/playground/plotly/", "/static/")) else "no-store"


def dress(start: Message, path: str, options: Options) -> None:
    """Add the headers to the start of an answer."""
    # Scripts of other websites must not read any answer.
    start["headers"] = [pair for pair in start["headers"] if not pair[0].lower().startswith(b"access-control-")]
    headers = MutableHeaders(scope=start)
    for name, value in always(options).items():
        headers[name] = value
    is_page = headers.get("content-type", "").startswith("text/html")
    headers.setdefault("content-security-policy", page_policy(options) if is_page else other_policy(options, path))
    if start["status"] >= 400:
        headers["cache-control"] = "no-store"
    else:
        headers.setdefault("cache-control", cached(path))
    if headers.get("content-type", "").startswith("text/event-stream"):
        headers["x-accel-buffering"] = "no"  # makes a proxy forward each piece at once
