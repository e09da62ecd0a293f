"""Joined into one script, modules do what they do each for itself, and run once, whoever imports them."""

import pytest

from viz.server.joined import hand_on, join, module

TEXTS = {
    "main.js": """import "./a/first.js"; // first
import { say as told, N } from "./b.js";
import * as all from "./a/c.js";
import {
  later,
  where,
} from "./a/c.js";
ran("main");
const a = "its own";
export const seen = [told(2), N, Object.keys(all).sort(), all.where(), where(), a, typeof this];
export async function sum() {
  return (await later("./late.js")).four + (await later("../b.js")).N;
}
export function strict() {
  try { undeclared = 1; } catch (error) { return error.name; }
}
""",
    "a/first.js": 'globalThis.order = [];\nglobalThis.ran = (name) => order.push(name);\nran("first");\n',
    "b.js": """import { a } from "./a/c.js";
ran("b");
export const N = a + early();
export function say(n) { return `${n} import { x } from "./y.js"; export`; }
function early() { return 1; } // no semicolon at the end, and a comment
""",
    "a/c.js": """ran("c");
export const a = 40;
export const where = () => import.meta.url.split("/").slice(4).join("/");
export const later = (address) => import(address);
""",
    "a/late.js": 'import { N } from "../b.js";\nran("late");\nexport const four = 4 + N * 0;\n',
}
MODULES = {name: module(name, text) for name, text in TEXTS.items()}
PLACE = {name: "main.js" for name in TEXTS if name != "a/late.js"}
SENT = {name: hand_on(MODULES[name], script) for name, script in PLACE.items()} | {
    "main.js": join(MODULES, "main.js"),
    "a/late.js": join(MODULES, "a/late.js", PLACE),
}
ASK = """async (root) => {
  const main = await import(`${root}/main.js`);
  const sum = await main.sum();
  const b = await import(`${root}/b.js`), again = await import(`${root}/a/late.js`);
  return [main.seen, sum, main.strict(), b.N, b.say(1), again.four, order];
}"""


@pytest.fixture(scope="module")
def page(chromium):
    """A blank page beside the modules as they are, in /raw, and as they are sent, in /sent."""
    page = chromium.new_page()
    files = {f"/raw/{name}": text for name, text in TEXTS.items()} | {
        f"/sent/{name}": text for name, text in SENT.items()
    }

    def answer(route):
        path = route.request.url.split("blank.test", 1)[1]
        route.fulfill(body=files.get(path, ""), content_type="text/javascript" if path in files else "text/html")

    page.route("**/*", answer)
    page.goto("http://blank.test/")
    yield page
    page.close()


def test_it_does_what_the_modules_do(page):
    raw, sent = (page.evaluate(ASK, f"http://blank.test/{each}") for each in ("raw", "sent"))
    assert sent == raw
    seen, total, strict, *_, order = raw
    assert order == ["first", "c", "b", "main", "late"] and (total, strict) == (45, "ReferenceError")
    assert seen[:2] == ['2 import { x } from "./y.js"; export', 41] and seen[3:5] == ["a/c.js", "a/c.js"]


def test_what_is_handed_on_is_the_same(page):
    assert page.evaluate(
        """async () => {
          const { modules } = await import("/sent/main.js"), b = await import("/sent/b.js");
          return b.say === modules["b.js"].say;
        }"""
    )
