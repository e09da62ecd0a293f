"""The state view: the selective parameters of a Mamba layer along a prompt, and how long its state retains a token."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from model.attention.state_space import StateSpace, decay_tokens, need_state_space, state_space
from model.records import Tokens
from viz.labels import quoted
from viz.numbers import number, percent, whole
from viz.seam.programs.arguments import Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Custom, Figure, Measure, Payload, Seen, View
from viz.views.cheaper.state.example import TINYMAMBA, example_of, example_prompt, mamba_layers, same_place, same_places
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
from viz.work.prompt import Prompt


def layers_of(scene: Scene) -> tuple[str, ...]:
    """Return the options of the layer: "" for the main head's layer, then the Mamba layers; only these for the bundled
    model, which has another head; () without any.
    """
    if layers := mamba_layers(scene.model):
        return ("", *map(str, layers))
    example = example_of(scene)
    return tuple(map(str, mamba_layers(example))) if example else ()


LAYER = Choice("layer", layers_of, label=lambda words, option: option or words["layer_main"])
STEPS = Choice("steps", lambda scene: ("relative", "size") if layers_of(scene) else ())


# --- measurement ---


@dataclass(frozen=True, eq=False)
class ShownState:
    """A Mamba layer along the prompt, on the loaded model or on the bundled one."""

    state: StateSpace
    tokens: Tokens  # of that model
    places: tuple[int, ...]  # the token of the loaded model at the place of each of these tokens
    prompt: str  # the text, if it is the bundled model
    example: str = ""  # label of the bundled model; "" for the loaded one
    dtype: str = ""  # type of its matrix products


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the layer to measure, and the first selected token as `source`.

    If no layer is chosen, it is the main head's layer if that is a Mamba layer, or else the first Mamba layer. On the
    bundled model, `source` is its token at the same place, and `prompt` its text. The layer is None without any model.
    """
    layers, (main, _) = mamba_layers(scene.model), scene.head
    picked = min(scene.picked.tokens, default=0)
    if layers:
        layer = int(settings.layer) if settings.layer else main if main in layers else layers[0]
        return Settings((("layer", layer), ("source", picked), ("prompt", "")))
    example = example_of(scene)
    if example is None:
        return Settings((("layer", None), ("source", picked), ("prompt", "")))
    prompt = example_prompt(scene, example)
    tokens = scene.playground.tokens(example, prompt)
    layer = int(settings.layer) if settings.layer else mamba_layers(example)[0]
    return Settings((("layer", layer), ("source", same_place(scene, tokens, picked)), ("prompt", prompt.text)))


def beside(scene: Scene, settings: Settings) -> tuple[str, Prompt] | None:
    """Return the run of the bundled model, if the loaded one has no Mamba layer."""
    return (TINYMAMBA, Prompt(settings.prompt)) if settings.prompt else None


def measure(scene: Scene, settings: Settings) -> ShownState | None:
    """Measure the layer in the current run, with its edits, or in that of the bundled model; None without either."""
    if settings.layer is None:
        return None
    run = scene.beside(TINYMAMBA, Prompt(settings.prompt)) if settings.prompt else scene.trace
    state = state_space(run, settings.layer, settings.source)
    if not settings.prompt:
        return ShownState(state, run.tokens, tuple(range(len(run.tokens))), "")
    model = scene.playground.opened(TINYMAMBA)
    places = same_places(run.tokens, scene)
    return ShownState(state, run.tokens, places, settings.prompt, model.label, model.dtype)


# --- parts ---


def example(seen: Seen) -> Payload:
    """Say that the figures are those of the bundled model, with a button that opens it."""
    shown: ShownState | None = seen.result
    if shown is None or not shown.example:
        return {}
    words, values = seen.here, {"model": seen.facts.label, "example": shown.example}
    return {
        "kind": "",
        "reason": words["reason"].format(**values),
        "able": "",
        "open": words["open"].format(**values),
        "model": TINYMAMBA,
        "chat": False,
        "prompt": shown.prompt,
    }


def _missing(seen: Seen) -> Payload:
    """Build the placeholder of a part for a model without Mamba layers; only the first part explains how to get one."""
    if seen.part != "share":
        return {"empty": {"text": seen.here["empty"], "hint": seen.words["only"]}}
    mixers = ", ".join(dict.fromkeys(seen.facts.config.mixers))
    text = seen.words["none"].format(model=seen.facts.label, mixers=mixers)
    return {"empty": {"text": seen.here["empty"], "hint": joined([text, seen.words["none_hint"]])}}


def _sourced(payload: Payload, seen: Seen) -> Payload:
    """Add the source line of a figure of the bundled model, whose tokens are not those that the page marks as selected.

    A figure of the loaded model has its source line already.
    """
    shown: ShownState = seen.result
    if not shown.example:
        return payload
    layout = payload["figure"].layout
    layout.meta = dict(layout.meta or {}) | {"places": False}
    source = seen.words["example.source"].format(model=shown.example, dtype=shown.dtype)
    return payload | {"source": source}


def _token(seen: Seen) -> str:
    return quoted(seen.result.tokens.pieces[seen.result.state.source])


def _python(seen: Seen, last: str) -> str:
    shown: ShownState = seen.result
    state, facts = shown.state, seen.facts
    if shown.example:
        facts = replace(facts, model_id=TINYMAMBA, prompt=Prompt(shown.prompt), edits=())
    lines = [f"found = state_space(run, {state.layer}, {state.source})", last]
    return script(facts, lines, ["from model.attention.state_space import decay_tokens, state_space"])


def _values(seen: Seen) -> dict[str, str]:
    state = seen.result.state
    return {"layer": str(state.layer), "token": _token(seen), "at": whole(state.source)}


def share(seen: Seen) -> Payload:
    """Draw the token's fraction of the state along the prompt."""
    if seen.result is None:
        return _missing(seen)
    state, pieces, words = seen.result.state, seen.result.tokens.pieces, seen.here
    last = len(state.whole) - 1
    values = _values(seen) | {"share": percent(state.whole[-1]), "even": percent(1 / (last + 1)), "last": whole(last)}
    payload = {
        "figure": share_figure(state.whole, state.share, state.source, pieces, words.plain(), seen.result.places),
        "title": words["title"].format(**values),
        "note": words["note_last" if state.source == last else "note"].format(**values),
        "columns": [words["series"], words["token"], words["position"], words["share"]],
        "python": _python(seen, "found.whole, found.share  # [T] of all channels together, [T, channels]"),
    }
    return _sourced(payload, seen)


def kept(seen: Seen) -> Payload:
    """Draw the fraction of the token's write that remains in each channel."""
    if seen.result is None:
        return _missing(seen)
    state, pieces, words = seen.result.state, seen.result.tokens.pieces, seen.here
    end = state.kept[-1][~np.isnan(state.kept[-1])]
    half_kept = float((end >= 0.5).mean()) if end.size else 0.0
    median = float(np.median(end)) if end.size else float("nan")
    values = _values(seen) | {"middle": percent(median), "much": percent(half_kept), "n": whole(state.kept.shape[1])}
    drawn = np.where(np.arange(len(state.kept))[:, None] < state.source, np.nan, state.kept)
    payload = {
        "figure": kept_figure(drawn, pieces, words.plain()),
        "title": words["title"].format(**values),
        "note": words["note"].format(**values),
        "columns": [words["channels"], words["token"], words["kept"]],
        "python": _python(seen, "found.kept  # [T, channels], 1 at the token itself"),
    }
    return _sourced(payload, seen)


def decay(seen: Seen) -> Payload:
    """Draw the histogram of the decay times of all state entries."""
    if seen.result is None:
        return _missing(seen)
    state, words = seen.result.state, seen.here
    tokens, length = decay_tokens(state), len(state.delta)
    values = {
        "layer": state.layer,
        "middle": number(float(np.median(tokens))),
        "longer": percent(float((tokens > length).mean())),
        "n": whole(tokens.size),
        "T": whole(length),
    }
    labels = words.plain() | {"length": words["length"].format(T=whole(length))}
    payload = {
        "figure": decay_figure(tokens, length, labels),
        "title": words["title"].format(**values),
        "note": words["note"].format(**values),
        "columns": [words["series"], words["tokens"], words["power"], words["count"]],
        "python": _python(seen, "decay_tokens(found)  # [channels, numbers of the state]"),
    }
    return _sourced(payload, seen)


def delta(seen: Seen) -> Payload:
    """Draw the step sizes along the prompt."""
    if seen.result is None:
        return _missing(seen)
    state, pieces, words = seen.result.state, seen.result.tokens.pieces, seen.here
    mean = state.delta.mean(-1)
    most, least, relative = int(mean.argmax()), int(mean.argmin()), seen.settings.steps == "relative"
    values = {
        "layer": state.layer,
        "most": quoted(pieces[most]),
        "most_at": whole(most),
        "most_step": number(float(mean[most])),
        "least": quoted(pieces[least]),
        "least_at": whole(least),
        "least_step": number(float(mean[least])),
    }
    payload = {
        "figure": delta_figure(state.delta, pieces, words.plain(), relative, seen.result.places),
        "title": words["title"].format(**values),
        "note": words["note"].format(**values),
        "columns": [words["channels"], words["token"], words["relative" if relative else "delta"]],
        "python": _python(seen, f"found.delta{' / found.delta.mean(0) - 1' if relative else ''}  # [T, channels]"),
    }
    return _sourced(payload, seen)


def _numbers(seen: Seen, field: str) -> Payload:
    if seen.result is None:
        return _missing(seen)
    state, pieces, words = seen.result.state, seen.result.tokens.pieces, seen.here
    payload = {
        "figure": numbers_figure(getattr(state, field), pieces, words.plain()),
        "title": words["title"].format(layer=state.layer),
        "note": words["note"],
        "columns": [words["number"], words["token"], words["value"]],
        "python": _python(seen, f"found.{field}  # [T, numbers of the state]"),
    }
    return _sourced(payload, seen)


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
    need_state_space(scene.model.config, layer)
    state: StateSpace = measured(VIEW, "main", at(scene, source), layer=str(layer)).state
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
    measures=(
        Measure(
            "main", measure, depends=("run", "layer", "tokens"), settings=("layer",), question=question, beside=beside
        ),
    ),
    layout=("example", "form", "share", ("kept", "decay"), "delta", ("written", "read")),
    parts={
        "example": Custom("shortfall", example, settings=()),
        "share": Figure(share, settings=()),
        "kept": Figure(kept, settings=()),
        "decay": Figure(decay, settings=()),
        "delta": Figure(delta, settings=("steps",)),
        "written": Figure(written, settings=()),
        "read": Figure(read, settings=()),
    },
    api=(Endpoint(state_of_mamba),),
)
