"""Speculative decoding as a visitor uses it: run, look at single proposals, on a narrow page too."""

import re

import pytest

from model.api import load_model
from model.generation.requests import Draft, Request
from model.generation.speculative import speculate
from model.sampling.pipeline import Step
from tests.support.visitor import SOON, expect, exported_rows, open_tab

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"


def test_a_text_is_drafted(open_page):
    page = open_page()
    open_tab(page, "Sampling")
    page.get_by_role("tab", name="Speculative decoding", exact=True).click()
    job, text = page.locator("#pg-speculative_job"), page.locator("#pg-speculative_text")
    text.locator("[data-run]").wait_for(timeout=SOON)  # by itself: it is quick on this model
    tokens = page.locator("#pg-speculative_form [data-name=tokens] input")
    tokens.fill("16")
    expect(tokens).to_have_value("16")
    expect(text.locator("h2")).to_contain_text("16 tokens in", timeout=SOON)

    lm = load_model("tinygpt", offline=True)
    steps = (Step("temperature", (("temperature", 0.8),)), Step("top_k", (("k", 40),)), Step("top_p", (("p", 0.9),)))
    ending = frozenset() if lm.tokenizer.eos_id is None else frozenset({lm.tokenizer.eos_id})
    request = Request(lm.tokenizer.vocab_size, steps, 4, 16, 0, ending)
    ids = lm.encode(PROMPT).ids.tolist()
    rounds = list(speculate(lm.model, ids, Draft("layers", 7), request))
    names, *lines = exported_rows(text)
    rows = [dict(zip(names, line, strict=True)) for line in lines]
    kept = [int(row["token id"]) for row in rows if row["fate"] in ("accepted", "corrected", "bonus", "alone")]
    assert kept == [token for each in rounds for token in each.tokens]
    drafted = [one for each in rounds for one in each.proposals]
    shown = [row for row in rows if row["p"]]
    assert [float(row["p"]) for row in shown] == pytest.approx([one.p for one in drafted], rel=1e-3, abs=1e-6)
    assert [row["fate"] for row in shown] == [one.fate for one in drafted]

    # One proposal is explained where the pointer is, and the arrow keys walk on.
    chips, told = text.locator("button.pg-draft-token"), text.locator(".pg-draft-told")
    expect(chips).to_have_count(len(rows))
    at = next(n for n, row in enumerate(rows) if row["fate"] == "rejected")
    chips.nth(at).hover()
    expect(told).to_contain_text("rejected")
    expect(told).to_contain_text("≥")
    expect(told.locator(".pg-draft-tick")).to_be_visible()
    chips.first.focus()
    page.keyboard.press("ArrowRight")
    expect(chips.nth(1)).to_be_focused()
    expect(told).to_contain_text(f"({rows[1]['token id']})")
    page.locator("#pg-speculative_numbers [data-run]").wait_for(timeout=SOON)
    accepted = sum(one.fate == "accepted" for one in drafted)
    tested = sum(one.fate != "unread" for one in drafted)
    expect(page.locator("#pg-speculative_numbers tbody tr").first).to_contain_text(f"({accepted} / {tested})")
    for name in ("times", "calls", "sweep"):
        page.locator(f"#pg-speculative_{name} .main-svg").first.wait_for(timeout=SOON)
    # The text becomes the prompt.
    text.get_by_role("button", name="Look inside").click()
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT + lm.decode(kept))
    expect(page.locator("#pg-tokens .pg-chip-written").first).to_be_visible(timeout=SOON)

    # Without another loaded model with this vocabulary, as TinyMamba, there is nothing to run.
    choose = page.locator("#pg-speculative_form [data-name=draft] select")
    choose.select_option("model")
    if page.locator("#pg-speculative_form [data-name=model] option").first.get_attribute("value") == "":
        expect(job.get_by_role("button", name="Run")).to_be_disabled(timeout=SOON)
        expect(job).to_contain_text(re.compile("same bytes|No other model can draft"))
    choose.select_option("ngram")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(text.locator("h2")).to_contain_text("looking up the last", timeout=SOON)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 1280, "height": 900})
