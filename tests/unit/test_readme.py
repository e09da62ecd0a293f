"""The README is true: its commands are the ones that are run, and it tells of every metric, option and method."""

import dataclasses
import re
import shlex
from pathlib import Path

from model.heads import HEAD_METRICS
from model.trace import Trace
from model.trainer import Recipe
from viz.words import words

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```bash\n(.*?)\n```", README, re.DOTALL)


def test_two_commands_on_the_first_screen():
    assert COMMANDS == [
        "pip install -r requirements.txt && python app.py",
        "pip install -r requirements-dev.txt && python -m pytest",
    ]
    assert README.index(COMMANDS[1]) < 1200


def test_ci_runs_exactly_the_test_command():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8").replace("pip install -q", "pip install")
    assert COMMANDS[1] in script


def test_training_commands_are_understood():
    from model.training import parser

    block = re.search(r"```sh\n(.*?)\n```", README, re.DOTALL)[1].replace("\\\n", " ")
    lines = [shlex.split(line)[3:] for line in block.splitlines() if "model.training" in line]
    assert [parser().parse_args(line).command for line in lines] == ["train", "prepare", "train", "evaluate"]
    recipe = {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(Recipe)}
    assert recipe >= {"--accumulate", "--compile", "--schedule", "--precision"}


def test_every_metric_is_defined():
    for key in HEAD_METRICS:
        assert f"| {words('en')[f'metric.{key}']} |" in README, key


def test_every_method_of_a_trace_is_named():
    public = [name for name in vars(Trace) if not name.startswith("_")]
    missing = [name for name in public if not re.search(rf"run\.{name}\b", README)]
    assert missing == ["config", "nbytes", "sites"]


def test_picture_is_there_and_small():
    assert 10_000 < (ROOT / "docs/page.png").stat().st_size < 300_000
