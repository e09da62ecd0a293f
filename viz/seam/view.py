"""The declaration of a view. The page, the API and the tests derive everything else from it.

A view measures first and draws afterwards. A `Measure` is a pure function of a scene and settings; it returns a frozen
dataclass of arrays, data frames and plain values, cached under a key that follows from what the measure depends on. A
`Part` draws the result: it maps `Seen` to the payload of one of the kinds of static/parts and static/views. Nothing
here imports gradio, and no drawing code uses tensors.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from model.gpt.config import ModelConfig
from model.gpt.edits import Edit
from model.records import Tokens
from viz.seam.scene import Scene
from viz.seam.settings import Setting, Settings
from viz.words import Catalogue, Words
from viz.work.playground import Playground
from viz.work.prompt import Prompt

# The inputs, besides settings, on which a measure or a picture may depend.
Depends = Literal[
    "run",  # the trace with its edits
    "plain",  # the model and the tokens, without edits
    "model",  # only the model
    "edits",
    "head",  # the main head
    "heads",  # all selected heads
    "layer",  # the layer of the main head
    "token",  # the position whose next token is predicted
    "tokens",  # all selected positions
    "pair",  # the clicked cell of an attention map
    "watched",  # target and distractor tokens
    "limit",  # the maximum context length that this server measures
    "prompt",  # the text itself, or the turns
    "chat",  # whether the prompt is a conversation
    "visitor",  # the models that the visitor has trained
    "built_in",  # the built-in models already downloaded
    "loaded",  # the listed models in memory
]

# What a view reads of the model beside its attention weights, hidden states and logits, which every model gives.
Needs = Literal[
    "weights",  # our own forward pass from left to right: its weights, config, everything inside a layer, generation
    "layers",  # our own forward pass in any direction: its weights, config, and everything inside a layer
    "lens",  # the logits of any hidden state
    "next",  # a prediction of the next token
    "token",  # a prediction of a token: of the next one or, in a model that reads in both directions, of a masked one
]


@dataclass(frozen=True)
class Measure:
    """The numbers of a view: `function(scene, settings)`, or `function(scene, settings, progress)` for a slow measure.

    A measure that `uses` others gets their results by name after the settings, with None for a slow one that has not
    been started. The function holds the model while it runs, so it must not request traces or results from the
    playground. It finds what it needs in `scene.trace`, in `scene.unedited` if it depends on "plain", and in the run
    that `beside` names. It raises PlaygroundError for what cannot be measured; the parts then show the message.
    """

    name: str
    function: Callable[..., Any]
    depends: tuple[Depends, ...] = ("run",)
    settings: tuple[str, ...] = ()  # names of the settings and input parts that it depends on
    slow: bool = False  # started by the button of a Job, never automatically
    # Whether it runs the model and therefore waits for the model lock; counting or loading does not. A slow measure
    # without locks runs in another process (viz/work/processes/trial_process.py) and limits its own time.
    locks: bool = True
    # For equivalent settings, or a measure of only part of the model: (scene, settings) -> the normalized settings. The
    # function receives these, and tasks with equal ones are measured once.
    question: Callable[[Scene, Settings], Settings] | None = None
    uses: tuple[str, ...] = ()  # names of the measures that it builds on
    # a second run, available as `scene.beside`: (scene, settings) -> (model id, prompt), or None
    beside: Callable[[Scene, Settings], tuple[str, Prompt] | None] | None = None
    # False for a quick but large result, which is recomputed at every redraw; may be a function of the settings.
    keep: bool | Callable[[Settings], bool] = True
    # For a slow measure with a predictable duration: (scene, settings) -> (what its speed depends on besides the model,
    # number of units of work). Parts of the measure get the seconds per unit as `seen.pace`.
    pace: Callable[[Scene, Settings], tuple[Hashable, float]] | None = None
    # For a slow measure that may be quick: (scene, settings) -> (approximate number of runs of the model, total number
    # of tokens). If the estimated time is short, it starts automatically (viz/seam/jobs/at_once.py).
    cost: Callable[[Scene, Settings], tuple[float, float]] | None = None
    # For a measure that can start before the run has ended: (scene, task) -> the last layer that it reads. It must then
    # read only the trace's layers up to that one.
    reads: Callable[[Scene, Settings], int] | None = None
    owner: str = ""  # views whose measures have the same owner share the result
    needs: tuple[Needs, ...] | None = None  # what it reads of the model; None: as its view
    at_page: bool = False  # reads data that only the page's process has, such as a visitor's reward model


@dataclass(frozen=True)
class Facts:
    """The facts of a scene that its pictures need, as plain values."""

    model_id: str
    label: str
    dtype: str
    config: ModelConfig
    n_params: int
    nbytes: int
    prompt: Prompt
    tokens: Tokens
    head: tuple[int, int]  # (layer, head) of the main head
    heads: tuple[tuple[int, int], ...]
    position: int  # the position whose next token is predicted, or whose token is masked
    picked: tuple[int, ...]  # selected token positions
    pair: tuple[int, int] | None
    edits: tuple[Edit, ...]
    watched: tuple[int | None, int | None]  # selected target and distractor tokens
    limit: int
    language: str
    seconds: float = field(compare=False)  # duration of the run
    piece: Callable[[int], str] = field(compare=False)  # the text of a token id
    source: str = ""  # the source line below a figure, for parts that extend it
    run: str = ""  # a short name of the run; a part's own `run` begins with it
    mask: str = ""  # the text of the mask token, in a model that predicts masked tokens
    actual: int | None = None  # the prompt's own token that is predicted at the position, if there is one

    @property
    def pieces(self) -> tuple[str, ...]:
        """The texts of the prompt's tokens."""
        return self.tokens.pieces


@dataclass(frozen=True)
class Seen:
    """The input of a part's `draw`."""

    view: str
    part: str
    result: Any  # result of the part's first measure; None for a part without measures
    results: Mapping[str, Any]  # results of all measures of the part; None for a slow one that was not started
    seconds: Mapping[str, float]  # duration of each measure
    pace: Mapping[str, float]  # seconds per unit of work of slow measures, known after one of the same kind has run
    settings: Settings
    words: Words  # words of the view
    facts: Facts

    @property
    def here(self) -> Words:
        """The words of this part."""
        return self.words.within(self.part)

    @property
    def all_words(self) -> Catalogue:
        """The whole catalogue, for words shared with other views."""
        return self.words.catalogue


Payload = dict[str, Any]
Draw = Callable[[Seen], Payload]


Values = Mapping[str, object]  # values of the input parts by name; untrusted, like all data from a page


@dataclass(frozen=True, eq=False)
class Picture:
    """A part's payload, which is computed only if its key differs from the one on the page."""

    key: object  # everything that the picture depends on except the language; its repr must be unambiguous
    make: Callable[[], "Payload"]
    layers: int | None = None  # number of layers after which it can be drawn during the run


@dataclass(frozen=True)
class Part:
    """One part of a view, built by the functions below."""

    kind: str  # kind of part, which selects the script on the page
    draw: Draw | None = None
    of: tuple[str, ...] = ()  # measures that it needs; until a slow one has run, `<part>.empty` is shown
    also: tuple[str, ...] = ()  # measures that it shows if they exist
    depends: tuple[Depends, ...] = ()  # in addition to those of its measures
    settings: tuple[str, ...] | None = None  # in addition to those of its measures; None: all settings of the view
    read: Callable[[object, Scene], Any] | None = None  # for an input part: (sent value, scene) -> a hashable value
    job: str = ""  # the slow measure that its button starts
    again: bool = False  # whether it can be repeated, as for durations that vary between runs
    events: tuple[str, ...] = ()  # events in addition to "select"
    shared: bool = False  # True if several views contain the same part, which is named without the view
    kept: bool = False  # True if a link stores a value of the part that only the page reads
    steady: bool = False  # independent of model and prompt, and drawn once per language
    first: Callable[[Words], Payload] | None = None  # payload of a steady part while no scene can be opened
    # settings of a form other than the view's, for the search, and the section of their words; "" for the view's
    declares: tuple[Setting, ...] = ()
    declares_in: str = ""


def Form(
    draw: Draw | None = None,
    of: str | tuple[str, ...] = (),
    *,
    depends: tuple[Depends, ...] = (),
    settings: tuple[str, ...] = (),
) -> Part:
    """Build the form of the view's settings, whose options depend on `of`, `depends` and `settings`.

    Every view has it as "form" in the layout; it is declared only if its options follow from measures or settings.
    """
    return Part("controls", draw, _names(of), depends=depends, settings=settings)


def Figure(
    draw: Draw,
    of: str | tuple[str, ...] = "main",
    *,
    also: tuple[str, ...] = (),
    depends: tuple[Depends, ...] = (),
    settings: tuple[str, ...] | None = None,
) -> Part:
    """Build a part with a Plotly figure: {"title", "note", "figure", "columns", "python"} or {"absent": True}.

    Source, file and words are added. Further fields, such as what a click selects: static/parts/figure/figure.js.
    """
    return Part("figure", draw, _names(of), also, depends, settings)


def Table(
    draw: Draw,
    of: str | tuple[str, ...] = "main",
    *,
    also: tuple[str, ...] = (),
    depends: tuple[Depends, ...] = (),
    settings: tuple[str, ...] | None = None,
) -> Part:
    """Build a part with one or more tables: {"title", "about", "columns", "rows", "check", "same", "python"}.

    `static/parts/labtable.js` documents further fields: several tables, bars, tokens, a verdict above.
    """
    return Part("labtable", draw, _names(of), also, depends, settings)


def Custom(
    kind: str,
    draw: Draw,
    of: str | tuple[str, ...] = "main",
    *,
    also: tuple[str, ...] = (),
    depends: tuple[Depends, ...] = (),
    settings: tuple[str, ...] | None = None,
    shared: bool = False,
    kept: bool = False,
) -> Part:
    """Build a part of a custom kind. `kept` means that its script holds a value for links, unknown to the server."""
    return Part(kind, draw, _names(of), also, depends, settings, shared=shared, kept=kept)


def Steady(kind: str, draw: Draw, of: str | tuple[str, ...], first: Callable[[Words], Payload]) -> Part:
    """Build a part of a custom kind that depends on neither model nor prompt. `first` gets the words of the view."""
    return Part(kind, draw, _names(of), steady=True, first=first)


def Asking(
    kind: str,
    read: Callable[[object, Scene], Any],
    draw: Draw,
    of: str | tuple[str, ...] = (),
    *,
    also: tuple[str, ...] = (),
    depends: tuple[Depends, ...] = (),
    settings: tuple[str, ...] | None = (),
    shared: bool = False,
    declares: tuple[Setting, ...] = (),
    declares_in: str = "",
) -> Part:
    """Build an input part: `settings.<part>` is the result of `read` on its value, which may raise InputError."""
    return Part(
        kind,
        draw,
        _names(of),
        also,
        depends,
        settings,
        read,
        shared=shared,
        declares=declares,
        declares_in=declares_in,
    )


def Job(
    measure: str,
    hint: Draw | None = None,
    *,
    also: tuple[str, ...] = (),
    depends: tuple[Depends, ...] = (),
    settings: tuple[str, ...] | None = None,
    again: bool = False,
) -> Part:
    """Build the button of a slow measure. Words: `<part>.start`, and `<part>.hint` if there is no `hint` function.

    `hint(seen)` returns {"text"} with the cost, {"unready": True} if it cannot start, {"done": True} if nothing is left
    to start, or {"start"} to change the button's label. `again`: it measures durations, which may differ in a rerun.
    """
    return Part(
        "job",
        hint,
        also=(measure, *also),
        depends=depends,
        settings=settings,
        job=measure,
        again=again,
        events=("start", "cancel"),
    )


def _names(of: str | tuple[str, ...]) -> tuple[str, ...]:
    return (of,) if isinstance(of, str) else of


# --- streams: events that send updates while they are being handled ---


@dataclass(frozen=True, eq=False)
class Visit:
    """The page that sent an event, with its settings at that time."""

    playground: Playground
    session: str  # id of the visitor
    language: str
    model_id: str
    prompt: Prompt
    values: Mapping[str, object]  # values of the view's form and input parts, by their names on the page, unchecked
    state: Any = None  # the state of the stream


@dataclass(frozen=True)
class Open:
    """Yielded by an event to make the page load a model and show a prompt on it, in a tab."""

    model_id: str
    prompt: str
    tab: str


@dataclass(frozen=True)
class ModelsChanged:
    """Yielded by an event to signal that the visitor's list of models has changed."""


@dataclass(frozen=True)
class Event:
    """An event of a stream: `handle(visit, sent)`, where `sent` is the untrusted value of the channel.

    A generator function yields payloads of the channel, and is closed when the visitor leaves; any other function is
    called for its effect. Exceptions are sent to the page as {"error": {"text", "hint"}}.
    """

    handle: Callable[[Visit, Any], Iterator[Payload | Open | ModelsChanged] | None]
    trigger: Literal["once", "multiple", "always_last"] = "once"  # behavior while an earlier event is handled


def nothing() -> None:
    """Return the empty state of a stream that stores nothing."""


def forget_nothing(state: Any, session: str) -> None:
    """Do nothing when a visitor leaves a stream that stores nothing."""


@dataclass(frozen=True)
class Stream:
    """A channel between a script of the page and the server: the script sends events and receives payloads.

    `state` is called once for each page that is built; every event gets its result as `visit.state`.
    """

    name: str
    kind: str  # kind of part, which selects the script on the page
    events: Mapping[str, Event]
    state: Callable[[], Any] = nothing
    leave: Callable[[Any, str], None] = forget_nothing  # (state, visitor): called when the visitor's page is closed


Layout = tuple["str | Layout", ...]


@dataclass(frozen=True)
class View:
    """One view of a tab. Its words are the table `<key>` of the catalogue: `view`, `about`, `howto`, and its parts'
    words.

    `layout` lists the parts from top to bottom; a tuple in it is a row of columns, and a tuple in a row is a column.
    """

    key: str
    layout: Layout
    parts: Mapping[str, Part]
    measures: tuple[Measure, ...] = ()
    settings: tuple[Setting, ...] = ()
    # Shown beside the row of views; views of a tab that name the same setting share it. Words: `[<tab>.settings]`.
    tab_settings: tuple[Setting, ...] = ()
    api: tuple = ()  # items of type viz.seam.programs.endpoint.Endpoint
    form_depends: tuple[Depends, ...] = ()  # inputs on which the options of the form depend
    # A slow measure whose result has `names`, {head: [(label, score, baseline)]}, which lists of heads on all tabs show
    # after it has run.
    names_heads: str = ""
    # What its measures read of the model. A model of another library that runs by its own code lacks the weights, one
    # that reads in both directions the next token; the view then says so instead (viz/seam/needs.py).
    needs: tuple[Needs, ...] = ("weights",)
    problems: str = ""  # the part that shows errors in input parts; "" for the page's notice
    # Which models the tab's row of views offers it for; None: all. A link or the search opens it on any model.
    offered: Callable[[ModelConfig], bool] | None = None
    streams: tuple[Stream, ...] = ()  # events outside the page's pipeline

    def part_name(self, part: str) -> str:
        """Return the name of a part on the page."""
        return part if part in self.parts and self.parts[part].shared else f"{self.key}_{part}"

    def measure(self, name: str) -> Measure:
        """Return the measure with the given name. Raises KeyError if it does not exist."""
        for each in self.measures:
            if each.name == name:
                return each
        raise KeyError(f"{self.key} has no measure {name!r}")
