"""Is this right? Checks that anyone can run on the model and the prompt in front of them."""

from collections.abc import Mapping

import gradio as gr

from viz.tabs.parts import part
from viz.tabs.tab import Picture, Scene, Tab, Values
from viz.words import section


def build(first: Mapping[str, dict]) -> dict[str, gr.HTML]:
    """The question and how to read it."""
    return {name: part(name, first.get(name), kind=name.removeprefix("checks_")) for name in PARTS}


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What depends on the language only."""
    howto = {"title": words["howto.title"], "parts": section(words, "howto_checks")}
    return {"checks_question": {"text": words["tab.checks_question"]}, "checks_howto": howto}


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The checks of this run."""
    return {}


PARTS = ("checks_question", "checks_howto")
TAB = Tab("checks", build, fixed, draw, parts=PARTS)
