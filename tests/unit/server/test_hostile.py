"""A polite page goes on while somebody of another address attacks the page's own routes."""

import asyncio
import dataclasses
import types

import pytest

from benchmarks.load import hostile
from model import FOLDER
from tests.support.models.helpers import apart
from tests.support.rude import until
from viz.page.build import build
from viz.serve import start
from viz.work.limits import PUBLIC
from viz.work.playground import Options, Playground


@pytest.fixture(scope="module")
def served(lm):
    """A shared server of the small model, and the playground behind it."""
    allowed = dataclasses.replace(PUBLIC, models=(lm.id,))
    playground = Playground(Options(model=lm.id, max_tokens=64, training_minutes=0.0, allowed=allowed, public=True))
    playground.models.get(lm.id, lambda: lm)
    running = start(playground, FOLDER / "static", build(playground), host="127.0.0.1", port=None)
    yield types.SimpleNamespace(url=running.url, playground=playground)
    running.close()


@pytest.mark.parametrize("attack", hostile.ON_PAGES)
def test_a_polite_page_goes_on_under_an_attack(served, lm, monkeypatch, attack):
    monkeypatch.setattr(hostile, "MODEL", lm.id)
    monkeypatch.setattr(hostile, "LONG", "abcab" * 8)
    monkeypatch.setattr(hostile, "CLICK", 0.05)
    seen, attacked = hostile.Seen(), []

    def rude():
        attack(served.url, 0.5)
        attacked.append(len(seen.clicks))

    def ended():
        return bool(attacked) and len(seen.clicks) >= attacked[0] + 2

    async def visit():
        page = asyncio.create_task(hostile.polite(served.url, seen, ended, heads=2))
        await asyncio.gather(page, asyncio.to_thread(rude))

    apart(asyncio.wait_for(visit(), 60))
    assert not seen.refused and seen.clicks
    queue = served.playground.queue
    until(lambda: not queue.working and not queue.line)  # whoever closes what it asked for holds no place
    until(lambda: not served.playground.presence.open_pages)
