"""A page on which two heads are picked, for tests."""

from viz.page.pipeline import PageRequest, scene_of

PROMPT = "abcabcab"


def asked(prompt=PROMPT, **changes) -> PageRequest:
    """What a page sends."""
    first = {"model_id": "tiny", "selection": None, "values": {}, "shown": {}, "language": "en", "tab": "attention"}
    return PageRequest(**{**first, "prompt": prompt, **changes})


def opened(playground, prompt=PROMPT, **selection):
    """The scene of such a page."""
    return scene_of(playground, asked(prompt, selection={"heads": [[0, 1], [2, 3]], **selection}))
