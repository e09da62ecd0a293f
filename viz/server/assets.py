"""The page's own scripts and styles, served under a hash of their contents, so that a browser requests each version
only once.

One hash covers the whole folder, so that relative imports between scripts keep working.
"""

import asyncio
import functools
import gzip
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from viz.server.headers import hashed, page_policy
from viz.server.middleware import path_of
from viz.words import pick_language
from viz.work.playground import Options

ROUTE = "/playground/static/{digest}/{name:path}"
MAIN, STYLE = "main.js", "style.css"
VIEWER_STYLE = "viewer/viewer.css"  # for the viewer of attention arrays; a page requests it with the viewer's script
POLICY = "page/server/policy.js"  # inlined in the page, because it must run before any other script
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
}
_INLINE = re.compile(rb"<(script|style)([^>]*)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_BASE = re.compile(rb'<base href="[^"]*" ?/?>')  # the base for all relative addresses after it
# parts of the page may be mounted before the scripts have run
STUB = (
    "window.playground={waiting:[]};"
    "for(const name of ['mount','screen','opened','ask'])"
    "playground[name]=(...given)=>{playground.waiting.push([name,given])};"
)


@dataclass(frozen=True)
class Asset:
    """A file held in memory."""

    body: bytes
    media_type: str
    etag: str

    @functools.cached_property
    def packed(self) -> bytes:
        """The gzip-compressed content, for clients that accept it."""
        return gzip.compress(self.body, 6, mtime=0)  # higher levels take longer and save only 1%


@dataclass(frozen=True)
class Assets:
    """All files by name, and a hash of all their contents."""

    digest: str
    files: dict[str, Asset]

    def address(self, name: str) -> str:
        """Return a file's address relative to the page, without a leading slash, so that the app can be mounted in any
        folder.
        """
        return f"playground/static/{self.digest}/{name}"


def read(static: Path) -> Assets:
    """Read a folder: every script under its path, and all styles concatenated into one style sheet; those of the viewer
    are a sheet of their own.
    """
    bodies = {path.relative_to(static).as_posix(): path.read_bytes() for path in sorted(static.rglob("*.js"))}
    bodies[STYLE] = stylesheet(static / "style")
    bodies[VIEWER_STYLE] = stylesheet(static / "style" / "viewer")
    digest = hashlib.sha256()
    for name, body in bodies.items():
        digest.update(f"{name} {len(body)} ".encode() + body)
    return Assets(digest.hexdigest()[:16], {name: asset(name, body) for name, body in bodies.items()})


def asset(name: str, body: bytes) -> Asset:
    """Build an asset with its hash, content type and compressed form."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    return Asset(body, TYPES[Path(name).suffix], etag)


def stylesheet(folder: Path) -> bytes:
    """Concatenate the styles of a folder into one style sheet: first those directly in it, then folder by folder,
    without the viewer's.
    """
    own = [path for path in folder.rglob("*.css") if path.parent == folder or path.parent.name != "viewer"]
    paths = sorted(own, key=lambda path: (path.parent != folder, path.name != "base.css", path))
    return b"\n".join(path.read_bytes() for path in paths)


# Shown by browsers that run no scripts. The page has no body of its own, and the head may hold only styles.
NO_SCRIPT = (
    "<noscript><style>body::before{content:"
    '"This page needs JavaScript. Enable it for this site, then reload. 本页面需要 JavaScript，请启用后重新加载。";'
    "display:block;max-width:36rem;margin:20vh auto;padding:0 1rem;font:18px/1.6 sans-serif}"
    "#pg-first{display:none}</style></noscript>"
)


def tags(assets: Assets) -> str:
    """Build the tags for the page's head: styles and scripts."""
    return "".join(
        (
            NO_SCRIPT,
            f"<script>{assets.files[POLICY].body.decode()}</script>",
            f"<script>{STUB}</script>",
            f'<link rel="stylesheet" href="{assets.address(STYLE)}">',
            f'<script type="module" src="{assets.address(MAIN)}"></script>',
        )
    )


def answer(assets: Assets) -> Callable[[Request], Response]:
    """Return the handler that sends a file; the middleware adds the caching headers."""

    def send(request: Request) -> Response:
        file = assets.files.get(request.path_params["name"])
        if file is None or request.path_params["digest"] != assets.digest:
            return Response("There is no such file in this version.", status_code=404, media_type="text/plain")
        return sent(file, request)

    return send


def sent(file: Asset, request: Request) -> Response:
    """Build the response with a file in an encoding that the client accepts, or 304 if the client already has it."""
    headers = {"etag": file.etag, "vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    packs = "gzip" in request.headers.get("accept-encoding", "")
    if packs:
        headers["content-encoding"] = "gzip"
    return Response(file.packed if packs else file.body, headers=headers, media_type=file.media_type)


_LONG = ("/config", "/gradio_api/info")


@dataclass(eq=False)
class HeadMiddleware:
    """Middleware that inserts the first frame and the project's tags into the page; Gradio would add its own `head`
    only after its scripts have started.

    The styles therefore apply before anything is visible, and the project's scripts run before Gradio's. The page and
    Gradio's configuration, half a megabyte, are compressed. The content security policy lists the hashes of inline
    scripts and styles, so that no script added later runs.
    """

    app: ASGIApp
    tags: str
    first: Callable[[str], str] = lambda language: ""  # the first frame in a language
    options: Options = field(default_factory=Options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or path_of(scope) not in ("", "/", *_LONG):
            await self.app(scope, receive, send)
            return
        language = pick_language(Request(scope).query_params.get("lang"), Headers(scope=scope).get("accept-language"))
        packs, begun, body = "gzip" in Headers(scope=scope).get("accept-encoding", ""), [], bytearray()

        async def send_page(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.append(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body", False):
                return
            (start,) = begun
            headers, page = MutableHeaders(scope=start), bytes(body)
            kind = headers.get("content-type", "").partition(";")[0]
            if kind in ("text/html", "application/json") and "content-encoding" not in headers:
                if kind == "text/html":
                    page = with_tags(page, self.first(language) + self.tags)
                    headers["content-security-policy"] = await asyncio.to_thread(policy_of, page, self.options)
                headers.add_vary_header("Accept-Encoding")
                if packs:
                    page = await asyncio.to_thread(gzip.compress, page, 5)
                    headers["content-encoding"] = "gzip"
                headers["content-length"] = str(len(page))
            await send(start)
            await send({"type": "http.response.body", "body": page})

        await self.app(scope, receive, send_page)


def policy_of(page: bytes, options: Options) -> str:
    """Build the content security policy of a page: only the inline scripts and style sheets that the page contains may
    run.
    """
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for tag, attributes, text in _INLINE.findall(page):
        if b"src=" not in attributes:
            hashes[tag.decode().lower()].append(hashed(text))
    return page_policy(options, hashes["script"], hashes["style"])


def with_tags(page: bytes, more: str) -> bytes:
    """Insert more tags into a page's head, after the base address is set."""
    base = _BASE.search(page)
    if not base:
        raise ValueError("the page has no <base> that tells where the app is")
    return page[: base.end()] + more.encode() + page[base.end() :]
