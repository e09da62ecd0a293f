"""Who wrote it as a visitor uses it: the parts add up, one of them from inside, other targets, and gradients."""

import re

import numpy as np
import pytest

from model.predictions.attribution import attribute, components, promoted
from tests.support.visitor import SOON, expect, open_tab, still, watch_token

pytestmark = pytest.mark.browser

COREFERENCE = "The cat sat on the mat because it was tired"


def open_view(open_page, query="", name="Predictions", **context):
    page = open_page(query, **context)
    open_tab(page, name)
    page.locator(".pg-view[data-key=logit_parts]").click(timeout=SOON)
    for part in ("check", "map", "layers", "sources", "tokens"):
        page.locator(f"#pg-logit_parts_{part} [data-run]").first.wait_for(timeout=SOON)
    return page


def facts(page):
    """What the parts add up to, the model's own logit, and how far they are apart."""
    texts = page.locator("#pg-logit_parts_check dd").all_text_contents()
    total, logit = (float(text.replace("−", "-")) for text in texts[:2])
    return total, logit, total - logit


def title(page, part):
    return page.locator(f"#pg-logit_parts_{part} h2").first


def test_the_parts_add_up_and_open(open_page, lm):
    page = open_view(open_page)
    run = lm.trace(COREFERENCE)
    found = components(run)
    parts = attribute(found, lm.model, int(np.argmax(run.logits_at(-1))))
    total, logit, gap = facts(page)
    assert (total, logit) == pytest.approx((parts.total, parts.logit), abs=2e-4) and abs(gap) < 1e-4
    lists = page.locator("#pg-logit_parts_map .pg-effect-list")
    first = lists.first.locator("button").first
    name = parts.parts().sort_values("value").iloc[-1]
    wanted = f"MLP {name.layer}" if name["kind"] == "mlp" else f"head {name.layer}.{name['head']}"
    expect(first).to_contain_text(wanted)

    # An MLP from the list, then a head from it: by keyboard.
    mlp = lists.locator("button").filter(has_text="MLP").first
    text = mlp.locator(".pg-wrote-name").text_content()
    mlp.click()
    expect(title(page, "tokens")).to_have_text(f"What {text} promotes and suppresses", timeout=SOON)
    expect(page.locator("#pg-logit_parts_sources")).to_contain_text("An MLP reads only its own position")
    expect(mlp).to_have_attribute("aria-pressed", "true")
    best = promoted(found, lm.model, int(text.split()[1]), None, 1)
    shown = page.locator("#pg-logit_parts_tokens table").first.locator("th").first
    expect(shown).to_have_attribute("title", re.compile(rf"\({best.ids[0]}\)$"))
    head = lists.locator("button").filter(has_text="head").last
    written = head.locator(".pg-wrote-name").text_content()  # what the head does may stand beside its number
    name = re.search(r"head [0-9]+[.][0-9]+", written)[0]
    head.press("Enter")
    expect(title(page, "sources")).to_contain_text(f"{name.replace('head', 'Head')}, by key token", timeout=SOON)
    expect(title(page, "tokens")).to_contain_text(name)
    expect(page.locator("#pg-logit_parts_map select")).to_have_value("")
    expect(head).to_be_focused()  # the list was drawn again

    # The list is drawn again with other numbers: the part is still the one that the keys reach.
    first.focus()
    number = lists.locator("button:focus .pg-effect-number")
    before = number.text_content()
    page.evaluate("playground.select({ edits: [{ kind: 'scale', layer: 0, head: 0, factor: 1.5 }] })")
    again = page.locator("#pg-logit_parts_map .pg-ranked-before button")
    again.wait_for(timeout=SOON)
    again.evaluate("button => button.click()")  # the focus stays on the part
    expect(number).not_to_have_text(before, timeout=SOON)
    expect(lists.locator("button:focus")).to_contain_text(wanted)
    page.evaluate("playground.select({ edits: [] })")
    again.wait_for(timeout=SOON)
    again.evaluate("button => button.click()")
    expect(number).to_have_text(before, timeout=SOON)

    # An MLP from the map's strip, a head from the map.
    still(page, "#pg-logit_parts_map .pg-chart")
    strip = page.locator("#pg-logit_parts_map .x2y image, #pg-logit_parts_map .x2y .heatmaplayer").first
    strip.evaluate("node => node.scrollIntoView({ block: 'center' })")
    box = strip.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] * 6.5 / 8)
    expect(page.locator("#pg-logit_parts_map select")).to_have_value("6", timeout=SOON)
    expect(title(page, "tokens")).to_contain_text("MLP 6", timeout=SOON)
    page.evaluate("playground.pickHead(2, 3)")
    expect(title(page, "tokens")).to_contain_text("head 2.3", timeout=SOON)
    expect(page.locator("#pg-logit_parts_map select")).to_have_value("")


def test_another_target_and_its_gradients(open_page, lm):
    page = open_view(open_page, viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    watch_token(page, "logit_parts", "target", "cat")
    watch_token(page, "logit_parts", "distractor", " mat")
    expect(title(page, "map")).to_contain_text("logit(“·cat”) − logit(“·mat”)", timeout=SOON)
    run = lm.trace(COREFERENCE)
    pair = [lm.encode(text).ids[0] for text in (" cat", " mat")]
    parts = attribute(components(run), lm.model, *map(int, pair))
    total, logit, gap = facts(page)
    assert (total, logit) == pytest.approx((parts.total, parts.logit), abs=2e-4) and abs(gap) < 1e-4
    page.locator("#pg-logit_parts_job button").click()
    expect(title(page, "gradients")).to_contain_text("−", timeout=SOON)
    expect(page.locator("#pg-logit_parts_gradients")).to_contain_text("a gap of")
    page.locator("#pg-logit_parts_sources").get_by_role("button", name="Table").click()
    expect(page.locator("#pg-logit_parts_sources .pg-table tbody tr")).to_have_count(10)
