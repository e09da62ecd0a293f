"""A journey by words: the map, the lines and the text between words, and a selection that outlives the switch."""

import json
from urllib.parse import quote

import numpy as np
import pytest

from model.attention.measures import measure
from tests.browser.conftest import READY
from tests.support.visitor import exported_rows, still

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

ROUNDING = 2e-5  # the app may have chosen another float32 product
PROMPT = "Katherine's unbelievable tale. Dr. Smith didn't listen"
WORDS = ["Katherine's", "·unbelievable", "·tale", ".", "·Dr", ".", "·Smith", "·didn't", "·listen"]
LAYER, HEAD = 5, 0
PHONE = {"viewport": {"width": 390, "height": 844}}


def query(view="map", unit="words"):
    values = quote(json.dumps({"attention_view": {"view": view, "unit": unit}}))
    return f"#model=tinygpt&tab=attention&heads={LAYER}.{HEAD}&prompt={quote(PROMPT)}&values={values}"


@pytest.fixture
def page(open_page):
    page = open_page(query(), ready=READY)
    expect(page.locator("#pg-map_plot .pg-about, #pg-map_plot .pg-note").first).to_contain_text("rows still sum to 1")
    return page


def drawn(page):
    """The numbers and the rows' names of the map on the page."""
    page.wait_for_function("() => document.querySelector('#pg-map_plot .pg-chart')._fullData?.length === 1")
    z, names = page.evaluate(
        """() => { const [t] = document.querySelector('#pg-map_plot .pg-chart')._fullData;
                   const known = (v) => Number.isFinite(v) ? v : null;
                   return [Array.from(t.z, (row) => Array.from(row, known)), [...t.y]]; }"""
    )
    return np.array([[np.nan if v is None else v for v in row] for row in z]), names


def below_map(page):
    """The pixels from the lower edge of the map to its nearest label of a key."""
    return page.evaluate(
        """() => { const chart = document.querySelector('#pg-map_plot .pg-chart'),
                    low = chart.querySelector('.heatmaplayer image').getBoundingClientRect().bottom;
                   return Math.min(...[...chart.querySelectorAll('.xtick text')].map((each) =>
                     each.getBoundingClientRect().top - low)); }"""
    )


def test_labels_stay_close_below_the_map_when_the_unit_changes(page):
    for value in ("tokens", "sentences", "words"):
        unit(page, value)
        expect(page.locator("#pg-map_plot .ytitle")).to_have_text(f"query {value.removesuffix('s')}")
        still(page, "#pg-map_plot .pg-chart")
        assert 0 < below_map(page) < 20, value


def view(page, key):
    page.locator(f".pg-view:visible[data-key={key}]").click()


def unit(page, value):
    page.locator("#pg-attention_view [data-name=unit] select").select_option(value)


def test_a_cell_of_the_map_is_the_sum_by_hand_and_a_click_selects_its_tokens(page, lm):
    pieces = lm.encode(PROMPT).pieces
    n = pieces.index(" unb")  # Katherine's is the tokens 0 .. n - 1, unbelievable those before tale
    end = pieces.index(" tale")
    assert n > 1 and end - n > 1
    z, names = drawn(page)
    A = measure(lm.trace(PROMPT), "weights", LAYER, HEAD)
    assert names[:3] == [f"0–{n - 1} Katherine's", f"{n}–{end - 1} ·unbelievable", f"{end} ·tale"]
    assert abs(z[1, 0] - np.mean([A[q, :n].sum() for q in range(n, end)])) <= ROUNDING
    np.testing.assert_allclose(np.nansum(z, axis=1), 1, atol=1e-5)
    still(page, "#pg-map_plot .pg-chart")
    place = page.evaluate(
        """() => { const chart = document.querySelector('#pg-map_plot .pg-chart'), l = chart._fullLayout,
             r = chart.getBoundingClientRect();
             return [r.left + l.xaxis._offset + l.xaxis.c2p(0), r.top + l.yaxis._offset + l.yaxis.c2p(1)]; }"""
    )
    page.mouse.click(*place)
    page.wait_for_function("() => playground.selection.pair")
    assert page.evaluate("playground.selection.pair") == [end - 1, n - 1]
    assert sorted(page.evaluate("playground.selection.tokens")) == list(range(end))
    page.wait_for_function("() => document.querySelector('#pg-map_plot .pg-chart').layout.shapes.length === 4")


def test_lines_and_text_have_words_and_the_selection_outlives_the_switch(page, lm):
    pieces = lm.encode(PROMPT).pieces
    n = pieces.index(" unb")
    view(page, "lines")
    column = page.locator(".pg-lines-left .pg-lines-token")
    expect(column).to_have_text(WORDS)
    column.nth(0).click()
    assert page.evaluate("playground.selection.tokens") == list(range(n))
    expect(page.locator("#pg-lines_links .pg-links-readout strong")).to_have_text(f"Katherine's (0–{n - 1})")
    view(page, "text")
    words = page.locator(".pg-reading-token")
    expect(words).to_have_count(len(WORDS))
    expect(page.locator(".pg-reading-token[aria-pressed=true]")).to_have_text("Katherine's")
    rows = exported_rows(page.locator("#pg-text_reading"))
    assert rows[1][:2] == [f"0–{n - 1}", "Katherine's"]
    unit(page, "tokens")
    expect(words).to_have_count(len(pieces))
    expect(page.locator(".pg-reading-token[aria-pressed=true]")).to_have_count(n)
    unit(page, "sentences")
    expect(words).to_have_count(2)
    expect(page.locator(".pg-reading-token[aria-pressed=true]")).to_have_text("Katherine's unbelievable tale.")
    words.nth(1).click()
    assert page.evaluate("playground.selection.tokens") == list(range(pieces.index(" Dr"), len(pieces)))
    page.wait_for_url(lambda url: "%22sentences%22" in url)  # a link to what is seen
    words.nth(1).click()
    assert page.evaluate("playground.selection.tokens") == []


def test_words_on_a_phone(open_page):
    page = open_page(query("lines"), ready="#pg-lines_links [data-run]", **PHONE)
    expect(page.locator(".pg-lines-left .pg-lines-token")).to_have_text(WORDS)
    expect(page.locator("#pg-attention_view [data-name=unit] select")).to_be_visible()
    expect(page.locator("#pg-overview_heads")).to_contain_text("previous word")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
