"""The matrices of the selected heads under a measure, individual or combined: the data of the map, lines and text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from model.attention.measures import MEASURES, measure, rows_undefined
from model.attention.spans import spans_of, summed
from model.gpt.mixers.names import ATTENTION
from model.gpt.mixers.scoring import alibi_slopes
from viz.charts.heatmap import combined
from viz.numbers import number, percent, whole
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Facts, Measure
from viz.views.attention.units import unit_of
from viz.words import Words, joined

# The selected heads individually, their mean or maximum, or the mean over the main head's layer.
OF = ("each", "mean", "max", "layer")
Head = tuple[int, int]  # layer, head
_AXES = {"tokens": "[T, T]", "words": "[words, words]", "sentences": "[sentences, sentences]"}


def about(words: Words, name: str) -> str:
    """Format the help of a measure: its meaning, formula, source and caveats."""
    entry, texts = MEASURES[name], words.catalogue
    source = f"{entry.formula} ({entry.source})."
    return f"{texts[f'measure_help.{name}']} {source} {texts[f'measure_caveat.{name}']}"


MEASURE = Choice("measure", tuple(MEASURES), label=lambda words, name: words.catalogue[f"measure.{name}"], help=about)
HEADS = Choice("of", OF)


@dataclass(frozen=True, eq=False)
class Patterns:
    """One matrix per selected head, or a single combined one."""

    z: tuple[np.ndarray, ...]  # [T, T] each, or one row per word; rows are queries, NaN where undefined
    blank: int = 0  # maximum number of undefined rows of a head, counted for without_first only


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the requested heads and how to combine their matrices. For measures of whole layers, the head is 0."""
    name, (layer, _) = settings.measure, scene.head
    heads, of = scene.picked.heads, settings.of
    if MEASURES[name].of == "layer":  # the measure spans all heads in all layers up to this one
        heads = ((layer, 0),)
    elif of == "layer":
        heads, of = tuple((layer, n) for n in range(scene.model.config.n_head)), "mean"
    together = of if len(heads) > 1 else "each"
    of_blank = scene.picked.heads if name == "without_first" else ()
    unit = unit_of(name, settings.unit)
    return Settings((("measure", name), ("heads", heads), ("together", together), ("blank", of_blank), ("unit", unit)))


def unsigned(scene: Scene, settings: Settings) -> Settings:
    """Return the same request for a view that draws magnitudes: weights replace scores, which may be negative."""
    return question(scene, settings.but(measure=without_sign(settings.measure)))


def without_sign(name: str) -> str:
    """Return the measure if it is unsigned, otherwise `weights`."""
    return "weights" if MEASURES[name].scale == "signed" else name


def patterns(scene: Scene, settings: Settings) -> Patterns:
    """Compute the matrices. Raises InputError if the prompt is too long for the measure."""
    z = tuple(measure(scene.trace, settings.measure, *head) for head in settings.heads)
    if settings.unit == "tokens":
        blank = max((rows_undefined(scene.trace.pattern(*head)) for head in settings.blank), default=0)
    else:
        spans = spans_of(scene.tokens.raw, settings.unit)
        z = tuple(summed(each, spans, spans) for each in z)
        blank = max(int(np.isnan(each[1:]).all(1).sum()) for each in z) if settings.blank else 0
    return Patterns(z if settings.together == "each" else (combined(z, settings.together),), blank)


def last_layer(scene: Scene, settings: Settings) -> int:
    """Return the last layer from which the matrices are computed."""
    return max(layer for layer, _ in (*settings.heads, *settings.blank))


def of_layers(settings: Settings) -> bool:
    """Return whether the measure spans all layers up to one. Such a measure takes long, so its result is cached."""
    return MEASURES[settings.measure].of == "layer"


def of_heads(question: Callable[[Scene, Settings], Settings]) -> Measure:
    """Build the `Measure` of a view. A head's matrix takes milliseconds, so a click never waits for other jobs."""
    options = {"question": question, "keep": of_layers, "reads": last_layer, "owner": "patterns"}
    return Measure("main", patterns, settings=("measure", "of", "unit"), locks=False, **options)


PATTERNS, LINKED = of_heads(question), of_heads(unsigned)


# --- names ---


@dataclass(frozen=True)
class Titles:
    """Titles and names of the displayed matrices."""

    panels: tuple[str, ...]
    heads: tuple[Head, ...]  # one per panel; the main head for a combined matrix
    name: str  # short name, unique on the page for this run
    title: str
    file: str


def titles(facts: Facts, catalogue: Mapping[str, str], name: str, of: str) -> Titles:
    """Format the titles and names of the selected heads' matrices under a measure."""
    (layer, _), words = facts.head, Words(catalogue, "attention.titles")
    if MEASURES[name].of == "layer":
        title = words["up_to"].format(measure=catalogue[f"measure.{name}"], layer=layer)
        return Titles((title,), (facts.head,), f"{layer} {name}", title, f"{name}-{layer}")
    heads = shown_heads(facts, of)
    panels = tuple(words["one"].format(layer=at, head=n) for at, n in heads)
    names = f"{layer}.*" if of == "layer" else ", ".join(f"{at}.{n}" for at, n in heads)
    file = f"attention-{names.replace(', ', '_').replace('.', '-').replace('*', 'all')}"
    if len(heads) == 1:
        return Titles(panels, heads, names, panels[0], file)
    title = words[of].format(heads=names, layer=layer)
    if of == "each":
        return Titles(panels, heads, names, title, file)
    return Titles((title,), (facts.head,), f"{of} {names}", title, f"{file}-{of}")


def run_name(facts: Facts, name: str, unit: str) -> str:
    """Return the unique name of the displayed matrices for the page, which begins with that of the run."""
    return f"{facts.run} {name}" if unit == "tokens" else f"{facts.run} {name} {unit}"


def shown_heads(facts: Facts, of: str) -> tuple[Head, ...]:
    """Return the heads whose matrices are displayed, individually or combined."""
    layer, _ = facts.head
    return tuple((layer, n) for n in range(facts.config.n_head)) if of == "layer" else facts.heads


def without_softmax(facts: Facts, name: str, of: str) -> tuple[int, ...]:
    """Return the layers without a softmax that contribute to the displayed matrices."""
    layer, _ = facts.head
    layers = range(layer + 1) if MEASURES[name].of == "layer" else sorted({at for at, _ in shown_heads(facts, of)})
    return tuple(at for at in layers if not facts.config.is_attention(at))


def value_name(facts: Facts, catalogue: Mapping[str, str], name: str, of: str) -> str:
    """Return the name of the matrix entries: the measure, or hidden attention if no displayed head has a softmax."""
    hidden, layers = without_softmax(facts, name, of), {at for at, _ in shown_heads(facts, of)}
    return catalogue["attention.hidden.weight" if name == "weights" and set(hidden) == layers else f"measure.{name}"]


def hidden_note(facts: Facts, catalogue: Mapping[str, str], name: str, of: str) -> str:
    """Describe the values drawn for layers without attention weights; "" if all displayed layers have a softmax."""
    layers = ", ".join(map(str, without_softmax(facts, name, of)))
    return catalogue["attention.hidden.note"].format(layers=layers) if layers else ""


def rules_note(
    facts: Facts, texts: Mapping[str, str], weights: np.ndarray | None = None, row: int | None = None
) -> str:
    """Say by which rules the selected layer turns scores into weights, besides a softmax; "" for a softmax alone.

    With the head's weights [T, T], it says how much of a row a learned sink takes on average, and of the given `row`.
    """
    config, layer = facts.config, facts.head[0]
    if config.mixer_of(layer) not in ATTENTION:  # nothing is known of the scores of a hooked model
        return ""
    said = []
    if config.two_way:
        said.append(texts["attention.rules.two_way"])
    if config.mixer_of(layer) == "sliding_window":
        key, n = ("window_two_way", config.window // 2) if config.two_way else ("window", config.window)
        said.append(texts[f"attention.rules.{key}"].format(layer=layer, n=whole(n)))
    if config.score_cap is not None:
        said.append(texts["attention.rules.cap"].format(cap=number(config.score_cap)))
    if config.positions == "alibi":
        slope = float(alibi_slopes(config.n_head)[facts.head[1]]) / (config.d_head**0.5 if config.alibi_rounded else 1)
        said.append(texts["attention.rules.alibi"].format(layer=layer, head=facts.head[1], slope=number(slope)))
    if has_sink(facts) and weights is not None:
        shares = 1 - np.nansum(weights, axis=1)
        values = {"mean": percent(float(shares.mean()))}
        if row is not None:
            values |= {"share": percent(float(shares[row])), "position": row}
        said.append(texts["attention.rules.sink_mean" if row is None else "attention.rules.sink"].format(**values))
    if config.output_gate:
        said.append(texts["attention.rules.gate"])
    return joined(said)


def has_sink(facts: Facts) -> bool:
    """Return whether the selected head has a learned sink, which takes the rest of each row."""
    return facts.config.mixer_of(facts.head[0]) in ATTENTION and facts.config.sinks


def lines_of(facts: Facts, name: str, of: str, unit: str = "tokens") -> str:
    """Build the Python lines that compute the matrices."""
    layer, _ = facts.head
    imports = ["from model.attention.measures import measure"]
    if unit != "tokens":
        imports.append("from model.attention.spans import spans_of, summed")
    spans = [f"spans = spans_of(run.tokens.raw, {unit!r})"] if unit != "tokens" else []
    if MEASURES[name].of == "layer":
        call = f"measure(run, {name!r}, {layer}, 0)"
        call = f"summed({call}, spans, spans)" if spans else call
        return script(facts, [*spans, f"{call}  # {_AXES[unit]}, layers 0 to {layer}"], imports)
    heads = f"heads = {[list(head) for head in facts.heads]}"
    if of == "layer":
        heads = f"heads = [({layer}, head) for head in range(lm.config.n_head)]"
    call = f"measure(run, {name!r}, layer, head)"
    call = f"summed({call}, spans, spans)" if spans else call
    lines = [*spans, heads, f"maps = [{call} for layer, head in heads]  # {_AXES[unit]} each"]
    if of in ("mean", "layer"):
        lines.append("sum(maps) / len(maps)")
    elif of == "max":
        lines.append("np.maximum.reduce(maps)")
    return script(facts, lines, [*imports, *(["import numpy as np"] if of == "max" else [])])
