"""A bar for a prompt that takes long: it comes with the report, goes with the answer, and asks less where none runs."""

import pytest

pytestmark = pytest.mark.browser

# What the page is told at each look, and what it then shows; answers are due until `due` looks were made.
SCENE = """async (module, reports, due, lasts) => {
  document.body.replaceChildren();
  let looks = 0;
  const seen = [], at = [], begun = performance.now();
  const waiting = () => looks < due;
  const ask = async (url, { cache }) => {
    at.push([Math.round(performance.now() - begun), url, cache]);
    const report = reports[Math.min(looks++, reports.length - 1)];
    return new Response(report === null ? "?" : JSON.stringify(report), { status: report === null ? 503 : 200 });
  };
  const words = { running: "layer {done} of {total}", running_left: "{seconds} s left" };
  const { asked } = module.tellOfRuns(waiting, ask, words);
  asked();
  asked();
  const every = setInterval(() => {
    const box = document.querySelector(".pg-running");
    seen.push(box && !box.hidden ? `${box.textContent} ${box.querySelector("progress").value}` : "");
  }, 20);
  await new Promise((done) => setTimeout(done, lasts));
  clearInterval(every);
  return [seen.filter((text, n) => text !== seen[n - 1]), at];
}"""


def told(call, reports, due, lasts):
    return call("page/server/running.js", f"({SCENE}).bind(null, module)", reports, due, lasts)


def test_a_bar_moves_while_the_prompt_runs_and_goes_with_the_answer(call):
    reports = [{"done": 0, "total": 4, "seconds": 1.1}, {"done": 1, "total": 4, "seconds": 2.0}, {}]
    seen, at = told(call, reports, 3, 3200)
    assert seen == ["", "layer 1 of 4 0", "layer 2 of 46 s left 0.25", ""]
    assert [look[1:] for look in at] == [["playground/running", "no-store"]] * 3
    assert at[0][0] >= 990  # what is answered within a second is never asked about


@pytest.mark.parametrize("report", [{}, {"done": 1, "total": 4, "seconds": 0.3}, None])
def test_where_no_long_run_is_under_way_nothing_is_shown_and_the_looks_become_rare(call, report):
    seen, at = told(call, [report], 99, 5200)
    assert seen == [""]
    assert len(at) == 3 and at[2][0] - at[1][0] > 1.5 * (at[1][0] - at[0][0])
