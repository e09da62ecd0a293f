"""Beam search as a visitor uses it: the tree with its scores, what was pruned, the table, groups, a narrow page."""

import pytest

from model.api import load_model
from model.generation.search.beam_tree import beam_tree
from model.generation.search.exhaustive import most_probable
from model.generation.strategies import DecodingPlan, Strategy
from model.text.chat import ending
from tests.support.visitor import SOON, expect, exported_rows, open_tab

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"


def test_the_tree_of_a_search(open_page):
    page = open_page()
    open_tab(page, "Sampling")
    page.get_by_role("tab", name="Beam search", exact=True).click()
    tree, texts = page.locator("#pg-beam_tree_tree"), page.locator("#pg-beam_tree_texts")
    tree.locator("[data-run]").wait_for(timeout=SOON)  # by itself: it is quick on this model
    lm = load_model("tinygpt", offline=True)
    ids, size, end = lm.encode(PROMPT).ids.tolist(), lm.tokenizer.vocab_size, ending(lm.tokenizer)
    strategy = Strategy((), "beam", (("beams", 4), ("length_penalty", 1.0)))
    found = beam_tree(lm.model, ids, strategy, DecodingPlan(8, ending=end), size)
    winner = found.ids(found.results[0])

    # The winner is highlighted and in the title; its path is selected.
    nodes, told = tree.locator("button.pg-beam-node"), tree.locator(".pg-beam-told")
    expect(nodes).to_have_count(len(found.candidates))
    expect(tree.locator("button.pg-beam-winner")).to_have_count(1)
    expect(tree.locator("button.pg-beam-winner")).to_be_visible()
    expect(tree.locator("button.pg-picked")).to_have_count(len(winner))
    names, *lines = exported_rows(tree)
    rows = [dict(zip(names, line, strict=True)) for line in lines]
    assert [int(row["token id"]) for row in rows] == [each.id for each in found.candidates]
    assert [float(row["score"]) for row in rows] == pytest.approx([each.score for each in found.candidates], abs=1e-4)
    assert [row["state"] for row in rows] == [each.state for each in found.candidates]

    # What was pruned says when and why, under the pointer and along the arrow keys.
    at = next(n for n, each in enumerate(found.candidates) if each.reason == "below")
    nodes.nth(at).hover()
    expect(told).to_contain_text(f"Pruned at step {found.candidates[at].pruned}")
    expect(told).to_contain_text("only the best 4")
    nodes.first.focus()
    page.keyboard.press("ArrowDown")
    expect(nodes.nth(1)).to_be_focused()
    expect(told).to_contain_text(f"({found.candidates[1].id})")
    # A node's edge is as wide as its token is probable.
    widths = tree.locator(".pg-beam-edge").evaluate_all(
        "all => all.map((each) => parseFloat(each.getAttribute('stroke-width')))"
    )
    likely = max(range(len(widths)), key=widths.__getitem__)
    assert found.candidates[likely].log_probability == max(each.log_probability for each in found.candidates)

    # The table has every final text, greedy decoding and the most probable text.
    exact = most_probable(lm.model, ids, 8, size, end)
    expect(texts.locator("tbody tr")).to_have_count(len(found.results) + 2, timeout=SOON)
    expect(texts.locator("tbody tr").first).to_contain_text("winner")
    last = texts.locator("tbody tr").last
    expect(last).to_contain_text("most probable" if exact.exact else "best found")
    expect(last).to_be_visible()

    # A click selects the text up to a node, which can become the prompt.
    kept = next(n for n, each in enumerate(found.candidates) if each.step == 2 and each.state == "kept")
    nodes.nth(kept).click()
    expect(nodes.nth(kept)).to_have_attribute("aria-pressed", "true")
    expect(tree.locator("button.pg-picked")).to_have_count(2)
    expect(tree.locator(".pg-beam-said b")).to_be_visible()

    # Groups: each has its rows, and its penalties are named.
    page.locator("#pg-beam_tree_form [data-name=groups] select").select_option("2")
    expect(tree.locator(".pg-beam-group")).to_have_count(2, timeout=SOON)
    expect(tree.locator(".pg-beam-group").last).to_be_visible()
    page.locator("#pg-beam_tree_form [data-name=groups] select").select_option("3")
    expect(page.locator("#pg-beam_tree_job")).to_contain_text("divided evenly", timeout=SOON)
    page.locator("#pg-beam_tree_form [data-name=groups] select").select_option("1")
    expect(tree.locator(".pg-beam-group")).to_have_count(0, timeout=SOON)

    # Steps: the search runs after them, and those of the editor can be reached.
    page.locator("#pg-beam_tree_form [data-name=steps] select").select_option("mine")
    expect(tree).to_contain_text("after the steps: Temperature 0.8 → Top-k 40", timeout=SOON)
    expect(tree.get_by_role("button", name="Change my steps")).to_be_visible()
    page.locator("#pg-beam_tree_form [data-name=steps] select").select_option("none")
    expect(tree).not_to_contain_text("after the steps", timeout=SOON)

    page.set_viewport_size({"width": 390, "height": 844})
    expect(tree.locator("button.pg-beam-winner")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 1280, "height": 900})
    nodes.nth(kept).click()
    tree.get_by_role("button", name="Look inside").click()
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT + lm.decode(found.ids(kept)))


def test_hostile_tokens_are_text(open_page):
    page = open_page()
    open_tab(page, "Sampling")
    page.get_by_role("tab", name="Beam search", exact=True).click()
    page.locator("#pg-beam_tree_tree [data-run]").wait_for(timeout=SOON)
    page.locator("#prompt textarea").fill(
        '<img src=x onerror="window.hit=1"><img src=x onerror="window.hit=1"><img src=x'
    )
    expect(page.locator("#pg-beam_tree_tree .pg-beam-said")).to_contain_text("src", timeout=SOON)
    assert page.evaluate("window.hit") is None and page.locator("#pg-beam_tree_tree img").count() == 0
