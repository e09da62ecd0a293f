"""Fine-tuning as a visitor does it: own examples, what is scored, a run to its end, its model in the picker."""

import json

import pytest

from tests.support.visitor import expect

pytestmark = pytest.mark.browser

SOON = 240_000  # milliseconds; a new process imports for some seconds, on a busy machine for longer
HOSTILE = "<img src=x onerror=alert(1)> \u202e {input}"


@pytest.fixture(scope="module")
def app_url(tiny_app):
    """An app whose first model is tiny."""
    return tiny_app


def test_own_examples_are_learned_and_the_model_joins_the_picker(open_page):
    page = open_page("#tab=assistant", ready="#pg-fine_tune_form [data-name=set]")
    form, lab = page.locator("#pg-fine_tune_form"), page.locator("#pg-fine_tune_lab")
    page.locator(".pg-more-button:visible").click()
    expect(page.locator("#pg-fine_tune_masked .pg-loss-masked").first).to_be_visible(timeout=SOON)
    form.locator("[data-name=set] select").select_option("own")
    lines = [{"instruction": "Say it.", "input": word, "output": word} for word in ("ho", "ha", "hi", HOSTILE)]
    form.locator("[data-name=examples] textarea").fill("\n".join(map(json.dumps, lines)))
    expect(page.locator("#pg-fine_tune_table tbody tr")).to_have_count(4, timeout=SOON)
    form.locator("[data-name=template] textarea").fill("Q: {instruction}[[ {input}]] A:")
    scored = page.locator("#pg-fine_tune_masked .pg-loss-scored")
    expect(scored.last).to_contain_text("<|endoftext|>", timeout=SOON)
    expect(page.locator("#pg-fine_tune_masked .pg-loss-text")).to_contain_text("Q:")
    form.locator("[data-name=steps] input").fill("3")
    form.locator("[data-name=batch] input").fill("2")
    page.wait_for_timeout(500)  # what was typed is sent after a pause
    lab.get_by_role("button", name="Start fine-tuning").click()
    expect(lab.locator(".pg-train-line strong").first).to_have_text("Done", timeout=SOON)
    expect(lab.locator(".pg-stored-note")).to_have_count(0)
    expect(lab.locator(".pg-glance-title").last).to_have_text("After 3 steps")
    lab.locator(".pg-more-fold > summary").click()
    expect(lab.locator(".pg-tune-answers tbody tr")).to_have_count(1)
    expect(lab.locator(".pg-tune-answers tbody th")).to_contain_text("Q: Say it.")
    expect(lab.locator(".pg-tune-moments .pg-loss-scored").first).to_be_visible()
    expect(lab.locator(".pg-tune-curves .main-svg").first).to_be_visible(timeout=SOON)
    expect(lab.get_by_role("link", name="Download the model")).to_be_visible()
    expect(lab.get_by_role("link", name="Download the adapter")).to_be_visible()
    expect(lab.get_by_role("button", name="Compare with the model before")).to_be_visible()
    lab.get_by_role("button", name="Open in the attention view").click()
    expect(page.locator("#pg-map_plot [data-run]").first).to_be_visible(timeout=SOON)
    expect(page.locator("[aria-current=page]")).to_have_text("Attention")
