"""The numbers of norms and activations: what flows through the model, and what each norm and neuron does to it."""

from typing import Annotated

from model.activations.neurons import (
    EDGES,
    ORDERS,
    activation,
    layer_activations,
    promoted,
    ranked,
    write_lengths,
)
from model.errors import InputError, say
from viz.api.answers import top_of
from viz.api.arguments import OneOf, Within
from viz.api.reading import check_head, done, named, place, prompt_tokens
from viz.page.scene import Scene
from viz.views.activations.neurons import view as neurons_view
from viz.views.activations.stream_picture import view as stream_picture

Site = Annotated[str, OneOf(("norm1", "norm2", "final"))]


# --- neurons ---------------------------------------------------------------------------------------------


def neurons(
    scene: Scene,
    layer: int,
    order: Annotated[str, OneOf(ORDERS)] = "here",
    position: int = -1,
    most: Annotated[int, Within(1, 100)] = 12,
) -> dict:
    """The most active MLP neurons of a layer, and what each writes towards.

    Args:
        order: here: largest activation at the position; prompt: over the prompt; writes: length of what it adds.

    Returns:
        neurons: neuron, activation at the position, peak (position of its largest), and the token it promotes most.
    """
    t = place(scene, position)
    check_head(scene.model, layer, 0)
    with scene.playground.computing:
        read = layer_activations(scene.trace, layer)
        wanted = ranked(read.post, write_lengths(scene.model.model, layer), order, t)[:most].tolist()
        pushed = promoted(scene.model.model, layer, wanted, 1, scene.model.tokenizer.vocab_size)
    peaks = [top_of(abs(read.post[:, n]), 1)[0] for n in wanted]
    rows = [
        {
            "neuron": n,
            "activation": read.post[t, n],
            "peak": peak,
            "largest": read.post[peak, n],
            "towards": named(scene.model, towards[0]),
        }
        for n, peak, towards in zip(wanted, peaks, pushed.up, strict=True)
    ]
    return {"layer": layer, "order": order, "position": t, "neurons": rows}


def neuron(scene: Scene, layer: int, neuron: int, most: Annotated[int, Within(1, 100)] = 8) -> dict:
    """One MLP neuron on the prompt: its numbers at every token, and the tokens that it promotes and suppresses.

    Args:
        neuron: Number of the neuron, counted from 0.

    Returns:
        pre, post and, for gated MLPs, up: one number a token, before and after the activation function; function: the
        activation function at its pre-activations; promotes, suppresses: tokens with a score.
    """
    config = scene.model.config
    check_head(scene.model, layer, 0)
    if not 0 <= neuron < config.d_mlp:
        raise InputError("There is no such neuron.", str(neuron), say("Neurons run from 0 to {}.", config.d_mlp - 1))
    with scene.playground.computing:
        read = layer_activations(scene.trace, layer)
        pushed = promoted(scene.model.model, layer, [neuron], most, scene.model.tokenizer.vocab_size)
    sides = {"promotes": (pushed.up[0], pushed.up_scores[0]), "suppresses": (pushed.down[0], pushed.down_scores[0])}
    return {
        "layer": layer,
        "neuron": neuron,
        "kind": config.mlp,
        "tokens": prompt_tokens(scene),
        "pre": read.pre[:, neuron],
        "post": read.post[:, neuron],
        "up": None if read.up is None else read.up[:, neuron],
        "function": activation(config, read.pre[:, neuron]),
    } | {
        name: [named(scene.model, n) | {"score": score} for n, score in zip(*found, strict=True)]
        for name, found in sides.items()
    }


def neuron_survey(scene: Scene) -> dict:
    """The MLP neurons of every layer in a few numbers: how many are active, and how large they get.

    Returns:
        layers: never: share of the neurons that are active at no token; quiet: share that never reach the root mean
        square of their layer; active: share of (token, neuron) pairs; largest activation with its token and neuron;
        counts: how many activations lie between the edges (null: without end).
    """
    found = done(scene.playground, neurons_view.plan_survey(scene, {}))
    rows = [
        {
            "layer": n,
            "never": never,
            "quiet": quiet,
            "active": active,
            "largest": largest,
            "token": where[0],
            "neuron": where[1],
            "counts": counts,
        }
        for n, (never, quiet, active, counts, largest, where) in enumerate(
            zip(found.never, found.quiet, found.active, found.counts, found.largest, found.place, strict=True)
        )
    ]
    return {"edges": EDGES, "layers": rows}


def residual_space(scene: Scene, unit: bool = True, first: bool = True) -> dict:
    """All tokens of all layers in the first three principal components of the residual stream.

    Args:
        unit: Whether every state is divided by its length first.
        first: Whether the first token, which is often far off, is among them.

    Returns:
        coordinates: by layer (0: before the first block) and token, three numbers; shares: of the variance; start: the
        position of the first token.
    """
    form = {"states": "unit" if unit else "raw", "first": first}
    found = done(scene.playground, stream_picture.plan_space(scene, {"space_form": form}))
    return {
        "tokens": prompt_tokens(scene)[found.start :],
        "start": found.start,
        "shares": found.shares,
        "coordinates": found.coordinates,
        "unit": unit,
    }
