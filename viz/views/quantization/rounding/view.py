"""One layer to few bits in better ways than to the nearest level: scaled by its inputs first, or compensated."""

import dataclasses
from typing import Annotated

from model.api import LanguageModel
from model.errors import InputError, say
from model.progress import Progress
from model.quantization.experiments import KINDS
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
WINDOW = 512  # tokens that are read at once
_OVERFITS = 1.5  # ratio of the error on unseen text to that on the seen one from which there is a note


def _kinds(scene: Scene) -> tuple[str, ...]:
    """Return the matrices that a layer of the model has."""
    there = matrices_of(scene.model.config)
    return tuple(kind for kind in KINDS if kind in there)


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
    """Whole numbers with a zero point, for groups of a row or for all of it."""
    group = 0 if settings.group == "row" else int(settings.group)
    key = f"int{settings.bits}-{settings.group}"
    return Scheme(key, int(settings.bits), False, "group" if group else "channel", group)


def texts_of(scene: Scene, tokens: int) -> list[list[int]]:
    """Pieces of the bundled text: as many as hold `tokens` to fit to, and one more to measure on."""
    length = min(WINDOW, scene.limit)
    ids = scene.model.encode(bundled_text()).ids.tolist()
    n = max(1, min(tokens // length, len(ids) // length - 1))
    pieces = [ids[at : at + length] for at in range(0, (n + 1) * length, length)]
    return [pieces[0][:tokens], pieces[1]] if tokens < length else pieces


def measure(scene: Scene, settings: Settings, progress: Progress) -> Comparison:
    """Return one matrix of the main head's layer, rounded in all ways, in the plain model."""
    texts = texts_of(scene, int(settings.tokens))
    return compare(scene.model.model, scene.head[0], settings.matrix, scheme_of(settings), texts, progress)


def cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Return the runs on the text that is fitted to and, for each way, on the one that is measured on."""
    fit, held = int(settings.tokens), min(WINDOW, scene.limit)
    return 3 * (fit / held + 1), 3.0 * (fit + held)


# --- pictures ---


def job(seen: Seen) -> Payload:
    """Which matrix is rounded, and how long that takes."""
    matrix = seen.words[f"settings.matrix_{seen.settings.matrix}"]
    return {"text": seen.here["hint"].format(layer=seen.facts.head[0], matrix=matrix)}


def _shared(seen: Seen, last: str) -> Payload:
    """Return the fields of all payloads: whose numbers they are, and the Python lines."""
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
    """Return the error of the matrix's output by method."""
    words, here, result = seen.words, seen.here, seen.result
    best, plain, notes = _best(result), result.outcomes[0], [here["note"]]
    if best is plain:
        notes.append(here["best_nearest"])
    else:
        values = {"best": words[best.method], "error": percent(best.held_out), "plain": percent(plain.held_out)}
        notes.append(here["best"].format(**values, times=number(plain.held_out / best.held_out, 2)))
    worst = max(result.outcomes, key=lambda each: each.held_out / max(each.fit, 1e-30))
    if worst.held_out > _OVERFITS * worst.fit:
        times = number(worst.held_out / worst.fit, 2)
        notes.append(here["overfits"].format(method=words[worst.method], times=times))
    fit, held_out = ([getattr(each, name) for each in result.outcomes] for name in ("fit", "held_out"))
    return _shared(seen, "{each.method: each.held_out for each in found.outcomes}") | {
        "figure": error_figure([words[each.method] for each in result.outcomes], fit, held_out, words),
        "note": joined(notes),
        "columns": [here["text"], words["method"], words["error"]],
    }


def table(seen: Seen) -> Payload:
    """Return every number."""
    words, here, result, rows, lines = seen.words, seen.here, seen.result, [], []
    for each in result.outcomes:
        rows.append(
            [
                {"text": words[each.method], "help": here[f"help_{each.method}"]},
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
    about = here["about"].format(
        rows=whole(out),
        columns=whole(width),
        size=size(result.nbytes),
        full=size(4 * out * width),
        per=number(8 * result.nbytes / (out * width)),
    )
    names = [words["method"], words["seen"], words["unseen"]]
    names += [here[name] for name in ("of_weights", "kl", "agree", "seconds")]
    return _shared(seen, "found.outcomes") | {"about": about, "columns": names, "rows": rows, "lines": lines}


def power(seen: Seen) -> Payload:
    """How the scaling was found."""
    words, here, result = seen.words, seen.here, seen.result
    return _shared(seen, "dict(zip(found.powers, found.errors))") | {
        "figure": power_figure(result.powers, result.errors, result.power, {**words.plain(), **here.plain()}),
        "note": here["note"].format(power=number(result.power)),
        "columns": [words["method"], here["power"], words["error"]],
    }


def columns(seen: Seen) -> Payload:
    """Return the error column by column, plain and while it is compensated."""
    words, here, result = seen.words, seen.here, seen.result
    texts = {**words.plain(), **here.plain()}
    return _shared(seen, "list(zip(found.columns, found.plain, found.made_up))") | {
        "figure": column_figure(result.columns, result.plain, result.made_up, texts),
        "note": here["note"],
        "columns": [words["method"], here["columns"], words["error"]],
    }


# --- for programs ---


def round_matrix(
    playground: Playground,
    model: LanguageModel,
    layer: int = 0,
    matrix: Annotated[str, OneOf(KINDS)] = "v",
    bits: Annotated[str, OneOf(BITS)] = "3",
    group: Annotated[str, OneOf(GROUPS)] = "64",
    tokens: Annotated[str, OneOf(TOKENS)] = "2048",
) -> dict:
    """Return one matrix rounded to few bits in four ways, each measured by what the matrix gives out.

    Args:
        matrix: q, k, v, o of the attention; up, down and, where there is one, gate of the MLP.
        bits: Bits of a weight.
        group: So many weights of a row share a scale and a zero point; or row.
        tokens: Tokens of the bundled text that the methods see. They are measured on others.

    Returns:
        outcomes: for nearest, scaled (the idea of AWQ), compensated (the idea of GPTQ) and both, the error of the
        output on the text that was seen (fit) and on other text (held_out), of the weights (weight), KL in nats and
        agreement of the model's next token, seconds to round; powers and errors of the search for a scaling; nbytes.
    """
    check_head(model, layer, 0)
    if matrix not in matrices_of(model.config):
        hint = say("Choose one of: {}.", ", ".join(matrices_of(model.config)))
        raise InputError("The model has no such matrix.", matrix, hint)
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
