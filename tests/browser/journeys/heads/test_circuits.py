"""What a head's weights say, as a visitor sees it: a row, the map of all heads, directions, and another token."""

import numpy as np
import pytest

from model.token_tables.head_tables import ov_table
from model.token_tables.token_table import table_row
from tests.support.visitor import SOON, expect, open_view, still
from viz.labels import quoted

pytestmark = pytest.mark.browser

CHART = "[data-part=head_circuits_{}] .js-plotly-plot"
TOKENS = "[data-part=head_circuits_row] .pg-effect-token"


def top(lm, token: str) -> list[str]:
    """The tokens that head 1.4 raises most when it reads a token, as shown."""
    table = ov_table(lm.model, 1, 4, lm.tokenizer.vocab_size).centered()
    values = table_row(table, int(lm.encode(token).ids[0]))
    return [quoted(lm.tokenizer.piece(int(n))) for n in np.argsort(-values, kind="stable")[:10]]


def test_a_clicked_head_and_a_typed_token_give_their_row(open_page, lm):
    page = open_page()
    open_view(page, "Heads", "head_circuits")
    still(page, CHART.format("scores"))
    grid = page.locator(f"{CHART.format('scores')} .nsewdrag").bounding_box()
    page.mouse.click(grid["x"] + grid["width"] * 4.5 / 8, grid["y"] + grid["height"] * 1.5 / 8)
    title = page.locator("[data-part=head_circuits_row] h2")
    expect(title).to_contain_text("Head 1.4 reads", timeout=SOON)
    field = page.locator("[data-part=head_circuits_form] [data-name=token] input")
    field.fill(" dog")
    field.press("Enter")
    expect(title).to_contain_text("“·dog”", timeout=SOON)
    assert page.locator(TOKENS).all_inner_texts()[:10] == top(lm, " dog")
    row = page.locator("[data-part=head_circuits_row]")
    expect(row).to_contain_text("rank 8,")  # its own token is among the last of 8,192
    for part, text in (("scores", "Head 1.4: −0.99"), ("pairs", "Strongest pairs of head 1.4"), ("directions", "1.4")):
        expect(page.locator(f"[data-part=head_circuits_{part}]")).to_contain_text(text, timeout=SOON)
    assert page.locator("[data-part=head_circuits_directions] tbody tr").count() == 6
    expect(page.locator(CHART.format("values"))).to_be_visible()
