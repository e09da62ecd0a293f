"""The pipeline behind the page: from a request to the payloads of the parts that change."""

import dataclasses
import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from model.api import LanguageModel
from model.errors import PlaygroundError
from model.gpt.edit_checks import fits
from model.gpt.edits import EDITS, Edit
from model.tracing.trace import Trace
from viz.characters import frames, token_chips
from viz.labels import quoted
from viz.page import address, chat, examples, frame, guide, head_names, shortfall
from viz.page.ahead import Ahead, Closed, nothing
from viz.page.examples import FIRST
from viz.seam.notices import broken, notice
from viz.seam.scene import Scene, default_head, prompt_id, run_id
from viz.seam.selection import WATCHED, Selection
from viz.seam.selection import picked as selected
from viz.seam.tab import Tab
from viz.seam.view import Picture
from viz.theme import HUES
from viz.views.effects.edits.change import watched_change
from viz.views.tabs import TABS
from viz.words import Catalogue, section, some, words
from viz.work.engine import Busy
from viz.work.playground import Playground
from viz.work.prompt import Prompt, fitted, prompt_of

log = logging.getLogger("playground")

Named = LanguageModel | None  # the model whose vocabulary names tokens
SLOW = 0.2  # duration of a run in seconds beyond which the page waits for a pause in typing


def header_payload(catalogue: Catalogue, scene: Scene | None) -> dict:
    """Build the names of the model and the prompt to which the numbers belong."""
    status = []
    if scene is not None:
        model, tokens = scene.model, scene.trace.tokens
        status = [
            model.label,
            catalogue["status.model"].format(params=_count(model.n_params), dtype=model.dtype, device=model.device),
            catalogue["status.run" if len(tokens) > 1 else "status.run_one"].format(
                tokens=len(tokens), ms=round(scene.trace.seconds * 1000)
            ),
        ]
    slow = scene is not None and scene.trace.seconds > SLOW
    return {
        "status": status,
        "slow": slow,
        "locked": scene is not None and "layers" not in scene.model.gives,  # whether its heads cannot be switched off
        "token_edits": _token_edits(scene),
        "exports": section(catalogue, "exports"),
        "report": section(catalogue, "report"),
        "run": scene.run if scene else "",
        "head_names": head_names.payload(scene) if scene else {},
        "tabs": [[tab.key, catalogue[f"tab.{tab.key}"]] for tab in TABS],
    }


def _token_edits(scene: Scene | None) -> list[str]:
    """Return the kinds of edits of selected tokens that the model allows."""
    if scene is None or "layers" not in scene.model.gives:
        return []
    return [kind for kind, each in EDITS.items() if each.of == "token" and fits(kind, scene.model.config)]


def _count(n: int) -> str:
    return f"{n / 1e9:.2f}B" if n >= 1e9 else f"{n / 1e6:.1f}M" if n >= 1e6 else f"{n / 1e3:.0f}k"


def tokens_payload(scene: Scene, box: str) -> dict:
    """Build the row of the prompt's tokens; `box` is the content of the prompt's text box."""
    texts = some(scene.words, "tokens", "label", "all", "hint", "help", "help_touch")
    pieces = scene.tokens.raw
    cut = sum(len(raw) == 1 and raw[0] > 0x7F for raw in pieces)
    note = scene.words["tokens.bytes"].format(n=cut, all=len(pieces)) if cut > len(pieces) / 4 else ""
    shown = {"model": address.name_of(scene.playground, scene.model.id), "prompt": box}
    chips = token_chips(scene.tokens, scene.words)
    chips = [chip | more for chip, more in zip(chips, chat.of_tokens(scene), strict=True)]
    named = texts | chat.token_words(scene) | some(scene.words, "characters", "join", "join_help")
    return {"tokens": chips, "frames": frames(pieces), "words": named, "note": note, "run": prompt_id(scene)} | shown


def edited_payload(catalogue: Catalogue, scene: Scene | None) -> dict:
    """Build the line of edits: its words, and the watched probability before and after them."""
    return {"words": section(catalogue, "edited"), "change": watched_change(scene) if scene else None}


def selection_payload(catalogue: Catalogue, picked: Selection | None, of: str = "", model: Named = None) -> dict:
    """Build the valid part of the selection that the page sent, which replaces the page's. `of` is the model's name."""
    kinds = {kind: catalogue[f"edit.{kind}"] for kind in EDITS}
    sites = {kind: EDITS[kind].site for kind in EDITS}
    payload: dict = {"words": section(catalogue, "selection"), "kinds": kinds, "sites": sites, "hues": list(HUES)}
    payload["many"], payload["places"] = section(catalogue, "edit_many"), section(catalogue, "edit_place")
    if picked is None:
        return payload
    heads, edits = [list(head) for head in picked.heads], [edit_payload(edit) for edit in picked.edits]
    watched = {name: getattr(picked, name) for name in WATCHED}
    names = {name: quoted(model.tokenizer.piece(id)) for name, id in watched.items() if model and id is not None}
    directions = dict.fromkeys(edit.token for edit in picked.edits if edit.token is not None)
    payload["directions"] = [[id, quoted(model.tokenizer.piece(id))] for id in directions if model]
    return payload | {"heads": heads, "edits": edits, **watched, "of": of, "names": names}


def _dropped(selection: dict, sent: object) -> list[str]:
    """Return which fields of the page's selection were dropped as invalid: "edits", "watched" or both."""
    if not isinstance(sent, Mapping):
        return []
    gone = {
        "edits": isinstance(sent.get("edits"), list) and len(sent["edits"]) > len(selection["edits"]),
        "watched": any(sent.get(name) is not None and selection[name] is None for name in WATCHED),
    }
    return [name for name, went in gone.items() if went]


def edit_payload(edit: Edit) -> dict:
    """Convert an edit to the form in which the page sends it."""
    return {name: value for name, value in vars(edit).items() if value is not None}


@dataclass(frozen=True)
class PageRequest:
    """A request from a visitor's page. `shown` is the page's current state: {"run", "language", "drawn":
    {part: key}}.
    """

    model_id: str
    prompt: str  # text of the prompt box
    selection: object
    values: Mapping[str, object]  # values of the tabs' input parts
    shown: dict
    language: str
    tab: str = TABS[0].key  # the open tab; other tabs are drawn when they are opened
    done: str = ""  # changes whenever a job ends
    visitor: str = ""  # the visitor who owns the page
    chat: object = None  # value of the conversation part, unchecked

    @property
    def parsed_prompt(self) -> Prompt:
        """The prompt or the conversation in the request."""
        return prompt_of(self.prompt, self.chat)


# The parts of the page's head, followed by those of each tab.
HEAD = (
    "nav",
    "header",
    "notice",
    "guide",
    "address",
    "examples",
    "chat",
    "tokens",
    "shortfall",
    "selection",
    "edited",
    "programs",
)
PARTS = (*HEAD, *(name for tab in TABS for name in tab.parts))
HELD = ("chat", *(name for tab in TABS for name in (*tab.asks, *tab.keeps)))  # the parts whose values a link holds


Put = Callable[[str, Mapping[str, Any]], None]  # shows a part during the run
Alive = Callable[[], None]  # raises if the page is no longer waiting


def payloads(
    playground: Playground, request: PageRequest, put: Put | None = None, alive: Alive = lambda: None
) -> tuple[dict[str, dict], dict]:
    """Compute the new payloads of the parts that change, and the page's state afterwards.

    `put` receives pictures that are drawn during the run; an exception from `alive` ends it. An input error or a
    failure is shown in the notice, and the old pictures remain; a single part that cannot be drawn shows its own
    message.
    """
    catalogue, shown = words(request.language), request.shown
    parts: dict[str, dict] = {}
    if shown.get("language") != request.language:
        parts |= {
            "header": header_payload(catalogue, None),
            "selection": selection_payload(catalogue, None),
            "edited": edited_payload(catalogue, None),
        }
        parts["guide"] = guide.payload(catalogue)
        parts["programs"] = section(catalogue, "programs")
        parts["nav"] = frame.payload(playground, catalogue, request.language)
        start = address.name_of(playground, playground.options.model)
        usual = {"model": start, "prompt": FIRST, "tab": TABS[0].key}  # the state of an untouched page
        parts["address"] = address.payload(catalogue, usual, HELD)
    tab = opened_tab(request)
    if f"tab {tab.key}" not in _drawn(request):
        parts |= tab.fixed(catalogue)
    try:
        pictures, now = _pictures(playground, request, tab, put, alive)
    except PlaygroundError as error:
        failed = parts | {"notice": notice(error, request.language)}
        if not request.parsed_prompt.turns:
            return failed, shown
        # A conversation with an error remains visible, so that it can be edited.
        drawn = {name: key for name, key in shown.get("drawn", {}).items() if name != "chat"}
        return failed | _chat_alone(playground, request), shown | {"drawn": drawn}
    except Closed:
        raise
    except Exception:
        log.exception("the view failed")
        return parts | {"notice": broken(request.language)}, shown
    return parts | pictures, now


def opened_tab(request: PageRequest) -> Tab:
    """Return the open tab."""
    return next((tab for tab in TABS if tab.key == request.tab), TABS[0])


def _drawn(request: PageRequest) -> dict[str, str]:
    """Return the parts that are drawn in the user's language: {part, or "tab " and its key: short name of its
    picture}.
    """
    return request.shown.get("drawn", {}) if request.shown.get("language") == request.language else {}


def scene_of(playground: Playground, request: PageRequest, see: Callable = nothing) -> Scene:
    """Run the requested prompt and return the scene with its selection; raises PlaygroundError. `see` is called during
    the run (ahead.py).
    """
    model = playground.opened(request.model_id)
    prompt = fitted(model, request.parsed_prompt)
    tokens = playground.tokens(model, prompt)
    name, size = address.name_of(playground, model.id), model.tokenizer.vocab_size
    picked = selected(request.selection, model.config, len(tokens), name, size)

    def scene(trace: Trace) -> Scene:
        chosen = picked if picked.heads else dataclasses.replace(picked, heads=(default_head(trace),))
        run, catalogue = run_id(trace.key, request.language), words(request.language)
        return Scene(playground, model, prompt, trace, run, catalogue, request.language, chosen, request.visitor)

    def passed(trace: Trace, layers: int) -> None:
        see(trace, layers, (lambda: scene(trace)) if picked.heads else None)

    return scene(playground.trace_tokens(model, tokens, picked.edits, passed))


def _pictures(
    playground: Playground, request: PageRequest, tab: Tab, put: Put | None, alive: Alive
) -> tuple[dict[str, dict], dict]:
    """Compute every picture that the page does not have yet; return the payloads and the page's state afterwards."""
    see = nothing if put is None else Ahead(put, lambda scene: tab.draw(scene, request.values), alive).see
    scene, drawn, language = scene_of(playground, request, see), _drawn(request), request.language
    parts: dict[str, dict] = {"notice": chat.left_out(scene, request.parsed_prompt)}
    name = address.name_of(playground, scene.model.id)
    selection = selection_payload(scene.words, scene.picked, name, scene.model)
    if not _same(selection, request.selection):
        parts["selection"] = selection | {
            "dropped": _dropped(selection, request.selection)
        }  # otherwise the page already has it, and sending it could undo the next click
    pictures = {
        "header": Picture(
            (scene.run, scene.trace.seconds, bool(head_names.known(scene))), lambda: header_payload(scene.words, scene)
        ),
        "examples": Picture(scene.model.id, lambda: examples.payload(scene.words, scene.model.id)),
        "tokens": Picture(
            (prompt_id(scene), scene.prompt, request.prompt), lambda: tokens_payload(scene, request.prompt)
        ),
        "chat": _chat(playground, scene.model, request),
        "shortfall": Picture((prompt_id(scene), scene.prompt), lambda: shortfall.payload(scene)),
        "edited": _edited(scene),
    } | tab.draw(scene, request.values)
    for name, picture in pictures.items():
        # A job's part is redrawn when any job ends, even one with different settings.
        what = (picture.key, request.done) if name in tab.jobs else picture.key
        key = hashlib.sha256(repr(what).encode()).hexdigest()[:12]
        if drawn.get(name) != key:
            try:
                parts[name] = _payload(picture, language)
            except Busy as error:  # not drawn now; the next event requests it again
                parts[name], key = _problem(error, language), ""
            drawn = drawn | {name: key}
    return parts, {"run": scene.run, "language": language, "drawn": drawn | {f"tab {tab.key}": ""}}


def _edited(scene: Scene) -> Picture:
    """Build the picture of the line of edits."""
    key = (scene.run, scene.position, scene.picked.target) if scene.picked.edits else ()
    return Picture(key, lambda: edited_payload(scene.words, scene))


def _chat(playground: Playground, model: LanguageModel, request: PageRequest) -> Picture:
    """Build the picture of the conversation's part."""
    key = (model.id, bool(model.tokenizer.chat_template), chat.found_in(model, request.prompt))
    return Picture(key, lambda: chat.payload(playground, model, words(request.language), request.prompt))


def _chat_alone(playground: Playground, request: PageRequest) -> dict[str, dict]:
    """Build the conversation's payload if nothing else can be shown; empty if there is no model."""
    try:
        return {"chat": _chat(playground, playground.opened(request.model_id), request).make()}
    except PlaygroundError:
        return {}


def _same(selection: dict, sent: object) -> bool:
    """Return whether the selection equals the page's: no head, edit or watched token was dropped."""
    if not isinstance(sent, Mapping):
        return False
    lists = all(selection[name] == (sent.get(name) or []) for name in ("heads", "edits"))
    same = lists and all(selection[name] == sent.get(name) for name in WATCHED)
    return same and sent.get("of") in (None, selection["of"])


def _payload(picture: Picture, language: str) -> dict:
    """Return the picture's payload, or the error that takes its place; raises Busy."""
    try:
        return picture.make()
    except Busy:
        raise
    except PlaygroundError as error:
        return _problem(error, language)


def _problem(error: PlaygroundError, language: str) -> dict:
    reason = notice(error, language)
    return {"problem": {"text": reason["text"], "hint": reason["hint"]}}


def answer(
    playground: Playground, request: PageRequest, put: Put | None = None, alive: Alive = lambda: None
) -> tuple[dict[str, dict], dict]:
    """Compute `payloads`, and add the name of its run to each picture, {"scene": ...}."""
    parts, shown = payloads(playground, request, put, alive)
    drawn, scene = shown.get("drawn", {}), {"scene": shown.get("run", "")}
    return {name: payload | scene if name in drawn else payload for name, payload in parts.items()}, shown


# The parts whose values the page sends.
ASKS = frozenset(name for tab in TABS for name in tab.asks)
