"""Neurons: the most active neurons of a layer, the effect of one neuron, and a summary of all layers."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from model.activations.neurons import (
    ACTIVE,
    EDGES,
    ORDERS,
    Activations,
    Survey,
    activation,
    promoted,
    ranked,
    write_lengths,
)
from model.errors import InputError, say
from viz.labels import quoted, shorten, visible
from viz.numbers import number, percent, plain, whole
from viz.seam.programs.answers import top_of
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import check_head, measured, named, place, prompt_tokens
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice
from viz.seam.view import Asking, Custom, Figure, Job, Measure, Payload, Seen, View
from viz.theme import SIGNED_RAMPS
from viz.views.activations.neurons.figures import bins_figure, curve_figure, map_figure, shares_figure
from viz.views.activations.neurons.measure import (
    MAPPED,
    TOKENS,
    Neuron,
    layer_question,
    measure_curve,
    measure_layer,
    measure_one,
    measure_quick,
    measure_survey,
    measure_top,
    of_layer,
    one_question,
    read_neuron,
    top_question,
)
from viz.views.activations.runs import is_quick
from viz.words import Words, joined, plot_words


def _layers(scene: Scene) -> tuple[str, ...]:
    """Return the options of the layer setting: "" for the main head's layer, then every layer."""
    return ("", *map(str, range(scene.model.config.n_layer)))


LAYER = Choice("layer", _layers, label=lambda words, option: option or words["layer_main"])
ORDER = Choice("order", ORDERS)
# Words that static/views/activations/neurons.js reads.
TOP_WORDS = ("number", "column_neuron", "column_value", "column_peak", "column_toward", "row_name")
ONE_WORDS = (
    "scale",
    "text",
    "token_name",
    "promotes",
    "suppresses",
    "pushes_about",
    "column_position",
    "column_token",
    "column_pre",
    "column_gate",
    "column_up",
    "column_post",
)


def _words(words: Words, names: Sequence[str]) -> dict[str, str]:
    return {name: words[name] for name in names}


def _token(seen: Seen, at: int) -> str:
    """Format the token at a position, shortened for display."""
    return shorten(visible(seen.facts.pieces[at]), 24)


def _python(seen: Seen, lines: Sequence[str], names: str) -> str:
    return script(seen.facts, list(lines), [f"from model.activations.neurons import {names}"])


# --- the layer ---


def top(seen: Seen) -> Payload:
    """Build the list of the top neurons in the selected order, with a map of their activations at all tokens."""
    words, result, at, order = seen.here, seen.result, seen.facts.position, seen.settings.order
    rows = [
        row
        | {"shown": {"value": number(row["value"]), "peak": number(row["peak"])}}
        | {"token": _token(seen, row["at"]), "toward": quoted(seen.facts.piece(int(toward)))}
        for row, toward in zip(result.rows, result.toward, strict=True)
    ]
    title = words[f"title_{order}"].format(layer=result.layer, token=_token(seen, at), position=at)
    return {
        "title": title,
        "note": words["note"],
        "rows": rows,
        "of": of_layer(seen.facts.model_id, result.layer),
        "last": seen.facts.config.d_mlp - 1,
        "map": _map(seen),
        "words": _words(words, TOP_WORDS),
    }


def _map(seen: Seen) -> Payload:
    """Draw the activations of the top neurons at every token."""
    words, result, order = seen.here, seen.result, seen.settings.order
    labels = {"neuron": seen.words["neuron"], "activation": seen.words["activation"], "token": words["token"]}
    lines = [
        f"layer = layer_activations(run, {result.layer})",
        f"lengths = write_lengths(run.model, {result.layer})",
        f"order = ranked(layer.post, lengths, {order!r}, {seen.facts.position})",
        f"layer.post[:, order[:{MAPPED}]].T  # [neuron, token]",
    ]
    return {
        "figure": map_figure(result.post.T, result.neurons, seen.facts.pieces, labels),
        "neurons": list(result.neurons),
        "title": words["map_title"].format(n=len(result.neurons)),
        "note": words["map_note"],
        "source": seen.facts.source,
        "file": f"neurons-{result.layer}-{order}",
        "columns": list(labels.values()),
        "python": _python(seen, lines, "layer_activations, ranked, write_lengths"),
        "words": plot_words(seen.all_words),
    }


# --- one neuron ---


def one(seen: Seen) -> Payload:
    """Build the payload of one neuron: activations by token, labeled numbers, and promoted and suppressed tokens."""
    words, result, pieces, pushes = seen.here, seen.result, seen.facts.pieces, seen.result.pushes
    sides = {"up": (pushes.up[0], pushes.up_scores[0]), "down": (pushes.down[0], pushes.down_scores[0])}
    largest = float(np.abs(result.post).max()) or 1.0
    arguments = f"{result.layer}, [{result.neuron}], {TOKENS}, lm.tokenizer.vocab_size"
    lines = [
        f"layer = layer_activations(run, {result.layer})",
        f"layer.post[:, {result.neuron}]  # one number per token",
        f"promoted(run.model, {arguments})",
    ]
    return {
        "title": words["title"].format(neuron=result.neuron, layer=result.layer),
        "note": words["note"],
        "tokens": [visible(piece) for piece in pieces],
        "breaks": [at for at, piece in enumerate(pieces) if "\n" in piece],
        "at": seen.facts.position,
        "columns": {name: [plain(value, 7) for value in column.tolist()] for name, column in _columns(result).items()},
        "shown": [number(value) for value in result.post.tolist()],
        "ends": [number(-largest), number(largest)],
        "facts": _facts(seen),
        "pushes": {
            side: [
                [quoted(seen.facts.piece(int(token))), float(score), number(float(score))]
                for token, score in zip(*both, strict=True)
            ]
            for side, both in sides.items()
        },
        "ramps": {name: list(stops) for name, stops in SIGNED_RAMPS.items()},
        "file": f"neuron-{result.layer}-{result.neuron}",
        "python": _python(seen, lines, "layer_activations, promoted"),
        "words": _words(words, ONE_WORDS) | plot_words(seen.all_words),
    }


def _columns(result: Neuron) -> dict[str, np.ndarray]:
    """Return the neuron's values at every token, by name. Each array is [T]."""
    columns = {"pre": result.pre, "post": result.post}
    return columns if result.up is None else columns | {"up": result.up}


def _facts(seen: Seen) -> list[list[str]]:
    """List labeled numbers of the neuron: its values at the position, its largest activation, and its rank."""
    words, at, result = seen.here, seen.facts.position, seen.result
    gated = {"pre": "fact_gate", "up": "fact_up", "post": "fact_post"}
    names = {"pre": "fact_pre", "post": "fact_post"} if result.up is None else gated
    facts = [[words["fact_position"].format(token=_token(seen, at), position=at), ""]]
    facts += [[words[label], number(float(getattr(result, name)[at]))] for name, label in names.items()]
    peak = int(abs(result.post).argmax())
    largest = {"value": number(float(result.post[peak])), "token": _token(seen, peak), "position": peak}
    facts.append([words["fact_largest"], words["fact_largest_at"].format(**largest)])
    if result.rank is not None:
        label = words["fact_rank"].format(n=whole(seen.facts.config.d_mlp))
        facts.append([label, words["fact_rank_of"].format(rank=whole(result.rank))])
    return facts


def curve(seen: Seen) -> Payload:
    """Draw the activation function with the neuron's tokens on it, above a histogram of the layer's pre-activations."""
    words, result, shown, kind = seen.here, seen.result, seen.results["one"], seen.facts.config.mlp
    name = seen.words[f"function_{kind}"]
    notes = [words["note"]]
    notes += [words["outside"].format(share=percent(result.outside))] if result.outside else []
    notes += [words["gated"]] if seen.facts.config.gated else []
    lines = [
        f"pre = layer_activations(run, {shown.layer}).pre",
        f"activation(lm.model, {shown.layer}, pre[:, {shown.neuron}])",
    ]
    return {
        "figure": curve_figure(result, shown.neuron, name, seen.facts.pieces, words),
        "title": words["title"].format(name=name, layer=shown.layer, neuron=shown.neuron),
        "note": joined(notes),
        "columns": [words["series"], words["token"], words["pre"], "f(x)"],
        "file": f"activation-function-{shown.layer}-{shown.neuron}",
        "python": _python(seen, lines, "activation, layer_activations"),
    }


# --- all layers ---


def job(seen: Seen) -> Payload:
    """Describe the cost of summarizing all layers; no text if they are summarized automatically."""
    if is_quick(seen.facts.n_params, len(seen.facts.tokens)):
        return {"text": "", "done": True}
    return {"text": seen.here["hint"]}


def _survey(seen: Seen) -> Survey | None:
    """Return the survey of all layers, whether computed automatically or by the button; None before that."""
    return seen.results["quick"] or seen.results["survey"]


def _placeholder(seen: Seen) -> Payload:
    return {"empty": {"text": seen.here["empty"], "hint": seen.here["empty_hint"]}}


def bins(seen: Seen) -> Payload:
    """Draw the histograms of the activations, one row per layer."""
    words, result = seen.here, _survey(seen)
    if result is None:
        return _placeholder(seen)
    labels = {"layer": words["layer"], "activation": seen.words["activation"], "share": words["share"]}
    lines = ["survey(run).counts  # [layer, bin]; the bins lie between EDGES"]
    return {
        "figure": bins_figure(result.counts, EDGES, labels),
        "title": words["title"],
        "note": words["note"],
        "columns": [words["layer"], seen.words["activation"], words["column_share"]],
        "file": "neurons-by-layer",
        "python": _python(seen, lines, "EDGES, survey"),
    }


def shares(seen: Seen) -> Payload:
    """Draw the fractions of never active, quiet and active neurons by layer, with a note on the activity threshold."""
    words, result = seen.here, _survey(seen)
    if result is None:
        return _placeholder(seen)
    lines = {words["never"]: result.never, words["quiet"]: result.quiet, words["active"]: result.active}
    exact, lead = seen.facts.config.mlp == "relu", ["layers = survey(run)"]
    return {
        "figure": shares_figure(lines, words),
        "title": words["title"],
        "note": words["relu"] if exact else words["smooth"].format(percent=percent(ACTIVE)),
        "columns": [words["series"], words["layer"], words["share"]],
        "file": "neurons-active",
        "python": _python(seen, [*lead, "layers.never, layers.quiet, layers.active  # [layer] each"], "survey"),
    }


# --- for programs ---


def neurons(
    scene: Scene,
    layer: int,
    order: Annotated[str, OneOf(ORDERS)] = "here",
    position: int = -1,
    most: Annotated[int, Within(1, 100)] = 12,
) -> dict:
    """List the most active MLP neurons of a layer and the token that each promotes most.

    Args:
        order: Sort key, in decreasing order. here: |activation| at the position; prompt: largest |activation| over the
            prompt; writes: length of the neuron's output vector at the position.

    Returns:
        neurons: neuron, activation at the position, peak (position of its largest |activation|), largest (its
        activation there), and towards (the token that it promotes most).
    """
    t = place(scene, position)
    check_head(scene.model, layer, 0)
    read: Activations = measured(VIEW, "layer", scene, layer=str(layer))
    with scene.playground.computing:
        first = ranked(read.post, write_lengths(scene.model.model, layer), order, t)[:most].tolist()
        pushed = promoted(scene.model.model, layer, first, 1, scene.model.tokenizer.vocab_size)
    peaks = [top_of(abs(read.post[:, n]), 1)[0] for n in first]
    rows = [
        {
            "neuron": n,
            "activation": read.post[t, n],
            "peak": peak,
            "largest": read.post[peak, n],
            "towards": named(scene.model, towards[0]),
        }
        for n, peak, towards in zip(first, peaks, pushed.up, strict=True)
    ]
    return {"layer": layer, "order": order, "position": t, "neurons": rows}


def neuron(scene: Scene, layer: int, neuron: int, most: Annotated[int, Within(1, 100)] = 8) -> dict:
    """Measure one MLP neuron on the prompt: its values at every token, and the tokens it promotes and suppresses.

    Args:
        neuron: Index of the neuron, counted from 0.

    Returns:
        pre, post and, for gated MLPs, up: pre-activation (of the gate in gated MLPs), activation and up projection, one
        number per token; function: the activation function at pre; promotes, suppresses: tokens, each with its score.
    """
    config = scene.model.config
    check_head(scene.model, layer, 0)
    if not 0 <= neuron < config.d_mlp:
        raise InputError("This neuron does not exist.", str(neuron), say("Neurons run from 0 to {}.", config.d_mlp - 1))
    read: Activations = measured(VIEW, "layer", scene, layer=str(layer))
    with scene.playground.computing:
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
        "function": activation(scene.model.model, layer, read.pre[:, neuron]),
    } | {
        name: [named(scene.model, n) | {"score": score} for n, score in zip(*tokens, strict=True)]
        for name, tokens in sides.items()
    }


def neuron_survey(scene: Scene) -> dict:
    """Summarize the MLP neurons of every layer: the fractions that are active, the largest activation, and a histogram.

    Returns:
        edges: bounds of the histogram's bins (null: unbounded). layers: never: fraction of neurons that are active at
        no token; quiet: fraction that never reach the root mean square of their layer; active: fraction of (token,
        neuron) pairs that are active; largest: the activation of largest magnitude, with its token and neuron; counts:
        number of activations in each bin.
    """
    result: Survey = measured(VIEW, "quick", scene) or measured(VIEW, "survey", scene)
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
            zip(result.never, result.quiet, result.active, result.counts, result.largest, result.place, strict=True)
        )
    ]
    return {"edges": EDGES, "layers": rows}


_SURVEY = {"of": ("quick",), "also": ("survey",), "settings": ()}
_ORDERED = ("layer", "order")

VIEW = View(
    "neurons",
    settings=(LAYER, ORDER),
    form_depends=("model",),
    offered=lambda config: config.mlp != "none" and config.n_expert == 1,  # a layer needs a single MLP
    measures=(
        Measure("layer", measure_layer, settings=("layer",), question=layer_question, keep=False),
        Measure("top", measure_top, ("token",), _ORDERED, question=top_question, uses=("layer",)),
        Measure("one", measure_one, ("token",), (*_ORDERED, "top"), question=one_question, uses=("layer",)),
        Measure("curve", measure_curve, depends=(), uses=("layer", "one")),
        Measure("quick", measure_quick),
        Measure("survey", measure_survey, slow=True),
    ),
    layout=("form", ("top", ("one", "curve")), "survey", ("bins", "shares")),
    parts={
        "top": Asking("neurontop", read_neuron, top, of="top", depends=("token",), settings=("order",)),
        "one": Custom("neuronone", one, of="one", depends=("token",), settings=()),
        "curve": Figure(curve, of=("curve", "one"), settings=()),
        "survey": Job("survey", job, depends=("run",), settings=()),
        "bins": Figure(bins, **_SURVEY),
        "shares": Figure(shares, **_SURVEY),
    },
    api=(Endpoint(neurons), Endpoint(neuron), Endpoint(neuron_survey, long=True)),
)
