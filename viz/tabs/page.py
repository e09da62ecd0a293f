"""The page: what all tabs share (model, prompt, tokens, selection) and the one pipeline that keeps it up to date."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import gradio as gr

from model.errors import PlaygroundError
from viz.attention import token_chips
from viz.tabs import attention
from viz.tabs.attention import Scene
from viz.tabs.context import Playground
from viz.tabs.loading import broken, cancelled, choose_model, notice, opened
from viz.tabs.parts import part, run_id, update
from viz.words import pick_language, words

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
        "title": said["page.title"], "tagline": said["page.tagline"], "status": status, "language": other, "slow": slow
    }  # fmt: skip


def _count(n: int) -> str:
    return f"{n / 1e9:.2f}B" if n >= 1e9 else f"{n / 1e6:.1f}M" if n >= 1e6 else f"{n / 1e3:.0f}k"


def tokens_payload(scene: Scene) -> dict:
    """The prompt as chips."""
    said = {key: scene.words[f"tokens.{key}"] for key in ("label", "hint", "help")}
    return {"tokens": token_chips(scene.trace.tokens), "words": said, "run": scene.run}


def selection_payload(said: Mapping[str, str], head: tuple[int, int] | None) -> dict:
    """Nothing but the head that is shown."""
    keys = ("label", "none", "token", "heads", "clear")
    return {"heads": [list(head)] if head else [], "words": {key: said[f"selection.{key}"] for key in keys}}


@dataclass(frozen=True)
class Asked:
    """What a visitor's page asks for, and what it shows already: {"run", "language"}."""

    model_id: str
    prompt: str
    selection: object
    plot: object
    shown: dict
    language: str


# The page's parts, in the order in which `view` fills them.
PARTS = ("header", "notice", "tokens", "selection", "question", "heads", "plot", "howto")


def payloads(playground: Playground, asked: Asked) -> tuple[dict[str, dict], dict]:
    """New payloads by part, for the parts that change, and what the page shows then.

    What a person did wrong, or what broke, is said in the notice and the old pictures stay.
    """
    said, shown = words(asked.language), asked.shown
    fresh = shown.get("language") != asked.language
    parts: dict[str, dict] = {}
    if fresh:
        parts |= {"question": attention.question_payload(said), "howto": attention.howto_payload(said)}
    try:
        parts |= _pictures(playground, asked, fresh)
    except PlaygroundError as error:
        if fresh:
            parts |= {"header": header_payload(said, asked.language, None), "selection": selection_payload(said, None)}
        return parts | {"notice": notice(error, asked.language)}, shown
    except Exception:
        log.exception("the view failed")
        return parts | {"notice": broken(asked.language)}, shown
    return parts, {"run": parts["plot"]["run"].split()[0], "language": asked.language}


def _pictures(playground: Playground, asked: Asked, fresh: bool) -> dict[str, dict]:
    """Everything that is computed from the prompt."""
    model = playground.load(asked.model_id)
    trace = playground.trace(model, asked.prompt)
    said = words(asked.language)
    scene = Scene(model, trace, run_id(trace.key, asked.language), said)
    wanted = attention.chosen_head(asked.selection, trace)
    head = wanted or attention.default_head(trace)
    plot = asked.plot if isinstance(asked.plot, dict) else {}
    window = plot.get("window") if str(plot.get("run", "")).startswith(scene.run) else None
    parts = {
        "header": header_payload(said, asked.language, scene),
        "notice": {},
        "plot": attention.plot_payload(scene, head, window),
    }
    if asked.shown.get("run") != scene.run:
        parts |= {"tokens": tokens_payload(scene), "heads": attention.heads_payload(scene)}
    if fresh or not wanted:
        parts["selection"] = selection_payload(said, head)
    return parts


def view(playground: Playground, asked: Asked) -> tuple:
    """The same as updates of the page's components, those that do not change skipped, and what is shown then."""
    parts, shown = payloads(playground, asked)
    return *(update(parts[name]) if name in parts else gr.skip() for name in PARTS), shown


def build(playground: Playground) -> gr.Blocks:
    """The whole page; theme, scripts and styles go to launch()."""
    said = words("en")
    nothing = {"run": "", "language": ""}
    first, showing = payloads(playground, Asked(playground.options.model, FIRST, None, None, nothing, "en"))
    with gr.Blocks(title=said["page.title"], analytics_enabled=False) as page:
        header = part("header", first["header"])
        with gr.Row(elem_id="asking"):
            picker = gr.Dropdown(
                playground.choices(), value=playground.options.model, label=said["page.model"],
                allow_custom_value=True, scale=1, min_width=250, elem_id="model",
            )  # fmt: skip
            prompt = gr.Textbox(
                FIRST, label=said["page.prompt"], placeholder=said["page.placeholder"], lines=2, max_lines=6,
                scale=4, min_width=320, elem_id="prompt",
            )  # fmt: skip
            examples = gr.Dropdown(
                [(said[f"example.{key}"], text) for key, text in EXAMPLES.items()], value=FIRST,
                label=said["page.examples"], scale=1, min_width=200, elem_id="examples",
            )  # fmt: skip
        told = part("notice", first["notice"], events=("cancel", "retry"))
        tokens = part("tokens", first.get("tokens"))
        selection = part("selection", first["selection"], value={"heads": first["selection"]["heads"]})
        with gr.Tabs(), gr.Tab(said["tab.attention"], id=attention.KEY) as tab:
            question, heads, plot, howto = attention.build(
                first["question"], first.get("heads"), first.get("plot"), first["howto"]
            )
        loaded = gr.State(opened(playground.options.model))
        shown = gr.State(showing)
        wanted = gr.State(playground.options.model)

        def refresh(loaded, prompt, selection, plot, shown, request: gr.Request):
            return view(playground, Asked(loaded["id"], prompt, selection, plot, shown, language_of(request)))

        def translate(request: gr.Request):
            said = words(language_of(request))
            return (
                gr.Dropdown(label=said["page.model"]),
                gr.Textbox(label=said["page.prompt"], placeholder=said["page.placeholder"]),
                gr.Dropdown(
                    choices=[(said[f"example.{key}"], text) for key, text in EXAMPLES.items()],
                    label=said["page.examples"],
                ),
                gr.Tab(label=said["tab.attention"]),
            )

        def choose(model_id, old, request: gr.Request):
            yield from choose_model(playground, model_id, old, language_of(request))

        # One dependency for all that changes what is shown: two would start each other again and again.
        gr.on(
            [page.load, prompt.change, selection.select, plot.select, loaded.change],
            refresh, [loaded, prompt, selection, plot, shown],
            [header, told, tokens, selection, question, heads, plot, howto, shown],
            trigger_mode="always_last", show_progress="hidden", concurrency_limit=4, api_visibility="private",
        )  # fmt: skip
        page.load(translate, None, [picker, prompt, examples, tab], show_progress="hidden", api_visibility="private")
        examples.input(None, examples, prompt, js="(text) => text", api_visibility="private")
        outputs = {"outputs": [told, loaded, picker, wanted], "show_progress": "hidden", "api_visibility": "private"}
        picked = picker.input(choose, [picker, loaded], **outputs)
        again = told.retry(choose, [wanted, loaded], **outputs)

        def stopped(model_id, old, request: gr.Request):
            return cancelled(model_id, old, language_of(request))

        told.cancel(
            stopped, [wanted, loaded], [told, picker], cancels=[picked, again],
            show_progress="hidden", api_visibility="private",
        )  # fmt: skip
    return page
