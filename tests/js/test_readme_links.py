"""Tests that the README's links open what they promise: read by the page's own script, then drawn."""

import re
from pathlib import Path

import pytest

from viz.page.address import link_of
from viz.page.pipeline import HELD, PageRequest, payloads, scene_of
from viz.seam.panels import settings_of
from viz.views.tabs import TABS
from viz.work.playground import Options, Playground

pytestmark = pytest.mark.browser
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
LINKS = re.findall(r"^\[\d\]: http://127\.0\.0\.1:7860/(#\S+)$", README, re.MULTILINE)
FIRST = "The cat sat on the mat because it was tired"


@pytest.fixture(scope="module")
def playground():
    return Playground(Options(offline=True))


def test_there_are_five_and_the_text_uses_each():
    assert len(LINKS) == 5
    assert all(f"][{n}]" in README for n in range(1, 6))


@pytest.mark.parametrize("link", LINKS, ids=range(1, 6))
def test_a_link_opens_a_valid_state(call, playground, link):
    state = call("page/address/address_format.js", "module.parse", link)
    names = {part.split("=")[0] for part in link[1:].split("&")}
    assert set(state) == names and state["model"] == "tinygpt"
    accepted = link_of(state, tuple(tab.key for tab in TABS))
    assert accepted.model == "tinygpt" and accepted.tab == state["tab"]

    tab = next(tab for tab in TABS if tab.key == state["tab"])
    values = state["values"]
    assert set(values) <= set(HELD)
    view = next(view for view in tab.views if view.key == values[tab.chooser]["view"])
    request = PageRequest("tinygpt", state.get("prompt", FIRST), state, values, {}, "en", tab=tab.key)
    scene = scene_of(playground, request)
    for name in {"heads", "edits"} & set(state):
        assert len(getattr(scene.picked, name)) == len(state[name])
    assert settings_of(view, scene, values) is not None
    assert payloads(playground, request)
