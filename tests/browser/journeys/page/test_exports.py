"""Figures leave the page in every format with the numbers they show, and the report holds what was drawn, as text."""

import csv
import io
import struct
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch

from tests.browser.conftest import READY, blank_page
from tests.support.models.rounding import within
from tests.support.visitor import SOON, expect, export, exported_rows, module, open_tab

HOSTILE = "=1+1 <img src=x onerror=alert(1)> </script><script>alert(2)</script> </style> \"q\" 'q' \u202ertl"
NAMES = (
    *(
        "../../etc/passwd",
        "a\r\nContent-Type: text/html\r\n\r\n<b>.csv",
        ".hidden.png",
        "词元 é.csv",
        f"{'x' * 300}.npz",
    ),
    *("CON.csv", "\u202egnp.exe", "", 'a/b\\c:d*e?f"g<h>i|j\x00k.json', "..."),
)


def typed(page, prompt):
    """Type a prompt and wait until the map is of it."""
    before = page.locator(READY).get_attribute("data-run")
    page.locator("#prompt textarea").fill(prompt)
    expect(page.locator("#pg-map_plot [data-part]")).not_to_have_attribute("data-run", before, timeout=SOON)


@pytest.fixture
def reader(profile):
    """Open a file as a reader without a network would; what its page did is noted in `done`."""
    pages, done = [], []

    def opened(path, **options):
        page = blank_page(profile, **options)
        pages.append(page)
        page.on("dialog", lambda dialog: (done.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: done.append(str(error)))
        page.on("request", lambda request: done.append(request.url) if request.url.startswith("http") else None)
        copy = path.with_name(f"{path.name}.html")  # a download has no ending
        copy.write_bytes(path.read_bytes())
        page.goto(copy.as_uri())
        return page

    yield opened
    for page in pages:
        page.close()
    assert done == []


def as_text(page, told):
    """The page shows a text as it is, and nothing in it became an element."""
    assert told in page.evaluate("document.body.textContent")
    assert page.locator("img:not([src^='data:']), [onerror], iframe, b:text-is('x')").count() == 0
    assert page.evaluate("[...document.scripts].every((script) => script.nonce || script.type === 'application/json')")


def test_a_figure_leaves_in_every_format(open_page, reader, lm):
    page = open_page("?lang=en", ready=READY)
    typed(page, HOSTILE)
    plot, heads, run = page.locator("#pg-map_plot"), page.locator("#pg-overview_heads"), lm.trace(HOSTILE)
    layer, head = page.evaluate("playground.selection.heads[0]")
    pattern, tokens = run.pattern(layer, head), page.evaluate("playground.page.tokens.map(({ text }) => text)")
    T = len(pattern)
    # The server is another process with other threads: apart by no more than float32 moves a row of this pattern.
    moved = within(lm.model, torch.as_tensor(run.tokens.ids)[None], sites=["pattern"])["pattern", layer]
    apart = moved[0, head].numpy().reshape(T, 1)

    # The menu by keyboard: Escape closes it, gives the focus back and does nothing else.
    page.evaluate("playground.select({tokens: [1]})")
    button = plot.get_by_role("button", name="Export")
    button.press("Enter")
    assert page.get_by_role("menuitem").all_inner_texts() == [
        "PNG",
        "SVG",
        "HTML, works offline",
        "CSV",
        "Parquet (pandas needs pyarrow)",
        "NPZ",
        "Copy the Python code",
    ]
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("menuitem", name="Copy the Python code")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="PNG")).to_be_focused()
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    assert page.get_by_role("menu").count() == 0 and page.evaluate("playground.selection.tokens") == [1]

    names, *rows = exported_rows(plot)
    assert names == ["query token", "key token", "attention weight"]
    assert len(rows) == T * (T + 1) // 2
    for query, key, weight in rows:
        q, k = int(query.split()[0]), int(key.split()[0])
        assert float(weight) == pytest.approx(pattern[q, k], abs=apart[q, 0])
        assert query == f"{q} {tokens[q]}" and key == f"{k} {tokens[k]}"
    arrays = np.load(export(plot, "NPZ"))
    seen = np.tri(T, dtype=bool)
    assert (np.isnan(arrays["values"]) == ~seen).all()
    assert (np.abs(np.where(seen, arrays["values"], 0) - np.where(seen, pattern, 0)) <= apart).all()
    source = plot.locator(".pg-source").inner_text()
    assert arrays["title"] == [f"Head {layer}.{head}"] and arrays["source"] == [source]
    raw, weights = export(plot, "Parquet (pandas needs pyarrow)").read_bytes(), [float(weight) for *_, weight in rows]
    assert raw[:4] == raw[-4:] == b"PAR1"
    footer = raw[-8 - struct.unpack("<I", raw[-8:-4])[0] : -8]
    for part in (*names, source, struct.pack("<d", max(weights)), struct.pack("<d", min(weights))):
        assert (part if isinstance(part, bytes) else part.encode()) in footer
    svg = ET.fromstring(export(plot, "SVG").read_text())
    texts = {node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert {f"Head {layer}.{head}", source} <= texts

    offline = reader(export(plot, "HTML, works offline"), viewport={"width": 390, "height": 844}, color_scheme="dark")
    offline.locator(".main-svg").first.wait_for(timeout=SOON)
    cells = offline.evaluate("document.querySelector('.pg-chart')._fullData[0].z.map((row) => [...row])")
    assert (np.abs(np.tril(np.array(cells, float)) - np.tril(pattern)) <= apart).all()
    assert offline.evaluate("document.documentElement.scrollWidth") <= 390
    expect(offline.locator("h1")).to_have_text(f"Head {layer}.{head}")
    expect(offline.locator(".pg-source").last).to_have_text(source)
    assert offline.locator(".pg-numbers tbody tr").count() == min(2000, len(rows))
    plot.get_by_role("button", name="Python").click()
    assert offline.locator("details pre").text_content() == plot.locator(".pg-code pre").text_content()
    as_text(offline, rows[1000][0])

    # A figure that is no Plotly: the same menu, made from what the page shows.
    names, *rows = exported_rows(heads)
    metrics = run.head_metrics()
    assert [(int(row[0]), int(row[1])) for row in rows] == list(metrics.index)
    found = np.array([[float(cell) if cell else np.nan for cell in row[2:]] for row in rows])
    assert np.allclose(found, metrics.to_numpy(float), rtol=1e-4, atol=1e-5, equal_nan=True)
    assert export(heads, "PNG").read_bytes()[:4] == b"\x89PNG"
    assert ET.fromstring(export(heads, "SVG").read_text()).find("{http://www.w3.org/2000/svg}title").text == "All heads"
    still = reader(export(heads, "HTML, works offline"))
    assert "Hover over a head" not in still.locator("body").inner_text()
    assert still.locator("img").count() == 1 and still.locator("script, button, select, input").count() == 0

    made = page.evaluate(f"async (names) => names.map((await {module('export/files.js')}).fileName)", list(NAMES))
    for name in made:
        assert name.isascii() and 0 < len(name) <= 80 and name[0] not in ".-" and name.upper() != "CON.CSV"
        assert all(sign.isalnum() or sign in "._-" for sign in name), name
    assert made[3] == "e.csv" and made[4] == "x" * 76 + ".npz"
    whole = (
        f"async (text) => (await (await {module('export/onefile.js')})"
        ".page({title: text, body: [], figures: [{layout: {text}}]})).text()"
    )
    text = page.evaluate(whole, HOSTILE)
    assert "<script>alert" not in text and "<img src=x" not in text and text.count("\\u003cscript>alert") == 1
    guarded = page.evaluate(
        f"async (line) => (await {module('export/files.js')})"
        ".csv({names: ['a', 'b', 'c'], lines: [line], title: '', source: ''}, 's').text()",
        ["=1+1", '"', "@x"],
    )
    assert list(csv.reader(io.StringIO(guarded)))[1][:3] == ["'=1+1", '"', "'@x"]


def test_the_report_holds_what_was_drawn(open_page, reader):
    page = open_page("?lang=en", color_scheme="dark")
    open_tab(page, "Heads")
    page.locator("#pg-heads_scatter .main-svg").first.wait_for(timeout=SOON)
    open_tab(page, "Attention")
    typed(page, HOSTILE)  # what the heads' tab shows is of another prompt now
    open_tab(page, "Predictions")
    page.locator("#pg-surprise_plot .main-svg").first.wait_for(timeout=SOON)
    with page.expect_download(timeout=SOON) as file:
        page.get_by_role("button", name="Report").click()
    assert file.value.suggested_filename.startswith("attention-report-TinyGPT-")
    expect(page.locator(".pg-report")).to_contain_text("The report was saved.")
    report = reader(file.value.path(), viewport={"width": 390, "height": 844}, color_scheme="dark")
    report.locator("[data-figure]").first.scroll_into_view_if_needed()  # it is drawn when it comes near
    report.locator(".main-svg").first.wait_for(timeout=SOON)
    as_text(report, HOSTILE)
    expect(report.locator("pre").first).to_have_text(HOSTILE)
    assert report.locator("body > h2, body > section > h2").all_inner_texts() == [
        "Start",
        "Attention",
        "Predictions",
        "Left out",
    ]
    shown = report.locator("h4").all_inner_texts()
    assert (
        shown[:4] == ["How the model gets there", "The next token", "All 8,192 tokens by rank", "All heads"]
        and shown[4].startswith("Head ")
        and "The prompt, colored by how surprising it is" in shown
    )
    left = report.locator("section").last
    expect(left).to_contain_text("Heads · All heads")
    expect(left).to_contain_text("drawn for an earlier prompt, model or edit")
    assert report.evaluate("document.documentElement.scrollWidth") <= 390
    assert report.evaluate("[...document.querySelectorAll('nav a')].every((a) => document.querySelector(a.hash))")
    report.locator("[data-figure]").last.scroll_into_view_if_needed()
    report.locator("[data-figure]").last.locator(".main-svg").first.wait_for(timeout=SOON)
    report.emulate_media(media="print")
    report.evaluate("dispatchEvent(new Event('beforeprint'))")
    figure = "[data-figure] .xtick text, [data-figure] .gtitle"
    assert report.evaluate(f"[...new Set([...document.querySelectorAll('{figure}')].map((e) => e.style.fill))]") == [
        "rgb(0, 0, 0)"
    ]
    look = "(node) => { const s = getComputedStyle(node); return [s.color, s.backgroundColor, s.filter.slice(0, 9)]; }"
    black, white = "rgb(0, 0, 0)", "rgb(255, 255, 255)"
    assert report.locator("body").evaluate(look) == [black, white, "none"]
    assert report.locator(".pg-as-dark").first.evaluate(look) == [white, black, "invert(1)"]  # that is black on white
