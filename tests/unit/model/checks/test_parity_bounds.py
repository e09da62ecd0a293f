"""Patterns agree with the library's where only rounding is between them, and differ where anything else is."""

import numpy as np
import pytest
import torch

from model.api import load_model
from model.checks.registry import run_checks
from model.checks.result import subject_of
from model.gpt import passes
from model.gpt.mixers import projection
from tests.support.models.checked import made

KEYS = ("parity_patterns", "parity_hidden", "parity_logits")


def found(subject, keys=("parity_patterns",)):
    """The state of each check."""
    return {each.state for each in run_checks(subject, keys).values()}


def test_two_tokens_whose_scores_one_draw_moved_by_too_little():
    """Layer 4, head 0 differs from the library's by 1.52e-6, of float32's rounding alone."""
    lm = load_model("tinygpt", offline=True)
    assert found(subject_of(lm, lm.trace([2646, 6332])), KEYS) == {"agrees"}


@pytest.mark.long
@pytest.mark.parametrize(("name", "prompts"), [("tinygpt", 12), ("smollm2-135m", 5)])
def test_random_prompts_raise_no_alarm(name, prompts):
    lm, draw = load_model(name, offline=True), np.random.default_rng(0)
    for _ in range(prompts):
        ids = draw.integers(0, lm.model.config.vocab_size, int(draw.integers(1, 65))).tolist()
        assert found(subject_of(lm, lm.trace(ids)), KEYS) == {"agrees"}, ids


def _masked(scores):
    """The last query also loses its first key."""
    scores = scores.clone()
    scores[..., -1, 0] = -torch.inf
    return scores.softmax(-1)


def _swapped(scores):
    """Heads 0 and 1 in each other's place."""
    return scores.softmax(-1)[:, [1, 0, *range(2, scores.shape[1])]]


MISTAKES = {
    "a scale off by one in a thousand": lambda scores: (1.001 * scores).softmax(-1),
    "a key hidden": _masked,
    "two heads swapped": _swapped,
    "a weight off by 1e-5": lambda scores: scores.softmax(-1) * (1 + 1e-5),
}


@pytest.mark.parametrize("variant", ["gpt2", "llama"])
@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("prompt", ["ab", "abcabd ab"])
def test_small_mistakes_are_found(mistake, variant, prompt, tokenizer, monkeypatch):
    subject = made(tokenizer, variant, prompt)
    assert found(subject) == {"agrees"}
    subject.memo.clear()
    monkeypatch.setattr(passes, "attention_pattern", MISTAKES[mistake])
    assert found(subject) == {"differs"}


def test_an_angle_off_by_one_in_a_thousand_is_found(tokenizer, monkeypatch):
    """Of every key, not of the queries: their difference is what counts."""
    subject, turn, calls = made(tokenizer, "llama"), projection.rotate, []

    def rotate(x, cos, sin, pairs):
        calls.append(1)
        angle = torch.atan2(sin, cos) * (1 if len(calls) % 2 else 1.001)
        return turn(x, angle.cos(), angle.sin(), pairs)

    assert found(subject) == {"agrees"}
    subject.memo.clear()
    monkeypatch.setattr(projection, "rotate", rotate)
    assert found(subject) == {"differs"}
