"""The bug zoo: each bug is where its line says, everything else is the same, and verdicts follow from the losses."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.gpt.transformer import Transformer
from model.text.held_out import bundled_text
from model.training import bug_zoo
from model.training.bug_zoo import BUGS, WARMUP, Specimen, ZooTrial, learn, real_words, train_zoo, verdict
from tests.support.models.helpers import assert_close, randn, shake

T, E = 7, 6
Q, K, V = (randn(2, 3, T, E, seed=seed) for seed in range(3))


def attended(bug: str, q=Q, k=K, v=V):
    return bug_zoo.attention_with(bug)(0, q, k, v)


def test_without_a_bug_it_is_the_attention_of_the_model():
    assert_close(attended("correct"), F.scaled_dot_product_attention(Q, K, V, is_causal=True), 1e-5)
    config = bug_zoo.config_with("correct", 20)
    model = Transformer(config)
    shake(model, torch.Generator().manual_seed(1))
    ids = torch.arange(10)[None] % 20
    with torch.no_grad():
        own = model.logits(model.trunk(ids, attend=bug_zoo.attention_with("correct")))
        assert_close(own, model(ids), 1e-4)


@pytest.mark.parametrize("bug", BUGS)
def test_only_bugs_of_the_mask_see_the_future(bug):
    later = V.clone()
    later[:, :, -1] += 10  # the last value changes what the first queries read only without a mask
    leaks = (attended(bug, v=later) - attended(bug))[:, :, :-1].abs().max() > 1e-3
    assert leaks == (bug in ("no_mask", "mask_01"))


def test_each_bug_of_the_attention_is_the_formula_of_its_line():
    assert_close(attended("no_mask"), (Q @ K.mT / math.sqrt(E)).softmax(-1) @ V, 1e-5)
    assert_close(attended("mask_01"), (Q @ K.mT / math.sqrt(E) + torch.ones(T, T).tril()).softmax(-1) @ V, 1e-5)
    assert_close(attended("no_scale"), F.scaled_dot_product_attention(Q * math.sqrt(E), K, V, is_causal=True), 1e-5)


def test_the_other_bugs_are_in_the_targets_the_config_and_the_learning_rate():
    ids, following = torch.zeros(1, 3), torch.ones(1, 3)
    trial, shapes = ZooTrial(), {}
    for bug in BUGS:
        assert bug_zoo.targets_with(bug, ids, following) is (ids if bug == "no_shift" else following)
        config = bug_zoo.config_with(bug, 20)
        shapes[bug] = (config.positions, config.norm_placement)
        first = bug_zoo.rate_with(bug, trial, 0) / trial.rate
        assert first == pytest.approx({"post_cold": 1, "rate": 10 / WARMUP}.get(bug, 1 / WARMUP))
        assert bug_zoo.rate_with(bug, trial, trial.steps) == pytest.approx(0, abs=1e-9)
    changed = {bug: shape for bug, shape in shapes.items() if shape != shapes["correct"]}
    assert changed == {"no_positions": ("none", "pre"), "post_cold": ("learned", "post")}


def test_the_true_loss_has_a_mask_and_a_shift_whatever_the_bug():
    model = Transformer(bug_zoo.config_with("correct", bug_zoo.book().tokenizer.vocab_size))
    losses = {bug: bug_zoo.true_loss(model, bug) for bug in ("correct", "no_mask", "mask_01", "no_shift", "rate")}
    assert len(set(losses.values())) == 1
    (rows,) = bug_zoo.book().held_out.values()
    batch = next(rows(bug_zoo.HELD_OUT, bug_zoo.LENGTH))
    with torch.no_grad():
        logits = model(torch.from_numpy(batch.ids)).flatten(0, 1)
    assert losses["correct"] == pytest.approx(
        F.cross_entropy(logits, torch.from_numpy(batch.targets).flatten()).item(), abs=1e-5
    )


def test_a_training_run_has_its_numbers_and_can_be_repeated():
    trial, told = ZooTrial(steps=3), []
    run = learn(trial, "no_shift", told.append)
    assert told == [1, 2, 3] and len(run.losses) == 3 and run.steps.tolist() == [0, 1, 2, 3]
    assert run.text.startswith(bug_zoo.START) and len(run.text) == len(bug_zoo.START) + bug_zoo.WRITTEN
    again = learn(trial, "no_shift")
    assert np.array_equal(run.losses, again.losses) and run.text == again.text
    other = learn(trial, "correct")
    assert run.held_out[0] == other.held_out[0] and run.losses[0] < other.losses[0]  # the same weights at the start
    found = train_zoo(ZooTrial(steps=1))
    assert [each.bug for each in found.runs] == list(BUGS) and found.guess > 3


def test_words_are_counted_after_the_prompt():
    assert real_words("She little zzzqq") == 0.5 and math.isnan(real_words("She a b"))


def test_verdicts_follow_from_the_losses():
    correct = Specimen("correct", np.full(30, 2.0), np.array([0, 30]), np.array([4.0, 2.1]), "", 0.5)

    def of(reported: float, true: float) -> str:
        changed = dataclasses.replace(correct, losses=np.full(30, reported), held_out=np.array([4.0, true]))
        return verdict(changed, correct)

    assert of(0.1, 6.0) == "illusion" and of(2.0, 6.0) == "harmful" and of(2.0, 2.2) == "slight"
    assert of(2.0, 2.12) == "harmless" and of(1.9, 2.0) == "better" and of(2.0, math.nan) == "diverged"
    assert of(0.1, 2.12) == "harmless"  # a low loss that holds is no illusion


def counted_loss(history: int) -> float:
    """The loss of counts on the chapter's last tenth: of characters alone, or of each after `history` others."""
    text = bundled_text()
    cut, V = len(text) * 9 // 10, len(set(text))
    pieces = [text[at - history : at + 1] for at in range(history, len(text))]
    counts, before = Counter(pieces[:cut]), Counter(piece[:-1] for piece in pieces[:cut])
    return -float(np.mean([math.log((counts[p] + 0.1) / (before[p[:-1]] + 0.1 * V)) for p in pieces[cut:]]))


@pytest.mark.long
def test_three_bugs_show_the_signs_that_they_are_known_by():
    """Without a shift the model copies; without a mask its loss is no loss of its own; too fast, it only counts."""
    correct = learn(ZooTrial(240), "correct")
    assert correct.true < counted_loss(1) and abs(correct.reported - correct.true) < 0.3  # it reads more than one back
    copying = learn(ZooTrial(80), "no_shift")
    assert copying.reported < 0.1 and copying.text == bug_zoo.START + bug_zoo.START[-1] * bug_zoo.WRITTEN
    assert copying.true > math.log(bug_zoo.book().tokenizer.vocab_size)  # worse than a guess
    seeing = learn(ZooTrial(320), "no_mask")
    assert seeing.reported < seeing.true - 1 and seeing.true > correct.true + 0.3
    fast = learn(ZooTrial(240), "rate")
    assert counted_loss(1) + 0.2 < fast.true < counted_loss(0) + 0.2  # not even pairs of characters
