"""Every documented site is called with its documented axes, and what a tap returns takes the tensor's place."""

import pytest
import torch
import torch.nn.functional as F

from model.gpt.cache import KVCache
from model.gpt.tap import SITES, compose, identity, record
from tests.support.models.helpers import MORE_VARIANTS, VARIANTS, D, E, assert_close, random_ids, tiny_model
from tests.support.models.rounding import logits_within

# With a cache of 7 filled positions, so that the queries (T) are fewer than the keys (S); no two sizes agree.
SIZES = {"B": 5, "T": 9, "S": 16, "H": 4, "G": 2, "D": 48, "E": 14, "M": 100, "V": 53, "N": 3, "1": 1}
CLASSIC = {"d_head": 14}
MODERN = {**VARIANTS["qwen3"], "d_head": 14}
OTHER = {"mixer": "retention", "d_head": 14}
EXPERTS = {"n_expert": 3, "experts_per_token": 2, "d_head": 14}
SANDWICH = {**MORE_VARIANTS["gemma"], "mixer": "softmax", "d_head": 14}
ENCODER = {"norm_placement": "post", "embed_norm": True, "n_segment": 2, "d_head": 14}
BESIDE = {"ssm_beside": True, "d_head": 14}
ENTRY = {"d_layer_input": 6, "d_head": 14}
ALL = (ENTRY, CLASSIC, MODERN, OTHER, EXPERTS, SANDWICH, ENCODER, BESIDE)


@torch.no_grad()
def calls(changes: dict) -> list[tuple[str, int, tuple]]:
    """(site, layer, shape) of every call in one forward, in order."""
    model, seen = tiny_model(changes), []
    cache = KVCache.empty(model.config, SIZES["B"], SIZES["S"])
    model(random_ids(SIZES["B"], 7), cache=cache)

    def tap(site: str, layer: int, tensor: torch.Tensor) -> torch.Tensor:
        seen.append((site, layer, tuple(tensor.shape)))
        return tensor

    model(random_ids(SIZES["B"], SIZES["T"]), cache=cache, tap=tap)
    return seen


def test_every_site_is_called_and_no_other():
    assert {site for changes in ALL for site, _, _ in calls(changes)} == set(SITES)


@pytest.mark.parametrize("changes", [*ALL, VARIANTS["post"], VARIANTS["neox"]], ids=str)
def test_axes_are_as_documented(changes: dict):
    sizes = SIZES | {"E": changes.get("d_head", 12), "G": changes.get("n_kv_head", 2)}
    for site, layer, shape in calls(changes):
        axes = SITES[site][0].split()
        assert shape == tuple(sizes[axis] for axis in axes), f"{site} of layer {layer}"


def test_the_order_and_the_layers_of_the_calls():
    seen = [(site, layer) for site, layer, _ in calls(CLASSIC)]
    block = [
        *("resid_pre", "norm1_in", "norm1_scale", "norm1_out"),
        *("q", "k", "v", "scores", "pattern", "z", "attn_out"),
        *("resid_mid", "norm2_in", "norm2_scale", "norm2_out", "mlp_pre", "mlp_post", "mlp_out", "resid_post"),
    ]
    expected = [("embed", -1), ("pos_embed", -1)] + [(site, layer) for layer in range(3) for site in block]
    assert seen == [*expected, *((site, 3) for site in ("final_in", "final_scale", "final_out", "logits"))]


def test_every_site_says_what_it_means():
    for site, (axes, meaning) in SITES.items():
        assert set(axes.split()) <= set(SIZES), site
        assert len(meaning) > 10, site


@pytest.mark.parametrize("name", VARIANTS)
def test_the_identity_tap_changes_nothing(name: str):
    model, ids = tiny_model(VARIANTS[name]), random_ids(2, 19)
    with torch.no_grad():
        plain = model(ids)
        assert_close(model(ids, tap=identity), plain, logits_within(model, ids))


def test_record_keeps_what_was_asked_for_and_nothing_else():
    store: dict = {}
    with torch.no_grad():
        logits = tiny_model()(random_ids(2, 5), tap=record({"z", "logits"}, store))
    assert set(store) == {("z", 0), ("z", 1), ("z", 2), ("logits", 3)}
    assert torch.equal(store["logits", 3], logits)


def test_an_unknown_site_is_refused():
    with pytest.raises(ValueError, match=r"unknown sites \['attn', 'zz'\]; known: embed, "):
        record(["zz", "q", "attn"], {})


def test_composed_taps_act_in_order():
    store: dict = {}

    def add(site, layer, x):
        return x + 3

    def double(site, layer, x):
        return x * 2

    tap = compose(add, record(["z"], store), double)
    assert tap("z", 1, torch.tensor(1.0)) == 8
    assert store["z", 1] == 4
    assert compose()("z", 0, 7) == 7


# --- edits, followed by hand to the logits of a one-layer pre-norm model ---


def edited(site: str, change) -> tuple:
    """A one-layer model, its unedited tensors, its logits with `change` applied at the site, and their bound."""
    model, ids, store = tiny_model({"n_layer": 1}), random_ids(1, 11), {}

    def edit(name: str, layer: int, x: torch.Tensor) -> torch.Tensor:
        return change(x) if name == site else x

    with torch.no_grad():
        before = model(ids, tap=record(SITES, store))
        after = model(ids, tap=edit)
    assert (before - after).abs().max() > 0.01
    return model, store, after, logits_within(model, ids, edit)


def rest_of_the_block(model, resid_pre: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Logits from the residual stream entering the block and the heads' outputs. z [B, H, T, E]"""
    block, final = model.blocks[0], model.final_norm
    mid = resid_pre + F.linear(z.transpose(1, 2).flatten(2), block.attn.o.weight, block.attn.o.bias)
    y = F.layer_norm(mid, (D,), block.norm2.weight, block.norm2.bias)
    y = F.gelu(F.linear(y, block.mlp.up.weight, block.mlp.up.bias), approximate="tanh")
    x = mid + F.linear(y, block.mlp.down.weight, block.mlp.down.bias)
    return F.layer_norm(x, (D,), final.weight, final.bias) @ model.embed.weight.T


def test_a_head_zeroed_at_z():
    def zero(z):
        z = z.clone()
        z[:, 2] = 0
        return z

    model, at, logits, bound = edited("z", zero)
    assert_close(logits, rest_of_the_block(model, at["resid_pre", 0], zero(at["z", 0])), bound)
    # The same as a projection that does not read the head.
    model.blocks[0].attn.o.weight.data[:, 2 * E : 3 * E] = 0
    with torch.no_grad():
        assert_close(logits, model(random_ids(1, 11)), bound, "weights zeroed")


def test_a_pattern_forced_on_the_first_token():
    def first(pattern):
        forced = torch.zeros_like(pattern)
        forced[..., 0] = 1
        return forced

    model, at, logits, bound = edited("pattern", first)
    v = at["v", 0].repeat_interleave(2, dim=1)  # four heads read two value heads
    assert_close(logits, rest_of_the_block(model, at["resid_pre", 0], v[:, :, :1].expand(1, 4, 11, 12)), bound)


def test_scores_masked_by_hand():
    """Hiding key 0 from all later queries leaves the others' weights in proportion."""

    def hide(scores):
        scores = scores.clone()
        scores[:, :, 1:, 0] = -torch.inf
        return scores

    model, at, logits, bound = edited("scores", hide)
    pattern = at["pattern", 0].clone()
    pattern[:, :, 1:, 0] = 0
    pattern = pattern / pattern.sum(-1, keepdim=True)
    z = pattern @ at["v", 0].repeat_interleave(2, dim=1)
    assert_close(logits, rest_of_the_block(model, at["resid_pre", 0], z), bound)


def test_a_vector_added_to_the_residual_stream():
    steer = torch.linspace(-2, 3, D)
    model, at, logits, bound = edited("resid_post", lambda x: x + steer)
    final = model.final_norm
    expected = F.layer_norm(at["resid_post", 0] + steer, (D,), final.weight, final.bias) @ model.embed.weight.T
    assert_close(logits, expected, bound)
    model, at, logits, bound = edited("resid_pre", lambda x: x + steer)
    with torch.no_grad():
        x = at["resid_pre", 0] + steer
        q, k, v = model.blocks[0].attn.project(model.blocks[0].norm1(x), 0, model.prepare(0, 11))
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert_close(logits, rest_of_the_block(model, x, z), bound)
