"""A transformers model in memory on the page: what works with its outputs, and what says that it needs weights."""

import logging

import pytest

from tests.browser.conftest import FIRST
from tests.support.models import hooked
from tests.support.visitor import SOON, expect, open_tab, open_view, settle
from viz import inline
from viz.views.tabs import TABS
from viz.words import words

pytestmark = pytest.mark.browser
transformers = pytest.importorskip("transformers")
PROMPT = "The cat sat on the mat because it was tired"
ROWS = "(n) => document.querySelector('#pg-map_plot .js-plotly-plot')?._fullData?.[0]?.z?.length === n"
SAID = "This needs a model's weights; only the attention, hidden states and logits of PersimmonForCausalLM are read."


@pytest.fixture(scope="module")
def shown():
    """The page of a tiny Persimmon, as a notebook's cell gets it."""
    patch = pytest.MonkeyPatch()
    patch.setattr(inline.webbrowser, "open", lambda url: None)
    yield inline.show(hooked.build("persimmon", eager=False), hooked.tokenizer(), PROMPT)
    inline.close()
    patch.undo()


def opened(open_page, shown, **options):
    server, state = shown.url.split("/#")
    return open_page(f"/#{state}", url=server, ready=FIRST, **options)


def test_attention_of_the_prompt_and_of_another_one(open_page, shown):
    page = opened(open_page, shown)
    expect(page.locator("#model input")).to_have_value("PersimmonForCausalLM")
    expect(page.locator("#pg-start_next")).to_be_visible()
    expect(page.get_by_text(SAID)).to_be_visible()
    expect(page.locator(".pg-off-action").first).to_be_hidden()  # its heads cannot be switched off
    page.get_by_role("button", name="Show its attention").click()
    expect(page.locator("#pg-map_plot .js-plotly-plot")).to_be_visible(timeout=SOON)
    expect(page.get_by_text(SAID)).to_be_hidden()
    page.get_by_role("textbox", name="Prompt").fill("A dog ran")
    expect(page.locator("#pg-tokens .pg-chip")).to_have_count(3, timeout=SOON)
    page.wait_for_function(ROWS, arg=3, timeout=SOON, polling=60)


def test_a_view_that_needs_weights_says_so_once_and_works_for_another_model(open_page, shown):
    page = opened(open_page, shown)
    open_view(page, "Anatomy", "compute")
    expect(page.get_by_text(SAID).locator("visible=true")).to_have_count(1, timeout=SOON)
    expect(page.locator("#pg-compute_form")).to_be_hidden()
    page.locator("#model input").click()
    page.get_by_role("option", name="TinyGPT").click()
    expect(page.locator("#pg-compute_figure .js-plotly-plot")).to_be_visible(timeout=SOON)
    expect(page.locator("#pg-compute_form")).to_be_visible()
    expect(page.get_by_text(SAID).locator("visible=true")).to_have_count(0)
    expect(page.locator(".pg-off-action").first).to_be_visible()
    page.locator("#model input").click()
    page.get_by_role("option", name="PersimmonForCausalLM").click()
    expect(page.get_by_text(SAID).locator("visible=true")).to_have_count(1, timeout=SOON)


def test_every_tab_is_drawn_or_says_why(open_page, shown, caplog):
    caplog.set_level(logging.ERROR)
    page = opened(open_page, shown)
    for tab in TABS:  # its first view; the unit tests draw all of them
        open_tab(page, words("en")[f"tab.{tab.key}"])
        settle(page)
        for box in page.locator(".pg-problem").locator("visible=true").all():
            assert box.inner_text().strip(), tab.key
            assert "pg-quiet-box" in box.get_attribute("class"), (tab.key, box.inner_text())
        assert page.get_by_text(SAID).locator("visible=true").count() <= 1, tab.key
    assert not caplog.records
