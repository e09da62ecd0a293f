"""The parameters of a model as a treemap of components, layers and tensors."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout

HEIGHT, NARROW = 460, 420
MOST_LAYERS = 128  # maximum number of layers for which tensors are drawn
COLORS = {
    "embedding": HUES[0],
    "attention": HUES[1],
    "norms": HUES[3],
    "state": HUES[4],
    "mlp": HUES[2],
    "head": HUES[5],
}
_DEPTH = 3  # levels visible at once: all, component, layer or tensor

Tensor = tuple[str, int | None, str, int]  # component, layer, name, parameters
Node = tuple[str, str, str, int, str]  # id, label, id of the parent, parameters, component


def nodes(tensors: Sequence[Tensor], words: Mapping[str, str]) -> list[Node]:
    """Build the tree of components (largest first), layers (by increasing number) and tensors (largest first).

    The size of a node is the sum over its children. `words`: "all", "layer" with {layer}, and the components by key.
    """
    detailed = len({layer for _, layer, _, _ in tensors}) <= MOST_LAYERS
    sums: dict[tuple, int] = {}
    for component, layer, name, size in tensors:
        paths = [(), (component,)] + ([(component, layer)] if layer is not None else [])
        if detailed or layer is None:
            paths.append((component, layer, name))
        for path in paths:
            sums[path] = sums.get(path, 0) + size

    def order(path: tuple) -> tuple[int, int, int]:
        layer = path[1] if len(path) > 1 and path[1] is not None else -1
        return -sums[path[:1]], layer, -sums[path]

    return [_node(path, sums[path], words) for path in sorted(sums, key=order)]


def _node(path: tuple, size: int, words: Mapping[str, str]) -> Node:
    if not path:
        return "all", words["all"], "", size, ""
    component = path[0]
    if len(path) == 1:
        return component, words[component], "all", size, component
    parent = component if path[1] is None else f"{component}/{path[1]}"
    if len(path) == 2:
        return parent, words["layer"].format(layer=path[1]), component, size, component
    return f"{parent}/{path[2]}", path[2], parent, size, component


def tree_figure(tensors: Sequence[Tensor], words: Mapping[str, str]) -> go.Figure:
    """Draw the treemap; a click on a tile zooms into it. `words`: as in `nodes`, plus "parameters" and "of_all"."""
    ids, labels, parents, sizes, components = (list(column) for column in zip(*nodes(tensors, words), strict=True))
    hover = (
        f"%{{id}}<br>%{{value:,}} {plotly_text(words['parameters'])}<br>"
        f"%{{percentRoot:.2%}} {plotly_text(words['of_all'])}<extra></extra>"
    )
    trace = go.Treemap(
        ids=ids,
        labels=[plotly_text(label) for label in labels],
        parents=parents,
        values=sizes,
        branchvalues="total",
        sort=False,
        maxdepth=_DEPTH,
        hovertemplate=hover,
        texttemplate="%{label}<br>%{percentRoot:.1%}",
        marker={
            "colors": [COLORS.get(component, "rgba(128,134,150,0.18)") for component in components],
            "pad": {"t": 20, "l": 2, "r": 2, "b": 2},
            "cornerradius": 3,
            "line": {"width": 1, "color": "rgba(255,255,255,0.55)"},
        },
        tiling={"pad": 1, "packing": "slice-dice"},  # square tiles would change the order of the layers
        pathbar={"thickness": 22},
        textfont={"size": 12},
    )
    meta = {"height": HEIGHT, "narrow": NARROW}
    return go.Figure(trace, frame_layout(meta) | {"margin": {"l": 0, "r": 0, "t": 24, "b": 0}})
