"""Text that was written to do harm: in the prompt, the vocabulary, the model's name, links, fields and file names.

The model is small and its vocabulary is made of such texts, so that every one of them is a whole token: on chips,
ticks, hovers and tables, and among the predictions.
"""

import json
import re
from urllib.parse import quote

import pytest
import torch

from model.errors import plain
from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.loading.checkpoint import save_folder
from model.text.bpe_ranks import ALPHABET
from tests.browser.conftest import READY
from tests.support.visitor import SOON, every_view, expect
from viz.labels import visible

pytestmark = pytest.mark.browser

IMAGE = "<img src=x onerror=alert(1)>"
TOKENS = (
    IMAGE,
    "<script>alert(2)</script>",
    '<a href="javascript:alert(3)">go</a>',
    "${alert(4)}",
    "{{7*7}}",
    "\\x3cimg src=x onerror=alert(5)>",
    "</textarea><img src=x onerror=alert(6)>",
    '" onmouseover="alert(7)',
    "<b>bold</b>",
    "<extra>gone</extra>",
    "%{z}",
    "$\\frac{x}{y}$",
    "\u202egnp.exe",
    "\u2066left\u2069",
    "a\u200bb",
    "\x1b[31m",
    "=cmd|' /C calc'!A0",
    "line\u2028end",
    "&lt;i&gt;",
    "<br><sub>x</sub>",
    "long" * 60,
    "{run}",
    "\ufeff",
    "\u0301\u0301\u0301",
    "';alert(8)//",
)
PROMPT = " ".join(TOKENS) + " \U0001f600é"  # the last two become bytes that are no UTF-8 on their own
NAME = "<img src=x onerror=alert(9)>\u202e"  # of the model's folder
# What a page looks like in which a text became more than text. Everything is looked at, hidden parts too.
LOOK = r"""() => {
  const found = [];
  const whole = 'img[src="x"], iframe, object, embed, math, mjx-container, .MathJax, a[href^="javascript" i], ' +
    '[onerror], [onmouseover], [onfocus], .main-svg a, .main-svg sub, [data-part] script';
  for (const node of document.querySelectorAll(whole)) found.push(node.outerHTML.slice(0, 200));
  for (const node of document.querySelectorAll("b, sub")) {
    if (/^(bold|x)$/.test(node.textContent)) found.push(node.outerHTML);
  }
  for (const node of document.querySelectorAll(".main-svg tspan")) {
    if (/bold|italic|baseline/.test(node.getAttribute("style") ?? "")) found.push(node.outerHTML.slice(0, 200));
  }
  const turns = /[\u200b\u202a-\u202e\u2028\u2029\u2066-\u2069\ufeff]/;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const box = node.parentElement;
    // Plotly itself sets a space of no width beside the exponents of a logarithmic axis.
    const said = box.closest("text[data-unformatted*='<sup>']") ? node.data.replaceAll("\u200b", "") : node.data;
    if (!box.closest("script, style, textarea") && turns.test(said)) {
      found.push(`turned: ${box.closest("[data-part]")?.dataset.part} ${box.outerHTML.slice(0, 200)}`);
    }
  }
  for (const node of document.querySelectorAll("[title], [aria-label]")) {
    const said = `${node.title ?? ""}${node.getAttribute("aria-label") ?? ""}`;
    if (turns.test(said)) found.push(`turned: ${node.outerHTML.slice(0, 200)}`);
  }
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) found.push(`${wide} pixels wide`);
  return found;
}"""
# Nothing is drawn for a moment: no part changes for 150 ms.
CALM = """() => new Promise((resolve) => {
  let timer;
  const end = () => { watcher.disconnect(); resolve(); };
  const watcher = new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(end, 150); });
  watcher.observe(document.body, { subtree: true, childList: true });
  timer = setTimeout(end, 150);
  setTimeout(end, 8000);
})"""
AREAS = """() => [...document.querySelectorAll(".nsewdrag")].filter((area) => area.checkVisibility()).map((area) => {
  const { x, y, width, height } = area.getBoundingClientRect();
  return [x, y + scrollY, width, height];
})"""


def write_model(folder) -> None:
    """A small model whose vocabulary holds the bytes and every hostile text."""
    added = [{"id": 256 + i, "content": text, "special": False, "normalized": False} for i, text in enumerate(TOKENS)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Transformer(ModelConfig(vocab_size=256 + len(TOKENS), n_ctx=128, n_layer=2, d_model=16, n_head=2))
    save_folder(folder, model)
    (folder / "tokenizer.json").write_text(
        json.dumps(
            {
                "added_tokens": added,
                "normalizer": None,
                "post_processor": None,
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(ALPHABET)}, "merges": []},
            }
        )
    )


@pytest.fixture(scope="module")
def app_url(start_app, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / NAME
    write_model(folder)
    return start_app("--offline", "--model", str(folder))


def check(page, where: str) -> None:
    """Nothing on the page was made from a text."""
    assert page.evaluate(LOOK) == [], where


def type_prompt(page) -> None:
    page.locator("#prompt textarea").fill(PROMPT)
    there = "text => playground.page.tokens?.some((token) => token.text === text)"
    page.wait_for_function(there, arg=visible(TOKENS[-1]))


def point_at_figures(page) -> None:
    """Move the mouse over two places of every figure that is seen; each shows its numbers."""
    for x, y, width, height in page.evaluate(AREAS):
        page.evaluate("y => scrollTo(0, y - 200)", y)
        top = y - page.evaluate("scrollY")
        for across, down in ((0.3, 0.5), (0.55, 0.8)):
            page.mouse.move(x + width * across, top + height * down)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def look_at(page, where: str) -> None:
    """Everything a view shows: once it is drawn, with what it hides opened, and under the mouse."""
    page.evaluate(CALM)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    point_at_figures(page)
    check(page, where)


def test_no_view_turns_text_into_anything_else(open_page):
    page = open_page("?lang=<script>alert(1)</script>", ready=READY)
    scripts = page.evaluate("document.scripts.length")
    type_prompt(page)
    chips = page.evaluate("playground.page.tokens.map((token) => token.text)")
    assert set(map(visible, TOKENS)) <= set(chips)
    seen = []
    for view in every_view(page):
        look_at(page, view)
        seen.append(view)
    assert len(seen) > 40
    assert page.evaluate("document.scripts.length") == scripts
    text = page.evaluate("document.body.textContent")
    for token in (IMAGE, "<b>bold</b>", "$\\frac{x}{y}$", "<U+202E>", "{{7*7}}", "&lt;i&gt;"):
        assert token in text, token


@pytest.mark.long
def test_fields_and_links_are_text(open_page):
    page = open_page(ready=READY)
    type_prompt(page)
    # What is typed where a model, a token or a number is asked for.
    for name in ("../../etc/passwd", f"hub:../{IMAGE}", "file:///etc/passwd", f"{IMAGE}\u202e"):
        page.locator("#model input").fill(name)
        page.keyboard.press("Enter")
        said = page.locator("[data-part=notice] strong")
        expect(said).to_contain_text(f"({plain(name.removeprefix('hub:'))})", timeout=SOON)
        expect(said).to_contain_text(re.compile("No model has this name|has the form OWNER/NAME"))
        check(page, name)
    # Links that say anything.
    for fragment in (
        f"model={quote(IMAGE)}",
        f"tab={quote(IMAGE)}",
        f"prompt={quote(PROMPT)}&heads=9.9,{quote(IMAGE)}",
        "tokens=1e9,-1,NaN&pair=__proto__",
        "heads=0.0&edits=" + quote('[{"kind": "<b>x</b>", "layer": {}}]'),
        "values=" + quote('{"__proto__": {"x": 1}, "attention_view": {"view": "<img src=x onerror=alert(1)>"}}'),
        "values=" + quote('{"attention_view": ' + "[" * 500 + "]" * 500 + "}"),
        quote("\u202e" + IMAGE),
        "%%%&==&#",
    ):
        page.evaluate("fragment => { location.hash = fragment; }", fragment)
        page.evaluate(CALM)
        check(page, fragment)
    first = open_page("#tab=sampling&model=" + quote(IMAGE + "\u202e"), ready="[data-part=tokens] [data-index='0']")
    first.evaluate(CALM)
    check(first, "a page that begins with a link")
    assert page.evaluate("({}).x") is None
