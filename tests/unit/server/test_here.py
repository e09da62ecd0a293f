"""The line of open pages: what a page had begun ends when it is gone, and nobody else's does."""

import time

import pytest

from tests.support.guard import ask
from tests.support.public import TIGHT
from tests.support.rude import beat, until
from tests.support.wire import listening
from viz.server import here
from viz.work.playground import Options


@pytest.fixture(scope="module")
def server(lm):
    options = Options(model="tiny", max_tokens=40, training_minutes=0.0, allowed=TIGHT, public=True)
    with listening(lm, options) as running:
        yield running


@pytest.fixture
def left(server, monkeypatch):
    """Visits whose work was ended."""
    found = []
    monkeypatch.setattr(server.playground.presence, "leaving", found.append)
    monkeypatch.setattr(here, "GRACE", 0.2)
    return found


def test_what_a_page_began_ends_when_no_line_names_it(server, left):
    presence, port = server.playground.presence, server.running.port
    presence.belongs("asked", "127.0.0.1"), presence.belongs("stays", "127.0.0.1")
    first, second = beat(port, "asked,stays"), beat(port, "stays")
    assert presence.is_open("asked") and presence.open_pages == 2
    first.close()
    until(lambda: left == ["asked"])
    assert presence.is_open("stays")
    second.close()
    until(lambda: left == ["asked", "stays"] and presence.open_pages == 0)


def test_a_line_that_is_opened_again_in_time_ends_nothing(server, left, monkeypatch):
    monkeypatch.setattr(here, "GRACE", 1.0)
    server.playground.presence.belongs("back", "127.0.0.1")
    beat(server.running.port, "back").close()
    until(lambda: not server.playground.presence.is_open("back"))
    line = beat(server.running.port, "back")
    time.sleep(1.3)
    assert left == []
    line.close()
    until(lambda: left == ["back"])


def test_lines_of_unknown_visits_come_and_go_for_nothing(server, left):
    lines = [beat(server.running.port, f"nobody-{n}") for n in range(60)]
    assert server.playground.presence.is_open("nobody-59")
    for line in lines:
        line.close()
    until(lambda: server.playground.presence.open_pages == 0)
    server.playground.presence.belongs("somebody", "127.0.0.1")
    beat(server.running.port, "somebody").close()
    until(lambda: left == ["somebody"])


@pytest.mark.parametrize("visit", ["a" * 65, "%00", "a%2Fb", "..%2f..", "%F0%9F%98%80", "a b", "a,,b", ""])
def test_no_line_for_what_is_no_name_of_a_visit(server, visit):
    answer = server.ask("GET", f"/playground/here/{visit.replace(' ', '%20')}")
    assert answer.status in (400, 404) and server.playground.presence.open_pages == 0


def test_so_many_pages_on_one_line(server):
    line = beat(server.running.port, ",".join(f"v{n}" for n in range(here.MOST_PAGES)))
    line.close()
    answer = server.ask("GET", f"/playground/here/{','.join(f'v{n}' for n in range(here.MOST_PAGES + 1))}")
    assert answer.status == 400
    assert ask(here.Here(server.playground.presence), method="POST", path_params={"visits": "a"}).status == 400
