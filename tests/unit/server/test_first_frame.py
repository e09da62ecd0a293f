"""The first frame: sent before the scripts, in the reader's language, and allowed by the page's policy."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from viz.page.examples import FIRST
from viz.server.assets import HeadMiddleware
from viz.server.first_frame import FRAME, STYLE, THEME, first_frame
from viz.server.headers import hashed
from viz.words import LANGUAGES, words

PAGE = (
    '<html><head><base href="./" /><script>config</script><link rel="stylesheet"></head><body style="a"></body></html>'
)


def page(query: str = "", **headers: str):
    async def send(request):
        return HTMLResponse(PAGE)

    middleware = [Middleware(HeadMiddleware, tags='<link rel="stylesheet" href="own">', first=first_frame)]
    return TestClient(Starlette(routes=[Route("/", send)], middleware=middleware)).get(f"/{query}", headers=headers)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_frame_precedes_all_that_takes_time(language):
    body = page(f"?lang={language}").text
    frame = body.index(f'<div id="{FRAME}"')
    assert body.index(words(language)["page.title"]) > frame and FIRST in body
    assert frame < body.index("stylesheet") and frame < body.index("config")  # a style sheet in the head would hide it
    assert body.index("</head>") < body.index("<body>") < frame < 3000
    assert words(language)["page.arriving"] in body[frame : body.index("stylesheet")]


def test_its_language_is_the_browser_s():
    assert words("zh")["page.title"] in page(**{"accept-language": "zh-CN,en"}).text


def test_its_style_and_its_script_are_admitted():
    policy = page().headers["content-security-policy"]
    assert hashed(STYLE.encode()) in policy and hashed(THEME.encode()) in policy
