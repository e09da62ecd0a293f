"""The state in the address: a link opened elsewhere, back and forward, files, and what is too long for a link."""

import json

import pytest

from tests.browser.conftest import FIRST, blank_page
from tests.support.visitor import SOON, expect, open_tab

pytestmark = pytest.mark.browser

PROMPT = "Once upon a time there was a cat"
SETTLED = "() => window.playground?.page?.shown && !playground.page.restoring"
STATE = "playground.state()"
# What a visitor sees: runs, controls, chips, strategies.
SEEN = """() => {
  const all = (selector, of) => [...document.querySelectorAll(selector)].filter((node) => node.offsetParent).map(of);
  return {
    runs: all("[data-run]", (node) => `${node.dataset.part} ${node.dataset.run}`),
    tabs: all("button[role=tab][aria-selected=true]", (node) => node.textContent),
    chips: all("#pg-tokens .pg-chip[aria-pressed=true]", (node) => node.textContent),
    selected: all(".pg-selected", (node) => node.textContent),
    settings: all("[data-part] :is(select, input)", (node) => [node.type, node.value, node.checked]),
    strategies: all(".pg-strat-open", (node) => node.textContent),
    prompt: document.querySelector("#prompt textarea").value,
  };
}"""


def settle(page):
    page.wait_for_function(SETTLED, timeout=SOON)


def until(page, script: str, arg=None):
    page.wait_for_function(script, arg=arg, timeout=SOON)


def view_of(page, name: str):
    page.get_by_role("tab", name=name, exact=True).click()


def picture(page, many: int):
    """What a page shows once its last question is answered."""
    settle(page)
    until(page, f"() => document.querySelectorAll('.pg-strat-open').length === {many}")
    return page.evaluate(SEEN)


def test_a_link_opened_elsewhere_shows_the_same(open_page):
    page = open_page("", ready=FIRST)
    settle(page)
    assert page.evaluate("location.hash") == ""  # an untouched page has no state to tell
    open_tab(page, "Attention")
    settle(page)
    page.locator("#prompt textarea").fill(PROMPT)
    until(page, "text => playground.page.shown.prompt === text", PROMPT)
    page.evaluate("playground.pickHead(2, 0, true)")
    page.locator("#pg-tokens .pg-chip").nth(3).click()
    page.locator("#pg-attention_view select").first.select_option(index=1)
    open_tab(page, "Sampling")
    slider = page.locator("#pg-pipeline input[type=range]").first
    slider.wait_for(timeout=SOON)
    slider.press("ArrowRight")
    view_of(page, "Many samples")
    page.get_by_role("button", name="+ Strategy").click()
    page.locator(".pg-strat-open").last.click()  # its editor is no part of the state
    page.evaluate("playground.select({ edits: [{ kind: 'scale', layer: 1, head: 2, factor: 0.5 }] })")
    for name in ("edits", "strategies", "pipeline", "attention_view", "tokens", "2.0"):
        until(page, "name => location.hash.includes(name)", name)
    until(page, "() => document.querySelector('#pg-many_samples_job [data-part]')?.dataset.state === 'idle'")
    link = page.url
    assert "?" not in link and not page.evaluate("location.search")  # nothing of it goes to a server

    # A link starts no job, and names what it was made of.
    other = open_page(link.split("/", 3)[3], ready="#pg-strategies [data-count]")
    shown = picture(other, 5)
    until(other, f"(seen) => JSON.stringify(({SEEN})()) === seen", json.dumps(page.evaluate(SEEN), **TIGHT))
    assert shown["chips"] == ["·time"] and shown["prompt"] == PROMPT
    assert len(shown["selected"]) == 4 and shown["strategies"] == page.evaluate(SEEN)["strategies"]
    assert other.evaluate(STATE) == page.evaluate(STATE)
    assert other.url == link
    expect(other.locator("#pg-many_samples_job [data-part]")).to_have_attribute("data-state", "idle")
    # Parts that come onto the page later know of it, too.
    for each in (page, other):
        view_of(each, "The distribution")
        until(each, "() => document.querySelector('#pg-distribution_table [data-run]')")
        until(each, "() => document.querySelector('#pg-pipeline input[type=number]').offsetParent")
    assert page.locator("#pg-pipeline input[type=number]").first.input_value() != "0.8"
    inputs = "[...document.querySelectorAll('#pg-pipeline input')].map(({ value }) => value)"
    assert other.evaluate(inputs) == page.evaluate(inputs)
    open_tab(other, "Attention")
    expect(other.locator("#pg-attention_view select").first).to_have_value(
        page.evaluate("playground.state().values.attention_view.measure")
    )
    # A reload is the same page again; the link to the other language keeps the state.
    before = other.evaluate(STATE)
    until(other, "() => location.hash.includes('tab=attention')")
    open_page.reload(other)
    settle(other)
    until(other, "before => JSON.stringify(playground.state()) === before", json.dumps(before, **TIGHT))
    assert other.locator(".pg-language").get_attribute("href").endswith(other.evaluate("location.hash"))
    assert "lang=zh" in other.locator(".pg-language").get_attribute("href")


TIGHT = {"separators": (",", ":"), "ensure_ascii": False}


@pytest.mark.long
def test_back_and_forward_files_and_what_is_too_long(open_page, tmp_path):
    page = open_page("?lang=en", ready=FIRST)
    settle(page)

    def at(tab: str, prompt: str, heads: int):
        until(
            page,
            "([tab, prompt, heads]) => { const now = playground.state();"
            " return now.tab === tab && now.prompt.startsWith(prompt) && now.heads.length === heads; }",
            [tab, prompt, heads],
        )
        settle(page)
        expect(page.locator("#prompt textarea")).to_have_value(page.evaluate("playground.state().prompt"))
        expect(page.locator(".pg-selected")).to_have_count(heads)

    def written(part: str):
        until(page, "part => location.hash.includes(part)", part)

    open_tab(page, "Heads")
    written("tab=heads")
    page.locator("#prompt textarea").fill(PROMPT)
    written("Once+upon")
    page.evaluate("playground.pickHead(0, 1, true)")
    written(",0.1")
    page.go_back()
    at("heads", "Once", 1)
    page.go_back()
    at("heads", "The cat", 1)
    page.go_back()
    at("start", "The cat", 1)
    assert page.evaluate("location.hash") == ""
    for tab, prompt, heads in (("heads", "The cat", 1), ("heads", "Once", 1), ("heads", "Once", 2)):
        page.go_forward()
        at(tab, prompt, heads)

    # The box, by keyboard; a file holds the same.
    share, box = (
        page.get_by_role("button", name="Share", exact=True),
        page.get_by_role("dialog", name="Share what you see"),
    )
    share.focus()
    share.press("Enter")
    expect(box.get_by_role("textbox", name="Link")).to_have_value(page.url)
    with page.expect_download() as download:
        box.get_by_role("button", name="Save state file").press("Enter")
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    assert saved.name == "attention-tinygpt-heads.json"
    assert json.loads(saved.read_text()) == page.evaluate(STATE)
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()
    expect(share).to_be_focused()

    # A prompt from another world: what is too long for a link stays out of the address, and a reload finds it.
    open_tab(page, "Compare")
    page.locator("#pg-run_b textarea, #pg-run_b input[type=text]").first.fill("x " * 4500)
    until(page, "() => location.hash === ''")
    share.click()
    expect(box).to_contain_text("too long for a link")
    expect(box.get_by_role("button", name="Copy link")).to_be_hidden()
    until(page, "() => history.state?.playground?.values?.run_b")
    kept = page.evaluate(STATE)
    page.reload()
    settle(page)
    until(page, "kept => JSON.stringify(playground.state()) === kept", json.dumps(kept, **TIGHT))

    # Files: what is none says so; the one saved above is opened as a step of its own.
    share.click()
    file, told = page.locator("#pg-share-box input[type=file]"), box.get_by_role("status")
    for content, says in (("{", "not JSON"), ("[]", "not a state file"), ('{"v": 2}', "newer version")):
        file.set_input_files({"name": "x.json", "mimeType": "application/json", "buffer": content.encode()})
        expect(told).to_contain_text(says)
    many = json.dumps({"v": 1, "values": {"chat": {"a": [0] * 20_000}}}).encode()
    file.set_input_files({"name": "many.json", "mimeType": "application/json", "buffer": many})
    expect(told).to_contain_text("more than 20,000 entries")
    file.set_input_files({"name": "big.json", "mimeType": "application/json", "buffer": b" " * (1 << 20) + b"{}"})
    expect(told).to_contain_text("larger than 1 MB")
    file.set_input_files(saved)
    expect(told).to_contain_text(f"Opened {saved.name}")
    at("heads", "Once", 2)
    page.go_back()
    until(page, "() => playground.state().tab === 'compare' && location.hash === ''")
    settle(page)

    # A stranger's link: nothing of it is trusted, the page works on, and what is not here waits for a click.
    values = {
        "attention_view": {"measure": 7, "of": {}},
        "strategies": {"strategies": "x"},
        "map_plot": {"run": 1, "window": "x"},
        "sampling_view": {"view": "constructor"},
        "draws_bar": {"u": "x"},
        "__proto__": {"x": 1},
    }
    page.evaluate(
        "values => { location.hash = `#model=gpt2&prompt=Hi%20<b>%00&tab=__proto__&heads=99.9,1.1&edits=[[[&"
        "values=${encodeURIComponent(values)}`; }",
        json.dumps(values),
    )
    linked = page.locator("#pg-linked")
    expect(linked.get_by_text("This link uses gpt2, which is not loaded here.")).to_be_visible()
    settle(page)
    assert page.evaluate("playground.page.shown.model") == "tinygpt"
    page.evaluate("document.getElementById('pg-share-box').hidePopover()")  # it lies over what comes now
    linked.get_by_role("button", name="Keep the current model").click()
    expect(linked).to_be_hidden()
    open_tab(page, "Sampling")
    page.locator("#pg-pipeline input[type=range]").first.wait_for(timeout=SOON)
    for name in ("Draws", "Many samples"):
        view_of(page, name)
    expect(page.locator(".pg-strat-open")).to_have_count(4)
    until(page, "() => !location.hash.includes('__proto__') && !location.hash.includes('gpt2')")


def test_a_link_that_is_answered_before_the_prompt_box_is_there_is_shown(profile, app_url):
    page = blank_page(profile)
    page.add_init_script("""
      const find = document.querySelector.bind(document);
      window.late = true;
      document.querySelector = (name) => (window.late && name.startsWith("#prompt ") ? null : find(name));
    """)
    with page.expect_response("**/playground/link"):
        page.goto(f"{app_url}#model=tinygpt&prompt={PROMPT.replace(' ', '+')}")
    page.wait_for_timeout(300)  # the answer is handled
    page.evaluate("window.late = false")
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT)
    settle(page)
    assert page.evaluate("playground.page.shown.prompt") == PROMPT
    page.close()
