"""The page in a frame of a notebook that is served at another address."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from model.api import load_model
from model.errors import InputError
from tests.browser.conftest import blank_page
from tests.support.visitor import SOON, expect
from viz import inline

pytestmark = pytest.mark.browser
PROMPT = "Lily had a <b>fox</b> & Tom"


@pytest.fixture
def shown(monkeypatch):
    """A page as a notebook's cell gets it; no browser is opened for it."""
    opened = []
    monkeypatch.setattr(inline.webbrowser, "open", opened.append)
    yield inline.show(PROMPT, heads=[(5, 0), (7, 3)], tokens=[4]), opened
    inline.close()


@pytest.fixture
def notebook(shown):
    """The address of a page with a cell's output, at another port."""

    class Notebook(BaseHTTPRequestHandler):
        def do_GET(self):
            body = f"<!doctype html><title>Notebook</title>{shown[0]._repr_html_()}".encode()
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Notebook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def test_a_cell_shows_the_page_on_its_prompt(shown, notebook, profile):
    page = blank_page(profile)
    page.goto(notebook)
    frame = page.frame_locator("iframe")
    frame.locator("#pg-map_plot [data-run]").first.wait_for(timeout=SOON)
    expect(frame.locator("#prompt textarea")).to_have_value(PROMPT)
    expect(frame.locator("#pg-map_plot")).to_contain_text("Head 7.3")
    expect(frame.locator("#pg-map_plot .pg-chart").first).to_be_visible()
    assert shown[1] == [shown[0].url]  # this is no notebook: it opened in the browser, too
    page.close()


def test_every_call_uses_one_server_until_it_is_closed(shown):
    first, _ = shown
    second = inline.show("Another prompt", model=load_model("tinygpt"))
    assert first.url.split("#")[0] == second.url.split("#")[0]
    second.close()
    assert inline._served == []


@pytest.mark.parametrize(
    ("prompt", "wrong", "said"),
    [
        ("", {}, "The prompt is empty."),
        ("A cat", {"tab": "nothing"}, "There is no such tab."),
        ("A cat", {"heads": [(8, 0)]}, "This layer does not exist."),
        ("A cat", {"heads": [(0, 8)]}, "This head does not exist."),
        ("A cat", {"tokens": [2]}, "This position does not exist."),
    ],
)
def test_what_is_wrong_is_said_before_a_page_is_shown(monkeypatch, prompt, wrong, said):
    monkeypatch.setattr(inline.webbrowser, "open", lambda url: pytest.fail("opened"))
    with pytest.raises(InputError) as error:
        inline.show(prompt, **wrong)
    assert error.value.what == said
    assert inline._served == []


def test_one_figure():
    map_ = inline.figure("map_plot", "The cat sat on the mat", heads=[(5, 0)], theme="dark")
    assert map_.data[0].z.shape == (6, 6)
