"""What people come for, in few clicks: each task is walked from the first page, and its clicks are counted."""

import re

import numpy as np
import pytest

from model.gpt.edits import Edit
from model.loading.sources import available
from tests.browser.conftest import FIRST
from tests.support.visitor import SOON, expect
from viz.page.examples import EXAMPLES
from viz.words import words

pytestmark = pytest.mark.browser
WORDS = words("en")


class Hand:
    """Clicks on a page, counted."""

    def __init__(self, page):
        self.page, self.clicks = page, 0

    def click(self, target) -> None:
        target.click()
        self.clicks += 1

    def example(self, key: str) -> None:
        """Choose one of the examples."""
        self.click(self.page.get_by_role("button", name=WORDS["examples.label"]))
        self.click(self.page.locator("#pg-examples .pg-example", has_text=WORDS[f"examples.{key}.name"]).first)
        text = EXAMPLES["tinygpt"][key]
        self.page.wait_for_function("text => playground.page.shown.prompt === text", arg=text, timeout=SOON)

    def show(self, key: str) -> None:
        """Have one of the examples shown where it is seen."""
        self.click(self.page.get_by_role("button", name=WORDS["examples.label"]))
        name = f"{WORDS['examples.show']}: {WORDS[f'examples.{key}.name']}"
        self.click(self.page.get_by_role("button", name=name, exact=True))
        text = EXAMPLES["tinygpt"][key]
        self.page.wait_for_function("text => playground.page.shown.prompt === text", arg=text, timeout=SOON)

    def place(self, name: str) -> None:
        """Open a group or a tab."""
        self.click(self.page.locator(".pg-nav").get_by_role("button", name=name))


def probability(page, token: str) -> float:
    """What the start gives a token, in percent; 0 where it is not among the bars."""
    bars = page.locator("#pg-start_next .pg-start-bar").evaluate_all(
        """all => all.map((bar) =>
            [bar.querySelector("code").textContent, parseFloat(bar.querySelector("b").textContent)])"""
    )
    return dict(bars).get(token, 0.0)


def edits_of(page) -> list[Edit]:
    return [Edit(**edit) for edit in page.evaluate("playground.state().edits")]


def switched_off(page, lm, prompt: str, token: str, before: float) -> float:
    """The share of a token once the page shows the run with its edits, compared with that run here."""
    edits = edits_of(page)
    logits = lm.trace(prompt).edit(*edits).logits_at(-1).astype(float)
    id = lm.encode(token).ids.tolist()[-1]
    order = np.sort(logits)[::-1]
    share = 100 * float(np.exp(logits[id] - logits.max()) / np.exp(logits - logits.max()).sum())
    share = share if logits[id] >= order[9] else 0.0  # ten bars
    page.locator("#pg-start_next [data-part]").wait_for(timeout=SOON)
    for _ in range(100):
        page.wait_for_timeout(100)
        if (now := probability(page, token.replace(" ", "·"))) == pytest.approx(share, abs=0.06):
            return now
    raise AssertionError(f"{now} % instead of {share} %, was {before}%")


def proof(hand: Hand, lm, example: str, token: str) -> list[Edit]:
    """From an example to the heads that write its next token, to all of them switched off, to what is expected then."""
    page = hand.page
    hand.example(example)
    page.wait_for_function("() => document.querySelectorAll('#pg-start_next .pg-start-bar').length > 5", timeout=SOON)
    before = probability(page, token.replace(" ", "·"))
    hand.click(page.locator("#pg-start_way").get_by_role("button", name="attention:"))
    off = page.get_by_role("button", name="Switch these").filter(visible=True).first
    expect(off).to_be_visible(timeout=SOON)
    hand.click(off)
    expect(page.locator("#pg-edited .pg-edit").first).to_be_visible(timeout=SOON)
    hand.place("Start")
    assert switched_off(page, lm, EXAMPLES["tinygpt"][example], token, before) < before / 2
    return edits_of(page)


def test_the_heads_that_move_a_name_and_the_proof(open_page, lm):
    hand = Hand(open_page("", ready=FIRST))
    found = proof(hand, lm, "name", " F")
    assert {edit.kind for edit in found} == {"zero"} and hand.clicks <= 5


def test_the_induction_heads_and_the_proof(open_page, lm):
    hand = Hand(open_page("", ready=FIRST))
    found = proof(hand, lm, "repeated", " behind")
    run = lm.trace(EXAMPLES["tinygpt"]["repeated"])
    after = lm.encode(EXAMPLES["tinygpt"]["repeated"]).ids.tolist().index(lm.encode(" behind").ids.tolist()[-1])
    weights = [float(run.pattern(edit.layer, edit.head)[-1][after]) for edit in found]
    assert weights[0] > 0.5 and sum(weight > 0.5 for weight in weights) >= len(weights) / 2
    assert hand.clicks <= 5


def change(page) -> tuple[float, float]:
    """The watched probability before and after the edits, in percent, as the line of edits shows it."""
    line = page.locator("#pg-edited .pg-change")
    expect(line).to_contain_text("→", timeout=SOON)
    before, after = re.findall(r"([\d.]+)%", line.inner_text())
    return float(before), float(after)


def test_the_heads_with_the_most_induction_and_the_proof_in_four_clicks(open_page, lm):
    hand = Hand(open_page("", ready=FIRST))
    hand.show("repeated")
    grid = hand.page.locator("#pg-overview_heads")
    hand.click(grid.get_by_role("button", name="Switch the first 4 off"))
    before, after = change(hand.page)
    edits = edits_of(hand.page)
    run, token = lm.trace(EXAMPLES["tinygpt"]["repeated"]), lm.encode(" behind").ids.tolist()[-1]
    strongest = run.head_metrics()["induction"].nlargest(4).index
    assert {(edit.layer, edit.head) for edit in edits} == set(strongest)
    for shown, each in ((before, run), (after, run.edit(*edits))):
        logits = each.logits_at(-1).astype(float)
        assert shown == pytest.approx(100 * np.exp(logits[token] - np.logaddexp.reduce(logits)), abs=0.06)
    assert after < before / 5 and hand.clicks <= 4
    expect(grid.locator(".pg-change")).to_have_text(hand.page.locator("#pg-edited .pg-change").inner_text())
    expect(grid.locator(".pg-ranked-before")).to_be_visible()
    expect(grid.locator(".pg-head.pg-off").filter(visible=True)).to_have_count(4)
    expect(grid.get_by_role("button", name=re.compile("^Head 7.7, .*switched off"))).to_be_visible()


@pytest.mark.skipif("smollm2-135m" not in available(), reason="needs SmolLM2")
def test_the_name_movers_of_smollm2_and_the_proof_in_six_clicks(open_page):
    hand = Hand(open_page("", ready=FIRST))
    page = hand.page
    hand.click(page.locator("#model input"))
    hand.click(page.get_by_role("option", name="SmolLM2"))
    expect(page.locator("#pg-header")).to_contain_text("SmolLM2", timeout=SOON)
    hand.click(page.get_by_role("button", name=WORDS["examples.label"]))
    name = f"{WORDS['examples.show']}: {WORDS['examples.indirect_object.name']}"
    hand.click(page.get_by_role("button", name=name, exact=True))
    off = page.locator("#pg-logit_parts_map").get_by_role("button", name="Switch these").first
    expect(off).to_be_visible(timeout=SOON)
    order = page.locator("#pg-logit_parts_map .pg-wrote-item").all_inner_texts()
    hand.click(off)
    before, after = change(page)
    beside = page.locator("#pg-logit_parts_map .pg-head-actions .pg-change").first
    expect(beside).to_have_text(page.locator("#pg-edited .pg-change").inner_text())
    assert before > 80 and after < before - 20 and hand.clicks <= 6
    expect(page.locator("#pg-logit_parts_map .pg-ranked-before")).to_be_visible()
    now = page.locator("#pg-logit_parts_map .pg-wrote-item").all_inner_texts()
    assert now == order and page.locator("#pg-logit_parts_map .pg-off-mark").filter(visible=True).count() >= 2


def test_the_norm_of_a_layer(open_page):
    hand = Hand(open_page("", ready=FIRST))
    hand.click(hand.page.get_by_role("button", name=WORDS["start.way.norms"].format(layer=3)))
    expect(hand.page.get_by_text("LayerNorm (layer 3 · before attention)").first).to_be_visible(timeout=SOON)
    assert hand.clicks == 1


def test_an_example_leads_to_where_it_is_seen(open_page):
    page = open_page("", ready=FIRST)
    hand = Hand(page)
    order = page.locator("#pg-overview_heads select").first
    hand.show("repeated")
    expect(page.get_by_role("button", name="Head 7.7", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(order.locator("option:checked")).to_have_text("induction, largest first")
    first = page.locator("#pg-overview_heads .pg-head").evaluate_all(
        "all => all.toSorted((a, b) => a.offsetTop - b.offsetTop || a.offsetLeft - b.offsetLeft)[0].dataset.index"
    )
    assert int(first) == 7 * 8 + 7  # the first place is that of head 7.7
    order.select_option(label="entropy, largest first")  # a link has it, too
    page.wait_for_function('() => decodeURIComponent(location.hash).includes(\'"order":"entropy"\')', timeout=SOON)
    hand.show("name")
    edited = WORDS["edits.next.title_edited"].split("}")[-1]
    expect(page.locator("#pg-edits_next h2")).to_contain_text(edited, timeout=SOON)
    assert {(edit.kind, edit.layer, edit.head) for edit in edits_of(page)} == {("zero", 7, n) for n in (0, 1, 3, 5)}
    hand.show("opening")
    expect(page.locator("#pg-temperature_map .js-plotly-plot")).to_be_visible(timeout=SOON)
    expect(page.locator("#pg-temperature_map")).to_contain_text("No step sets a temperature")
    assert edits_of(page) == []
    page.go_back()
    page.wait_for_function("() => playground.state().edits.length === 4", timeout=SOON)
