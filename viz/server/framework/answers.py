"""What stands between a request and our functions in Gradio, without what this page does not need: files above all.

Gradio looks through everything that comes in or goes out for descriptions of files, and fetches those of other
servers before any of our code runs. No function of this page takes or gives a file.
"""

import copy

import gradio as gr
from gradio import processing_utils
from gradio.blocks import Block, BlockFunction
from gradio.utils import is_prop_update


def no_files() -> None:
    """Have Gradio neither look for files nor fetch, copy or write one, whatever a request says."""

    async def unchanged(data, block, postprocess=False, check_in_upload_folder=False, keep_in_cache=False):
        return data

    processing_utils.async_move_files_to_cache = unchanged


def direct(page: gr.Blocks) -> None:
    """Hand values on as they are where Gradio's components of this page would not change them.

    * What a gr.HTML sends is taken as it is, and a new payload or value of one is sent as it is: Gradio else builds
      the component again, a millisecond for each.
    * An output that an answer leaves alone costs nothing.
    """
    whole_before, whole_after = page.preprocess_data, page.postprocess_data

    async def preprocess_data(block_fn, inputs, state, explicit_call=False):
        parts = [block for block in block_fn.inputs if not block.stateful]
        raw = not block_fn.preprocess or all(type(block) is gr.HTML for block in parts)
        if explicit_call or not raw or block_fn.component_prop_inputs:
            return await whole_before(block_fn, inputs, state, explicit_call)
        page.validate_inputs(block_fn, inputs)
        return [
            state[block._id] if block.stateful else value for block, value in zip(block_fn.inputs, inputs, strict=False)
        ]

    async def postprocess_data(block_fn, predictions, state):
        outputs = block_fn.outputs
        answers = predictions if len(outputs) > 1 else [predictions]
        if block_fn.batch or not isinstance(answers, list | tuple) or len(outputs) != len(answers):
            return await whole_after(block_fn, predictions, state)
        data: list = [None if block.stateful else gr.skip() for block in outputs]
        left = []
        for n, (block, answer) in enumerate(zip(outputs, answers, strict=True)):
            if isinstance(answer, dict) and answer == gr.skip():
                continue
            sent = _sent(block, answer)
            if sent is None:
                left.append(n)
            else:
                data[n] = sent
        if left:
            for n, answer in zip(left, await _fewer(whole_after, block_fn, left, answers, state), strict=True):
                data[n] = answer
        return data

    page.preprocess_data, page.postprocess_data = preprocess_data, postprocess_data


def _sent(block: Block, answer: object) -> dict | None:
    """What a gr.HTML is sent for a change of its value and its own properties; None for all else."""
    if type(block) is not gr.HTML:
        return None
    if isinstance(answer, gr.HTML):
        changes = answer.constructor_args
    elif isinstance(answer, dict) and is_prop_update(answer):
        changes = {name: value for name, value in answer.items() if name != "__type__"}
    else:
        return None
    props = {name: value for name, value in changes.items() if name != "value"}
    if set(props) - set(block.props):
        return None  # a property of Gradio's own
    value = {"value": changes["value"]} if "value" in changes else {}
    kind = {"__type__": "update"}  # which Gradio writes into both
    return {"props": props | kind, **value, **kind}


async def _fewer(whole, block_fn: BlockFunction, which: list[int], answers, state) -> list:
    """What Gradio sends for some of the outputs."""
    fewer = copy.copy(block_fn)
    fewer.outputs = [block_fn.outputs[n] for n in which]
    chosen = [answers[n] for n in which]
    return await whole(fewer, chosen if len(chosen) > 1 else chosen[0], state)
