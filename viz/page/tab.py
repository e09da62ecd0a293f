"""What a tab is: how it is laid out, and what it shows of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import gradio as gr

from viz.api.endpoint import Endpoint
from viz.page.background import Job
from viz.page.playground import Playground
from viz.page.scene import Scene
from viz.page.view import View


@dataclass(frozen=True, eq=False)
class Picture:
    """A part's payload, made only where its key differs from the one that the page shows."""

    key: object  # all that decides it besides the language, as something with a faithful repr
    make: Callable[[], dict]


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
    screens: Mapping[str, gr.HTML]  # by tab
    leaving: list[Callable[[str], None]] = field(default_factory=list)  # called with a visitor whose page was closed


Values = Mapping[str, object]  # of the parts that ask, by name; as untrusted as anything from a page


Plan = Callable[[Scene, Values], Job]  # what a job's button starts


@dataclass(frozen=True)
class Tab:
    """An entry of TABS. Parts are components of viz/page/parts.py, by names that are unique on the page."""

    key: str  # its label is the word "tab.<key>"
    build: Callable[[Mapping[str, dict]], dict[str, gr.HTML]]  # first payloads -> the parts, laid out
    fixed: Callable[[Mapping[str, str]], dict[str, dict]]  # words -> payloads that depend on nothing else
    draw: Callable[[Scene, Values], dict[str, Picture]]  # payloads that depend on the run or on what is asked
    parts: tuple[str, ...]
    asks: tuple[str, ...] = ()  # parts whose "select" asks for a new drawing; `draw` gets their values
    jobs: Mapping[str, Plan] = field(default_factory=dict)  # by the part with the button
    wire: Callable[[Mapping[str, gr.HTML], Shared], None] | None = None  # events beyond the page's one pipeline
    views: tuple[View, ...] = ()  # those that declare themselves
    api: tuple[Endpoint, ...] = ()  # the functions that its views offer to programs
