"""Change the norm: what becomes of the prediction when norms are exchanged, lose a part, are frozen or taken out."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import gradio as gr

from model.activations.norm_swap import WHERE, Swapped, divergence_at, places_of, swapped, swaps_of
from model.activations.norm_walk import Place, norms_of
from model.attention.effects import next_tokens
from model.progress import Progress
from viz.charts.distribution import entropy, prediction_rows
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import quoted
from viz.views.activations.norm.figures import told
from viz.views.activations.norm.view import place_key, place_name
from viz.views.activations.norm_swap.figures import size_figure
from viz.words import some

PARTS = ("swap_form", "swap_job", "swap_facts", "swap_next", "swap_sizes")
QUICK = 0.3  # seconds of a run up to which the changed one is computed at once
_NEXT_WORDS = (
    "column_token",
    "column_probability",
    "column_change",
    "column_logit",
    "column_before",
    "column_after",
    "entropy",
    "entropy_help",
    "kl",
    "kl_help",
    "nats",
)
_COLUMNS = ("column_id", "column_token", "csv_p_before", "csv_p_after", "csv_logit_before", "csv_logit_after")


@dataclass(frozen=True)
class Change:
    """What is asked for: a key of SWAPS, and the norms it is done to."""

    swap: str
    where: str  # of WHERE
    places: tuple[Place, ...]


def build() -> dict[str, gr.HTML]:
    """What to change on top; what it did to the whole prompt, to one prediction, and to the stream below."""
    made = {
        "swap_form": part("swap_form", None, kind="controls", value={}),
        "swap_job": part("swap_job", None, kind="job", events=("start", "cancel")),
        "swap_facts": part("swap_facts", None, kind="normfacts"),
    }
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["swap_next"] = part("swap_next", None, kind="beforeafter")
        with gr.Column(min_width=320):
            made["swap_sizes"] = part("swap_sizes", None, kind="figure")
    return made


def change_of(scene: Scene, asked: object) -> Change:
    """The change a page asked for; whatever does not fit the model is its first choice."""
    config = scene.model.config
    norms = norms_of(config)
    where = choice(asked, "where", _wheres(scene))
    one = norms[int(choice(asked, "norm", tuple(map(str, range(len(norms))))))]
    return Change(
        choice(asked, "swap", swaps_of(config)), where, (one,) if where == "one" else places_of(config, where)
    )


def _wheres(scene: Scene) -> tuple[str, ...]:
    return tuple(where for where in WHERE if where == "one" or places_of(scene.model.config, where))


def form(scene: Scene) -> dict:
    """What to change, and where."""
    words, config = scene.words, scene.model.config
    other = {"layernorm": "RMSNorm", "rmsnorm": "LayerNorm"}[config.norm]
    swaps = [
        [key, words[f"swap.is_{key}"].format(other=other), words[f"swap.help_{key}_{config.norm}"]]
        if key == "other"
        else [key, words[f"swap.is_{key}"], words[f"swap.help_{key}"]]
        for key in swaps_of(config)
    ]
    wheres = []
    for where in _wheres(scene):
        key = place_key(config, where) if where.startswith("norm") else f"at_{where}"
        wheres.append([where, words[f"swap.{key}"].format(n=len(places_of(config, where)))])
    norms = [[str(n), place_name(scene, place)] for n, place in enumerate(norms_of(config))]
    return {
        "controls": [
            {"name": "swap", "kind": "choice", "label": words["swap.change"], "value": swaps[0][0], "options": swaps},
            {"name": "where", "kind": "choice", "label": words["swap.where"], "value": wheres[0][0], "options": wheres},
            {
                "name": "norm",
                "kind": "choice",
                "label": words["swap.norm"],
                "value": "0",
                "options": norms,
                "when": {"where": ["one"]},
            },
        ]
    }


def key_of(scene: Scene, change: Change) -> tuple:
    """What decides the result."""
    return ("swap", scene.trace.key, change.swap, change.places)


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The form, and the changed run once it is there; where runs are quick, at once."""
    change, at = change_of(scene, values.get("swap_form")), position_of(scene)
    key, quick = key_of(scene, change), scene.trace.seconds < QUICK
    found = scene.playground.results.peek(key)
    there = quick or found is not None
    state = (scene.run, change, there)

    def result() -> Swapped:
        if found is not None:
            return found.value
        return background.kept(scene.playground, key, lambda: _locked(scene, change))

    def picture(name: str, key: object, payload: Callable[[Swapped], dict]) -> Picture:
        return Picture(key, lambda: payload(result()) if there else _empty(scene, name))

    return {
        "swap_form": Picture((scene.model.id, scene.model.config), lambda: form(scene)),
        "swap_job": Picture(state, lambda: _button(scene, quick, found)),
        "swap_facts": picture("facts", state, lambda made: facts_payload(scene, change, made)),
        "swap_next": picture("next", (state, at), lambda made: next_payload(scene, change, made, at)),
        "swap_sizes": picture("sizes", (state, at), lambda made: sizes_payload(scene, change, made, at)),
    }


def _empty(scene: Scene, name: str) -> dict:
    """What stands in a part's place before the change was run."""
    return {"empty": {"text": scene.words[f"swap.empty_{name}"], "hint": scene.words[f"swap.empty_{name}_hint"]}}


def _locked(scene: Scene, change: Change) -> Swapped:
    with scene.playground.computing:
        return swapped(scene.trace, change.swap, change.places)


def _button(scene: Scene, quick: bool, found: background.Result | None) -> dict:
    words = scene.words
    if quick:
        return {"state": "done", "text": words["swap.at_once"], "cancel": words["job.cancel"]}
    hint = words["swap.takes"].format(seconds=max(1, round(2 * scene.trace.seconds)))
    return background.button(words["swap.start"], words, found, hint)


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts."""
    change = change_of(scene, values.get("swap_form"))

    def work(progress: Progress) -> Swapped:
        return swapped(scene.trace, change.swap, change.places, progress)

    return background.Job(key_of(scene, change), work)


# --- what it did ------------------------------------------------------------------------------------


def named(scene: Scene, change: Change) -> str:
    """The change in words, for titles."""
    options = {row[0]: row[1] for row in form(scene)["controls"][0]["options"]}
    if change.where == "one":
        place = place_name(scene, change.places[0])
    else:
        place = {row[0]: row[1] for row in form(scene)["controls"][1]["options"]}[change.where]
    return scene.words["swap.named"].format(swap=options[change.swap], where=place)


def lost(scene: Scene, found: Swapped) -> str:
    """Where the numbers overflow, and for how many tokens; "" where they do not."""
    if found.overflow is None:
        return ""
    T, L, words = len(scene.trace.tokens), scene.model.config.n_layer, scene.words
    where = words["swap.in_output"] if found.overflow == L else words["swap.in_layer"].format(layer=found.overflow)
    left = len(found.read)  # the token that is lost first is the one after those
    token = quoted(scene, int(scene.trace.tokens.ids[left]))
    kept = words["swap.some_left" if left else "swap.none_left"].format(n=left, T=T, token=token)
    return f"{where} {kept}"


def facts_payload(scene: Scene, change: Change, found: Swapped) -> dict:
    """KL, loss and perplexity over the prompt, and whether the numbers overflow."""
    words, items = scene.words, []
    if found.overflow is not None:
        items.append([words["swap.overflow"], lost(scene, found)])
    n = len(found.read)
    if found.kl is not None:
        items.append([words["swap.kl"], words["swap.kl_text"].format(kl=told(found.kl), n=n)])
    if found.losses is not None:
        before, after = found.losses
        given = {"before": told(before), "after": told(after), "n": min(n, len(scene.trace.tokens) - 1)}
        items.append([words["swap.loss"], words["swap.loss_text"].format(**given)])
        given = {"before": perplexity(before), "after": perplexity(after)}
        items.append([words["swap.perplexity"], words["swap.perplexity_text"].format(**given)])
    elif n:
        items.append([words["swap.loss"], words["swap.no_loss"]])
    return {
        "title": words["swap.facts_title"].format(change=named(scene, change)),
        "about": words["swap.facts_about"],
        "items": items,
        "run": f"{scene.run} {change}",
    }


def perplexity(loss: float) -> str:
    """exp(loss), which may be beyond what a number can hold."""
    return told(math.exp(loss)) if loss < 700 else f"10^{loss / math.log(10):.4g}"


def next_payload(scene: Scene, change: Change, found: Swapped, at: int) -> dict:
    """The likeliest next tokens before and after, where there are any."""
    words = scene.words
    token = quoted(scene, int(scene.trace.tokens.ids[at]))
    if at >= len(found.read):
        text = words["swap.no_next"].format(token=token, position=at)
        return {"empty": {"text": text, "hint": lost(scene, found)}}
    table = next_tokens(scene.trace, found, at)
    both = [run.logits_at(at) for run in (scene.trace, found)]
    lines = [*_lines(change), f"next_tokens(run, changed, {at})"]
    imports = ["from model.attention.effects import next_tokens", *_IMPORTS]
    return {
        "title": words["swap.next_title"].format(token=token, position=at, change=named(scene, change)),
        "note": words["swap.next_note"],
        "edited": True,
        "rows": prediction_rows(table, [scene.model.tokenizer.piece(int(number)) for number in table["id"]]),
        "entropy": [entropy(logits) for logits in both],
        "kl": divergence_at(*both),
        "source": source(scene),
        "file": f"norm-{change.swap}-{change.where}-next-token-{at}",
        "columns": [words[f"effects.{name}"] for name in _COLUMNS],
        "python": python_lines(scene, lines, imports),
        "run": f"{scene.run} {change} {at}",
        "words": some(words, "effects", *_NEXT_WORDS)
        | plot_words(words)
        | {
            "column_before": words["swap.before"],
            "column_after": words["swap.after"],
        },
    }


def sizes_payload(scene: Scene, change: Change, found: Swapped, at: int) -> dict:
    """How large the stream is in each layer before and after."""
    words = scene.words
    said = some(words, "swap", "before", "after", "median", "largest", "here", "layer", "length")
    said["here"] = said["here"].format(position=at)
    return {
        "figure": size_figure(found.before, found.lengths, at, said).to_json(),
        "title": words["swap.sizes_title"].format(change=named(scene, change)),
        "note": " ".join(text for text in (words["swap.sizes_note"], lost(scene, found)) if text),
        "source": source(scene),
        "file": f"norm-{change.swap}-{change.where}-stream",
        "run": f"{scene.run} {change} {at} sizes",
        "columns": [words["swap.series"], said["layer"], said["length"]],
        "python": python_lines(scene, [*_lines(change), "changed.lengths  # [L + 1, T]"], _IMPORTS),
        "words": plot_words(words),
    }


_IMPORTS = ["from model.activations.norm_swap import places_of, swapped"]


def _lines(change: Change) -> list[str]:
    """That make the changed run."""
    places = repr(list(change.places)) if change.where == "one" else f"places_of(lm.config, {change.where!r})"
    return [f"changed = swapped(run, {change.swap!r}, {places})"]


VIEW = View("swap", build=build, draw=draw, parts=PARTS, asks=("swap_form",), jobs={"swap_job": plan})
