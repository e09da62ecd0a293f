"""The page's questions: none is sent before all that it names is on the page."""

import json

import pytest

pytestmark = pytest.mark.browser

# Ask while the page has neither the prompt's box nor its parts; they come later.
EARLY = """async (path, mount) => {
  const meta = document.createElement("meta");
  meta.id = "pg-connection-words";
  meta.content = JSON.stringify({ server: "s", words: { en: {} } });
  document.head.append(meta);
  const { ask } = await import(path), { define, mountPart } = await import(mount);
  const asked = ask();
  await new Promise((done) => setTimeout(done, 150));
  document.body.innerHTML = '<div id="prompt"><textarea>The cat</textarea></div><div><p data-part="address"></p></div>';
  await new Promise((done) => setTimeout(done, 150));
  define("address", () => () => {});
  mountPart("address", document.querySelector("p"), {}, () => {});
  await asked;
}"""


def test_a_question_waits_for_the_prompt_s_box_and_the_page_s_parts(call, address):
    asked = []

    def answer(route):
        asked.append(json.loads(route.request.post_data))
        route.fulfill(body='{"parts": {}, "shown": {}}\n')

    call.page.route("**/playground/view*", answer)
    call.page.route("**/playground/alive", lambda route: route.fulfill(headers={"x-playground-server": "s"}))
    paths = [f"/{address[1].address(f'page/{name}.js')}" for name in ("wire/view", "mount")]
    call("page/dom.js", f"({EARLY})", *paths)
    assert [each["prompt"] for each in asked] == ["The cat"]
