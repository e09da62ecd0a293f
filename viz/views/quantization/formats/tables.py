"""Tables and texts of the formats view: all formats, one matrix before and after, and facts about formats and file."""

import math

from model.quantization.experiments import Outcome
from model.quantization.formats import FORMATS, Format, WeightError, stored_bytes
from viz.numbers import NONE, number, percent, size, whole
from viz.seam.python_lines import script
from viz.seam.view import Payload, Seen
from viz.views.quantization.formats.figures import levels_figure, mean_moved
from viz.views.quantization.formats.measure import PROMPT_TOKENS, FormatResults, Levels, text_limit
from viz.views.quantization.naming import decibels, divergence, moved, name_of, perplexity, shared_words
from viz.words import Words, joined

MOST_STEPS = 512  # maximum number of weights of a row drawn as steps

# --- shared by all parts -------------------------------------------------------------------------------


def place_of(seen: Seen) -> str:
    """Format the name of the selected matrix and its layer."""
    return seen.words["place"].format(layer=seen.facts.head[0], matrix=seen.settings.matrix)


def measured_line(seen: Seen, run: FormatResults) -> str:
    """Format the source line of a measurement: the model, its dtype, and the number of tokens of each text."""
    facts = seen.facts
    prompt = min(len(facts.tokens), PROMPT_TOKENS)
    line = seen.words["measured"].format(model=facts.label, dtype=facts.dtype, prompt=whole(prompt), text=run.text)
    return f"{line} · {shared_words(seen.all_words)['plain']}" if facts.edits else line


def measure_lines(seen: Seen, last: str) -> str:
    """Build the Python lines that repeat the measurement, followed by `last`."""
    keys = "USUAL" if seen.settings.which == "usual" else "tuple(FORMATS)"
    lines = [
        f"text = held_out_ids(lm, {text_limit(seen.facts.limit)})",
        f"prompt = run.tokens.ids.tolist()[:{PROMPT_TOKENS}]",
        f"found, maps = measure(lm.model, (prompt, text), {keys}, head={seen.settings.head})",
        last,
    ]
    imports = [
        "from model.quantization.formats import FORMATS, USUAL",
        "from model.quantization.experiments import measure",
        "from model.quantization.texts import held_out_ids",
    ]
    return script(seen.facts, lines, imports)


def matrix_lines(seen: Seen, last: str) -> str:
    """Build the Python lines that read the selected matrix, followed by `last`."""
    matrix = seen.settings.matrix
    owner = "attn" if matrix in "qkvo" else "mlp"
    lines = [f"weight = lm.model.blocks[{seen.facts.head[0]}].{owner}.{matrix}.weight", last]
    return script(seen.facts, lines, ["from model.quantization.formats import FORMATS, stored, weight_error"])


# --- the table -----------------------------------------------------------------------------------------


def table(seen: Seen) -> Payload:
    """Build the table of all formats: size by formula, weight errors and, once measured, the effects on the output."""
    words, run, matrix_errors = seen.here, seen.results["outputs"], seen.results["matrix"].errors
    rows, lines = [], []
    for key, each in seen.results["sizes"].by_format.items():
        outcome = run.outcomes.get(key) if run else None
        error = outcome.error if outcome else matrix_errors.get(key)
        name, bits = name_of(FORMATS[key], seen.all_words), 8 * each.nbytes / each.weights
        starred_name = {"text": f"{name} *", "help": words["kept16"].format(n=whole(each.kept16))}
        leading = [starred_name if each.kept16 else name, number(bits, 4), size(each.nbytes)]
        rows.append([*leading, *_error_cells(error), *_outcome_cells(words, outcome)])
        lines.append([name, bits, each.nbytes, *_numbers(error, outcome)])
    columns = [words[key] for key in ("format", "bits", "bytes")]
    place = words["all"] if run else place_of(seen)
    columns += [words[key].format(place=place) for key in ("relative", "largest", "snr")]
    columns += [words[key] for key in ("kl_prompt", "kl_text", "agree", "perplexity", "moved", "speed")]
    starred = [words["starred"]] if any(isinstance(row[0], dict) for row in rows) else []
    return {
        "title": words["title"],
        "about": joined([_about(seen, run), *starred]),
        "columns": columns,
        "rows": rows,
        "lines": lines,
        "file": "formats",
        "source": measured_line(seen, run) if run else words["counted"].format(model=seen.facts.label),
        "python": measure_lines(seen, "found"),
    }


def _about(seen: Seen, run: FormatResults | None) -> str:
    """Describe which matrices are quantized, and the perplexity before quantization if it is measured."""
    words = seen.here
    rounded = words["rounded_head" if seen.settings.head else "rounded"].format(n=whole(seen.results["sizes"].n))
    if not run:
        return f"{rounded} {words['unmeasured']}"
    before = next(iter(run.outcomes.values())).text.before
    return f"{rounded} {words['before'].format(n=perplexity(before))}"


def _error_cells(error: WeightError | None) -> list[str]:
    return [NONE] * 3 if error is None else [number(error.relative), number(error.largest), decibels(error.snr)]


def _outcome_cells(words: Words, outcome: Outcome | None) -> list[object]:
    if outcome is None:
        return [NONE] * 6
    simulated = {"text": words["simulated"], "help": words["simulated_help"]}
    return [
        divergence(outcome.prompt.kl),
        divergence(outcome.text.kl),
        percent(outcome.text.agree),
        perplexity(outcome.text.loss),
        moved(mean_moved(outcome.moved)),
        number(outcome.speed) if outcome.speed else simulated,
    ]


def _numbers(error: WeightError | None, outcome: Outcome | None) -> list[float | None]:
    """Return the unformatted values of a row: three weight errors and six effects on the output, None if missing."""
    errors = [None] * 3 if error is None else [error.relative, error.largest, error.snr]
    if outcome is None:
        return [*errors, *[None] * 6]
    text = outcome.text
    exact = None if text.loss is None else math.exp(min(text.loss, 700))
    return [*errors, outcome.prompt.kl, text.kl, text.agree, exact, mean_moved(outcome.moved), outcome.speed]


# --- one matrix ----------------------------------------------------------------------------------------


def levels(seen: Seen) -> Payload:
    """Draw the selected matrix before and after quantization."""
    words, settings, result = seen.here, seen.settings, seen.result
    kind, width = FORMATS[settings.one], result.weight.shape[1]
    name, group = name_of(kind, seen.all_words), slice(0, min(group_of(kind, width), width, MOST_STEPS))
    note = words["note"].format(**_levels_numbers(result), n=whole(group.stop))
    if not kind.fits(width):
        note = f"{words['kept16'].format(block=kind.block)} {note}"
    names = {**words.plain(), "after": name}
    return {
        "figure": levels_figure(result.weight, result.values, group, names),
        "title": words["title"].format(place=place_of(seen), name=name),
        "note": note,
        "source": words["counted"].format(model=seen.facts.label),
        "file": f"levels-{seen.facts.head[0]}-{settings.matrix}-{settings.one}",
        "columns": [words["when"], words["value"], words["result"]],
        "python": matrix_lines(seen, f'stored(weight, FORMATS["{settings.one}"])[0]'),
    }


def _levels_numbers(result: Levels) -> dict[str, str]:
    """Format the values for the note on the matrix."""
    (out, width), (before, after), error = result.weight.shape, result.different, result.error
    counts = {"out": out, "in": width, "before": before, "levels": after}
    return {name: whole(n) for name, n in counts.items()} | {
        "relative": number(error.relative),
        "bits": number(error.bits, 4),
    }


def group_of(kind: Format, width: int) -> int:
    """Return the number of weights that share a scale in a row of `width` weights."""
    if kind.scheme is not None:
        return kind.scheme.group or width
    return kind.block if kind.gguf else width


def facts(seen: Seen) -> Payload:
    """List facts: tensor types in the file, formats without error, size of a matrix, K-quants and speed."""
    words, run, matrix, types = seen.here, seen.results["outputs"], seen.results["matrix"], seen.results["file"]
    file_text = words["no_file"].format(dtype=seen.facts.dtype)
    if types:
        listed = (words["type"].format(type=key, n=whole(n)) for key, n in types.items())
        file_text = words["file_text"].format(types=", ".join(listed))
    items = [[words["file"], file_text]]
    errors = {key: each.error for key, each in run.outcomes.items()} if run else matrix.errors
    exact = [
        name_of(FORMATS[key], seen.all_words)
        for key, each in errors.items()
        if FORMATS[key].dtype is None and each.relative < 1e-6
    ]
    if exact:
        place = words["everywhere"] if run else place_of(seen)
        items.append([words["same"], words["same_text"].format(names=", ".join(exact), where=place)])
    items.append([words["bytes"], bytes_text(seen, matrix.shape)])
    items += [[words["k_quants"], words["k_quants_text"]], [words["speed"], words["speed_text"]]]
    return {"title": words["title"], "items": items}


def bytes_text(seen: Seen, shape: tuple[int, int]) -> str:
    """Explain how the size of the selected matrix in bytes is computed. shape [out, in]"""
    words, kind, (out, width) = seen.here, FORMATS[seen.settings.one], shape
    nbytes, scheme = stored_bytes(shape, kind), kind.scheme
    values = {"out": whole(out), "in": whole(width), "n": whole(nbytes), "name": name_of(kind, seen.all_words)}
    if scheme is None:
        blocks = kind.gguf and kind.fits(width)
        each = stored_bytes((1, kind.block), kind) if blocks else nbytes // (out * width)
        return words["bytes_block" if blocks else "bytes_float"].format(**values, block=kind.block, each=each)
    groups = {"tensor": 1, "channel": out, "group": out * -(-width // max(scheme.group, 1))}[scheme.per]
    values |= {"packed": whole(-(-out * width * scheme.bits // 8)), "groups": whole(groups)}
    key = "bytes_scheme" if scheme.symmetric else "bytes_affine"
    zero = whole(-(-groups * scheme.bits // 8))
    return words[key].format(**values, each=2 if scheme.per == "group" else 4, zero=zero)
