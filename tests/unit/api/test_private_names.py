"""Settings of Gradio that have no public name."""

import gradio as gr

from viz.api.private_names import look_less_often


def test_an_idle_queue_rests():
    with gr.Blocks() as page:
        gr.Textbox()
    page.queue()
    queue = page._queue
    calls, progress = queue.sleep_when_free, queue.progress_update_sleep_when_free
    look_less_often(page)
    assert calls < queue.sleep_when_free <= 0.02 and progress < queue.progress_update_sleep_when_free
