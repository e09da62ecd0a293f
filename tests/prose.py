"""How the prose reads: docstrings that begin with a verb, and refused turns of phrase, spellings and terms.

`python -m tests.prose` prints the counts of every room; `--list` adds the places. tests/data/prose.toml has the lists.
"""

import ast
import functools
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = ("model", "viz", "app.py")
RULES = tomllib.loads((ROOT / "tests/data/prose.toml").read_text(encoding="utf-8"))
VERBS = frozenset(RULES["verbs"].split())


@dataclass(frozen=True)
class Text:
    """A piece of prose and its place."""

    where: str  # path:line, or path:key
    text: str


def begins_with_a_verb(text: str) -> bool:
    """Return whether the first word of a text is a verb in the imperative."""
    first = re.match(r"[A-Z][a-z]+", text)
    return bool(first) and first[0].lower() in VERBS


def docstrings(path: Path, functions: bool = True) -> Iterator[Text]:
    """Yield the docstrings of a file's functions, properties left out, or those of its module and classes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not is_function and not isinstance(node, ast.ClassDef | ast.Module):
            continue
        text = ast.get_docstring(node)
        if text and is_function == functions and not (is_function and _is_property(node)):
            yield Text(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", text)


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(each).split(".")[-1] in ("property", "cached_property") for each in node.decorator_list)


def comments(path: Path) -> Iterator[Text]:
    """Yield the comments of a Python file, or of a script or style sheet."""
    source, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield Text(f"{name}:{token.start[0]}", token.string)
        return
    for number, line in enumerate(source.splitlines(), 1):
        if found := re.search(r"(?:^|\s)(?://|/\*) (.*)", line):
            yield Text(f"{name}:{number}", found[1])


@functools.cache
def code() -> tuple[Text, ...]:
    """Return all docstrings and comments of the product."""
    texts: list[Text] = []
    for path in python_files():
        texts += [*docstrings(path), *docstrings(path, functions=False), *comments(path)]
    for suffix in ("*.js", "*.css"):
        for path in sorted((ROOT / "static").rglob(suffix)):
            texts += comments(path)
    return tuple(texts)


def python_files() -> list[Path]:
    """Return the Python files of the product."""
    return [path for name in CODE for path in sorted((ROOT / name).rglob("*.py") or [ROOT / name])]


@functools.cache
def page(language: str) -> tuple[Text, ...]:
    """Return every sentence of the page in a language, with those of its lessons."""
    texts: list[Text] = []
    words = [path for path in sorted((ROOT / "viz/words" / language).rglob("*.toml")) if path.name != "search.toml"]
    for path in (*words, *sorted((ROOT / "viz/lessons/bundled").glob(f"*.{language}.toml"))):
        for key, text in _leaves(tomllib.loads(path.read_text(encoding="utf-8"))):
            if not key.endswith((".forms", ".prompt")):  # what is searched for, and texts that models read
                texts.append(Text(f"{path.relative_to(ROOT)}:{key}", text))
    return tuple(texts)


def _leaves(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for name, each in pairs:
            yield from _leaves(each, f"{key}.{name}".lstrip("."))


@functools.cache
def documents() -> tuple[Text, ...]:
    """Return the paragraphs of README and docs, without their code."""
    texts: list[Text] = []
    for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))):
        source = re.sub(r"```.*?```|`[^`\n]*`|https?://\S+", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        texts += [Text(f"{path.relative_to(ROOT)}", each) for each in source.split("\n\n")]
    return tuple(texts)


def hits(texts: tuple[Text, ...], table: dict[str, str]) -> list[str]:
    """Return where a text has what a table of regular expressions refuses, with the advice."""
    return [
        f"{each.where}: {found[0]!r}, {advice}: {' '.join(each.text.split())[:120]}"
        for pattern, advice in table.items()
        for each in texts
        if (found := re.search(pattern, each.text, re.IGNORECASE))
    ]


def verb_counts() -> dict[str, tuple[int, int]]:
    """Return by room how many docstrings of functions begin with a verb, and how many there are."""
    verbs, everything = Counter[str](), Counter[str]()
    for path in python_files():
        room = "/".join(path.relative_to(ROOT).parts[:2])
        for each in docstrings(path):
            everything[room] += 1
            verbs[room] += begins_with_a_verb(each.text)
    return {room: (verbs[room], number) for room, number in sorted(everything.items())}


def main() -> None:
    """Print the counts; with --list also every place."""
    counts = verb_counts()
    for room, (verbs, number) in counts.items():
        print(f"{room:32} {verbs:5} of {number:5} docstrings of functions begin with a verb, {verbs / number:4.0%}")
    verbs, number = (sum(each) for each in zip(*counts.values(), strict=True))
    print(f"{'all':32} {verbs:5} of {number:5}, {verbs / number:4.0%}")
    for name, texts, table in checks():
        found = hits(texts, table)
        print(f"{name:32} {len(found):5}")
        if "--list" in sys.argv:
            print(*(f"  {each}" for each in found), sep="\n")


def checks() -> Iterator[tuple[str, tuple[Text, ...], dict[str, str]]]:
    """Yield each check: its name, its texts and the table of what is refused."""
    english = (("code", code()), ("documents", documents()), ("page", page("en")))
    for name, texts in english:
        yield f"turns of phrase, {name}", texts, RULES["refused"]
        yield f"spelling, {name}", texts, RULES["spelling"]
    for language in RULES["terms"]:
        yield f"terms, page in {language}", page(language), RULES["terms"][language]


if __name__ == "__main__":
    main()
