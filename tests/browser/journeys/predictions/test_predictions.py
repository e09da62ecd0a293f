"""The first three views of the predictions tab as a visitor uses them: the text, a guess, a token followed."""

import re

import numpy as np
import pytest

from model.predictions.predictions import follow, predict, summarize
from tests.support.visitor import SOON, exported_rows, open_tab, still, watch_token
from viz.numbers import bits, number

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

CAT = "The cat sat on the mat because it was tired"
HOSTILE = "a <img src=x onerror=alert(1)> ${alert(2)} {token} \u202e </script> &lt; 👩‍🚀 \n\n end"
ROUNDING = 2e-5  # the app and the test may have chosen different float32 products
CONTRAST = """() => { const light = (c) => c.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  return [...document.querySelectorAll('#pg-surprise_text .pg-reading-token')].slice(1).map((node) => {
    const style = getComputedStyle(node), [a, b] = [light(style.color), light(style.backgroundColor)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }); }"""


def open_view(open_page, view, query="", name="Predictions", **context):
    page = open_page(query, **context)
    open_tab(page, name)
    page.locator("#pg-surprise_plot [data-run]").wait_for(timeout=SOON)
    if view != "surprise":
        page.locator(f"[data-key={view}]").click()
    return page


def heading(page, part):
    return page.locator(f"#pg-{part} h2")


def lines_of(page, part):
    """The lines of a figure's CSV, without the names of its columns."""
    return exported_rows(page.locator(f"#pg-{part}"))[1:]


def click_point(page, part, x, y):
    """Click where a figure has these coordinates."""
    still(page, f"#pg-{part} .pg-chart")
    box = page.evaluate(
        """([part, x, y]) => { const gd = document.querySelector(`#pg-${part} .pg-chart`), l = gd._fullLayout;
             gd.scrollIntoView({block: 'center'});
             const r = gd.getBoundingClientRect();
             return [r.left + l.xaxis._offset + l.xaxis.d2p(x), r.top + l.yaxis._offset + l.yaxis.d2p(y)]; }""",
        [part, x, y],
    )
    page.mouse.move(box[0] - 2, box[1])
    page.mouse.move(*box)
    page.locator(f"#pg-{part} .hoverlayer .hovertext").first.wait_for()
    page.mouse.click(*box)


def test_the_text_is_colored_by_what_was_predicted(open_page, lm):
    page = open_view(open_page, "surprise", "?__theme=dark")
    run = lm.trace(CAT)
    found, told = predict(run), summarize(predict(run), run.tokens)
    text = page.locator("#pg-surprise_text")
    for value in (number(told.perplexity), bits(told.bits_per_byte), f"{bits(told.bits)} bits", "9 of 10 tokens"):
        expect(text).to_contain_text(value)
    assert min(page.evaluate(CONTRAST)) >= 4.5
    tokens = text.locator(".pg-reading-token")
    dark = tokens.nth(5).get_attribute("style")
    page.evaluate("document.body.classList.remove('dark')")
    expect(tokens.nth(5)).not_to_have_attribute("style", dark)
    assert min(page.evaluate(CONTRAST)) >= 4.5
    tokens.nth(5).hover()
    expect(text).to_contain_text(f"“·mat” at position 5: {bits(found.surprisal[4])} bits")
    expect(text).to_contain_text(f"rank {found.rank[4]}")
    tokens.nth(1).click()
    expect(heading(page, "surprise_detail")).to_have_text("After “·cat” (position 1)", timeout=SOON)
    rows = page.locator("#pg-surprise_detail tbody tr")
    expect(rows).to_have_count(10 + int(found.rank[1] > 10))
    likely = [lm.tokenizer.piece(int(number)).replace(" ", "·") for number in found.ids[1]]
    assert page.locator("#pg-surprise_detail .pg-surprise-token").all_inner_texts()[:10] == likely
    expect(page.locator("#pg-surprise_detail .pg-surprise-marked")).to_contain_text("·satcomes next")
    expect(page.locator("#pg-surprise_detail")).to_contain_text(number(np.exp(found.entropy[1])))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(heading(page, "surprise_detail")).to_have_text("After “·sat” (position 2)", timeout=SOON)
    expect(page.locator("#pg-selection")).to_contain_text("·sat")
    lines = lines_of(page, "surprise_plot")
    assert [float(line[-1]) for line in lines] == pytest.approx(
        [*found.surprisal, *found.entropy[:-1] / np.log(2)], abs=10 * ROUNDING
    )
    click_point(page, "surprise_plot", 6, float(found.surprisal[5]) / 2)
    expect(heading(page, "surprise_detail")).to_have_text("After “·because” (position 6)", timeout=SOON)
    expect(tokens.nth(6)).to_have_attribute("aria-pressed", "true")
    color = tokens.nth(1).evaluate("node => node.style.backgroundColor")
    page.locator("#pg-surprise_form select").select_option("entropy")
    expect(text).to_contain_text("entropy before it", timeout=SOON)
    assert tokens.nth(1).evaluate("node => node.style.backgroundColor") != color
    page.locator("#prompt textarea").fill(HOSTILE)
    expect(text).to_contain_text("onerror", timeout=SOON)
    assert page.locator("[data-part] img, [data-part] script").count() == 0
    page.locator("#prompt textarea").fill("The")
    expect(page.locator("#pg-surprise_plot")).to_contain_text("nothing is scored", timeout=SOON)
    expect(text).to_contain_text("0 of 1 tokens")


def test_a_guess_is_made_before_the_answer_is_known(open_page, lm):
    page = open_view(open_page, "guess")
    run = lm.trace(CAT)
    found, board = predict(run), page.locator("#pg-guess_board")
    field, chips = board.locator("input[type=text]"), page.locator("#pg-tokens .pg-chips")
    expect(board).to_contain_text("token 1 of 9", timeout=SOON)
    expect(chips).to_be_hidden()
    expect(page.locator("#prompt textarea")).to_be_hidden()
    assert not re.search("cat|sat|mat|because|tired", board.inner_html())
    expect(board.get_by_role("button", name="Guess", exact=True)).to_be_disabled()
    field.fill("cat")  # the space in front need not be typed
    field.press("Enter")
    expect(board).to_contain_text(f"Correct: “·cat” comes next. The model gave it rank {found.rank[0]}", timeout=SOON)
    expect(board.get_by_role("button", name="Next", exact=True)).to_be_focused()
    expect(board).to_contain_text("1 of 1 right (100%)")
    page.keyboard.press("Enter")
    expect(field).to_be_focused(timeout=SOON)
    field.fill("unbelievable")
    field.press("Enter")
    expect(board).to_contain_text("“·sat” comes next", timeout=SOON)
    expect(board.locator(".pg-surprise-marked")).to_have_count(2)
    expect(board).to_contain_text("1 of 2 right (50%)")
    expect(board).to_contain_text(f"{found.surprisal[:2].mean():.2f} bits over these 2 tokens")
    assert not re.search("·on|·mat|tired", board.inner_text().split("The model's prediction")[0])
    page.keyboard.press("Enter")
    expect(board).to_contain_text("token 3 of 9", timeout=SOON)
    board.get_by_role("button", name="Show without guessing").click()
    expect(board).to_contain_text("Not counted", timeout=SOON)
    expect(board).to_contain_text("1 of 2 right (50%)")
    board.get_by_label("Hide the prompt above").uncheck()
    expect(chips).to_be_visible()
    board.get_by_label("Hide the prompt above").check()
    expect(chips).to_be_hidden()
    page.locator("[data-key=follow]").click()
    expect(chips).to_be_visible()  # released where nobody guesses
    page.locator("[data-key=guess]").click()
    expect(chips).to_be_hidden()
    open_tab(page, "Heads")
    expect(chips).to_be_visible()
    open_tab(page, "Predictions")
    board.get_by_role("button", name="Start over").click()
    expect(board).to_contain_text("No guesses yet.", timeout=SOON)
    board.get_by_label("Hide the prompt above").uncheck()
    page.locator("#prompt textarea").fill("The cat")
    expect(board).to_contain_text("token 1 of 1", timeout=SOON)
    field.fill("dog")
    field.press("Enter")
    expect(board).to_contain_text("That was the last token", timeout=SOON)
    page.locator("#prompt textarea").fill("The")
    expect(board).to_contain_text("no next token to guess", timeout=SOON)


def test_a_token_is_followed_on_a_phone_in_chinese(open_page, lm):
    page = open_view(open_page, "follow", "?lang=zh", "预测", viewport={"width": 390, "height": 844})
    run, form = lm.trace(CAT), page.locator("#pg-follow_form")
    plot = page.locator("#pg-follow_plot")
    likeliest = lm.tokenizer.piece(int(predict(run).ids[-1, 0])).replace(" ", "·")
    expect(heading(page, "follow_plot")).to_contain_text(f"“{likeliest}”", timeout=SOON)
    watch_token(page, "follow", "target", "·the")
    form.locator("[data-name=more] input").fill("catsat")
    expect(plot).to_contain_text("个词元", timeout=SOON)
    form.locator("[data-name=more] input").fill(" mat")
    expect(heading(page, "follow_plot")).to_contain_text("“·the”, “·mat”", timeout=SOON)
    the, mat = (follow(run, int(lm.encode(text).ids[0])) for text in (" the", " mat"))
    plot.locator(".js-plotly-plot").wait_for(timeout=SOON)
    lines = "_fullData.filter((line) => line.showlegend).map((line) => Array.from(line.y))"
    drawn = page.evaluate(f"document.querySelector('#pg-follow_plot .pg-chart').{lines}")
    assert np.array(drawn) == pytest.approx(np.array([the.probability, mat.probability]), abs=ROUNDING)
    click_point(page, "follow_plot", 3, float(the.probability[3]))
    expect(page.locator("#pg-selection")).to_contain_text("·on", timeout=SOON)
    form.locator("[data-name=measure] select").select_option("rank")
    expect(heading(page, "follow_plot")).to_contain_text("名次", timeout=SOON)
    page.wait_for_function("() => document.querySelector('#pg-follow_plot .pg-chart')._fullLayout.yaxis.type === 'log'")
    for view in ("follow", "surprise", "guess"):
        page.locator(f"[data-key={view}]").click()
        page.locator(f"#pg-{view}_{'board' if view == 'guess' else 'plot'} [data-run]").wait_for(timeout=SOON)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
