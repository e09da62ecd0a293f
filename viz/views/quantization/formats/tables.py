"""The view of formats in numbers: the table of all, one matrix before and after, and what is known of the file."""

import math
from collections.abc import Mapping

from model.quantization.experiments import Outcome, layer_of, matrices, total_bytes
from model.quantization.formats import FORMATS, Format, WeightError, stored, stored_bytes, weight_error
from model.quantization.texts import file_types
from viz.page import background
from viz.page.parts import plot_words
from viz.page.scene import Scene
from viz.views.activations.norm.figures import told
from viz.views.predictions.figures import percent
from viz.views.quantization.formats.figures import SAME, STILL, bounded, levels_figure, mean_moved, small
from viz.views.quantization.formats.job import (
    Asked,
    Run,
    decibels,
    key_of,
    matrix_errors,
    matrix_lines,
    measure_lines,
    measured_line,
    name_of,
    perplexity,
    place_of,
    usable_of,
)
from viz.views.sampling.kv_cache.figures import told_bytes
from viz.words import section

MOST_STEPS = 512  # weights of one row whose steps are drawn

# --- the table -----------------------------------------------------------------------------------------


def table_payload(scene: Scene, asked: Asked, run: Run | None) -> dict:
    """Every format: bytes by their formula, errors, and what was measured of the outputs."""
    said, model = section(scene.words, "formatstable"), scene.model.model
    one = matrix_errors(scene, asked)
    rows, lines = [], []
    for kind in usable_of(scene, asked):
        nbytes, weights = total_bytes(model, kind, head=asked.head)
        outcome = run.outcomes.get(kind.key) if run else None
        error = outcome.error if outcome else one.get(kind.key)
        name, bits = name_of(kind, scene.words), 8 * nbytes / weights
        kept16 = sum(not kind.fits(weight.shape[1]) for _, weight in matrices(model, head=asked.head))
        first = {"text": f"{name} *", "help": said["kept16"].format(n=kept16)} if kept16 else name
        rows.append(
            [
                first,
                f"{bits:.3f}".rstrip("0").rstrip("."),
                told_bytes(nbytes),
                *_error_cells(error),
                *_outcome_cells(said, outcome),
            ]
        )
        lines.append([name, bits, nbytes, *_numbers(error, outcome)])
    columns = [said[key] for key in ("format", "bits", "bytes")]
    place = said["all"] if run else place_of(scene, asked)
    columns += [said[key].format(place=place) for key in ("relative", "largest", "snr")]
    columns += [said[key] for key in ("kl_prompt", "kl_text", "agree", "perplexity", "moved", "speed")]
    starred = any(isinstance(row[0], dict) for row in rows)
    return {
        "title": said["title"],
        "about": " ".join(text for text in (_about(scene, asked, run), said["starred"] if starred else "") if text),
        "columns": columns,
        "rows": rows,
        "lines": lines,
        "file": "formats",
        "source": measured_line(scene, run) if run else said["source_bytes"].format(model=scene.model.label),
        "python": measure_lines(scene, asked, "found"),
        "run": f"{scene.run} {key_of(scene, asked)[4:]} {place_of(scene, asked)} {run is not None} table",
    }


def _about(scene: Scene, asked: Asked, run: Run | None) -> str:
    """Which matrices are rounded, and what is left as it is."""
    said = section(scene.words, "formatstable")
    n = len(matrices(scene.model.model, head=asked.head))
    rounded = said["rounded_head" if asked.head else "rounded"].format(n=n)
    if not run:
        return f"{rounded} {said['empty']}"
    before = next(iter(run.outcomes.values())).text.before
    return f"{rounded} {said['before'].format(n=perplexity(before))}"


def _error_cells(error: WeightError | None) -> list[str]:
    return ["–"] * 3 if error is None else [small(error.relative), small(error.largest), decibels(error.snr)]


def _outcome_cells(said: Mapping[str, str], found: Outcome | None) -> list[object]:
    if found is None:
        return ["–"] * 6
    speed = f"{found.speed:.3g}" if found.speed else {"text": said["simulated"], "help": said["simulated_help"]}
    return [
        bounded(found.prompt.kl, SAME),
        bounded(found.text.kl, SAME),
        percent(found.text.agree),
        perplexity(found.text.loss),
        bounded(mean_moved(found.moved), STILL),
        speed,
    ]


def _numbers(error: WeightError | None, found: Outcome | None) -> list[float | None]:
    """The cells of a row as exact numbers."""
    errors = [None] * 3 if error is None else [error.relative, error.largest, error.snr]
    if found is None:
        return [*errors, *[None] * 6]
    perplexity = None if found.text.loss is None else math.exp(min(found.text.loss, 700))
    return [*errors, found.prompt.kl, found.text.kl, found.text.agree, perplexity, mean_moved(found.moved), found.speed]


# --- one matrix ----------------------------------------------------------------------------------------


def levels_payload(scene: Scene, asked: Asked) -> dict:
    """One matrix before and after rounding."""
    said, kind, layer = section(scene.words, "formatslevels"), FORMATS[asked.one], scene.head[0]
    weight = layer_of(scene.model.model.blocks[layer], asked.matrix).weight.detach()
    values, nbytes = stored(weight, kind)
    error, name = weight_error(weight, values, nbytes), name_of(kind, scene.words)
    given = {
        "out": f"{weight.shape[0]:,}",
        "in": f"{weight.shape[1]:,}",
        "before": f"{len(weight.unique()):,}",
        "levels": f"{len(values.unique()):,}",
        "relative": small(error.relative),
        "bits": told(error.bits),
    }
    group = slice(0, min(group_of(kind, weight.shape[1]), weight.shape[1], MOST_STEPS))
    note = said["note"].format(**given, n=group.stop)
    if not kind.fits(weight.shape[1]):
        note = f"{said['kept16'].format(block=kind.block)} {note}"
    return {
        "figure": levels_figure(weight.float().numpy(), values.numpy(), group, said | {"after": name}),
        "title": said["title"].format(place=place_of(scene, asked), name=name),
        "note": note,
        "source": said["source"].format(model=scene.model.label),
        "file": f"levels-{layer}-{asked.matrix}-{asked.one}",
        "run": f"{scene.model.id} {layer} {asked.matrix} {asked.one} {scene.language}",
        "columns": [said["when"], said["value"], said["result"]],
        "python": matrix_lines(scene, asked, f'stored(weight, FORMATS["{asked.one}"])[0]'),
        "words": plot_words(scene.words),
    }


def group_of(kind: Format, width: int) -> int:
    """Weights of a row that share a scale."""
    if kind.scheme is not None:
        return kind.scheme.group or width
    return kind.block if kind.gguf else width


def facts_payload(scene: Scene, asked: Asked, run: Run | None) -> dict:
    """What the loaded file held, and whether a format gives back the same weights; what is simulated; K-quants."""
    said, model = section(scene.words, "formatsfacts"), scene.model
    types = background.kept(scene.playground, ("formats file", model.id), lambda: file_types(model.id))
    if types:
        listed = ", ".join(said["type"].format(type=key, n=n) for key, n in types.items())
        items = [[said["file"], said["file_text"].format(types=listed)]]
    else:
        items = [[said["file"], said["no_file"].format(dtype=model.dtype)]]
    errors = {key: each.error for key, each in run.outcomes.items()} if run else matrix_errors(scene, asked)
    same = [
        name_of(FORMATS[key], scene.words)
        for key, each in errors.items()
        if FORMATS[key].dtype is None and each.relative < 1e-6
    ]
    if same:
        where = said["everywhere"] if run else place_of(scene, asked)
        items.append([said["same"], said["same_text"].format(names=", ".join(same), where=where)])
    weight = layer_of(model.model.blocks[scene.head[0]], asked.matrix).weight
    nbytes = stored_bytes(tuple(weight.shape), FORMATS[asked.one])
    items.append([said["bytes"], _bytes_told(scene, asked, tuple(weight.shape), nbytes)])
    items += [[said["k_quants"], said["k_quants_text"]], [said["speed"], said["speed_text"]]]
    return {"title": said["title"], "items": items, "run": f"{scene.run} {asked} {run is not None} facts"}


def _bytes_told(scene: Scene, asked: Asked, shape: tuple[int, int], nbytes: int) -> str:
    """Where the bytes of the one matrix come from."""
    said, kind = section(scene.words, "formatsfacts"), FORMATS[asked.one]
    given = {"out": f"{shape[0]:,}", "in": f"{shape[1]:,}", "n": f"{nbytes:,}", "name": name_of(kind, scene.words)}
    scheme = kind.scheme
    if scheme is None:
        blocks = kind.gguf and kind.fits(shape[1])
        each = stored_bytes((1, kind.block), kind) if blocks else nbytes // (shape[0] * shape[1])
        return said["bytes_block" if blocks else "bytes_float"].format(**given, block=kind.block, each=each)
    groups = {"tensor": 1, "channel": shape[0], "group": shape[0] * -(-shape[1] // max(scheme.group, 1))}[scheme.per]
    packed = -(-shape[0] * shape[1] * scheme.bits // 8)
    each = 2 if scheme.per == "group" else 4
    key = "bytes_scheme" if scheme.symmetric else "bytes_affine"
    zero = -(-groups * scheme.bits // 8)
    return said[key].format(**given, packed=f"{packed:,}", groups=f"{groups:,}", each=each, zero=f"{zero:,}")
