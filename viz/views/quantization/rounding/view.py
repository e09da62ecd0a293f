"""The rounding view: methods that quantize a matrix to few bits better than rounding to nearest."""

import dataclasses
from typing import Annotated

from model.api import LanguageModel
from model.errors import InputError, say
from model.progress import Progress
from model.quantization.experiments import KINDS, layer_of
from model.quantization.formats import Scheme
from model.quantization.rounding import Comparison, Outcome, compare, matrices_of
from model.text.held_out import bundled_text
from viz.numbers import decimals, nats, number, percent, size, whole
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import check_head, measured, unprompted
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.selection import Selection
from viz.seam.settings import Choice, Settings
from viz.seam.view import Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.quantization.rounding.figures import column_figure, error_figure, power_figure
from viz.words import Words, joined
from viz.work.playground import Playground

BITS = ("2", "3", "4")
GROUPS = ("32", "64", "128", "row")
TOKENS = ("128", "512", "2048")
WINDOW = 512  # maximum number of tokens per forward pass
_OVERFITS = 1.5  # ratio of held-out to calibration error above which a note appears


def _kinds(scene: Scene) -> tuple[str, ...]:
    """Return the kinds of matrices in the model's layers."""
    available = matrices_of(scene.model.config)
    return tuple(kind for kind in KINDS if kind in available)


def _bits_label(words: Words, option: str) -> str:
    return words["bits_n"].format(n=option)


def _group_label(words: Words, option: str) -> str:
    return words["group_row"] if option == "row" else words["group_n"].format(n=option)


def _tokens_label(words: Words, option: str) -> str:
    return words["tokens_n"].format(n=whole(int(option)))


SETTINGS = (
    Choice("matrix", _kinds, "v"),
    Choice("bits", BITS, "3", label=_bits_label),
    Choice("group", GROUPS, "64", label=_group_label),
    Choice("tokens", TOKENS, "2048", label=_tokens_label),
)


def scheme_of(settings: Settings) -> Scheme:
    """Build the quantization scheme: integers with a zero point, per group of a row or per row."""
    group = 0 if settings.group == "row" else int(settings.group)
    key = f"int{settings.bits}-{settings.group}"
    return Scheme(key, int(settings.bits), False, "group" if group else "channel", group)


def texts_of(scene: Scene, tokens: int) -> list[list[int]]:
    """Split the bundled text into pieces of token ids: `tokens` tokens for calibration, and a last, held-out piece."""
    length = min(WINDOW, scene.limit)
    ids = scene.model.encode(bundled_text()).ids.tolist()
    n = max(1, min(tokens // length, len(ids) // length - 1))
    pieces = [ids[at : at + length] for at in range(0, (n + 1) * length, length)]
    return [pieces[0][:tokens], pieces[1]] if tokens < length else pieces


def measure(scene: Scene, settings: Settings, progress: Progress) -> Comparison:
    """Quantize one matrix of the main head's layer with all methods, and compare them in the unedited model."""
    texts = texts_of(scene, int(settings.tokens))
    return compare(scene.model.model, scene.head[0], settings.matrix, scheme_of(settings), texts, progress)


def cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of runs on the calibration and held-out texts, and the number of processed tokens."""
    fit, held = int(settings.tokens), min(WINDOW, scene.limit)
    return 3 * (fit / held + 1), 3.0 * (fit + held)


# --- parts ---


def job(seen: Seen) -> Payload:
    """Describe the measurement: the matrix to quantize, and its layer."""
    matrix = seen.words[f"settings.matrix_{seen.settings.matrix}"]
    return {"text": seen.here["hint"].format(layer=seen.facts.head[0], matrix=matrix)}


def _shared(seen: Seen, last: str) -> Payload:
    """Build the payload fields shared by all parts: title, source line, and Python lines followed by `last`."""
    words, facts, settings, result = seen.words, seen.facts, seen.settings, seen.result
    pieces = f"texts = [ids[at : at + size] for at in range(0, {result.fit_tokens + result.held_out_tokens}, size)]"
    if result.fit_tokens < result.held_out_tokens:
        pieces = f"texts = [ids[:{result.fit_tokens}], ids[size : 2 * size]]"
    lines = [
        f"ids, size = lm.encode(bundled_text()).ids.tolist(), {result.held_out_tokens}",
        pieces,
        f"scheme = {scheme_of(settings)!r}",
        f"found = compare(lm.model, {facts.head[0]}, {settings.matrix!r}, scheme, texts)",
        last,
    ]
    imports = [
        "from model.quantization.formats import Scheme",
        "from model.quantization.rounding import compare",
        "from model.text.held_out import bundled_text",
    ]
    source = words["source"].format(
        model=facts.label,
        dtype=facts.dtype,
        name=result.name,
        bits=settings.bits,
        group=_group_label(words.within("settings"), settings.group),
        fit=whole(result.fit_tokens),
        held_out=whole(result.held_out_tokens),
    )
    return {"title": seen.here["title"], "source": source, "python": script(facts, lines, imports)}


def _best(result: Comparison) -> Outcome:
    return min(result.outcomes, key=lambda each: each.held_out)


def errors(seen: Seen) -> Payload:
    """Draw the error of the matrix's output for each method."""
    words, part_words, result = seen.words, seen.here, seen.result
    best, plain, notes = _best(result), result.outcomes[0], [part_words["note"]]
    if best is plain:
        notes.append(part_words["best_nearest"])
    else:
        values = {"best": words[best.method], "error": percent(best.held_out), "plain": percent(plain.held_out)}
        notes.append(part_words["best"].format(**values, times=number(plain.held_out / best.held_out, 2)))
    worst = max(result.outcomes, key=lambda each: each.held_out / max(each.fit, 1e-30))
    if worst.held_out > _OVERFITS * worst.fit:
        times = number(worst.held_out / worst.fit, 2)
        notes.append(part_words["overfits"].format(method=words[worst.method], times=times))
    fit, held_out = ([getattr(each, name) for each in result.outcomes] for name in ("fit", "held_out"))
    return _shared(seen, "{each.method: each.held_out for each in found.outcomes}") | {
        "figure": error_figure([words[each.method] for each in result.outcomes], fit, held_out, words),
        "note": joined(notes),
        "columns": [part_words["text"], words["method"], words["error"]],
    }


def table(seen: Seen) -> Payload:
    """Build the table of all measurements, one row per method."""
    words, part_words, result, rows, lines = seen.words, seen.here, seen.result, [], []
    for each in result.outcomes:
        rows.append(
            [
                {"text": words[each.method], "help": part_words[f"help_{each.method}"]},
                percent(each.fit),
                percent(each.held_out),
                percent(each.weight),
                nats(each.kl),
                percent(each.agree),
                decimals(each.seconds),
            ]
        )
        lines.append([each.method, each.fit, each.held_out, each.weight, each.kl, each.agree, each.seconds])
    out, width = result.shape
    about = part_words["about"].format(
        rows=whole(out),
        columns=whole(width),
        size=size(result.nbytes),
        full=size(4 * out * width),
        per=number(8 * result.nbytes / (out * width)),
    )
    names = [words["method"], words["seen"], words["unseen"]]
    names += [part_words[name] for name in ("of_weights", "kl", "agree", "seconds")]
    return _shared(seen, "found.outcomes") | {"about": about, "columns": names, "rows": rows, "lines": lines}


def power(seen: Seen) -> Payload:
    """Draw the output error for each candidate scaling exponent."""
    words, part_words, result = seen.words, seen.here, seen.result
    return _shared(seen, "dict(zip(found.powers, found.errors))") | {
        "figure": power_figure(result.powers, result.errors, result.power, {**words.plain(), **part_words.plain()}),
        "note": part_words["note"].format(power=number(result.power)),
        "columns": [words["method"], part_words["power"], words["error"]],
    }


def columns(seen: Seen) -> Payload:
    """Draw the output error as a function of the number of quantized columns, with and without compensation."""
    words, part_words, result = seen.words, seen.here, seen.result
    texts = {**words.plain(), **part_words.plain()}
    return _shared(seen, "list(zip(found.columns, found.plain, found.made_up))") | {
        "figure": column_figure(result.columns, result.plain, result.made_up, texts),
        "note": part_words["note"],
        "columns": [words["method"], part_words["columns"], words["error"]],
    }


# --- for programs ---


def round_matrix(
    playground: Playground,
    model: LanguageModel,
    layer: int | None = None,
    matrix: Annotated[str, OneOf(KINDS)] = "v",
    bits: Annotated[str, OneOf(BITS)] = "3",
    group: Annotated[str, OneOf(GROUPS)] = "64",
    tokens: Annotated[str, OneOf(TOKENS)] = "2048",
) -> dict:
    """Quantize one matrix to few bits with four methods, and measure the error of its output for each.

    Args:
        layer: Layer, counted from 0; by default, the first one with the matrix.
        matrix: q, k, v or o of the attention; up, down or, in a gated MLP, gate.
        bits: Bits per weight.
        group: Number of weights in a row that share a scale and a zero point, or row for the whole row.
        tokens: Number of tokens of the bundled text used for calibration; the error is also measured on held-out
            tokens.

    Returns:
        name and shape [out, in] of the matrix; nbytes: its size in the quantized format; outcomes: one record per
        method: nearest, scaled (the idea of AWQ), compensated (the idea of GPTQ) and both, with the output error on the
        calibration text (fit) and on held-out text (held_out), the error of the weights (weight), kl (nats) and agree
        of the model's next-token predictions, and seconds to quantize; powers and errors: scaling exponents and their
        output errors; power: the best exponent; fit_tokens and held_out_tokens: numbers of tokens of the two texts.
    """
    having = (n for n, block in enumerate(model.model.blocks) if layer_of(block, matrix) is not None)
    layer = next(having, 0) if layer is None else layer
    check_head(model, layer, 0)
    if matrix not in matrices_of(model.config):
        hint = say("Choose one of: {}.", ", ".join(matrices_of(model.config)))
        raise InputError("No matrix of the model has this name.", matrix, hint)
    scene = dataclasses.replace(unprompted(playground, model), picked=Selection(heads=((layer, 0),)))
    result = measured(VIEW, "main", scene, matrix=matrix, bits=bits, group=group, tokens=tokens)
    return {
        "name": result.name,
        "shape": result.shape,
        "nbytes": result.nbytes,
        "outcomes": [vars(each) for each in result.outcomes],
        "power": result.power,
        "powers": result.powers,
        "errors": result.errors,
        "fit_tokens": result.fit_tokens,
        "held_out_tokens": result.held_out_tokens,
    }


VIEW = View(
    "rounding",
    settings=SETTINGS,
    form_depends=("model",),
    measures=(
        Measure(
            "main",
            measure,
            depends=("model", "layer", "limit"),
            settings=("matrix", "bits", "group", "tokens"),
            slow=True,
            cost=cost,
        ),
    ),
    layout=("form", "job", ("errors", "table"), ("power", "columns")),
    parts={
        "job": Job("main", job),
        "errors": Figure(errors),
        "table": Table(table),
        "power": Figure(power),
        "columns": Figure(columns),
    },
    api=(Endpoint(round_matrix, reads="model", long=True),),
)
