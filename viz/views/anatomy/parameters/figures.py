"""Where a model's parameters are: a tree map of components, layers and tensors."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout

HEIGHT, NARROW = 460, 420
MOST_LAYERS = 128  # whose tensors are drawn one by one
COLORS = {"embedding": HUES[0], "attention": HUES[1], "norms": HUES[3], "mlp": HUES[2], "head": HUES[5]}
_DEPTH = 3  # levels that are seen at once: all, component, layer or tensor

Tensor = tuple[str, int | None, str, int]  # component, layer, name, parameters
Node = tuple[str, str, str, int, str]  # id, label, id of the parent, parameters, component


def nodes(tensors: Sequence[Tensor], words: Mapping[str, str]) -> list[Node]:
    """Return the tree: all, components, the largest first, their layers in order, tensors. Each is as large as its
    children.

    `words`: "all", "layer" with {layer}, and the components by key.
    """
    deep = len({layer for _, layer, _, _ in tensors}) <= MOST_LAYERS
    sums: dict[tuple, int] = {}
    for component, layer, name, size in tensors:
        places = [(), (component,)] + ([(component, layer)] if layer is not None else [])
        if deep or layer is None:
            places.append((component, layer, name))
        for place in places:
            sums[place] = sums.get(place, 0) + size

    def order(place: tuple) -> tuple[int, int, int]:
        layer = place[1] if len(place) > 1 and place[1] is not None else -1
        return -sums[place[:1]], layer, -sums[place]

    return [_node(place, sums[place], words) for place in sorted(sums, key=order)]


def _node(place: tuple, size: int, words: Mapping[str, str]) -> Node:
    if not place:
        return "all", words["all"], "", size, ""
    component = place[0]
    if len(place) == 1:
        return component, words[component], "all", size, component
    under = component if place[1] is None else f"{component}/{place[1]}"
    if len(place) == 2:
        return under, words["layer"].format(layer=place[1]), component, size, component
    return f"{under}/{place[2]}", place[2], under, size, component


def tree_figure(tensors: Sequence[Tensor], words: Mapping[str, str]) -> go.Figure:
    """Return the tree map; a click on a tile goes into it. `words`: as in `nodes`, and "parameters", "of_all"."""
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
        tiling={"pad": 1, "packing": "slice-dice"},  # squares would put the layers in another order
        pathbar={"thickness": 22},
        textfont={"size": 12},
    )
    meta = {"height": HEIGHT, "narrow": NARROW}
    return go.Figure(trace, frame_layout(meta) | {"margin": {"l": 0, "r": 0, "t": 24, "b": 0}})
