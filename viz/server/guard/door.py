"""Login and logout: a form without scripts, a cookie, and a limit on failed attempts."""

import html
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from viz.server.clients import client_of
from viz.server.guard.rate_limit import Buckets
from viz.server.guard.tokens import Tokens
from viz.server.headers import hashed, page_policy
from viz.words import Catalogue, pick_language, section, words
from viz.work.playground import Options
from viz.work.rates import Rate

WRONG = Rate(burst=10, per_second=1 / 30)  # failed attempts per name and address
WRONG_ADDRESS = Rate(burst=600, per_second=5)  # failed attempts per address, which a whole class may share
MOST_TEXT = 1024  # maximum length of a name or a password in characters
STYLE = """
:root { color-scheme: light dark; }
body {
  margin: 0; min-height: 100vh; display: grid; place-items: center;
  font: 15px/1.5 ui-sans-serif, system-ui, sans-serif;
  background: light-dark(#eef0f5, #0b0f19); color: light-dark(#1d2330, #e6e9f0);
}
main {
  box-sizing: border-box; width: min(360px, 100vw - 24px); padding: 20px 24px 24px;
  border: 1px solid light-dark(#dde1e9, #333a4a); border-radius: 8px; background: light-dark(#fff, #151a24);
}
h1 { margin: 0 0 2px; font-size: 20px; font-weight: 650; }
p { margin: 0 0 14px; color: light-dark(#5a6273, #a3abbd); }
p[role=alert] { color: light-dark(#c2410c, #fb923c); }
label { display: block; margin-bottom: 12px; font-size: 14px; }
input {
  display: block; box-sizing: border-box; width: 100%; margin-top: 3px; padding: 7px 9px; font: inherit;
  color: inherit; background: light-dark(#fff, #1f2532);
  border: 1px solid light-dark(#8a92a3, #5a6273); border-radius: 5px;
}
button {
  width: 100%; margin-top: 4px; padding: 8px; font: inherit; font-weight: 600; cursor: pointer;
  color: #fff; background: #c2410c; border: 0; border-radius: 5px;
}
:focus-visible { outline: 2px solid light-dark(#1d64d8, #7db0ff); outline-offset: 1px; }
"""


@dataclass(eq=False)
class Door:
    """The login form and its two routes."""

    options: Options
    tokens: Tokens
    check: Callable[[str, str], Awaitable[bool]]  # returns whether the name and password are valid
    wrong: Buckets = field(default_factory=lambda: Buckets(WRONG))
    wrong_address: Buckets = field(default_factory=lambda: Buckets(WRONG_ADDRESS))

    def routes(self) -> list[Route]:
        """Return the two routes, which must precede Gradio's."""
        return [
            Route("/login", self.form, methods=["GET"]),
            Route("/login", self.log_in, methods=["POST"]),
            Route("/logout", self.log_out, methods=["GET", "POST"]),
        ]

    def name_inside(self, scope: Scope) -> str | None:
        """Return the user name from a request's cookie, or None if the cookie is missing or invalid."""
        return self.tokens.name_of(self._token(scope))

    async def form(self, request: Request) -> Response:
        """Show the login form."""
        return RedirectResponse(_back(request), 303) if self.name_inside(request.scope) else self._page(request)

    async def log_in(self, request: Request) -> Response:
        """Check a name and a password. Each attempt is counted first, and the count is undone if it succeeds."""
        async with request.form(max_files=0, max_fields=8, max_part_size=4 * MOST_TEXT) as form:
            name, password = (form.get(each) for each in ("username", "password"))
        if not isinstance(name, str) or not isinstance(password, str):
            return self._page(request, "wrong")
        name, address = name.strip(), client_of(request.scope, self.options.proxies)
        tries = ((self.wrong_address, address), (self.wrong, (address, name[:MOST_TEXT])))
        for buckets, who in tries:
            if wait := buckets.wait(who):
                return self._page(request, "often", 429, {"retry-after": str(int(wait) + 1)})
        if not await self.check(name, password):
            return self._page(request, "wrong")
        for buckets, who in tries:
            buckets.give_back(who)
        self.tokens.end(self._token(request.scope))  # ends the previous login in this browser
        answer = RedirectResponse(_back(request), 303)
        answer.set_cookie(
            self.tokens.cookie,
            self.tokens.new(name),
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return answer

    async def log_out(self, request: Request) -> Response:
        """End the session of this cookie only; a link from another website does not end a session."""
        answer = RedirectResponse("./", 303)
        if request.method == "POST":
            self.tokens.end(self._token(request.scope))
            answer.delete_cookie(self.tokens.cookie, httponly=True, samesite="lax")
        return answer

    def _token(self, scope: Scope) -> str | None:
        return cookie_parser(Headers(scope=scope).get("cookie", "")).get(self.tokens.cookie)

    def _page(self, request: Request, fault: str = "", status: int = 400, headers: dict | None = None) -> Response:
        """Render the form, with the reason if an attempt failed."""
        language = pick_language(request.query_params.get("lang"), request.headers.get("accept-language"))
        policy = page_policy(self.options, styles=[hashed(STYLE.encode())])
        text = page(words(language), language, fault)
        return HTMLResponse(text, status if fault else 200, {"content-security-policy": policy} | (headers or {}))


def page(catalogue: Catalogue, language: str, fault: str = "") -> str:
    """Render the login form as HTML.

    The form has no action, so it is sent to the address that was opened; browsers keep the URL fragment on the way to
    the page.
    """
    texts = {key: html.escape(text) for key, text in section(catalogue, "login").items()}
    alert = f'<p role="alert">{texts[fault]}</p>' if fault else f"<p>{texts['hint']}</p>"
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(catalogue['page.title'])}</title><style>{STYLE}</style></head><body><main>"
        f'<h1>{html.escape(catalogue["page.title"])}</h1>{alert}<form method="post">'
        f'<label>{texts["name"]}<input name="username" autocomplete="username" maxlength="{MOST_TEXT}" required '
        'autofocus autocapitalize="none"></label>'
        f'<label>{texts["password"]}<input name="password" type="password" autocomplete="current-password" '
        f'maxlength="{MOST_TEXT}" required></label><button>{texts["enter"]}</button></form></main></body></html>'
    )


def _back(request: Request) -> str:
    """Return the address of the page, with the query with which the form was opened."""
    return f"./?{request.url.query}" if request.url.query else "./"
