"""What a state holds: what the tokens of a prompt chose in a layer of Mamba, and how long one of them stays."""

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
    """Return the layers of Mamba, after the entry for that of the picked head; none where the model has no
    such layer.
    """
    layers = tuple(str(layer) for layer, name in enumerate(scene.model.config.mixers) if name == "mamba")
    return ("", *layers) if layers else ()


LAYER = Choice("layer", layers_of, label=lambda words, option: option or words["layer_main"])


STEPS = Choice("steps", lambda scene: ("relative", "size") if layers_of(scene) else ())


# --- the measure ---


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the layer, and the first token that was picked; the layer is None where no layer is a state space.

    The picked head's layer where that is one, else the first that is.
    """
    layers, (main, _) = [int(layer) for layer in layers_of(scene)[1:]], scene.head
    layer = int(settings.layer) if settings.layer else main if main in layers else layers[0] if layers else None
    return Settings((("layer", layer), ("source", min(scene.picked.tokens, default=0))))


def measure(scene: Scene, settings: Settings) -> StateSpace | None:
    """Return the layer along the run with its edits; None for a model without a state space."""
    return None if settings.layer is None else state_space(scene.trace, settings.layer, settings.source)


# --- what is drawn ---


def _missing(seen: Seen) -> Payload:
    """What stands here where the model has no state space; the first part says what to do."""
    if seen.part != "share":
        return {"empty": {"text": seen.here["empty"], "hint": seen.words["only"]}}
    mixers = ", ".join(dict.fromkeys(seen.facts.config.mixers))
    told = seen.words["none"].format(model=seen.facts.label, mixers=mixers)
    return {"empty": {"text": seen.here["empty"], "hint": joined([told, seen.words["none_hint"]])}}


def _token(seen: Seen) -> str:
    return quoted(seen.facts.pieces[seen.result.source])


def _python(seen: Seen, last: str) -> str:
    found = seen.result
    lines = [f"found = state_space(run, {found.layer}, {found.source})", last]
    return script(seen.facts, lines, ["from model.attention.state_space import decay_tokens, state_space"])


def _values(seen: Seen) -> dict[str, str]:
    found = seen.result
    return {"layer": str(found.layer), "token": _token(seen), "at": whole(found.source)}


def share(seen: Seen) -> Payload:
    """How much of the state is the token's, along the prompt."""
    found, words = seen.result, seen.here
    if found is None:
        return _missing(seen)
    last = len(found.whole) - 1
    values = _values(seen) | {"share": percent(found.whole[-1]), "even": percent(1 / (last + 1)), "last": whole(last)}
    return {
        "figure": share_figure(found.whole, found.share, found.source, seen.facts.pieces, words.plain()),
        "title": words["title"].format(**values),
        "note": words["note_last" if found.source == last else "note"].format(**values),
        "columns": [words["series"], words["token"], words["position"], words["share"]],
        "python": _python(seen, "found.whole, found.share  # [T] of all channels together, [T, channels]"),
    }


def kept(seen: Seen) -> Payload:
    """How much is left in each channel of what the token wrote."""
    found, words = seen.result, seen.here
    if found is None:
        return _missing(seen)
    end = found.kept[-1][~np.isnan(found.kept[-1])]
    much = float((end >= 0.5).mean()) if end.size else 0.0
    middle = float(np.median(end)) if end.size else float("nan")
    values = _values(seen) | {"middle": percent(middle), "much": percent(much), "n": whole(found.kept.shape[1])}
    drawn = np.where(np.arange(len(found.kept))[:, None] < found.source, np.nan, found.kept)
    return {
        "figure": kept_figure(drawn, seen.facts.pieces, words.plain()),
        "title": words["title"].format(**values),
        "note": words["note"].format(**values),
        "columns": [words["channels"], words["token"], words["kept"]],
        "python": _python(seen, "found.kept  # [T, channels], 1 at the token itself"),
    }


def decay(seen: Seen) -> Payload:
    """For how many tokens the numbers of the state last."""
    found, words = seen.result, seen.here
    if found is None:
        return _missing(seen)
    tokens, length = decay_tokens(found), len(found.delta)
    values = {
        "layer": found.layer,
        "middle": number(float(np.median(tokens))),
        "longer": percent(float((tokens > length).mean())),
        "n": whole(tokens.size),
        "T": whole(length),
    }
    named = words.plain() | {"length": words["length"].format(T=whole(length))}
    return {
        "figure": decay_figure(tokens, length, named),
        "title": words["title"].format(**values),
        "note": words["note"].format(**values),
        "columns": [words["series"], words["tokens"], words["power"], words["count"]],
        "python": _python(seen, "decay_tokens(found)  # [channels, numbers of the state]"),
    }


def delta(seen: Seen) -> Payload:
    """Return the step sizes along the prompt."""
    found, words = seen.result, seen.here
    if found is None:
        return _missing(seen)
    mean = found.delta.mean(-1)
    most, least, relative = int(mean.argmax()), int(mean.argmin()), seen.settings.steps == "relative"
    values = {
        "layer": found.layer,
        "most": quoted(seen.facts.pieces[most]),
        "most_at": whole(most),
        "most_step": number(float(mean[most])),
        "least": quoted(seen.facts.pieces[least]),
        "least_at": whole(least),
        "least_step": number(float(mean[least])),
    }
    return {
        "figure": delta_figure(found.delta, seen.facts.pieces, words.plain(), relative),
        "title": words["title"].format(**values),
        "note": words["note"].format(**values),
        "columns": [words["channels"], words["token"], words["relative" if relative else "delta"]],
        "python": _python(seen, f"found.delta{' / found.delta.mean(0) - 1' if relative else ''}  # [T, channels]"),
    }


def _numbers(seen: Seen, field: str) -> Payload:
    found, words = seen.result, seen.here
    if found is None:
        return _missing(seen)
    return {
        "figure": numbers_figure(getattr(found, field), seen.facts.pieces, words.plain()),
        "title": words["title"].format(layer=found.layer),
        "note": words["note"],
        "columns": [words["number"], words["token"], words["value"]],
        "python": _python(seen, f"found.{field}  # [T, numbers of the state]"),
    }


def written(seen: Seen) -> Payload:
    """B: how each token is written."""
    return _numbers(seen, "B")


def read(seen: Seen) -> Payload:
    """C: how each token reads."""
    return _numbers(seen, "C")


# --- for programs ---


def state_of_mamba(scene: Scene, layer: Annotated[int, Within(0, 10_000)], source: int = 0) -> dict:
    """Return a layer of Mamba along the prompt: what its tokens chose, and what the state still holds of one of them.

    Args:
        layer: One whose mixer is mamba.
        source: Position of the token that is followed; negative counts from the end.

    Returns:
        whole: the token's share of the state after each token, all channels together, 0 before it; kept: quartiles of
        the channels, how much is left of what the token wrote (three numbers a token, null where there is none);
        delta: mean step size of each token; decay: quartiles of the decay times, in tokens; B and C: a list a token of
        how it is written and how it reads.
    """
    found: StateSpace = measured(VIEW, "main", at(scene, source), layer=str(layer))
    return {
        "layer": found.layer,
        "source": found.source,
        "whole": found.whole,
        "kept": quartiles(found.kept).T,
        "delta": found.delta.mean(-1),
        "decay": np.quantile(decay_tokens(found), QUARTERS),
        "B": found.B,
        "C": found.C,
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
