"""The heads tab as a visitor uses it: sort, filter and pick in the table, measure, and click in the figures."""

import math
import re
import zipfile

import numpy as np
import pytest

from model.attention.circuits import copying
from model.attention.surveys import random_survey
from model.tracing.head_metrics import HEAD_METRICS
from tests.support import visitor
from tests.support.visitor import SOON, expect, export, exported_rows, module, still

pytestmark = pytest.mark.browser

PROMPT = "The cat sat on the mat because it was tired"
KEYS = list(HEAD_METRICS)
ROWS = "#pg-heads_table tbody tr"
CHIPS = "#pg-selection .pg-selected"


@pytest.fixture
def page(same_page, lm):
    """A page with the heads tab open: the first prompt and head, and the table as it is at first."""
    page = same_page()
    if page.locator("#prompt textarea").input_value() != PROMPT:
        page.locator("#prompt textarea").fill(PROMPT)
    visitor.open_tab(page, "Heads")
    source = page.locator("#pg-heads_form [data-name=source] select")
    source.wait_for(timeout=SOON)
    if source.input_value() != "prompt":
        source.select_option("prompt")
    expect(page.locator("#pg-heads_table .pg-about")).to_contain_text("one run of 10 tokens", timeout=SOON)
    for kept in page.locator("#pg-heads_table .pg-table-bar select").all():
        kept.select_option("")
    if sorted_by(page, "head") != "ascending":
        header(page, "head").click()
    open_tab(page)
    layer, head = lm.trace(PROMPT).head_metrics()["previous_token"].idxmax()
    page.evaluate("head => playground.select({heads: [head], tokens: [], edits: []})", [int(layer), int(head)])
    expect(page.locator("#pg-heads_composition h2")).to_contain_text(f"head {layer}.{head}", timeout=SOON)
    return page


def open_tab(page, name="Heads", count=64):
    visitor.open_tab(page, name)
    expect(page.locator(ROWS)).to_have_count(count, timeout=SOON)
    page.locator("#pg-heads_composition [data-run]").wait_for(timeout=SOON)


def heads_shown(page):
    """The heads of the rows, from the top."""
    return page.locator(f"{ROWS} th").all_inner_texts()


def column(page, name):
    """The numbers of a column, from the top."""
    at = page.locator("#pg-heads_table thead th").all_inner_texts()
    at = next(i for i, text in enumerate(at) if " ".join(text.split()).startswith(name))
    cells = page.locator(f"{ROWS} td:nth-child({at + 1})").all_inner_texts()
    return [float(text.split("\n")[0].replace("−", "-")) for text in cells]


def header(page, name):
    return page.locator("#pg-heads_table thead").get_by_role("button", name=re.compile(f"^Sort by {name}"))


def sorted_by(page, name):
    return header(page, name).locator("..").get_attribute("aria-sort")


def choose(page, name, value):
    page.locator(f"#pg-heads_form [data-name={name}] select").select_option(value)


def measure(page):
    """Press the button, although there is a stored result, and wait for one of this computer."""
    said = page.locator("#pg-heads_survey .pg-job-text")
    expect(said).to_contain_text(re.compile("Stored result|Measured here"), timeout=SOON)
    if "Stored" in said.inner_text():
        page.get_by_role("button", name="Measure over the probe set").click()
    expect(said).to_contain_text("Measured here", timeout=SOON)
    expect(page.locator("#pg-heads_table thead th").last).to_contain_text("copying", timeout=SOON)


def of_probe(page, source="random"):
    choose(page, "source", source)
    expect(page.locator("#pg-heads_table .pg-about")).to_contain_text("Mean ± standard deviation", timeout=SOON)


# The table comes first: before anything was measured.


def test_a_click_on_a_column_sorts_without_asking_the_server(page):
    asked = []
    look = lambda request: request.url.endswith("/alive") or asked.append(request.url)  # noqa: E731
    page.on("request", look)
    page.wait_for_timeout(500)
    while asked:  # what the page fetches ahead of clicks comes first
        asked.clear()
        page.wait_for_timeout(1000)
    assert heads_shown(page)[:3] == ["0.0", "0.1", "0.2"] and sorted_by(page, "head") == "ascending"
    header(page, "previous token").click()
    down = column(page, "previous token")
    assert down == sorted(down, reverse=True) and down[0] > 0.5 and len(down) == 64
    assert sorted_by(page, "previous token") == "descending" and sorted_by(page, "head") == "none"
    header(page, "previous token").press("Enter")
    assert column(page, "previous token") == sorted(down)
    assert sorted_by(page, "previous token") == "ascending"
    expect(header(page, "previous token")).to_be_focused()
    header(page, "head").press("Space")
    assert heads_shown(page) == [f"{layer}.{head}" for layer in range(8) for head in range(8)]
    page.remove_listener("request", look)
    assert asked == []


def test_heads_without_a_number_stay_last(page):
    missing = page.locator(f"{ROWS} td:nth-last-child(2) span")  # induction, before copying
    expect(missing.first).to_have_text("–")
    assert "earlier copy" in missing.first.get_attribute("title")
    header(page, "induction").click()
    assert len(heads_shown(page)) == 64


def test_the_layer_filter(page):
    layers = page.locator("#pg-heads_table select[name=layer]")
    layers.select_option("3")
    assert heads_shown(page) == [f"3.{head}" for head in range(8)]
    expect(page.locator("#pg-heads_table .pg-table-bar")).to_contain_text("8 of 64 heads")
    header(page, "self").click()
    assert column(page, "self") == sorted(column(page, "self"), reverse=True) and len(heads_shown(page)) == 8
    layers.select_option("")
    assert len(heads_shown(page)) == 64
    assert column(page, "self") == sorted(column(page, "self"), reverse=True)


def test_a_click_on_a_row_picks_the_head_everywhere(page):
    page.locator(ROWS).nth(19).locator("td").first.click()
    expect(page.locator(CHIPS)).to_have_text(["head 2.3"])
    expect(page.locator("#pg-heads_composition h2")).to_contain_text("head 2.3", timeout=SOON)
    page.locator(ROWS).nth(40).click(modifiers=["Shift"])
    expect(page.locator(CHIPS)).to_have_count(2)
    pressed = page.locator(f"{ROWS}.pg-picked button[aria-pressed=true]")
    assert pressed.all_inner_texts() == ["2.3", "5.0"]
    expect(page.locator("#pg-heads_composition h2")).to_contain_text("head 5.0", timeout=SOON)
    rings = "() => document.querySelector('#pg-heads_scatter .pg-chart').data.at(-1).text.join()"
    page.wait_for_function(f"() => ({rings})() === '2.3,5.0'", timeout=SOON)
    visitor.open_tab(page, "Attention")
    expect(page.locator("#pg-map_plot h2")).to_contain_text("2.3, 5.0", timeout=SOON)


def test_the_keyboard_walks_the_rows(page):
    page.locator(f"{ROWS} button").first.click()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    focused = "() => document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(focused) == "Head 0.2"
    page.keyboard.press("Enter")
    expect(page.locator(CHIPS)).to_have_text(["head 0.2"])
    page.keyboard.press("End")
    assert page.evaluate(focused) == "Head 7.7"
    assert page.locator(f"{ROWS} button[tabindex='0']").count() == 1
    page.locator("#pg-heads_table select[name=layer]").select_option("4")
    assert page.locator(f"{ROWS} button[tabindex='0']").count() == 1


def test_the_files_hold_every_digit(page, lm):
    frame = lm.trace(PROMPT).head_metrics()
    names, *lines = exported_rows(page.locator("#pg-heads_table"))
    assert names == ["layer", "head", "names", *KEYS, "copying"] and len(lines) == 64
    assert [(int(line[0]), int(line[1])) for line in lines] == list(frame.index)
    values = np.array([[float(v) if v else math.nan for v in line[3:-1]] for line in lines])
    assert np.allclose(values, frame.to_numpy(), rtol=0, atol=1e-5, equal_nan=True)
    arrays = np.load(export(page.locator("#pg-heads_table"), "NPZ"))
    assert set(arrays) == {"layer", "head", "names", *KEYS, "copying", "title", "source"}
    for at, key in enumerate(KEYS):
        assert arrays[key].dtype == np.float32
        assert np.array_equal(arrays[key], values[:, at].astype(np.float32), equal_nan=True), key
    page.locator("#pg-heads_table").get_by_role("button", name="Python", exact=True).click()
    expect(page.locator("#pg-heads_table .pg-code")).to_contain_text("run.head_metrics()")


def test_one_token_is_explained(page):
    page.locator("#prompt textarea").fill("The")
    expect(page.locator("#pg-heads_scatter .pg-problem")).to_contain_text("A single token", timeout=SOON)
    expect(page.locator("#pg-heads_table .pg-about")).to_contain_text("single token")
    page.locator("#prompt textarea").fill(PROMPT)
    expect(page.locator("#pg-heads_scatter .pg-problem")).to_be_hidden(timeout=SOON)


def test_the_survey_that_is_measured(page, lm):
    measure(page)
    of_probe(page)
    found = random_survey(lm.model, pool=lm.tokenizer.vocab_size)
    expect(page.locator("#pg-heads_table .pg-about")).to_contain_text(f"{found.sequences} sequences", timeout=SOON)
    names, *lines = exported_rows(page.locator("#pg-heads_table"))
    assert names == [
        "layer",
        "head",
        "names",
        *[name for key in KEYS for name in (key, f"{key}_sd")],
        "copying",
        "copying_sd",
    ]
    sent = {name: [line[i] for line in lines] for i, name in enumerate(names)}
    for key in KEYS:
        near = 1e-5 * np.maximum(1, found.mean[key])  # float32: a first product and later ones differ by rounding
        assert (np.abs(np.array(sent[key], float) - found.mean[key]) < near).all(), key
        assert (np.abs(np.array(sent[f"{key}_sd"], float) - found.spread[key]) < near).all(), key
    assert np.allclose(np.array(sent["copying"], float), copying(lm.model).ravel(), rtol=0, atol=1e-4)
    assert set(sent["copying_sd"]) == {""}
    with zipfile.ZipFile(export(page.locator("#pg-heads_table"), "NPZ")) as file:
        assert {"names.npy", "induction_sd.npy", "copying.npy"} <= set(file.namelist())


def test_names_filter_and_sort(page):
    measure(page)
    of_probe(page)
    page.locator("#pg-heads_table select[name=name]").select_option("induction")
    chips = page.locator(f"{ROWS} .pg-names").all_inner_texts()
    assert len(chips) > 3 and all("induction" in text for text in chips)
    header(page, "induction").click()
    assert column(page, "induction")[0] > 0.8
    page.locator("#pg-heads_table select[name=name]").select_option("none")
    assert not any(page.locator(f"{ROWS} .pg-names").all_inner_texts())
    page.locator("#pg-heads_table select[name=name]").select_option("")
    header(page, "name").click()
    first, *_, last = page.locator(f"{ROWS} .pg-names").all_inner_texts()
    assert "induction" in first and last == ""
    choose(page, "source", "prompt")  # names stay, and the numbers are told apart
    expect(page.locator("#pg-heads_table .pg-about")).to_contain_text("On this prompt", timeout=SOON)
    expect(page.locator(f"{ROWS} .pg-name").first).to_contain_text("induction")
    assert page.locator(f"{ROWS} small").count() == 0


def test_a_click_on_a_point_picks_the_head_and_brings_its_row_into_view(page):
    measure(page)
    of_probe(page)
    header(page, "induction").click()
    lowest = heads_shown(page)[-1]
    choose(page, "colour", "label")
    chart = "#pg-heads_scatter .pg-chart"
    page.wait_for_function(f"() => document.querySelector('{chart}').data.length > 3", timeout=SOON)
    still(page, chart)
    x, y, head = page.evaluate(
        "async chart => { const { decoded } = await "
        + module("parts/figure/figure_numbers.js")
        + """; const node = document.querySelector(chart), { xaxis, yaxis } = node._fullLayout;
             const points = node.data.slice(0, -1).flatMap(t => t.customdata.map((c, i) => [t.x, t.y, i, c.head]));
             const value = (list, i) => (list.bdata ? decoded(list).data[i] : list[i]);
             const at = (axis, list, i) => axis.l2p(value(list, i)) + axis._offset;
             const all = points.map(([x, y, i, head]) => [at(xaxis, x, i), at(yaxis, y, i), head]);
             const apart = ([a, b], [c, d]) => Math.hypot(a - c, b - d);
             const lone = all.find(p => all.every(q => q === p || apart(p, q) > 24));
             const box = node.getBoundingClientRect();
             return [box.left + lone[0], box.top + lone[1], lone[2].join(".")]; }""",
        chart,
    )
    page.mouse.move(x, y)
    page.mouse.click(x, y)
    expect(page.locator(CHIPS)).to_contain_text([f"head {head}"])
    expect(page.locator(f"{ROWS}.pg-main button")).to_have_text(head)
    inside = """() => { const box = document.querySelector('.pg-head-box').getBoundingClientRect();
                        const row = document.querySelector('.pg-main').getBoundingClientRect();
                        return row.top >= box.top && row.bottom <= box.bottom + 1; }"""
    page.wait_for_function(inside)
    layer, number = lowest.split(".")
    page.evaluate("head => playground.select({ heads: [head] })", [int(layer), int(number)])
    page.wait_for_function(inside)


def test_a_click_on_a_map_picks_the_head_of_the_cell(page):
    chart = page.locator("#pg-heads_composition .pg-chart")
    chart.scroll_into_view_if_needed()
    still(page, "#pg-heads_composition .pg-chart")
    x, y = page.evaluate(
        """() => { const node = document.querySelector('#pg-heads_composition .pg-chart');
             const { xaxis2, yaxis2 } = node._fullLayout;
             const box = node.getBoundingClientRect();
             return [box.left + xaxis2._offset + xaxis2.l2p(5), box.top + yaxis2._offset + yaxis2.l2p(1)]; }"""
    )
    page.mouse.move(x, y)
    page.mouse.click(x, y)
    expect(page.locator(CHIPS)).to_have_text(["head 1.5"])
    expect(page.locator("#pg-heads_composition h2")).to_contain_text("head 1.5", timeout=SOON)
    shapes = "() => document.querySelector('#pg-heads_composition .pg-chart').layout.shapes.map(s => [s.x0, s.y0])"
    page.wait_for_function(f"() => JSON.stringify(({shapes})()) === '[[4.5,0.5],[4.5,0.5],[4.5,0.5]]'", timeout=SOON)


def test_on_a_phone_the_table_scrolls_and_the_maps_stand_below_one_another(open_page):
    page = open_page("?lang=zh", viewport={"width": 390, "height": 844})
    open_tab(page, "注意力头")
    box = page.evaluate(
        "(() => { const b = document.querySelector('.pg-head-box'); return [b.scrollWidth, b.clientWidth]; })()"
    )
    assert box[0] > box[1]  # the table scrolls inside its own box
    domains = page.evaluate(
        """() => { const { layout } = document.querySelector('#pg-heads_composition .pg-chart');
             return ['', '2', '3'].map(n => layout['xaxis' + n].domain); }"""
    )
    assert domains[0] == domains[1] == domains[2]
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function(
        "() => document.querySelector('#pg-heads_composition .pg-chart').layout.xaxis2.domain[0] > 0.3", timeout=SOON
    )
