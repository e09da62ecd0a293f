"""The texts that may become functions: those that the page itself sends to Gradio, and no others."""

import pytest

from tests.support.scripts import STATIC

pytestmark = pytest.mark.browser

POLICY = (STATIC / "page/server/policy.js").read_text(encoding="utf-8")
# The text that a browser asks about where a function is made of texts.
ASKED = """(policy, later, ...texts) => {
  let asked = null;
  const trustedTypes = { createPolicy: (_name, rules) => { asked = rules; } };
  new Function("globalThis", policy)({ trustedTypes });
  const body = texts.pop();
  const whole = `(${later ? "async " : ""}function anonymous(${texts}\\n) {\\n${body}\\n})`;
  return asked.createScript(whole) === whole;
}"""
GIVEN = ["element", "trigger", "props", "server", "upload", "watch"]
MOUNT = "playground.mount('a', element, props, trigger); /* 'put' */"


def may(call, *texts: str, later: bool = False) -> bool:
    return call("page/dom.js", f"({ASKED})", POLICY, later, *texts)


@pytest.mark.parametrize(
    "texts",
    [
        (r'  return "<div class=\"a\">\n</div>";' + "\n",),
        ("value", "return `<p>$5</p>`;"),
        ("return ``;",),
        (*GIVEN, MOUNT),
        (*GIVEN, "playground.screen(element, props);"),
    ],
)
def test_the_page_s_own_texts_become_functions(call, texts):
    assert may(call, *texts)


@pytest.mark.parametrize(
    "texts",
    [
        ("return `${window.pwned = 1}`;",),
        (r"return `\x3cimg src=x>`;",),
        ("return `a` + `b`;",),
        ('return "a" + (window.pwned = 1) + "b";',),
        ('return "a"; window.pwned = 1; return "b";',),
        ("return this",),
        ("window.pwned = 1",),
        (*GIVEN, f"{MOUNT} window.pwned = 1; /* */"),
        (*GIVEN, MOUNT.replace("/*", "window.pwned = 1; /*")),
        (*GIVEN, MOUNT.replace("mount", "then")),
        ("element = window.pwned = 1", MOUNT),
        ("",),
    ],
)
def test_no_other_text_does(call, texts):
    assert not may(call, *texts)


def test_what_a_listener_does_is_one_call_of_the_page(call):
    text = "return (\n() => playground.opened('start')\n);"
    known = ("() => playground.ask()", "(id) => playground.choose(id)", "() => playground.put()")
    for each in (text, *(f"return (\n{each}\n);" for each in known)):
        assert may(call, each, later=True)
    others = [text + " ", text.replace("start", "a');alert('"), text.replace("opened", "state")]
    others += [f"return (\n{more}\n);" for more in ("(id) => playground.choose(event)", "() => playground.ask(),1")]
    for each in others:
        assert not may(call, each, later=True)


def test_a_script_comes_from_this_server_or_not_at_all(call):
    code = """(policy) => {
        let asked = null;
        new Function("globalThis", policy)({ trustedTypes: { createPolicy: (_, rules) => { asked = rules; } } });
        return ["page/dom.js", "https://evil.test/x.js", "data:text/javascript,1"].map(asked.createScriptURL);
      }"""
    assert call("page/dom.js", code, POLICY) == ["page/dom.js", None, None]
