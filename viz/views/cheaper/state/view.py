"""The state view: the selective parameters of a Mamba layer along a prompt, and how long its state retains a token."""

from typing import Annotated

import numpy as np

from model.attention.state_space import StateSpace, decay_tokens, state_space
from viz.labels import quoted
from viz.numbers import number, percent, whole
from viz.seam.programs.arguments import Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Figure, Measure, Payload, Seen, View
from viz.views.cheaper.state.figures import (
    QUARTERS,
    decay_figure,
    delta_figure,
    kept_figure,
    numbers_figure,
    quartiles,
    share_figure,
)
from viz.words import joined


def layers_of(scene: Scene) -> tuple[str, ...]:
    """Return the options of the layer: "" for the main head's layer, then the Mamba layers; () for other models."""
    layers = tuple(str(layer) for layer, name in enumerate(scene.model.config.mixers) if name == "mamba")
    return ("", *layers) if layers else ()


LAYER = Choice("layer", layers_of, label=lambda words, option: option or words["layer_main"])
STEPS = Choice("steps", lambda scene: ("relative", "size") if layers_of(scene) else ())


# --- measurement ---


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the layer to measure, and the first selected token as `source`.

    If no layer is chosen, it is the main head's layer if that is a Mamba layer, or else the first Mamba layer; None for
    a model without Mamba layers.
    """
    layers, (main, _) = [int(layer) for layer in layers_of(scene)[1:]], scene.head
    layer = int(settings.layer) if settings.layer else main if main in layers else layers[0] if layers else None
    return Settings((("layer", layer), ("source", min(scene.picked.tokens, default=0))))


def measure(scene: Scene, settings: Settings) -> StateSpace | None:
    """Measure the layer in the current run, with its edits; None for a model without a Mamba layer."""
    return None if settings.layer is None else state_space(scene.trace, settings.layer, settings.source)


# --- parts ---


def _missing(seen: Seen) -> Payload:
    """Build the placeholder of a part for a model without Mamba layers; only the first part explains how to get one."""
    if seen.part != "share":
        return {"empty": {"text": seen.here["empty"], "hint": seen.words["only"]}}
    mixers = ", ".join(dict.fromkeys(seen.facts.config.mixers))
    text = seen.words["none"].format(model=seen.facts.label, mixers=mixers)
    return {"empty": {"text": seen.here["empty"], "hint": joined([text, seen.words["none_hint"]])}}


def _token(seen: Seen) -> str:
    return quoted(seen.facts.pieces[seen.result.source])


def _python(seen: Seen, last: str) -> str:
    state = seen.result
    lines = [f"found = state_space(run, {state.layer}, {state.source})", last]
    return script(seen.facts, lines, ["from model.attention.state_space import decay_tokens, state_space"])


def _values(seen: Seen) -> dict[str, str]:
    state = seen.result
    return {"layer": str(state.layer), "token": _token(seen), "at": whole(state.source)}


def share(seen: Seen) -> Payload:
    """Draw the token's fraction of the state along the prompt."""
    state, words = seen.result, seen.here
    if state is None:
        return _missing(seen)
    last = len(state.whole) - 1
    values = _values(seen) | {"share": percent(state.whole[-1]), "even": percent(1 / (last + 1)), "last": whole(last)}
    return {
        "figure": share_figure(state.whole, state.share, state.source, seen.facts.pieces, words.plain()),
        "title": words["title"].format(**values),
        "note": words["note_last" if state.source == last else "note"].format(**values),
        "columns": [words["series"], words["token"], words["position"], words["share"]],
        "python": _python(seen, "found.whole, found.share  # [T] of all channels together, [T, channels]"),
    }


def kept(seen: Seen) -> Payload:
    """Draw the fraction of the token's write that remains in each channel."""
    state, words = seen.result, seen.here
    if state is None:
        return _missing(seen)
    end = state.kept[-1][~np.isnan(state.kept[-1])]
    half_kept = float((end >= 0.5).mean()) if end.size else 0.0
    median = float(np.median(end)) if end.size else float("nan")
    values = _values(seen) | {"middle": percent(median), "much": percent(half_kept), "n": whole(state.kept.shape[1])}
    drawn = np.where(np.arange(len(state.kept))[:, None] < state.source, np.nan, state.kept)
    return {
        "figure": kept_figure(drawn, seen.facts.pieces, words.plain()),
        "title": words["title"].format(**values),
        "note": words["note"].format(**values),
        "columns": [words["channels"], words["token"], words["kept"]],
        "python": _python(seen, "found.kept  # [T, channels], 1 at the token itself"),
    }


def decay(seen: Seen) -> Payload:
    """Draw the histogram of the decay times of all state entries."""
    state, words = seen.result, seen.here
    if state is None:
        return _missing(seen)
    tokens, length = decay_tokens(state), len(state.delta)
    values = {
        "layer": state.layer,
        "middle": number(float(np.median(tokens))),
        "longer": percent(float((tokens > length).mean())),
        "n": whole(tokens.size),
        "T": whole(length),
    }
    labels = words.plain() | {"length": words["length"].format(T=whole(length))}
    return {
        "figure": decay_figure(tokens, length, labels),
        "title": words["title"].format(**values),
        "note": words["note"].format(**values),
        "columns": [words["series"], words["tokens"], words["power"], words["count"]],
        "python": _python(seen, "decay_tokens(found)  # [channels, numbers of the state]"),
    }


def delta(seen: Seen) -> Payload:
    """Draw the step sizes along the prompt."""
    state, words = seen.result, seen.here
    if state is None:
        return _missing(seen)
    mean = state.delta.mean(-1)
    most, least, relative = int(mean.argmax()), int(mean.argmin()), seen.settings.steps == "relative"
    values = {
        "layer": state.layer,
        "most": quoted(seen.facts.pieces[most]),
        "most_at": whole(most),
        "most_step": number(float(mean[most])),
        "least": quoted(seen.facts.pieces[least]),
        "least_at": whole(least),
        "least_step": number(float(mean[least])),
    }
    return {
        "figure": delta_figure(state.delta, seen.facts.pieces, words.plain(), relative),
        "title": words["title"].format(**values),
        "note": words["note"].format(**values),
        "columns": [words["channels"], words["token"], words["relative" if relative else "delta"]],
        "python": _python(seen, f"found.delta{' / found.delta.mean(0) - 1' if relative else ''}  # [T, channels]"),
    }


def _numbers(seen: Seen, field: str) -> Payload:
    state, words = seen.result, seen.here
    if state is None:
        return _missing(seen)
    return {
        "figure": numbers_figure(getattr(state, field), seen.facts.pieces, words.plain()),
        "title": words["title"].format(layer=state.layer),
        "note": words["note"],
        "columns": [words["number"], words["token"], words["value"]],
        "python": _python(seen, f"found.{field}  # [T, numbers of the state]"),
    }


def written(seen: Seen) -> Payload:
    """Draw B, the write vector of each token."""
    return _numbers(seen, "B")


def read(seen: Seen) -> Payload:
    """Draw C, the read vector of each token."""
    return _numbers(seen, "C")


# --- for programs ---


def state_of_mamba(scene: Scene, layer: Annotated[int, Within(0, 10_000)], source: int = 0) -> dict:
    """Measure a Mamba layer along the prompt: its selective parameters by token, and the retention of one token.

    Args:
        layer: A layer whose mixer is mamba.
        source: Position of the token to follow; negative counts from the end.

    Returns:
        layer; source; whole: the token's fraction of the state after each token, over all channels, 0 before it; kept:
        the fraction of its write that remains, as quartiles over the channels (three numbers per token, null if
        undefined); delta: mean step size at each token; decay: quartiles of the decay times, in tokens; B and C: write
        and read vector of each token.
    """
    state: StateSpace = measured(VIEW, "main", at(scene, source), layer=str(layer))
    return {
        "layer": state.layer,
        "source": state.source,
        "whole": state.whole,
        "kept": quartiles(state.kept).T,
        "delta": state.delta.mean(-1),
        "decay": np.quantile(decay_tokens(state), QUARTERS),
        "B": state.B,
        "C": state.C,
    }


VIEW = View(
    "state",
    settings=(LAYER, STEPS),
    form_depends=("model",),
    measures=(Measure("main", measure, depends=("run", "layer", "tokens"), settings=("layer",), question=question),),
    layout=("form", "share", ("kept", "decay"), "delta", ("written", "read")),
    parts={
        "share": Figure(share, settings=()),
        "kept": Figure(kept, settings=()),
        "decay": Figure(decay, settings=()),
        "delta": Figure(delta, settings=("steps",)),
        "written": Figure(written, settings=()),
        "read": Figure(read, settings=()),
    },
    api=(Endpoint(state_of_mamba),),
)
