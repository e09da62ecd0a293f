"""The four prompts of every stage: their answers, the distance from the reference, and what is forgotten."""

import math

import numpy as np
import pytest
import torch

from model.alignment.example_sets import questions
from model.alignment.four_prompts import (
    CHOICES,
    PER_PROMPT,
    PROMPTS,
    QUESTIONS,
    Story,
    answer_four,
    best_four,
    choose_four,
    texts_of,
    write_four,
)
from model.alignment.reinforcement.learner import trainable
from model.api import load_resolved
from tests.support.models.small_models import save_tiny


@pytest.fixture(scope="module")
def lm(shortened, tmp_path_factory):
    return load_resolved(save_tiny(tmp_path_factory.mktemp("base"), n_layer=2, d_model=32, n_ctx=96))


@pytest.fixture(scope="module")
def shortened():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("model.alignment.four_prompts.STORY_TOKENS", 128)
        patch.setattr("model.alignment.four_prompts.NEW_TOKENS", 8)
        yield


@pytest.fixture(scope="module")
def moved(lm):
    """The model after training that went wrong: noise on its weights."""
    copy, noise = trainable(lm.model), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for each in copy.parameters():
            each += 0.3 * torch.randn(each.shape, generator=noise)
    return copy


def test_the_questions_are_not_among_the_examples():
    assert not set(QUESTIONS) & set(questions()) and not {each.input for each in QUESTIONS} & {
        each.input for each in questions()
    }


def test_the_reference_is_at_no_distance_and_answers_the_same_again(lm):
    story = Story.of(lm.tokenizer)
    found, again = (answer_four(lm.model, lm.model, lm.tokenizer, story) for _ in "ab")
    assert found == again and len(found.texts) == len(PROMPTS)
    assert found.kl == pytest.approx(0, abs=1e-6)


def test_the_distance_is_that_of_the_models_own_texts(lm, moved):
    """Against plain forwards of every text, token by token."""
    found = answer_four(moved, lm.model, lm.tokenizer, Story.of(lm.tokenizer))
    rollouts = write_four(moved, lm.tokenizer, PER_PROMPT)
    terms = []
    for ids, start in zip(rollouts.texts(), rollouts.starts.tolist(), strict=True):
        with torch.no_grad():
            log_p, log_q = (each(torch.tensor([ids]))[0].log_softmax(-1) for each in (moved, lm.model))
        kl = (log_p.exp() * (log_p - log_q)).sum(-1)
        terms += kl[start - 1 : len(ids) - 1].tolist()
    assert found.kl == pytest.approx(np.mean(terms), rel=1e-4) and found.kl > 0.01


def test_what_is_forgotten_is_the_loss_on_the_story(lm, moved):
    story = Story.of(lm.tokenizer)
    ids = torch.from_numpy(story.ids)
    for model in (lm.model, moved):
        nats, bytes_ = 0.0, 0
        for start in range(0, len(ids) - 1, 96):
            window = ids[start : start + 97]
            with torch.no_grad():
                logits = model(window[None, :-1])[0]
            nats += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
            bytes_ += int(story.sizes[window[1:].numpy()].sum())
        assert story.bits(model) == pytest.approx(nats / math.log(2) / bytes_, rel=1e-4)


def test_a_model_that_is_no_longer_finite_has_no_numbers(lm):
    broken = trainable(lm.model)
    with torch.no_grad():
        next(broken.parameters()).fill_(math.nan)
    found = answer_four(broken, lm.model, lm.tokenizer, Story.of(lm.tokenizer))
    assert found.texts == ("",) * 4 and math.isnan(found.kl) and math.isnan(found.story_bits)


def test_the_best_of_several_texts_is_chosen(lm):
    def longest(texts):
        return [float(sum(ids)) for ids in texts]

    found = best_four(lm.model, lm.tokenizer, longest)
    scores = np.array(longest(write_four(lm.model, lm.tokenizer, CHOICES).texts())).reshape(4, CHOICES)
    assert found.chosen_scores == tuple(scores.max(1)) and found.other_scores == tuple(scores[:, 0])
    assert found.kl == pytest.approx(math.log(8) - 7 / 8)


def test_the_first_pair_that_a_rule_can_tell_apart_is_shown(lm):
    texts = texts_of(write_four(lm.model, lm.tokenizer, CHOICES), lm.tokenizer)
    values = [0, 0, 1, 2, 9, 8, 0, 0] + [0] * 8 + [3, 1] + [0] * 6 + [5] * 8
    found = choose_four(lm.model, lm.tokenizer, lambda given: values if given == texts else [])
    assert found.chosen_scores == (2, 0, 3, 5) and found.other_scores == (1, 0, 1, 5)
    assert found.chosen[0] == texts[3] and found.other[0] == texts[2] and found.chosen[2] == texts[16]
    assert found.kl == pytest.approx(math.log(2) - 1 / 2)
