"""Tests that the documentation is true: code runs, commands parse, lists are complete, links lead somewhere."""

import doctest
import importlib.util
import inspect
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import app
from model import api, training_cli
from model.activations.norm_swap import SWAPS
from model.activations.residual_statistics import RULES
from model.alignment import rewards
from model.attention.effects import TARGETS
from model.attention.measures import MEASURES
from model.checks import registry
from model.generation.strategies import METHODS, STRATEGIES
from model.gpt.edits import EDITS
from model.sampling.warps import WARPS
from model.tracing import trace
from model.tracing.head_metrics import HEAD_METRICS
from model.tracing.trace import Trace
from tests import models_page
from tests.support.documented import blocks, run_blocks
from viz.page import notebook
from viz.views.tabs import TABS
from viz.words import words

ROOT = Path(__file__).parents[3]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
PAGES |= {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")}
PYTHON = [name for name, text in PAGES.items() if "```python\n" in text]


# --- code ---


def test_the_examples_of_the_api_page_give_what_they_show():
    result = doctest.testfile(str(ROOT / "docs" / "api.md"), module_relative=False, verbose=False)
    assert result.attempted > 40 and result.failed == 0


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name == "api.md" else []) for name in PYTHON]
)
def test_the_python_of_a_page_runs_from_top_to_bottom(name):
    run_blocks(PAGES[name], name)


def test_the_example_of_the_notebook_runs():
    result = doctest.testmod(notebook)
    assert result.attempted == 4 and result.failed == 0


# --- commands ---

# Programs of others, and the tests themselves.
OTHERS = (
    "pip ",
    "apt-get ",
    "docker ",
    "ray ",
    "cd ",
    "PYTHONPATH=",
    ". ",
    "pre-commit ",
    "python -m venv",
    "python -m pytest",
    "REQUIRE_ALL=",
)


def commands(name: str) -> list[str]:
    """Return the commands of a page, from its shell blocks and from code within its sentences."""
    text = "\n".join(blocks(PAGES[name], "sh") + blocks(PAGES[name], "bash")).replace("\\\n", " ")
    lines = [part.split("  #")[0].strip() for line in text.splitlines() for part in line.split("&&")]
    lines += re.findall(r"`(python (?:app\.py|-m \w+\.)[^`]*)`", PAGES[name])
    return [line for line in lines if line and not line.startswith(("#", *OTHERS))]


def parses(parse: Callable, arguments: list[str]) -> bool:
    """Whether a command line is valid; numbers stand in for the placeholders of the documentation."""
    numbers = {"N": "4", "MB": "256"}
    try:
        parse([numbers.get(each, each) for each in arguments])
    except SystemExit as end:
        return end.code == 0  # --help
    return True


def understood(command: str) -> bool:
    """Whether the program of a command exists and takes its arguments."""
    command = re.sub(r"^RAY_ADDRESS=\S+ ", "", " ".join(command.split()))
    python, *arguments = shlex.split(command)
    if python in ("attention-playground", "uvx", "pipx"):  # the wheel's own test runs the first
        return python != "attention-playground" or parses(app.parse, arguments)
    if python != "python":
        return False
    if "-c" in arguments[:2]:  # after -i, perhaps
        return bool(compile(arguments[arguments.index("-c") + 1], command, "exec"))
    if arguments[0] == "app.py":
        return parses(app.parse, arguments[1:])
    module, *rest = arguments[1:]
    if module == "model.training" and rest and "COMMAND" not in rest:
        return parses(training_cli.parser().parse_args, rest)
    return importlib.util.find_spec(module) is not None


@pytest.mark.parametrize("name", [name for name in PAGES if commands(name)])
def test_the_commands_of_a_page_are_understood(name, tmp_path, monkeypatch):
    for folder in ("my-lessons", "docs/examples/views", "FOLDER"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert [command for command in commands(name) if not understood(command)] == []


def test_there_are_commands_of_every_program():
    found = "\n".join(command for name in PAGES for command in commands(name))
    for program in ("app.py", "model.training train", "model.training follow", "model.alignment reward", "viz.lessons"):
        assert program in found


# --- links ---


def anchor(heading: str) -> str:
    """Return the anchor that a heading has on the page."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("name", PAGES)
def test_the_links_of_a_page_lead_to_files_and_headings(name):
    folder = ROOT if (ROOT / name).exists() else ROOT / "docs"
    for target in re.findall(r"\]\(([^)\s]+)\)", PAGES[name]):
        if target.startswith("http"):
            continue
        path, _, heading = target.partition("#")
        file = folder / path if path else folder / name
        assert file.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in map(anchor, headings), target


# --- lists ---


def test_every_metric_is_defined():
    """The page says that its table has all of model/tracing/head_metrics.py."""
    table = PAGES["numbers.md"].partition("| metric | definition |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = {line.split("|")[1].strip() for line in table.splitlines()}
    assert rows == {words("en")[f"metric.{key}"] for key in HEAD_METRICS}


@pytest.mark.parametrize(
    "entries",
    [MEASURES, EDITS, TARGETS, SWAPS, RULES, METHODS, STRATEGIES, WARPS, rewards.RULES],
    ids=["measures", "edits", "targets", "swaps", "rules", "methods", "strategies", "warps", "rewards"],
)
def test_every_entry_of_a_registry_is_named(entries):
    assert [name for name in entries if f"`{name}`" not in PAGES["numbers.md"]] == []


def test_every_method_of_a_trace_is_named():
    public = [name for name in vars(Trace) if not name.startswith("_")]
    missing = [name for name in public if not re.search(rf"run\.{name}\b", PAGES["api.md"])]
    assert missing == ["config", "nbytes", "sites"]


def test_every_tab_is_described():
    for tab in TABS:
        assert f"| **{words('en')[f'tab.{tab.key}']}** |" in PAGES["guide.md"]


def test_the_table_of_families_is_that_of_the_code():
    assert models_page.page(PAGES["models.md"]) == PAGES["models.md"], "run python -m tests.models_page"


# --- docstrings ---


def public(module) -> list:
    """The functions of a module that others call, and those of its classes."""
    found = []
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", "") != module.__name__:
            continue
        if inspect.isclass(thing):
            found += [
                member for key, member in vars(thing).items() if inspect.isfunction(member) and not key.startswith("_")
            ]
        elif inspect.isfunction(thing):
            found.append(thing)
    return found


@pytest.mark.parametrize("module", [api, trace, notebook, registry], ids=lambda module: module.__name__)
def test_public_functions_are_typed_and_documented(module):
    assert public(module)
    for function in public(module):
        signature = inspect.signature(function)
        untyped = [
            name
            for name, parameter in signature.parameters.items()
            if name not in ("self", "cls") and parameter.annotation is inspect.Parameter.empty
        ]
        assert not untyped, f"{function.__qualname__}: {untyped}"
        assert signature.return_annotation is not inspect.Signature.empty, function.__qualname__
        assert inspect.getdoc(function), function.__qualname__
