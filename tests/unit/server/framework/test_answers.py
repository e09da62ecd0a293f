"""Values on their way between a request and our functions."""

import gradio as gr
import pytest

from tests.support.models.helpers import apart
from viz.page.parts import part, update
from viz.server.framework.answers import direct


@pytest.fixture
def page():
    """A page of four parts, a text and a state, and the function that fills them."""
    with gr.Blocks() as page:
        parts = [part(f"part{n}", {"n": n}) for n in range(4)]
        box, state = gr.Textbox(), gr.State(0)
        box.change(lambda text: [gr.skip()] * 6, box, [*parts, box, state])
    return page


def answered(page, predictions):
    """What a visitor is sent. Gradio's own answer for a part that is left alone names an empty property of it."""
    (function,) = page.fns.values()
    data = apart(page.postprocess_data(function, predictions, gr.state_holder.SessionState(page)))
    return [gr.skip() if each == gr.skip() | {"props": gr.skip()} else each for each in data]


@pytest.mark.parametrize(
    "answers",
    [
        [gr.skip()] * 6,
        [update({"n": 9}), *[gr.skip()] * 5],
        [gr.skip(), update({"n": 9}), gr.skip(), update({"n": 8}), "text", 3],
        [update({"n": n}) for n in range(4)] + ["text", 3],
        gr.skip(),
    ],
    ids=["none", "one", "some", "all", "a single skip"],
)
def test_an_answer_is_as_gradio_gives_it(page, answers, monkeypatch):
    expected = answered(page, answers)
    direct(page)
    made, init = [], gr.HTML.__init__
    monkeypatch.setattr(gr.HTML, "__init__", lambda self, *a, **k: (made.append(1), init(self, *a, **k))[1])
    assert answered(page, answers) == expected
    if isinstance(answers, list):
        assert not made  # no component is built again
