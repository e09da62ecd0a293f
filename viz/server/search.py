"""GET /playground/search: the entries of the page's search in the user's language, compressed once."""

import functools
import json

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from viz.page.search import payload
from viz.server.assets import Asset, asset, sent
from viz.words import pick_language


@functools.cache
def packed(language: str) -> Asset:
    """Build the entries in a language, compressed as they are sent."""
    text = json.dumps(payload(language), ensure_ascii=False, separators=(",", ":"))
    return asset(f"search.{language}.json", text.encode())


def answer(request: Request) -> Response:
    """Send the entries in the language of the requesting page."""
    language = pick_language(request.query_params.get("lang"), request.headers.get("accept-language"))
    return sent(packed(language), request)


def route() -> Route:
    """Return the route of the search."""
    return Route("/playground/search", answer)
