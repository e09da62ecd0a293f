"""Where the parts of a tab stand: a tree of names, rows and columns that static/page/screen.js lays out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from viz.page.panels import kind_of
from viz.page.view import View


@dataclass(frozen=True)
class Slot:
    """The place of one part."""

    name: str
    kind: str
    value: Any = None  # what it starts with, for parts that ask


@dataclass(frozen=True)
class Box:
    """Parts side by side ("row") or one below the other ("column")."""

    kind: str
    children: tuple["Slot | Box", ...]
    classes: str = ""
    id: str = ""


Node = Slot | Box


def of_view(view: View) -> tuple[Node, ...]:
    """The layout of a view that declares itself."""

    def stack(layout: tuple | str) -> tuple[Node, ...]:
        return tuple(node(each) for each in ((layout,) if isinstance(layout, str) else layout))

    def node(each: tuple | str) -> Node:
        if isinstance(each, str):
            part = kind_of(view, each)
            return Slot(view.part_name(each), part.kind, {} if part.read or each == "form" else None)
        return Box("row", tuple(Box("column", stack(column)) for column in each), "pg-columns")

    return stack(view.layout)


def of_build(build: Callable[[], Mapping[str, gr.HTML]]) -> tuple[tuple[Node, ...], Mapping[str, gr.HTML]]:
    """The layout of a tab that builds components, and those components by name."""
    with gr.Blocks(analytics_enabled=False) as blocks:
        made = build()
    names = {component._id: name for name, component in made.items()}

    def node(component: Any) -> Node:
        if component._id in names:
            kind = component.html_template.split('class="pg-')[1].split('"')[0]
            return Slot(names[component._id], kind, component.value or None if component.value != {} else {})
        kind = "row" if isinstance(component, gr.Row) else "column"
        classes = [name for name in component.elem_classes if name.startswith("pg-")]
        return Box(kind, tuple(map(node, component.children)), " ".join(classes), component.elem_id or "")

    return tuple(map(node, blocks.children)), made


def without(nodes: tuple[Node, ...], names: set[str]) -> tuple[Node, ...]:
    """The layout without these parts."""
    kept: list[Node] = []
    for each in nodes:
        if isinstance(each, Box):
            kept.append(Box(each.kind, without(each.children, names), each.classes, each.id))
        elif each.name not in names:
            kept.append(each)
    return tuple(kept)


def slots(nodes: tuple[Node, ...]) -> Iterator[Slot]:
    """All parts in their order."""
    for each in nodes:
        if isinstance(each, Slot):
            yield each
        else:
            yield from slots(each.children)


def plain(nodes: tuple[Node, ...]) -> list:
    """As JSON holds it: a part is [name, kind], a box {"box", "of"} with class and id where it has them."""
    found: list = []
    for each in nodes:
        if isinstance(each, Slot):
            found.append([each.name, each.kind])
        else:
            more = {"class": each.classes} if each.classes else {}
            more |= {"id": each.id} if each.id else {}
            found.append({"box": each.kind, "of": plain(each.children), **more})
    return found
