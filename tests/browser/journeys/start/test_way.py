"""The moving picture of the start: it plays once, stops anywhere, and its lines are what the picked head reads."""

import numpy as np
import pytest

from tests.browser.conftest import FIRST
from tests.support.visitor import SOON, expect

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"
WAY = "#pg-start_way"
LAST = 10  # the answer: after the tokens, the embedding and eight layers
# Every 30 ms: when, and at which step the picture is.
RECORDER = """() => {
  window.seen = [];
  setInterval(() => {
    const slider = document.querySelector(".pg-way-player input");
    if (slider?.offsetParent) seen.push([performance.now(), +slider.value]);
  }, 30);
}"""
ENDED = f"() => +document.querySelector('.pg-way-player input')?.value === {LAST}"


def watched(open_page, **media):
    """A page that recorded its picture from the first moment; it is not used again."""
    page = open_page("", ready=FIRST)
    page.emulate_media(**media)
    page.add_init_script(f"({RECORDER})()")
    open_page.reload(page)
    page.locator(FIRST).wait_for(timeout=SOON)
    page.wait_for_function(ENDED, timeout=SOON)
    return page


def at(page) -> float:
    return float(page.locator(f"{WAY} .pg-way-player input").input_value())


def told(page):
    return page.locator(f"{WAY} .pg-way-step")


def test_it_plays_once_and_ends_at_the_answer_within_four_seconds(open_page, lm):
    page = watched(open_page, reduced_motion="no-preference")
    page.wait_for_timeout(600)
    seen = page.evaluate("seen")
    steps = [step for _, step in seen]
    moving = [when for when, step in seen if step < LAST]
    assert steps[0] < LAST / 2 and steps == sorted(steps) and len(set(steps)) > 5  # and it has not begun again
    assert moving[-1] - moving[0] < 4000
    answer = lm.decode([int(lm.trace(PROMPT).logits_at(-1).argmax())])
    expect(page.locator(f"{WAY} .pg-way-answer code")).to_have_text(answer)
    expect(told(page)).to_contain_text(f"next token: “{answer}”")
    assert page.locator(f"{WAY} .pg-way-answer").evaluate("(node) => getComputedStyle(node).opacity") == "1"
    page.close()


def test_with_reduced_motion_the_end_is_shown_at_once_and_it_can_be_scrubbed(open_page):
    page = watched(open_page, reduced_motion="reduce")
    page.wait_for_timeout(300)
    assert {step for _, step in page.evaluate("seen")} == {LAST}
    page.locator(f"{WAY} .pg-way-player input").press("Home")
    assert at(page) == 0
    expect(page.locator(f"{WAY} .pg-way-wire").first).to_be_hidden()
    page.close()


def test_it_is_scrubbed_by_keys_and_stops_anywhere(open_page):
    page = open_page("", ready=FIRST)
    page.wait_for_function(ENDED, timeout=SOON)
    slider, cells = page.locator(f"{WAY} .pg-way-player input"), page.locator(f"{WAY} .pg-way-mlp")
    pale = "(node) => +getComputedStyle(node).opacity < 0.5"
    slider.press("Home")
    assert at(page) == 0 and cells.first.evaluate(pale)
    for step, text in enumerate(("embedding of", "layer 0: heads", "layer 1: heads"), 1):
        slider.press("ArrowRight")
        assert at(page) == step
        expect(told(page)).to_contain_text(text)
        expect(slider).to_have_attribute("aria-valuetext", told(page).text_content())
    assert not cells.nth(1).evaluate(pale) and cells.nth(2).evaluate(pale)
    slider.press("ArrowLeft")
    assert at(page) == 2
    # Space plays on from there and stops; so does a click on the picture.
    slider.press(" ")
    page.wait_for_function("() => +document.querySelector('.pg-way-player input').value > 2.2", timeout=SOON)
    page.locator("body").press(" ")
    stopped = at(page)
    page.wait_for_timeout(300)
    assert at(page) == stopped and 2.2 < stopped < LAST
    play = page.locator(f"{WAY} .pg-way-play")
    expect(play).to_have_attribute("aria-label", "Play")
    slider.press("Home")
    play.click()
    expect(play).to_have_attribute("aria-label", "Pause")
    page.locator(f"{WAY} .pg-way-corner").click()
    expect(play).to_have_attribute("aria-label", "Play")
    assert at(page) < LAST
    slider.press("End")
    expect(play).to_have_attribute("aria-label", "Play again")


def test_lines_connect_the_tokens_with_the_head_that_reads_them(open_page, lm):
    page = open_page("", ready=FIRST)
    page.wait_for_function(ENDED, timeout=SOON)
    run = lm.trace(PROMPT)
    for layer, head in ((4, 1), (7, 0)):
        page.locator(f"{WAY} .pg-way-head").nth(8 * layer + head).click()
        expect(page.locator(f"{WAY} .pg-way-tokens")).to_contain_text(f"Head {layer}.{head}")
        weights = run.pattern(layer, head)[9]
        lines = page.locator(f"{WAY} .pg-way-wire")
        expect(lines).to_have_count(10)
        widths = lines.evaluate_all("all => all.map((line) => +line.getAttribute('stroke-width'))")
        assert widths == pytest.approx((0.75 + 9 * weights).tolist(), abs=0.06)
        strongest = int(np.argmax(weights))
        # The line begins at its token and ends in the row of the head.
        ends = lines.nth(strongest).evaluate(
            """(line) => {
              const frame = line.ownerSVGElement.getBoundingClientRect(), all = line.getTotalLength();
              return [0, all].map((length) => {
                const { x, y } = line.getPointAtLength(length);
                return [x + frame.x, y + frame.y];
              });
            }"""
        )
        token = page.locator(f"{WAY} .pg-way-token").nth(strongest).bounding_box()
        cell = page.locator(f'{WAY} .pg-way-head[aria-pressed="true"]').bounding_box()
        expect(lines.nth(strongest)).to_be_visible()
        assert ends[0] == pytest.approx([token["x"] + token["width"], token["y"] + token["height"] / 2], abs=1.5)
        assert cell["y"] < ends[1][1] < cell["y"] + cell["height"] and ends[1][0] < cell["x"]


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080)])
def test_the_first_screen_is_used_and_the_figure_is_near(open_page, width, height):
    page = open_page("", ready=FIRST, viewport={"width": width, "height": height})
    page.wait_for_function(ENDED, timeout=SOON)
    picture = page.locator(f"{WAY} .pg-way").bounding_box()
    assert picture["y"] < 400 and 0.8 * height < picture["y"] + picture["height"] < height
    chart = page.locator("#pg-start_curve .js-plotly-plot .scatterlayer")
    chart.wait_for(timeout=SOON)
    page.wait_for_function("() => !document.querySelector('#pg-start_curve [data-part]').matches('.pg-failed')")
    box = chart.bounding_box()
    assert box["height"] > 100 and box["y"] + box["height"] < 2 * height


@pytest.mark.parametrize("width", [390, 1280])
def test_no_percentage_stands_on_a_bar(open_page, width):
    page = open_page("", ready=FIRST, viewport={"width": width, "height": 844})
    page.wait_for_function(ENDED, timeout=SOON)
    rows = page.locator(f"{WAY} :is(.pg-way-token, .pg-way-guess)").evaluate_all(
        """rows => rows.map((row) =>
            [row.querySelector("i").getBoundingClientRect().right, row.lastChild.getBoundingClientRect().left])"""
    )
    assert len(rows) == 20 and all(bar <= number + 0.5 for bar, number in rows)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
