"""Journeys through the lines and the running text, with the small model that comes with the project."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from tests.browser.conftest import READY
from tests.support.models.helpers import tokens_of
from tests.support.visitor import SOON, export, exported_rows
from viz.views.attention.links import links_payload
from viz.words import section, words

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.browser

# The app and the test may have chosen different float32 products.
ROUNDING = 2e-5
SHOWN = 6e-4  # three digits, rounded, and ROUNDING
PROMPT = "The cat sat on the mat because it was tired"
HOSTILE = "<img src=x onerror=alert(1)> <b>bold</b> {{v}} \u202e &lt;\nnew line"
LAYER, HEAD = 4, 1
PHONE = {"viewport": {"width": 390, "height": 844}}
AS_AT_FIRST = """() => {
  const [slider, box] = document.querySelectorAll("#pg-lines_links input");
  slider.value = 70;
  slider.dispatchEvent(new Event("input", {bubbles: true}));
  if (box.checked) box.click();
  const firsts = "#pg-text_reading .pg-links-set button:first-child";
  for (const first of document.querySelectorAll(firsts)) first.click(); }"""


@pytest.fixture
def opened(same_page, lm):
    """A page with some heads picked, the lines or the text chosen, and the settings of both as they are at first."""

    def at(view="lines", heads=((LAYER, HEAD),), prompt=PROMPT, query="", **context):
        page = same_page(query, ready=READY, **context)
        if "lang=zh" in query:  # the first drawing in another language brings its own heads
            expect(page.locator("#pg-selection")).to_contain_text("头")
        tokens = len(lm.encode(prompt))
        if page.locator("#prompt textarea").input_value() != prompt:
            page.locator("#prompt textarea").fill(prompt)
        page.evaluate("document.querySelector('#hostile')?.remove()")
        page.wait_for_function("n => playground.page.tokens?.length === n", arg=tokens)
        page.evaluate("heads => playground.select({heads, tokens: [], edits: []})", [list(head) for head in heads])
        page.locator(f"[data-key={view}]").click()
        name = {"lines": "lines_links", "text": "text_reading"}[view]
        run = ", ".join(f"{layer}.{head}" for layer, head in heads)
        drawing = page.locator(f"#pg-{name} [data-part={name}]")
        expect(drawing).to_have_attribute("data-run", re.compile(rf"^\w+ {re.escape(run)}$"), timeout=SOON)
        kind = ".pg-lines-left .pg-lines-token" if view == "lines" else ".pg-reading-token"
        expect(page.locator(kind)).to_have_count(tokens)
        page.evaluate(AS_AT_FIRST)
        return page

    return at


def left(page, at):
    return page.locator(f".pg-lines-token[data-side=left][data-at='{at}']")


def right(page, at):
    return page.locator(f".pg-lines-token[data-side=right][data-at='{at}']")


def numbers(page) -> dict[tuple[str, int], float]:
    """The numbers beside the partners: (head, position) -> value."""
    found = page.locator(".pg-lines-number").evaluate_all(
        "nodes => nodes.map(n => [n.dataset.head, +n.dataset.position, +n.textContent])"
    )
    return {(head, position): value for head, position, value in found}


def drawn(page) -> int:
    """How many curves the canvas shows; it is painted in the next frame."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return int(page.locator(".pg-lines-middle canvas").get_attribute("data-curves"))


def slide(page, value):
    page.locator("#pg-lines_links input[type=range]").evaluate(
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input', {bubbles: true})); }", value
    )


def strongest(row: np.ndarray, share: float) -> list[int]:
    """Positions of the largest weights that together reach a share of the row."""
    order = np.argsort(-row, kind="stable")
    n = int(np.searchsorted(np.cumsum(row[order], dtype=float), share * row.sum(dtype=float))) + 1
    return order[:n].tolist()


def test_pointing_at_a_token_leaves_its_links_with_their_weights(opened, lm):
    page = opened()
    pattern = lm.trace(PROMPT).pattern(LAYER, HEAD)
    expected = [strongest(pattern[i, : i + 1], 0.7) for i in range(10)]
    assert drawn(page) == sum(map(len, expected))
    left(page, 7).hover()
    assert drawn(page) == len(expected[7])
    found = numbers(page)
    assert {at for _, at in found} == set(expected[7])
    for (head, at), value in found.items():
        assert head == f"{LAYER}.{HEAD}"
        assert value == pytest.approx(pattern[7, at], abs=SHOWN)
    expect(page.locator("#pg-lines_links .pg-links-readout")).to_contain_text("·it (7)reads")
    right(page, 7).hover()
    readers = {i for i in range(7, 10) if 7 in expected[i]}
    assert readers
    assert {at for _, at in numbers(page)} == readers
    assert all(value == pytest.approx(pattern[at, 7], abs=SHOWN) for (_, at), value in numbers(page).items())
    page.mouse.move(5, 5)
    assert numbers(page) == {}
    assert drawn(page) == sum(map(len, expected))


def test_the_slider_and_the_box_decide_how_many_links_are_drawn(opened, lm):
    page = opened()
    pattern = lm.trace(PROMPT).pattern(LAYER, HEAD)
    counts = []
    for share in (10, 50, 95):
        slide(page, share)
        counts.append(drawn(page))
        assert counts[-1] == sum(len(strongest(pattern[i, : i + 1], share / 100)) for i in range(10))
    assert counts == sorted(set(counts))
    slide(page, 100)
    assert drawn(page) == 55
    expect(page.locator(".pg-links-count")).to_have_text("55 edges at this setting")
    page.get_by_label("Hide the first token").check()
    assert drawn(page) == 45  # one less a row
    slide(page, 60)
    rest = [strongest(pattern[i, 1 : i + 1], 0.6) for i in range(1, 10)]
    assert drawn(page) == sum(map(len, rest))
    left(page, 9).hover()
    assert {at for _, at in numbers(page)} == {at + 1 for at in rest[8]}


def test_a_click_pins_several_add_up_and_escape_clears(opened, lm):
    page = opened()
    pattern = lm.trace(PROMPT).pattern(LAYER, HEAD)
    slide(page, 100)
    left(page, 6).click()
    page.mouse.move(5, 5)
    expect(left(page, 6)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#pg-selection")).to_contain_text("·because (6)")
    assert drawn(page) == 7
    left(page, 8).click(modifiers=["Shift"])
    page.mouse.move(5, 5)
    expect(page.locator("#pg-lines_links .pg-links-readout")).to_contain_text("sum of 2 tokens")
    found = numbers(page)
    assert len(found) == 9
    assert all(value == pytest.approx(pattern[[6, 8], at].sum(), abs=SHOWN) for (_, at), value in found.items())
    page.keyboard.press("Escape")
    assert numbers(page) == {}
    expect(page.locator(".pg-lines-token[aria-pressed=true]")).to_have_count(0)
    assert drawn(page) == 55


def test_heads_have_hues_and_can_be_hidden_or_seen_alone(opened, lm):
    heads = ((1, 2), (3, 0), (LAYER, HEAD))
    page = opened(heads=heads)
    trace = lm.trace(PROMPT)
    legend = page.locator(".pg-links-legend button")
    expect(legend).to_have_text(["Head 1.2", "Head 3.0", "Head 4.1"])
    left(page, 9).hover()
    for (head, at), value in numbers(page).items():
        layer, number = map(int, head.split("."))
        assert value == pytest.approx(trace.pattern(layer, number)[9, at], abs=SHOWN)
    assert {head for head, _ in numbers(page)} == {"1.2", "3.0", "4.1"}
    legend.nth(1).click()
    expect(legend.nth(1)).to_have_attribute("aria-pressed", "false")
    left(page, 9).hover()
    assert {head for head, _ in numbers(page)} == {"1.2", "4.1"}
    legend.nth(1).click()
    legend.nth(0).dblclick()
    assert [entry.get_attribute("aria-pressed") for entry in legend.all()] == ["true", "false", "false"]
    legend.nth(0).dblclick()
    assert [entry.get_attribute("aria-pressed") for entry in legend.all()] == ["true"] * 3


def test_arrows_walk_the_columns_and_enter_pins(opened):
    page = opened()
    left(page, 0).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    expect(right(page, 3)).to_be_focused()
    expect(right(page, 3)).to_have_attribute("aria-label", "·on, position 3, key")
    expect(page.locator("#pg-lines_links .pg-links-readout")).to_contain_text("·on (3)is read by")
    expect(page.locator(".pg-lines-token[tabindex='0']")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(right(page, 3)).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("End")
    expect(right(page, 9)).to_be_focused()


def test_links_can_be_saved(opened, lm):
    page = opened(prompt="a <b> & a")
    pattern = lm.trace("a <b> & a").pattern(LAYER, HEAD)
    slide(page, 100)
    lines = page.locator("#pg-lines_links")
    rows = exported_rows(lines)
    assert rows[0][0] == "head" and rows[0][1::2] == ["query position", "key position", "attention weight"]
    assert len(rows) - 1 == len(pattern) * (len(pattern) + 1) // 2
    for _, query, _, key, _, weight in rows[1:]:
        assert float(weight) == pytest.approx(pattern[int(query), int(key)], abs=ROUNDING)
    kept = np.load(export(lines, "NPZ"))
    assert np.allclose(kept["weight"], pattern[kept["query"], kept["key"]], rtol=0, atol=ROUNDING)
    assert "".join(kept["tokens"]).replace("·", " ") == "a <b> & a"
    assert export(lines, "PNG").read_bytes()[:4] == b"\x89PNG"
    svg = ET.fromstring(export(lines, "SVG").read_text())
    texts = [node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert any("<" in text for text in texts)
    curves = [node for node in svg.iter("{http://www.w3.org/2000/svg}path") if node.get("stroke")]
    assert len(curves) == len(rows) - 1


def test_the_text_shows_what_a_token_reads_and_who_reads_it(opened, lm):
    page = opened("text")
    pattern = lm.trace(PROMPT).pattern(LAYER, HEAD)
    tokens, readout = page.locator(".pg-reading-token"), page.locator("#pg-text_reading .pg-links-readout")
    values = "nodes => nodes.map(n => n.dataset.value === '' ? null : +n.dataset.value)"
    assert tokens.evaluate_all(values) == pytest.approx(pattern[9].tolist(), abs=ROUNDING)  # the last one unless chosen
    tokens.nth(6).click()
    expect(tokens.nth(6)).to_have_attribute("aria-pressed", "true")
    found = tokens.evaluate_all(values)
    assert found[7:] == [None] * 3
    assert found[:7] == pytest.approx(pattern[6, :7].tolist(), abs=ROUNDING)
    tokens.nth(2).hover()
    expect(readout).to_contain_text("·because (6) reads ·sat (2)")
    shown = float(readout.locator(".pg-reading-number").inner_text())
    assert shown == pytest.approx(pattern[6, 2], abs=ROUNDING + 1e-6)
    page.get_by_role("button", name="Tokens that read it").click()
    found = tokens.evaluate_all(values)
    assert found[:6] == [None] * 6
    assert found[6:] == pytest.approx(pattern[6:, 6].tolist(), abs=ROUNDING)
    best = page.locator("[data-list=reads] .pg-chip")
    order = np.argsort(-pattern[6, :7], kind="stable")
    assert [int(chip.get_attribute("data-at")) for chip in best.all()] == order[:8].tolist()
    other = int(order[0]) if order[0] != 6 else int(order[1])
    best.nth(order.tolist().index(other)).click()
    expect(tokens.nth(other)).to_have_attribute("aria-pressed", "true")


def test_several_heads_in_the_text_are_averaged_or_seen_one_by_one(opened, lm):
    heads = ((1, 2), (3, 0))
    page = opened("text", heads=heads)
    rows = [lm.trace(PROMPT).pattern(*head)[9] for head in heads]
    tokens = page.locator(".pg-reading-token")
    values = "nodes => nodes.map(n => +n.dataset.value)"
    assert tokens.evaluate_all(values) == pytest.approx(np.mean(rows, axis=0).tolist(), abs=ROUNDING)
    page.locator("#pg-text_reading").get_by_role("button", name="Head 3.0").click()
    assert tokens.evaluate_all(values) == pytest.approx(rows[1].tolist(), abs=ROUNDING)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colored_text_can_be_read(opened, scheme):
    dark = {"query": "?lang=zh&__theme=dark", **PHONE} if scheme == "dark" else {}
    page = opened("text", heads=((1, 2), (3, 0), (LAYER, HEAD)), **dark)
    assert page.evaluate("playground.isDark()") == (scheme == "dark")
    lowest = page.evaluate(
        """() => { const light = c => c.map(v => v / 255)
                      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
                      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
            const rgb = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
            return Math.min(...[...document.querySelectorAll('.pg-reading-token')].filter(n => n.style.backgroundColor)
                .map(n => getComputedStyle(n)).map(s => [light(rgb(s.color)), light(rgb(s.backgroundColor))])
                .map(([a, b]) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05))); }"""
    )
    assert 4.5 <= lowest < 21


@pytest.mark.parametrize("view", ["lines", "text"])
def test_hostile_text_is_shown_as_text(opened, lm, view):
    page = opened(view, prompt=HOSTILE)
    part = page.locator("#pg-lines_links .pg-lines-left" if view == "lines" else "#pg-text_reading .pg-reading-text")
    shown = part.inner_text().replace("\n", "")
    assert "<img" in shown and "{{v" in shown.replace("·", "") and "\u202e" not in shown
    assert part.locator("img, b").count() == 0
    assert len(lm.encode(HOSTILE)) == part.locator("button").count()
    if view == "text":
        assert part.locator("br").count() == 1


def said(name):
    return section(words("en"), name)


@pytest.mark.parametrize("kind", ["lines", "reading"])
def test_tokens_that_are_html_are_shown_literally(opened, kind):
    pieces = ("<img src=x onerror=alert(1)>", "&lt;i&gt;", "<i>bold</i>")
    z = np.array([[1, np.nan, np.nan], [0.5, 0.5, np.nan], [0.25, 0.25, 0.5]], np.float32)
    payload = links_payload([(pieces[0], z)], [[0, 0]], tokens_of(range(3), pieces)) | {
        "run": "0.0",
        "title": pieces[2],
        "measure": pieces[0],
        "note": pieces[0],
        "source": pieces[2],
        "words": {**said("attention.links"), **said("lines.links"), **said("text.reading")},
    }
    page = opened()
    page.evaluate(
        """([kind, payload]) => { const box = document.createElement("div"), part = document.createElement("div");
            part.dataset.part = box.id = "hostile"; box.append(part);
            document.querySelector("#pg-lines_links").append(box);
            playground.mount(kind, box, {payload: JSON.stringify(payload)}, () => {}, () => {}); }""",
        [kind, payload],
    )
    part = page.locator("#hostile")
    tokens = part.locator(".pg-lines-left .pg-lines-token, .pg-reading-token")
    assert tokens.evaluate_all("nodes => nodes.map(n => n.textContent)") == list(pieces)
    tokens.nth(2).hover()
    expect(part.locator(".pg-links-readout")).to_contain_text(pieces[2])
    part.get_by_role("button", name="Table").click()
    expect(part.locator("td").first).to_be_visible()
    expect(part.locator("h2")).to_have_text(pieces[2])
    assert part.locator("img, i:not([aria-hidden])").count() == 0


def test_one_token(opened):
    page = opened(prompt="a")
    assert drawn(page) == 1
    left(page, 0).hover()
    assert numbers(page) == {(f"{LAYER}.{HEAD}", 0): 1.0}
    page.locator("[data-key=text]").click()
    expect(page.locator(".pg-reading-token")).to_have_count(1)


def test_a_long_prompt_scrolls_and_keeps_the_strongest_links(opened, lm):
    prompt = " ".join(f"the cat number {i} sat." for i in range(60))
    page = opened(prompt=prompt)
    T = page.locator(".pg-lines-left .pg-lines-token").count()
    assert 256 < T <= 512
    expect(page.locator("#pg-lines_links .pg-about")).to_contain_text("only the 64 strongest")
    pattern = lm.trace(prompt).pattern(LAYER, HEAD)
    assert page.locator(".pg-lines-box").evaluate("box => box.clientHeight") <= 620
    left(page, T - 1).focus()
    expect(left(page, T - 1)).to_be_in_viewport()
    expected = strongest(pattern[T - 1], 0.7)[:12]
    found = {at: value for (_, at), value in numbers(page).items()}
    assert set(found) == set(expected)
    assert all(value == pytest.approx(pattern[T - 1, at], abs=SHOWN) for at, value in found.items())
