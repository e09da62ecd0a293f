"""A prompt that takes long: a bar that tells of it, and pictures that come before the answer."""

import pytest

pytestmark = pytest.mark.browser

# What the bar shows after each report; None hides it.
BAR = """async (path, reports) => {
  const meta = document.createElement("meta");
  meta.id = "pg-connection-words";
  const words = { running: "layer {done} of {total}", running_left: "{seconds} s left" };
  meta.content = JSON.stringify({ server: "s", words: { en: words } });
  document.head.append(meta);
  const { runBar } = await import(path);
  return reports.map((report) => {
    if (report) runBar.show(report);
    else runBar.hide();
    const box = document.querySelector(".pg-running");
    return box && !box.hidden ? `${box.textContent} ${box.querySelector("progress").value}` : "";
  });
}"""


def test_a_bar_moves_while_the_prompt_runs_and_goes_with_the_answer(call, address):
    reports = [
        {"done": 0, "total": 4, "seconds": 0.9},  # it has just begun
        {"done": 0, "total": 4, "seconds": 1.1},
        {"done": 1, "total": 4, "seconds": 2.0},
        None,
    ]
    seen = call("page/dom.js", f"({BAR})", f"/{address[1].address('page/server/running.js')}", reports)
    assert seen == ["", "layer 1 of 4 0", "layer 2 of 46 s left 0.25", ""]


# A part of the page and others beside it: what is drawn of an early picture, and which of the others are pale then.
EARLY = """(shown, early) => {
  document.body.replaceChildren();
  const drawn = [];
  const part = (name) => {
    const root = document.createElement("div"), block = document.createElement("div");
    root.dataset.part = name;
    block.append(root);
    document.body.append(block);
    return module.mountPart("noting", root, {}, () => {});
  };
  module.define("noting", (root) => (payload) => root.dataset.part === "map_plot" && drawn.push(payload.title));
  const entry = part("map_plot"), others = ["header", "tokens", "nav"].map(part);
  if (shown) entry.show(shown);
  module.showEarly(early);
  const pale = () => others.filter(({ root }) => "behind" in root.dataset).map(({ root }) => root.dataset.part);
  const before = pale();
  module.caughtUp();
  return [drawn, before, pale()];
}"""
MAP = {"run": "a 1", "title": "early", "scene": "a"}
BOTH = ["header", "tokens"]


def test_a_picture_that_comes_before_the_answer_is_drawn_and_the_run_before_is_pale(call):
    assert call("page/mount.js", EARLY, None, {"map_plot": MAP, "gone": {}}) == [["early"], BOTH, []]
    before = {"run": "a 0", "title": "before"}
    assert call("page/mount.js", EARLY, before, {"map_plot": MAP}) == [["before", "early"], BOTH, []]


def test_a_picture_that_is_there_already_is_not_drawn_again(call):
    answer = {"run": "a 1", "title": "answer"}
    assert call("page/mount.js", EARLY, answer, {"map_plot": MAP}) == [["answer"], [], []]
