"""The page on its own wire: no question goes another way."""

import re

import pytest

from tests.support.visitor import SOON, expect, open_tab

pytestmark = [pytest.mark.browser, pytest.mark.long]


def test_a_visit_by_the_pages_own_wire(open_page, app_url):
    page, asked = open_page(), []
    page.on("request", lambda request: request.method == "POST" and asked.append(request.url.split("/", 3)[3]))
    chips = page.locator("#pg-tokens .pg-chip")
    page.locator("#prompt textarea").fill("Once upon a time there was a cat")
    expect(chips).to_have_count(8, timeout=SOON)

    # Quick clicks end on the last head.
    open_tab(page, "Attention")
    page.locator("#pg-map_plot [data-run]").wait_for(timeout=SOON)
    for head in (1, 4, 2):
        page.evaluate("head => playground.pickHead(3, head)", head)
    expect(page.locator("#pg-map_plot h2")).to_have_text("Head 3.2", timeout=SOON)

    # Back takes back what was typed; the same page opens from its link.
    page.evaluate("playground.select({ tokens: [2] })")
    page.wait_for_function("() => location.hash.includes('tokens=2')", timeout=SOON)
    other = open_page(page.url.split("/", 3)[3], ready="#pg-map_plot [data-run]")
    expect(other.locator("#pg-tokens .pg-chip[aria-pressed=true]")).to_have_text("·a", timeout=SOON)
    expect(other.locator("#pg-map_plot h2")).to_have_text("Head 3.2")

    # A job starts by itself and shows its result.
    open_tab(page, "Effects")
    page.get_by_role("tab", name="Every head in turn").click()
    expect(page.locator("[data-part='sweep_job']")).to_have_attribute("data-state", "done", timeout=SOON)

    assert asked and {url.split("?")[0] for url in asked} <= {
        "playground/view",
        "playground/job",
        "playground/link",
        "playground/lessons",
    }


def test_what_is_typed_while_a_text_is_written_is_shown_before_the_text_ends(open_page):
    page = open_page()
    open_tab(page, "Sampling")
    page.get_by_role("tab", name="Side by side").click()
    race, chips = page.locator("#pg-side_by_side_texts [data-part]"), page.locator("#pg-tokens .pg-chip")
    page.wait_for_function("() => document.querySelector('.pg-race-row .pg-reading-token')", timeout=SOON)
    # Whether the texts can still be stopped at the moment in which the new prompt's tokens are there.
    page.evaluate("""() => {
      new MutationObserver(() => {
        if (document.querySelectorAll("#pg-tokens .pg-chip").length !== 3) return;
        window.goesOn ??= Boolean(document.querySelector("#pg-side_by_side_texts [data-name=stop]"));
      }).observe(document.querySelector("#pg-tokens"), { childList: true, subtree: true });
    }""")
    page.locator("#prompt textarea").fill("The dog sat")
    expect(chips).to_have_count(3, timeout=SOON)
    assert page.evaluate("window.goesOn") is True
    expect(race).to_have_attribute("data-over", re.compile("."), timeout=SOON)
