"""What a benchmark imports of the project is there: none of them is run by a test."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "benchmarks").rglob("*.py"))
OURS = ("model", "viz", "benchmarks", "tests", "app")


def imported(path: Path) -> list[tuple[str, str]]:
    """(module, name) of each name that a file takes from the project, wherever in it."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return [
        (node.module, name.name)
        for node in nodes
        if node.module and node.module.split(".")[0] in OURS
        for name in node.names
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_it_imports_is_there(path):
    missing = []
    for module, name in imported(path):
        found = importlib.import_module(module)
        if not hasattr(found, name) and importlib.util.find_spec(f"{module}.{name}") is None:
            missing.append(f"{module}.{name}")
    assert missing == []


def test_there_are_some():
    assert len(FILES) > 10 and sum(len(imported(path)) for path in FILES) > 30
