"""An ablation sweep over all heads: the effect of each head's ablation on an output metric."""

from typing import Annotated

import numpy as np

from model.attention.effects import ABLATIONS, TARGETS, Target
from model.errors import InputError
from viz.charts.layer_head_map import EffectWords, effect_figure
from viz.labels import quoted
from viz.numbers import duration, logit, nats, number, signed, whole
from viz.seam.head_list import HUES, strongest
from viz.seam.programs.answers import ranked_heads
from viz.seam.programs.arguments import OneOf, Rows
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured, named, watching
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.targets import Usual, fields
from viz.seam.view import Custom, Job, Payload, Seen, View
from viz.views.effects.sweep.measure import MEASURES, SETTINGS, Unfit, roles
from viz.words import Words, joined, plot_words

_WRITTEN = {"logit": logit, "difference": logit, "probability": number, "kl": nats, "loss": nats}


def job(seen: Seen) -> Payload:
    """Name the target metric and the number of heads, or explain why the metric is undefined."""
    target: Target | Unfit = seen.results["target"]
    if isinstance(target, Unfit):
        return {"unready": True, "text": target.sentence(seen.words)}
    config = seen.facts.config
    heads = seen.here["heads"].format(n=whole(config.n_layer * config.n_head))
    return {"text": f"{_watching(seen, target)} {heads}"}


def _usual(seen: Seen) -> Usual:
    """Return the default tokens of the target metric, used when nothing is selected."""
    target: Target | Unfit = seen.results["target"]
    return {} if isinstance(target, Unfit) else {"target": target.token, "distractor": target.distractor}


def _named(seen: Seen, target: Target) -> dict[str, object]:
    """Return the values for sentences about a target metric."""
    values: dict[str, object] = {"position": target.position}
    for name in ("token", "distractor"):
        token = getattr(target, name)
        if token is not None:
            values |= {name: quoted(seen.facts.piece(token)), f"{name}_id": token}
    return values


def _watching(seen: Seen, target: Target) -> str:
    """Describe the target metric, with the ids of its tokens."""
    return seen.words[f"watching_{target.kind}"].format(**_named(seen, target))


def effect_map(seen: Seen) -> Payload:
    """Draw the map of all heads' effects and list the strongest heads; before the sweep, explain the map."""
    target, swept, words = seen.results["target"], seen.results["sweep"], seen.here
    if isinstance(target, Unfit) or (swept is None and not seen.facts.edits):
        return {"empty": {"text": words["empty"], "hint": words["empty_hint"]}}
    kind, how = target.kind, seen.settings.how
    title = words[f"title_{kind}"].format(how=words[f"by_{how}"], **_named(seen, target))
    if swept is None:  # the page keeps the list of the run before the edits
        return {"absent": True, "asked": title, "waiting": words["empty"]}
    signed_effects, unit = kind != "kl", words[f"unit_{kind}"]
    labels = EffectWords(words["layer"], words["head"], words["value_adds" if signed_effects else "value_kl"], unit)
    shown = added(swept.effects) if signed_effects else swept.effects
    read = {"kl": "read_size", "loss": "read_loss"}.get(kind, "read_signed")
    notes = [words[read]]
    if signed_effects:
        notes.append(words["now"].format(value=_WRITTEN[kind](swept.start), unit=unit))
    return {
        "figure": effect_figure(shown, labels, signed=signed_effects),
        "title": title,
        "asked": title,
        "note": joined(notes),
        "source": _source(seen),
        "file": f"effects-{kind}-{how}",
        "columns": [labels.layer, labels.head, f"{labels.value} ({unit})"],
        "python": _lines(seen, target),
        "ranked": strongest(shown, signed if signed_effects else nats),
        "signed": signed_effects,
        "unit": unit,
        "hues": HUES,
        "words": plot_words(seen.all_words) | {key: words[key] for key in ("ranked", "ranked_about", "head_effect")},
    }


def added(effects: np.ndarray) -> np.ndarray:
    """Compute each head's contribution to the metric, the negated effect of its ablation. [L, H]

    Negative zeros become 0.
    """
    return 0 - effects


def _source(seen: Seen) -> str:
    words, facts = seen.here, seen.facts
    time = duration(seen.seconds["sweep"])
    measured_here = words["measured"].format(model=facts.label, dtype=facts.dtype, time=time)
    return f"{measured_here} · {words['on_edited']}" if facts.edits else measured_here


def _lines(seen: Seen, target: Target) -> str:
    arguments = [target.kind, target.position, target.token, target.distractor]
    while arguments[-1] is None:
        arguments.pop()
    sign = "" if target.kind == "kl" else "-"
    lines = [
        f"target = Target({', '.join(map(repr, arguments))})",
        f"{sign}sweep(run, {seen.settings.how!r}, target)  # [layer, head]",
    ]
    return script(seen.facts, lines, ["from model.attention.effects import Target, sweep"])


# --- for programs ---


def sweep(
    scene: Scene,
    how: Annotated[str, OneOf(ABLATIONS)] = "zero",
    watch: Annotated[str, OneOf(tuple(TARGETS))] = "logit",
    position: int = -1,
    token: str = "",
    distractor: str = "",
    most: Rows = 20,
) -> dict:
    """Measure the effect of each head's ablation on an output metric, one head at a time.

    Args:
        how: The replacement of each head's output: zero, or its mean over the prompt.
        watch: The output metric: logit or probability of the token, difference of two logits, kl (divergence from the
            prediction with all heads, nats), loss of the whole prompt (nats per token).
        distractor: The second token of a difference. Empty: the most likely other token.

    Returns:
        start: the metric with all heads in place; effects: its change by layer and head (for kl, the divergence);
        strongest: the heads with the largest absolute effects.
    """
    shown = roles(watch)
    selected = watching(at(scene, position), token if shown else "", distractor if len(shown) > 1 else "")
    target = measured(VIEW, "target", selected, kind=watch)
    if isinstance(target, Unfit):
        raise InputError(target.sentence(Words(scene.words, "sweep")))
    swept = measured(VIEW, "sweep", selected, how=how, kind=watch)
    ids = {name: getattr(target, name) for name in ("token", "distractor")}
    return {
        "how": how,
        "watch": watch,
        "position": None if watch == "loss" else target.position,
        **{name: None if n is None else named(scene.model, n) for name, n in ids.items()},
        "start": swept.start,
        "effects": swept.effects,
        "strongest": ranked_heads(swept.effects, most, size=True),
    }


VIEW = View(
    "sweep",
    settings=SETTINGS,
    needs=("layers", "next"),
    measures=MEASURES,
    layout=("form", "targets", "job", "map"),
    parts={
        "targets": fields(lambda seen: roles(seen.settings.kind), _usual, ("target",), settings=("kind",)),
        "job": Job("sweep", job, also=("target",), settings=()),
        "map": Custom("effectmap", effect_map, of="target", also=("sweep",), settings=("how",)),
    },
    api=(Endpoint(sweep, long=True),),
)
