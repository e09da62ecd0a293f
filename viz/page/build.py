"""The page: what all tabs share (model, prompt, tokens, selection) and the one pipeline that keeps it up to date."""

import dataclasses
import functools
import hashlib
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import gradio as gr

from model.errors import PlaygroundError
from model.gpt.edits import EDITS, Edit
from viz.api import endpoints
from viz.charts.heatmap import token_chips
from viz.page import address, guide
from viz.page.background import failed, perform_in_turn
from viz.page.loading import broken, cancelled, choose_model, notice, opened
from viz.page.parts import part, replaced, update
from viz.page.picking import prompt_id
from viz.page.playground import Playground
from viz.page.scene import Scene, run_id
from viz.page.selection import Selection
from viz.page.selection import picked as selected
from viz.page.tab import Picture, Shared, Tab
from viz.server.sessions import forget_pictures
from viz.server.skipping import leave_skipped
from viz.theme import HUES
from viz.views.attention.map import view as map
from viz.views.tabs import TABS
from viz.words import pick_language, section, some, words

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
_QUIET = {"show_progress": "hidden", "api_visibility": "private"}
SLOW = 0.2  # seconds of a run beyond which the page waits for a pause in typing


def language_of(request: gr.Request | None) -> str:
    """The reader's language, from the address or the browser."""
    if request is None:
        return "en"
    return pick_language(request.query_params.get("lang"), request.headers.get("accept-language"))


def header_payload(said: Mapping[str, str], language: str, scene: Scene | None) -> dict:
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
    other = {"text": said["page.language"], "code": "zh" if language == "en" else "en"}
    slow = scene is not None and scene.trace.seconds > SLOW
    return {
        "title": said["page.title"],
        "tagline": said["page.tagline"],
        "status": status,
        "language": other,
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


def selection_payload(said: Mapping[str, str], picked: Selection | None) -> dict:
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


def selection_update(said: Mapping[str, str], picked: Selection, run: str) -> gr.HTML:
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


# The page's parts, in the order in which `view` fills them.
PARTS = ("header", "notice", "guide", "address", "tokens", "selection", *(name for tab in TABS for name in tab.parts))
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
    return asked.shown.get("drawn", {}) if asked.shown.get("language") == asked.language else {}


def scene_of(playground: Playground, asked: Asked) -> Scene:
    """The run that is asked for, with what is picked on it; raises PlaygroundError."""
    model = playground.opened(asked.model_id)
    tokens = playground.tokens(model, asked.prompt)
    picked = selected(asked.selection, model.config, len(tokens))
    trace = playground.trace_tokens(model, tokens, picked.edits)
    if not picked.heads:
        picked = dataclasses.replace(picked, heads=(map.default_head(trace),))
    run, said = run_id(trace.key, asked.language), words(asked.language)
    return Scene(playground, model, asked.prompt, trace, run, said, asked.language, picked)


def _pictures(playground: Playground, asked: Asked, tab: Tab) -> tuple[dict[str, dict], dict]:
    """Everything that is computed from the prompt and is not on the page yet, and what is on it then."""
    scene, drawn = scene_of(playground, asked), _drawn(asked)
    parts = {"header": header_payload(scene.words, asked.language, scene), "notice": {}}
    wanted = selection_payload(scene.words, scene.picked)
    if not _same(wanted, asked.selection):
        parts["selection"] = wanted  # else the page knows: sending it back could undo the next click
    pictures = {"tokens": Picture((prompt_id(scene), scene.prompt), lambda: tokens_payload(scene))} | tab.draw(
        scene, asked.values
    )
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
    """The same as updates of the page's components, those that do not change skipped, and what is shown then.

    A picture says which run it is of: those of closed tabs stay as they were.
    """
    parts, shown = payloads(playground, asked)
    drawn, scene = shown.get("drawn", {}), {"scene": shown.get("run", "")}
    told = {name: payload | scene if name in drawn else payload for name, payload in parts.items()}
    return *(update(told[name]) if name in told else gr.skip() for name in PARTS), shown


def _asking(playground: Playground, said: Mapping[str, str]) -> tuple[gr.Dropdown, gr.Textbox, gr.Dropdown]:
    """The row in which a person asks: model, prompt, examples."""
    with gr.Row(elem_id="asking"):
        picker = gr.Dropdown(
            playground.choices(),
            value=playground.options.model,
            label=said["page.model"],
            allow_custom_value=not playground.options.allowed.models,
            scale=1,
            min_width=250,
            elem_id="model",
        )
        prompt = gr.Textbox(
            FIRST,
            label=said["page.prompt"],
            placeholder=said["page.placeholder"],
            lines=2,
            max_lines=6,
            scale=4,
            min_width=320,
            elem_id="prompt",
        )
        examples = gr.Dropdown(
            _examples(said),
            value=FIRST,
            label=said["page.examples"],
            scale=1,
            min_width=200,
            elem_id="examples",
        )
    examples.input(None, examples, prompt, js="(text) => text", api_visibility="private")
    return picker, prompt, examples


def _translated(request: gr.Request) -> tuple:
    """Labels of Gradio's own components in the reader's language: picker, prompt, examples, tabs."""
    language = language_of(request)
    if language == "en":  # as they were built
        return (gr.skip(),) * (3 + len(TABS))
    said = words(language)
    return (
        gr.Dropdown(label=said["page.model"]),
        gr.Textbox(label=said["page.prompt"], placeholder=said["page.placeholder"]),
        gr.Dropdown(choices=_examples(said), label=said["page.examples"]),
        *(gr.Tab(label=said[f"tab.{tab.key}"]) for tab in TABS),
    )


def _examples(said: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(said[f"example.{key}"], text) for key, text in EXAMPLES.items()]


def _wire_models(
    playground: Playground, told: gr.HTML, linked: gr.HTML, loaded: gr.State, picker: gr.Dropdown, wanted: gr.State
) -> None:
    """Choosing a model, trying again, following a link to one, cancelling."""

    def choose(model_id, old, request: gr.Request):
        yield from choose_model(playground, model_id, old, language_of(request))

    def stopped(model_id, old, request: gr.Request):
        return cancelled(model_id, old, language_of(request))

    outputs = [told, loaded, picker, wanted]
    # A model chosen while another one is being loaded is the next one, not lost.
    several = {"concurrency_limit": 4, "concurrency_id": "models", **_QUIET}  # one may wait for a download for minutes
    picked = picker.input(choose, [picker, loaded], outputs, trigger_mode="always_last", **several)
    again = told.retry(choose, [wanted, loaded], outputs, **several)
    followed = linked.follow(choose, [wanted, loaded], outputs, **several)
    told.cancel(stopped, [wanted, loaded], [told, picker], cancels=[picked, again, followed], **_QUIET)


def build(playground: Playground) -> gr.Blocks:
    """The whole page; theme, scripts and styles go to launch()."""
    said = words("en")
    first, showing = payloads(playground, Asked(playground.options.model, FIRST, None, {}, {}, "en"))
    with gr.Blocks(title=said["page.title"], analytics_enabled=False) as page:
        header = part("header", first["header"])
        told_of = part("guide", first["guide"])
        picker, prompt, examples = _asking(playground, said)
        told = part("notice", first["notice"], events=("cancel", "retry"))
        linked = part("linked", None, events=("follow",))
        address_of = part("address", first["address"], value={}, events=("restore",))
        tokens = part("tokens", first.get("tokens"))
        selection = part("selection", first["selection"], value={"heads": first["selection"].get("heads", [])})
        parts = {
            "header": header,
            "notice": told,
            "guide": told_of,
            "tokens": tokens,
            "selection": selection,
            "address": address_of,
        }
        labels = []
        active = gr.State(TABS[0].key)
        with gr.Tabs() as tabs:
            for tab in TABS:
                with gr.Tab(said[f"tab.{tab.key}"], id=tab.key) as label:
                    parts |= tab.build(first)
                note = f"() => {{ playground.opened({tab.key!r}); return []; }}"
                label.select(functools.partial(str, tab.key), None, active, js=note, **_QUIET)
                labels.append(label)
        loaded, shown, done = gr.State(opened(playground.options.model)), gr.State(showing), gr.State("")
        asking = [loaded, prompt, selection, shown, done, active, address_of, *(parts[name] for name in ASKS)]

        def asked(request: gr.Request, loaded, prompt, selection, shown, done, tab, step, *values) -> Asked:
            asks, step = dict(zip(ASKS, values, strict=True)), address.step_of(step)
            return Asked(loaded["id"], prompt, selection, asks, shown, language_of(request), tab, done, step)

        def refresh(request: gr.Request, *values):
            return view(playground, asked(request, *values))

        # One dependency for all that changes what is shown: two would start each other again and again.
        gr.on(
            [
                page.load,
                prompt.change,
                selection.select,
                loaded.change,
                active.change,
                done.change,
                address_of.select,
                *(parts[name].select for name in ASKS),
            ],
            refresh,
            asking,
            [*(parts[name] for name in PARTS), shown],
            # Else the page tells every output twice that something is under way, which nobody sees.
            trigger_mode="always_last",
            concurrency_limit=4,
            show_progress_on=told,
            **_QUIET,
        )
        _wire_jobs(playground, parts, asking, asked, done)
        page.load(_translated, None, [picker, prompt, examples, *labels], **_QUIET)
        wanted = gr.State(playground.options.model)
        _wire_models(playground, told, linked, loaded, picker, wanted)
        shared = Shared(playground, picker, prompt, tabs, told, loaded, wanted, language_of)
        address.wire(shared, {**parts, "linked": linked}, active, (FIRST, TABS[0].key), selection_update)
        for tab in TABS:
            if tab.wire:
                tab.wire(parts, shared)

        def left(request: gr.Request):
            for forget in (playground.leave, *shared.leaving):
                forget(request.session_hash)
            forget_pictures(page, request.session_hash)

        page.unload(left)
        endpoints.offer(playground)
    leave_skipped(page)
    return page


def _wire_jobs(playground: Playground, parts: Mapping[str, gr.HTML], asking: list, asked: Callable, done: gr.State):
    """Every job's button, cancel and bar; a finished job has the page drawn again.

    A cancel is a note to the work, which then says itself that it has stopped. Gradio's own way of cancelling forgets
    a click that comes while it is at it.
    """
    under_way: dict[tuple[str, str], threading.Event] = {}  # by visitor and part
    for tab in TABS:
        for name, plan in tab.jobs.items():

            def start(request: gr.Request, *values, name=name, plan=plan):
                question = asked(request, *values)
                try:
                    job = plan(scene_of(playground, question), question.values)
                except PlaygroundError as error:
                    yield update(failed(error, question.language)), gr.skip()
                    return
                stop = threading.Event()
                under_way[request.session_hash, name] = stop
                try:
                    yield from perform_in_turn(playground, request.session_hash, job, question.language, stop)
                finally:
                    if under_way.get((request.session_hash, name)) is stop:
                        del under_way[request.session_hash, name]

            def cancel(request: gr.Request, name=name):
                if stop := under_way.get((request.session_hash, name)):
                    stop.set()

            # How many run at once is for the desk to say.
            event = {"concurrency_limit": None, "trigger_mode": "multiple", **_QUIET}
            parts[name].start(start, asking, [parts[name], done], **event)
            parts[name].cancel(cancel, None, None, **_QUIET | {"concurrency_limit": None})
