"""Logging in and out, in the place of Gradio's own routes. `app.tokens` are viz.server.guard.tokens.Tokens.

Gradio's login is counted by nobody and its cookie goes out with other websites' requests; its log-out is a link that
ends every session of a name. The page that asks for a name and a password is Gradio's, and expects its answers.
"""

from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from viz.server.clients import client_of
from viz.server.guard.rate_limit import Buckets
from viz.words import pick_language, words
from viz.work.rates import Rate

WRONG = Rate(burst=10, per_second=1 / 30)  # tries of one name from one address that did not succeed
WRONG_ADDRESS = Rate(burst=600, per_second=5)  # of an address, behind which a whole class may sit
MOST_TEXT = 1024  # characters of a name or a password


def cookie_of(app: object) -> str:
    """The name of the cookie that Gradio looks for."""
    return f"access-token-{app.cookie_id}"  # type: ignore[attr-defined]


def token_of(scope: Scope) -> str | None:
    """The token of a request's cookie, whether it is known or not."""
    cookies = cookie_parser(Headers(scope=scope).get("cookie", ""))
    return cookies.get(cookie_of(scope["app"]))


def name_inside(scope: Scope) -> str | None:
    """Who has logged in, by the cookie of a request; None where nobody has."""
    token = token_of(scope)
    return scope["app"].tokens.get(token) if token else None


@dataclass(eq=False)
class Door:
    """The two routes, and how many wrong tries there were."""

    proxies: int = 0
    wrong: Buckets = field(default_factory=lambda: Buckets(WRONG))
    wrong_address: Buckets = field(default_factory=lambda: Buckets(WRONG_ADDRESS))

    def routes(self) -> list[Route]:
        """To be found before Gradio's."""
        return [
            Route("/login", self.log_in, methods=["POST"]),
            Route("/login/", self.log_in, methods=["POST"]),
            Route("/logout", self.log_out, methods=["GET", "POST"]),
        ]

    async def log_in(self, request: Request) -> Response:
        """Take a name and a password from Gradio's form. A try is paid for first, and given back where it succeeds."""
        app = request.app
        if app.auth is None:
            return RedirectResponse("./", 303)
        async with request.form(max_files=0, max_fields=8, max_part_size=4 * MOST_TEXT) as form:
            name, password = (form.get(each) for each in ("username", "password"))
        if not isinstance(name, str) or not isinstance(password, str):
            return JSONResponse({"detail": _say(request, "bad")}, 400)
        name, address = name.strip(), client_of(request.scope, self.proxies)
        tries = ((self.wrong_address, address), (self.wrong, (address, name[:MOST_TEXT])))
        for buckets, who in tries:
            if wait := buckets.wait(who):
                headers = {"retry-after": str(int(wait) + 1)}
                return JSONResponse({"detail": _say(request, "busy")}, 429, headers)
        if not await app.auth(name, password):
            return JSONResponse({"detail": "Incorrect credentials."}, 400)
        for buckets, who in tries:
            buckets.give_back(who)
        app.tokens.pop(token_of(request.scope), None)  # of who was here before
        answer = JSONResponse({"success": True})
        answer.set_cookie(
            cookie_of(app),
            app.tokens.new(name),
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return answer

    async def log_out(self, request: Request) -> Response:
        """End the session of this cookie, and of no other; a link to here ends none."""
        answer = RedirectResponse("./", 303)
        if request.method == "POST":
            request.app.tokens.pop(token_of(request.scope), None)
            answer.delete_cookie(cookie_of(request.app), httponly=True, samesite="lax")
        return answer


def _say(request: Request, what: str) -> str:
    language = pick_language(request.query_params.get("lang"), request.headers.get("accept-language"))
    return words(language)[f"server.{what}"]
