"""Side by side as a visitor uses it: four strategies write, a token is changed, a run is stopped and goes on."""

import json
import re

import pytest

from model.generation.text_statistics import written
from tests.support.visitor import SOON, expect, export, open_tab

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"
FOUR = ("greedy", "temperature", "top_k", "top_p")
START_AND_STOP = """() => new Promise((done) => {
    const find = (name) => document.querySelector(`#pg-side_by_side_texts [data-name=${name}]`);
    const look = () => {
        if (!find("stop")) return requestAnimationFrame(look);
        find("stop").click();
        done();
    };
    find("start_again").click();
    look();
})"""


def open_race(open_page, query="", **context):
    page = open_page(query, **context)
    open_tab(page, "Sampling")
    page.get_by_role("tab", name="Side by side").click()
    page.locator("#pg-side_by_side_texts [data-run]").wait_for(timeout=SOON)
    return page


def press(page, name):
    page.locator(f"#pg-side_by_side_texts [data-name={name}]").click()


def over(page, before=""):
    """Wait until a run after that one is over; its name."""
    part = page.locator("#pg-side_by_side_texts [data-part]")
    expect(part).to_have_attribute("data-over", re.compile(f"^(?!{before}$).+"), timeout=SOON)
    return part.get_attribute("data-over")


def rows(page):
    return page.locator(".pg-race-row")


def chips(row):
    return row.locator(".pg-reading-token")


def test_four_strategies_write_and_one_token_is_changed(open_page, lm):
    page = open_race(open_page)
    first = over(page)
    expect(rows(page)).to_have_count(4)
    texts = written(lm.generate(PROMPT, FOUR, 60, 0), 4)
    for at, text in enumerate(texts):
        expect(chips(rows(page).nth(at))).to_have_count(len(text.made))
    greedy, last = (texts[at] for at in (0, 3))
    fork = next(n for n, (a, b) in enumerate(zip(greedy.ids, last.ids, strict=False)) if a != b)
    row = rows(page).nth(3)
    expect(row.locator(".pg-race-parts")).to_have_attribute("data-index", str(fork))
    expect(row.locator(".pg-race-note")).to_contain_text(f"at token {fork + 1}: the same random number")
    made = last.made[fork]
    chip = chips(row).nth(fork)
    chip.hover()
    side = page.locator(".pg-race-side")
    expect(side).to_contain_text(f"token {fork + 1} of Top-p")
    expect(side).to_contain_text(f"{made.uniform:.4f}")
    expect(side.locator(".pg-race-choice")).to_have_count(8 if made.id in [t[0] for t in made.top] else 9)
    expect(side.locator(".pg-race-choice").first).to_be_disabled()
    place = chip.bounding_box()
    chip.focus()
    page.keyboard.press("Enter")
    expect(chip).to_have_attribute("aria-pressed", "true")
    assert chip.bounding_box() == pytest.approx(place, abs=1)  # nothing moved
    choice = next(n for n, (number, *_) in enumerate(made.top) if number != made.id)
    side.locator(".pg-race-choice").nth(choice).click()
    over(page, first)
    expect(rows(page)).to_have_count(5)
    branch = rows(page).nth(4)  # below its parent
    expect(branch.locator(".pg-race-before")).to_have_count(fork)
    expect(branch.locator(".pg-race-note")).to_contain_text(f"Branch of Top-p: token {fork + 1} is")
    expect(page.locator(".pg-race-toggle")).to_have_count(5)
    page.locator(".pg-race-toggle").last.click()
    expect(rows(page)).to_have_count(4)
    page.locator(".pg-race-toggle").last.click()
    expect(rows(page)).to_have_count(5)
    expect(page.locator(".pg-race-table tbody tr")).to_have_count(5)
    told = json.loads(export(page.locator(".pg-race-below > div"), "JSON").read_text(encoding="utf-8"))["texts"]
    assert [[token["id"] for token in text["tokens"]] for text in told[:4]] == [list(text.ids) for text in texts]
    assert told[4]["parent"] == 3 and told[4]["branch_at"] == fork + 1
    assert told[4]["tokens"][fork]["id"] == made.top[choice][0]
    branch.get_by_role("button", name="Delete").click()
    expect(rows(page)).to_have_count(4)


def test_stopping_and_going_on_and_another_prompt(open_page, lm):
    page = open_race(open_page, viewport={"width": 390, "height": 844})
    written_at_once = over(page)
    page.get_by_label("New tokens").fill("400")
    page.evaluate(START_AND_STOP)  # at once, perhaps before the server has begun
    first = over(page, written_at_once)
    count = chips(rows(page).first).count()
    expect(page.locator(".pg-race-line")).to_contain_text(f"stopped after {count} step")
    page.get_by_label("New tokens").fill("3")
    press(page, "go_on")
    over(page, first)
    texts = written(lm.generate(PROMPT, FOUR, count + 3, 0), 4)
    for at, text in enumerate(texts):
        expect(chips(rows(page).nth(at))).to_have_count(len(text.made))
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    key = page.locator("#pg-side_by_side_texts [data-part]").get_attribute("data-run")
    page.locator("#prompt textarea").fill("Once upon <b>a</b> time")
    expect(page.locator("#pg-side_by_side_texts [data-part]")).not_to_have_attribute("data-run", key, timeout=SOON)
    expect(page.locator(".pg-race-stale")).to_have_count(4)
    expect(page.locator("#pg-side_by_side_texts [data-name=go_on]")).to_be_disabled()
    press(page, "start_again")
    expect(page.locator(".pg-race-stale")).to_have_count(0, timeout=SOON)
    expect(page.locator(".pg-race-prompt").first).to_contain_text("a</b> time")


def test_a_written_text_becomes_the_prompt_with_its_beginning_marked(open_page, lm):
    page = open_race(open_page)
    over(page)
    row = rows(page).first
    text = next(iter(written(lm.generate(PROMPT, FOUR, 60, 0), 4)))
    row.get_by_role("button", name="Look inside").click()
    whole = PROMPT + lm.decode(text.ids)
    expect(page.locator("#prompt textarea")).to_have_value(whole)
    n, before = len(lm.encode(whole)), len(lm.encode(PROMPT))
    expect(page.locator("#pg-tokens .pg-chip")).to_have_count(n, timeout=SOON)
    expect(page.locator("#pg-tokens .pg-chip-written")).to_have_count(n - before)
    expect(page.locator("#pg-tokens .pg-chip-first")).to_have_attribute("data-index", str(before))
    open_tab(page, "Attention")
    expect(page.locator("#pg-map_plot [data-part]")).to_have_attribute("data-run", re.compile("."))
    page.wait_for_function(f"() => document.querySelector('#pg-map_plot .pg-chart')?._fullData?.[0].z.length === {n}")
    page.locator("#prompt textarea").fill(PROMPT)
    expect(page.locator("#pg-tokens .pg-chip-written")).to_have_count(0)
