"""Wirings on tiny models: gradients against independent ones and by hand, blocks without additions, the first steps."""

import dataclasses
import math
import threading

import numpy as np
import pytest
import torch

from model.design import block_trials
from model.design.block_trials import (
    DEPTHS,
    STARTS,
    VARIANTS,
    WARMUP,
    WIRINGS,
    Trial,
    Unadded,
    Wiring,
    exponent,
    gradient_norms,
    initialized,
    one_thread,
    starts,
    starts_by_depth,
    train_wirings,
    wired,
    without_additions,
)
from model.gpt.layers import attention_pattern, attention_scores, merge_heads, mix
from model.gpt.transformer import Transformer
from model.training.data import Batch
from model.training.forward import attend_rows
from model.training.loop import learning_rate
from model.training.tasks import IGNORE
from tests.support.models.helpers import VARIANTS as CONFIGS
from tests.support.models.helpers import V, assert_close, tiny_model

TEXT = "\n<|endoftext|>\n".join(f"{n} times {m} is {n * m}, as everybody knows." for n in range(40) for m in range(9))
ADDED = [name for name, each in CONFIGS.items() if not each.get("parallel_residual")]


@pytest.fixture(scope="module")
def data():
    return block_trials.data_of(TEXT)


def batch_of(seed=0, rows=3, length=7):
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, V, (rows, length))
    return Batch(rng.integers(0, V, (rows, length)), np.where(rng.random(targets.shape) < 0.3, IGNORE, targets))


# --- gradients ---


def mean_loss(model, batch):
    """Another way to the same number: the model's own forward, and probabilities of what follows."""
    share = model(torch.from_numpy(batch.ids)).double().log_softmax(-1)
    scored = torch.from_numpy(batch.targets) != IGNORE
    return -share[scored].gather(-1, torch.from_numpy(batch.targets)[scored][:, None]).mean()


@pytest.mark.parametrize("variant", CONFIGS)
def test_norms_are_those_of_a_backward_pass(variant):
    model, batch = tiny_model(CONFIGS[variant]).requires_grad_(True), batch_of()
    found = gradient_norms(model, batch)
    assert all(p.grad is None for p in model.parameters())
    loss = mean_loss(model, batch)
    loss.backward()
    wanted = [math.sqrt(sum(p.grad.double().square().sum() for p in block.parameters())) for block in model.blocks]
    assert found.loss == pytest.approx(loss.item(), rel=1e-5)
    np.testing.assert_allclose(found.weights, wanted, rtol=1e-4)


@pytest.mark.parametrize("variant", ["gpt2", "post", "llama"])
def test_the_streams_gradient_is_a_directional_derivative(variant):
    """d loss(x + s g / |g|) / ds = |g| at s = 0, in float64, for what enters each block."""
    model, batch = tiny_model(CONFIGS[variant]).double(), batch_of()
    found, ids = gradient_norms(model.requires_grad_(True), batch).stream, torch.from_numpy(batch.ids)

    def loss(layer, step):
        def tap(site, at, x):
            return x + step if (site, at) == ("resid_pre", layer) else x

        share = model(ids, tap=tap).log_softmax(-1)
        scored = torch.from_numpy(batch.targets) != IGNORE
        return -share[scored].gather(-1, torch.from_numpy(batch.targets)[scored][:, None]).mean()

    for layer in range(model.config.n_layer):
        zero = torch.zeros(*ids.shape, model.config.d_model, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(loss(layer, zero), zero)
        along, h = gradient / gradient.norm(), 1e-4
        with torch.no_grad():
            slope = (loss(layer, h * along) - loss(layer, -h * along)) / (2 * h)
        assert found[layer] == pytest.approx(float(slope), rel=1e-5)


def test_norms_by_hand(monkeypatch):
    """Two linear layers a x and b (a x) with loss b a x: d/da = b x, d/db = a x; the streams' are a b and b."""

    class Line(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([value]))

        def forward(self, x):
            return self.weight * x

    class Toy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.given = torch.nn.Parameter(torch.tensor([3.0]))
            self.blocks = torch.nn.ModuleList([Line(2.0), Line(5.0)])

    def summed(model, ids, targets):
        x = model.given
        for block in model.blocks:
            x = block(x)
        return 4 * x.sum()  # four scored tokens, whose mean counts

    monkeypatch.setattr(block_trials, "summed_loss", summed)
    found = gradient_norms(Toy(), Batch(np.zeros((1, 5), int), np.array([[1, 2, 3, 4, IGNORE]])))
    assert found.weights.tolist() == [15.0, 6.0]
    assert found.stream.tolist() == [10.0, 5.0]
    assert found.loss == 30.0


# --- without additions ---


@pytest.mark.parametrize("variant", ADDED)
def test_without_additions_the_sublayers_follow_one_another(variant):
    model = tiny_model(CONFIGS[variant])
    ids = torch.from_numpy(batch_of().ids)
    run = model.prepare(0, ids.shape[1], attend=attend_rows)
    x = model.embed_tokens(ids, 0, run)
    for layer, block in enumerate(model.blocks):
        for norm, sublayer in ((block.norm1, block.attn), (block.norm2, block.mlp)):
            x = norm(sublayer(x, layer, run)) if block.post_norm else sublayer(norm(x), layer, run)
    wanted = model.logits(x)
    weights = {name: p.clone() for name, p in model.named_parameters()}
    bare = without_additions(model)
    assert all(isinstance(block, Unadded) for block in bare.blocks)
    assert {name: p.shape for name, p in bare.named_parameters()} == {n: p.shape for n, p in weights.items()}
    assert all(torch.equal(p, weights[name]) for name, p in bare.named_parameters())
    assert_close(bare.logits(bare.trunk(ids, attend=attend_rows)), wanted, 1e-6)
    assert_close(bare(ids, tap=lambda site, layer, x: x), wanted, 1e-4)  # and step by step


def test_a_bare_block_by_its_formula():
    """One pre-norm block in plain tensors: norm, attention, norm, MLP, nothing added."""
    model = without_additions(initialized(block_trials.config_of(1, "pre", 50), 0, "glorot"))
    (block,), x = model.blocks, torch.randn(2, 6, block_trials.WIDTH, generator=torch.Generator().manual_seed(1))

    def norm(x, module):
        centered = x - x.mean(-1, keepdim=True)
        return centered / (centered.square().mean(-1, keepdim=True) + 1e-5).sqrt() * module.weight + module.bias

    read = norm(x, block.norm1)
    q, k, v = (
        (read @ linear.weight.T + linear.bias).unflatten(-1, (block_trials.HEADS, -1)).transpose(1, 2)
        for linear in (block.attn.q, block.attn.k, block.attn.v)
    )
    z = merge_heads(mix(attention_pattern(attention_scores(q, k)), v))
    mid = norm(z @ block.attn.o.weight.T + block.attn.o.bias, block.norm2)
    up = mid @ block.mlp.up.weight.T + block.mlp.up.bias
    wanted = (up * 0.5 * (1 + torch.erf(up / math.sqrt(2)))) @ block.mlp.down.weight.T + block.mlp.down.bias
    assert_close(block(x, 0, model.prepare(0, 6)), wanted, 1e-5)


def test_a_parallel_block_has_no_order():
    with pytest.raises(ValueError, match="parallel"):
        without_additions(tiny_model(CONFIGS["neox"]))


# --- weights ---


@pytest.mark.parametrize("start", STARTS)
def test_all_wirings_start_from_the_same_weights(start):
    found = [dict(wired(wiring, 3, 40, 5, start).named_parameters()) for wiring in WIRINGS.values()]
    for name in found[1]:  # post-norm has no final norm
        assert all(torch.equal(found[0][name], other[name]) for other in found)
    assert not torch.equal(found[0]["embed.weight"], wired(Wiring("pre"), 3, 40, 6, start).embed.weight)


def test_weights_have_the_spread_they_should():
    glorot = initialized(block_trials.config_of(8, "pre"), 0, "glorot").blocks[3]
    D, M = block_trials.WIDTH, 4 * block_trials.WIDTH
    assert glorot.attn.o.weight.std().item() == pytest.approx(math.sqrt(2 / (2 * D)), rel=0.05)
    assert glorot.mlp.up.weight.std().item() == pytest.approx(math.sqrt(2 / (D + M)), rel=0.05)
    gpt2 = initialized(block_trials.config_of(8, "pre"), 0).blocks[3]
    assert gpt2.mlp.up.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert gpt2.mlp.down.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)  # / sqrt(2 * 8)


def test_an_unknown_start_is_refused():
    with pytest.raises(ValueError, match="gpt2, glorot"):
        initialized(block_trials.config_of(1, "pre"), 0, "ones")


def test_random_numbers_are_left_as_they_were(data):
    torch.manual_seed(3)
    before, mine = torch.get_rng_state(), np.random.get_state()[1].copy()
    starts(data, 2, seeds=1)
    train_wirings(data, Trial(2, steps=2))
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], mine)


def test_one_thread_is_for_this_thread_only():
    before, found = torch.get_num_threads(), {}

    def work():
        torch.set_num_threads(3)
        with one_thread():
            found["inside"] = torch.get_num_threads()
            other = threading.Thread(target=lambda: found.update(other=torch.get_num_threads()))
            other.start()
            other.join()
        found["after"] = torch.get_num_threads()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.set_num_threads(before)
    assert found == {"inside": 1, "other": 3, "after": 3}


def test_one_thread_ends_with_what_goes_wrong():
    before = torch.get_num_threads()
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert torch.get_num_threads() == before


# --- the text ---


def test_frequencies_are_an_entropy():
    """Half a, half b: ln 2 and what the ends of text add; what is not scored does not count."""
    found = block_trials.data_of("\n<|endoftext|>\n".join(["ab" * 200] * 40))
    assert found.vocab_size == 257 and found.characters == 40 * 400 + 39 * 15
    assert np.exp(found.log_share).sum() == pytest.approx(1)
    assert found.guessed(block_trials.fixed_batch(found)) == pytest.approx(math.log(2), abs=0.05)
    targets = np.array([[3, IGNORE, 5]])
    assert found.guessed(Batch(targets, targets)) == pytest.approx(-(found.log_share[3] + found.log_share[5]) / 2)


def test_who_knows_frequencies_is_judged_by_the_same_batches(data):
    trial, read = Trial(2, steps=3), []
    seen = dataclasses.replace(data, train=lambda *given: read.append(data.train(*given)) or read[-1])
    found = train_wirings(seen, trial)
    assert len(read) == 3 * 6
    for step in range(3):
        assert all(np.array_equal(read[5 * step].ids, read[5 * step + n].ids) for n in range(5))
        assert found.frequencies[step] == data.guessed(read[5 * step])


# --- at the start ---


def test_starts_are_gradients_of_one_batch(data):
    found = starts(data, 3, "glorot", seeds=2)
    assert found.weights.shape == found.stream.shape == (4, 2, 3) and found.losses.shape == (4, 2)
    for w, wiring in enumerate(WIRINGS.values()):
        own = gradient_norms(wired(wiring, 3, data.vocab_size, 1, "glorot"), block_trials.fixed_batch(data))
        np.testing.assert_allclose(found.weights[w, 1], own.weights, rtol=1e-4)
        np.testing.assert_allclose(found.stream[w, 1], own.stream, rtol=1e-4)
        assert found.losses[w, 1] == pytest.approx(own.loss, rel=1e-5)


@pytest.mark.long
def test_depths_follow_the_theory_with_glorot_weights(data):
    """Xiong et al. 2020, theorem 1: the last block's gradient falls as 1/sqrt(L) for pre-norm, and stays for post."""
    found = starts_by_depth(data, "glorot")
    assert [each.depth for each in found] == list(DEPTHS)
    last = np.stack([each.weights[:, :, -1].mean(1) for each in found], axis=1)  # [W, depths]
    assert -0.75 < exponent(DEPTHS, last[0]) < -0.35
    assert -0.15 < exponent(DEPTHS, last[1]) < 0.25


def test_progress_counts_every_measurement(data):
    told = []
    starts_by_depth(data, progress=lambda done, total, what: told.append((done, total)))
    assert told == [(n, 36) for n in range(36)]


@pytest.mark.parametrize("power", [-0.5, 0.0, 1.0])
def test_exponents(power):
    assert exponent(DEPTHS, [7 * depth**power for depth in DEPTHS]) == pytest.approx(power, abs=1e-9)


# --- the first steps ---


def independent(data, trial, variant):
    """The same training by hand: autograd, clipping and AdamW without the project's loop."""
    model = wired(WIRINGS[variant.wiring], trial.depth, data.vocab_size, trial.seed, trial.start)
    recipe, losses, norms = block_trials.recipe_of(trial, variant.warmup), [], []
    groups = [
        {"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.95))
    for step in range(trial.steps):
        batch = data.train(
            np.random.default_rng([trial.seed, step]), block_trials.ROWS, block_trials.LENGTH, step / trial.steps
        )
        losses.append(mean_loss(model, batch))
        optimizer.zero_grad()
        losses[-1].backward()
        norms.append([math.sqrt(sum(p.grad.square().sum() for p in block.parameters())) for block in model.blocks])
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, recipe)
        optimizer.step()
    return [float(loss.detach()) for loss in losses], np.array(norms)


def test_the_first_steps_are_those_of_a_plain_loop(data):
    trial = Trial(2, "glorot", 3e-3, 4, seed=2)
    found = train_wirings(data, trial)
    assert found.losses.shape == (5, 4) and found.norms.shape == (5, 4, 2)
    for row, variant in enumerate(VARIANTS.values()):
        losses, norms = independent(data, trial, variant)
        np.testing.assert_allclose(found.losses[row], losses, rtol=2e-4)
        np.testing.assert_allclose(found.norms[row], norms, rtol=5e-3)
    assert (found.seconds > 0).all()


def test_warm_up_is_the_only_difference():
    warm, cold = (block_trials.recipe_of(Trial(steps=100), warmup) for warmup in (True, False))
    assert dataclasses.replace(warm, warmup=0) == cold
    assert [learning_rate(step, warm) for step in (0, WARMUP // 2 - 1, WARMUP, 99)] == pytest.approx(
        [3e-3 / WARMUP, 1.5e-3, 3e-3, 3e-3]
    )
    assert {learning_rate(step, cold) for step in range(100)} == {3e-3}


def test_a_run_that_goes_astray_ends_and_the_others_go_on(data, monkeypatch):
    whole, calls = block_trials.steps, []

    def broken(run, recipe, source):
        for report in whole(run, recipe, source):
            calls.append(recipe.warmup)
            bad = recipe.warmup == 0 and report.step >= 2
            yield dataclasses.replace(report, loss=math.nan if bad else report.loss)

    monkeypatch.setattr(block_trials, "steps", broken)
    found = train_wirings(data, Trial(2, steps=4))
    assert np.isnan(found.losses[[1, 3], 1:]).all() and np.isnan(found.norms[[1, 3], 1:]).all()
    assert np.isfinite(found.losses[[0, 2, 4]]).all() and np.isfinite(found.losses[:, 0]).all()
    assert calls.count(0) == 4  # two variants, two steps each


def test_training_tells_every_step_and_can_be_stopped(data):
    told, before = [], torch.get_num_threads()

    def progress(done, total, what):
        told.append((done, total))
        if done == 7:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train_wirings(data, Trial(2, steps=3), progress)
    assert told == [(n, 15) for n in range(8)]
    assert torch.get_num_threads() == before


def test_gradients_are_taken_where_they_are_switched_off(data):
    with torch.no_grad():
        found = starts(data, 2, seeds=1)
        trained = train_wirings(data, Trial(2, steps=2))
    assert (found.weights > 0).all() and (trained.norms > 0).all()


def test_the_models_class_is_left_alone():
    assert type(initialized(block_trials.config_of(2, "pre"), 0)) is Transformer
