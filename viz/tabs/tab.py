"""What a tab is: how it is laid out, and what it shows of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import gradio as gr

from model.api import LanguageModel
from model.trace import Trace
from viz.tabs.context import Playground


@dataclass(frozen=True)
class Scene:
    """What a tab draws: one run of one model, in the reader's language, with the selection."""

    model: LanguageModel
    trace: Trace
    run: str
    words: Mapping[str, str]
    head: tuple[int, int]
    fresh: bool  # the page shows another run, or nothing yet


@dataclass(frozen=True, eq=False)
class Shared:
    """What the tabs share with the page: its components, for tabs that have events of their own."""

    playground: Playground
    picker: gr.Dropdown
    prompt: gr.Textbox
    tabs: gr.Tabs
    told: gr.HTML  # the notice
    loaded: gr.State
    wanted: gr.State
    language_of: Callable[[gr.Request], str]


@dataclass(frozen=True)
class Tab:
    """An entry of TABS. Parts are components of viz/tabs/parts.py, by names that are unique on the page."""

    key: str  # its label is the word "tab.<key>"
    build: Callable[[Mapping[str, dict]], dict[str, gr.HTML]]  # first payloads -> the parts, laid out
    fixed: Callable[[Mapping[str, str]], dict[str, dict]]  # words -> payloads that depend on nothing else
    draw: Callable[
        [Scene, Mapping[str, object]], dict[str, dict]
    ]  # a run and the parts' values -> payloads that change
    parts: tuple[str, ...]
    asks: tuple[str, ...] = ()  # parts whose "select" asks for a new drawing; `draw` gets their values
    wire: Callable[[Mapping[str, gr.HTML], Shared], None] | None = None  # events beyond the page's one pipeline
