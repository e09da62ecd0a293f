"""A server that others use, for tests of what it allows: tight limits, and what a page sends."""

import dataclasses

from viz.page.pipeline import PageRequest, scene_of
from viz.work.limits import PUBLIC

PROMPT = "abcab"
TIGHT = dataclasses.replace(PUBLIC, models=("tiny",), new_tokens=8, texts=2, samples=8, drafted=16)
GREEDY = {"name": "", "method": "sample", "options": {}, "steps": []}


def scene(playground, values=None):
    return scene_of(playground, PageRequest("tiny", PROMPT, None, values or {}, {}, "en"))


def cards(texts=1, tokens=8):
    return {"strategies": [GREEDY] * texts, "settings": {"tokens": tokens}}
