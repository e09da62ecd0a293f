"""A model diagram drawn from the config alone: each part with its formula, shapes, weights and live numbers."""

from typing import Annotated

from model.anatomy.anatomy import ARCHITECTURES, config_of, n_params
from model.anatomy.anatomy import PARTS as COMPONENTS
from model.anatomy.blueprint import Flow, blueprint, by_component, shares
from model.api import LanguageModel
from model.arguments import check_layer
from model.errors import InputError, say
from model.gpt.config import to_dict
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
from viz.views.anatomy.diagram.figures import drawing, drawn, heads_drawn, second_line, shape_text
from viz.views.anatomy.diagram.live import live, name_of, purpose_of, row_of
from viz.views.anatomy.diagram.measure import (
    FIRST,
    KEYS,
    Parts,
    measure,
    measure_code,
    measure_inside,
    measure_outside,
    vectors,
)
from viz.views.anatomy.subject import ASKING, FORM, config_python, label_of, published_of, source_of
from viz.work.playground import Playground

_LABELS = ("block", "layer", "head", "less", "more", "parts", "jump")


def read(value: object, scene: Scene) -> str:
    """Parse the clicked part; any other value selects the first part."""
    part = value.get("part") if isinstance(value, dict) else None
    return part if isinstance(part, str) and part in KEYS else FIRST


def _chosen(seen: Seen) -> tuple[Parts, str]:
    """Return all parts, and the key of the selected one."""
    return seen.result, seen.result.chosen(seen.settings.figure)


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
        "title": words["title"].format(label=label_of(subject, seen)),
        "note": words["note"],
        "source": f"{source} · {words['tokens_of'].format(n=result.tokens)}",
        "file": f"diagram-{subject.key}",
        "drawing": drawn(drawing(config, list(result.parts)), COMPONENTS),
        "labels": {key: _label(seen, key) for key in result.parts},
        "formulas": {key: part.formula for key, part in result.parts.items()},
        "chosen": FIRST,
        "heads": heads_drawn(config, head if subject.live else None),
        "times": words["times"].format(n=config.n_layer),
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


def _label(seen: Seen, key: str) -> list[str]:
    """Return the name, the second line and the parameter fraction of a box."""
    words, result = seen.here, seen.result
    config, share = result.subject.config, result.shares.get(key)
    text = second_line(config, key, result.parts[key])
    if key == "scores":
        H, G, size = config.n_head, config.n_kv_head, config.group_size
        kind = "own" if size == 1 else "one" if G == 1 else "shared"
        text = words[f"heads_{kind}"].format(H=H, G=G, size=size)
    if key == "unembed" and config.tie_embeddings:
        text = words["tied"]
    return [name_of(seen, key), text, percent(share.share) if share else ""]


def _sites(flows: tuple[Flow, ...]) -> str:
    return ", ".join(f"{flow.site} {shape_text(flow)}" for flow in flows)


# --- the selected part ---


def facts(seen: Seen) -> Payload:
    """List the function, formula, tensor shapes and parameters of the selected part."""
    words, (result, key) = seen.here, _chosen(seen)
    part = result.parts[key]
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
    names = seen.words.within("tensors")
    return ",  ".join(f"{names[flow.site]} {shape_text(flow)}" for flow in flows)


def _parameters(seen: Seen, result: Parts, key: str) -> str:
    """Describe the number of parameters of a part."""
    words, config, share = seen.here, result.subject.config, result.shares.get(key)
    if share is None:
        return words["tied_weights" if key == "unembed" and config.tie_embeddings else "none"]
    values = {"whole": whole(share.whole), "once": whole(share.once), "share": percent(share.share)}
    return words["one_of_all" if result.parts[key].block else "once"].format(**values, n=config.n_layer)


def weights(seen: Seen) -> Payload:
    """Build the table of the selected part's weight tensors."""
    words, (result, key) = seen.here, _chosen(seen)
    name, share, subject = name_of(seen, key), result.shares.get(key), result.subject
    if share is None:
        return {"empty": {"text": words["none"].format(part=name), "hint": words["none_hint"]}}
    about = words["about"].format(n=subject.config.n_layer - 1) if result.parts[key].block else words["one"]
    lines = [f"shares(config)[{key!r}].tensors"]
    return {
        "title": words["title"].format(part=name),
        "about": about,
        "columns": [words[column] for column in ("name", "shape", "count")],
        "rows": [[each.name, " × ".join(map(whole, each.shape)), whole(each.size)] for each in share.tensors],
        "file": f"weights-{subject.key}-{key}",
        "python": config_python(seen, subject, lines, ["from model.anatomy.blueprint import shares"]),
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
        and the entropy of the weights (nats); otherwise null. active: for the part act, the fraction of neurons above
        0; otherwise null.
    """
    scene = at(on(scene, layer, head), position)
    parts: Parts = measured(VIEW, "main", scene)
    if part not in parts.parts:
        raise InputError("No part of the model has this name.", part, say("Choose one of: {}.", ", ".join(parts.parts)))
    position, block = scene.position, parts.parts[part].block
    passed = measured(VIEW, "inside" if block else "outside", scene)
    return {
        "part": part,
        "formula": parts.parts[part].formula,
        "layer": layer if block else None,
        "position": position,
        "vectors": [
            {"way": each.way, "tensor": each.site, "head": each.head} | vars(each.vector)
            for each in vectors(parts, part, passed.sizes, head, position)
        ],
        "attention": row_of(passed, head, position) if part in ("scores", "softmax") else None,
        "active": float(passed.active[position]) if part == "act" else None,
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
        "facts": Custom("normfacts", facts),
        "code": Custom("codelines", code, "code", settings=()),
        "live": Table(live, ("main", "inside", "outside"), depends=("head", "token")),
        "weights": Table(weights),
    },
    api=(
        Endpoint(anatomy, ("anatomy.diagram", "anatomy.parameters"), "model", kind="computed"),
        Endpoint(part_numbers),
        Endpoint(code_of, ("anatomy.diagram", "attention.cell"), "model", kind="listed"),
    ),
)
