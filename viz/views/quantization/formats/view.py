"""The formats view: size, weight error and change of the output for each number format."""

from typing import Annotated

from model.api import LanguageModel
from model.arguments import check_layer
from model.errors import InputError, say
from model.quantization.experiments import KINDS, Outcome, kinds_of, layer_of, need_matrices, total_bytes, usable
from model.quantization.formats import FORMATS, WeightError, stored, weight_error
from model.tracing.divergence import PredictionDivergence
from viz.charts.heatmap import PatternWords, Window, pattern_figure
from viz.numbers import number, percent, size, whole
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Checkbox, Choice
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.quantization.formats.figures import Dot, map_panels, mean_moved, most_moved, scatter_figure
from viz.views.quantization.formats.measure import (
    WHICH,
    FormatResults,
    measure_file,
    measure_levels,
    measure_matrix,
    measure_outputs,
    measure_patterns,
    measure_sizes,
    outputs_question,
)
from viz.views.quantization.formats.tables import (
    facts,
    levels,
    matrix_lines,
    measure_lines,
    measured_line,
    place_of,
    table,
)
from viz.views.quantization.naming import (
    SAME,
    decibels,
    divergence,
    family_of,
    format_label,
    moved,
    name_of,
    perplexity,
    shared_words,
    short_of,
)
from viz.words import Words, joined
from viz.work.playground import Playground


def _which_label(words: Words, option: str) -> str:
    return words[f"which_{option}"].format(n=len(WHICH[option]))


def _head_label(words: Words, scene: Scene) -> str:
    return words["head_tied" if scene.model.config.tie_embeddings else "head"]


SETTINGS = (
    Choice("which", tuple(WHICH), label=_which_label),
    Checkbox("head", label=_head_label),
    Choice("one", tuple(key for key in FORMATS if key != "float32"), "int4-32", label=format_label),
    Choice("matrix", lambda scene: kinds_of(scene.model.model), "down"),
)


def job(seen: Seen) -> Payload:
    """Describe the measurement: the number of formats and, if the run has edits, that they are not applied."""
    hint = seen.here["hint"].format(n=len(seen.results["sizes"].by_format))
    return {"text": f"{hint} {shared_words(seen.all_words)['no_edits']}" if seen.facts.edits else hint}


# --- error by bits ---------------------------------------------------------------------------------------


def scatter(seen: Seen) -> Payload:
    """Draw the error by bits per weight: KL on held-out text or, until it is measured, the selected matrix's error."""
    words, run = seen.here, seen.results["outputs"]
    payload = _measured(seen, run) if run else _counted(seen)
    return payload | {
        "figure": scatter_figure(payload["figure"], {**words.plain(), "damage": payload["columns"][-1]}),
        "file": "formats-bits-and-damage",
    }


def _measured(seen: Seen, run: FormatResults) -> Payload:
    """Build the scatter plot's payload with KL on held-out text as the error; `figure` holds the dots."""
    words, keys = seen.here, [key for key in seen.results["sizes"].by_format if key in run.outcomes]
    dots = [_dot(seen, run.outcomes[key]) for key in keys]
    undamaged = [dot.hover[0] for dot in dots if dot.damage <= SAME]
    note = [words["note"], *([words["none"].format(names=", ".join(undamaged))] if undamaged else [])]
    return {
        "figure": [dot for dot in dots if dot.damage > SAME],
        "title": words["title"],
        "note": joined(note),
        "source": measured_line(seen, run),
        "columns": [words["family"], words["format"], words["bits"], words["kl"]],
        "python": measure_lines(seen, "[(each.key, each.error.bits, each.text.kl) for each in found]"),
    }


def _counted(seen: Seen) -> Payload:
    """Build the scatter plot's payload with the selected matrix's relative error; `figure` holds the dots."""
    words, errors = seen.here, seen.results["matrix"].errors
    dots = []
    for key in seen.results["sizes"].by_format:
        if key in errors:
            kind, lines = FORMATS[key], [name_of(FORMATS[key], seen.all_words), *_error_lines(words, errors[key])]
            dots.append(Dot(short_of(kind), family_of(kind), errors[key].bits, errors[key].relative, lines))
    return {
        "figure": dots,
        "title": words["title_matrix"].format(place=place_of(seen)),
        "note": words["note_matrix"],
        "source": words["counted"].format(model=seen.facts.label),
        "columns": [words["family"], words["format"], words["bits"], words["relative"]],
        "python": matrix_lines(seen, "[weight_error(weight, *stored(weight, FORMATS[key])) for key in FORMATS]"),
    }


def _error_lines(words: Words, error: WeightError) -> list[str]:
    """Format a weight error as lines of a hover text."""
    values = {"relative": number(error.relative), "largest": number(error.largest), "snr": decibels(error.snr)}
    return [
        words["hover_bits"].format(bits=number(error.bits, 4), size=size(error.nbytes)),
        words["hover_error"].format(**values),
    ]


def _dot(seen: Seen, outcome: Outcome) -> Dot:
    words, kind, prompt, text = seen.here, FORMATS[outcome.key], outcome.prompt, outcome.text
    speed = words["hover_speed"].format(n=number(outcome.speed)) if outcome.speed else words["simulated"]
    lines = [
        name_of(kind, seen.all_words),
        *_error_lines(words, outcome.error),
        words["hover_kl"].format(prompt=divergence(prompt.kl), text=divergence(text.kl)),
        words["hover_agree"].format(prompt=percent(prompt.agree), text=percent(text.agree)),
        words["hover_perplexity"].format(before=perplexity(text.before), after=perplexity(text.loss)),
        words["hover_moved"].format(moved=moved(mean_moved(outcome.moved))),
        speed,
    ]
    return Dot(short_of(kind), family_of(kind), outcome.error.bits, text.kl, lines)


# --- one head ------------------------------------------------------------------------------------------


def maps(seen: Seen) -> Payload:
    """Draw the selected head's attention map before and after quantization."""
    words, settings, run, patterns = seen.here, seen.settings, seen.results["outputs"], seen.results["patterns"]
    if run is None:
        return {"empty": {"text": words["empty"], "hint": words["empty_hint"]}}
    if patterns is None:
        return {"empty": {"text": words["not_measured"], "hint": words["not_measured_hint"]}}
    (layer, head), t = seen.facts.head, len(patterns.after)
    name, by_head = name_of(FORMATS[settings.one], seen.all_words), run.outcomes[settings.one].moved
    panels = map_panels(patterns.before, patterns.after, (words["before"], name))
    axes = PatternWords(*(words[key] for key in ("query", "key", "weight", "largest")))
    meta = {"whole": True, "height": 400, "narrow": 660}  # sent in full, so zooming requests no part of the maps
    figure = pattern_figure(panels, seen.facts.tokens, axes, Window(0, t, 0, t), meta=meta)
    largest = most_moved(by_head)
    distances = {"moved": float(by_head[layer, head]), "mean": mean_moved(by_head), "most": largest[2]}
    distances = {key: moved(value) for key, value in distances.items()}
    note = words["note"].format(**distances, layer=largest[0], head=largest[1])
    if t < len(seen.facts.tokens):
        note = f"{note} {words['first'].format(n=whole(t))}"
    lines = [
        f'rounded = with_format(lm.model, FORMATS["{settings.one}"], head={settings.head})',
        f"retrace(rounded, run.tokens).pattern({layer}, {head})",
    ]
    imports = [
        "from model.quantization.formats import FORMATS",
        "from model.quantization.experiments import with_format",
        "from model.tracing.trace import run as retrace",
    ]
    return {
        "figure": figure,
        "title": words["title"].format(layer=layer, head=head),
        "note": note,
        "source": measured_line(seen, run),
        "file": f"formats-{settings.one}-{layer}-{head}",
        "columns": [words["map"], words["query"], words["key"], words["weight"]],
        "python": script(seen.facts, lines, imports),
    }


# --- for programs ----------------------------------------------------------------------------------------


def weight_errors(
    playground: Playground, model: LanguageModel, layer: int = 0, matrix: Annotated[str, OneOf(KINDS)] = "down"
) -> dict:
    """Compute the size of the model's matrices in each number format, and the error of one matrix in each format.

    Args:
        matrix: q, k, v or o of the attention; up, down or, in a gated MLP, gate.

    Returns:
        layer; matrix; shape [out, in]; formats: records of format, bits (per weight, including scales), bytes (of all
        linear layers of the blocks), and for the selected matrix relative (relative Frobenius error), largest (largest
        absolute error) and snr (signal-to-noise ratio in decibels; null for no error). A matrix whose rows do not fit
        the blocks of a format stays float16; a format that fits no matrix is omitted.
    """
    check_layer(layer, model.config.n_layer)
    need_matrices(model.config)
    if matrix not in kinds_of(model.model):
        hint = say("Choose one of: {}.", ", ".join(kinds_of(model.model)))
        raise InputError("An argument has an unknown value.", f"matrix: {matrix}", hint)
    weight, rows = layer_of(model.model.blocks[layer], matrix).weight, []
    for kind in FORMATS.values():
        if usable(model.model, kind):
            nbytes, weights = total_bytes(model.model, kind)
            error = weight_error(weight, *stored(weight, kind))
            rows.append({"format": kind.key, "bits": 8 * nbytes / weights, "bytes": nbytes} | _error(error))
    return {"layer": layer, "matrix": matrix, "shape": list(weight.shape), "formats": rows}


def quantization_formats(
    scene: Scene, which: Annotated[str, OneOf(("usual", "all"))] = "usual", head: bool = False
) -> dict:
    """Measure how quantizing all linear layers to each number format changes weights, predictions and attention.

    Args:
        which: usual: ten common formats. all: all formats.
        head: Also quantize the embedding and the output head.

    Returns:
        text_tokens: number of held-out tokens; formats: records of format, bits, bytes, and relative, largest and snr
        of the weights as in weight_errors; prompt and text (held-out): tokens, kl (mean divergence from the float32
        model, nats), agree (fraction of positions with the same top token), loss and before (mean -log p of the next
        token after and before quantization, null for a single token); moved: mean total variation distance of the
        attention rows on the prompt; most_moved: the head with the largest distance; speed: measured tokens per second,
        null for a format that is only simulated.
    """
    run: FormatResults = measured(VIEW, "outputs", scene, which=which, head=head)
    return {"text_tokens": run.text, "formats": [_answer(each) for each in run.outcomes.values()]}


def _error(error: WeightError) -> dict:
    return {"relative": error.relative, "largest": error.largest, "snr": error.snr}


def _reading(reading: PredictionDivergence) -> dict:
    return {"tokens": reading.positions} | {name: getattr(reading, name) for name in ("kl", "agree", "loss", "before")}


def _answer(outcome: Outcome) -> dict:
    """Build the record of one measured format."""
    layer, head, distance = most_moved(outcome.moved)
    return {
        "format": outcome.key,
        "bits": outcome.error.bits,
        "bytes": outcome.error.nbytes,
        **_error(outcome.error),
        "prompt": _reading(outcome.prompt),
        "text": _reading(outcome.text),
        "moved": mean_moved(outcome.moved),
        "most_moved": {"layer": layer, "head": head, "moved": distance},
        "speed": outcome.speed,
    }


_OF_MODEL, _OF_LAYER = ("model",), ("model", "layer")

VIEW = View(
    "formats",
    settings=SETTINGS,
    form_depends=_OF_MODEL,
    measures=(
        Measure("sizes", measure_sizes, depends=_OF_MODEL, settings=("which", "head"), locks=False),
        Measure("matrix", measure_matrix, depends=_OF_LAYER, settings=("which", "matrix"), locks=False),
        Measure("levels", measure_levels, depends=_OF_LAYER, settings=("one", "matrix"), locks=False, keep=False),
        Measure("file", measure_file, depends=_OF_MODEL, locks=False),
        Measure(
            "outputs",
            measure_outputs,
            depends=("model", "limit"),
            settings=("which", "head"),
            question=outputs_question,
            slow=True,
        ),
        Measure("patterns", measure_patterns, depends=("plain", "head"), settings=("one",), uses=("outputs",)),
    ),
    layout=("form", "job", ("scatter", "maps"), "table", ("levels", "facts")),
    parts={
        "job": Job("outputs", job, also=("sizes",), settings=()),
        "scatter": Figure(scatter, of=("sizes", "matrix"), also=("outputs",), settings=("matrix",)),
        "maps": Figure(maps, of=(), also=("outputs", "patterns"), settings=("one", "head")),
        "table": Table(table, of=("sizes", "matrix"), also=("outputs",), settings=("matrix",)),
        "levels": Figure(levels, of="levels", settings=("one", "matrix")),
        "facts": Custom("normfacts", facts, of=("matrix", "file"), also=("outputs",), settings=("one", "matrix")),
    },
    api=(
        Endpoint(weight_errors, reads="model"),
        Endpoint(quantization_formats, reads="plain run", long=True),
    ),
)
