"""A model that may see less: what is measured of it, and texts that are written with a bounded cache."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.errors import InputError
from model.forgetting.bounded import BoundedMemory
from model.forgetting.eviction import read_through, snap_keep
from model.forgetting.policies import CACHES, POLICIES, Policy, mask_of
from model.forgetting.reading import read, read_all
from model.generation.generate import generate
from model.generation.strategies import STRATEGIES, DecodingPlan, Strategy
from model.gpt.cache import KVCache
from model.gpt.layers import attention_scores, mix
from tests.support.models.helpers import VARIANTS, assert_close, tiny_model

T = 30


def model_of(variant="llama"):
    return tiny_model({**VARIANTS[variant], "vocab_size": 64, "n_ctx": 64})


def ids_of(rows=2, seed=0):
    return torch.randint(0, 64, (rows, T + 1), generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
def restricted(model, ids, seen):
    """Logits under a mask, by a kernel of its own."""

    def attend(layer, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)

    return model.logits(model.trunk(ids, attend=attend))


@pytest.mark.parametrize("variant", ["gpt2", "llama", "post"])
@pytest.mark.parametrize("kind", ["window", "first", "longformer"])
def test_losses_and_divergences_are_those_of_the_masked_model(variant, kind):
    model, ids, policy = model_of(variant), ids_of(), Policy(kind, 6, first=2)
    found = read(model, ids[:, :-1], policy, following=ids[:, -1])
    full, less = (
        restricted(model, ids[:, :-1], seen).log_softmax(-1)
        for seen in (torch.ones(T, T).tril().bool(), mask_of(policy, T))
    )
    for loss, each in ((found.full_loss, full), (found.loss, less)):
        assert_close(torch.from_numpy(loss), -each.gather(-1, ids[:, 1:, None])[..., 0], atol=2e-5)
    assert_close(torch.from_numpy(found.kl), (full.exp() * (full - less)).sum(-1), atol=2e-5)
    assert np.array_equal(found.agree, (full.argmax(-1) == less.argmax(-1)).numpy())
    assert found.loss.mean() != found.full_loss.mean()
    assert {i: less for i, _, less in found.after}[found.after[0][0]] == pytest.approx(
        float(less[0, -1].exp().max()), abs=1e-5
    )


def test_the_share_that_is_lost_is_that_of_the_full_softmax():
    model, ids, policy = model_of(), ids_of()[:, :-1], Policy("window", 5)
    found, wanted = read(model, ids, policy), {}

    def attend(layer, q, k, v):
        pattern = attention_scores(q, k).softmax(-1)
        wanted[layer] = pattern.masked_fill(mask_of(policy, T), 0).sum(-1).mean((0, 2))
        weights, _ = read_through(policy, attention_scores(q, k)[:, :, None])
        return mix(weights[:, :, 0], v)

    with torch.inference_mode():
        model.trunk(ids, attend=attend)
    assert_close(torch.from_numpy(found.lost), torch.stack(list(wanted.values())), atol=1e-5)
    assert (found.lost > 0).all() and found.kept.max() == 5


@pytest.mark.parametrize("kind", POLICIES)
def test_a_budget_as_long_as_the_text_is_full_attention(kind):
    model, ids = model_of(), ids_of()[:, :-1]
    found = read(model, ids, Policy(kind, 4 * T, dilation=1))
    assert found.kl.max() < 1e-6 and found.agree.all() and found.lost.max() < 1e-6
    assert np.allclose(found.loss[:, :-1], found.full_loss[:, :-1], atol=2e-5)
    assert np.isnan(found.loss[:, -1]).all()  # nobody knows the token after the text
    if found.gone is not None:
        assert (found.gone == T).all()


def test_parts_of_a_batch_are_read_like_the_whole(monkeypatch):
    model, ids = model_of(), ids_of(rows=5)[:, :-1]
    whole = read(model, ids, Policy("h2o", 6))
    monkeypatch.setattr("model.forgetting.reading._WEIGHTS", 2 * model.config.n_head * T * T)
    parts = read(model, ids, Policy("h2o", 6))
    assert np.allclose(whole.loss, parts.loss, atol=1e-5, equal_nan=True) and np.allclose(whole.lost, parts.lost)
    assert np.array_equal(whole.gone, parts.gone)


def test_several_policies_read_the_same_windows():
    model, told = model_of(), []
    policies = [Policy("window", 4), Policy("first", 4)]
    found = read_all(model, ids_of(), policies, lambda done, all, what: told.append((done, all)))
    assert [each.policy for each in found] == policies and told == [(0, 2), (1, 2), (2, 2)]
    assert np.array_equal(found[0].full_loss, found[1].full_loss) and np.isfinite(found[0].loss).all()


def test_full_attention_is_computed_once_where_it_is_kept_and_from_where_predictions_are_compared(monkeypatch):
    model, policies, computed = model_of(), [Policy("window", 4), Policy("first", 4), Policy("h2o", 4)], []
    plain = model.logits
    monkeypatch.setattr(model, "logits", lambda x: (computed.append(x.shape[:2].numel()), plain(x))[1])
    whole, all_of_it = read_all(model, ids_of(), policies), sum(computed)
    computed.clear()
    late, half_of_it = read_all(model, ids_of(), policies, since=9), sum(computed)
    B, n = late[0].loss.shape
    assert n == T - 9 and half_of_it == (1 + 3) * B * n + 2 * 3  # once in full, once a policy; and what comes next
    monkeypatch.setattr("model.forgetting.reading._KEPT", 0)
    computed.clear()
    again = read_all(model, ids_of(), policies)
    assert sum(computed) - all_of_it == 2 * B * T  # in full for each policy
    for a, b, c in zip(whole, late, again, strict=True):
        for name in ("loss", "full_loss", "kl", "agree"):
            assert np.allclose(getattr(a, name)[:, 9:], getattr(b, name), atol=1e-6), name
            assert np.array_equal(getattr(a, name), getattr(c, name)), name
        assert np.array_equal(a.lost, b.lost) and np.array_equal(a.kept, b.kept) and np.array_equal(a.gone, b.gone)


# --- writing with a bounded cache ---


@torch.inference_mode()
def stepped(model, ids, P, policy):
    """Logits of the prompt's end and of each token after it, one by one, and the memory that was used."""
    cache, memory = KVCache.empty(model.config, 1, T), BoundedMemory([policy])
    logits = [model.logits(model.trunk(ids[:, :P], cache=cache, attend=memory))[:, -1]]
    for t in range(P, T):
        memory.follow([0], [policy])
        logits.append(model.logits(model.trunk(ids[:, t : t + 1], cache=cache, attend=memory))[:, -1])
        for there in memory.seen.values():
            assert policy.kind == "snapkv" or there.sum(-1).max() <= max(policy.budget - 1, 0) or t + 1 < policy.budget
    return torch.cat(logits)


@pytest.mark.parametrize("variant", ["gpt2", "llama"])
@pytest.mark.parametrize(("P", "budget"), [(1, 3), (8, 5), (12, 6), (20, 1), (5, 20), (7, 7)])
@pytest.mark.parametrize("kind", ["window", "first", "snapkv"])
def test_step_by_step_equals_the_mask(variant, P, budget, kind):
    model, ids, policy = model_of(variant), ids_of(1)[:, :-1], Policy(kind, budget, first=2, read=P / T)
    if kind == "snapkv":
        wanted = {}

        def attend(layer, q, k, v):
            B, H, G = 1, q.shape[1], k.shape[1]
            weights, _ = read_through(policy, attention_scores(q, k).view(B, G, H // G, T, T))
            return mix(weights.view(B, H, T, T), v)

        with torch.inference_mode():
            wanted = model.logits(model.trunk(ids, attend=attend))
    else:
        seen = mask_of(policy, T)
        seen[:P] = torch.ones(T, T).tril().bool()[:P]  # the prompt is read in full
        wanted = restricted(model, ids, seen)
    assert_close(stepped(model, ids, P, policy), wanted[0, P - 1 :], atol=2e-5)


def test_h2o_keeps_the_keys_with_the_largest_weights():
    model, ids, P = model_of(), ids_of(1)[:, :-1], 12
    cache, memory, policy = KVCache.empty(model.config, 1, T), BoundedMemory([Policy("h2o", 6)]), Policy("h2o", 6)
    patterns = {}

    def attend(layer, q, k, v):
        if layer not in patterns:
            patterns[layer] = attention_scores(q, k).softmax(-1)
        return memory(layer, q, k, v)

    with torch.inference_mode():
        model.trunk(ids[:, :P], cache=cache, attend=attend)
        memory.follow([0], [policy])
    G = model.config.n_kv_head
    for layer, pattern in patterns.items():
        mass = pattern[0].view(G, -1, P, P).sum((1, 2))
        mass[:, P - 2 :] = math.inf  # of the next six, three are recent, one of them the token to come
        for head in range(G):
            wanted = set(mass[head].topk(5).indices.tolist())
            assert set(memory.seen[layer][0, head].nonzero().flatten().tolist()) == wanted


@torch.inference_mode()
@pytest.mark.parametrize(("P", "budget"), [(140, 9), (5, 8), (20, 1), (7, 7)])
def test_heavy_hitters_go_one_by_one_while_it_writes(P, budget):
    """What goes and what is read, worked out token by token for each head of keys: Zhang et al. 2023, algorithm 1."""
    G, R, E, length, generator = 2, 2, 4, P + 12, torch.Generator().manual_seed(0)
    q = 2 * torch.randn(1, G * R, length, E, generator=generator)
    k, v = (torch.randn(1, G, length, E, generator=generator) for _ in range(2))
    policy = Policy("h2o", budget)
    memory, scores = BoundedMemory([policy]), attention_scores(q, k)[0].view(G, R, length, length)
    memory(0, q[:, :, :P], k[:, :, :P], v[:, :, :P])  # the prompt is read in full
    mass = [scores[g, :, :P, :P].softmax(-1).sum((0, 1)).tolist() for g in range(G)]
    kept = [list(range(P)) for _ in range(G)]

    def shrink(g, now):
        """Keys go until the next token fits; it is one of the recent half."""
        while len(kept[g]) > budget - 1:
            old = [s for s in kept[g] if s <= now - (budget - budget // 2 - 1)]
            kept[g].remove(min(old, key=lambda s: mass[g][s]))

    for g in range(G):
        if budget <= P:
            shrink(g, P - 1)
    for t in range(P, length):
        memory.follow([0], [policy])
        out = memory(0, q[:, :, t : t + 1], k[:, :, : t + 1], v[:, :, : t + 1])[0].view(G, R, E)
        for g in range(G):
            kept[g].append(t)
            rows = scores[g, :, t, kept[g]].softmax(-1)  # [R, keys]
            assert_close(out[g], rows @ v[0, g, kept[g]], 1e-5)
            mass[g].append(0.0)
            for s, more in zip(kept[g], rows.sum(0).tolist(), strict=True):
                mass[g][s] += more
            shrink(g, t)
            assert memory.seen[0][0, g].nonzero().flatten().tolist() == kept[g]


@torch.inference_mode()
def test_snapkv_asks_the_last_sixteen_queries_of_a_prompt():
    P, G, R, policy = 44, 2, 2, Policy("snapkv", 36)
    generator = torch.Generator().manual_seed(1)
    q, k = 3 * torch.randn(1, G * R, P, 4, generator=generator), torch.randn(1, G, P, 4, generator=generator)
    memory = BoundedMemory([policy])
    memory(0, q, k, k)
    memory.follow([0], [policy])
    wanted = snap_keep(policy, attention_scores(q, k).softmax(-1).view(1, G, R, P, P))
    assert torch.equal(memory.seen[0], wanted) and (wanted.sum(-1) == 36).all()


@torch.inference_mode()
def test_nothing_goes_where_there_is_room():
    """A row that goes on with a larger budget fills it first."""
    x, memory = torch.randn(1, 1, 12, 4, generator=torch.Generator().manual_seed(2)), BoundedMemory([Policy()])
    memory(0, x[:, :, :8], x[:, :, :8], x[:, :, :8])
    counts = []
    for t, budget in ((8, 4), (9, 6), (10, 6), (11, 6)):
        memory.follow([0], [Policy("window", budget)])
        memory(0, x[:, :, t : t + 1], x[:, :, : t + 1], x[:, :, : t + 1])
        counts.append(int(memory.seen[0].sum()))
    assert counts == [3, 4, 5, 5]


def written(model, strategies, ids=(3, 5, 7, 9, 2, 4), tokens=20):
    texts = [[] for _ in strategies]
    for tick in generate(model, list(ids), strategies, DecodingPlan(tokens), 64):
        for text, change in zip(texts, tick.changes, strict=True):
            if change:
                del text[len(text) - change.drop :]
                text += [each.id for each in change.made]
    return texts


@pytest.mark.parametrize("kind", CACHES)
def test_memories_in_one_batch_write_what_each_writes_alone(kind):
    model = model_of()
    memory = Policy(kind, 4, first=1)
    some = [
        STRATEGIES["greedy"],
        Strategy(STRATEGIES["temperature"].steps, memory=memory),
        Strategy(method="beam", options=(("beams", 3), ("length_penalty", 1)), memory=memory),
        Strategy(method="contrastive", options=(("candidates", 3), ("alpha", 0.6))),
    ]
    together = written(model, some)
    assert together == [written(model, [each])[0] for each in some]
    all_keys = [Strategy(each.steps, each.method, each.options) for each in some]
    plain = written(model, all_keys)
    assert plain[0] == together[0] and plain[3] == together[3]
    roomy = [Strategy(each.steps, each.method, each.options, memory=Policy(kind, 100)) for each in some]
    assert written(model, roomy) == plain


def test_a_bounded_cache_writes_something_else():
    model, some = model_of(), STRATEGIES["temperature"].steps
    texts = written(model, [Strategy(some), Strategy(some, memory=Policy("window", 2))])
    assert texts[0] != texts[1]


def test_a_memory_that_no_cache_can_have_is_refused():
    with pytest.raises(InputError, match="cannot use this policy"):
        generate(model_of(), [1, 2], [Strategy(memory=Policy("bigbird"))], DecodingPlan(2), 64)
