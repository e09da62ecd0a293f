"""The routes of the lessons: the list, one lesson, and the responses to answers.

Lessons are read when first requested, and only the values that a lesson declares are computed.
"""

import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from model.errors import PlaygroundError
from viz.lessons import payloads
from viz.lessons.library import Library
from viz.lessons.values import PageState
from viz.page import address
from viz.words import pick_language, translate, words
from viz.work.playground import MAX_CHARACTERS, MOST_NAME, Playground

log = logging.getLogger("playground")
LIST, ONE = "/playground/lessons", "/playground/lessons/{key}"
MOST = 8  # maximum number of selected heads, or of selected tokens, that a page may report


def routes(playground: Playground, library: Callable[[], Library]) -> list[Route]:
    """Return the routes of the lessons; the library is read at the first request."""

    def listed(request: Request) -> Response:
        return JSONResponse(payloads.listed(library(), _language(request)))

    def one(request: Request) -> Response:
        lesson = library().lesson(request.path_params["key"], _language(request))
        return _gone(request) if lesson is None else JSONResponse(payloads.lesson_payload(lesson))

    async def answered(request: Request) -> Response:
        language = _language(request)
        lesson = library().lesson(request.path_params["key"], language)
        sent = _json(await request.body())
        step = lesson.step(str(sent.get("step"))) if lesson else None
        review = lesson.reviews.get(str(sent.get("review"))) if lesson else None
        owner = f"lesson {request.scope.get('playground.client', '')}"
        page = page_of(playground, sent.get("page"))
        if lesson and step and sent.get("want") in payloads.WANTS:
            build = partial(payloads.reply, playground, lesson, step, sent, page, language, owner)
        elif lesson and review and sent.get("want") in payloads.REVIEWS:
            build = partial(payloads.review_reply, playground, lesson, review, sent, language, owner)
        else:
            return _gone(request)
        try:
            reply = await run_in_threadpool(build)
        except PlaygroundError as error:
            return _problem(error.what, error.hint, language)
        except Exception:
            log.exception("a lesson failed: %s %s", lesson.key, sent.get("step") or sent.get("review"))
            catalogue = words(language)
            return _problem(catalogue["notice.failed"], catalogue["notice.failed_hint"], language)
        return JSONResponse(reply)

    return [Route(LIST, listed), Route(ONE, one, methods=["GET"]), Route(ONE, answered, methods=["POST"])]


def page_of(playground: Playground, sent: Any) -> PageState:
    """Parse the state that a page reports; malformed fields count as absent."""
    sent = sent if isinstance(sent, Mapping) else {}
    model, prompt = sent.get("model"), sent.get("prompt")
    fits = isinstance(model, str) and 0 < len(model) <= MOST_NAME
    available = fits and address.is_available(playground, address.id_of(playground, str(model)))
    return PageState(
        address.id_of(playground, str(model)) if available else "",
        prompt if isinstance(prompt, str) and len(prompt) <= MAX_CHARACTERS else "",
        tuple((pair[0], pair[1]) for pair in _list(sent.get("heads")) if _is_pair(pair)),
        tuple(at for at in _list(sent.get("tokens")) if _is_place(at)),
        tuple(run for run in _list(sent.get("runs")) if isinstance(run, str) and len(run) <= MOST_NAME),
    )


def _list(sent: Any) -> list:
    return sent[-MOST:] if isinstance(sent, list) else []


def _is_place(sent: Any) -> bool:
    return isinstance(sent, int) and not isinstance(sent, bool) and 0 <= sent < 1 << 31


def _is_pair(sent: Any) -> bool:
    return isinstance(sent, list) and len(sent) == 2 and all(map(_is_place, sent))


def _json(body: bytes) -> Mapping:
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return sent if isinstance(sent, Mapping) else {}


def _language(request: Request) -> str:
    return pick_language(request.query_params.get("lang"), request.headers.get("accept-language"))


def _gone(request: Request) -> Response:
    return JSONResponse({"problem": {"text": words(_language(request))["learn.gone"], "hint": ""}}, 404)


def _problem(what: str, hint: str, language: str) -> Response:
    return JSONResponse({"problem": {"text": translate(what, language), "hint": translate(hint, language)}})
