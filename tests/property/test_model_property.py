"""What must hold for every configuration the model can be given."""

import json

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.gpt import layers
from model.gpt.cache import KVCache
from model.gpt.config import CHOICES, ModelConfig, from_dict, to_dict
from model.gpt.rope_scaling import RopeScaling
from model.gpt.tap import identity, record
from model.gpt.transformer import Transformer
from model.tracing.head_reducer import HeadReducer
from tests.support.models.helpers import assert_close, shake
from tests.support.models.rounding import logits_within, rounded, sums

SETTINGS = settings(max_examples=30, deadline=None, derandomize=True, database=None)


@st.composite
def configs(draw) -> ModelConfig:
    """Any combination of norm, placement, positions, rules of attention, MLP, multipliers, head grouping and biases."""
    groups, per_group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    placement = draw(st.sampled_from(["pre", "post", "output", "sandwich"]))
    positions = draw(st.sampled_from(["learned", "sinusoidal", "rope", "alibi", "none"]))
    parallel, n_layer = placement == "pre" and draw(st.booleans()), draw(st.integers(1, 3))
    mixers = st.lists(st.sampled_from(["softmax", "sliding_window"]), min_size=n_layer, max_size=n_layer)
    scaling = RopeScaling(factor=4.0, low_freq_factor=1.0, high_freq_factor=3.0, original_n_ctx=16)
    flags = [
        "norm_bias",
        "qk_norm",
        "embed_scale",
        "q_bias",
        "k_bias",
        "v_bias",
        "o_bias",
        "mlp_bias",
        "tie_embeddings",
        "norm_weight",
        "embed_norm",
        "sinks",
        "head_bias",
    ]
    return ModelConfig(
        vocab_size=draw(st.integers(2, 31)),
        n_ctx=24,
        n_layer=n_layer,
        d_model=draw(st.integers(4, 20)),
        n_head=groups * per_group,
        n_kv_head=groups,
        d_head=2 * draw(st.integers(2, 5)),
        d_mlp=draw(st.integers(1, 30)),
        norm=draw(st.sampled_from(["layernorm", "rmsnorm"])),
        norm_eps=draw(st.sampled_from([1e-6, 1e-5, 1e-2])),
        norm_placement=placement,
        parallel_residual=parallel,
        shared_norm=parallel and draw(st.booleans()),
        qk_norm_over=draw(st.sampled_from(CHOICES["qk_norm_over"])),
        qk_norm_kind=draw(st.sampled_from(CHOICES["qk_norm_kind"])),
        mixer=draw(st.just("softmax") | mixers.map(tuple)),
        window=draw(st.integers(1, 9)),
        final_norm=draw(st.sampled_from([None, True, False])),
        positions=positions,
        rope_theta=draw(st.sampled_from([100.0, 10_000.0])),
        rope_scaling=draw(st.sampled_from([None, scaling])) if positions == "rope" else None,
        rope_pairs=draw(st.sampled_from(["halves", "adjacent"])),
        rope_theta_local=draw(st.sampled_from([None, 50.0])),
        unrotated=draw(st.sampled_from([(), (0,)])),
        embed_multiplier=draw(st.sampled_from([1.0, 3.0])),
        residual_multiplier=draw(st.sampled_from([1.0, 0.4])),
        logit_multiplier=draw(st.sampled_from([1.0, 0.5])),
        score_multiplier=draw(st.sampled_from([None, 0.2])),
        score_cap=draw(st.sampled_from([None, 2.0])),
        logit_cap=draw(st.sampled_from([None, 3.0])),
        qkv_limit=draw(st.sampled_from([None, 0.8])),
        mlp=draw(st.sampled_from(CHOICES["mlp"][:-1])),
        **{flag: draw(st.booleans()) for flag in flags},
    )


@st.composite
def runs(draw) -> tuple[Transformer, torch.Tensor]:
    """A shaken model and a prompt [1, T] of it."""
    config = draw(configs())
    model = Transformer(config).eval()
    shake(model, torch.Generator().manual_seed(draw(st.integers(0, 2**20))))
    ids = draw(st.lists(st.integers(0, config.vocab_size - 1), min_size=1, max_size=14))
    return model, torch.tensor([ids])


def size(x: torch.Tensor) -> float:
    """1, or the largest entry where it is larger: float32 rounds in proportion."""
    return max(1.0, x.abs().max().item())


@SETTINGS
@given(configs())
def test_config_to_dict_to_config(config: ModelConfig):
    assert from_dict(to_dict(config)) == config
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config


@SETTINGS
@given(runs())
@torch.no_grad()
def test_pattern_rows_sum_to_1_or_less_with_a_sink_and_do_not_see_the_future(case):
    model, ids = case
    store, T = {}, ids.shape[1]
    model(ids, tap=record(["pattern"], store))
    assert len(store) == model.config.n_layer
    for pattern in store.values():
        assert pattern.shape == (1, model.config.n_head, T, T)
        total = pattern.sum(-1)
        if model.config.sinks:
            assert (total < 1).all()
        else:
            assert_close(total, torch.ones(pattern.shape[:-1]), sums(T, 1))
        assert (pattern.triu(1) == 0).all() and (pattern >= 0).all()


@SETTINGS
@given(runs(), st.data())
@torch.no_grad()
def test_a_token_does_not_change_what_lies_before_it(case, data):
    model, ids = case
    changed = data.draw(st.integers(0, ids.shape[1] - 1))
    other = ids.clone()
    other[0, changed] = (
        ids[0, changed] + data.draw(st.integers(1, model.config.vocab_size - 1))
    ) % model.config.vocab_size
    before, after = model(ids), model(other)
    assert_close(after[:, :changed], before[:, :changed], logits_within(model, ids)[:, :changed])


@SETTINGS
@given(runs(), st.data())
@torch.no_grad()
def test_cached_decoding_in_any_chunking_is_the_full_forward(case, data):
    model, ids = case
    cache, parts, left = KVCache.empty(model.config, 1, ids.shape[1]), [], ids
    full = model(ids)
    while left.shape[1]:
        n = data.draw(st.integers(1, left.shape[1]))
        parts.append(model(left[:, :n], cache=cache))
        left = left[:, n:]
    assert_close(torch.cat(parts, 1), full, logits_within(model, ids))


@SETTINGS
@given(runs())
@torch.no_grad()
def test_the_identity_tap_and_the_head_reducer_change_nothing(case):
    model, ids = case
    plain, bound = model(ids), logits_within(model, ids)
    assert_close(model(ids, tap=identity), plain, bound, "identity")
    reducer = HeadReducer(ids[0], model.config.n_layer, model.config.n_head)
    assert_close(model.logits(model.trunk(ids, attend=reducer, see=reducer.see)), plain, bound, "reducer")
    reducer.finish()
    tapped = HeadReducer(ids[0], model.config.n_layer, model.config.n_head, identity)
    model.trunk(ids, attend=tapped, see=tapped.see)
    assert_close(reducer.metrics, tapped.metrics, 1e-4, "metrics")


@SETTINGS
@given(runs())
@torch.no_grad()
def test_the_sublayers_add_up_to_the_residual_stream(case):
    model, ids = case
    store: dict = {}
    sites = ["resid_pre", "resid_mid", "resid_post", "norm1_in", "norm2_in", "attn_out", "mlp_out"]
    model(ids, tap=record([*sites, "after1_out", "after2_out"], store))
    last = model.config.n_layer - 1
    if model.config.norm_placement != "post":
        added = ("attn_out", "mlp_out") if model.config.norm_placement == "pre" else ("after1_out", "after2_out")
        parts = [store["resid_pre", 0], *(x for (site, _), x in store.items() if site in added)]
        assert_close(sum(parts), store["resid_post", last], sums(len(parts), sum(x.abs() for x in parts)))
    else:
        for layer in range(last + 1):
            for read, x, added in (("norm1_in", "resid_pre", "attn_out"), ("norm2_in", "resid_mid", "mlp_out")):
                total = store[x, layer] + store[added, layer]
                assert_close(store[read, layer], total, rounded(total))


@SETTINGS
@given(configs().filter(lambda c: c.positions == "rope"), st.integers(0, 60), st.integers(0, 60), st.integers(0, 100))
def test_rope_scores_depend_on_the_difference_only(config: ModelConfig, i: int, j: int, shift: int):
    generator = torch.Generator().manual_seed(i + 61 * j)
    q, k = torch.randn(2, 1, config.d_head, generator=generator)

    def score(i: int, j: int) -> torch.Tensor:
        a, b = (layers.rotate(x, *layers.rope_table(config, at, 1), config.rope_pairs) for x, at in ((q, i), (k, j)))
        return (a * b).sum()

    # An angle n theta is rounded by up to n theta u, theta at most 1, and turns its pair's share of q.k by as much.
    length, turns = q.norm() * k.norm(), 2 * (i + j + shift)  # at most: Cauchy-Schwarz over the pairs
    assert_close(score(i + shift, j + shift), score(i, j), sums(config.d_head, length) + rounded(length, turns))
