"""The distribution as a visitor uses it: steps are moved and the numbers follow, without another run of the model."""

import numpy as np
import pytest
import torch

from model.sampling.pipeline import Context, Step
from model.sampling.warps import shape
from tests.support.visitor import SOON, expect, exported_rows, open_tab
from viz.views.sampling.pipelines import GROUPS, USES, value_of
from viz.words import words

pytestmark = pytest.mark.browser

WORDS = words("en")
COREFERENCE = "The cat sat on the mat because it was tired"
DRAWN = "p => Math.abs(document.querySelector('#pg-distribution_bars .pg-chart').data[2].x[0] - p) < 1e-4"
HOSTILE = "<img src=x onerror=alert(1)> <b>bold</b> \u202e {value} <script>alert(3)</script> &lt;"


def open_view(open_page, query="", name="Sampling", **context):
    page = open_page(query, **context)
    page.wait_for_timeout(300)  # the tabs find their places
    open_tab(page, name)
    page.locator("#pg-distribution_bars [data-run]").wait_for(timeout=SOON)
    page.locator("#pg-distribution_table [data-run]").wait_for(timeout=SOON)
    return page


def part(page, name):
    return page.locator(f"#pg-{name} [data-part]")


def changed(page, name, run):
    """Wait until a part shows something else than `run`; what it shows then."""
    expect(part(page, name)).not_to_have_attribute("data-run", run, timeout=SOON)
    return part(page, name).get_attribute("data-run")


def runs(page):
    return {
        name: part(page, name).get_attribute("data-run")
        for name in ("distribution_bars", "distribution_facts", "distribution_table")
    }


def bars(page):
    """Probabilities after the pipeline, as drawn."""
    return page.evaluate("document.querySelector('#pg-distribution_bars .pg-chart').data[2].x")


def table(page):
    """The CSV of the whole vocabulary."""
    return exported_rows(page.locator("#pg-distribution_table"))


def shaped_at(lm, at, steps):
    run = lm.trace(COREFERENCE)
    context = Context(tuple(run.tokens.ids[: at + 1].tolist()), at + 1)
    return shape(torch.from_numpy(run.logits_at(at)), steps, context)


def step(warp, name, value):
    return Step(warp, ((name, value),))


def test_steps_move_the_numbers_and_the_table_holds_every_token(open_page, lm):
    page = open_view(open_page)
    at, status = 8, page.locator(".pg-status").inner_text()
    before = runs(page)
    page.locator(".pg-chip").nth(at).click()
    for name, run in before.items():
        changed(page, name, run)
    expect(part(page, "distribution_facts")).to_contain_text("step 2 · Top-k 40 removes it")
    # A slider moves, and what is drawn are the numbers of the model code.
    now, drawn = runs(page), bars(page)
    slider = page.get_by_role("slider", name="Temperature")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    T = float(slider.get_attribute("aria-valuetext"))
    assert abs(T - 0.83) < 1e-9
    p = shaped_at(lm, at, (step("temperature", "temperature", T), step("top_k", "k", 40), step("top_p", "p", 0.9)))
    expected = np.sort(p.probabilities())[::-1]
    page.wait_for_function(DRAWN, arg=float(expected[0]))  # steps on the way may be drawn as well
    assert bars(page) != drawn and bars(page) == pytest.approx(expected[: len(bars(page))], abs=1e-4)
    assert slider.evaluate("(slider) => slider === document.activeElement")
    # Steps are reordered, and the focus stays on the one that moved.
    now = runs(page)
    page.get_by_role("button", name="Move Top-p (nucleus) up").press("Enter")
    expect(page.locator(".pg-pipe-step")).to_have_count(3)
    assert page.locator(".pg-pipe-step").nth(1).get_attribute("data-warp") == "top_p"
    expect(page.get_by_role("button", name="Move Top-p (nucleus) up")).to_be_focused()
    changed(page, "distribution_table", now["distribution_table"])
    # The table is searched, sorted and paged.
    now = changed(page, "distribution_facts", now["distribution_facts"]) and runs(page)["distribution_table"]
    page.get_by_label("Search tokens").fill("·th")
    now = changed(page, "distribution_table", now)
    shown = page.locator(".pg-shape-rows tbody th").all_inner_texts()
    assert len(shown) > 20 and all("·th" in text.lower() for text in shown)
    page.get_by_label("Search tokens").fill("")
    now = changed(page, "distribution_table", now)
    page.get_by_role("button", name="Next page").click()
    now = changed(page, "distribution_table", now)
    assert page.locator(".pg-shape-rows tbody td").first.inner_text() == "51"
    page.get_by_role("button", name="Id", exact=True).click()
    changed(page, "distribution_table", now)
    expect(page.locator(".pg-shape-rows th[aria-sort=ascending]")).to_have_attribute("data-key", "id")
    expect(page.locator(".pg-shape-rows tbody tr").first.locator("td").nth(1)).to_have_text("0")
    # All of it as a file.
    names, *lines = table(page)
    steps = (step("temperature", "temperature", T), step("top_p", "p", 0.9), step("top_k", "k", 40))
    p = shaped_at(lm, at, steps).probabilities()
    assert len(lines) == len(p) == lm.tokenizer.vocab_size and names[-1] == "p after"
    assert [float(line[-1]) for line in lines] == pytest.approx(p[[int(line[2]) for line in lines]], abs=1e-4)
    assert page.locator(".pg-status").inner_text() == status  # the run is the one of the beginning
    # Every temperature, with the same steps.
    page.locator(".pg-view[data-key=temperature]").click()
    page.locator("#pg-temperature_map [data-run]").wait_for(timeout=SOON)
    expect(page.locator("#pg-temperature_map")).to_contain_text(f"Step 1 · Temperature {T:g}")
    assert page.locator(".pg-pipe-step").nth(1).get_attribute("data-warp") == "top_p"


def test_hostile_tokens_stay_text_and_a_phone_has_room_for_every_step(open_page):
    page = open_view(open_page, "?lang=zh&__theme=dark", "采样", viewport={"width": 390, "height": 844})
    now = runs(page)
    page.locator("#prompt textarea").fill(HOSTILE)
    now = {name: changed(page, name, run) for name, run in now.items()}
    page.locator(".pg-chip").first.click()
    changed(page, "distribution_table", now["distribution_table"])
    expect(part(page, "distribution_facts")).to_contain_text("提示词的下一个词元是")
    add = page.get_by_label("添加步骤")
    for key in ("logit_bias", "mirostat", "repetition_penalty", "typical"):
        add.select_option(key)
    now = runs(page)
    page.locator(".pg-pipe textarea").fill("<: 5\nno number")
    problem = page.locator("#pg-distribution_facts .pg-problem")
    expect(problem).to_be_visible(timeout=SOON)
    page.locator(".pg-pipe textarea").fill("<: 90")
    expect(problem).to_be_hidden(timeout=SOON)
    changed(page, "distribution_bars", now["distribution_bars"])
    page.get_by_label("搜索词元").fill("<")
    expect(page.locator(".pg-shape-rows tbody th").filter(has_text="<").first).to_be_visible(timeout=SOON)
    assert page.locator("[data-part] img, [data-part] script, .pg-shape-rows b").count() == 0
    assert "\u202e" not in page.locator("[data-part=distribution_table]").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = page.locator(".pg-pipe-step").evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().right)")
    assert len(boxes) == 7 and max(boxes) <= 390


def test_settings_by_use_are_tried_at_a_click(open_page, lm):
    page = open_view(open_page)
    box = page.locator(".pg-pipe-uses:not(.pg-pipe-other)")
    box.locator("summary").click()
    expect(box.locator("tbody tr")).to_have_count(len(USES))
    run = lm.trace(COREFERENCE)
    last = len(run.tokens) - 1
    before = part(page, "distribution_bars").get_attribute("data-run")
    for name in ("story", "summary", "answer"):
        row = box.locator("tbody tr", has_text=WORDS[f"pipeline.use_{name}"])
        row.get_by_role("button").click()
        before = changed(page, "distribution_bars", before)
        # The steps of the form are those of the row, and the bars are their probabilities.
        assert page.evaluate("playground.state().values.pipeline.steps") == value_of(USES[name])
        expect(page.locator(".pg-pipe-step")).to_have_count(len(USES[name]))
        expected = np.sort(shaped_at(lm, last, USES[name]).probabilities())[::-1]
        assert bars(page) == pytest.approx(expected[: len(bars(page))], abs=1e-4), name
        assert box.get_attribute("open") is not None  # the next one is a click away


def test_steps_against_repetition_tell_what_they_did(open_page):
    page = open_view(open_page)
    page.locator("#prompt textarea").fill("One cat, one dog and one cat, one dog and")
    page.get_by_label(WORDS["pipeline.presets"]).select_option("plain")
    before = changed(page, "distribution_bars", part(page, "distribution_bars").get_attribute("data-run"))
    add = page.get_by_label("Add a step")
    assert len(add.locator("optgroup").all()) == len(GROUPS)
    add.select_option("dry")
    step = page.locator(".pg-pipe-step")
    expect(step.locator("summary code")).to_have_text('↵ : " *')  # the breakers, folded
    expect(step.locator("textarea")).to_be_hidden()
    effects = page.locator("#pg-distribution_effects")
    expect(effects).to_contain_text("repeated tokens", timeout=SOON)
    expect(effects.locator("tbody tr").first).to_be_visible()
    step.locator("summary").click()
    step.locator("textarea").fill("·and")  # a breaker at the end of the text: nothing repeats
    expect(effects).to_contain_text("It changed no token here.", timeout=SOON)
    expect(effects.locator("tbody tr")).to_have_count(0)
    # A step by chance: both outcomes can be seen.
    form = page.locator("#pg-distribution_form")
    expect(form).not_to_contain_text("Steps by chance")
    add.select_option("xtc")
    page.get_by_role("spinbutton", name="XTC: Threshold").fill("0.01")
    expect(part(page, "distribution_facts")).to_contain_text("seed 0: acts (u = 0.410)", timeout=SOON)
    expect(effects).to_contain_text("removed", timeout=SOON)
    form.get_by_label("Steps by chance").select_option("rests")
    expect(effects).not_to_contain_text("removed", timeout=SOON)
    # The link holds the words.
    sent = page.evaluate("playground.state().values.pipeline.steps")
    assert [each["warp"] for each in sent] == ["dry", "xtc"] and sent[0]["text"] == "·and"
    assert before
