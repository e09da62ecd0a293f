"""Copies of what the framework's components hold: as before, but that texts are themselves and functions refused."""

import pytest

pytestmark = pytest.mark.browser

COPY = "function (value) { const copy = structuredClone(value); return [copy, copy === value]; }"
OF_FUNCTION = """function () {
  try {
    return structuredClone(() => 1);
  } catch (error) {
    return [error.name, error.constructor.name];
  }
}"""
DEEP = """function () {
  const inner = [1], value = { inner, when: new Date(0), map: new Map([["a", inner]]) }, copy = structuredClone(value);
  return [copy.inner !== inner, copy.map.get("a") === copy.inner, copy.when.getTime()];
}"""


@pytest.mark.parametrize("value", ["a text", "", 0, 1.5, True, None])
def test_what_nothing_can_change_is_its_own_copy(call, value):
    assert call("page/server/copies.js", COPY, value) == [value, True]


COUNTED = """async function (path) {
  const native = structuredClone, taken = [];
  window.structuredClone = (value) => { taken.push(typeof value); return native(value); };
  await import(path);
  for (const value of ["a text", true, 1, undefined, null, { a: "b" }]) structuredClone(value);
  try { structuredClone(() => 1); } catch {}
  return taken;
}"""


def test_only_objects_reach_the_browser_s_own(call, address):
    _, assets = address
    assert call("page/dom.js", COUNTED, f"/{assets.address('page/server/copies.js')}#of its own") == ["object"]


def test_an_object_is_copied_whole_and_a_function_refused(call):
    assert call("page/server/copies.js", COPY, {"a": [1, "b"]}) == [{"a": [1, "b"]}, False]
    assert call("page/server/copies.js", DEEP) == [True, True, 0]
    assert call("page/server/copies.js", OF_FUNCTION) == ["DataCloneError", "DOMException"]
    symbol = "() => { try { structuredClone(Symbol()); } catch (e) { return e.name; } }"
    assert call("page/server/copies.js", symbol) == "DataCloneError"
