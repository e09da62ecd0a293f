"""The page's state in a link or file, validated before it is shown.

A link is untrusted input. It may name a model, but it never starts a download; that takes a click.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from model.api import LanguageModel
from model.errors import PlaygroundError
from model.loading.sources import BUNDLED
from model.records import RunKey
from model.text.surrogates import whole
from viz.seam.scene import run_id
from viz.seam.selection import WATCHED, Selection, picked
from viz.words import Catalogue, section, words
from viz.work.playground import MAX_CHARACTERS, MOST_NAME, Playground
from viz.work.prompt import fitted, prompt_of


@dataclass(frozen=True)
class Link:
    """The state in a link; None means the page's default."""

    model: str | None
    prompt: str | None
    tab: str | None
    selection: Mapping  # unchecked until the model and the prompt are known
    chat: object = None  # value of the conversation part, unchecked


@dataclass(frozen=True, eq=False)
class LinkAnswer:
    """The server's answer to a link."""

    model_id: str  # id of the model to show
    prompt: str
    tab: str
    waits: str  # id of the link's model if opening it requires a click, otherwise ""
    selection: Selection | None  # None if the model is not loaded or the prompt is invalid
    run: str  # a short name of the prompt's tokens
    model: LanguageModel | None = None  # the model of the selection


def link_of(value: object, tabs: tuple[str, ...]) -> Link:
    """Parse a link sent by a page; invalid fields count as absent."""
    sent = value if isinstance(value, Mapping) else {}
    model, tab = _text(sent.get("model"), MOST_NAME), sent.get("tab")
    fits = model is not None and model.isprintable() and model.strip()
    return Link(
        model if fits else None,
        _text(sent.get("prompt"), MAX_CHARACTERS),
        tab if isinstance(tab, str) and tab in tabs else None,
        {name: sent.get(name) for name in ("heads", "tokens", "pair", "edits", *WATCHED)},
        sent.get("chat"),
    )


def _text(value: object, limit: int) -> str | None:
    """Return a string with unpaired surrogates replaced by question marks, or None if it is too long."""
    if not isinstance(value, str) or len(value) > limit:
        return None
    return whole(value)


def name_of(playground: Playground, model_id: str) -> str:
    """Return a model's name in a link: its id or, for a folder or file, only its name, so that the path stays
    private.
    """
    local = playground.options.located.get(model_id)
    return f"local:{local.label}" if local else model_id


def id_of(playground: Playground, name: str) -> str:
    """Return the id of the model that a link names."""
    located = playground.options.located
    return next((model_id for model_id in located if name == name_of(playground, model_id)), name)


def is_available(playground: Playground, model_id: str) -> bool:
    """Return whether a link may open the model without a click: it is loaded, installed with the app, or
    trained here.
    """
    ours = (*BUNDLED, playground.options.model, *playground.options.located)
    present = playground.models.peek(model_id) is not None or playground.workshop.find(model_id) is not None
    return model_id in ours or model_id in playground.given or present


def answer(playground: Playground, link: Link, present: str, first: tuple[str, str]) -> LinkAnswer:
    """Build the answer to a link. `present` is the model shown now; `first` is the prompt and the tab of a new page.

    A model that failed to load is selected anyway: the page then shows the reason and offers to try again.
    """
    model_id = id_of(playground, link.model or playground.options.model)
    text, tab = first[0] if link.prompt is None else link.prompt, link.tab or first[1]
    if not is_available(playground, model_id):
        return LinkAnswer(present, text, tab, model_id, None, "")
    try:
        model = playground.opened(model_id)
        tokens = playground.tokens(model, fitted(model, prompt_of(text, link.chat)))
    except PlaygroundError:
        return LinkAnswer(model_id, text, tab, "", None, "")
    selection = picked(link.selection, model.config, len(tokens), size=model.tokenizer.vocab_size)
    return LinkAnswer(model_id, text, tab, "", selection, tokens_id(model, tokens.ids.tolist()), model)


def tokens_id(model: LanguageModel, ids: list[int]) -> str:
    """Return the run id (viz.seam.scene.prompt_id) of a run on these tokens."""
    return run_id(RunKey(model.id, tuple(ids)), "")


def payload(catalogue: Catalogue, usual: Mapping[str, str], held: tuple[str, ...]) -> dict:
    """Build the payload of the page's script: its words, the default state, and the parts that hold their own
    values.
    """
    return {"words": section(catalogue, "address"), "usual": dict(usual), "held": list(held)}


def linked_payload(waits: str, language: str) -> dict:
    """Build the message and the two buttons, to load the model or keep the current one, for a link whose model is not
    loaded; return an empty payload if it is loaded.
    """
    if not waits:
        return {}
    catalogue, name = words(language), waits if len(waits) <= 80 else f"{waits[:79]}…"
    return {
        "model": waits,
        "text": catalogue["address.waits"].format(model=name),
        "hint": catalogue["address.waits_hint"],
        "load": catalogue["address.load"].format(model=name),
        "close": catalogue["address.stay"],
    }
