"""An event hands on what it changes; what it leaves as it is reaches neither Gradio's components nor its cost."""

import gradio as gr
import pytest
from gradio.state_holder import SessionState

from tests.support.helpers import apart
from viz.page.parts import part, unpacked, update
from viz.server.skipping import SKIP, leave_skipped


@pytest.fixture
def page():
    with gr.Blocks(analytics_enabled=False) as page:
        one, two, note = part("one", {"n": 1}), part("two", {"n": 2}), gr.State("old")
        box, button = gr.Textbox("here"), gr.Button()
        button.click(lambda: None, None, [one, two, note, box])
        button.click(lambda: None, None, [one])
    return page


def answered(page, found, function=0, state=None):
    """What is sent for the outputs of an event."""
    return apart(page.postprocess_data(page.fns[function], found, state or SessionState(page)))


FOUND = (
    (update({"n": 3}), gr.skip(), gr.skip(), gr.skip()),
    (update({"n": 3}), gr.skip(), "new", "there"),
    (gr.skip(), gr.skip(), gr.skip(), "only the box"),
    (gr.skip(), gr.skip(), "new", gr.skip()),
    (gr.skip(), gr.skip(), gr.skip(), gr.skip()),
    (update({"n": 3}), update({"n": 4}), "new", gr.Textbox(label="a")),
)


@pytest.mark.parametrize("found", FOUND)
def test_what_changes_is_sent_as_ever_and_the_rest_says_that_it_stays(page, found):
    before, after = SessionState(page), SessionState(page)
    plain = answered(page, found, state=before)
    leave_skipped(page)
    sent = answered(page, found, state=after)
    assert len(sent) == len(plain) == 4
    for value, ours, theirs in zip(found, sent, plain, strict=True):
        assert ours == (SKIP if value == SKIP and theirs is not None else theirs)
    note = page.fns[0].outputs[2]._id
    assert after[note] == before[note]


def test_a_skipped_component_is_not_made_again(page):
    leave_skipped(page)
    state, (one, two, *_) = SessionState(page), page.fns[0].outputs
    answered(page, FOUND[0], state=state)
    assert state[two._id] is two and state[one._id] is not one
    assert unpacked(state[one._id]) == {"n": 3}


def test_an_event_with_one_output_and_one_that_skips_all_at_once(page):
    leave_skipped(page)
    (sent,) = answered(page, update({"n": 5}), 1)
    assert "5" in sent["props"]["payload"]
    assert all("payload" not in str(value) for value in answered(page, gr.skip()))


def test_too_few_values_are_still_an_error(page):
    leave_skipped(page)
    with pytest.raises(ValueError, match="return"):
        answered(page, (gr.skip(), gr.skip()))
