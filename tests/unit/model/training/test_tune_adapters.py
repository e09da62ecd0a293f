"""Fine-tuning with adapters on the command line: what is written, and a run that was interrupted."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from model import training_cli
from model.api import load_model
from tests.support.models.small_models import save_tiny

SETTINGS = ["--length", 64, "--learning-rate", 0.01, "--warmup", 0, "--schedule", "inverse_sqrt"]


@pytest.fixture(autouse=True)
def _allocator_untouched(monkeypatch):
    """What it sets would hold for every test that follows in this process."""
    monkeypatch.setattr(training_cli, "keep_freed_memory", lambda: None)


@pytest.fixture
def tuned(tmp_path):
    """Fine-tunes a tiny model into a folder of that name; -> the folder and the exit status."""
    base = save_tiny(tmp_path / "base").path
    examples = [{"instruction": f"Say {word}.", "output": word} for word in ("fox", "hen", "barn", "tree")]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, examples)))

    def tune(name: str, *more: object) -> tuple[Path, int]:
        given = ["tune", "--model", base, "--examples", tmp_path / "a.jsonl", "--batch", 2, *SETTINGS]
        return tmp_path / name, training_cli.main([*map(str, given), "--out", str(tmp_path / name), *map(str, more)])

    return tune


def test_a_merged_model_and_its_adapters_are_written(tuned, tmp_path, capsys):
    (tmp_path / "t.txt").write_text("Q {instruction}[[ on {input}]] A")
    adapters = ["--lora", 3, "--lora-alpha", 6, "--lora-matrices", "all", "--template", tmp_path / "t.txt"]
    out, status = tuned("out", *adapters, "--steps", 8, "--held-out", 0.25)
    assert status == 0
    learned = load_file(out / "adapter" / "adapter_model.safetensors")
    kept = torch.load(out / "checkpoint.pt", weights_only=True)["adapters"]
    assert f"{sum(tensor.numel() for tensor in kept.values()):,} parameters are trained" in capsys.readouterr().out
    before, after = (load_model(str(folder)).model.state_dict() for folder in (tmp_path / "base", out))
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert changed and all(name.split(".")[-2] in ("q", "k", "v", "o", "up", "down", "gate") for name in changed)
    a, b = (learned[f"base_model.model.transformer.h.0.attn.c_proj.lora_{which}.weight"] for which in "AB")
    update = after["blocks.0.attn.o.weight"] - before["blocks.0.attn.o.weight"]
    np.testing.assert_allclose(update.numpy(), 2 * (b @ a).numpy(), atol=1e-6)
    assert tuned("out", *adapters, "--steps", 8)[1] == 2  # the folder holds a run


def test_a_run_that_was_interrupted_ends_bit_by_bit_as_one_that_was_not(tuned, capsys):
    whole, status = tuned("whole", "--lora", 2, "--steps", 6)
    parts, early = tuned("parts", "--lora", 2, "--steps", 3)
    assert (status, early, tuned("parts", "--lora", 2, "--steps", 6, "--resume")[1]) == (0, 0, 0)
    once, twice = (load_file(folder / "model.safetensors") for folder in (whole, parts))
    assert all(torch.equal(once[name], tensor) for name, tensor in twice.items())
    with (parts / "log.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file) if row["loss"]] == list("123456")
    capsys.readouterr()
    assert tuned("parts", "--lora", 2, "--lora-alpha", 4, "--steps", 8, "--resume")[1] == 2
    assert "The run uses other adapters." in capsys.readouterr().err
    assert tuned("nothing", "--lora", 2, "--steps", 8, "--resume")[1] == 2
    assert "no checkpoint to continue from" in capsys.readouterr().err
    assert tuned("muon", "--lora", 2, "--steps", 8, "--optimizer", "muon")[1] == 2
    assert "Adapters can only be trained with AdamW." in capsys.readouterr().err
