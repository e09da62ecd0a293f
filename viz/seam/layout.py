"""The layout of a tab's parts: a tree of names, rows and columns for static/page/screen.js."""

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from viz.seam.panels import kind_of
from viz.seam.view import View


@dataclass(frozen=True)
class Slot:
    """The place of one part in the layout."""

    name: str
    kind: str
    value: Any = None  # initial value of an input part


@dataclass(frozen=True)
class Box:
    """A row of parts side by side, or a column of parts one below the other."""

    kind: str
    children: tuple["Slot | Box", ...]
    classes: str = ""
    id: str = ""


Node = Slot | Box
SLIM = {"controls", "targets", "job"}  # kinds of parts that share one line with their neighbors of these kinds


def of_view(view: View, placed: Collection[str] = ()) -> tuple[Node, ...]:
    """Return the layout of a view, without the parts that are already placed."""

    def stack(layout: tuple | str) -> tuple[Node, ...]:
        return tuple(node(each) for each in ((layout,) if isinstance(layout, str) else layout) if stands(each))

    def stands(each: tuple | str) -> bool:
        return not isinstance(each, str) or view.part_name(each) not in placed

    def node(each: tuple | str) -> Node:
        if isinstance(each, str):
            part = kind_of(view, each)
            return Slot(view.part_name(each), part.kind, {} if part.read or each == "form" else None)
        return Box("row", tuple(Box("column", stack(column)) for column in each), "pg-columns")

    return tuple(_in_lines(stack(view.layout)))


def _in_lines(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Yield the nodes, with neighboring settings and buttons gathered in one line above their pictures."""
    for slim, run in itertools.groupby(nodes, lambda node: isinstance(node, Slot) and node.kind in SLIM):
        gathered = tuple(run)
        yield from (Box("row", gathered, "pg-slim"),) if slim and len(gathered) > 1 else gathered


def slots(nodes: tuple[Node, ...]) -> Iterator[Slot]:
    """Yield all parts in order."""
    for each in nodes:
        if isinstance(each, Slot):
            yield each
        else:
            yield from slots(each.children)


def plain(nodes: tuple[Node, ...]) -> list:
    """Convert the layout to JSON types: a part is [name, kind], a box {"box", "of"} with optional class and id."""
    rows: list = []
    for each in nodes:
        if isinstance(each, Slot):
            rows.append([each.name, each.kind])
        else:
            more = {"class": each.classes} if each.classes else {}
            more |= {"id": each.id} if each.id else {}
            rows.append({"box": each.kind, "of": plain(each.children), **more})
    return rows
