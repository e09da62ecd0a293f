"""The numbers of norms and activations: what flows through the model, and what each norm and neuron does to it."""

import dataclasses
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
from model.activations.norm_swap import SWAPS, WHERE, places_of, swapped
from model.activations.norm_walk import compare_batch, norm_input, norm_of, norms_of, quantiles, walk_vector
from model.api import LanguageModel
from model.attention.effects import next_tokens
from model.errors import InputError, say
from model.progress import Progress
from viz.api.answers import top_of
from viz.api.arguments import OneOf, Rows, Within
from viz.api.reading import check_head, done, named, place, prompt_tokens
from viz.page import background
from viz.page.playground import Playground
from viz.page.scene import Scene
from viz.views.activations.neurons import view as neurons_view
from viz.views.activations.norm_swap import view as swap_view
from viz.views.activations.stream_picture import view as stream_picture

Site = Annotated[str, OneOf(("norm1", "norm2", "final"))]


# --- norms -----------------------------------------------------------------------------------------------


def _place(model: LanguageModel, layer: int, site: str) -> tuple[int, str]:
    """A norm of the model; raises InputError for one that is not there."""
    found = (model.config.n_layer, "final") if site == "final" else (layer, site)
    norm_of(model.model, *found)
    return found


def norm(scene: Scene, layer: int = 0, site: Site = "norm1", position: int = -1) -> dict:
    """One norm (LayerNorm or RMSNorm) on one token, every step of its formula, and BatchNorm in its place.

    Args:
        site: norm1 and norm2 belong to attention and MLP of the layer; final comes before the output.
        position: The token whose vector is normed; negative counts from the end.

    Returns:
        walk: x, mean, centred, spread, divisor, normalised, gain, scaled, bias and out, each with d_model numbers where
        it is a vector; model_out: what the model's own norm gives; gap: the largest difference. batch: root mean
        squares and what changes under BatchNorm.
    """
    t, where = place(scene, position), _place(scene.model, layer, site)
    with scene.playground.computing:
        x = norm_input(scene.trace, *where)
    module = norm_of(scene.model.model, *where)
    found = compare_batch(module, x)
    batch = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    return {"layer": where[0], "site": where[1], "position": t, "walk": walk_vector(module, x[t]), "batch": batch}


def norm_gains(playground: Playground, model: LanguageModel) -> dict:
    """Gain and bias of all norms of a model: 5 %, median and 95 % over the dimensions.

    Returns:
        norms: layer, site, gain and, where there is one, bias: three numbers each.
    """
    found = quantiles(model.model)
    rows = [
        {"layer": layer, "site": site} | {name: values[n] for name, values in found.items()}
        for n, (layer, site) in enumerate(norms_of(model.config))
    ]
    return {"norms": rows}


def norm_swap(
    scene: Scene,
    change: Annotated[str, OneOf(tuple(SWAPS))] = "frozen",
    where: Annotated[str, OneOf(WHERE)] = "all",
    layer: int = 0,
    site: Site = "norm1",
    position: int = -1,
    most: Rows = 10,
) -> dict:
    """What becomes of the prediction when norms are exchanged, lose a part, are frozen or taken out.

    Args:
        change: other: LayerNorm and RMSNorm exchanged. no_mean, no_gain, no_bias: without that part. frozen: divided by
            a constant. removed: taken out.
        where: all, norm1, norm2 or final norms; one: the norm named by layer and site.
        layer: Layer of the one norm.
        site: Site of the one norm: norm1, norm2 or final.

    Returns:
        kl: mean KL divergence of the predictions (nats), loss before and after (nats a token), overflow: the block in
        which numbers left float32; next: tokens with p_before, p_after and logits; lengths: of the stream by layer and
        token, before and after.
    """
    t, config = place(scene, position), scene.model.config
    places = (_place(scene.model, layer, site),) if where == "one" else places_of(config, where)

    def work(progress: Progress) -> object:
        return swapped(scene.trace, change, places, progress)

    asked = swap_view.Change(change, where, places)
    found = done(scene.playground, background.Job(swap_view.key_of(scene, asked), work))
    loss = None if found.losses is None else dict(zip(("before", "after"), found.losses, strict=True))
    rows = None
    if t < len(found.read):
        table = next_tokens(scene.trace, found, t, most, scene.model.tokenizer.vocab_size)
        rows = [row | named(scene.model, row["id"]) for row in table.to_dict("records")]
    return {
        "norms": [{"layer": each, "site": name} for each, name in places],
        "kl": found.kl,
        "loss": loss,
        "overflow": found.overflow,
        "position": t,
        "next": rows,
        "lengths": {"before": found.before, "after": found.lengths},
    }


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
