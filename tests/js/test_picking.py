"""What a click picks, where heads stand, and whose a written text is, as the scripts work it out."""

import numpy as np
import pytest

pytestmark = pytest.mark.browser


# --- texts that were written ---


@pytest.mark.parametrize(
    ("model", "key", "word"),
    [("a", "1", ""), ("a", "2", "other_prompt"), ("b", "1", "other_model"), ("b", "2", "other_model")],
)
def test_a_text_says_whether_the_prompt_or_the_model_is_another(call, model, key, word):
    row, shown = {"model": "a", "key": "1"}, {"model": model, "key": key}
    assert call("views/sampling/side_by_side/state.js", "module.whose", row, shown) == word


# --- what is picked ---


@pytest.mark.parametrize(
    ("places", "at", "add", "now"),
    [
        ([], 2, False, [2]),
        ([1, 3], 2, False, [2]),  # replaces
        ([1, 2], 2, False, [2]),
        ([2], 2, False, []),
        ([1, 3], 2, True, [1, 3, 2]),  # joins
        ([1, 2], 2, True, [1]),
    ],
)
def test_a_click_on_a_token_replaces_or_with_a_key_adds(call, places, at, add, now):
    assert call("page/selection/selection.js", "module.toggled", places, at, add) == now


# Two rows of next tokens with their buttons; after each click, which buttons are pressed and which pairs stay in sight.
WATCHED = """() => {
  const both = [3, 5].map((id) => module.watchButtons(id, `token ${id}`));
  document.body.replaceChildren(...both);
  const seen = () => both.map((each) => [
    [...each.children].map((button) => button.getAttribute("aria-pressed") === "true"),
    each.classList.contains("pg-watch-taken"),
  ]);
  const found = [seen()];
  for (const [row, button] of [[0, 0], [1, 1], [1, 0], [1, 0]]) {
    both[row].children[button].click();
    found.push(seen());
  }
  return [...found, [3, 5].map((id) => module.watchButtons(id, "")).map((each) => each.className)];
}"""


def test_the_buttons_of_the_target_and_the_distractor_are_pressed_and_stay_in_sight(call):
    none, target, distractor = [[False, False], False], [[True, False], True], [[False, True], True]
    assert call("page/selection/watched.js", WATCHED) == [
        [none, none],
        [target, none],
        [target, distractor],
        [none, target],  # one token cannot be both
        [none, none],
        ["pg-watch", "pg-watch"],
    ]


# --- all heads ---


def test_layers_run_down_and_heads_across(call):
    code = """(shape, ...size) => {
        const plan = module.byPlace(shape, ...size), name = (at) => [Math.floor(at / shape.heads), at % shape.heads];
        const places = Array.from({ length: shape.layers * shape.heads }, (_, at) => plan.place(at));
        return { places, down: name(plan.walk(1).ArrowDown) };
    }"""
    found = call("views/attention/overview_layout.js", code, {"layers": 2, "heads": 3, "group": 1}, 600, 300)
    x, y = (np.array([place[axis] for place in found["places"]]).reshape(2, 3) for axis in "xy")
    assert (np.diff(y, axis=0) > 0).all() and (np.diff(y, axis=1) == 0).all()  # [layer, head]
    assert (np.diff(x, axis=1) > 0).all() and (np.diff(x, axis=0) == 0).all()
    assert found["down"] == [1, 1]  # from head 0.1
