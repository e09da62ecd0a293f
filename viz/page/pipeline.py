"""The one pipeline behind the page: from what a page asks for to the payloads of the parts that change."""

import dataclasses
import hashlib
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

import gradio as gr

from model.errors import PlaygroundError
from model.gpt.edits import EDITS, Edit
from viz.charts.heatmap import token_chips
from viz.page import address, guide
from viz.page.parts import replaced, update
from viz.seam.notices import broken, notice
from viz.seam.playground import Playground
from viz.seam.scene import Scene, default_head, prompt_id, run_id
from viz.seam.selection import Selection
from viz.seam.selection import picked as selected
from viz.seam.tab import Tab
from viz.seam.view import Picture
from viz.theme import HUES
from viz.views.tabs import TABS
from viz.words import LANGUAGES, Catalogue, pick_language, section, some, words

log = logging.getLogger("playground")

EXAMPLES: dict[str, str] = {
    "coreference": "The cat sat on the mat because it was tired",
    "indirect_object": "When Mary and John went to the store, John gave a drink to",
    "induction": "Mrs Pemberton keeps seven grey geese behind the mill, and Mrs Pemberton keeps seven grey geese",
    "translation": "sea otter => loutre de mer\ncheese => fromage\nplush giraffe => girafe en peluche\nbread =>",
    "chain": "Q: A shelf holds 3 boxes with 4 cups each. 5 cups break. How many are left?\n"
    "A: 3 boxes of 4 cups are 12 cups. 12 minus 5 is",
    "code": "def add(a, b):\n    return a + b\n\ndef subtract(a, b):\n    return a -",
}
FIRST = EXAMPLES["coreference"]
QUIET = {"show_progress": "hidden", "api_visibility": "private"}
SLOW = 0.2  # seconds of a run beyond which the page waits for a pause in typing


def language_of(request: gr.Request | None) -> str:
    """The reader's language, from the address or the browser."""
    if request is None:
        return "en"
    return pick_language(request.query_params.get("lang"), request.headers.get("accept-language"))


def header_payload(said: Catalogue, language: str, scene: Scene | None) -> dict:
    """Name, tagline, and which model and prompt the numbers are of."""
    status = []
    if scene is not None:
        model, tokens = scene.model, scene.trace.tokens
        status = [
            model.label,
            said["status.model"].format(params=_count(model.n_params), dtype=model.dtype, device=model.device),
            said["status.run" if len(tokens) > 1 else "status.run_one"].format(
                tokens=len(tokens), ms=round(scene.trace.seconds * 1000)
            ),
        ]
    languages = [{"code": code, "text": words(code)["page.language"]} for code in LANGUAGES if code != language]
    slow = scene is not None and scene.trace.seconds > SLOW
    return {
        "title": said["page.title"],
        "tagline": said["page.tagline"],
        "status": status,
        "languages": languages,
        "slow": slow,
        "words": section(said, "header"),
        "exports": section(said, "exports"),
        "report": section(said, "report"),
        "run": scene.run if scene else "",
        "tabs": [[tab.key, said[f"tab.{tab.key}"]] for tab in TABS],
    }


def _count(n: int) -> str:
    return f"{n / 1e9:.2f}B" if n >= 1e9 else f"{n / 1e6:.1f}M" if n >= 1e6 else f"{n / 1e3:.0f}k"


def tokens_payload(scene: Scene) -> dict:
    """The prompt as chips."""
    said = some(scene.words, "tokens", "label", "hint", "help")
    shown = {"model": address.name_of(scene.playground, scene.model.id), "prompt": scene.prompt}
    return {"tokens": token_chips(scene.trace.tokens), "words": said, "run": prompt_id(scene)} | shown


def selection_payload(said: Catalogue, picked: Selection | None) -> dict:
    """What is picked, of what the page asked for; the page takes it over.

    New each time: Gradio tells a page nothing where a payload is the one it sent last, but the visitor may have picked
    something else since.
    """
    kinds = {kind: said[f"edit.{kind}"] for kind in EDITS}
    payload = {"words": section(said, "selection"), "kinds": kinds, "hues": list(HUES), "stamp": uuid.uuid4().hex}
    if picked is None:
        return payload
    heads, edits = [list(head) for head in picked.heads], [edit_payload(edit) for edit in picked.edits]
    return payload | {"heads": heads, "edits": edits}


def edit_payload(edit: Edit) -> dict:
    """An edit as the page sends it."""
    return {name: value for name, value in vars(edit).items() if value is not None}


def selection_update(said: Catalogue, picked: Selection, run: str) -> gr.HTML:
    """The selection set from here, with the tokens and the cell of the prompt `run`."""
    heads, edits = [list(head) for head in picked.heads], [edit_payload(edit) for edit in picked.edits]
    cell = list(picked.pair) if picked.pair else None
    value = {"heads": heads, "tokens": list(picked.tokens), "pair": cell, "edits": edits}
    payload = selection_payload(said, picked) | {"tokens": value["tokens"], "pair": cell, "run": run}
    return replaced(payload, value)


@dataclass(frozen=True)
class Asked:
    """What a visitor's page asks for, and what it shows: {"run", "language", "drawn": {part: what}}."""

    model_id: str
    prompt: str
    selection: object
    values: Mapping[str, object]  # of the tabs' parts that ask
    shown: dict
    language: str
    tab: str = TABS[0].key  # the one that is open; the others are drawn when they are opened
    done: str = ""  # changes when a job ends
    step: int = 0  # the last question of viz.page.address that the page waits for
    again: Mapping[str, str] = field(default_factory=dict)  # by tab: a screen that lost a payload asks for all of it
    visitor: str = ""  # whose page it is


# The components of the page, in the order in which `view` fills them: its head, then a screen a tab.
HEAD = ("header", "notice", "guide", "address", "tokens", "selection")
PARTS = (*HEAD, *(name for tab in TABS for name in tab.parts))
ASKS = tuple(name for tab in TABS for name in tab.asks)


def payloads(playground: Playground, asked: Asked) -> tuple[dict[str, dict], dict]:
    """New payloads by part, for the parts that change, and what the page shows then.

    What a person did wrong, or what broke, is said in the notice and the old pictures stay; where only one part
    cannot be drawn, it says so itself.
    """
    said, shown = words(asked.language), asked.shown
    parts: dict[str, dict] = {}
    if shown.get("language") != asked.language:
        parts |= {"header": header_payload(said, asked.language, None), "selection": selection_payload(said, None)}
        parts["guide"] = guide.payload(said)
    if shown.get("language") != asked.language or shown.get("step") != asked.step:
        start = address.name_of(playground, playground.options.model)
        usual = {"model": start, "prompt": FIRST, "tab": TABS[0].key}  # as an untouched page
        parts["address"] = address.payload(said, usual, ASKS, asked.step)
    tab = opened_tab(asked)
    if f"tab {tab.key}" not in _drawn(asked):
        parts |= tab.fixed(said)
    try:
        pictures, now = _pictures(playground, asked, tab)
    except PlaygroundError as error:
        return parts | {"notice": notice(error, asked.language)}, shown | {"step": asked.step}
    except Exception:
        log.exception("the view failed")
        return parts | {"notice": broken(asked.language)}, shown | {"step": asked.step}
    return parts | pictures, now | {"step": asked.step}


def opened_tab(asked: Asked) -> Tab:
    """The tab that is open."""
    return next((tab for tab in TABS if tab.key == asked.tab), TABS[0])


def _drawn(asked: Asked) -> dict[str, str]:
    """What is drawn in the reader's language: part, or "tab " and its key -> a short name of what it shows."""
    if asked.shown.get("language") != asked.language:
        return {}
    drawn, answered = asked.shown.get("drawn", {}), asked.shown.get("again", {})
    lost = [tab for tab in TABS if asked.again.get(tab.key) != answered.get(tab.key)]
    forgotten = {name for tab in lost for name in (*tab.parts, f"tab {tab.key}")}
    return {name: key for name, key in drawn.items() if name not in forgotten} if forgotten else drawn


def scene_of(playground: Playground, asked: Asked) -> Scene:
    """The run that is asked for, with what is picked on it; raises PlaygroundError."""
    model = playground.opened(asked.model_id)
    tokens = playground.tokens(model, asked.prompt)
    picked = selected(asked.selection, model.config, len(tokens))
    trace = playground.trace_tokens(model, tokens, picked.edits)
    if not picked.heads:
        picked = dataclasses.replace(picked, heads=(default_head(trace),))
    run, said = run_id(trace.key, asked.language), words(asked.language)
    return Scene(playground, model, asked.prompt, trace, run, said, asked.language, picked, asked.visitor)


def _pictures(playground: Playground, asked: Asked, tab: Tab) -> tuple[dict[str, dict], dict]:
    """Everything that is computed from the prompt and is not on the page yet, and what is on it then."""
    scene, drawn = scene_of(playground, asked), _drawn(asked)
    parts: dict[str, dict] = {"notice": {}}
    wanted = selection_payload(scene.words, scene.picked)
    if not _same(wanted, asked.selection):
        parts["selection"] = wanted  # else the page knows: sending it back could undo the next click
    pictures = {
        "header": Picture((scene.run, scene.trace.seconds), lambda: header_payload(scene.words, asked.language, scene)),
        "tokens": Picture((prompt_id(scene), scene.prompt), lambda: tokens_payload(scene)),
    } | tab.draw(scene, asked.values)
    for name, picture in pictures.items():
        # A job's part is drawn again when a job ended, which may have been one with other settings.
        what = (picture.key, asked.done) if name in tab.jobs else picture.key
        key = hashlib.sha256(repr(what).encode()).hexdigest()[:12]
        if drawn.get(name) != key:
            parts[name] = _made(picture, asked.language)
            drawn = drawn | {name: key}
    return parts, {"run": scene.run, "language": asked.language, "drawn": drawn | {f"tab {tab.key}": ""}}


def _same(wanted: dict, sent: object) -> bool:
    """Whether the page's heads and edits were taken as they are."""
    return isinstance(sent, Mapping) and all(wanted[name] == (sent.get(name) or []) for name in ("heads", "edits"))


def _made(picture: Picture, language: str) -> dict:
    """The payload, or why there is none."""
    try:
        return picture.make()
    except PlaygroundError as error:
        told = notice(error, language)
        return {"problem": {"text": told["text"], "hint": told["hint"]}}


def view(playground: Playground, asked: Asked) -> tuple:
    """The same as updates of the page's components, those that do not change skipped, and what is shown then."""
    parts, shown = payloads(playground, asked)
    drawn, scene = shown.get("drawn", {}), {"scene": shown.get("run", "")}  # a picture says which run it is of
    named = {name: payload | scene if name in drawn else payload for name, payload in parts.items()}
    head = [update(named[name]) if name in named else gr.skip() for name in HEAD]
    screens, sent = [], dict(asked.shown.get("sent", {}))
    for tab in TABS:
        changed = {name: named[name] for name in tab.parts if name in named}
        if changed:
            screens.append(update(screen_payload(changed, sent.get(tab.key, 0))))
            sent[tab.key] = sent.get(tab.key, 0) + 1
        else:
            screens.append(gr.skip())
    return *head, *screens, shown | {"sent": sent, "again": dict(asked.again)}


def screen_payload(parts: Mapping[str, dict], previous: int) -> dict:
    """What a screen gets: the parts that changed, and numbers by which it knows that it has lost none."""
    return {"seq": previous + 1, "previous": previous, "parts": dict(parts)}


def values_of(screens: Mapping[str, object]) -> tuple[dict[str, object], dict[str, str]]:
    """The values of the parts that ask, and which screens ask for everything again, from what the page sent."""
    values: dict[str, object] = {}
    again: dict[str, str] = {}
    for key, sent in screens.items():
        if isinstance(sent, Mapping):
            given = sent.get("values")
            values |= {name: given[name] for name in _ASKS_OF[key] if isinstance(given, Mapping) and name in given}
            if isinstance(sent.get("again"), str):
                again[key] = sent["again"][:40]
    return values, again


_ASKS_OF = {tab.key: tab.asks for tab in TABS}
