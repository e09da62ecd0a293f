"""Texts that a policy writes: the same numbers as a fresh forward, ragged rows, endings, and repetition."""

import dataclasses

import numpy as np
import pytest
import torch

from model.alignment.reinforcement.likelihoods import distributions, drawn, log_probs, score, to_rows
from model.alignment.reinforcement.rollouts import RolloutSettings, draw, sample, uniforms
from model.errors import CheckpointError, InputError
from tests.support.models.helpers import VARIANTS, V, assert_close, tiny_model

PROMPTS = [[5, 9, 2], [7], [11, 3, 8, 1, 30], [7]]
WRITING = RolloutSettings(12, frozenset({4, 17}), V)


def written(model, prompts=PROMPTS, writing=WRITING, seed=3):
    return sample(model, prompts, writing, uniforms(seed, 0, len(prompts), writing.new_tokens))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_samplers_log_probabilities_are_those_of_a_fresh_forward(variant):
    model = tiny_model(VARIANTS[variant])
    found = written(model)
    fresh = torch.zeros_like(found.log_probs)
    for row, (start, end) in enumerate(zip(found.starts.tolist(), found.ends.tolist(), strict=True)):
        with torch.no_grad():
            log_p = model(found.ids[row : row + 1, : end - 1])[0].log_softmax(-1)  # alone, without padding
        for place in range(start - 1, end - 1):
            fresh[row, place] = log_p[place, found.ids[row, place + 1]]
    assert_close(found.log_probs, fresh, 3e-5)
    with torch.no_grad():
        assert_close(log_probs(model, found, V), fresh, 3e-5)
    assert (found.log_probs < 0).sum() > 20


def test_rows_are_the_prompt_and_what_was_written():
    found = written(tiny_model())
    assert [text[: len(prompt)] for text, prompt in zip(found.texts(), PROMPTS, strict=True)] == PROMPTS
    assert found.starts.tolist() == [3, 1, 5, 1]
    assert found.lengths.tolist() == [len(answer) for answer in found.answers()]
    for row, (start, end) in enumerate(zip(found.starts, found.ends, strict=True)):
        assert found.written[row].nonzero()[:, 0].tolist() == list(range(start - 1, end - 1))
        assert (found.ids[row, end:] == WRITING.pad).all()


def test_a_text_ends_with_its_first_ending_token():
    """Over many rows some end early: none has an ending token before its last, and only those end early."""
    found = written(tiny_model(), [[7]] * 40)
    lengths = found.lengths.tolist()
    assert min(lengths) < 12 and max(lengths) == 12
    for answer in found.answers():
        assert not WRITING.ending.intersection(answer[:-1])
        assert len(answer) == 12 or answer[-1] in WRITING.ending


def test_a_row_is_the_same_beside_others_and_alone():
    model, numbers = tiny_model(), uniforms(1, 2, 4, 12)
    together = sample(model, PROMPTS, WRITING, numbers).texts()
    alone = [sample(model, [p], WRITING, numbers[i : i + 1]).texts()[0] for i, p in enumerate(PROMPTS)]
    assert together == alone


def test_the_numbers_are_a_function_of_seed_and_step():
    assert (uniforms(1, 2, 3, 4) == uniforms(1, 2, 3, 4)).all()
    assert not (uniforms(1, 2, 3, 4) == uniforms(1, 3, 3, 4)).any()
    assert not (uniforms(1, 2, 3, 4) == uniforms(2, 2, 3, 4)).any()


def test_the_share_of_a_token_is_its_probability():
    """A thousand evenly spread numbers: the counts are the probabilities, and 0 is never drawn."""
    p = torch.tensor([0.0, 0.125, 0.5, 0.0, 0.375, 0.0])
    numbers = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    counts = torch.bincount(draw(p.log().expand(1000, -1), numbers), minlength=6)
    assert counts.tolist() == [0, 125, 500, 0, 375, 0]
    edges = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    assert draw(p.log().expand(2, -1), edges).tolist() == [1, 4]


def test_tokens_beyond_the_vocabulary_are_not_drawn():
    found = written(tiny_model(), [[7]] * 30, dataclasses.replace(WRITING, size=20))
    assert max(max(answer) for answer in found.answers()) < 20


def test_a_prompt_without_room_and_an_empty_one_are_refused():
    with pytest.raises(InputError, match="leaves no room"):
        written(tiny_model(), [[1] * 29])
    with pytest.raises(InputError, match="empty"):
        written(tiny_model(), [[1], []])


def test_broken_weights_are_told():
    model = tiny_model()
    with torch.no_grad():
        model.blocks[1].mlp.up.weight[3, 3] = float("nan")
    with pytest.raises(CheckpointError, match="not finite"):
        written(model)


def test_both_models_are_scored_token_by_token():
    """Against the distributions of each whole text, one at a time; 20 texts are more than one chunk."""
    policy, reference = tiny_model(seed=1), tiny_model(seed=2)
    head = torch.nn.Linear(policy.config.d_model, 1)
    found = written(policy, [[7]] * 20)
    scored = score(policy, reference, found, V, head)
    for row in (0, 17):
        (text,), start = [found.texts()[row]], int(found.starts[row])
        ids = torch.tensor([text])
        with torch.no_grad():
            log_p, log_q = (model(ids)[0, start - 1 : -1].log_softmax(-1) for model in (policy, reference))
            values = head(policy.normed(policy.trunk(ids)))[0, start - 1 : -1, 0]
        here, own = found.written[row], ids[0, start:, None]
        assert_close(scored.log_probs[row, here], log_p.gather(1, own)[:, 0], 3e-5)
        assert_close(scored.reference[row, here], log_q.gather(1, own)[:, 0], 3e-5)
        assert_close(scored.kl[row, here], (log_p.exp() * (log_p - log_q)).sum(1), 1e-4)
        assert_close(scored.entropy[row, here], -(log_p.exp() * log_p).sum(1), 1e-4)
        assert_close(scored.values[row, here], values, 3e-5)
    for part in vars(scored).values():
        assert (part[~found.written] == 0).all()


def test_gradients_reach_the_model_through_the_rows():
    model = tiny_model().requires_grad_(True)
    found = written(model)
    log_p, states = distributions(model, found, V)
    assert log_p.shape == (int(found.lengths.sum()), V) and states.shape == (len(log_p), model.config.d_model)
    rows = to_rows(drawn(log_p, found), found.written)
    rows.sum().backward()
    assert model.embed.weight.grad.abs().sum() > 0
    assert np.count_nonzero(rows.detach().numpy()) == len(log_p)
