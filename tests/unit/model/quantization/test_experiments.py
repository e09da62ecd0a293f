"""What fewer bits do to a model: against a whole copy of it, a trace of it, and KL in double precision."""

import math

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.gpt.linear import linears, pack, tune
from model.quantization import experiments, speed
from model.quantization.experiments import (
    StreamSample,
    changed,
    changed_block,
    errors,
    kinds_of,
    layer_of,
    map_size,
    matrices,
    measure,
    outcome,
    patterns,
    read,
    sample,
    total_bytes,
    usable,
    with_format,
)
from model.quantization.formats import FORMATS, WeightError, stored, weight_error
from model.quantization.int8 import quantized
from model.quantization.layer_sweep import parts_of, sweep
from model.quantization.speed import RUNNERS, halved, tokens_per_second
from model.tracing import divergence as measured
from model.tracing.trace import run
from tests.support.models.helpers import (
    ALL_VARIANTS,
    FEW_VARIANTS,
    VARIANTS,
    H,
    L,
    assert_close,
    random_ids,
    tiny_model,
    tokens_of,
)
from tests.support.models.mixtures import MIXTURES
from tests.support.models.rounding import logits_within, within

T, FEW = 9, "int4-32"
PROMPT, TEXT = random_ids(1, T)[0].tolist(), random_ids(1, 14, seed=7)[0].tolist()


def divergence(z, other):
    """Mean KL(softmax(z) || softmax(other)) in float64, as the formula says. [T, V] each"""
    p, q = (np.asarray(x, np.float64) for x in (z, other))
    p, q = (
        x - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)) - x.max(-1, keepdims=True)
        for x in (p, q)
    )
    return float((np.exp(p) * (p - q)).sum(-1).mean())


def copied(model, values):
    """An independent copy whose matrices are replaced by `values(name, weight)`."""
    twin = tiny_model(vars(model.config))
    twin.load_state_dict(model.state_dict())
    for layer, block in enumerate(twin.blocks):
        for kind in kinds_of(model):
            part = getattr(block.attn if kind in "qkvo" else block.mlp, kind)
            part.weight.data = values(f"{layer}.{kind}", part.weight)
    return twin


@pytest.mark.parametrize("name", VARIANTS)
def test_measured_block_by_block_is_what_a_whole_copy_does(name):
    model = tiny_model(VARIANTS[name])
    kind = FORMATS[FEW]
    twin = copied(model, lambda _, weight: stored(weight, kind)[0])
    made, maps = outcome(model, kind, (sample(model, PROMPT), sample(model, TEXT, keep=False)), size=5)
    before, after = (run(each, tokens_of(PROMPT)) for each in (model, twin))
    assert made.prompt.kl == pytest.approx(divergence(before.logits, after.logits), rel=2e-4)
    assert made.prompt.agree == (before.logits.argmax(-1) == after.logits.argmax(-1)).mean()
    for layer in range(L):
        for head in range(H):
            both = before.pattern(layer, head), after.pattern(layer, head)
            assert made.moved[layer, head] == pytest.approx(np.abs(both[0] - both[1]).sum(1).mean() / 2, abs=1e-5)
            assert_close(maps[layer, head], both[1][:5, :5], 1e-3)
    with torch.inference_mode():
        z, other = (each(torch.tensor([TEXT]))[0].double().log_softmax(-1) for each in (model, twin))
    following = torch.tensor(TEXT[1:])[:, None]
    assert made.text.before == pytest.approx(-float(z[:-1].gather(1, following).mean()), rel=1e-5)
    assert made.text.loss == pytest.approx(-float(other[:-1].gather(1, following).mean()), rel=1e-5)
    total = sum((weight_error(weight, *stored(weight, kind)) for _, weight in matrices(model)), start=WeightError())
    assert made.error == total == errors(model, kind)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_whole_model_in_a_format(name):
    """It says the same as a copy with those weights, shares the rest, and leaves the model alone."""
    model = tiny_model(VARIANTS[name])
    held = {key: value.clone() for key, value in model.state_dict().items()}
    for head in (False, True):
        twin = copied(model, lambda _, weight: stored(weight, FORMATS[FEW])[0])
        if head:
            twin.embed.weight = torch.nn.Parameter(stored(model.embed.weight, FORMATS[FEW])[0])
            twin.unembed.weight = torch.nn.Parameter(stored(model.unembed.weight, FORMATS[FEW])[0])
        made = with_format(model, FORMATS[FEW], head=head)
        with torch.inference_mode():
            ids = random_ids(2, T)
            assert_close(made(ids), twin(ids), logits_within(twin, ids))
        assert made.blocks[0].norm1 is model.blocks[0].norm1
        assert (made.embed is model.embed) is not head
        if model.config.tie_embeddings:
            assert made.unembed.weight.data_ptr() == made.embed.weight.data_ptr()
    assert all(torch.equal(value, held[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_loaded_models_with_joint_products_stay_as_they_are(name):
    model = tiny_model(VARIANTS[name])
    model.join()
    tune(model)
    pack(model)
    held = {key: value.clone() for key, value in model.state_dict().items()}
    held |= {f"joint {n}": each.weight.clone() for n, each in enumerate(linears(model))}
    twin = copied(tiny_model(VARIANTS[name]), lambda _, weight: stored(weight, FORMATS["int2-32"])[0])
    found, _ = measure(model, (PROMPT, TEXT), ["float32", "int2-32"])
    sweep(model, PROMPT, FORMATS["int2-32"])
    for key in RUNNERS:
        tokens_per_second(model, key, PROMPT, lambda: None)
    now = dict(model.state_dict()) | {f"joint {n}": each.weight for n, each in enumerate(linears(model))}
    assert all(torch.equal(value, held[key]) for key, value in now.items())
    assert found[0].prompt.kl < 1e-9 and found[0].error.relative == 0 and found[0].prompt.agree == 1
    expected = divergence(run(model, tokens_of(PROMPT)).logits, run(twin, tokens_of(PROMPT)).logits)
    assert found[1].prompt.kl == pytest.approx(expected, rel=2e-4)


def test_a_reordered_weight_is_not_multiplied_with_any_more():
    """A product that holds a reordered copy of the old weight would give the old output."""
    model = tiny_model(VARIANTS["gpt2"])
    tune(model)
    for each in linears(model):
        each.products = tuple(experiments.functools.partial(_old, each.weight.detach().clone()) for _ in each.products)
    twin = copied(tiny_model(VARIANTS["gpt2"]), lambda _, weight: stored(weight, FORMATS[FEW])[0])
    with torch.inference_mode():
        ids = random_ids(1, T)
        assert_close(with_format(model, FORMATS[FEW])(ids), twin(ids), logits_within(twin, ids))


def _old(reordered, x, weight, bias):
    return torch.nn.functional.linear(x, reordered, bias)


@pytest.mark.parametrize("spread", [1e-3, 0.1, 3.0, 60.0])
def test_kl_without_cancellation(spread):
    """KL(p || p') = ln sum p e^(d - m), and the loss from it, against float64."""
    generator = torch.Generator().manual_seed(3)
    z = 4 * torch.randn(6, 40, generator=generator)
    other = z + spread * torch.randn(6, 40, generator=generator)
    kl, mean = measured._divergence(z.softmax(-1), other - z)
    assert float(kl.mean()) == pytest.approx(divergence(z, other), rel=1e-3)
    gap = other.double().logsumexp(-1) - z.double().logsumexp(-1)
    assert_close(kl + mean, gap, 1e-5 * max(spread, 1))
    assert (kl >= 0).all()


def test_one_token_has_no_loss():
    model = tiny_model(VARIANTS["gpt2"])
    found, maps = measure(model, ([3], TEXT), [FEW])
    assert found[0].prompt.loss is None and found[0].prompt.before is None and found[0].prompt.kl > 0
    assert found[0].moved.tolist() == [[0.0] * H] * L and maps.by_format[FEW].shape == (L, H, 1, 1)
    assert sweep(model, [3], FORMATS[FEW]).loss is None


def test_which_matrices_are_rounded():
    tied, apart = tiny_model(VARIANTS["llama"]), tiny_model(VARIANTS["qwen3"])
    assert kinds_of(tied) == ("q", "k", "v", "o", "gate", "up", "down")
    assert kinds_of(tiny_model(VARIANTS["gpt2"])) == ("q", "k", "v", "o", "up", "down")
    assert [name for name, _ in matrices(tied, [1])] == [f"1.{kind}" for kind in kinds_of(tied)]
    assert [name for name, _ in matrices(tied, [], head=True)] == ["embed"]
    assert [name for name, _ in matrices(apart, [], head=True)] == ["embed", "unembed"]
    nbytes, weights = total_bytes(tied, FORMATS["float32"])
    assert nbytes == 4 * weights == sum(weight.nbytes for _, weight in matrices(tied))
    for kind in FORMATS.values():
        assert total_bytes(tied, kind)[0] == errors(tied, kind).nbytes
    assert not usable(tied, FORMATS["TQ2_0"]) and usable(tied, FORMATS["Q4_0"]) is any(
        weight.shape[1] % 32 == 0 for _, weight in matrices(tied, [0])
    )


def test_blocks_that_are_not_changed_are_the_models():
    model = tiny_model(VARIANTS["llama"])
    other = changed(model, {1: changed_block(model, 1, lambda *_: None)})
    assert other.blocks[0] is model.blocks[0] and other.blocks[1] is not model.blocks[1]
    assert layer_of(other.blocks[1], "down") is layer_of(model.blocks[1], "down")
    with torch.inference_mode():
        assert_close(other(random_ids(1, T)), model(random_ids(1, T)), 0.0)


TWO_WAY = {"two_way": True, "n_segment": 2, "head_dense": True, "head_bias": True, "embed_norm": True}
ODD = [TWO_WAY, MIXTURES["qwen-moe"], {"output_gate": True}]


@pytest.mark.parametrize("changes", ODD, ids=["two-way", "experts", "output gate"])
def test_a_copy_shares_every_part_that_is_not_changed(changes):
    model, ids = tiny_model(changes), random_ids(1, 9)
    same = changed(model, {n: changed_block(model, n, lambda *_: None) for n in range(L)})
    down = changed_block(model, 0, lambda _, kind, weight: 2 * weight if kind == "down" else None)
    with torch.inference_mode():
        assert torch.equal(same(ids), model(ids))
        assert (changed(model, {0: down})(ids) - model(ids)).abs().max() > 1e-3


@pytest.mark.parametrize("name", ALL_VARIANTS)
def test_patterns_are_those_of_a_trace(name):
    model = tiny_model(ALL_VARIANTS[name])
    traced, text = run(model, tokens_of(PROMPT)), sample(model, PROMPT)
    bound = within(model, torch.tensor(PROMPT)[None], sites=["pattern"])
    with torch.inference_mode():
        for layer in range(L):
            assert_close(
                patterns(model, layer, text.streams[layer]),
                np.stack([traced.pattern(layer, head) for head in range(H)]),
                bound["pattern", layer][0],
            )


@pytest.mark.parametrize("name", ["gemma", "bloom", "oss"])
def test_windows_caps_penalties_and_sinks_are_kept(name):
    """In float32 nothing moves; in fewer bits the patterns of every layer do, as those of a model with such weights."""
    model = tiny_model(ALL_VARIANTS[name])
    (same, moved), maps = measure(model, (PROMPT, TEXT), ["float32", FEW])
    assert same.moved.max() < 1e-5 and (moved.moved > 1e-4).all()
    blocks = {n: changed_block(model, n, lambda _, __, weight: stored(weight, FORMATS[FEW])[0]) for n in range(L)}
    traced = run(changed(model, blocks), tokens_of(PROMPT))
    for layer in range(L):
        for head in range(H):
            assert_close(maps.by_format[FEW][layer, head], np.nan_to_num(traced.pattern(layer, head)), 2e-3)


def test_progress_goes_up_and_may_stop_it():
    model, told = tiny_model(VARIANTS["gpt2"]), []
    measure(model, (PROMPT, TEXT), [FEW, "bf16", "TQ1_0"], progress=lambda done, total, _: told.append((done, total)))
    assert told == sorted(told) and told[0][0] == 0 and told[-1][0] == told[-1][1] == 2 * (L + 3) + 2

    def stop(done, total, what):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(model, (PROMPT, TEXT), [FEW], progress=stop)


def test_maps_are_bounded():
    model = tiny_model(VARIANTS["gpt2"])
    assert map_size(model, 9, 10) == 9 and map_size(model, 100, 10) == experiments.MAP
    huge = 3000
    size = map_size(model, 100, huge)
    assert 1 <= size < experiments.MAP and huge * L * H * 2 * size**2 <= experiments.MAPS


# --- speed ---


@pytest.mark.parametrize("name", VARIANTS)
def test_the_bfloat16_model_says_nearly_the_same(name):
    model = tiny_model(VARIANTS[name])
    with torch.inference_mode():
        text = sample(model, PROMPT)
        found = read(model, text, halved(model), halved(model).trunk(torch.tensor([PROMPT])))[0]
    assert 0 < found.kl < 0.02


def test_speed_is_of_the_model_that_is_named(monkeypatch):
    model, ran = tiny_model(VARIANTS["gpt2"]), []
    for key in RUNNERS:
        assert tokens_per_second(model, key, PROMPT, lambda: None) > 0
    monkeypatch.setitem(RUNNERS, "bf16", lambda given: (ran.append(given), model)[1])
    tokens_per_second(model, "bf16", PROMPT, lambda: None)
    assert ran == [model] and RUNNERS["int8-channel"] is quantized and speed.RUNNERS["float32"](model) is model
    with pytest.raises(ValueError, match="only float32, bf16, int8-channel are run"):
        tokens_per_second(model, "Q4_0", PROMPT, lambda: None)
    full = list(range(model.config.n_ctx))  # a prompt that fills the context is cut, so that there is room to write
    assert tokens_per_second(model, "float32", full, lambda: None) > 0


# --- layer by layer ---


@pytest.mark.parametrize("name", FEW_VARIANTS)
@pytest.mark.parametrize("by", ["matrix", "half"])
def test_each_cell_is_a_model_with_that_part_rounded(name, by):
    model, kind = tiny_model(VARIANTS[name]), FORMATS["int3-32"]
    found, parts = sweep(model, PROMPT, kind, by), parts_of(model, by)
    with torch.inference_mode():
        plain = model(torch.tensor([PROMPT]))[0]
        following = torch.tensor(PROMPT[1:])[:, None]
        for layer in range(L):
            for column, kinds in enumerate(parts.values()):
                wanted = {f"{layer}.{each}" for each in kinds}
                twin = copied(
                    model, lambda at, weight, wanted=wanted: stored(weight, kind)[0] if at in wanted else weight
                )
                z = twin(torch.tensor([PROMPT]))[0]
                assert found.kl[layer, column] == pytest.approx(divergence(plain, z), rel=1e-3, abs=1e-9)
                lost = [-each.double().log_softmax(-1)[:-1].gather(1, following).mean() for each in (z, plain)]
                assert found.loss[layer, column] == pytest.approx(float(lost[0] - lost[1]), abs=2e-6)
                assert found.agree[layer, column] == pytest.approx(
                    float((z.argmax(-1) == plain.argmax(-1)).float().mean())
                )
    whole = outcome(model, kind, (sample(model, PROMPT),) * 2)[0].prompt
    assert found.together.kl == pytest.approx(whole.kl, rel=1e-3)
    assert found.together.loss == pytest.approx(whole.loss, rel=1e-5)
    assert found.parts == tuple(parts) and found.parts[-1] == "block"
    assert found.single.tolist() == found.kl[:, -1].tolist()


def test_layers_before_the_changed_one_are_not_run_again(monkeypatch):
    model, ran = tiny_model(VARIANTS["gpt2"]), []
    blocks = [(layer, block.forward) for layer, block in enumerate(model.blocks)]
    for layer, forward in blocks:
        monkeypatch.setattr(
            model.blocks[layer],
            "forward",
            lambda *given, f=forward, l=layer: (ran.append((l, len(given[0]))), f(*given))[1],
        )
    sweep(model, PROMPT, FORMATS[FEW], "half")
    plain, after = [at for at, rows in ran if rows == 1], [at for at, rows in ran if rows == 3]
    assert plain == list(range(L)) and after == [later for layer in range(L) for later in range(layer + 1, L)]


def test_a_format_that_changes_nothing_changes_nothing():
    found = sweep(tiny_model(VARIANTS["llama"]), PROMPT, FORMATS["float32"])
    assert found.kl.max() < 1e-9 and np.abs(found.loss).max() < 1e-6 and (found.agree == 1).all()


def test_what_cannot_be_swept():
    with pytest.raises(InputError, match="by: row"):
        sweep(tiny_model(), PROMPT, FORMATS[FEW], "row")
    assert isinstance(sample(tiny_model(), PROMPT), StreamSample) and math.isfinite(1.0)
