"""Excerpts of the project's own code, located by the names in it, so that the excerpts shown cannot become outdated."""

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from model import FOLDER

_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_TAPS = ("at", "tap")  # calls whose first argument names the site of a tensor


@dataclass(frozen=True)
class Span:
    """Some lines of a function, located by the names in them.

    of: the function, or a file relative to the project's folder and the function's dotted name in it.
    lines: the selected statements; empty for the complete function. "=x": those that assign x or, failing that,
        pass a keyword argument x; "x": those that mention the name x, or a string literal if in quotes; "return": the
        last return; "if x" and "else x": a branch of the condition that mentions x. The header line of a loop or
        condition is excluded.
    gives: pairs of such a selector and the name of the tensor that the line computes.
    """

    of: Callable | tuple[str, str]
    lines: tuple[str, ...] = ()
    gives: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Piece:
    """Consecutive lines: the number of the first one, and their text without the common indentation."""

    line: int
    text: str


@dataclass(frozen=True)
class Excerpt:
    """The source of a span. `shapes` holds pairs of a line number and the shapes of the tensors computed there, as
    text.
    """

    file: str  # relative to the project's folder
    function: str  # the function's dotted name
    pieces: tuple[Piece, ...]
    shapes: tuple[tuple[int, str], ...]

    @property
    def text(self) -> str:
        """All lines of the excerpt."""
        return "\n".join(piece.text for piece in self.pieces)


@dataclass(frozen=True)
class Code:
    """The code of one part: the project's own and, if it computes the same, that of docs/mini_gpt.py."""

    own: tuple[Excerpt, ...]
    mini: tuple[Excerpt, ...] = ()


Sizes = Mapping[str, tuple[int, ...]]  # tensor name -> shape
_Node = ast.stmt | ast.keyword


def excerpts(spans: Iterable[Span], sizes: Sizes) -> tuple[Excerpt, ...]:
    """Read the excerpts of all spans that can be located; an installation without sources, or without docs/,
    has none.
    """
    results = []
    for span in spans:
        try:
            results.append(excerpt(span, sizes))
        except (LookupError, OSError):
            continue
    return tuple(results)


def excerpt(span: Span, sizes: Sizes) -> Excerpt:
    """Read the excerpt of one span. Raises LookupError for an unknown name, OSError if there is no source."""
    file, name = span.of if isinstance(span.of, tuple) else _place(span.of)
    lines, tree = _source(file)
    function = _function(tree, name)
    nodes: list[_Node] = _in_order(function, span.lines) if span.lines else [function]
    shapes: dict[int, list[str]] = {}
    for line, tensor in (*_tapped(nodes), *_shapes_by_line(function, span.gives)):
        if tensor in sizes and any(node.lineno <= line <= _end(node) for node in nodes):
            shapes.setdefault(line, []).append(tensor)
    shape_notes = tuple((line, _shape_text(tensors, sizes)) for line, tensors in sorted(shapes.items()))
    return Excerpt(file, name, tuple(_pieces(nodes, lines)), shape_notes)


def _place(function: Callable) -> tuple[str, str]:
    """Return the path of a function's file, relative to the project's folder, and the function's dotted name."""
    plain = inspect.unwrap(function)
    if not inspect.isfunction(plain):
        raise LookupError(f"{plain!r} is not written in Python")
    path = Path(inspect.getsourcefile(plain) or "").resolve()
    if not path.is_relative_to(FOLDER):
        raise LookupError(f"{plain!r} is not of this project")
    return path.relative_to(FOLDER).as_posix(), plain.__qualname__


@functools.lru_cache(maxsize=64)
def _source(file: str) -> tuple[tuple[str, ...], ast.Module]:
    """Read the lines of a file and parse its syntax tree."""
    text = (FOLDER / file).read_text(encoding="utf-8")
    return tuple(text.splitlines()), ast.parse(text)


def _function(tree: ast.Module, name: str) -> ast.FunctionDef:
    """Find a function by its dotted name. Raises LookupError if it does not exist."""
    body: list[ast.stmt] = tree.body
    node: ast.stmt | None = None
    for part in name.split("."):
        node = next((each for each in body if getattr(each, "name", None) == part), None)
        body = getattr(node, "body", [])
    if not isinstance(node, ast.FunctionDef):
        raise LookupError(f"there is no function {name}")
    return node


# --- selection of statements ----------------------------------------------------------------------------------


def _in_order(function: ast.FunctionDef, anchors: Iterable[str]) -> list[_Node]:
    """Return the nodes that match the anchors, without duplicates, from top to bottom."""
    nodes = {(node.lineno, node.col_offset): node for anchor in anchors for node in _matching(function, anchor)}
    return [nodes[place] for place in sorted(nodes)]


def _matching(function: ast.FunctionDef, anchor: str) -> list[_Node]:
    """Find the statements that match one anchor. Raises LookupError if none does."""
    simple = [node for node in ast.walk(function) if isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND)]
    word, _, name = anchor.rpartition(" ")
    matches: list[_Node]
    if word:
        branches = (node for node in ast.walk(function) if isinstance(node, ast.If) and name in _names(node.test))
        matches = [each for node in branches for each in (node.body if word == "if" else node.orelse)]
    elif anchor == "return":
        matches = [*sorted((node for node in simple if isinstance(node, ast.Return)), key=_start)[-1:]]
    elif anchor.startswith("="):
        matches = [node for node in simple if anchor[1:] in _assigned(node)]
        if not matches:
            matches = [each for each in ast.walk(function) if isinstance(each, ast.keyword) and each.arg == anchor[1:]]
    else:
        matches = [node for node in simple if anchor in _names(node)]
    if not matches:
        raise LookupError(f"{function.name} has no {anchor!r}")
    return matches


def _start(node: _Node) -> int:
    return node.lineno


def _end(node: _Node) -> int:
    return node.end_lineno or node.lineno


def _assigned(node: ast.stmt) -> set[str]:
    """Return the names and attributes that a statement assigns."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {name for target in targets if target is not None for name in _names(target)} - {"self"}


def _names(node: ast.AST) -> set[str]:
    """Collect the names, attributes and quoted string literals below a node."""
    names = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            names.add(each.id)
        elif isinstance(each, ast.Attribute):
            names.add(each.attr)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            names.add(f'"{each.value}"')
    return names


def _pieces(nodes: list[_Node], lines: tuple[str, ...]) -> Iterator[Piece]:
    """Yield the text of the statements; consecutive ones form one piece."""
    groups: list[tuple[int, int]] = []
    for node in nodes:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        if groups and first <= groups[-1][1] + 1 and _indent(lines[first - 1]) == _indent(lines[groups[-1][0] - 1]):
            groups[-1] = groups[-1][0], max(_end(node), groups[-1][1])
        else:
            groups.append((first, _end(node)))
    for first, last in groups:
        yield Piece(first, textwrap.dedent("\n".join(lines[first - 1 : last])))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# --- shapes --------------------------------------------------------------------------------------------


def _tapped(nodes: Iterable[_Node]) -> Iterator[tuple[int, str]]:
    """Yield the line and the site of each tensor that is passed to the tap."""
    for node in nodes:
        for call in (each for each in ast.walk(node) if isinstance(each, ast.Call) and each.args):
            called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            site = call.args[0]
            if called in _TAPS and isinstance(site, ast.Constant) and isinstance(site.value, str):
                yield call.lineno, site.value


def _shapes_by_line(function: ast.FunctionDef, gives: Iterable[tuple[str, str]]) -> Iterator[tuple[int, str]]:
    for anchor, tensor in gives:
        for node in _matching(function, anchor):
            yield node.lineno, tensor


def _shape_text(tensors: list[str], sizes: Sizes) -> str:
    """Format shapes as text, such as [1, 8, 10, 32]; if they differ, each with the name of its tensor."""
    shapes = {tensor: f"[{', '.join(map(str, sizes[tensor]))}]" for tensor in tensors}
    if len(set(shapes.values())) == 1:
        return next(iter(shapes.values()))
    return ", ".join(f"{tensor} {shape}" for tensor, shape in shapes.items())
