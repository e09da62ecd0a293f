"""The bundled model on random tokens, where blocks amplify rounding most: sound it agrees, broken it does not."""

import numpy as np
import pytest
import torch

from model.api import load_model
from model.checks.registry import run_checks
from model.checks.result import subject_of
from model.gpt import passes

KEYS = ("no_edit", "explicit", "float64", "cached")


def subject(seed: int, text: bool):
    """300 to 500 random ids, or the text of 330, which is tokenized again: as typed in."""
    lm, rng = load_model("tinygpt", offline=True), np.random.default_rng(seed)
    prompt = rng.integers(0, 8000, 330 if text else int(rng.choice([300, 400, 500]))).tolist()
    prompt = lm.decode(prompt).replace("\ufffd", "") if text else prompt
    return subject_of(lm, lm.trace(prompt), prompt if text else None)


@pytest.mark.parametrize(("seed", "text"), [(1001, False), (5017, True)])
def test_a_sound_model_agrees_on_random_tokens(seed, text):
    """Prompts on which a bound from the numbers' size alone is exceeded up to three times."""
    for key, found in run_checks(subject(seed, text), KEYS).items():
        assert found.state == "agrees" and found.difference <= found.bound, key


def test_a_broken_one_does_not(monkeypatch):
    """One part in a thousand of the scores, and of one matrix, is far beyond what rounding explains there."""
    sound = subject(1001, False)
    whole = passes.attention_pattern
    monkeypatch.setattr(passes, "attention_pattern", lambda scores: whole(1.001 * scores))
    assert run_checks(sound, ["explicit"])["explicit"].state == "differs"
    monkeypatch.undo()
    assert sound.run.logits is not None
    with torch.no_grad():
        sound.lm.model.blocks[1].mlp.down.weight *= 1.001
    assert {found.state for found in run_checks(sound, ["float64", "no_edit"]).values()} == {"differs"}
