"""The line that says which pages of a browser are open: one for all, without a gap, and opened again when it ends."""

import pytest

pytestmark = pytest.mark.browser

# A server that keeps the lines it holds, each a list of visits; `do` is a list of steps, after each of which the lines
# that are open are noted.
SCENE = """async (line, steps) => {
  const open = new Map(), ends = new Map(), noted = [];
  const gaps = [];
  let lost = 0, refuses = 0, n = 0;
  const here = () => new Set([...open.values()].flat());
  const all = line(async (visits, signal) => {
    if (refuses > 0) { refuses--; throw new TypeError("no server"); }
    const id = n++;
    open.set(id, visits);
    let to = null;
    const body = new ReadableStream({ start(stream) { to = stream; to.enqueue(new Uint8Array(1)); } });
    ends.set(id, () => { open.delete(id); to.close(); });
    signal.addEventListener("abort", () => {
      open.delete(id);
      ends.delete(id);
      gaps.push([...here()]);
      to.error(signal.reason);
    });
    return new Response(body);
  }, () => lost++, 5);
  const rest = () => new Promise((done) => setTimeout(done, 60));
  for (const [what, of] of steps) {
    if (what === "end") { for (const end of ends.values()) end(); ends.clear(); }
    else if (what === "refuse") refuses = of;
    else for (const visit of of) all[what](visit);
    await rest();
    noted.push([[...open.values()], lost]);
  }
  return [noted, gaps];
}"""


@pytest.fixture
def lines(call):
    return lambda *steps: call("page/server/line.js", f"(...steps) => ({SCENE})(module.line, steps)", *steps)


def test_one_line_names_all_who_are_there(lines):
    noted, gaps = lines(["add", ["a"]], ["add", ["b", "c"]], ["add", ["b"]], ["remove", ["a", "nobody"]])
    assert noted == [[[["a"]], 0], [[["a", "b", "c"]], 0], [[["a", "b", "c"]], 0], [[["b", "c"]], 0]]
    for still in gaps:  # when a line is let go, another names those who stay
        assert {"b", "c"} <= set(still) or "a" in still


def test_who_stays_never_seems_to_leave(lines):
    _, gaps = lines(["add", ["a"]], ["add", ["b"]], ["remove", ["b"]])
    assert [("a" in still) for still in gaps] == [True, True]


def test_the_last_page_takes_the_line_with_it(lines):
    noted, _ = lines(["add", ["a"]], ["remove", ["a"]], ["add", ["b"]])
    assert noted == [[[["a"]], 0], [[], 0], [[["b"]], 0]]


def test_a_line_that_ends_is_told_and_opened_again(lines):
    noted, _ = lines(["add", ["a", "b"]], ["end", None], ["refuse", 2], ["end", None])
    assert noted == [[[["a", "b"]], 0], [[["a", "b"]], 1], [[["a", "b"]], 1], [[["a", "b"]], 4]]


def test_a_line_names_the_newest_where_there_are_too_many(lines):
    names = [f"v{n}" for n in range(300)]
    ((held,), lost), *_ = lines(["add", names])[0]
    assert held == names[-256:] and lost == 0
