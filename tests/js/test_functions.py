"""The texts that the framework makes functions of: the page's own are understood, and no others are."""

import pytest

pytestmark = pytest.mark.browser

GIVEN = ["element", "trigger", "props", "server", "upload", "watch"]
MADE = "function (...texts) { try { return module.understood(...texts)(); } catch (error) { return error.name; } }"
LATER = "function (...texts) { try { return typeof module.understoodLater(...texts); } catch (e) { return e.name; } }"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((r'  return "<div class=\"a\">\n</div>";' + "\n",), '<div class="a">\n</div>'),
        (("value", "return `<p>$5</p>`;"), "<p>$5</p>"),
        (("return ``;",), ""),
        (("return `${window.pwned = 1}`;",), "EvalError"),
        ((r"return `\x3cimg src=x>`;",), "EvalError"),
        (("return `a` + `b`;",), "EvalError"),
        (('return "a" + (window.pwned = 1) + "b";',), "EvalError"),
        (('return "a"; window.pwned = 1; return "b";',), "EvalError"),
        (("return this",), "EvalError"),
        (("window.pwned = 1",), "EvalError"),
        ((*GIVEN, "playground.mount('a', element, props, trigger, watch); window.pwned = 1; /* */"), "EvalError"),
        ((*GIVEN, "playground.mount('a', element, props, trigger, watch); /* */ window.pwned = 1; /* */"), "EvalError"),
        ((*GIVEN, "playground.then('a', element, props, trigger, watch); /* */"), "EvalError"),
        (("element = window.pwned = 1", "playground.mount('a', element, props, trigger, watch); /* */"), "EvalError"),
        ((), "EvalError"),
    ],
)
def test_a_template_is_its_text_and_nothing_else_is_run(call, texts, expected):
    assert call("page/server/functions.js", MADE, *texts) == expected
    assert call("page/server/functions.js", "() => window.pwned ?? null") is None


def test_what_a_tab_s_label_does_is_understood(call):
    text = "return (\n() => playground.opened('start')\n);"
    assert call("page/server/functions.js", LATER, text) == "function"
    for known in ("() => playground.ask()", "(id) => playground.choose(id)", "() => playground.picker()"):
        assert call("page/server/functions.js", LATER, f"return (\n{known}\n);") == "function"
    others = [text + " ", text.replace("start", "a');alert('"), text.replace("opened", "state")]
    others += [f"return (\n{more}\n);" for more in ("(id) => playground.choose(event)", "() => playground.ask(),1")]
    for other in others:
        assert call("page/server/functions.js", LATER, other) == "EvalError"
    assert call("page/server/functions.js", LATER, "a", text) == "EvalError"


@pytest.mark.parametrize(
    "source",
    [
        "Function('return 1')",
        "new Function('a', 'return a')",
        "(async () => {}).constructor('return 1')",
        "Function.apply(null, ['return 1'])",
    ],
)
def test_the_ways_to_make_a_function_of_a_text_lead_there(call, source):
    told = "function () { try { return typeof (" + source + "); } catch (error) { return error.message; } }"
    assert call("page/server/functions.js", told) == "This page makes no functions of texts."
    same = (
        "() => [(() => {}) instanceof Function, (async () => {}) instanceof Function, typeof Function.prototype.call]"
    )
    assert call("page/server/functions.js", same) == [True, True, "function"]
