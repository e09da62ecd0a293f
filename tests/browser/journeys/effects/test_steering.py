"""Steering as a visitor sees it: a token's vector, its file opened again, texts, and a probe's direction."""

import numpy as np
import pytest

from model.probes.examples import labeled
from model.probes.probe import probe
from model.steering.effects import steering_sweep
from model.steering.files import load_vectors
from model.steering.texts import steered_texts
from model.steering.vectors import scaled_vectors, token_vector
from tests.support.visitor import SOON, expect, open_tab, still
from viz.views.effects.steering.measure import WATCHED

pytestmark = pytest.mark.browser

GAIN = "[data-part=steering_gain] .js-plotly-plot"
LAST = """(selector) => [...document.querySelector(selector)._fullData.at(-1).y]"""
PROMPT = "The cat sat on the mat because it was tired"


def field(page, name):
    return page.locator(f"[data-part=steering_form] [data-name={name}]")


def test_a_vector_is_taken_from_a_token_saved_opened_and_written_with(open_page, lm, tmp_path):
    page = open_page()
    open_tab(page, "Effects")
    page.get_by_role("tab", name="Steering").click()
    still(page, GAIN)
    field(page, "source").locator("select").select_option(label="a token")
    expect(field(page, "pairs")).to_be_hidden()
    expect(field(page, "token").locator("input")).to_be_visible()
    use = page.locator("[data-part=steering_use]")
    expect(use).to_contain_text("Its length is", timeout=SOON)
    expect(page.locator("[data-part=steering_tokens]")).to_contain_text("happy", timeout=SOON)
    still(page, GAIN)
    run = lm.trace(PROMPT)
    token = int(lm.encode(" happy").ids[0])
    vectors = scaled_vectors(run, np.tile(token_vector(lm, token), (8, 1)), 0.5)
    watched = [int(lm.encode(f" {word}").ids[0]) for word in WATCHED.split()]
    found = steering_sweep(run, vectors, [4], [-2, -1, -0.5, 0, 0.5, 1, 2], watched, draws=1)
    assert page.evaluate(LAST, GAIN) == pytest.approx(found.share[0].tolist(), rel=1e-3)

    with page.expect_download() as saved:
        use.get_by_role("button", name="Save NPZ").click()
    path = tmp_path / "vector.npz"
    saved.value.save_as(path)
    assert np.allclose(load_vectors(path).vectors[4], vectors[4], atol=1e-5)
    field(page, "source").locator("select").select_option(label="a file")
    field(page, "file").locator("input[type=file]").set_input_files(path)
    expect(use).to_contain_text("Its length is", timeout=SOON)

    page.locator("[data-part=steering_write] button").click()
    texts = page.locator("[data-part=steering_texts] tbody tr")
    expect(texts).to_have_count(5, timeout=60_000)
    written = steered_texts(lm, run.tokens.ids.tolist(), vectors[4], 4, [2.0])[0].text
    expect(texts.last).to_contain_text(written.split("\n")[0].strip()[:30])
    table = page.locator("[data-part=steering_layers] .pg-lab-scroll")
    expect(table).to_be_visible()
    assert table.evaluate("(node) => node.scrollWidth <= node.clientWidth + 1")


def test_a_probes_direction_opens_in_steering(open_page, lm):
    page = open_page()
    open_tab(page, "Norms & activations")
    page.get_by_role("tab", name="Linear probe").click()
    use = page.locator("[data-part=probe_use]")
    expect(use).to_contain_text("held-out examples are right", timeout=SOON)
    still(page, "[data-part=probe_curve] .js-plotly-plot")
    expect(page.locator("[data-part=probe_curve]")).to_be_visible()
    expect(page.locator("[data-part=probe_examples] tbody tr")).to_have_count(12)
    use.get_by_role("button", name="Use as steering vector").click()
    expect(page.locator("[data-part=steering_use]")).to_contain_text("Its length is", timeout=60_000)
    still(page, GAIN)
    found = probe(lm, labeled(lm, "number"), sites=["resid_post"], draws=1)
    vector = found.directions[found.at("resid_post", 4), 0]
    length = np.linalg.norm(vector)
    expect(page.locator("[data-part=steering_use]")).to_contain_text(f"{length:.2f}")
    expect(field(page, "source").locator("select")).to_have_value("numbers")
