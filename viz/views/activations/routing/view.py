"""Routing: the experts that each token of the prompt is sent to in a mixture of experts."""

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np

from model.activations.routing import Routed, routing
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from viz.labels import quoted
from viz.numbers import bits, percent, whole
from viz.seam.programs.arguments import Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, prompt_tokens
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Custom, Figure, Measure, Payload, Seen, View
from viz.views.activations.routing.figures import entropy_figure, layers_figure, probabilities_figure
from viz.words import Words


def _layers(scene: Scene) -> tuple[str, ...]:
    """Return the layers with experts; empty for a model without them."""
    config = scene.model.config
    return tuple(str(layer) for layer in range(config.n_layer) if config.has_experts(layer))


def _plain(words: Words, option: str) -> str:
    """Return a layer number, which is its own label."""
    return option


LAYER = Choice("layer", _layers, label=_plain)


def measure(scene: Scene, settings: Settings) -> Routed | None:
    """Compute the routing of the run in all layers; None for a model without experts."""
    return routing(scene.trace) if scene.model.config.n_expert > 1 else None


def _none(seen: Seen) -> Payload:
    """Say that the model has no experts."""
    words = seen.words.within("none")
    way = {"tab": "training", "view": "experts", "text": words["way"]}
    return {"empty": {"text": words["text"].format(model=seen.facts.label), "hint": words["hint"], "way": way}}


def _at(seen: Seen) -> int:
    """Return the index of the selected layer among those with experts."""
    layer = int(seen.settings.layer or seen.result.layers[0])
    return seen.result.layers.index(layer)


def _python(seen: Seen, lines: Sequence[str]) -> str:
    return script(seen.facts, ["found = routing(run)", *lines], ["from model.activations.routing import routing"])


def probabilities(seen: Seen) -> Payload:
    """Draw the router's probabilities in one layer, with the experts that process each token."""
    if seen.result is None:
        return _none(seen)
    words, result, at = seen.here, seen.result, _at(seen)
    return {
        "figure": probabilities_figure(result.probabilities[at], result.experts[at], seen.facts.pieces, words.plain()),
        "title": words["title"].format(layer=result.layers[at]),
        "note": words["note"].format(k=result.experts.shape[2], n=result.load.shape[1]),
        "columns": [words["expert"], words["token"], words["probability"]],
        "file": f"routing-layer-{result.layers[at]}",
        "picks": "column",
        "last": seen.facts.position,
        "python": _python(seen, [f"found.probabilities[{at}], found.experts[{at}]  # [T, N], [T, k]"]),
    }


def path(seen: Seen) -> Payload:
    """Draw the router's probabilities for the selected token in every layer, with the experts that process it."""
    if seen.result is None:
        return _none(seen)
    words, result, position = seen.here, seen.result, seen.facts.position
    named = words.plain() | {"value": words["probability"]}
    return {
        "figure": layers_figure(result.probabilities[:, position], result.layers, named, result.experts[:, position]),
        "title": words["title"].format(token=quoted(seen.facts.pieces[position]), position=position),
        "note": words["note"],
        "columns": [words["layer"], words["expert"], words["probability"]],
        "file": f"routing-token-{position}",
        "python": _python(seen, [f"found.probabilities[:, {position}]  # [L, N]"]),
    }


def load(seen: Seen) -> Payload:
    """Draw the load of every expert in every layer with experts."""
    if seen.result is None:
        return _none(seen)
    words, result = seen.here, seen.result
    layer, expert = np.unravel_index(int(result.load.argmax()), result.load.shape)
    idle = int((result.load == 0).sum())
    values = {"expert": expert, "layer": result.layers[layer], "most": percent(float(result.load.max()))}
    values |= {"idle": whole(idle), "all": whole(result.load.size), "even": percent(1 / result.load.shape[1])}
    return {
        "figure": layers_figure(result.load, result.layers, words.plain() | {"value": words["load"]}),
        "title": words["title"],
        "note": words["note"].format(**values),
        "columns": [words["layer"], words["expert"], words["load"]],
        "file": "routing-load",
        "python": _python(seen, ["found.load  # [L, N]"]),
    }


def entropy(seen: Seen) -> Payload:
    """Draw the entropy of the router's probabilities by token, in bits."""
    if seen.result is None:
        return _none(seen)
    words, result, at = seen.here, seen.result, _at(seen)
    values, mean = result.entropy[at] / math.log(2), result.entropy.mean(0) / math.log(2)
    most = math.log2(result.load.shape[1])
    named = words.plain() | {"layer": words["layer"].format(layer=result.layers[at])}
    return {
        "figure": entropy_figure(values, mean, most, seen.facts.pieces, named),
        "title": words["title"].format(layer=result.layers[at]),
        "note": words["note"].format(most=bits(most)),
        "columns": [words["series"], words["position"], words["bits"]],
        "file": f"routing-entropy-layer-{result.layers[at]}",
        "python": _python(seen, [f"found.entropy[{at}] / math.log(2)  # [T]"]),
    }


def facts(seen: Seen) -> Payload:
    """List the experts of the token at the position, with their weights."""
    if seen.result is None:
        return _none(seen)
    words, result, at, position = seen.here, seen.result, _at(seen), seen.facts.position
    chosen = zip(result.experts[at, position], result.weights[at, position], strict=True)
    items = [[words["expert"].format(n=int(expert)), percent(float(weight))] for expert, weight in chosen]
    total = float(result.weights[at, position].sum())
    items.append([words["entropy"], words["bits"].format(n=bits(float(result.entropy[at, position]) / math.log(2)))])
    items.append([words["sum"], words[_about_sum(seen.facts.config, total)].format(n=percent(total))])
    token = quoted(seen.facts.pieces[position])
    return {"title": words["title"].format(token=token, position=position, layer=result.layers[at]), "items": items}


def _about_sum(config: ModelConfig, total: float) -> str:
    """Return the key of the sentence about the sum of a token's weights."""
    if config.router_scores == "sparsemixer":
        return "sum_near"
    if config.expert_scales:
        return "sum_scaled"
    if config.expert_multiplier != 1:
        return "sum_times"
    return "sum_one" if abs(total - 1) < 1e-4 else "sum_less"


# --- for programs ---


def expert_routing(scene: Scene, layer: Annotated[int, Within(-1, 1000)] = -1) -> dict:
    """Compute the experts that each token of a prompt is sent to in a mixture of experts.

    Args:
        layer: Layer with experts; -1 for the first one.

    Returns:
        layers: those with experts; experts: of each token, the most likely first, [token][choice]; weights: their
        weights; probabilities: [token][expert]; entropy: of each token, in nats; load: fraction of the choices by
        layer, [layer][expert].
    """
    result: Routed | None = measured(VIEW, "main", scene)
    if result is None:
        raise InputError("This model has one MLP in each layer and no experts.", "", "Choose a mixture of experts.")
    if layer != -1 and layer not in result.layers:
        listed = ", ".join(map(str, result.layers))
        raise InputError("This layer has no experts.", str(layer), say("Choose one of: {}.", listed))
    at = 0 if layer == -1 else result.layers.index(layer)
    names = "experts", "weights", "probabilities", "entropy"
    values = {name: getattr(result, name)[at] for name in names}
    return {"layers": list(result.layers), "tokens": prompt_tokens(scene), **values, "load": result.load}


VIEW = View(
    "routing",
    settings=(LAYER,),
    needs=("layers",),
    form_depends=("model",),
    measures=(Measure("main", measure, ("run",), ()),),
    layout=("form", ("map", ("facts", "path")), ("load", "entropy")),
    offered=lambda config: config.n_expert > 1,
    parts={
        "map": Figure(probabilities, depends=("token",), settings=("layer",)),
        "facts": Custom("normfacts", facts, depends=("token",), settings=("layer",)),
        "path": Figure(path, depends=("token",), settings=()),
        "entropy": Figure(entropy, settings=("layer",)),
        "load": Figure(load, settings=()),
    },
    api=(Endpoint(expert_routing),),
)
