"""From what is picked to what is drawn: which heads, under which measure, each for itself or together."""

from dataclasses import dataclass

from model.attention.measures import MEASURES, measure
from model.records import RunKey
from viz.charts.heatmap import Panel, combined
from viz.page.background import kept
from viz.page.scene import Scene, run_id

OF = ("each", "mean", "max", "layer")  # the picked heads one by one, together, or all heads of the main one's layer


@dataclass(frozen=True)
class Shown:
    """What is asked for of the picked heads."""

    measure: str = "weights"  # of model.measures.MEASURES
    of: str = "each"
    curve: str = "sqrt"  # of viz.theme.CURVES


@dataclass(frozen=True, eq=False)
class Found:
    """What is drawn, and how it is called."""

    panels: list[Panel]
    heads: list[tuple[int, int]]  # the head of each panel, or the main head
    name: str  # short, unique on the page for this run
    title: str
    file: str


def shown_heads(scene: Scene, shown: Shown) -> Found:
    """The matrices of the picked heads, or of all heads of a layer, under a measure."""
    layer = scene.head[0]
    words, kind = scene.words, MEASURES[shown.measure].of
    if kind == "layer":  # rollout and flow mix all heads of all layers up to this one
        title = words["pattern.up_to"].format(measure=words[f"measure.{shown.measure}"], layer=layer)
        key = (scene.trace.key, shown.measure, layer)
        z = kept(scene.playground, key, lambda: measure(scene.trace, shown.measure, layer, 0))  # takes a while
        return Found([Panel(title, z)], [scene.head], f"{layer} {shown.measure}", title, f"{shown.measure}-{layer}")
    heads = list(scene.picked.heads)
    if shown.of == "layer":
        heads = [(layer, n) for n in range(scene.model.config.n_head)]
    panels = [
        Panel(words["pattern.title"].format(layer=at, head=n), measure(scene.trace, shown.measure, at, n))
        for at, n in heads
    ]
    names = f"{layer}.*" if shown.of == "layer" else ", ".join(f"{at}.{n}" for at, n in heads)
    file = f"attention-{names.replace(', ', '_').replace('.', '-').replace('*', 'all')}"
    if len(panels) == 1:
        return Found(panels, heads, names, panels[0].name, file)
    if shown.of == "each":
        return Found(panels, heads, names, words["pattern.titles"].format(heads=names), file)
    name = {"mean": "pattern.mean_title", "max": "pattern.max_title", "layer": "pattern.layer_title"}[shown.of]
    title = words[name].format(heads=names, layer=layer)
    z = combined([panel.z for panel in panels], "max" if shown.of == "max" else "mean")
    return Found([Panel(title, z)], [scene.head], f"{shown.of} {names}", title, f"{file}-{shown.of}")


def cell_of(scene: Scene) -> tuple[int, int]:
    """The cell to explain: the one that was clicked, else what the picked tokens say, else a strong one of the head.

    Two tokens are a pair, the later one looking; one token looks at what it reads most, itself and the first aside.
    """
    picked = scene.picked
    if picked.pair:
        return picked.pair
    if len(picked.tokens) > 1:
        return max(picked.tokens), min(picked.tokens)
    query = picked.tokens[0] if picked.tokens else len(scene.trace.tokens) - 1
    between = scene.trace.pattern(*scene.head)[query, 1:query]
    return query, int(between.argmax()) + 1 if len(between) else 0


def position_of(scene: Scene) -> int:
    """The position whose next token is looked at: the last picked token, else the last one of the prompt."""
    return max(scene.picked.tokens, default=len(scene.trace.tokens) - 1)


def source(scene: Scene) -> str:
    """The line below a picture: whose numbers these are."""
    told = scene.words["pattern.source"].format(
        model=scene.model.label, dtype=scene.model.dtype, ms=round(scene.trace.seconds * 1000)
    )
    return f"{told} · {scene.words['pattern.edited']}" if scene.picked.edits else told


def prompt_id(scene: Scene) -> str:
    """A short name for the prompt's tokens, whatever its edits: what is picked on it stays while edits come and go."""
    key = scene.trace.key
    return run_id(RunKey(key.model_id, key.ids), "")
