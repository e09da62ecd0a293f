"""The README is true: its commands are the ones that are run, what it names is there, and no count grows old."""

import dataclasses
import re
import shlex
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from model.activations.norm_swap import SWAPS
from model.activations.residual_statistics import RULES
from model.attention.effects import TARGETS
from model.attention.measures import MEASURES
from model.generation.strategies import METHODS, STRATEGIES
from model.gpt.edits import EDITS
from model.sampling.warps import WARPS
from model.tracing.head_metrics import HEAD_METRICS
from model.tracing.trace import Trace
from model.training.loop import Recipe
from tests.support.screenshots import PICTURES
from viz.views.tabs import TABS
from viz.words import words

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```bash\n(.*?)\n```", README, re.DOTALL)


def test_two_commands_on_the_first_screen():
    assert COMMANDS == [
        "pip install -r requirements.txt && python app.py",
        "pip install -r requirements-dev.txt && python -m pytest",
    ]
    assert README.index(COMMANDS[1]) < 1500


def test_a_space_would_start_this_version_of_the_app():
    front = yaml.safe_load(README.split("---\n")[1])
    asked = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    (needed,) = [each for each in map(Requirement, asked.split()) if each.name == "gradio"]
    assert front["sdk_version"] in needed.specifier
    assert (front["sdk"], front["license"]) == ("gradio", "apache-2.0")
    assert (ROOT / front["app_file"]).exists() and len(front["short_description"]) <= 60
    assert {front["colorFrom"], front["colorTo"]} <= {
        "red",
        "yellow",
        "green",
        "blue",
        "indigo",
        "purple",
        "pink",
        "gray",
    }


def test_the_pictures_are_made_by_the_script():
    shown = {Path(name).stem for name in re.findall(r"\]\((docs/\w+\.png)\)", README)}
    assert shown == set(PICTURES) == {path.stem for path in (ROOT / "docs").glob("*.png")}
    assert sum(path.stat().st_size for path in (ROOT / "docs").glob("*.png")) < 300_000


def test_ci_runs_exactly_the_test_command():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8").replace("pip install -q", "pip install")
    assert COMMANDS[1] in script


def test_training_commands_are_understood():
    from model.training_cli import parser

    block = re.search(r"```sh\n(.*?)\n```", README, re.DOTALL)[1].replace("\\\n", " ")
    lines = [shlex.split(line)[3:] for line in block.splitlines() if "model.training" in line]
    assert [parser().parse_args(line).command for line in lines] == ["train", "prepare", "train", "evaluate"]
    recipe = {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(Recipe)}
    assert recipe >= {"--accumulate", "--compile", "--schedule", "--precision"}


def test_all_metrics_are_defined():
    """The README says that its table has all of model/tracing/head_metrics.py."""
    table = README.partition("| metric | definition |\n|---|---|\n")[2].partition("\n\n")[0]
    named = {line.split("|")[1].strip() for line in table.splitlines()}
    assert "These are all of" in README and named == {words("en")[f"metric.{key}"] for key in HEAD_METRICS}


def test_the_warps_that_are_named_are_there():
    """Some of them: model/sampling/warps.py has all, and the page explains each."""
    named = set(re.findall(r"`(\w+)`", README.partition("\nWarps: ")[2].partition(";")[0]))
    assert len(named) > 8 and named <= set(WARPS)


def test_every_method_of_a_trace_is_named():
    public = [name for name in vars(Trace) if not name.startswith("_")]
    missing = [name for name in public if not re.search(rf"run\.{name}\b", README)]
    assert missing == ["config", "nbytes", "sites"]


@pytest.mark.parametrize(
    "registry",
    [MEASURES, EDITS, TARGETS, SWAPS, RULES, METHODS, STRATEGIES],
    ids=["measures", "edits", "targets", "swaps", "rules", "methods", "strategies"],
)
def test_every_entry_of_a_registry_is_named(registry):
    assert not [name for name in registry if f"`{name}`" not in README]


def test_every_kind_of_edit_is_in_the_api_page():
    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    assert [kind for kind in EDITS if f"`{kind}`" not in text] == []


def test_every_tab_is_told_of():
    for tab in TABS:
        assert f"| **{words('en')[f'tab.{tab.key}']}** |" in README


@pytest.mark.long
def test_the_lines_of_python_run():
    """All blocks, one after the other, as a reader would paste them; the tap's block needs ids."""
    found: dict = {}
    for block in re.findall(r"```python\n(.*?)\n```", README, re.DOTALL):
        exec(block.replace("lm.model(ids,", "lm.model(__import__('torch').tensor(run.tokens.ids)[None],"), found)
    assert found["edited"].key.edits and found["run"].key.edits == ()


def test_picture_is_there_and_small():
    assert 10_000 < (ROOT / "docs/page.png").stat().st_size < 300_000
