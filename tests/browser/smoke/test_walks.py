"""A walk over every view as most people see it, typing on every tab, and one on a phone, in the dark, in Chinese."""

import re
from contextlib import suppress
from importlib.resources import files

import pytest
from playwright.sync_api import Error

from tests.browser.conftest import READY
from tests.conftest import ALL
from tests.support.visitor import SOON, every_view, expect, settle
from viz.words import words

pytestmark = pytest.mark.browser

# What is wrong with what is shown: parts that failed, that nobody can see, or that are wider than the page; labels of
# an axis or of a legend that are hidden or cut off.
WRONG = """() => {
  const open = [...document.querySelectorAll("[data-screen]")].find((screen) => screen.offsetParent), wrong = [];
  if (getComputedStyle(open.closest(".tabitem"), "::before").content !== "none") wrong.push("the tab seems to wait");
  for (const problem of open.querySelectorAll(".pg-problem:not(.pg-quiet-box)"))
    if (problem.offsetParent) wrong.push(`problem: ${problem.textContent}`);
  for (const part of open.querySelectorAll(".pg-block > [data-part]")) {
    if (part.hidden || !part.offsetParent || !part.textContent.trim()) continue;
    const box = part.getBoundingClientRect();
    if (box.width < 8 || box.height < 8) wrong.push(`${part.dataset.part} is ${box.width} x ${box.height}`);
    if (box.right > innerWidth + 1) wrong.push(`${part.dataset.part} ends at ${box.right}`);
  }
  for (const input of open.querySelectorAll(".pg-control :is(select, input, textarea)")) {
    const { right } = input.getBoundingClientRect(), part = input.closest("[data-part]");
    const around = part.offsetParent ? part : part.closest(".pg-screen"); // some parts have no box of their own
    if (input.checkVisibility() && right > around.getBoundingClientRect().right + 1)
      wrong.push(`${input.closest("[data-name]").dataset.name} of ${part.dataset.part} ends at ${right}`);
  }
  const whole = ".pg-effect-table, .pg-neuron-table, .pg-lines-box, .pg-reading-text, " +
    "[data-part=cell_steps] *, [data-part=find_rows] *"; // nobody has to scroll within these
  for (const box of open.querySelectorAll(whole))
    if (box.checkVisibility() && getComputedStyle(box).overflowX === "auto" && box.scrollWidth > box.clientWidth + 1)
      wrong.push(`${box.className} is ${box.scrollWidth} wide in ${box.clientWidth}`);
  for (const label of open.querySelectorAll("[class$=tick] > text, .legendtext")) {
    const of = label.matches(".legendtext") ? "xtick" : label.parentNode.getAttribute("class");
    if (!/^[xy]\\d*tick$/.test(of) || !label.textContent.trim()) continue;
    const svg = label.ownerSVGElement.getBoundingClientRect(), box = label.getBoundingClientRect();
    const over = Math.max(svg.left - box.left, box.right - svg.right, svg.top - box.top, box.bottom - svg.bottom);
    if (svg.width && (!box.width || over > 2))
      wrong.push(`a label of ${label.closest("[data-part]").dataset.part} is cut off: ${label.textContent}`);
  }
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) wrong.push(`the page is ${wide} wide`);
  return wrong;
}"""
# Text that is laid out and that nobody can see: hidden, transparent, without size, or cut off by its own box. What is
# meant for screen readers only is one pixel large.
UNSEEN = """() => {
  const open = [...document.querySelectorAll("[data-screen]")].find((screen) => screen.offsetParent);
  const unseen = new Set();
  const walk = document.createTreeWalker(open, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    const node = text.parentElement, words = text.data.trim();
    if (!words || node.closest("svg, option, script, style, [aria-hidden=true]")) continue;
    let folded = node.closest("details:not([open])");
    while (folded?.querySelector(":scope > summary")?.contains(node)) // what is seen of a fold
      folded = folded.parentElement.closest("details:not([open])");
    if (folded) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect(), part = node.closest("[data-part]")?.dataset.part;
    const of = `${part}: ${words.slice(0, 60)}`;
    if (!range.getClientRects().length) continue; // not laid out
    if (!node.checkVisibility({ visibilityProperty: true, opacityProperty: true })) unseen.add(`hidden: ${of}`);
    else if (box.width < 1 || box.height < 1) unseen.add(`without size: ${of}`);
    for (let at = node; at && at !== open; at = at.parentElement) {
      const { overflowX, overflowY } = getComputedStyle(at), inner = at.getBoundingClientRect();
      if (inner.width <= 1 && inner.height <= 1) break;
      if (getComputedStyle(at).textOverflow === "ellipsis" && at.closest("[title]")) break; // the whole is its tip
      if (overflowX === "hidden" && box.right > inner.right + 2) unseen.add(`cut off at the side: ${of}`);
      if (overflowY === "hidden" && box.bottom > inner.bottom + 4) unseen.add(`cut off below: ${of}`);
      if (overflowX === "auto" || overflowX === "scroll" || overflowY === "auto" || overflowY === "scroll") break;
    }
  }
  return [...unseen];
}"""
# Fields that cut off what they hold or stand for while they are empty, or that are wider than their own control; and on
# a phone, where there are no tips, texts with an ellipsis. Cells of a table of tokens are read in the line below it.
CUT = """() => {
  const open = [...document.querySelectorAll("[data-screen]")].find((screen) => screen.offsetParent), cut = [];
  const pen = document.body.appendChild(document.createElement("span"));
  pen.style = "position: fixed; white-space: pre";
  for (const input of open.querySelectorAll("input:is([type=text], [type=number], :not([type])), textarea")) {
    if (!input.checkVisibility()) continue;
    const style = getComputedStyle(input), part = input.closest("[data-part]").dataset.part;
    const { left, right } = input.getBoundingClientRect();
    const room = right - left - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 2;
    pen.style.font = style.font;
    pen.textContent = input.localName === "textarea" ? "" : input.value || input.placeholder;
    if (pen.getBoundingClientRect().width > room + 1) cut.push(`a field of ${part} cuts off: ${pen.textContent}`);
    if (!input.value && input.localName === "textarea" && input.scrollHeight > input.clientHeight + 2)
      cut.push(`a field of ${part} cuts off: ${input.placeholder}`);
    const own = input.closest(".pg-control, .pg-field");
    if (own && right > own.getBoundingClientRect().right + 1) cut.push(`a field of ${part} is wider than its control`);
  }
  if (innerWidth < 700)
    for (const node of open.querySelectorAll("*")) {
      const written = [...node.childNodes].some(({ nodeType, data }) => nodeType === Node.TEXT_NODE && data.trim());
      if (!written || node.closest(".pg-lens-box, .pg-beam-node, select, svg") || !node.checkVisibility()) continue;
      const { clientWidth, scrollWidth } = node;
      if (getComputedStyle(node).overflowX === "hidden" && clientWidth > 2 && scrollWidth > clientWidth + 1)
        cut.push(`cut off at the side: ${node.textContent.slice(0, 60)}`);
    }
  pen.remove();
  return cut;
}"""
# Captions of more than two lines.
LONG = """() => [...document.querySelectorAll("[data-screen] .pg-about")].filter((each) => each.checkVisibility() &&
  Math.round(each.getBoundingClientRect().height / parseFloat(getComputedStyle(each).lineHeight)) > 2)
  .map((each) => `a long caption: ${each.textContent}`)"""
# Buttons, links and folds that show nothing but a sign, as text or by a style: a machine's fonts may lack it, so that
# icons are drawn.
SIGNS = """() => {
  const sign = /^(?![↵⇥]+$)[\\p{S}‹›⋯…•]+$/u, found = []; // those two stand in tokens
  for (const control of document.querySelectorAll("button, a[href], summary, [role=button]")) {
    if (control.closest("[data-testid], footer") || !control.checkVisibility()) continue; // the framework's own
    const texts = [control.textContent.replace(/\\s/g, "")];
    for (const which of ["::before", "::after"])
      texts.push(getComputedStyle(control, which).content.replace(/["\\s]/g, ""));
    for (const text of texts) if (sign.test(text)) found.push(`${control.className} shows only ${text}`);
  }
  return [...new Set(found)];
}"""
# Boxes that say what is not there yet, without a button that leads to it.
EMPTY = """() => [...document.querySelectorAll("[data-screen] .pg-quiet-box")]
  .filter((box) => box.checkVisibility() && !box.querySelector("button"))
  .map((box) => `an empty box: ${box.textContent}`)"""
HIGH = 400
# Where the first picture of a view begins, in pixels: a figure, a map, a table, a card, a text in boxes. A note
# stands for what cannot be shown; icons and parts of forms do not count.
PICTURES = (
    ".pg-chart, canvas, table, svg, [role=img], [role=grid], article, .pg-glance, .pg-draft-text, .pg-race-text, "
    ".pg-try-text, .pg-proof-text, .pg-slip-told, .pg-quiet-box"
)
FIRST = f"""() => Math.min(...[...document.querySelectorAll("[data-screen] :is({PICTURES})")]
  .filter((each) => each.checkVisibility() && !each.closest("button, summary, .pg-pipe, .pg-controls, .pg-job"))
  .map((each) => each.getBoundingClientRect()).filter((box) => box.width > 80 && box.height > 24)
  .map((box) => Math.round(box.top + scrollY)))"""
# Texts of the page that are still in English on a Chinese one.
ENGLISH = {text for text in words("en").values() if re.search("[a-z]{2} [a-z]", text)} - set(words("zh").values())
TEXTS = """() => [...document.querySelectorAll("button, label, a, p, h1, h2, h3, th, summary, span")]
  .filter((each) => each.checkVisibility()).map((each) => each.textContent.trim())"""
AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
ENDS = ("One day a dog met a cat. The dog and the cat", "One day a dog met a cat. The dog and the dog")
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
# Serious faults of names, roles and order, the same at any width and in any colors, and so looked at by one walk
# (`levels`), and of contrast; what is there for everyone on top is looked at once.
# axe goes over the whole document each time, so what is hidden is taken out meanwhile. Contrast, three quarters of its
# time, is looked at once for every look that a text has: its colors, size and weight, opacity and what it stands on.
FAULTS = """async ([levels, whole]) => {
  const open = [...document.querySelectorAll("[role=tabpanel]")].find((panel) => panel.offsetParent);
  const seen = (window.seenLooks ??= new Set()), looks = [];
  const below = whole ? document.body : open;
  for (const node of below.querySelectorAll("*")) {
    const written = [...node.childNodes].some(({ nodeType, data }) => nodeType === Node.TEXT_NODE && data.trim());
    if ((!written && !node.matches("input, select, textarea")) || node.closest(".main-svg") || !node.checkVisibility())
      continue;
    const style = getComputedStyle(node), look = [node.localName, style.color, style.fontSize, style.fontWeight];
    for (let at = node, clear = true; at && clear; at = at.parentElement) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(at);
      look.push(backgroundColor, backgroundImage, opacity);
      clear = /, 0\\)$|^transparent$/.test(backgroundColor) && backgroundImage === "none";
    }
    if (seen.has(look.join())) continue;
    seen.add(look.join());
    looks.push(node);
  }
  if (!levels && !looks.length) return [];
  const parts = "[data-screen], [data-part]", hidden = new Set(), outermost = [];
  for (const part of document.querySelectorAll(parts)) {
    const within = hidden.has(part.parentElement.closest(parts));
    if (!within && part.checkVisibility()) continue;
    hidden.add(part);
    if (!within) outermost.push(part); // what it holds goes with it
  }
  const kept = outermost.map((part) => {
    const inner = document.createDocumentFragment();
    inner.append(...part.childNodes);
    return [part, inner];
  });
  const asked = { resultTypes: ["violations"], preload: false }, violations = [];
  if (levels) {
    // Of rows that are alike, the first; the words of a figure are colors of the theme, and its table has them, too.
    const where = { include: [below], exclude: [["tbody tr:nth-child(n+9)"], [".main-svg"]] };
    const rules = { "color-contrast": { enabled: false } };
    violations.push(...(await axe.run(where, { ...asked, runOnly: levels, rules })).violations);
  }
  const there = looks.filter((node) => node.isConnected); // a measure that starts by itself may have drawn it again
  if (there.length) {
    const contrast = { type: "rule", values: ["color-contrast"] };
    violations.push(...(await axe.run({ include: there }, { ...asked, runOnly: contrast })).violations);
  }
  for (const [part, inner] of kept) part.append(inner);
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}"""


@pytest.mark.parametrize(
    ("theme", "language", "width"),
    [pytest.param("light", "en", 1280, marks=pytest.mark.long), ("dark", "zh", 390)],
    ids=["desktop", "phone"],
)
def test_every_view_is_drawn_fits_and_can_be_used_by_everyone(open_page, theme, language, width):
    query = f"?__theme={theme}&lang={language}"
    page = open_page(query, ready=READY, viewport={"width": width, "height": 900}, color_scheme=theme)
    settle(page)
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == theme  # of scroll bars and lists
    page.evaluate(AXE)
    whole = theme == "light" or not ALL  # what does not depend on width and theme, too: once, by the only walk there is
    levels = LEVELS if whole else None
    wrong = {"page": page.evaluate(FAULTS, [levels, True]) + page.evaluate(SIGNS)}
    for view in every_view(page, language, keep=False):
        if whole and view.endswith(" 0"):
            type_another_prompt(page)
        wrong[view] = lasting(page) + page.evaluate(UNSEEN) + page.evaluate(SIGNS)
        wrong[view] += page.evaluate(CUT) + page.evaluate(FAULTS, [levels, False])
        wrong[view] += page.evaluate(EMPTY)
        if width == 1280:
            wrong[view] += page.evaluate(LONG)
            wrong[view] += late(page)
        if language == "zh":
            wrong[view] += [f"in English: {text}" for text in page.evaluate(TEXTS) if text in ENGLISH]
    assert len(wrong) > 40
    assert {view: each for view, each in wrong.items() if each} == {}


@pytest.mark.long
def test_every_view_in_english_fits_a_phone(open_page):
    page = open_page(ready=READY, viewport={"width": 390, "height": 900})
    wrong = {view: lasting(page) + page.evaluate(UNSEEN) + page.evaluate(CUT) for view in every_view(page, keep=False)}
    assert len(wrong) > 40
    assert {view: each for view, each in wrong.items() if each} == {}


def lasting(page) -> list[str]:
    """Return what is wrong and stays so: a figure is drawn once to find its margins and a second time within them."""
    if page.evaluate(WRONG):
        with suppress(Error):
            page.wait_for_function(f"() => !({WRONG})().length", timeout=SOON / 4)
    return page.evaluate(WRONG)


def late(page) -> list[str]:
    """Return what is wrong with where the first picture begins, on a screen that is 800 pixels high."""
    try:
        page.wait_for_function(f"(high) => ({FIRST})() <= high", arg=HIGH, timeout=SOON)
    except Error:
        return [f"the first picture begins at {page.evaluate(FIRST)}"]
    return []


def type_another_prompt(page) -> None:
    """A tab shows the present prompt, also one that is typed while it is open."""
    tokens, prompt = page.locator("#pg-tokens [data-part]"), page.locator("#prompt textarea")
    before, now = tokens.get_attribute("data-run"), prompt.input_value()
    prompt.fill(ENDS[0] if now == ENDS[1] else ENDS[1])
    expect(tokens).not_to_have_attribute("data-run", before, timeout=SOON)
    expect(page.locator("#pg-tokens .pg-chip").last).to_have_text(f"·{prompt.input_value().split()[-1]}")
    settle(page)
