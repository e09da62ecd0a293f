"""The matrices of the picked heads under a measure, one by one or together: what map, lines and text are drawn from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from model.attention.measures import MEASURES, measure, rows_undefined
from viz.charts.heatmap import combined
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Facts, Measure
from viz.words import Words

OF = ("each", "mean", "max", "layer")  # the picked heads one by one, together, or all heads of the main one's layer
Head = tuple[int, int]  # layer, head


def about(words: Words, name: str) -> str:
    """Return a measure's help: its meaning, formula, source and pitfalls."""
    entry, texts = MEASURES[name], words.catalogue
    source = f"{entry.formula} ({entry.source})."
    return f"{texts[f'measure_help.{name}']} {source} {texts[f'measure_caveat.{name}']}"


MEASURE = Choice("measure", tuple(MEASURES), label=lambda words, name: words.catalogue[f"measure.{name}"], help=about)
HEADS = Choice("of", OF)


@dataclass(frozen=True, eq=False)
class Patterns:
    """One matrix a picked head, or one of all of them together."""

    z: tuple[np.ndarray, ...]  # [T, T] each, rows queries, NaN where there is nothing
    blank: int = 0  # rows of a head that the measure leaves without numbers, where it says so


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the requested heads, and whether their matrices become one. Layers are measured as one of their heads."""
    name, (layer, _) = settings.measure, scene.head
    heads, of = scene.picked.heads, settings.of
    if MEASURES[name].of == "layer":  # all heads of all layers up to this one
        heads = ((layer, 0),)
    elif of == "layer":
        heads, of = tuple((layer, n) for n in range(scene.model.config.n_head)), "mean"
    together = of if len(heads) > 1 else "each"
    of_blank = scene.picked.heads if name == "without_first" else ()
    return Settings((("measure", name), ("heads", heads), ("together", together), ("blank", of_blank)))


def unsigned(scene: Scene, settings: Settings) -> Settings:
    """Return the same for what is drawn by size: scores, which may be negative, give way to weights."""
    return question(scene, settings.but(measure=without_sign(settings.measure)))


def without_sign(name: str) -> str:
    """Return the measure that links can show instead of this one."""
    return "weights" if MEASURES[name].scale == "signed" else name


def patterns(scene: Scene, settings: Settings) -> Patterns:
    """Return the matrices; raises InputError where the prompt is too long for the measure."""
    z = tuple(measure(scene.trace, settings.measure, *head) for head in settings.heads)
    blank = max((rows_undefined(scene.trace.pattern(*head)) for head in settings.blank), default=0)
    return Patterns(z if settings.together == "each" else (combined(z, settings.together),), blank)


def last_layer(scene: Scene, settings: Settings) -> int:
    """Return the last layer whose heads are read."""
    return max(layer for layer, _ in (*settings.heads, *settings.blank))


def of_layers(settings: Settings) -> bool:
    """Whether all heads of the layers up to one are measured: that takes a while, and is kept."""
    return MEASURES[settings.measure].of == "layer"


def of_heads(question: Callable[[Scene, Settings], Settings]) -> Measure:
    """Return the measure of a view. A head's matrix takes milliseconds, so a click waits for nobody's forward pass."""
    given = {"question": question, "keep": of_layers, "reads": last_layer, "owner": "patterns"}
    return Measure("main", patterns, settings=("measure", "of"), locks=False, **given)


PATTERNS, LINKED = of_heads(question), of_heads(unsigned)


# --- what they are called ---


@dataclass(frozen=True)
class Titles:
    """The name of the matrices."""

    panels: tuple[str, ...]
    heads: tuple[Head, ...]  # of each panel; the main one where several heads are one matrix
    name: str  # short, unique on the page for this run
    title: str
    file: str


def titles(facts: Facts, catalogue: Mapping[str, str], name: str, of: str) -> Titles:
    """Of what is shown of the picked heads under a measure."""
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


def shown_heads(facts: Facts, of: str) -> tuple[Head, ...]:
    """Return the heads that are shown, each for itself or together."""
    layer, _ = facts.head
    return tuple((layer, n) for n in range(facts.config.n_head)) if of == "layer" else facts.heads


def without_softmax(facts: Facts, name: str, of: str) -> tuple[int, ...]:
    """Return the layers without a softmax that have a part in what is shown under a measure."""
    layer, _ = facts.head
    of_layers = range(layer + 1) if MEASURES[name].of == "layer" else sorted({at for at, _ in shown_heads(facts, of)})
    return tuple(at for at in of_layers if not facts.config.is_attention(at))


def value_name(facts: Facts, catalogue: Mapping[str, str], name: str, of: str) -> str:
    """What a number of the matrices is: the measure, or hidden attention where no head shown has a softmax."""
    hidden, layers = without_softmax(facts, name, of), {at for at, _ in shown_heads(facts, of)}
    return catalogue["attention.hidden.weight" if name == "weights" and set(hidden) == layers else f"measure.{name}"]


def hidden_note(facts: Facts, catalogue: Mapping[str, str], name: str, of: str) -> str:
    """What is drawn in place of weights where a layer has none, "" where all layers shown have a softmax."""
    layers = ", ".join(map(str, without_softmax(facts, name, of)))
    return catalogue["attention.hidden.note"].format(layers=layers) if layers else ""


def lines_of(facts: Facts, name: str, of: str) -> str:
    """Return the Python lines that make the matrices."""
    layer, _ = facts.head
    imports = ["from model.attention.measures import measure"]
    if MEASURES[name].of == "layer":
        return script(facts, [f"measure(run, {name!r}, {layer}, 0)  # [T, T], layers 0 to {layer}"], imports)
    heads = f"heads = {[list(head) for head in facts.heads]}"
    if of == "layer":
        heads = f"heads = [({layer}, head) for head in range(lm.config.n_head)]"
    lines = [heads, f"maps = [measure(run, {name!r}, layer, head) for layer, head in heads]  # [T, T] each"]
    if of in ("mean", "layer"):
        lines.append("sum(maps) / len(maps)")
    elif of == "max":
        lines.append("np.maximum.reduce(maps)")
    return script(facts, lines, [*imports, *(["import numpy as np"] if of == "max" else [])])
