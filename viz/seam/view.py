"""The declaration of a view. The page, the API and the tests derive everything else from it.

A view measures first and draws afterwards. A `Measure` is a pure function of a scene and settings; it returns a frozen
dataclass of arrays, frames and plain values, cached under a key that follows from what the measure depends on. A `Part`
draws the result: a function from `Seen` to the payload of one of the kinds of static/parts and static/views. Nothing
here imports gradio, and no drawing code touches a tensor.
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

# What a measure or a picture may depend on besides settings.
Depends = Literal[
    "run",  # the trace with its edits
    "plain",  # the model and the tokens, without edits
    "model",  # the model alone
    "edits",
    "head",  # the main head
    "heads",  # all picked heads
    "layer",  # that of the main head
    "token",  # the position whose next token is looked at
    "tokens",  # all picked positions
    "pair",  # the cell that was clicked
    "watched",  # target and distractor
    "limit",  # how long a context this server measures
    "prompt",  # what was asked: the text itself, or the turns
    "chat",  # whether it is a conversation
    "visitor",  # what the visitor has trained so far
    "built_in",  # which built-in models are on this computer
    "loaded",  # the models of the list that are in memory
]


@dataclass(frozen=True)
class Measure:
    """Numbers of a view: `function(scene, settings)`, or `function(scene, settings, progress)` for a slow one.

    A measure that `uses` others gets their results by name after the settings, None for a slow one that has not been
    started. The function holds the model while it works, so it must not ask the playground for traces or results. It
    finds what it needs in `scene.trace`, in `scene.unedited` if it depends on "plain", and in the run that `beside`
    names. It raises PlaygroundError for what cannot be measured; the parts then show the message.
    """

    name: str
    function: Callable[..., Any]
    depends: tuple[Depends, ...] = ("run",)
    settings: tuple[str, ...] = ()  # names of the settings and asking parts that decide it
    slow: bool = False  # started by the button of a Job, never by itself
    # Whether it runs the model; one that only counts or loads needs no turn. A slow one without works in another
    # process (viz/work/processes/trial_process.py) and bounds its own time.
    locks: bool = True
    # Where several settings mean the same, or only part of the model counts: (scene, settings) -> what is to be
    # measured. The function gets this as its settings, and equal questions are measured once.
    question: Callable[[Scene, Settings], Settings] | None = None
    uses: tuple[str, ...] = ()  # measures that it builds on
    # A further run that it reads by `scene.beside`: (scene, settings) -> its model's id and its prompt, None for none.
    beside: Callable[[Scene, Settings], tuple[str, Prompt] | None] | None = None
    # False: quick to make and large, measured anew for every drawing; a function of its settings where that depends.
    keep: bool | Callable[[Settings], bool] = True
    # For a slow one whose time can be estimated: (scene, settings) -> (what decides its pace besides the model,
    # how much work it is). A part that names the measure finds the seconds of a unit of work as `seen.pace`.
    pace: Callable[[Scene, Settings], tuple[Hashable, float]] | None = None
    # For a slow one that may be quick: (scene, settings) -> about how many runs of the model it takes, and how many
    # tokens they read in all. Where that is little for the model, it starts by itself (viz/seam/jobs/at_once.py).
    cost: Callable[[Scene, Settings], tuple[float, float]] | None = None
    # Where it can be measured before the run has ended: (scene, question) -> the last layer that it reads. It then
    # must ask nothing of the trace but what is of layers up to that one.
    reads: Callable[[Scene, Settings], int] | None = None
    owner: str = ""  # views that give the same measure the same owner measure it once; else each has its own
    at_page: bool = False  # reads what only the page's own process has, as a visitor's reward model


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
    head: tuple[int, int]  # the main head: layer, head
    heads: tuple[tuple[int, int], ...]
    position: int  # whose next token is looked at
    picked: tuple[int, ...]  # token positions
    pair: tuple[int, int] | None
    edits: tuple[Edit, ...]
    watched: tuple[int | None, int | None]  # target and distractor that were picked
    limit: int
    language: str
    seconds: float = field(compare=False)  # that the run took
    piece: Callable[[int], str] = field(compare=False)  # the text of a token id
    source: str = ""  # the line below a picture, for a part that says more than that
    run: str = ""  # a short name of the run, with which a part's own `run` begins

    @property
    def pieces(self) -> tuple[str, ...]:
        """The texts of the prompt's tokens."""
        return self.tokens.pieces


@dataclass(frozen=True)
class Seen:
    """The input of a part's `draw`."""

    view: str
    part: str
    result: Any  # of the part's first measure; None for a part without one
    results: Mapping[str, Any]  # of all measures that the part names; None for a slow one that was not started
    seconds: Mapping[str, float]  # how long each took
    pace: Mapping[str, float]  # seconds a unit of work of slow ones, known once one of their kind has run
    settings: Settings
    words: Words  # of the view
    facts: Facts

    @property
    def here(self) -> Words:
        """The words of this part."""
        return self.words.within(self.part)

    @property
    def all_words(self) -> Catalogue:
        """The whole catalogue, for words that other views share."""
        return self.words.catalogue


Payload = dict[str, Any]
Draw = Callable[[Seen], Payload]


Values = Mapping[str, object]  # of the parts that ask, by name; as untrusted as anything from a page


@dataclass(frozen=True, eq=False)
class Picture:
    """A part's payload, computed only if its key differs from the one on the page."""

    key: object  # all that decides it besides the language, as something with a faithful repr
    make: Callable[[], "Payload"]
    layers: int | None = None  # of a run, after which it can be made while the run goes on


@dataclass(frozen=True)
class Part:
    """One part of a view. Made by the functions below."""

    kind: str  # of the page's scripts
    draw: Draw | None = None
    of: tuple[str, ...] = ()  # measures that it needs: while a slow one is not there, `<part>.empty` is shown
    also: tuple[str, ...] = ()  # measures that it shows where they are there
    depends: tuple[Depends, ...] = ()  # beyond what its measures depend on
    settings: tuple[str, ...] | None = None  # beyond those of its measures; None: all of the view
    read: Callable[[object, Scene], Any] | None = None  # a part that asks: what a page sent -> a hashable value
    job: str = ""  # the slow measure that its button starts
    again: bool = False  # whether that can be measured again, as times can that differ from one run to the next
    events: tuple[str, ...] = ()  # that it triggers beyond "select"
    shared: bool = False  # the same part in several views; it is then named without the view
    kept: bool = False  # whether a link holds a value of it that only the page reads
    steady: bool = False  # tells nothing of a model or a prompt: drawn once in a language
    first: Callable[[Words], Payload] | None = None  # what a steady part shows while no scene can be opened
    # The settings of a form that is not the view's, for the search, and the place of their words; "" for the view's.
    declares: tuple[Setting, ...] = ()
    declares_in: str = ""


def Form(
    draw: Draw | None = None,
    of: str | tuple[str, ...] = (),
    *,
    depends: tuple[Depends, ...] = (),
    settings: tuple[str, ...] = (),
) -> Part:
    """Return the form of the view's settings. `of`, `depends`, `settings`: what its options depend on.

    Every view has it as "form" in the layout; it is declared only if its options follow from measures or other
    settings.
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
    """Return a part that is a Plotly figure: {"title", "note", "figure", "columns", "python"} or {"absent": True}.

    Source, file and words are added. `static/parts/figure.js` documents further fields: what a click selects, a layout
    for wide pages.
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
    """Return a part with one or more tables: {"title", "about", "columns", "rows", "check", "same", "python"}.

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
    """Return a part of a kind of its own. `kept`: its script holds a value for links, unknown to the server."""
    return Part(kind, draw, _names(of), also, depends, settings, shared=shared, kept=kept)


def Steady(kind: str, draw: Draw, of: str | tuple[str, ...], first: Callable[[Words], Payload]) -> Part:
    """Return a part of a kind of its own that depends on neither model nor prompt. `first` gets the words
    of the view.
    """
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
    """Return a part with a value of its own: `settings.<part>` is the result of `read`, which may raise InputError."""
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
    """Return the button of a slow measure. Words: `<part>.start`, and `<part>.hint` if there is no `hint` function.

    `again`: it measures times, which may differ in a second run.

    `hint(seen)` returns {"text"} with the cost, {"unready": True} if it cannot start, {"done": True} if nothing is left
    to start, and {"start"} to change the button's label.
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


# --- streams: what goes on while the page is looked at ---


@dataclass(frozen=True, eq=False)
class Visit:
    """The page that sent an event, with its settings at that moment."""

    playground: Playground
    session: str  # the visitor
    language: str
    model_id: str
    prompt: Prompt
    values: Mapping[str, object]  # of the view's form and asking parts by their names on the page, unchecked
    state: Any = None  # what the stream keeps


@dataclass(frozen=True)
class Open:
    """Yielded by an event to make the page load a model and show a prompt on it, in a tab."""

    model_id: str
    prompt: str
    tab: str


@dataclass(frozen=True)
class Models:
    """Yielded by an event to say that the visitor's list of models has changed."""


@dataclass(frozen=True)
class Event:
    """An event of a stream: `handle(visit, sent)`; `sent` is the value of the channel, untrusted.

    A generator function yields payloads of the channel, and is closed when the visitor leaves. Any other function is
    called for its effect. Exceptions are sent to the page as {"error": {"text", "hint"}}.
    """

    handle: Callable[[Visit, Any], Iterator[Payload | Open | Models] | None]
    trigger: Literal["once", "multiple", "always_last"] = "once"  # what an event does while one like it goes on


def nothing() -> None:
    """Return the empty state of a stream that keeps nothing."""


def forget_nothing(state: Any, session: str) -> None:
    """Do nothing when a visitor leaves a stream that keeps nothing."""


@dataclass(frozen=True)
class Stream:
    """A channel between a script of the page and the server: the script sends events and receives payloads.

    `state` is called once for each page that is built; every event finds its result as `visit.state`.
    """

    name: str
    kind: str  # of the page's scripts
    events: Mapping[str, Event]
    state: Callable[[], Any] = nothing
    leave: Callable[[Any, str], None] = forget_nothing  # (state, visitor): the visitor's page was closed


Layout = tuple["str | Layout", ...]


@dataclass(frozen=True)
class View:
    """One view of a tab. Its words are the table `<key>` of the catalogue: `view`, `about`, `howto`, and those of its
    parts.

    `layout` names the parts from top to bottom; a tuple in it is a row of columns, a tuple in a row is a column.
    """

    key: str
    layout: Layout
    parts: Mapping[str, Part]
    measures: tuple[Measure, ...] = ()
    settings: tuple[Setting, ...] = ()
    # Beside the row of views: one value for all views of a tab that name the same one. Words: `[<tab>.settings]`.
    tab_settings: tuple[Setting, ...] = ()
    api: tuple = ()  # of viz.seam.programs.endpoint.Endpoint
    form_depends: tuple[Depends, ...] = ()  # what the options of the form depend on
    # A slow measure whose result has `names`, {head: [(label, score, baseline)]}: lists of heads on the whole page show
    # them once it was measured.
    names_heads: str = ""
    problems: str = ""  # the part that says why an asking part cannot be read; without one, the page's notice does
    streams: tuple[Stream, ...] = ()  # events beyond the page's one pipeline

    def part_name(self, part: str) -> str:
        """Return the name of a part on the page."""
        return part if part in self.parts and self.parts[part].shared else f"{self.key}_{part}"

    def measure(self, name: str) -> Measure:
        """Return the measure of that name; raises KeyError."""
        for each in self.measures:
            if each.name == name:
                return each
        raise KeyError(f"{self.key} has no measure {name!r}")
