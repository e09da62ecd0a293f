"""The views of scaling laws and of tokenizers as a visitor uses them."""

import re

import pytest

from model.anatomy.scaling import planned
from model.text.bpe_steps import replay
from tests.support.visitor import SOON, expect, open_tab
from viz.numbers import count

pytestmark = pytest.mark.browser

HOSTILE = '<b onclick="x">unbelievable</b> é'


def open_view(page, name):
    open_tab(page, "Anatomy")
    page.get_by_role("tab", name=name, exact=True).click()


def test_a_budget_is_planned_and_own_runs_are_asked_for(open_page):
    page = open_page()
    open_view(page, "Scaling laws")
    table, form = page.locator("#pg-scaling_laws_plan table"), page.locator("#pg-scaling_laws_form")
    expect(table.locator("tbody tr")).to_have_count(6, timeout=SOON)
    expect(table).to_contain_text("72.2 B")
    form.locator("select").first.select_option("params")
    form.locator("input:visible").fill("8e9")
    plan = planned("besiroglu", "params", 8e9)
    expect(table.locator("tbody tr").last).to_contain_text(count(plan.tokens), timeout=SOON)
    expect(page.locator("#pg-scaling_laws_plan h2")).to_contain_text("8.00 B parameters")
    for name in ("loss", "plane", "price"):
        page.locator(f"#pg-scaling_laws_{name} .js-plotly-plot .scatterlayer").first.wait_for(timeout=SOON)
    expect(page.locator("#pg-scaling_laws_mine")).to_contain_text("no training runs yet", timeout=SOON)
    page.get_by_role("button", name="Refit").click()
    expect(page.get_by_role("button", name="Refit")).to_be_enabled()
    page.set_viewport_size({"width": 800, "height": 1000})  # sources are read as text: nothing is cut off on a tablet
    models = page.locator("#pg-scaling_laws_models .pg-lab-scroll")
    assert models.evaluate("(box) => box.scrollWidth <= box.clientWidth")
    source = models.locator("tbody tr").first.locator("td").last
    assert (
        source.bounding_box()["width"] < 400
        and source.evaluate("(cell) => getComputedStyle(cell).textAlign") == "start"
    )


def test_merges_are_walked_to_the_tokenizers_own_ids(open_page, lm):
    page = open_page()
    open_view(page, "Tokenizers")
    box = page.locator("#pg-tokenizers_merges [data-part]")
    expect(box).to_have_attribute("data-step", "0", timeout=SOON)
    page.locator("#pg-tokenizers_form textarea").fill(HOSTILE)
    pieces = replay(lm.tokenizer, HOSTILE)
    buttons = page.locator(".pg-merge-piece")
    expect(buttons).to_have_count(len(pieces), timeout=SOON)
    assert page.locator("#pg-tokenizers_chips b[onclick], .pg-merge-piece b, .pg-merge-part b").count() == 0
    at = max(range(len(pieces)), key=lambda n: (len(pieces[n].merges), -n))
    expect(buttons.nth(at)).to_have_attribute("aria-pressed", "true")
    slider, told, parts = (page.locator(each) for each in (".pg-merge-bar input", ".pg-merge-told", ".pg-merge-part"))
    expect(parts).to_have_count(len(pieces[at].raw))
    slider.press("ArrowRight")
    expect(box).to_have_attribute("data-step", "1")
    expect(parts).to_have_count(len(pieces[at].raw) - 1)
    expect(told).to_contain_text(f"rank {pieces[at].merges[1].rank}")
    slider.press("End")
    expect(parts).to_have_count(len(pieces[at].ids))
    assert parts.locator("small").all_text_contents() == [str(number) for number in pieces[at].ids]
    expect(told).to_contain_text(f"{len(pieces[at].merges)} merges")
    buttons.nth(at).press("ArrowRight")
    buttons.nth(at + 1).press("Enter")
    expect(box).to_have_attribute("data-piece", str(at + 1))
    assert not re.search(r"\{\w+\}", box.text_content())
