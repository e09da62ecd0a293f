"""The reward model: loss and gradient by hand and by finite differences, parity, training, folder, words changed."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.alignment import reward_folder, reward_model
from model.alignment.preferences import Pair, split
from model.alignment.reward_folder import about_reward, fingerprint, load_reward, save_reward
from model.alignment.reward_model import (
    RewardModel,
    RewardRecipe,
    _deviations,
    accuracy,
    calibration,
    copied,
    last_states,
    pair_loss,
    train,
)
from model.alignment.reward_reading import change_words, extremes
from model.errors import CheckpointError, InputError

TEXTS = [[3, 1, 4], [1, 5, 9, 2, 6, 5, 3, 5, 8], [9], [7, 9, 3, 2]]


def head(lm, seed: int = 0) -> RewardModel:
    weight = torch.randn(lm.config.d_model, generator=torch.Generator().manual_seed(seed))
    return RewardModel(lm.model, weight, torch.tensor(0.5))


def test_the_loss_is_that_worked_by_hand():
    assert float(pair_loss(torch.zeros(3), torch.zeros(3))) == pytest.approx(math.log(2))
    loss = pair_loss(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0]))
    assert float(loss) == pytest.approx((math.log(1 + math.exp(-1)) + math.log(1 + math.exp(2))) / 2)
    assert float(pair_loss(torch.tensor([0.0]), torch.tensor([1e4]))) == 1e4  # no overflow


@settings(deadline=None)  # the first call of autograd takes seconds
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=6), st.floats(-5, 5))
def test_the_gradient_is_that_of_finite_differences_and_a_bias_does_not_matter(values, bias):
    chosen = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    rejected = torch.tensor(values[::-1], dtype=torch.float64)
    loss = pair_loss(chosen, rejected)
    assert torch.autograd.gradcheck(lambda x: pair_loss(x, rejected), (chosen,))
    assert float(pair_loss(chosen + bias, rejected + bias).detach()) == pytest.approx(float(loss.detach()))
    loss.backward()
    by_hand = -torch.sigmoid(rejected - chosen.detach()) / len(values)  # d/dm -log sigma(m) = -sigma(-m)
    torch.testing.assert_close(chosen.grad, by_hand)


def test_the_gradient_through_the_body_is_that_of_finite_differences(lm):
    model = copied(lm.model).double()
    weight = head(lm).weight.double()

    def loss() -> torch.Tensor:
        ends = [model.normed(model.trunk(torch.tensor([ids])))[0, -1] @ weight for ids in TEXTS[:2]]
        return pair_loss(ends[0][None], ends[1][None])

    parameter = model.blocks[0].mlp.up.weight.requires_grad_(True)
    loss().backward()
    for at in ((0, 0), (5, 3)):
        with torch.no_grad():
            parameter[at] += 1e-5
            above = float(loss())
            parameter[at] -= 2e-5
            below = float(loss())
            parameter[at] += 1e-5
        assert float(parameter.grad[at]) == pytest.approx((above - below) / 2e-5, rel=1e-4, abs=1e-9)


def test_texts_of_any_length_are_read_to_their_last_token(lm):
    reward = head(lm)
    scores = reward.score_ids(TEXTS)
    for ids, score in zip(TEXTS, scores, strict=True):
        alone = reward.along(ids)
        assert alone.shape == (len(ids),)
        assert float(score) == pytest.approx(float(alone[-1]), abs=1e-4)
        assert float(alone[0]) == pytest.approx(float(reward.along(ids[:1])[0]), abs=1e-4)


@pytest.mark.parametrize("texts", [[[]], [[1], [10**9]], [[1] * 100_000]])
def test_texts_that_cannot_be_read_are_refused(lm, texts):
    with pytest.raises(InputError):
        head(lm).score_ids(texts)


PAIRS = tuple(Pair(f"{n % 4}:", f"{n} yes!", f"{n} no") for n in range(24))  # the chosen text ends with "!"


@pytest.mark.parametrize("body", [False, True])
def test_a_reward_model_learns_what_the_pairs_say(lm, body):
    before = fingerprint(lm.model)
    steps = []
    recipe = RewardRecipe(body=body, steps=12, batch=6, learning_rate=2e-3 if body else 0.05)
    found = train(lm, split(PAIRS), recipe, lambda done, total, what: steps.append((done, total)))
    assert found.looks[0].loss == pytest.approx(math.log(2)) and found.looks[0].accuracy == 0.5
    assert found.looks[-1].held_out_accuracy == 1 and found.looks[-1].held_out_loss < 0.5
    assert accuracy(found.margins) == 1 and len(found.margins) == 6
    assert found.looks[-1].held_out_loss == pytest.approx(np.log1p(np.exp(-found.margins)).mean(), abs=1e-4)
    assert steps[-1] == (12, 12) and steps == sorted(steps)
    assert fingerprint(lm.model) == before and all(each.grad is None for each in lm.model.parameters())
    texts = [
        lm.encode(pair.prompt + text).ids.tolist()
        for pair in split(PAIRS).train
        for text in (pair.chosen, pair.rejected)
    ]
    assert float(found.reward.score_ids(texts).mean()) == pytest.approx(0, abs=1e-3)  # Ouyang et al. 2022, 3.5
    again = train(lm, split(PAIRS), recipe)
    assert again.looks == found.looks


@pytest.mark.parametrize("body", [False, True])
def test_a_loss_that_is_no_number_ends_with_a_sentence(lm, body):
    model = copied(lm.model)
    with torch.no_grad():
        model.blocks[1].mlp.up.weight[0, 0] = math.nan
    with pytest.raises(CheckpointError, match="diverged"):
        train(dataclasses.replace(lm, model=model), split(PAIRS), RewardRecipe(body=body, steps=2))


def test_a_last_step_that_leads_astray_ends_with_the_same_sentence(lm, monkeypatch):
    margins = np.array([0.5, math.nan], np.float32)
    monkeypatch.setattr(reward_model, "_fit_head", lambda *_: (head(lm), (), margins))
    with pytest.raises(CheckpointError, match="diverged"):
        train(lm, split(PAIRS), RewardRecipe(steps=2))


def test_pairs_beyond_the_context_are_dropped_and_counted(lm):
    long = "a" * lm.config.n_ctx
    pairs = (*PAIRS, Pair("0:", long, "b"))
    assert train(lm, split(pairs), RewardRecipe(steps=2)).dropped == 1
    with pytest.raises(InputError):
        train(lm, split((Pair("a", long, "b"), Pair("b", long, "c"))), RewardRecipe(steps=2))


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"batch": 0}, {"learning_rate": math.nan}, {"weight_decay": -1}, {"held_out": 1}]
)
def test_a_setting_out_of_range_is_refused(wrong):
    with pytest.raises(InputError):
        RewardRecipe(**wrong)


def test_calibration_by_hand():
    logit = lambda p: math.log(p / (1 - p))  # noqa: E731
    found = calibration(np.array([logit(0.55), -logit(0.55), logit(0.95), logit(0.97), 0.0]))
    assert found.edges.tolist() == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    assert found.counts.tolist() == [3, 0, 0, 0, 2]
    assert found.predicted[[0, 4]].tolist() == pytest.approx([(0.55 + 0.55 + 0.5) / 3, 0.96])
    assert found.agreed[[0, 4]].tolist() == [0.5, 1.0] and np.isnan(found.agreed[1:4]).all()
    assert accuracy(np.array([1.0, -1, 0, 2])) == 0.625 and math.isnan(accuracy(np.array([])))


@given(st.lists(st.floats(-1e3, 1e3), max_size=30))
def test_calibration_counts_every_pair(margins):
    found = calibration(np.array(margins, np.float32))
    assert found.counts.sum() == len(margins)
    full = found.counts > 0
    assert ((found.predicted[full] >= 0.5) & (found.predicted[full] <= 1)).all()


# --- the folder --------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [False, True])
def test_a_folder_gives_the_same_rewards(lm, tmp_path, body):
    model = copied(lm.model)
    with torch.no_grad():
        model.blocks[0].mlp.up.weight += 0.1 if body else 0
    reward = dataclasses.replace(head(lm), model=model)
    save_reward(tmp_path, reward, name="my \x00 rule", base=lm.id, body=body, weights=fingerprint(lm.model))
    torch.testing.assert_close(load_reward(tmp_path, lm.model).score_ids(TEXTS), reward.score_ids(TEXTS))
    assert about_reward(tmp_path).name == "my \\x00 rule" and about_reward(tmp_path).body is body


def test_a_head_does_not_load_on_another_model(lm, tmp_path):
    save_reward(tmp_path, head(lm), name="r", base="other", body=False, weights=fingerprint(lm.model))
    model = copied(lm.model)
    with torch.no_grad():
        model.embed.weight[0, 0] += 1
    with pytest.raises(CheckpointError, match="other"):
        load_reward(tmp_path, model)


@pytest.mark.parametrize(
    "file, content",
    [
        (reward_folder.CONFIG, "{}"),
        (reward_folder.CONFIG, "nonsense"),
        (reward_folder.CONFIG, None),
        (reward_folder.HEAD, "nonsense"),
        (reward_folder.HEAD, None),
    ],
)
def test_a_broken_folder_is_refused(lm, tmp_path, file, content):
    save_reward(tmp_path, head(lm), name="r", base="b", body=False, weights=fingerprint(lm.model))
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_text(content)
    with pytest.raises(CheckpointError):
        load_reward(tmp_path, lm.model)


@pytest.mark.parametrize("change", [{"kind": "model"}, {"d_model": 7}, {"d_model": True}, {"more": 1}, {"body": 1}])
def test_a_config_that_does_not_fit_is_refused(lm, tmp_path, change):
    save_reward(tmp_path, head(lm), name="r", base="b", body=False, weights=fingerprint(lm.model))
    values = json.loads((tmp_path / reward_folder.CONFIG).read_text()) | change
    (tmp_path / reward_folder.CONFIG).write_text(json.dumps(values))
    with pytest.raises(CheckpointError):
        load_reward(tmp_path, lm.model)


def test_a_head_that_is_not_finite_is_refused(lm, tmp_path):
    broken = dataclasses.replace(head(lm), bias=torch.tensor(math.nan))
    save_reward(tmp_path, broken, name="r", base="b", body=False, weights=fingerprint(lm.model))
    with pytest.raises(CheckpointError):
        load_reward(tmp_path, lm.model)


# --- what it has learned -----------------------------------------------------------------------------


def test_words_are_left_out_and_replaced_one_at_a_time(lm):
    reward, encode = head(lm), lambda text: lm.encode(text).ids.tolist()
    found = change_words(reward, encode, "a bb, c", "x")
    texts = ["a bb, c", "bb, c", "a, c", "a bb,", "x bb, c", "a x, c", "a bb, x"]
    expected = reward.score_ids([encode(each) for each in texts]).numpy()
    assert found.words == ("a", "bb", "c") and found.starts == (0, 2, 6)
    assert found.reward == pytest.approx(expected[0], abs=1e-4)
    np.testing.assert_allclose(found.without, expected[1:4], atol=1e-4)
    np.testing.assert_allclose(found.instead, expected[4:], atol=1e-4)
    np.testing.assert_allclose(found.carried, expected[0] - expected[1:4], atol=1e-4)
    alone = change_words(reward, lambda text: lm.encode(text).ids, "a")  # a space stands for no text
    assert np.isnan(alone.instead).all()
    assert alone.without[0] == pytest.approx(float(reward.score_ids([encode(" ")])[0]), abs=1e-4)


def test_a_text_without_words_is_refused(lm):
    with pytest.raises(InputError):
        change_words(head(lm), lambda text: [1], " ... ")


def test_extremes():
    best, worst = extremes(np.array([1.0, 5, -2, 5]), 2)
    assert best.tolist() == [3, 1] and worst.tolist() == [2, 0]
    with pytest.raises(InputError):
        extremes(np.zeros(3), 0)


def test_states_are_computed_in_batches_that_tell_their_progress(lm):
    told = []
    assert last_states(lm.model, TEXTS, lambda done, total, what: told.append((done, total))).shape[0] == 4
    assert told[-1] == (4, 4)


def test_a_direction_that_varies_by_rounding_alone_learns_nothing():
    """States near 11,000 that are alike to the last place have no deviation to be scaled by."""
    states = torch.full((6, 3), 11_000.1)
    states[::2, 0] = torch.nextafter(states[::2, 0], torch.tensor(math.inf))
    states[::2, 1] += 0.5
    states[:, 2] = 0
    assert _deviations(states).tolist() == [math.inf, pytest.approx(0.25, rel=1e-2), math.inf]
