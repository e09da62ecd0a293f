"""A bar for a prompt that takes long: it comes with the report, goes with the answer, and asks less where none runs."""

import pytest

pytestmark = pytest.mark.browser

# What the page is told at each look, and what it then shows; answers are due until `due` looks were made. `asks`: when
# questions are asked, in milliseconds, by number.
SCENE = """async (module, reports, due, lasts, asks = { 1: 0, 2: 0 }) => {
  document.body.replaceChildren();
  let looks = 0;
  const seen = [], at = [], begun = performance.now();
  const waiting = () => looks < due;
  const ask = async (url, { cache }) => {
    at.push([Math.round(performance.now() - begun), url, cache]);
    const report = reports[Math.min(looks++, reports.length - 1)];
    await new Promise((done) => setTimeout(done, 60));
    return new Response(report === null ? "?" : JSON.stringify(report), { status: report === null ? 503 : 200 });
  };
  const words = { running: "layer {done} of {total}", running_left: "{seconds} s left" };
  const { asked } = module.tellOfRuns(waiting, ask, words);
  for (const [question, when] of Object.entries(asks)) setTimeout(() => asked({ session_hash: "s", question }), when);
  const every = setInterval(() => {
    const box = document.querySelector(".pg-running");
    seen.push(box && !box.hidden ? `${box.textContent} ${box.querySelector("progress").value}` : "");
  }, 20);
  await new Promise((done) => setTimeout(done, lasts));
  clearInterval(every);
  return [seen.filter((text, n) => text !== seen[n - 1]), at];
}"""


def told(call, reports, due, lasts, *asks):
    return call("page/server/running.js", f"({SCENE}).bind(null, module)", reports, due, lasts, *asks)


def test_a_bar_moves_while_the_prompt_runs_and_goes_with_the_answer(call):
    reports = [{"done": 0, "total": 4, "seconds": 1.1}, {"done": 1, "total": 4, "seconds": 2.0}, {}]
    seen, at = told(call, reports, 3, 2400)
    assert seen == ["", "layer 1 of 4 0", "layer 2 of 46 s left 0.25", ""]
    assert [look[1:] for look in at] == [["playground/running?session_hash=s&question=2", "no-store"]] * 3
    assert at[0][0] >= 240  # what is answered at once is never asked about


def test_a_run_that_has_just_begun_is_looked_at_often_and_not_told_of(call):
    seen, at = told(call, [{"done": 1, "total": 4, "seconds": 0.3}], 4, 2000)
    assert seen == [""] and len(at) == 4 and at[3][0] - at[0][0] < 1500


@pytest.mark.parametrize("report", [{}, None])
def test_where_no_run_is_under_way_nothing_is_shown_and_the_looks_become_rare(call, report):
    seen, at = told(call, [report], 99, 4500)
    assert seen == [""]
    assert len(at) == 4 and at[3][0] - at[2][0] > 1.5 * (at[2][0] - at[1][0])


# A part of the page, and what it was given to draw, one after the other; `shown` is there already.
PART = """async (module, mount, reports, asks, shown, behind) => {
  const { define, mountPart } = await import(mount);
  const drawn = [], root = document.createElement("div"), block = document.createElement("div");
  define("noting", () => (payload) => drawn.push(payload.title));
  root.dataset.part = "map_plot";
  block.append(root);
  const entry = mountPart("noting", root, {}, () => {});
  if (shown) entry.show(shown);
  const others = Object.fromEntries(["header", "tokens", "nav"].map((name) => {
    const other = document.createElement("div");
    other.dataset.part = name;
    document.documentElement.append(other); // the scene empties the body
    return [name, mountPart("noting", other, {}, () => {})];
  }));
  const pale = () => Object.keys(others).filter((name) => "behind" in others[name].root.dataset);
  for (const each of Object.values(others)) each.show({ title: "as the page came" });
  const states = [], every = setInterval(() => states.push(pale().join()), 20);
  drawn.splice(shown ? 1 : 0);
  await (SCENE)(module, reports, 2, 900, asks);
  clearInterval(every);
  for (const { root } of Object.values(others)) root.remove();
  return behind ? [...states.filter((state, n) => state !== states[n - 1]), pale().join()] : drawn;
}"""


@pytest.fixture
def drawn(call, address):
    mount, script = f"/{address[1].address('page/mount.js')}", PART.replace("SCENE", SCENE)

    def drawn(reports, asks, shown=None, *, behind=False):
        return call("page/server/running.js", f"({script}).bind(null, module)", mount, reports, asks, shown, behind)

    return drawn


MAP = {"run": "a 1", "title": "early", "scene": "a"}
EARLY = {"done": 1, "total": 4, "seconds": 0.3, "parts": {"map_plot": MAP, "gone": {}}}


def test_a_picture_that_comes_before_the_answer_is_drawn(drawn):
    assert drawn([EARLY, {}], {"1": 0}) == ["early"]


def test_a_picture_that_the_answer_brought_meanwhile_is_not_drawn_again(drawn):
    assert drawn([EARLY, {}], {"1": 0}, {"run": "a 1", "title": "answer"}) == ["answer"]
    assert drawn([EARLY, {}], {"1": 0}, {"run": "a 0", "title": "before"}) == ["before", "early"]


def test_a_picture_of_a_question_that_is_no_longer_the_last_is_not_drawn(drawn):
    assert drawn([EARLY, {}], {"1": 0, "2": 280}) == []


def test_what_is_of_the_run_before_is_pale_until_the_answer(drawn):
    assert drawn([EARLY, {}], {"1": 0}, behind=True) == ["", "header,tokens", "", ""]
    assert drawn([EARLY, {}], {"1": 0}, MAP | {"title": "answer"}, behind=True) == ["", ""]
