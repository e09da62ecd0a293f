"""Which layers bear fewer bits: one part of one layer is rounded at a time."""

from collections.abc import Mapping
from dataclasses import dataclass

import gradio as gr

from model.progress import Progress
from model.quantization.experiments import kinds_of
from model.quantization.formats import FORMATS
from model.quantization.layer_sweep import Sweep, sweep
from model.quantization.texts import held_out_ids
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.activations.norm.figures import told
from viz.views.predictions.figures import percent
from viz.views.quantization.formats.figures import small
from viz.views.quantization.formats.job import name_of
from viz.views.quantization.layer_sweep.figures import heat_figure, line_figure, mildest, strongest
from viz.words import section

PARTS = ("sensitive_form", "sensitive_job", "sensitive_heat", "sensitive_line", "sensitive_facts")
SWEPT = ("int4-32", "int4-32-affine", "int3-32", "int2-32", "int8-channel", "Q4_0")
BY, ON, SHOWN = ("matrix", "half"), ("prompt", "text"), ("kl", "loss")
MOST = {"prompt": 128, "text": 64}  # tokens that are measured


@dataclass(frozen=True)
class Asked:
    """What the form says."""

    one: str  # of SWEPT
    by: str  # of BY
    on: str  # of ON
    shown: str  # of SHOWN


def build() -> dict[str, gr.HTML]:
    """The form and the button; layers and matrices left, layers alone and the sums right."""
    made = {
        "sensitive_form": part("sensitive_form", None, kind="controls", value={}),
        "sensitive_job": part("sensitive_job", None, kind="job", events=("start", "cancel")),
    }
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["sensitive_heat"] = part("sensitive_heat", None, kind="figure")
        with gr.Column(min_width=320):
            made["sensitive_line"] = part("sensitive_line", None, kind="figure")
            made["sensitive_facts"] = part("sensitive_facts", None, kind="normfacts")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """Which format, what at a time, on which text, and what is shown."""
    said = section(words, "sensitive")

    def control(name: str, keys: tuple[str, ...]) -> dict:
        options = [[key, said[f"{name}_{key}"]] for key in keys]
        return {"name": name, "kind": "choice", "label": said[name], "value": keys[0], "options": options}

    formats = [[key, name_of(FORMATS[key], words)] for key in SWEPT]
    one = {"name": "one", "kind": "choice", "label": said["one"], "value": SWEPT[0], "options": formats}
    return {"sensitive_form": {"controls": [one, control("by", BY), control("on", ON), control("shown", SHOWN)]}}


def asked_of(values: Values) -> Asked:
    """The form's settings, checked."""
    form = values.get("sensitive_form")
    found = (("one", SWEPT), ("by", BY), ("on", ON), ("shown", SHOWN))
    return Asked(*(choice(form, name, allowed) for name, allowed in found))


def prompt_ids(scene: Scene) -> list[int]:
    """The first tokens of the prompt."""
    return scene.trace.tokens.ids.tolist()[: MOST["prompt"]]


def text_limit(scene: Scene) -> int:
    """Tokens of the held-out text."""
    return min(MOST["text"], scene.playground.options.max_tokens)


def key_of(scene: Scene, asked: Asked) -> tuple:
    """What decides the sweep: the plain model, the text, the format and what is rounded at a time."""
    ids = tuple(prompt_ids(scene)) if asked.on == "prompt" else ("text", text_limit(scene))
    return ("sensitive", scene.model.id, ids, asked.one, asked.by)


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts."""
    asked, model = asked_of(values), scene.model

    def work(progress: Progress) -> Sweep:
        ids = prompt_ids(scene) if asked.on == "prompt" else held_out_ids(model, text_limit(scene))
        return sweep(model.model, ids, FORMATS[asked.one], asked.by, progress)

    return background.Job(key_of(scene, asked), work)


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """What the sweep found, once it was made."""
    asked = asked_of(values)
    key = key_of(scene, asked)
    found = scene.playground.results.peek(key)
    edited = bool(scene.picked.edits) and asked.on == "prompt"
    state = (key, found is not None, edited)

    def picture(name: str, payload) -> Picture:
        empty = {"text": scene.words[f"sensitive.empty_{name}"], "hint": scene.words["sensitive.empty_hint"]}
        return Picture(
            (state, asked.shown, name), lambda: payload(scene, asked, found.value) if found else {"empty": empty}
        )

    return {
        "sensitive_job": Picture(state, lambda: _button(scene, asked, found)),
        "sensitive_heat": picture("heat", heat_payload),
        "sensitive_line": picture("line", line_payload),
        "sensitive_facts": picture("facts", facts_payload),
    }


def _button(scene: Scene, asked: Asked, found: background.Result | None) -> dict:
    words, L = scene.words, scene.model.config.n_layer
    parts = len(kinds_of(scene.model.model)) + 1 if asked.by == "matrix" else 3
    hint = words["sensitive.takes"].format(n=L * parts, layers=L)
    if scene.picked.edits and asked.on == "prompt":
        hint = f"{hint} {words['formats.no_edits']}"
    return background.button(words["sensitive.start"], words, found, hint)


def _source(scene: Scene, asked: Asked, found: Sweep) -> str:
    """Whose numbers these are."""
    said, model = section(scene.words, "sensitive"), scene.model
    line = said[f"source_{asked.on}"].format(model=model.label, dtype=model.dtype, n=found.together.positions)
    edited = scene.picked.edits and asked.on == "prompt"
    return f"{line} · {scene.words['formats.plain']}" if edited else line


def _lines(scene: Scene, asked: Asked, last: str) -> str:
    ids = f"held_out_ids(lm, {text_limit(scene)})"
    if asked.on == "prompt":
        ids = f"run.tokens.ids.tolist()[:{MOST['prompt']}]"
    lines = [f'found = sweep(lm.model, {ids}, FORMATS["{asked.one}"], "{asked.by}")', last]
    imports = ["from model.quantization.formats import FORMATS", "from model.quantization.layer_sweep import sweep"]
    imports += ["from model.quantization.texts import held_out_ids"] if asked.on == "text" else []
    return python_lines(scene, lines, imports)


def _shown(asked: Asked, found: Sweep):
    """The numbers that are asked for, [L, parts]; the KL where a text of one token has no loss."""
    return found.loss if asked.shown == "loss" and found.loss is not None else found.kl


def _payload(scene: Scene, asked: Asked, found: Sweep, name: str, columns: list[str]) -> dict:
    """What both figures share."""
    said = section(scene.words, "sensitive")
    signed = _shown(asked, found) is not found.kl
    format_ = name_of(FORMATS[asked.one], scene.words)
    note = said["note_loss" if signed else f"note_{name}"]
    if asked.shown == "loss" and not signed:
        note = f"{said['no_loss']} {note}"
    return {
        "title": said[f"title_{name}"].format(name=format_),
        "note": note,
        "source": _source(scene, asked, found),
        "file": f"sensitivity-{name}-{asked.one}-{asked.by}-{asked.shown}",
        "run": f"{key_of(scene, asked)} {asked.shown} {scene.language} {name}"[-200:],
        "columns": columns,
        "python": _lines(scene, asked, "found.loss" if signed else "found.kl"),
        "words": plot_words(scene.words),
    }


def heat_payload(scene: Scene, asked: Asked, found: Sweep) -> dict:
    """Layers and matrices."""
    said, z = section(scene.words, "sensitive"), _shown(asked, found)
    signed = z is not found.kl
    value = said["value_loss" if signed else "value_kl"]
    names = [said[f"part_{name}"] for name in found.parts]
    figure = heat_figure(z, names, {"layer": said["layer"], "part": said["part"], "value": value}, signed=signed)
    return {"figure": figure} | _payload(scene, asked, found, "heat", [said["layer"], said["part"], value])


def line_payload(scene: Scene, asked: Asked, found: Sweep) -> dict:
    """Layers alone: the whole block, and its halves where they were measured."""
    said, z = section(scene.words, "sensitive"), _shown(asked, found)
    signed = z is not found.kl
    value = said["value_loss" if signed else "value_kl"]
    shown = ["block"] if asked.by == "matrix" else ["block", "attention", "mlp"]
    columns = {said[f"part_{name}"]: z[:, found.parts.index(name)] for name in shown}
    figure = line_figure(columns, {"layer": said["layer"], "value": value}, signed=signed)
    return {"figure": figure} | _payload(scene, asked, found, "line", [said["part"], said["layer"], value])


def facts_payload(scene: Scene, asked: Asked, found: Sweep) -> dict:
    """The most and the least sensitive layer, and single effects against all at once."""
    said, z = section(scene.words, "sensitivefacts"), _shown(asked, found)
    named = section(scene.words, "sensitive")
    layer, least = strongest(z[:, -1:])[0], mildest(z[:, -1])
    row, column = strongest(z[:, :-1])
    unit = said["unit"]
    total, together = float(found.single.sum()), found.together
    items = [
        [said["most"], said["most_text"].format(layer=layer, value=small(float(z[layer, -1])), unit=unit)],
        [
            said["part"],
            said["part_text"].format(
                layer=row, part=named[f"part_{found.parts[column]}"], value=small(float(z[row, column])), unit=unit
            ),
        ],
        [said["least"], said["least_text"].format(layer=least, value=small(float(z[least, -1])), unit=unit)],
        [said["together"], said["together_text"].format(kl=small(together.kl), agree=percent(together.agree))],
        [said["sum"], _sum_told(said, total, together.kl)],
    ]
    return {"title": said["title"], "items": items, "run": f"{key_of(scene, asked)} {asked.shown} facts"[-200:]}


def _sum_told(said: Mapping[str, str], total: float, together: float) -> str:
    """Whether the effects of single layers add up."""
    given = {"sum": small(total), "kl": small(together)}
    if not total:
        return said["sum_none"].format(**given)
    ratio = together / total
    key = "sum_more" if ratio > 1.15 else "sum_less" if ratio < 1 / 1.15 else "sum_same"
    return said[key].format(**given, ratio=told(float(f"{ratio:.2g}")))


VIEW = View(
    "sensitive",
    build,
    draw,
    parts=PARTS,
    fixed=fixed,
    asks=("sensitive_form",),
    jobs={"sensitive_job": plan},
)
