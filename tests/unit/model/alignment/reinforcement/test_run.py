"""Runs on a tiny model: each method earns more, repeats bit by bit, and keeps its last good model when it diverges."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from model.alignment.four_prompts import Story
from model.alignment.lora import Lora, learned, merged
from model.alignment.reinforcement import learner as learning
from model.alignment.reinforcement.before_after import look, probe_of
from model.alignment.reinforcement.best_of_n import kl_bound
from model.alignment.reinforcement.course import DEFAULTS, METHODS, CourseSettings
from model.alignment.reinforcement.likelihoods import log_probs, score
from model.alignment.reinforcement.losses import policy_gradient_loss
from model.alignment.reinforcement.pairs import by_reward, from_texts
from model.alignment.reinforcement.run import choose_best, steps
from model.alignment.reinforcement.texts import Batch, task, write
from model.alignment.reinforcement.updates import PAIRS, dpo, minibatches, ppo
from model.errors import Astray, InputError
from model.gpt.transformer import Transformer
from tests.support.models.helpers import assert_close, byte_tokenizer, tiny_config

SMALL = {"texts": 32, "group": 8, "new_tokens": 10, "learning_rate": 1e-3, "steps": 6, "pairs": 16, "seed": 5}
VOWELS = set("aeiou")


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    """A fresh model of bytes, and a task that pays for the share of vowels."""
    tokenizer = byte_tokenizer(tmp_path_factory.mktemp("bytes"))
    torch.manual_seed(0)
    model = Transformer(tiny_config({"vocab_size": tokenizer.vocab_size, "tie_embeddings": False})).eval()
    model.unembed.weight.data.mul_(15)  # far from even odds, as after a training

    def vowels(answers):
        return np.array([sum(letter in VOWELS for letter in text) / 10 for text in answers.texts])

    return model, task(tokenizer, ["Once", "A b"], vowels)


def course(method: str, **changes) -> CourseSettings:
    return dataclasses.replace(DEFAULTS[method], **SMALL | changes)


def reports_of(setting, chosen: CourseSettings, count: int | None = None):
    model, work = setting
    state = learning.start(model, chosen)
    pairs = by_reward(model, work, chosen) if chosen.method == "dpo" else None
    return list(itertools.islice(steps(state, work, chosen, pairs), count)), state


@pytest.mark.parametrize("method", [name for name in METHODS if name != "best_of_n"])
def test_each_method_earns_more_and_leaves_the_reference_alone(setting, method):
    model, _ = setting
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    chosen = course(method, coefficient=0.1 if method == "dpo" else 0.01)
    reports, state = reports_of(setting, chosen)
    assert [report.step for report in reports] == list(range(7))
    first, last = reports[0].measured, reports[-1].measured
    assert abs(first.kl) < 1e-6 and abs(first.k1) < 1e-6
    assert last.reward > first.reward + 2 * first.reward_sd / math.sqrt(32) and last.kl > 0.01
    assert last.kl_text == pytest.approx(last.kl * last.length, rel=0.05)
    assert last.perplexity > 1 and 0 < last.distinct_1 <= last.distinct_2 <= 1
    assert all(math.isfinite(report.update.gradient_norm) for report in reports[:-1])
    assert math.isnan(reports[-1].update.loss)
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in before.items())
    assert not torch.equal(state.policy.embed.weight, model.embed.weight)


@pytest.mark.parametrize("method", ["ppo", "dpo"])
def test_a_run_is_a_function_of_its_seed(setting, method):
    once, again, other = (reports_of(setting, course(method, seed=seed), 3)[0] for seed in (1, 1, 2))
    for a, b in zip(once, again, strict=True):
        assert (a.measured, a.samples) == (b.measured, b.samples)
    assert once[1].samples != other[1].samples


def test_what_each_method_reports(setting):
    said = {
        method: reports_of(setting, course(method), 1)[0][0].update for method in ("reinforce", "ppo", "grpo", "dpo")
    }
    told = {
        method: {name for name, value in vars(update).items() if not math.isnan(value)}
        for method, update in said.items()
    }
    assert told["reinforce"] == {"loss", "gradient_norm"}
    assert told["grpo"] == told["reinforce"] | {"clip_fraction"}
    assert told["ppo"] == told["grpo"] | {"value_error"}
    assert told["dpo"] == told["reinforce"] | {"accuracy", "margin"}
    assert said["dpo"].loss == pytest.approx(math.log(2), abs=1e-5) and abs(said["dpo"].margin) < 1e-4


def test_ppo_of_one_pass_without_clipping_is_the_policy_gradient(setting, monkeypatch):
    """The gradient that PPO hands to Adam, its value loss left out, is the policy gradient of the same advantages."""
    model, work = setting
    chosen = course("ppo", epochs=1, minibatches=1, clip=10.0, value_weight=0.0, coefficient=0.0, lam=1.0)
    state = learning.start(model, chosen)
    rollouts, rewards = write(state.policy, work, chosen, 0)
    batch = Batch(rollouts, rewards, score(state.policy, model, rollouts, work.size, state.head), work.size)
    handed = []

    def keep(learner, loss):
        loss.backward()
        handed.append([p.grad.clone() for p in learner.policy.parameters()])
        return 0.0

    monkeypatch.setattr("model.alignment.reinforcement.updates.descend", keep)
    ppo(state, batch, chosen)
    state.policy.zero_grad()
    expected = rewards[:, None].expand(batch.rollouts.written.shape)  # the value is 0, so the return is the advantage
    inside = expected[rollouts.written]
    expected = (expected - inside.mean()) / (inside.std(correction=0) + 1e-6)
    policy_gradient_loss(log_probs(state.policy, rollouts, work.size), expected, rollouts.written).backward()
    for found, parameter in zip(handed[0], state.policy.parameters(), strict=True):
        assert_close(found, parameter.grad, 1e-5)
    assert max(float(g.abs().max()) for g in handed[0]) > 1e-3


def test_every_text_is_in_one_minibatch_of_each_pass():
    parts = [part.tolist() for part in minibatches(course("ppo", epochs=2, minibatches=4), 3, 32)]
    assert [len(part) for part in parts] == [8] * 8
    first, second = ([*itertools.chain(*half)] for half in (parts[:4], parts[4:]))
    assert sorted(first) == sorted(second) == list(range(32))
    assert parts[:4] != parts[4:]


# --- the leash ---


def test_the_coefficient_follows_its_target():
    """By hand, from Ziegler et al. 2019: error clipped to 0.2 and times the gain."""
    assert learning.adapted(0.1, kl=9.0, target=6.0, gain=0.1) == pytest.approx(0.1 * 1.02)
    assert learning.adapted(0.1, kl=5.4, target=6.0, gain=0.1) == pytest.approx(0.1 * 0.99)
    assert learning.adapted(0.1, kl=0.0, target=6.0) == pytest.approx(0.08)
    assert learning.adapted(0.1, kl=50.0, target=0.0) == 0.1


def test_a_leash_holds(setting):
    free, held = (reports_of(setting, course("ppo", coefficient=beta))[0][-1].measured for beta in (0.0, 1.0))
    assert held.kl < 0.7 * free.kl
    assert held.perplexity < free.perplexity and held.reward < free.reward


# --- divergence ---


@pytest.mark.parametrize("method", ["reinforce", "ppo", "grpo", "dpo"])
def test_a_learning_rate_far_too_high_ends_with_the_last_good_model(setting, method):
    chosen = course(method, learning_rate=10.0, steps=20)
    model, work = setting
    state = learning.start(model, chosen)
    pairs = by_reward(model, work, chosen) if method == "dpo" else None
    with pytest.raises(Astray) as told:
        for report in steps(state, work, chosen, pairs):
            assert report.step < 20
    assert told.value.what == "The training diverged." and "learning rate" in told.value.hint
    found = score(state.policy, model, write(model, work, chosen, 0)[0], work.size)
    assert float(found.kl.max()) < 1e-4  # the very first update was too far: the good model is the reference


def test_weights_that_are_not_finite_are_taken_back(setting):
    model, work = setting
    chosen = course("reinforce")
    state = learning.start(model, chosen)
    run = steps(state, work, chosen)
    next(run)
    next(run)
    good = [tensor.clone() for tensor in state.good]
    with torch.no_grad():
        state.policy.blocks[0].mlp.up.weight[2, 2] = math.nan
    with pytest.raises(Astray, match="step 2"):
        next(run)
    assert all(map(torch.equal, learned(state.policy), good))


def test_a_gradient_that_is_not_finite_changes_nothing(setting):
    model, _ = setting
    state = learning.start(model, course("reinforce"))
    loss = state.policy.embed.weight.sum() * torch.tensor(math.inf)
    with pytest.raises(FloatingPointError):
        learning.descend(state, loss)
    assert torch.equal(state.policy.embed.weight, model.embed.weight)


# --- adapters ---


@pytest.mark.parametrize("method", ["reinforce", "ppo", "grpo", "dpo"])
def test_of_adapters_only_they_change_and_the_reference_is_the_base(setting, method):
    """The reference's log-probabilities stay those of the base; both models share the weights; merging is exact."""
    model, work = setting
    chosen = course(method, coefficient=0.01, learning_rate=0.005, steps=3)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = learning.start(model, chosen, Lora(4, matrices="all"))
    texts, _ = write(model, work, chosen, 0)
    plain = log_probs(model, texts, work.size).detach()
    pairs = by_reward(model, work, chosen) if method == "dpo" else None
    reports = list(steps(state, work, chosen, pairs))
    assert abs(reports[0].measured.kl) < 1e-6 and reports[-1].measured.kl > 1e-4
    assert torch.equal(log_probs(state.reference, texts, work.size), plain)
    shared = {name.replace(".base.", "."): tensor for name, tensor in state.policy.state_dict().items()}
    assert all(shared[name].data_ptr() == tensor.data_ptr() for name, tensor in model.state_dict().items())
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in before.items())
    with torch.no_grad():
        exact = state.policy.double()
        found, whole = (log_probs(each, texts, work.size) for each in (exact, merged(exact)))
    assert (found - plain).abs().max() > 1e-3
    assert_close(whole, found, 1e-9)


def test_the_value_head_learns_at_the_same_rate_beside_adapters_and_beside_all_weights(setting):
    """Adapters take ten times the rate of all weights; the head, which has none, always ten times that of these."""
    model, _ = setting
    whole = learning.start(model, course("ppo", learning_rate=1e-3)).optimizer.param_groups
    adapted = learning.start(model, course("ppo", learning_rate=1e-2), Lora(2)).optimizer.param_groups
    assert [group["lr"] for group in whole] == pytest.approx([1e-3, 1e-2])
    assert [group["lr"] for group in adapted] == pytest.approx([1e-2, 1e-2])


# --- pairs and choices ---


def test_pairs_of_a_reward_are_better_first(setting):
    model, work = setting
    pairs = by_reward(model, work, course("dpo", pairs=6))
    assert len(pairs) == 6

    def vowels(rollouts):
        return [sum(chr(id) in VOWELS for id in answer) for answer in rollouts.answers()]

    assert all(a > b for a, b in zip(vowels(pairs.chosen), vowels(pairs.rejected), strict=True))
    assert pairs.chosen.ids[:, :3].tolist() == pairs.rejected.ids[:, :3].tolist()
    assert (pairs.chosen_reference < 0).all()


def test_given_pairs_are_rows_with_the_references_numbers(setting):
    model, work = setting
    pairs = from_texts(model, work, [("ab", "cde", "f"), ("a", "bc", "de")])
    assert pairs.chosen.texts() == [list(b"abcde"), list(b"abc")]
    assert pairs.rejected.texts() == [list(b"abf"), list(b"ade")]
    ids = torch.tensor([list(b"abcde")])
    with torch.no_grad():
        log_q = model(ids)[0].log_softmax(-1)
    expected = sum(float(log_q[place, ids[0, place + 1]]) for place in (1, 2, 3))
    assert pairs.chosen_reference[0].item() == pytest.approx(expected, abs=1e-4)
    state = learning.start(model, course("dpo"))
    assert dpo(state, pairs, course("dpo")).loss == pytest.approx(math.log(2), abs=1e-5)
    assert len(pairs) < PAIRS


@pytest.mark.parametrize("pairs", [[], [("", "a", "b")], [("a", "", "b")], [("a" * 40, "b", "c")]])
def test_pairs_without_texts_are_refused(setting, pairs):
    model, work = setting
    with pytest.raises(InputError):
        from_texts(model, work, pairs)


def test_a_reward_that_never_differs_makes_no_pairs(setting):
    model, work = setting
    flat = dataclasses.replace(work, reward=lambda answers: np.ones(len(answers.texts)))
    with pytest.raises(InputError, match="the same reward"):
        by_reward(model, flat, course("dpo", pairs=4))
    broken = dataclasses.replace(work, reward=lambda answers: np.full(len(answers.texts), np.nan))
    with pytest.raises(InputError, match="finite"):
        write(model, broken, course("ppo"), 0)


def test_the_best_of_more_is_better_at_a_known_price(setting):
    model, work = setting
    found = list(choose_best(model, work, course("best_of_n", group=16)))
    rewards = [report.measured.reward for report in found]
    assert len(found) == 5 and rewards == sorted(rewards) and rewards[-1] > rewards[0] + 0.05
    assert [report.measured.kl_text for report in found] == [kl_bound(2**k) for k in range(5)]
    plain = write(model, work, course("best_of_n", group=16), 0)[1].mean().item()
    assert found[0].measured.reward == pytest.approx(plain, abs=1e-6)


# --- before and after ---


def test_a_look_at_the_reference_itself_finds_nothing_moved(setting):
    model, work = setting
    chosen = course("ppo")
    probe = probe_of(model, work, chosen, work.prompts[0])
    seen = look(model, model, work, chosen, probe, 0, Story.of(work.tokenizer))
    assert seen.ids[:4] == tuple(b"Once") and len(seen.ids) == 32
    assert np.abs(seen.log_ratios).max() == 0 and np.abs(seen.kl).max() < 1e-6 and seen.heads.max() == 0
    assert [sample.log_ratio for sample in seen.samples] == pytest.approx([0] * 4, abs=1e-4)


def test_a_look_shows_what_became_likelier(setting):
    """Against both models' own forwards; the same texts are written again at every look."""
    model, work = setting
    chosen = course("reinforce", coefficient=0.01, steps=3)
    _, state = reports_of(setting, chosen)
    probe = probe_of(model, work, chosen, work.prompts[0])
    seen, again = (look(state.policy, model, work, chosen, probe, 3, Story.of(work.tokenizer)) for _ in "ab")
    ids = torch.tensor([probe])
    with torch.no_grad():
        log_p, log_q = (each(ids)[0].log_softmax(-1) for each in (state.policy, model))
    own = ids[0, 1:, None]
    assert_close(seen.after, log_p[:-1].gather(1, own)[:, 0], 1e-5)
    assert_close(seen.before, log_q[:-1].gather(1, own)[:, 0], 1e-5)
    assert_close(seen.kl, (log_p.exp() * (log_p - log_q)).sum(1), 1e-5)
    assert_close(seen.top_after, log_p.gather(1, torch.tensor(seen.top)), 1e-5)
    assert_close(seen.top_before, log_q.gather(1, torch.tensor(seen.top)), 1e-5)
    assert seen.heads.shape == (3, 4) and seen.heads.min() > 0 and seen.heads.max() <= 1
    assert seen.samples == again.samples and len(seen.samples) == 4
    rise = seen.top_after - seen.top_before
    vowels = np.isin(seen.top, [ord(letter) for letter in VOWELS])
    assert rise[vowels].mean() > rise[~vowels].mean() + 0.1


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "sarsa"},
        {"texts": 30},
        {"steps": 0},
        {"learning_rate": math.nan},
        {"clip": 0},
        {"seed": -1},
        {"lam": 2},
    ],
)
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(InputError):
        CourseSettings(**changes)


def test_pairs_and_prompts_begin_and_end_as_the_vocabulary_asks(setting):
    """BOS before every prompt, EOS behind an answer that is whole; the reference scores the EOS too."""
    model, work = setting
    asked = dataclasses.replace(work.tokenizer, bos_id=1, eos_id=2, add_bos=True)
    begun = task(asked, ["Once", "A b"], work.reward)
    assert begun.prompts == ((1, *b"Once"), (1, *b"A b"))
    pairs = from_texts(model, begun, [("ab", "cde", "f"), ("a", "bc", "de")], longest=3)
    assert pairs.chosen.texts() == [[1, *b"abcde"], [1, *b"abc", 2]]  # the first was cut at three tokens
    assert pairs.rejected.texts() == [[1, *b"abf", 2], [1, *b"ade"[:3], 2]]
    ids = torch.tensor([[1, *b"abf", 2]])
    with torch.no_grad():
        log_q = model(ids)[0].log_softmax(-1)
    expected = sum(float(log_q[place, ids[0, place + 1]]) for place in (2, 3))
    assert pairs.rejected_reference[0].item() == pytest.approx(expected, abs=1e-4)
