"""The tour and the glossary as a visitor uses them."""

import re

import pytest

from tests.browser.conftest import READY
from tests.support.visitor import SOON, expect
from viz.page.guide import payload
from viz.words import words

pytestmark = pytest.mark.browser


def stands(page):
    """Whether the panel covers nothing of what it points at, and nothing is wider than the window."""
    page.wait_for_function("""() => {
      const panel = document.querySelector(".pg-tour"), node = document.querySelector("[data-pg-pointed]");
      if (!panel || !node) return false;
      const a = panel.getBoundingClientRect(), b = node.getBoundingClientRect();
      return !(a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom);
    }""")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_steps_tick_themselves_off_and_nothing_else_does(open_page):
    page = open_page(ready=READY)
    said = payload(words("en"))
    titles = [step["title"] for step in said["steps"]]
    tour, ticked = page.locator(".pg-tour"), page.locator(".pg-tour-marks .pg-tour-ticked")
    assert not tour.count()  # it never opens by itself
    page.get_by_role("button", name="Take the tour").click()
    title = tour.locator("h2")
    expect(title).to_have_text(titles[0])
    expect(tour).to_be_focused()
    stands(page)
    page.locator(".pg-tour [data-do=on]").click()  # passing a step by does not tick it off
    expect(title).to_have_text(titles[1])
    expect(ticked).to_have_count(0)
    page.locator(".pg-tour [data-do=back]").click()
    page.locator("#prompt textarea").fill("The dog ran after the cat")
    expect(title).to_have_text(titles[1], timeout=SOON)  # done, so it goes on
    expect(ticked).to_have_count(1)
    page.locator("#pg-tokens [data-index='2']").click()  # another deed than the one that is asked for
    page.locator("#pg-selection .pg-cross").first.wait_for()
    expect(title).to_have_text(titles[1])
    expect(ticked).to_have_count(1)
    page.locator("#pg-overview_heads .pg-head").nth(20).click()
    expect(title).to_have_text(titles[2], timeout=SOON)
    expect(ticked).to_have_count(2)
    stands(page)
    page.locator("#pg-tokens [data-index='4']").click()
    expect(title).to_have_text(titles[3], timeout=SOON)
    page.locator("#pg-tokens [data-index='1']").click()
    expect(title).to_have_text(titles[4], timeout=SOON)
    page.locator("#pg-attention_view [data-key=lines]").click()
    expect(title).to_have_text(titles[5], timeout=SOON)
    expect(ticked).to_have_count(5)
    # Another tab: the step points at its button, and Show me opens it.
    expect(page.locator("[data-pg-pointed]")).to_have_text("Write")  # the group that has it
    page.locator(".pg-tour [data-do=show]").click()
    page.locator("#pg-pipeline [data-warp=temperature][data-pg-pointed]").wait_for(timeout=SOON)
    stands(page)
    expect(ticked).to_have_count(5)
    page.locator(".pg-tour [data-do=show]").focus()
    page.keyboard.press("Escape")
    expect(tour).to_have_count(0)
    expect(page.locator("#pg-selection")).to_contain_text("token")  # what is picked stays
    page.get_by_role("button", name="Tour", exact=True).click()
    expect(title).to_have_text(titles[5])  # and what was done is kept


def test_terms_open_their_meaning_on_a_narrow_dark_chinese_page(open_page):
    page = open_page("?lang=zh&__theme=dark", ready=READY, viewport={"width": 390, "height": 844})
    terms = payload(words("zh"))["terms"]
    howto = page.locator("[data-part=map_howto]")
    page.set_viewport_size({"width": 1280, "height": 844})
    folded = howto.bounding_box()["width"]
    page.locator(".pg-howto:visible > details > summary").click()
    expect(howto).to_have_class(re.compile("pg-howto-open"))
    assert howto.bounding_box()["width"] > 2 * folded  # a line of its own
    page.set_viewport_size({"width": 390, "height": 844})
    formula = howto.locator(".pg-howto-formula")
    expect(howto.locator(".pg-howto-try")).to_be_visible()
    expect(formula).to_be_hidden()
    more = howto.locator(".pg-howto-more > summary")
    more.click()
    expect(formula).to_have_text(words("zh")["map.howto.formula"])
    expect(formula).to_be_visible()
    more.click()
    text = howto.text_content()
    assert words("zh")["map.howto.body"] in text  # the text is the one of the catalogue
    term = howto.locator(".pg-term[data-term=sink]")
    term.wait_for(timeout=SOON)
    assert howto.locator(".pg-term[data-term=token]").count() == 1  # the first time it occurs only
    before = howto.bounding_box()
    term.click()
    card = page.locator(".pg-term-card")
    expect(card).to_be_focused()
    expect(card).to_contain_text(terms["sink"]["about"])
    expect(card).to_contain_text(re.compile(r"\d{4}"))
    box = card.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    assert howto.bounding_box() == before
    card.locator(".pg-term").first.press("Enter")  # a term within a meaning
    expect(card).not_to_contain_text(terms["sink"]["about"])
    page.keyboard.press("Escape")
    expect(card).to_have_count(0)
    expect(term).to_be_focused()
    page.locator(".pg-more").click()
    page.locator(".pg-glossary-open").click()
    shown = page.locator(".pg-glossary-term:visible")
    expect(shown).to_have_count(len(terms))
    page.keyboard.type("温度")
    expect(page.locator(".pg-glossary-term[data-id=temperature]")).to_be_visible()
    assert 0 < shown.count() < len(terms)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.keyboard.press("Escape")
    expect(page.locator(".pg-glossary")).to_be_hidden()
    expect(page.locator(".pg-glossary-open")).to_be_focused()
    # What a visitor wrote is never looked through.
    page.locator("#prompt textarea").fill("温度 softmax 注意力头 temperature")
    expect(page.locator("#pg-tokens")).to_contain_text("softmax", timeout=SOON)
    assert not page.locator("#pg-tokens .pg-term, #pg-selection .pg-term, .pg-chip .pg-term").count()
