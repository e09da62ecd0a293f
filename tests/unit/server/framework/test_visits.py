"""The line that open pages hold: who is on it is there, and who is on none any more has left."""

import types

import httpx
import pytest

from tests.support.models.helpers import serving
from tests.support.public import TIGHT
from tests.support.rude import beat, until
from viz.page.build import build
from viz.serve import start
from viz.server.framework.visits import MOST_PAGES
from viz.work.playground import Options


@pytest.fixture(scope="module")
def served(lm, tmp_path_factory):
    static = tmp_path_factory.mktemp("static")
    (static / "style").mkdir()
    (static / "main.js").write_text("")
    playground = serving(lm, Options(model="tiny", max_tokens=40, training_minutes=0.0, allowed=TIGHT))
    page = build(playground)
    start(playground, static, page, host="127.0.0.1", port=None)
    yield types.SimpleNamespace(port=page.server_port, url=page.local_url, page=page, presence=playground.presence)
    page.close()


@pytest.fixture
def left(served, monkeypatch):
    """The visits that were ended, of three that the server has drawn for."""
    left = []
    monkeypatch.setattr(served.presence, "leaving", left.append)
    for visit in ("a", "b", "c"):
        _ = served.page.state_holder[visit]
    return left


def test_pages_on_one_line_leave_one_by_one(served, left):
    here = served.presence.is_here
    first = beat(served.port, "a,b,c,unknown")
    assert all(map(here, ("a", "b", "c", "unknown")))
    second = beat(served.port, "a,c")  # b has closed its page
    first.close()
    until(lambda: not here("b"))
    assert here("a") and here("c") and not here("unknown")
    until(lambda: left == ["b"])
    assert served.page.state_holder["b"].is_closed and not served.page.state_holder["a"].is_closed
    second.close()
    until(lambda: sorted(left) == ["a", "b", "c"])
    assert not here("a") and not here("c")


def test_a_page_whose_line_was_cut_stays(served, left):
    here = served.presence.is_here
    beat(served.port, "a,b").close()
    until(lambda: not here("a"))
    line = beat(served.port, "a")  # in time
    until(lambda: left == ["b"])
    assert here("a") and not served.page.state_holder["a"].is_closed
    line.close()
    until(lambda: left == ["b", "a"])
    assert served.page.state_holder["a"].is_closed
    with beat(served.port, "a"):  # too late for what it had begun, but not for itself
        assert not served.page.state_holder["a"].is_closed


def test_a_page_named_twice_is_one(served, left):
    _ = served.page.state_holder["twice"]
    beat(served.port, "twice,twice").close()
    until(lambda: "twice" in left)
    assert not served.presence.is_here("twice")


def test_a_line_has_room_for_many_pages_and_not_for_more(served):
    names = [f"many-{n}" for n in range(MOST_PAGES + 1)]
    beat(served.port, ",".join(names[1:])).close()
    answer = httpx.get(f"{served.url}gradio_api/heartbeat/{','.join(names)}", timeout=20)
    assert answer.status_code == 400 and not served.presence.is_here(names[0])
