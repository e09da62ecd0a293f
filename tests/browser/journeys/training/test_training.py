"""The training tab as a visitor uses it: a run from start to end, its replay, its model, and what must not happen."""

import contextlib
import io
import re
import time
import zipfile
from pathlib import Path

import pytest

from tests.support import visitor
from tests.support.visitor import expect, too_late

pytestmark = pytest.mark.browser

SOON = 90_000  # milliseconds; a new process imports for some seconds, on a busy machine for longer
SMALL = {"layers": 2, "heads": 2, "width": 32, "length": 16, "batch": 8, "warmup": 2}
HOSTILE = "<img src=x onerror=alert(1)> \"${alert(1)}\" {{x}} \u202e 'ab' &lt;b&gt; 👩‍🚀 <script>alert(1)</script>\n"
RUNS = "() => [...playground.lab.runs.values()].filter(({ note }) => !note).length"  # without the stored one
ROUNDING = 2e-5  # 16-bit fixed point and two ways of multiplying float32


@pytest.fixture(scope="module")
def app_url(tiny_app):
    """An app whose first model is tiny."""
    return tiny_app


def open_tab(page, name="Training"):
    visitor.open_tab(page, name)
    page.locator(".pg-settings").wait_for(timeout=SOON)
    page.locator(".pg-settings summary").click()


def fill(page, **fields):
    for name, value in fields.items():
        control = page.locator(f".pg-settings [name={name}]")
        if control.evaluate("node => node.tagName") == "SELECT":
            control.select_option(str(value))
        else:
            control.fill(str(value))


def start(page, **fields):
    """Fill the form, start, and wait until the page knows of the run."""
    before = page.evaluate(RUNS)
    fill(page, **{**SMALL, **fields})
    page.get_by_role("button", name="Start training").click()
    page.wait_for_function(f"before => ({RUNS})() > before", arg=before, timeout=SOON)


def state(page):
    return page.locator("p.pg-train-line strong")


def run_to_its_end(page, **fields):
    start(page, **fields)
    expect(state(page)).to_have_text("Done", timeout=SOON)


def shown_run(page, what):
    """Something of the run that is shown, as JSON."""
    return page.evaluate(f"() => {{ const run = playground.lab.runs.get(playground.lab.current); return {what}; }}")


def reports(page):
    return page.evaluate("() => playground.lab.runs.get(playground.lab.current)?.reports.length ?? 0")


def wait_for_reports(page, more_than=0):
    page.wait_for_function(
        "least => (playground.lab.runs.get(playground.lab.current)?.reports.length ?? 0) > least",
        arg=more_than,
        timeout=SOON,
    )


def reports_at_rest(page):
    """How many reports there are once no new one came for two seconds; a run that goes on sends many in that time."""
    counts, end = [reports(page)], time.monotonic() + SOON / 1000
    while len(counts) < 5 or len(set(counts[-5:])) > 1:
        assert time.monotonic() < end, f"reports keep coming: {counts[-5:]}"
        page.wait_for_timeout(500)
        counts.append(reports(page))
    return counts[-1]


def curves(page, chart=0):
    """[name, dash, number of points] of each curve of a chart."""
    page.wait_for_function(f"() => document.querySelectorAll('.pg-curve-plot')[{chart}]?.data?.length", timeout=SOON)
    return page.evaluate(
        f"""() => document.querySelectorAll('.pg-curve-plot')[{chart}].data.map(
                    curve => [curve.name, curve.line.dash ?? 'solid', curve.x.length])"""
    )


def cells(page, chart):
    """What a heat map holds, NaN as None."""
    return page.evaluate(
        """selector => Array.from(document.querySelector(selector)._fullData[0].z,
                         row => Array.from(row, v => Number.isFinite(v) ? v : null))""",
        chart,
    )


# Whether the browser would ask before the page is left.
ASKS = "() => !window.dispatchEvent(new Event('beforeunload', { cancelable: true }))"
# The same on a page that would not: the framework, which comes last, is not to take it for one that is left.
STAYS = f"""() => {{
  window.addEventListener("beforeunload", (event) => event.stopImmediatePropagation(), {{ capture: true, once: true }});
  return ({ASKS})();
}}"""
BIG = ".pg-replay-large .pg-chart"


def shows_step(page, step):
    """Wait until the big map is that of a step, and return it."""
    expect(page.locator(".pg-replay-controls output")).to_contain_text(f"after step {step}")
    expect(page.locator(".pg-replay-large")).to_have_attribute("data-run", re.compile(rf" {step}$"), timeout=SOON)
    return cells(page, BIG)


def first_run(page):
    """A page's first run, unless it had it before."""
    visitor.open_tab(page, "Training")
    if not page.evaluate(RUNS):
        open_tab(page)
        expect(page.locator(".pg-stored-note:visible")).to_contain_text("Stored run with the default settings: took")
        expect(page.locator(".pg-curve-plot .main-svg").first).to_be_visible(timeout=SOON)
        assert not page.evaluate(STAYS)
        run_to_its_end(page, steps=30, positions="learned")


def test_a_run_its_replay_and_its_model(same_page):
    page = same_page()
    first_run(page)
    expect(page.locator("p.pg-train-line")).to_contain_text("step 30 of 30")
    assert page.evaluate(ASKS)
    expect(page.locator(".pg-train-status progress")).to_have_attribute("max", "30")
    names, dashes, points = zip(*curves(page), strict=True)
    assert names == ("each step", "training", "held out") and dashes == ("solid", "solid", "dot")
    assert points == (30, 30, 31)
    heads = [f"head {layer}.{head}" for layer in (0, 1) for head in (0, 1)]
    assert [name for name, *_ in curves(page, 1)] == [*heads, "shuffled baseline"]
    expect(page.locator(".pg-curve-plot").first.locator(".scatterlayer .trace")).to_have_count(3)

    slider = page.get_by_role("slider", name="Saved step")
    expect(slider).to_have_attribute("max", "30")
    expect(slider).to_have_value("30")
    last = shows_step(page, 30)
    slider.fill("0")
    first = shows_step(page, 0)
    expect(page.locator(".pg-replay-large h2")).to_contain_text("after step 0")
    assert first != last and [len(row) for row in first] == [16] * 16
    for i, row in enumerate(first):
        assert row[i + 1 :] == [None] * (15 - i) and sum(row[: i + 1]) == pytest.approx(1, abs=16 * ROUNDING)
    page.get_by_role("button", name="Head 1.0", exact=True).click()
    expect(page.locator(".pg-replay-large h2")).to_have_text("Head 1.0 after step 0")
    slider.fill("30")
    expect(page.locator(".pg-replay-large h2")).to_have_text("Head 1.0 after step 30")
    last = shows_step(page, 30)
    expect(page.locator(".pg-guess")).to_have_count(16)

    probe = "".join(shown_run(page, "run.probe"))
    page.get_by_role("button", name="Open in the attention view").click()
    expect(page.locator(".pg-nav [data-tab=attention]")).to_have_attribute("aria-current", "page", timeout=SOON)
    expect(page.locator("#pg-header")).to_contain_text("Repeated random sequence, 30 steps", timeout=SOON)
    expect(page.locator("#prompt textarea")).to_have_value(probe)
    expect(page.locator("#model input")).to_have_value("Repeated random sequence, 30 steps")
    expect(page.locator(".pg-head")).to_have_count(4, timeout=SOON)
    expect(page.locator("#pg-map_plot h2")).to_have_text("Head 1.0")
    expect(page.locator("#pg-map_plot [data-part]")).to_have_attribute("data-run", re.compile(" 1.0$"), timeout=SOON)
    page.wait_for_function("() => document.querySelector('#pg-map_plot .pg-chart')._fullData[0].z.length === 16")
    for mine, theirs in zip(cells(page, "#pg-map_plot .pg-chart"), last, strict=True):
        assert [v for v in mine if v is not None] == pytest.approx([v for v in theirs if v is not None], abs=ROUNDING)


def test_two_runs_are_laid_over_one_another(same_page):
    page = same_page()
    first_run(page)
    if page.locator(".pg-settings [name=steps]").is_hidden():
        page.locator(".pg-settings summary").click()
    start(page, steps=6, positions="rope")
    label = "Repeated random sequence · 2×2 · {} · pre-norm · LayerNorm · {}"
    new, old = label.format("RoPE", 6), label.format("learned", 30)
    expect(page.get_by_label("Training run shown").locator("option:checked")).to_have_text(new)
    page.get_by_label("Compare with (dashed)").select_option(label=old)  # before the new one has told anything
    expect(state(page)).to_have_text("Done", timeout=SOON)
    page.wait_for_function("() => document.querySelector('.pg-curve-plot').data[2].x.length === 7", timeout=SOON)
    assert curves(page) == [
        [f"each step · {new}", "solid", 6],
        [f"training · {new}", "solid", 6],
        [f"held out · {new}", "dot", 7],
        [f"each step · {old}", "dash", 30],
        [f"training · {old}", "dash", 30],
        [f"held out · {old}", "dot", 31],
    ]
    legend = page.locator(".pg-curve-plot").first.locator(".legendtext")
    expect(legend).to_have_count(4)
    assert {dash for name, dash, _ in curves(page, 1) if name.startswith("head") and old in name} == {"dash"}
    page.get_by_label("Training run shown").select_option(label=old)
    page.wait_for_function("() => document.querySelector('.pg-curve-plot').data.length === 3", timeout=SOON)
    assert curves(page)[1] == ["training", "solid", 30]


def test_pause_resume_stop_and_the_files(open_page, tmp_path):
    page = open_page()
    open_tab(page)
    expect(page.get_by_role("button", name="Pause")).to_be_disabled()
    expect(page.get_by_role("button", name="Stop")).to_be_disabled()
    start(page, steps=20_000)
    wait_for_reports(page)
    expect(state(page)).to_have_text("Training")
    expect(page.get_by_role("button", name="Start training")).to_be_disabled()
    pause = page.get_by_role("button", name="Pause")
    pause.focus()
    wait_for_reports(page, reports(page) + 20)
    expect(pause).to_be_focused()  # news of the run leave the buttons alone
    page.keyboard.press("Enter")
    expect(state(page)).to_have_text("Paused", timeout=SOON)
    heard = reports_at_rest(page)
    assert heard > 0
    page.get_by_role("button", name="Resume").click()
    expect(state(page)).to_have_text("Training", timeout=SOON)
    wait_for_reports(page, heard)
    page.get_by_role("button", name="Stop").click()
    expect(state(page)).to_have_text("Stopped", timeout=SOON)
    expect(page.get_by_role("button", name="Start training")).to_be_enabled()
    assert shown_run(page, "run.snapshots.at(-1).step") == reports(page) < 20_000
    with page.expect_download() as got:
        page.get_by_role("link", name="Download the model").click()
    assert got.value.suggested_filename == "trained-gpt.zip"
    with zipfile.ZipFile(io.BytesIO(Path(got.value.path()).read_bytes())) as file:
        assert sorted(file.namelist()) == ["config.json", "model.safetensors", "tokenizer.json"]


def test_a_run_under_way_asks_and_survives_a_reload(open_page):
    page = open_page()
    open_tab(page)
    assert not page.evaluate(STAYS)
    start(page, steps=20_000)
    assert page.evaluate(ASKS)
    wait_for_reports(page)
    number, before = shown_run(page, "run.id"), reports(page)
    page.evaluate("() => { playground.page.leaving = true; location.reload(); }")
    page.wait_for_function(f"() => window.playground?.lab && ({RUNS})() > 0", timeout=SOON)
    assert shown_run(page, "run.id") == number
    expect(state(page)).to_have_text("Training", timeout=SOON)
    wait_for_reports(page, before)
    assert shown_run(page, "run.reports[0][0]") == 1  # from its first step
    page.get_by_role("button", name="Stop").click()
    expect(state(page)).to_have_text("Stopped", timeout=SOON)
    # A page of its own does not know it.
    other = open_page()
    open_tab(other)
    expect(other.locator("#pg-training_lab .pg-stored-note")).to_be_visible()
    assert other.evaluate(RUNS) == 0


def test_a_hostile_text_is_shown_as_text(open_page):
    page = open_page()
    open_tab(page)
    fill(page, task="text")
    page.locator(".pg-settings input[type=file]").set_input_files(
        {"name": "<img src=x onerror=alert(2)>.txt", "mimeType": "text/plain", "buffer": (HOSTILE * 60).encode()}
    )
    expect(page.locator(".pg-own p")).to_contain_text("<img src=x onerror=alert(2)>.txt, ")
    expect(page.locator(".pg-settings [name=text]")).to_have_value(HOSTILE * 60)
    run_to_its_end(page, steps=4, vocabulary=300, length=32, probe=HOSTILE.strip())
    expect(page.locator("p.pg-train-line")).to_contain_text("step 4 of 4")
    shown = "".join(page.locator(".pg-guess b").all_text_contents())
    assert shown.startswith("<img·src=x·onerror=alert(1)>") and "\u202e" not in shown
    written = page.locator(".pg-sample-text").text_content()
    assert "<img" in written
    page.locator(".pg-replay-large").get_by_role("button", name="Table").click()
    expect(page.locator(".pg-replay-large tbody tr").first).to_be_visible()
    everything = page.locator("#pg-training_lab").text_content()
    assert "onerror=alert" in everything
    assert page.locator("img[src=x], #pg-training_lab script, #pg-training_lab img").count() == 0
    assert page.locator(".pg-replay-large .xtick").count() > 5
    page.get_by_role("button", name="Open in the attention view").click()
    expect(page.locator("#pg-header")).to_contain_text("Own text, 4 steps", timeout=SOON)
    expect(page.locator("#prompt textarea")).to_have_value(re.compile("^<img src=x"))
    assert page.locator("img[src=x]").count() == 0


def test_settings_sent_past_the_form_are_refused(open_page):
    page = open_page()
    open_tab(page)

    def send(event, value):
        page.evaluate("([event, value]) => playground.lab.send(event, value)", [event, value])

    alert = page.locator("#pg-training_lab").get_by_role("alert")
    send("start", {"layers": 99})
    expect(alert).to_have_text(
        "A setting is out of bounds on this server. (layers: 99) Choose a value from 1 to 6.", timeout=SOON
    )
    send("start", {"task": "<img src=x>"})
    expect(alert).to_contain_text("No task has this name. (<img src=x>) Choose one of: induction", timeout=SOON)
    for event in ("pause", "resume", "stop", "again", "open"):
        for value in ({"run": "nobody's"}, [1], "x"):
            send(event, value)
    send("start", "no object")
    expect(alert).to_have_text("These settings are not valid for a model. Change the settings.", timeout=SOON)
    expect(page.locator(".pg-stored-note:visible")).to_be_visible()
    assert page.locator("[data-testid=toast-body]").count() == 0


def test_closing_the_page_stops_its_run(open_page):
    first, second = open_page(), open_page()
    for page in (first, second):
        open_tab(page)
    start(first, steps=20_000)
    fill(second, **SMALL, steps=3)
    second.get_by_role("button", name="Start training").click()
    told = second.locator(".pg-train-status")
    expect(told).to_contain_text("Another training run is in progress", timeout=SOON)
    expect(told.get_by_role("alert")).to_be_visible()
    assert second.evaluate(RUNS) == 0
    first.close()
    for _ in range(30):
        second.get_by_role("button", name="Start training").click()
        with contextlib.suppress(too_late()):
            second.wait_for_function(f"() => ({RUNS})() > 0", timeout=2000)
            break
    expect(state(second)).to_have_text("Done", timeout=SOON)
    expect(told.get_by_role("alert")).to_have_count(0)
