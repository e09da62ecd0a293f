"""The headers of every answer: what a page may load and run, what a browser keeps, which server this is."""

import uuid

from starlette.datastructures import MutableHeaders
from starlette.types import Message

from viz.seam.playground import Options

SERVER = uuid.uuid4().hex  # another one after a restart: the pages that knew the old one begin anew
SERVER_HEADER = "x-playground-server"
KEPT = "public, max-age=3600"
HASHED = ("/assets/", "/playground/static/")


def policy(options: Options) -> dict[str, str]:
    """Headers of every answer. Gradio makes functions from text and styles in place, so its own scripts need both."""
    ancestors = " ".join(("'self'", *options.embed))
    sources = {
        "default-src": "'self'",
        "script-src": "'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": "'self' data: blob:",
        "worker-src": "'self' blob:",
        "object-src": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
        "frame-ancestors": ancestors,
    }
    headers = {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in sources.items()),
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()",
        "cross-origin-resource-policy": "same-origin",
        SERVER_HEADER: SERVER,
    }
    return headers if options.embed else headers | {"x-frame-options": "SAMEORIGIN"}


def cached(path: str) -> str:
    """The caching header of an answer: only files under a hash never change."""
    if path.startswith(HASHED):
        return "public, max-age=31536000, immutable"
    return KEPT if path.startswith(("/playground/plotly/", "/static/")) else "no-store"


def dress(start: Message, path: str, options: Options) -> None:
    """Put the headers on the beginning of an answer."""
    # Nothing here is for other websites' scripts.
    start["headers"] = [pair for pair in start["headers"] if not pair[0].lower().startswith(b"access-control-")]
    headers = MutableHeaders(scope=start)
    for name, value in policy(options).items():
        headers[name] = value
    if start["status"] >= 400:
        headers["cache-control"] = "no-store"
    else:
        headers.setdefault("cache-control", cached(path))
    if headers.get("content-type", "").startswith("text/event-stream"):
        headers["x-accel-buffering"] = "no"  # a proxy is to pass each piece on at once
