"""Gradio's sign that the page is loading: its frames of nothing end, and nobody else's do."""

import pytest

pytestmark = pytest.mark.browser

# Frames that `movers` ask for in a second, after the end of the sign; each asks for every frame, as the sign does.
FRAMES = """async (movers) => {
  const frames = Array(movers).fill(0);
  frames.forEach((_, n) => {
    const move = () => {
      frames[n] += 1;
      requestAnimationFrame(move);
    };
    move();
  });
  module.endSign();
  await new Promise((done) => setTimeout(done, 1000));
  const before = [...frames];
  await new Promise((done) => setTimeout(done, 1000));
  return frames.map((count, n) => count - before[n]);
}"""


def test_the_sign_ends_where_it_is_alone(call):
    assert call("page/server/sign.js", FRAMES, 1) == [0]


def test_what_moves_beside_it_goes_on(call):
    assert all(count > 5 for count in call("page/server/sign.js", FRAMES, 2))
