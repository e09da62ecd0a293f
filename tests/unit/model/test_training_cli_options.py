"""The command line of training: every field of a recipe is an option, and the module is a program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from model import training_cli
from model.training.loop import Recipe

ROOT = Path(__file__).resolve().parents[3]


def test_every_field_of_the_recipe_is_an_option():
    more = (
        "--batch 2 --length 3 --accumulate 4 --learning-rate 0.5 --schedule trapezoid --warmup 6 --floor 0.7 "
        "--decay 0.8 --beta1 0.9 --beta2 0.25 --weight-decay 0.5 --clip 2 --seed 9 --optimizer muon "
        "--precision auto --compile"
    )
    parse = lambda text: training_cli._recipe(training_cli.parser().parse_args(text.split()))  # noqa: E731
    assert parse("train --task sort --out x --steps 1 " + more) == Recipe(
        steps=1,
        batch=2,
        length=3,
        accumulate=4,
        learning_rate=0.5,
        schedule="trapezoid",
        warmup=6,
        floor=0.7,
        decay=0.8,
        beta1=0.9,
        beta2=0.25,
        weight_decay=0.5,
        clip=2.0,
        seed=9,
        precision="auto",
        optimizer="muon",
        compile=True,
    )
    assert parse("tune --model m --examples e --out x --steps 7") == Recipe(steps=7)
    assert training_cli._shares("stories=0.7,books=0.3") == {"stories": 0.7, "books": 0.3}


@pytest.mark.long
def test_the_module_runs_as_a_program(tmp_path):
    """The help lists the commands; an error is one line and status 2. Side by side: most of it is importing torch."""
    program = [sys.executable, "-m", "model.training_cli"]
    options = {
        "cwd": ROOT,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "env": os.environ | {"OMP_NUM_THREADS": "1"},
    }
    shown = subprocess.Popen([*program, "--help"], **options)
    refused = subprocess.Popen([*program, "export", "--run", str(tmp_path), "--out", str(tmp_path / "x")], **options)
    out, _ = shown.communicate(timeout=120)
    _, error = refused.communicate(timeout=120)
    assert (shown.returncode, refused.returncode) == (0, 2)
    for name in ("prepare", "train", "tune", "evaluate", "export"):
        assert f"\n    {name} " in out.split("positional arguments:")[1]
    assert error == "There is no checkpoint to continue from. Got: checkpoint.pt. Start the run again.\n"
