"""What an event leaves as it is costs nothing.

Gradio makes every output's component anew, those that are skipped too: with all parts of the page that is a tenth of
a second a click, in which nobody else is served.
"""

import copy

import gradio as gr
from gradio.blocks import BlockFunction
from gradio.state_holder import SessionState

SKIP = gr.skip()


def leave_skipped(page: gr.Blocks) -> None:
    """Have the page hand on only the outputs that an event changes."""
    whole = page.postprocess_data

    async def changed(function: BlockFunction, found: object, state: SessionState | None) -> list:
        several = isinstance(found, list | tuple) and len(found) == len(function.outputs) > 1
        if not several or not any(_skipped(value) for value in found):
            return await whole(function, found, state)
        places = [at for at, value in enumerate(found) if function.outputs[at].stateful or not _skipped(value)]
        answer: list = [dict(SKIP) for _ in found]
        if places:
            fewer = copy.copy(function)
            fewer.outputs = [function.outputs[at] for at in places]
            values = [found[at] for at in places]
            made = await whole(fewer, values if len(values) > 1 else values[0], state)
            for at, value in zip(places, made, strict=True):
                answer[at] = value
        return answer

    page.postprocess_data = changed


def _skipped(value: object) -> bool:
    return isinstance(value, dict) and value == SKIP
