"""The routes of attention given as arrays: documents by name, and the document of a file that a visitor drops.

Files are .npz, never a pickle; they are read within the limits of the server and not kept.
"""

import functools
import json
import logging

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from model.errors import PlaygroundError
from model.recorded.files import read_npz
from model.recorded.record import AttentionRecord
from viz.recorded.document import document
from viz.words import pick_language, translate, words
from viz.work.playground import Playground
from viz.work.queue import QueueFull
from viz.work.under_way import UnderWay

log = logging.getLogger("playground")
FILE, NAMED = "/playground/attention", "/playground/attention/{name}"
MOST_TITLE = 120  # characters of a file's name
AT_ONCE = 2  # files that are read at the same time, because each needs memory


def routes(playground: Playground) -> list[Route]:
    """Build the routes."""
    limiter, under_way = anyio.CapacityLimiter(AT_ONCE), UnderWay()
    allowed = playground.options.allowed

    async def named(request: Request) -> Response:
        recorded = playground.recorded.get(request.path_params["name"])
        language = _language(request)
        if recorded is None:
            catalogue = words(language)
            return _problem(catalogue["recorded.gone"], "", catalogue["recorded.gone_hint"], 404)
        title, record = recorded
        return _sent(await anyio.to_thread.run_sync(_written, record, language, title, limiter=limiter))

    async def dropped(request: Request) -> Response:
        owner, language = request.scope.get("playground.client", ""), _language(request)
        if under_way[owner] >= AT_ONCE:
            return _problem(translate(QueueFull().what, language), "", "", 503)
        title = request.query_params.get("name", "")[:MOST_TITLE]
        data = await request.body()

        def answer() -> bytes:
            record = read_npz(data, most=allowed.attention, unpacked=allowed.attention_unpacked)
            return _json(document(record, language, title))

        with under_way.one_more(owner):
            try:
                return _sent(await anyio.to_thread.run_sync(answer, limiter=limiter))
            except PlaygroundError as error:
                what, got, hint = (translate(each, language) for each in (error.what, error.got, error.hint))
                return _problem(what, got, hint)
            except Exception:
                log.exception("a file of attention failed")
                catalogue = words(language)
                return _problem(catalogue["notice.failed"], "", catalogue["notice.failed_hint"], 500)

    return [Route(FILE, dropped, methods=["POST"]), Route(NAMED, named, methods=["GET"])]


@functools.lru_cache(maxsize=4)
def _written(record: AttentionRecord, language: str, title: str) -> bytes:
    """Build the document of a record as JSON; the recent ones are cached."""
    return _json(document(record, language, title))


def _json(value: dict) -> bytes:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


def _language(request: Request) -> str:
    return pick_language(request.query_params.get("lang"), request.headers.get("accept-language"))


def _sent(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _problem(what: str, got: str, hint: str, status: int = 400) -> Response:
    return JSONResponse({"error": {"what": what, "got": got, "hint": hint}}, status)
