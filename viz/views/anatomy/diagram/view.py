"""The model as a drawing, from its config alone: each part with its formula, shapes, weights and live numbers."""

from collections.abc import Mapping

import gradio as gr

from model.anatomy.anatomy import PARTS as COMPONENTS
from model.anatomy.blueprint import Flow, Share, shares
from viz.numbers import percent
from viz.page.old_view import View
from viz.page.parts import choice, part
from viz.page.picking import position_of
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.anatomy.diagram.figures import drawing, drawn, heads_drawn, shape_text, sub
from viz.views.anatomy.diagram.part import FIRST, KEYS, Looked, live_payload, looked_at, name_of
from viz.views.anatomy.old_subject import FORM, LOADED, asked_of, config_python, form, subject_key
from viz.words import some

PARTS = (FORM, "diagram_figure", "diagram_facts", "diagram_live", "diagram_weights")
_LABELS = ("block", "layer", "head", "less", "more", "parts", "jump")


def build() -> dict[str, gr.HTML]:
    """Which model; the drawing left, the part that is looked at right."""
    made = {FORM: part(FORM, None, kind="controls", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["diagram_figure"] = part("diagram_figure", None, kind="modeldiagram", value={})
        with gr.Column(min_width=320, elem_classes="pg-dia-side"):
            made["diagram_facts"] = part("diagram_facts", None, kind="normfacts")
            made["diagram_live"] = part("diagram_live", None, kind="labtable")
            made["diagram_weights"] = part("diagram_weights", None, kind="labtable")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """Which model is drawn."""
    return {FORM: form(words)}


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The drawing, and what is known of one of its parts."""
    subject, key = subject_key(scene, values), choice(values.get("diagram_figure"), "part", KEYS)
    live = asked_of(values)[0] == LOADED
    sized = (subject, len(scene.trace.tokens))
    looked = (scene.run, subject, key, live and (scene.head, position_of(scene)))
    return {
        "diagram_figure": Picture(
            (sized, live and scene.head), lambda: figure_payload(scene, looked_at(scene, values))
        ),
        "diagram_facts": Picture((sized, key), lambda: facts_payload(scene, looked_at(scene, values))),
        "diagram_live": Picture(looked, lambda: live_payload(scene, looked_at(scene, values))),
        "diagram_weights": Picture((sized, key), lambda: weights_payload(scene, looked_at(scene, values))),
    }


# --- the drawing ---------------------------------------------------------------------------------------


def figure_payload(scene: Scene, looked: Looked) -> dict:
    """Every part with its name, width and share of the parameters."""
    words, subject = scene.words, looked.subject
    config, found = subject.config, shares(subject.config)
    labels = {key: _label(scene, looked, key, found.get(key)) for key in looked.parts}
    layer, head = scene.head
    look = {"layer": layer, "layers": config.n_layer, "head": head, "heads": config.n_head} if subject.live else None
    given = words["diagram.tokens_of"].format(n=len(scene.trace.tokens))
    return {
        "title": words["diagram.title"].format(label=subject.label),
        "note": words["diagram.note"],
        "source": f"{words['diagram.source'].format(source=subject.source)} · {given}",
        "file": f"diagram-{subject.key}",
        "run": f"{subject.id} {len(scene.trace.tokens)} {scene.head if subject.live else ''} {scene.language}",
        "drawing": drawn(drawing(config, list(looked.parts)), COMPONENTS),
        "labels": labels,
        "formulas": {key: part.formula for key, part in looked.parts.items()},
        "chosen": FIRST,
        "heads": heads_drawn(config, head if subject.live else None),
        "times": words["diagram.times"].format(n=config.n_layer),
        "look": look,
        "words": some(words, "diagram", *_LABELS),
        "names": [
            words[f"diagram.{key}"] for key in ("column_part", "formula", "column_reads", "column_gives", "parameters")
        ],
        "lines": [
            [
                name_of(scene, looked, key),
                part.formula,
                _flows(part.reads),
                _flows(part.gives),
                found[key].whole if key in found else 0,
            ]
            for key, part in looked.parts.items()
        ],
        "python": config_python(
            scene,
            subject,
            [f"blueprint(config, {len(scene.trace.tokens)})  # the parts by key"],
            ["from model.anatomy.blueprint import blueprint"],
        ),
    }


def _label(scene: Scene, looked: Looked, key: str, share: Share | None) -> list[str]:
    """Name, second line and share of a box."""
    config, words = looked.subject.config, scene.words
    text = sub(config, key, looked.parts[key])
    if key == "scores":
        H, G, size = config.n_head, config.n_kv_head, config.group_size
        kind = "own" if size == 1 else "one" if G == 1 else "shared"
        text = words[f"diagram.heads_{kind}"].format(H=H, G=G, size=size)
    if key == "unembed" and config.tie_embeddings:
        text = words["diagram.tied"]
    return [name_of(scene, looked, key), text, percent(share.share) if share else ""]


def _flows(flows: tuple[Flow, ...]) -> str:
    return ", ".join(f"{flow.site} {shape_text(flow)}" for flow in flows)


# --- one part ------------------------------------------------------------------------------------------


def facts_payload(scene: Scene, looked: Looked) -> dict:
    """What the part does, its formula, shapes and parameters."""
    words, key, part = scene.words, looked.key, looked.part
    both = key == "add2" and looked.subject.config.parallel_residual
    items = [
        [words["diagram.does"], words["diagramdoes.add_both" if both else f"diagramdoes.{key}"]],
        [words["diagram.formula"], part.formula],
        [words["diagram.reads"], _named(scene, part.reads) or words["diagram.nothing"]],
        [words["diagram.gives"], _named(scene, part.gives)],
        [words["diagram.parameters"], _parameters(scene, looked)],
    ]
    run = f"{looked.subject.id} {key} {len(scene.trace.tokens)} {scene.language}"
    return {"title": name_of(scene, looked, key), "items": items, "run": run}


def _named(scene: Scene, flows: tuple[Flow, ...]) -> str:
    return ",  ".join(f"{scene.words[f'diagramtensors.{flow.site}']} {shape_text(flow)}" for flow in flows)


def _parameters(scene: Scene, looked: Looked) -> str:
    """How many there are."""
    config, words = looked.subject.config, scene.words
    found = shares(config).get(looked.key)
    if found is None:
        tied = looked.key == "unembed" and config.tie_embeddings
        return words["diagram.tied_weights" if tied else "diagram.none"]
    given = {"whole": f"{found.whole:,}", "once": f"{found.once:,}", "share": percent(found.share)}
    if looked.part.block:
        return words["diagram.one_of_all"].format(**given, n=config.n_layer)
    return words["diagram.once"].format(**given)


def weights_payload(scene: Scene, looked: Looked) -> dict:
    """The tensors of the part."""
    words, config = scene.words, looked.subject.config
    found, name = shares(config).get(looked.key), name_of(scene, looked, looked.key)
    if found is None:
        said = some(words, "diagram", "no_weights", "no_weights_hint")
        return {"empty": {"text": said["no_weights"].format(part=name), "hint": said["no_weights_hint"]}}
    about = words["diagram.weights_one"]
    if looked.part.block:
        about = words["diagram.weights_about"].format(n=config.n_layer - 1)
    return {
        "title": words["diagram.weights_title"].format(part=name),
        "about": about,
        "columns": [words[f"diagram.column_{column}"] for column in ("name", "shape", "count")],
        "rows": [[each.name, " × ".join(f"{n:,}" for n in each.shape), f"{each.size:,}"] for each in found.tensors],
        "run": f"{looked.subject.id} {looked.key} {scene.language}",
        "file": f"weights-{looked.subject.key}-{looked.key}",
        "source": words["diagram.weights_source"],
        "python": config_python(
            scene,
            looked.subject,
            [f"shares(config)[{looked.key!r}].tensors"],
            ["from model.anatomy.blueprint import shares"],
        ),
    }


VIEW = View("diagram", build, draw, parts=PARTS, fixed=fixed, asks=(FORM, "diagram_figure"))
