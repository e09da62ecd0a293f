"""Edits of the page: undo, the mark of heads that are off, and lists that keep their order."""

import pytest

pytestmark = pytest.mark.browser
NAMES = ("selection", "history", "off", "ranking")


@pytest.fixture
def run(call, address):
    """Run a script with the modules of the selection by name: run(code)."""
    _, assets = address
    paths = [f"/{assets.address(f'page/selection/{name}.js')}" for name in NAMES]

    def run(code: str):
        whole = f"""async (paths) => {{
            const [{", ".join(NAMES)}] = await Promise.all(paths.map((path) => import(path)));
            const {{ select }} = selection, zero = (layer, head) => ({{ kind: "zero", layer, head }});
            select({{ edits: [] }});
            while (history.canUndo()) history.undo();
            document.body.replaceChildren();
            return ({code})(); }}"""
        return call.page.evaluate(whole, paths)

    return run


def test_edits_are_undone_by_a_key_outside_text_fields(run):
    code = """() => {
      const heads = () => selection.selection.edits.map(({ head }) => head), found = [];
      const press = (more) => {
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "z", bubbles: true, ...more }));
        found.push(heads());
      };
      select({ edits: [zero(0, 1)] });
      select({ edits: [zero(0, 1), zero(0, 2)] });
      const box = document.createElement("input");
      document.body.append(box);
      box.focus();
      press({ ctrlKey: true });
      box.blur();
      press({});
      for (const key of ["ctrlKey", "metaKey", "ctrlKey"]) press({ [key]: true });
      return [found, history.canUndo()];
    }"""
    assert run(code) == [[[1, 2], [1, 2], [1], [], []], False]


def test_edits_of_another_model_cannot_be_undone(run):
    code = """() => {
      select({ edits: [zero(0, 1)], of: "a" });
      select({ edits: [], of: "b" });
      return history.canUndo();
    }"""
    assert run(code) is False


def test_a_head_that_is_off_is_marked_in_lists_and_grids(run):
    code = """() => {
      const mark = off.offMark(4, 1), button = document.createElement("button");
      button.setAttribute("aria-label", "Head 4.1");
      document.body.append(mark, off.crossedOut(button, 4, 1));
      const look = () => [mark.hidden, button.classList.contains("pg-off"), button.getAttribute("aria-label")];
      const found = [look()];
      select({ edits: [zero(4, 1)] });
      found.push(look(), off.headsOff());
      select({ edits: [{ kind: "scale", layer: 4, head: 1, factor: 2 }] });
      return [...found, look()];
    }"""
    on, crossed, heads, scaled = run(code)
    assert on == scaled == [True, False, "Head 4.1"] and heads == [[4, 1]]
    assert crossed[:2] == [False, True] and crossed[2].startswith("Head 4.1, ")


def test_a_visible_list_keeps_its_order_until_it_is_ranked_again(run):
    code = """() => {
      const list = document.createElement("div"), drawn = [];
      let latest = ["a", "b"];
      const ranks = ranking.ranking(list, () => draw());
      const draw = (asked = "q") => drawn.push([ranks.of(latest, asked).join(""), ranks.node.hidden]);
      list.style.width = "100px";
      document.body.append(ranks.node, list);
      const edit = (head) => { select({ edits: [zero(0, head)] }); };
      draw();
      edit(1);
      latest = ["b", "a"];
      draw();
      ranks.node.querySelector("button").click();
      list.hidden = true;
      edit(2);
      latest = ["c"];
      draw(); // the list was hidden when the run was edited
      list.hidden = false;
      edit(3);
      latest = ["d"];
      draw("another question");
      return drawn;
    }"""
    assert run(code) == [["ab", True], ["ab", False], ["ba", True], ["c", True], ["d", True]]
