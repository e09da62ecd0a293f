"""The forward against the papers' formulas, published parameter counts, and what it refuses."""

import math

import pytest
import torch
import torch.nn.functional as F

from model.gpt.layers import sinusoidal_positions
from model.gpt.presets import preset
from model.gpt.tap import record
from model.gpt.transformer import Transformer
from tests.support.models.helpers import (
    ALL_VARIANTS,
    N_CTX,
    VARIANTS,
    D,
    L,
    V,
    assert_close,
    random_ids,
    tiny_config,
    tiny_model,
)
from tests.support.models.rounding import logits_within, rounded, within
from tests.support.models.textbook import textbook_logits


def n_params(model: Transformer) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
        ("llama", 134_515_008),
        ("qwen3-8b", 8_190_735_360),
        # 6 blocks of 12 x 384^2, 13 gains of 384, 65 characters and 256 positions of 384.
        ("shakespeare-char", 10_745_088),
        # 2 blocks of 4 (128^2 + 128) + (128 x 512 + 512) + (512 x 128 + 128) + 4 x 128, 2 x 8192 x 128, 256 x 128.
        ("minigpt", 2_526_464),
        # 6 blocks of 4 x 512^2 + (512 x 2048 + 2048) + (2048 x 512 + 512) + 4 x 512, 37000 x 512.
        ("vanilla-decoder", 37_846_016),
    ],
)
def test_parameter_counts(name: str, count: int):
    with torch.device("meta"):
        assert n_params(Transformer(preset(name))) == count


def test_a_tied_head_is_one_parameter():
    tied, free = Transformer(tiny_config()), Transformer(tiny_config({"tie_embeddings": False}))
    assert tied.unembed.weight is tied.embed.weight
    assert free.unembed.weight is not free.embed.weight
    assert n_params(free) - n_params(tied) == V * D


def test_tie_after_the_embedding_was_replaced():
    model = Transformer(tiny_config())
    model.embed.weight = torch.nn.Parameter(torch.ones(V, D))
    model.tie()
    assert model.unembed.weight is model.embed.weight


def test_initialization():
    """Normal(0, 0.02); what writes to the stream is sqrt(2 L) smaller; gains 1, biases 0. Radford et al. 2019, 2.3."""
    torch.manual_seed(0)
    model = Transformer(tiny_config({"d_model": 480, "vocab_size": 500}))
    small = 0.02 / math.sqrt(2 * L)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            expected = small if name.endswith(("attn.o.weight", "mlp.down.weight")) else 0.02
            assert parameter.std().item() == pytest.approx(expected, rel=0.05), name
        else:
            assert (parameter == (0 if name.endswith("bias") else 1)).all(), name


@pytest.mark.parametrize("name", ALL_VARIANTS)
def test_logits_equal_the_textbook(name: str):
    model = tiny_model(ALL_VARIANTS[name])
    ids = random_ids(2, 19)
    with torch.no_grad():
        logits = model(ids)
        tapped = model(ids, tap=lambda site, layer, x: x)
    assert logits.shape == (2, 19, V)
    assert logits.std() > 0.1  # or the comparison would see nothing
    bound = logits_within(model, ids)
    for b in range(2):
        expected = textbook_logits(model, ids[b].tolist())
        assert_close(logits[b], expected, bound[b], "fused")
        assert_close(tapped[b], expected, bound[b], "with a tap")


def _one_block(changes: dict) -> tuple:
    """The only block of a model, every site in it, and the bounds of those."""
    model = tiny_model({**changes, "n_layer": 1})
    store: dict = {}
    sites = ("resid_pre", "norm2_in", "attn_out", "resid_mid", "mlp_out", "resid_post")
    with torch.no_grad():
        model(random_ids(1, 11), tap=record(sites, store))
    bound = within(model, random_ids(1, 11), sites=sites)
    return model.blocks[0], {site: store[site, 0] for site in sites}, {site: bound[site, 0] for site in sites}


def test_a_post_norm_block_is_norm_of_x_plus_f_of_x():
    block, at, bound = _one_block({"norm_placement": "post"})
    x, n1, n2 = at["resid_pre"], block.norm1, block.norm2
    mid = F.layer_norm(x + at["attn_out"], (D,), n1.weight, n1.bias, 1e-5)
    out = F.layer_norm(mid + at["mlp_out"], (D,), n2.weight, n2.bias, 1e-5)
    for site, expected in (("resid_mid", mid), ("resid_post", out), ("norm2_in", mid + at["mlp_out"])):
        assert_close(at[site], expected, bound[site], site)


def test_a_parallel_block_reads_its_input_twice():
    _, at, bound = _one_block({"parallel_residual": True})
    assert torch.equal(at["norm2_in"], at["resid_pre"])
    assert_close(at["resid_post"], at["resid_pre"] + at["attn_out"] + at["mlp_out"], bound["resid_post"])


def test_a_pre_norm_block_reads_the_sum():
    _, at, _ = _one_block({})
    assert torch.equal(at["norm2_in"], at["resid_mid"])
    assert_close(at["resid_mid"], at["resid_pre"] + at["attn_out"], 0)
    assert_close(at["resid_post"], at["resid_mid"] + at["mlp_out"], 0)


def test_embedding_scale_applies_to_the_token_not_to_the_position():
    model = tiny_model({"embed_scale": True, "positions": "sinusoidal"})
    ids, store = random_ids(1, 5), {}
    model(ids, tap=record(["resid_pre"], store))
    expected = model.embed.weight[ids] * math.sqrt(D) + sinusoidal_positions(0, 5, D)
    assert_close(store["resid_pre", 0], expected, rounded(expected.abs().amax(-1, keepdim=True), 3))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.zeros(5, dtype=torch.long), r"\[B, T\].*got \(5,\)"),
        (torch.zeros(1, 0, dtype=torch.long), r"at least one token, got \(1, 0\)"),
        (torch.zeros(0, 3, dtype=torch.long), r"at least one token, got \(0, 3\)"),
        (torch.tensor([[0, V]]), f"0 .. {V - 1}, got 0 .. {V}"),
        (torch.tensor([[0, -1]]), f"0 .. {V - 1}, got -1 .. 0"),
        (torch.zeros(1, N_CTX + 1, dtype=torch.long), f"learned up to {N_CTX}, got 0 \\+ {N_CTX + 1} tokens"),
    ],
)
def test_ids_that_cannot_be_run(ids: torch.Tensor, message: str):
    with pytest.raises(ValueError, match=message):
        Transformer(tiny_config())(ids)


def test_rope_runs_beyond_the_context_it_was_trained_for():
    model = tiny_model(VARIANTS["llama"])
    with torch.no_grad():
        assert model(random_ids(1, N_CTX + 3)).isfinite().all()


def test_a_batch_equals_its_rows():
    model, ids = tiny_model(), random_ids(3, 9)
    with torch.no_grad():
        together, bound = model(ids), logits_within(model, ids)
        for b in range(3):
            assert_close(together[b], model(ids[b : b + 1])[0], bound[b], f"row {b}")
