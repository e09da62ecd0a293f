"""A model diagram drawn from the config alone: each part with its formula, shapes, weights and live numbers."""

from dataclasses import replace
from typing import Annotated

from model.anatomy.anatomy import PARTS as COMPONENTS
from model.anatomy.anatomy import config_of, n_params
from model.anatomy.architectures import ARCHITECTURES
from model.anatomy.blueprint import Component, Flow, blueprint
from model.anatomy.mixers.kinds import kinds, layers_with
from model.anatomy.mixers.mlp_rows import spans_of
from model.anatomy.parameter_shares import by_component, shares
from model.api import LanguageModel
from model.arguments import check_layer
from model.errors import InputError, say
from model.gpt.config import ModelConfig, to_dict
from model.gpt.mixers.needs import need_scores
from model.source_code.parts import code_of_part, wiring_of
from model.source_code.steps import STEPS, code_of_step
from viz.numbers import percent, whole
from viz.seam.code import code_answer, code_payload
from viz.seam.programs.arguments import Long, OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured, on
from viz.seam.scene import Scene
from viz.seam.view import Asking, Custom, Measure, Payload, Seen, Table, View
from viz.views.anatomy.diagram.boxes import drawing
from viz.views.anatomy.diagram.live import live, name_of, purpose_of, row_of, tensor_of
from viz.views.anatomy.diagram.measure import (
    KEYS,
    Parts,
    measure,
    measure_code,
    measure_inside,
    measure_outside,
    vectors,
)
from viz.views.anatomy.diagram.texts import drawn, heads_drawn, second_line, shape_text
from viz.views.anatomy.subject import ASKING, FORM, config_python, label_of, published_of, source_of
from viz.work.playground import Playground

MOST_SPANS = 4  # maximum number of spans of layers in the header of a frame
_LABELS = ("layer", "head", "less", "more", "parts", "jump")


def read(value: object, scene: Scene) -> str:
    """Parse the clicked part; "" for any other value."""
    part = value.get("part") if isinstance(value, dict) else None
    return part if isinstance(part, str) and part in KEYS else ""


def _chosen(seen: Seen) -> tuple[Parts, str]:
    """Return all parts, and the key of the selected one."""
    return seen.result, seen.result.chosen(seen.settings.figure, seen.facts.head[0])


# --- the drawing ---


def figure(seen: Seen) -> Payload:
    """Draw every part with its name, its dimensions and its fraction of the parameters."""
    words, result, facts = seen.here, seen.result, seen.facts
    subject, config = result.subject, result.subject.config
    layer, head = facts.head
    counts = {"layers": config.n_layer, "heads": config.n_head}
    selection = {"layer": layer, "head": head, **counts} if subject.live else None
    source = words["derived"].format(source=source_of(subject, seen))
    columns = words["part"], seen.words.within("facts")["formula"], words["reads"], words["gives"]
    lines = [f"blueprint(config, {result.tokens})  # the parts by key"]
    return {
        "title": words[_title(config)].format(label=label_of(subject, seen)),
        "note": words["note" if len(kinds(config)) == 1 else "note_kinds"],
        "source": f"{source} · {words['tokens_of'].format(n=result.tokens)}",
        "file": f"diagram-{subject.key}",
        "drawing": _drawn(seen),
        "labels": {key: _label(seen, key) for key in result.parts},
        "formulas": {key: part.formula for key, part in result.parts.items()},
        "chosen": result.chosen("", layer),
        "heads": heads_drawn(config, head if subject.live else None),
        "frames": _frames(seen),
        "look": selection,
        "words": {key: words[key] for key in _LABELS},
        "names": [*columns, seen.words.within("facts")["parameters"]],
        "lines": [
            [
                name_of(seen, key),
                part.formula,
                _sites(part.reads),
                _sites(part.gives),
                result.shares[key].whole if key in result.shares else 0,
            ]
            for key, part in result.parts.items()
        ],
        "python": config_python(seen, subject, lines, ["from model.anatomy.blueprint import blueprint"]),
    }


def _drawn(seen: Seen) -> dict:
    """Return the drawing; where layers differ in size, each box of a layer with the sizes of its kind."""
    result, config, layer = seen.result, seen.result.subject.config, seen.facts.head[0]
    diagram, found = drawing(config, list(result.parts)), kinds(config)
    page = drawn(diagram, COMPONENTS)
    if not result.sized:
        return page
    for box, shown in zip(diagram.boxes, page["boxes"], strict=True):
        if (n := diagram.kind_of(box)) is not None:
            own, here = config.at(found[n].layers[0]), result.subject.live and layer in found[n].layers
            part = result.sized[n][box.key]
            if found[n].shares and box.key in ("qk_norm", "rope"):  # of queries alone
                part = replace(part, gives=part.gives[:1])
            shown["second"] = _second(seen, own, box.key, part)
            shown["heads"] = heads_drawn(own, seen.facts.head[1] if here else None)
    return page


def _frames(seen: Seen) -> list[list[str]]:
    """Return the name of each kind of layer, and how many there are; of several kinds, also which."""
    words, config = seen.here, seen.result.subject.config
    found = kinds(config)
    if len(found) == 1:
        return [[words["block"], words["times"].format(n=config.n_layer)]]
    names = seen.words.within("mixers")
    rows = []
    for kind in found:
        name = names[kind.mixer] if kind.mlp else names["alone"].format(mixer=names[kind.mixer])
        if seen.result.sized and kind.mixer == "attention" and config.mixer_of(kind.layers[0]) == "sliding_window":
            name = names["near"]
        times = words["times_of" if len(kind.layers) > 1 else "times_one"]
        rows.append([name, times.format(n=len(kind.layers), layers=_spans(kind.layers))])
    return rows


def _spans(layers: tuple[int, ...]) -> str:
    """Format layer numbers as a list of spans, the first MOST_SPANS of them."""
    spans = spans_of(layers)
    return ", ".join(spans if len(spans) <= MOST_SPANS else [*spans[: MOST_SPANS - 1], "…"])


def _title(config: ModelConfig) -> str:
    """Return the key of the title: what the model computes from the tokens."""
    return "title_layers" if config.headless else "title_two_way" if config.two_way else "title"


def _label(seen: Seen, key: str) -> list[str]:
    """Return the name, the second line and the parameter fraction of a box."""
    result = seen.result
    share = result.shares.get(key)
    text = _second(seen, result.subject.config, key, result.parts[key])
    return [name_of(seen, key), text, percent(share.share) if share else ""]


def _second(seen: Seen, config: ModelConfig, key: str, part: Component) -> str:
    """Return the second line of a box; `config` has the sizes of its layer."""
    words = seen.here
    if key == "scores":
        H, G, size = config.n_head, config.n_kv_head, config.group_size
        kind = "own" if size == 1 else "one" if G == 1 else "shared"
        return words[f"heads_{kind}"].format(H=H, G=G, size=size)
    if key == "unembed" and config.tie_embeddings:
        return words["tied"]
    return second_line(config, key, part, seen.result.shares.get(key))


def _sites(flows: tuple[Flow, ...]) -> str:
    return ", ".join(f"{flow.site} {shape_text(flow)}" for flow in flows)


# --- the selected part ---


def facts(seen: Seen) -> Payload:
    """List the function, formula, tensor shapes and parameters of the selected part."""
    words, (result, key) = seen.here, _chosen(seen)
    part = result.of(key, seen.facts.head[0])
    items = [
        [words["does"], purpose_of(seen, key)],
        [words["formula"], part.formula],
        [words["reads"], _tensors(seen, part.reads) or words["nothing"]],
        [words["gives"], _tensors(seen, part.gives)],
        [words["parameters"], _parameters(seen, result, key)],
    ]
    return {"title": name_of(seen, key), "items": items}


def code(seen: Seen) -> Payload:
    """Show the source lines that compute the selected part."""
    return code_payload(seen.result, seen.all_words)


def _tensors(seen: Seen, flows: tuple[Flow, ...]) -> str:
    return ",  ".join(f"{tensor_of(seen, flow.site)} {shape_text(flow)}" for flow in flows)


def _parameters(seen: Seen, result: Parts, key: str) -> str:
    """Describe the number of parameters of a part."""
    words, config, share = seen.here, result.subject.config, result.shares.get(key)
    if share is None:
        return words["tied_weights" if key == "unembed" and config.tie_embeddings else "none"]
    values = {"whole": whole(share.whole), "once": whole(share.once), "share": percent(share.share)}
    kind = "one_layer" if share.layers == 1 else "one_of_all" if share.alike else "some_of_all"
    return words[kind if result.parts[key].block else "once"].format(**values, n=share.layers)


def weights(seen: Seen) -> Payload:
    """Build the table of the selected part's weight tensors."""
    words, (result, key) = seen.here, _chosen(seen)
    name, share, subject = name_of(seen, key), result.shares.get(key), result.subject
    if share is None:
        return {"empty": {"text": words["none"].format(part=name), "hint": words["none_hint"]}}
    about = words["one"]
    if result.parts[key].block:
        kind = "about_only" if share.layers == 1 else "about" if share.alike else "about_first"
        about = words[kind].format(layer=share.tensors[0].layer, n=share.layers - 1)
    lines = [f"shares(config)[{key!r}].tensors"]
    return {
        "title": words["title"].format(part=name),
        "about": about,
        "columns": [words[column] for column in ("name", "shape", "count")],
        "rows": [[each.name, " × ".join(map(whole, each.shape)), whole(each.size)] for each in share.tensors],
        "file": f"weights-{subject.key}-{key}",
        "python": config_python(seen, subject, lines, ["from model.anatomy.parameter_shares import shares"]),
    }


# --- for programs ---


def anatomy(
    playground: Playground,
    model: LanguageModel,
    architecture: Annotated[str, OneOf(("", *ARCHITECTURES))] = "",
    config: Annotated[str, Long()] = "",
    tokens: Annotated[int, Within(1, 1 << 20)] = 8,
) -> dict:
    """Describe a model from its config alone: every part with its formula, shapes and parameters.

    Args:
        architecture: Name of a well-known architecture. If empty, config is used, or else the loaded model.
        config: Contents of a config.json of the Hugging Face Hub, or empty.
        tokens: Length of the prompt that the shapes are for.

    Returns:
        config: sizes and options. parts, in the order of the computation: part (key), formula, reads and gives (tensors
        with their axes), tensors (weights of the first block, or outside the blocks, with their shapes), once (number
        of parameters in one block), whole (in all blocks) and share (fraction of all parameters). components: number of
        parameters of each. total: total number of parameters. published: published count of exactly this config, or
        null. counted: sum(p.numel()) of the loaded model; null for another architecture or a config.
    """
    if architecture and config:
        raise InputError("Give an architecture or a config, not both.", architecture, "Leave one of them empty.")
    chosen = config_of(config) if config else ARCHITECTURES[architecture].config if architecture else model.config
    held, published = shares(chosen), published_of(chosen)
    parts = []
    for key, part in blueprint(chosen, tokens).items():
        share = held.get(key)
        parts.append(
            {
                "part": key,
                "formula": part.formula,
                "reads": _flows(part.reads),
                "gives": _flows(part.gives),
                "tensors": [{"name": each.name, "shape": each.shape} for each in share.tensors] if share else [],
                "once": share.once if share else 0,
                "whole": share.whole if share else 0,
                "share": share.share if share else 0.0,
            }
        )
    return {
        "config": to_dict(chosen),
        "parts": parts,
        "components": by_component(held, COMPONENTS),
        "total": n_params(chosen),
        "published": published[0] if published else None,
        "counted": None if architecture or config else model.n_params,
    }


def _flows(flows: tuple[Flow, ...]) -> list[dict]:
    return [{"tensor": flow.site, "axes": dict(flow.axes)} for flow in flows]


def part_numbers(
    scene: Scene, part: Annotated[str, OneOf(KEYS)] = "q", layer: int = 0, head: int = 0, position: int = -1
) -> dict:
    """Measure the prompt's vectors in one part of the model, at one token.

    Args:
        part: A part, as listed by the endpoint anatomy.

    Returns:
        vectors: inputs and outputs of the part, each with way (reads or gives), tensor, head (null for a tensor without
        a head axis), n (its length), rms, mean, largest (in absolute value) and place (index of the largest).
        attention: for the parts scores and softmax, the largest and the mean score, the largest weight with its key,
        the entropy of the weights (nats), and the number of visible keys; otherwise null. active: for the part act, the
        fraction of neurons above 0 in a layer with a single MLP; otherwise null.
    """
    scene = at(on(scene, layer, head), position)
    parts: Parts = measured(VIEW, "main", scene)
    if part not in parts.parts:
        raise InputError("No part of the model has this name.", part, say("Choose one of: {}.", ", ".join(parts.parts)))
    position, block = scene.position, parts.parts[part].block
    layers = layers_with(parts.subject.config, part)
    if block and layer not in layers:
        hint = say("Choose one of its layers: {}.", ", ".join(map(str, layers)))
        raise InputError("This layer does not have the part.", f"layer {layer}: {part}", hint)
    passed = measured(VIEW, "inside" if block else "outside", scene)
    return {
        "part": part,
        "formula": parts.parts[part].formula,
        "layer": layer if block else None,
        "position": position,
        "vectors": [
            {"way": each.way, "tensor": each.site, "head": each.head} | vars(each.vector)
            for each in vectors(parts, part, passed.sizes, (layer, head), position)
        ],
        "attention": row_of(passed, head, position) if part in ("scores", "softmax") else None,
        "active": float(passed.active[position]) if part == "act" and passed.active is not None else None,
    }


def code_of(
    playground: Playground,
    model: LanguageModel,
    part: Annotated[str, OneOf((*KEYS, *(f"step_{step}" for step in STEPS)))] = "q",
    layer: int = 0,
    tokens: Annotated[int, Within(1, 1 << 20)] = 8,
) -> dict:
    """Return the lines of this project's source code that compute a part of the model.

    Args:
        part: A part, as listed by the endpoint anatomy, or step_ followed by a step from two vectors to one attention
            weight.
        layer: Layer, counted from 0, whose modules run the lines.
        tokens: Length of the prompt that the shapes are for.

    Returns:
        code: for each function its file, function (dotted name), lines (first and last line of each contiguous
        excerpt), text and shapes (line, and shape of the tensor computed there). mini: the same for docs/mini_gpt.py,
        if it implements the model's architecture.
    """
    check_layer(layer, model.config.n_layer)
    wiring = wiring_of(model.model, layer)
    if part.startswith("step_"):
        need_scores(model.config, layer)
        excerpts = code_of_step(wiring, part.removeprefix("step_"), tokens, tokens - 1)
    else:
        excerpts = code_of_part(wiring, part, tokens)
    return {"part": part} | code_answer(excerpts)


VIEW = View(
    "diagram",
    needs=("layers",),
    measures=(
        Measure("main", measure, ("plain",), (FORM,), locks=False),
        Measure("code", measure_code, ("plain", "layer"), (FORM, "figure"), locks=False),
        Measure("inside", measure_inside, ("run", "layer"), (FORM,)),
        Measure("outside", measure_outside, ("run", "token"), (FORM,)),
    ),
    layout=(FORM, ("figure", ("facts", "code", "live", "weights"))),
    parts={
        FORM: ASKING,
        "figure": Asking("modeldiagram", read, figure, "main", depends=("head",)),
        "facts": Custom("normfacts", facts, depends=("head",)),
        "code": Custom("codelines", code, "code", settings=()),
        "live": Table(live, ("main", "inside", "outside"), depends=("head", "token")),
        "weights": Table(weights, depends=("head",)),
    },
    api=(
        Endpoint(anatomy, ("anatomy.diagram", "anatomy.parameters"), "model", kind="computed"),
        Endpoint(part_numbers),
        Endpoint(code_of, ("anatomy.diagram", "attention.cell"), "model", kind="listed"),
    ),
)
