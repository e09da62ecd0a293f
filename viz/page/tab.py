"""What a tab is: how it is laid out, and what it shows of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import gradio as gr

from model.api import LanguageModel
from model.trace import Trace
from viz.tabs.context import Playground
from viz.tabs.jobs import Job
from viz.tabs.selection import Selection


@dataclass(frozen=True, eq=False)
class Scene:
    """What a tab draws: one run of one model, in the reader's language, with what is picked."""

    playground: Playground
    model: LanguageModel
    prompt: str
    trace: Trace  # with the visitor's edits, where there are any
    run: str  # a short name of the trace and the language
    words: Mapping[str, str]
    language: str
    picked: Selection  # with at least one head

    @property
    def head(self) -> tuple[int, int]:
        """The main head: the one that was picked last."""
        return self.picked.heads[-1]

    @property
    def unedited(self) -> Trace:
        """The same prompt without edits."""
        return self.playground.trace(self.model, self.prompt)


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
    leaving: list[Callable[[str], None]] = field(default_factory=list)  # called with a visitor whose page was closed


Values = Mapping[str, object]  # of the parts that ask, by name; as untrusted as anything from a page


@dataclass(frozen=True)
class Tab:
    """An entry of TABS. Parts are components of viz/tabs/parts.py, by names that are unique on the page."""

    key: str  # its label is the word "tab.<key>"
    build: Callable[[Mapping[str, dict]], dict[str, gr.HTML]]  # first payloads -> the parts, laid out
    fixed: Callable[[Mapping[str, str]], dict[str, dict]]  # words -> payloads that depend on nothing else
    draw: Callable[[Scene, Values], dict[str, Picture]]  # payloads that depend on the run or on what is asked
    parts: tuple[str, ...]
    asks: tuple[str, ...] = ()  # parts whose "select" asks for a new drawing; `draw` gets their values
    jobs: Mapping[str, Callable[[Scene, Values], Job]] = field(default_factory=dict)  # by the part with the button
    wire: Callable[[Mapping[str, gr.HTML], Shared], None] | None = None  # events beyond the page's one pipeline
