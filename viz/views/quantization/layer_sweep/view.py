"""The layer sweep view: each layer's sensitivity to quantization, measured for one part of one layer at a time."""

from typing import Annotated

import numpy as np

from model.progress import Progress
from model.quantization.formats import FORMATS
from model.quantization.layer_sweep import Sweep, sweep
from model.quantization.rounding import matrices_of
from model.quantization.texts import held_out_ids
from viz.numbers import nats, number, percent, whole
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, View
from viz.views.quantization.layer_sweep.figures import heat_figure, line_figure, mildest, strongest
from viz.views.quantization.naming import format_label, name_of, shared_words
from viz.words import Words

SWEPT = ("int4-32", "int4-32-affine", "int3-32", "int2-32", "int8-channel", "Q4_0")
BY, ON, SHOWN = ("matrix", "half"), ("prompt", "text"), ("kl", "loss")
MOST = {"prompt": 128, "text": 64}  # maximum number of tokens to measure


def text_limit(limit: int) -> int:
    """Return the number of held-out tokens to measure on a server whose context limit is `limit` tokens."""
    return min(MOST["text"], limit)


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the format, the kind of parts, and the prompt's token ids to measure; no ids select the held-out text."""
    ids = tuple(scene.tokens.ids.tolist()[: MOST["prompt"]]) if settings.on == "prompt" else ()
    return Settings((("one", settings.one), ("by", settings.by), ("ids", ids)))


def measure(scene: Scene, settings: Settings, progress: Progress) -> Sweep:
    """Measure how quantizing each part of each layer of the unedited model changes its predictions."""
    ids = list(settings.ids) or held_out_ids(scene.model, text_limit(scene.limit))
    return sweep(scene.model.model, ids, FORMATS[settings.one], settings.by, progress)


def cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of runs and of processed tokens.

    A run starts at the quantized layer, so on average it counts as half a run.
    """
    parts = len(matrices_of(scene.model.config)) + 1 if settings.by == "matrix" else 3
    runs = scene.model.config.n_layer * parts / 2
    return runs, runs * (len(settings.ids) or text_limit(scene.limit))


# --- parts ---


def job(seen: Seen) -> Payload:
    """Describe the measurement: the number of variants and, if the run has edits, that they are not applied."""
    L, by = seen.facts.config.n_layer, seen.settings.by
    parts = len(matrices_of(seen.facts.config)) + 1 if by == "matrix" else 3
    hint = seen.here["hint"].format(n=whole(L * parts), layers=L)
    return {"text": f"{hint} {shared_words(seen.all_words)['no_edits']}" if _edited(seen) else hint}


def _edited(seen: Seen) -> bool:
    """Return whether the prompt is measured and its run has edits, which are not applied here."""
    return bool(seen.facts.edits) and seen.settings.on == "prompt"


def _numbers(seen: Seen) -> tuple[np.ndarray, bool]:
    """Return the displayed values [L, parts], and whether they are changes in the loss.

    Otherwise, they are KL divergences, which also replace the loss for a text of one token.
    """
    result: Sweep = seen.result
    loss = seen.settings.shown == "loss" and result.loss is not None
    return result.loss if loss else result.kl, loss


def _value(seen: Seen) -> str:
    """Return the name of the displayed quantity."""
    return seen.words["value_loss" if _numbers(seen)[1] else "value_kl"]


def _part(words: Words, name: str) -> str:
    return words[f"part_{name}"]


def _shared(seen: Seen) -> Payload:
    """Build the payload fields shared by both figures."""
    words, part_words, settings, facts = seen.words, seen.here, seen.settings, seen.facts
    loss = _numbers(seen)[1]
    note = words["note_loss"] if loss else part_words["note"]
    if settings.shown == "loss" and not loss:
        note = f"{words['no_loss']} {note}"
    values = {"model": facts.label, "dtype": facts.dtype, "n": whole(seen.result.together.positions)}
    source = words[f"source_{settings.on}"].format(**values)
    if _edited(seen):
        source = f"{source} · {shared_words(seen.all_words)['plain']}"
    return {
        "title": part_words["title"].format(name=name_of(FORMATS[settings.one], seen.all_words)),
        "note": note,
        "source": source,
        "file": f"sensitivity-{seen.part}-{settings.one}-{settings.by}-{settings.shown}",
        "python": _python(seen, "found.loss" if loss else "found.kl"),
    }


def _python(seen: Seen, last: str) -> str:
    settings, imports = seen.settings, ["from model.quantization.layer_sweep import sweep"]
    imports.append("from model.quantization.formats import FORMATS")
    ids = f"run.tokens.ids.tolist()[:{MOST['prompt']}]"
    if settings.on == "text":
        ids = f"held_out_ids(lm, {text_limit(seen.facts.limit)})"
        imports.append("from model.quantization.texts import held_out_ids")
    lines = [f'found = sweep(lm.model, {ids}, FORMATS["{settings.one}"], "{settings.by}")', last]
    return script(seen.facts, lines, imports)


def heat(seen: Seen) -> Payload:
    """Draw the heatmap of the effect of each part of each layer."""
    words, (z, loss) = seen.words, _numbers(seen)
    names = [_part(words, name) for name in seen.result.parts]
    axes = {"layer": words["layer"], "part": words["part"], "value": _value(seen)}
    columns = [axes["layer"], axes["part"], axes["value"]]
    return {"figure": heat_figure(z, names, axes, signed=loss), "columns": columns} | _shared(seen)


def line(seen: Seen) -> Payload:
    """Draw the effect of each whole block by layer, and of its halves if they were measured."""
    words, (z, loss) = seen.words, _numbers(seen)
    shown = ["block"] if seen.settings.by == "matrix" else ["block", "attention", "mlp"]
    lines = {_part(words, name): z[:, seen.result.parts.index(name)] for name in shown}
    axes = {"layer": words["layer"], "value": _value(seen)}
    columns = [words["part"], axes["layer"], axes["value"]]
    return {"figure": line_figure(lines, axes, signed=loss), "columns": columns} | _shared(seen)


def facts(seen: Seen) -> Payload:
    """List the most and least sensitive layers, the most sensitive part, and the effect of quantizing all layers."""
    words, result, (z, _) = seen.here, seen.result, _numbers(seen)
    layer, least = strongest(z[:, -1:])[0], mildest(z[:, -1])
    row, column = strongest(z[:, :-1])
    strongest_layer, part, weakest_layer = (nats(float(z[at])) for at in ((layer, -1), (row, column), (least, -1)))
    name, together = _part(seen.words, result.parts[column]), result.together
    items = [
        [words["most"], words["most_text"].format(layer=layer, value=strongest_layer)],
        [words["part"], words["part_text"].format(layer=row, part=name, value=part)],
        [words["least"], words["least_text"].format(layer=least, value=weakest_layer)],
        [words["together"], words["together_text"].format(kl=nats(together.kl), agree=percent(together.agree))],
        [words["sum"], sum_text(words, float(result.single.sum()), together.kl)],
    ]
    return {"title": words["title"], "items": items}


def sum_text(words: Words, total: float, together: float) -> str:
    """Compare the sum of the single layers' effects, `total`, with the joint effect, both KL in nats."""
    values = {"sum": nats(total), "kl": nats(together)}
    if not total:
        return words["sum_none"].format(**values)
    ratio = together / total
    key = "sum_more" if ratio > 1.15 else "sum_less" if ratio < 1 / 1.15 else "sum_same"
    return words[key].format(**values, ratio=number(ratio, 2))


# --- for programs ---


def quantization_sweep(
    scene: Scene,
    format: Annotated[str, OneOf(SWEPT)] = "int4-32",
    by: Annotated[str, OneOf(BY)] = "matrix",
    on: Annotated[str, OneOf(ON)] = "prompt",
) -> dict:
    """Measure the sensitivity of each layer to quantization by quantizing one part of one layer at a time.

    Args:
        format: The number format to quantize to.
        by: matrix: each matrix alone. half: attention and MLP. In both cases the whole layer is also measured.
        on: prompt, or text: a held-out text.

    Returns:
        format; parts: the quantized parts, the whole layer last; rows: one record per layer with layer and, as lists
        over the parts, kl (nats), loss (change in nats; null for a single token) and agree (fraction of positions with
        the same top token); sum: sum of the whole layers' kl; together: tokens, kl, agree, loss and before (loss in
        float32) with all layers quantized at once.
    """
    result: Sweep = measured(VIEW, "main", scene, one=format, by=by, on=on)
    rows = [
        {
            "layer": layer,
            "kl": result.kl[layer].tolist(),
            "agree": result.agree[layer].tolist(),
            "loss": None if result.loss is None else result.loss[layer].tolist(),
        }
        for layer in range(len(result.kl))
    ]
    together = {"tokens": result.together.positions}
    together |= {name: getattr(result.together, name) for name in ("kl", "agree", "loss", "before")}
    return {
        "format": format,
        "parts": list(result.parts),
        "rows": rows,
        "sum": float(result.single.sum()),
        "together": together,
    }


VIEW = View(
    "layer_sweep",
    settings=(
        Choice("one", SWEPT, label=format_label),
        Choice("by", BY),
        Choice("on", ON),
        Choice("shown", SHOWN),
    ),
    measures=(
        Measure(
            "main",
            measure,
            depends=("model", "limit"),
            settings=("one", "by", "on"),
            question=question,
            slow=True,
            cost=cost,
        ),
    ),
    layout=("form", "job", ("heat", ("line", "facts"))),
    parts={
        "job": Job("main", job, settings=("one", "by", "on")),
        "heat": Figure(heat),
        "line": Figure(line),
        "facts": Custom("normfacts", facts),
    },
    api=(Endpoint(quantization_sweep, reads="plain run", long=True),),
)
