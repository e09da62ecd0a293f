"""Training: steps by hand, runs that repeat and resume bit by bit, measures, and checkpoints."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from model.errors import CheckpointError
from model.gpt.tap import record
from model.gpt.transformer import Transformer
from model.training import loop
from model.training.data import Batch
from model.training.loop import Recipe, TrainingRun
from model.training.tasks import IGNORE
from tests.support.models.helpers import VARIANTS, V, assert_close, tiny_config, tiny_model

PLAIN = {"warmup": 0, "learning_rate": 1.0, "schedule": "trapezoid", "steps": 100, "clip": 1e9}  # one step: old - g


def source(rng: np.random.Generator, rows: int, length: int, done: float) -> Batch:
    """Random tokens, of which about seven in ten are scored."""
    ids = rng.integers(0, V, size=(rows, length + 1))
    return Batch(ids[:, :-1], np.where(rng.random((rows, length)) < 0.7, ids[:, 1:], IGNORE))


def recipe(**changes) -> Recipe:
    return Recipe(**{"steps": 6, "batch": 4, "length": 9, "warmup": 2, "accumulate": 2, "seed": 3} | changes)


# --- the step ---


def test_only_matrices_decay():
    model = tiny_model({"qk_norm": True, **VARIANTS["gpt2"]}).requires_grad_(False)
    run = loop.from_model(model, recipe(weight_decay=0.3, beta1=0.8, beta2=0.7))
    matrices, vectors = run.optimizer.param_groups
    assert isinstance(run.optimizer, torch.optim.AdamW)
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.3, 0.0)
    assert matrices["betas"] == vectors["betas"] == (0.8, 0.7)
    assert {p.ndim for p in matrices["params"]} == {2} and {p.ndim for p in vectors["params"]} == {1}
    both = [id(p) for p in (*matrices["params"], *vectors["params"])]
    assert sorted(both) == sorted(id(p) for p in model.parameters())  # a tied head once
    assert all(p.requires_grad for p in model.parameters())


def test_biases_of_experts_do_not_decay_though_they_have_two_axes():
    model = tiny_model({"n_expert": 3, "experts_per_token": 2})
    matrices, vectors = loop.from_model(model, recipe()).optimizer.param_groups
    biases = {id(p) for name, p in model.named_parameters() if name.endswith("bias")}
    assert biases and biases <= {id(p) for p in vectors["params"]}
    assert {p.ndim for p in matrices["params"]} == {2, 3}


def mean_gradients(model: Transformer, batches: list[Batch]) -> tuple[float, list[torch.Tensor]]:
    """Mean loss of all scored tokens and its gradients, by one forward of the whole."""
    ids, targets = (torch.cat([torch.from_numpy(getattr(b, name)) for b in batches]) for name in ("ids", "targets"))
    model.requires_grad_(True)
    loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
    return loss.item(), [*torch.autograd.grad(loss, [*model.parameters()])]


def test_the_load_balancing_loss_joins_the_gradient_with_its_coefficient():
    """Two forwards a step: the mean of their losses, of all layers added up, times the coefficient."""
    model = tiny_model({"n_expert": 4, "experts_per_token": 2})
    told = recipe(**PLAIN | {"balance": 0.7, "beta1": 0.0, "beta2": 0.0, "weight_decay": 0.0})
    taken: list[Batch] = []

    def keep(*arguments) -> Batch:
        taken.append(source(*arguments))
        return taken[-1]

    run, gradients = loop.from_model(model, told), []
    router = model.blocks[2].mlp.router.weight
    router.register_post_accumulate_grad_hook(lambda tensor: gradients.append(tensor.grad.clone()))
    twin = tiny_model({"n_expert": 4, "experts_per_token": 2}).requires_grad_(True)
    report = next(loop.steps(run, told, keep))
    store: dict = {}
    loss, balance = 0.0, 0.0
    scored = sum(int((batch.targets != IGNORE).sum()) for batch in taken)
    for batch in taken:
        ids, targets = (torch.from_numpy(each) for each in (batch.ids, batch.targets))
        flat = twin(ids, tap=record({"router"}, store)).flatten(0, 1)
        loss = loss + F.cross_entropy(flat, targets.flatten(), ignore_index=IGNORE, reduction="sum") / scored
        for layer in range(3):
            share = store["router", layer].flatten(0, 1).softmax(-1)
            chosen = torch.zeros_like(share).scatter_(1, share.topk(2).indices, 1.0)
            balance = balance + 4 * (chosen.mean(0) / 2 * share.mean(0)).sum() / len(taken)
    (wanted,) = torch.autograd.grad(loss + 0.7 * balance, twin.blocks[2].mlp.router.weight)
    assert len(taken) == 2 and abs(report.balance - float(balance)) < 1e-4 and abs(report.loss - loss.item()) < 1e-4
    assert_close(gradients[-1], wanted, 1e-3 * float(wanted.abs().max()))


def test_the_first_step_of_adamw_by_hand():
    """Its moments are g and g^2, so each weight moves by the learning rate against the sign of g, after the decay."""
    model = tiny_model()
    before = [p.detach().clone() for p in model.parameters()]
    r = recipe(accumulate=1, warmup=0, learning_rate=0.01, weight_decay=0.5, clip=1e9)
    run = loop.from_model(model, r)
    _, gradients = mean_gradients(model, [source(np.random.default_rng([3, 0]), 4, 9, 0.0)])
    next(loop.steps(run, r, source))
    assert model.training
    for old, new, g in zip(before, model.parameters(), gradients, strict=True):
        kept = old * (1 - 0.01 * 0.5) if old.ndim == 2 else old
        large = g.abs() > 1e-4  # where float32 knows the sign, and eps = 1e-8 does not matter
        assert_close(new[large], (kept - 0.01 * g.sign())[large], 2e-5)


def plain_run(model: Transformer) -> TrainingRun:
    return TrainingRun(model.requires_grad_(True), torch.optim.SGD(model.parameters(), lr=9.0))


def test_two_halves_give_the_step_of_the_whole():
    """2 x 4 rows and 1 x 8 rows add the same numbers in another order: 1e-6 of float32 sums of a few hundred."""
    rows = source(np.random.default_rng(0), 8, 9, 0.0)
    rows.targets[:4, 2:] = IGNORE  # the halves do not weigh the same: tokens count, not rows
    halves = [Batch(rows.ids[at : at + 4], rows.targets[at : at + 4]) for at in (0, 4)]
    whole, split = plain_run(tiny_model()), plain_run(tiny_model())
    feed = iter(halves)
    r = recipe(**PLAIN)
    one = next(loop.steps(whole, dataclasses.replace(r, batch=8, accumulate=1), lambda *_: rows))
    two = next(loop.steps(split, r, lambda *_: next(feed)))
    loss, gradients = mean_gradients(tiny_model(), halves)
    norm = math.sqrt(sum(g.double().square().sum().item() for g in gradients))
    models = (whole.model, split.model, tiny_model())
    for a, b, old, g in zip(*(model.parameters() for model in models), gradients, strict=True):
        assert_close(a, b, 1e-6)
        assert_close(b, old - g, 2e-6)
    for report in (one, two):
        assert (report.step, report.tokens, report.learning_rate) == (1, 72, 1.0)
        assert report.loss == pytest.approx(loss, abs=1e-5)
        assert report.gradient_norm == pytest.approx(norm, rel=1e-5)


def test_gradients_are_clipped_to_a_length_and_reported_before():
    free, clipped = plain_run(tiny_model()), plain_run(tiny_model())
    norm = next(loop.steps(free, recipe(**PLAIN), source)).gradient_norm
    report = next(loop.steps(clipped, recipe(**PLAIN | {"clip": 0.01}), source))
    old, one, two = (nn.utils.parameters_to_vector(m.parameters()) for m in (tiny_model(), free.model, clipped.model))
    moved, short = old - one, old - two
    assert report.gradient_norm == norm > 0.1
    assert moved.norm().item() == pytest.approx(norm, rel=1e-4)
    assert short.norm().item() == pytest.approx(0.01, rel=1e-3)
    assert_close(short, moved * 0.01 / norm, 1e-6)


def test_a_batch_without_a_scored_token_moves_nothing():
    run = plain_run(tiny_model())
    blank = Batch(np.zeros((4, 9), int), np.full((4, 9), IGNORE))
    assert next(loop.steps(run, recipe(**PLAIN), lambda *_: blank)).loss == 0
    assert all(torch.equal(a, b) for a, b in zip(run.model.parameters(), tiny_model().parameters(), strict=True))


def test_the_source_is_told_where_the_run_stands():
    asked = []

    def listening(rng: np.random.Generator, rows: int, length: int, done: float) -> Batch:
        asked.append((rows, length, done, rng.random()))
        return source(rng, rows, length, done)

    run = loop.start(tiny_config(), recipe(steps=4))
    reports = [*loop.steps(run, recipe(steps=4), listening)]
    assert [a[:3] for a in asked] == [(4, 9, done) for done in (0, 0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75)]
    assert len({a[3] for a in asked}) == 8  # no two batches use the same chance
    assert [r.step for r in reports] == [1, 2, 3, 4]
    assert [r.tokens for r in reports] == [72, 144, 216, 288]
    assert [r.learning_rate for r in reports] == [loop.learning_rate(step, recipe(steps=4)) for step in range(4)]
    assert all(r.seconds > 0 for r in reports)


def test_the_step_is_compiled_only_when_asked(monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda function: compiled.append(function) or function)
    for wanted in (False, True):
        next(loop.steps(loop.start(tiny_config(), recipe()), recipe(compile=wanted), source))
    assert compiled == [loop.summed_loss]


# --- the same again, and checkpoints ---


def values(reports) -> list:
    return [dataclasses.replace(report, seconds=0.0) for report in reports]  # that alone differs from run to run


def same_weights(a: Transformer, b: Transformer) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def test_runs_repeat_bit_by_bit_by_their_seed():
    runs = []
    for seed in (3, 3, 4):
        torch.manual_seed(len(runs))  # the seed of the recipe counts, no other
        state = torch.get_rng_state()
        runs.append(loop.start(tiny_config(), recipe(seed=seed)))
        assert torch.equal(torch.get_rng_state(), state)
    assert not same_weights(runs[1].model, runs[2].model)
    reports = [values(loop.steps(run, recipe(seed=seed), source)) for run, seed in zip(runs, (3, 3, 4), strict=True)]
    assert same_weights(runs[0].model, runs[1].model)
    assert reports[0] == reports[1] != reports[2]


@pytest.mark.parametrize("stop", [1, 4])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, stop: int):
    """Stopped in warm-up or behind it; the moments of AdamW, the step and the tokens come back as they were."""
    config, path = tiny_config(VARIANTS["qwen3"]), tmp_path / "checkpoint.pt"
    whole, begun = (loop.start(config, recipe()) for _ in range(2))
    expected = values(loop.steps(whole, recipe(), source))
    before = values(itertools.islice(loop.steps(begun, recipe(), source), stop))
    loop.save_checkpoint(path, begun, recipe())
    resumed, read = loop.load_checkpoint(path)
    assert (read, resumed.step, resumed.tokens, resumed.model.config) == (recipe(), stop, stop * 72, config)
    assert before + values(loop.steps(resumed, recipe(), source)) == expected
    assert same_weights(resumed.model, whole.model)
    assert [*loop.steps(resumed, recipe(), source)] == []


@pytest.fixture
def saved(tmp_path):
    """A checkpoint after one step."""
    run = loop.start(tiny_config(), recipe())
    next(loop.steps(run, recipe(), source))
    loop.save_checkpoint(tmp_path / "checkpoint.pt", run, recipe())
    return tmp_path / "checkpoint.pt"


def test_a_run_goes_on_under_a_new_recipe(saved):
    new = recipe(steps=3, weight_decay=0.7, beta1=0.5, beta2=0.6)
    resumed, read = loop.load_checkpoint(saved, new)
    assert read == new
    matrices, vectors = resumed.optimizer.param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.7, 0.0)
    assert matrices["betas"] == vectors["betas"] == (0.5, 0.6)
    assert len(resumed.optimizer.state) == len([*resumed.model.parameters()])
    assert [report.step for report in loop.steps(resumed, new, source)] == [2, 3]


def test_a_checkpoint_that_is_missing_a_folder_or_cut_short(saved):
    with pytest.raises(CheckpointError, match=r"no checkpoint to continue from.*other\.pt"):
        loop.load_checkpoint(saved.parent / "other.pt")
    with pytest.raises(CheckpointError, match="cannot be read"):
        loop.load_checkpoint(saved.parent)
    whole = saved.read_bytes()
    for share in (0.0, 0.1, 0.5, 0.99):
        saved.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(CheckpointError, match="cannot be read"):
            loop.load_checkpoint(saved)


class Harmful:
    def __reduce__(self):
        return print, ("this must not run",)


DAMAGE = {
    "text": lambda state: b"no archive at all",
    "foreign": lambda state: {"weights": torch.ones(3)},
    "no optimizer": lambda state: {key: value for key, value in state.items() if key != "optimizer"},
    "other sizes": lambda state: state | {"config": state["config"] | {"d_model": 24, "d_head": 6}},
    "odd config": lambda state: state | {"config": state["config"] | {"wings": 2}},
    "odd recipe": lambda state: state | {"recipe": {"steps": 1, "luck": 1}},
    "bad step": lambda state: state | {"step": "third"},
    "bad optimizer": lambda state: state | {"optimizer": {"state": {}, "param_groups": []}},
    "code": lambda state: state | {"step": Harmful()},
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_checkpoint_that_is_no_run(saved, name: str, capsys):
    content = DAMAGE[name](torch.load(saved, weights_only=True))
    saved.write_bytes(content) if isinstance(content, bytes) else torch.save(content, saved)
    with pytest.raises(CheckpointError, match="cannot be read"):
        loop.load_checkpoint(saved)
    assert "must not run" not in capsys.readouterr().out


def test_a_crash_while_saving_leaves_the_old_file(saved, monkeypatch):
    old, run = saved.read_bytes(), loop.load_checkpoint(saved)[0]

    def half(state: dict, path) -> None:
        path.write_bytes(old[: len(old) // 2])
        raise OSError("no space left")

    next(loop.steps(run, recipe(), source))
    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", half)
        with pytest.raises(OSError, match="no space"):
            loop.save_checkpoint(saved, run, recipe())
    assert saved.read_bytes() == old and [*saved.parent.iterdir()] == [saved]
    (saved.parent / "link").hardlink_to(saved)  # the file itself stays: another takes its place
    loop.save_checkpoint(saved, run, recipe())
    assert loop.load_checkpoint(saved)[0].step == 2 and (saved.parent / "link").read_bytes() == old


# --- the loss ---


@pytest.mark.parametrize("name", VARIANTS)
def test_the_summed_loss_is_that_of_the_forward(name: str):
    model = tiny_model(VARIANTS[name])
    ids, targets = loop.to_tensors(source(np.random.default_rng(1), 3, 20, 0.0), torch.device("cpu"))
    expected = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum")
    assert_close(loop.summed_loss(model, ids, targets), expected, 1e-4)


def test_bfloat16_trains_weights_of_float32():
    seen, run = [], loop.start(tiny_config(), recipe())
    run.model.unembed.register_forward_hook(lambda module, args, out: seen.append(out.dtype))
    fixed = source(np.random.default_rng(0), 4, 9, 0.0)
    r = recipe(steps=15, learning_rate=3e-3, precision="bfloat16")
    losses = [report.loss for report in loop.steps(run, r, lambda *_: fixed)]
    assert {*seen} == {torch.bfloat16}
    assert {p.dtype for p in run.model.parameters()} == {torch.float32}
    assert all(map(math.isfinite, losses)) and losses[-1] < losses[0] - 0.2


def test_precision_is_timed_only_where_it_is_left_open(monkeypatch):
    cpu, kinds = torch.device("cpu"), ("float32", "bfloat16", "auto")
    for faster in (True, False):
        monkeypatch.setattr(loop, "_bfloat16_is_faster", lambda device, faster=faster: faster)
        assert [loop.uses_bfloat16(recipe(precision=kind), cpu) for kind in kinds] == [False, True, faster]
