"""A model built up part by part, as a visitor sees it: the loss of every rung, what each writes, another prompt."""

import numpy as np
import pytest

from model.predictions.floors import ladder_losses, parts_of
from tests.support.visitor import SOON, expect, open_view
from viz.numbers import nats

pytestmark = pytest.mark.browser
ROWS = "#pg-floors_texts tbody tr"


def open_floors(page, tab="Effects"):
    open_view(page, tab, "floors")
    page.locator("#pg-floors_ladder .main-svg").first.wait_for(timeout=SOON)


def test_every_rung_has_its_loss_and_the_last_one_is_the_model(open_page, lm):
    page = open_page()
    open_floors(page)
    rows, parts = page.locator(ROWS), parts_of(lm.config)
    expect(rows).to_have_count(len(parts), timeout=SOON)
    assert page.locator("#pg-floors_ladder .js-plotly-plot").bounding_box()["y"] < 500  # on the first screen
    expect(page.locator("#pg-floors_facts")).to_contain_text("a bigram model")
    # On a prompt of one's own: the first row from the embedding alone, the last one the loss of the whole model.
    prompt = "Once upon a time there was a little girl"
    page.locator("#prompt textarea").fill(prompt)
    page.locator("#pg-floors_form select").nth(1).select_option("prompt")
    run = lm.trace(prompt)
    ids = run.tokens.ids
    logits = run.logits.astype(np.float64)
    loss = np.mean([np.log(np.exp(row).sum()) - row[at] for row, at in zip(logits[:-1], ids[1:], strict=True)])
    cell = "td:nth-child(2)"
    expect(rows.last.locator(cell)).to_have_text(nats(loss), timeout=SOON)
    expect(rows.last.locator(cell)).to_be_visible()
    means = ladder_losses(lm.model, ids.tolist(), "mean")
    expect(rows.first.locator(cell)).to_have_text(nats(means[0]))
    # Zeros instead of means change the rungs below, and leave the whole model.
    page.locator("#pg-floors_form select").nth(0).select_option("zero")
    zeros = ladder_losses(lm.model, ids.tolist(), "zero")
    expect(rows.first.locator(cell)).to_have_text(nats(zeros[0]), timeout=SOON)
    expect(rows.last.locator(cell)).to_have_text(nats(loss))
    # One token has nothing to predict: the page says so, and what to do.
    page.locator("#prompt textarea").fill("The")
    ladder = page.locator("#pg-floors_ladder")
    expect(ladder).to_contain_text("One token has no next token to predict.", timeout=SOON)
    expect(ladder).to_contain_text("Type a longer prompt")


def test_on_a_phone_in_chinese(open_page):
    page = open_page("?lang=zh&__theme=dark", viewport={"width": 390, "height": 844})
    open_floors(page, "作用")
    expect(page.locator("#pg-floors_facts")).to_contain_text("只看当前词元", timeout=SOON)
    expect(page.locator(ROWS).last).to_contain_text("MLP 7")
    expect(page.locator("#pg-floors_ladder h2")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
