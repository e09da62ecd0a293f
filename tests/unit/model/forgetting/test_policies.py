"""What each policy leaves in sight, by hand and by properties that all of them have."""

import math

import pytest
import torch

from model.errors import InputError
from model.forgetting.costs import cached, cost_of, seen_by
from model.forgetting.eviction import gone_of, may_forget, prompt_end, read_through, snap_keep, visible
from model.forgetting.policies import (
    CACHES,
    MOST_BUDGET,
    POLICIES,
    Policy,
    check_memory,
    globals_of,
    mask_of,
    stride_of,
)
from model.forgetting.sparse import SPARSE, computed, sparse_attention, timed
from model.gpt.layers import attention_scores, mix
from model.gpt.presets import PRESETS

LENGTHS, BUDGETS = (1, 2, 9, 24), (1, 2, 3, 5, 8, 30)
EXEMPT = ("longformer", "bigbird")  # rows of global tokens see everything


def policy(kind, budget, **more):
    return Policy(kind, budget, **{"first": 2, "dilation": 3, "global_at": (4, 6), **more})


def scores(T, seed=0, G=2, R=2):
    drawn = 3 * torch.randn(2, G, R, T, T, generator=torch.Generator().manual_seed(seed))
    return drawn.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf)


def seen_of(each, T):
    """What the queries of the last text and head of keys see, [T, T]."""
    seen = read_through(each, scores(T))[1]
    return seen.expand(2, 2, 1, T, T)[-1, -1, 0]


def rows(text):
    return torch.tensor([[each == "x" for each in line] for line in text.split()])


@pytest.mark.parametrize(
    ("each", "drawn"),
    [
        (Policy("window", 2), "x... xx.. .xx. ..xx"),
        (Policy("first", 3, first=1), "x.... xx... xxx.. x.xx. x..xx"),
        (Policy("first", 2, first=4), "x... xx.. x.x. x..x"),  # the token itself is always seen
        (Policy("dilated", 2, dilation=2), "x.... .x... x.x.. .x.x. ..x.x"),
        (Policy("strided", 4), "x...... xx..... .xx.... ..xx... ...xx.. ...xxx. ...x.xx"),
        (Policy("block", 2), "x.... xx... ..x.. ..xx. ....x"),
        (Policy("longformer", 3, global_at=(2,)), "x.... xx... xxx.. ..xx. ..xxx"),
        (Policy("longformer", 2), "x... xx.. x.x. x..x"),
    ],
)
def test_masks_by_hand(each, drawn):
    wanted = rows(drawn)
    assert torch.equal(mask_of(each, len(wanted)), wanted)


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_all_see_themselves_nothing_later_and_no_more_than_the_budget(kind, T, budget):
    each = policy(kind, budget)
    weights, _ = read_through(each, scores(T))
    seen = seen_of(each, T)
    assert not seen.triu(1).any() and seen.diagonal().all()
    assert torch.equal(weights[-1, -1, 0] > 0, seen)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    bound = [t for t in range(T) if kind not in EXEMPT or t not in globals_of(each, T, budget)]
    bound = bound if kind != "snapkv" else []
    assert (seen.sum(-1)[bound] <= budget).all()
    assert seen.sum(-1).tolist() == seen_by(each, T).tolist()  # the formula counts what the mask shows
    if budget >= 2 * T and kind != "dilated":
        assert torch.equal(seen, torch.ones(T, T).tril().bool())


@pytest.mark.parametrize("kind", CACHES)
def test_what_a_cache_let_go_never_comes_back(kind):
    seen = seen_of(policy(kind, 5), 24)
    gone = gone_of(seen)
    assert may_forget(Policy(kind)) and torch.equal(visible(gone, 24), seen)
    assert (gone < 24).any()


def test_patterns_that_are_no_caches_bring_keys_back():
    for kind in ("dilated", "longformer", "bigbird"):
        assert not may_forget(Policy(kind))
        seen = seen_of(policy(kind, 6), 24)
        assert not torch.equal(visible(gone_of(seen), 24), seen)


@pytest.mark.parametrize("n", [6, 7])
def test_heavy_hitters_are_those_of_the_paper_step_by_step(n):
    """Algorithm 1 of Zhang et al. 2023, written down token by token for two heads that share their keys."""
    T, recent = 20, -(-n // 2)  # of seven, four: t + 1 and the three before it
    for seed in range(5):
        drawn = scores(T, seed, G=1)
        weights = read_through(Policy("h2o", n), drawn)[0][0, 0]
        kept, mass = [], torch.zeros(T)
        for t in range(T):
            kept.append(t)
            rows = drawn[0, 0, :, t, kept].softmax(-1)
            torch.testing.assert_close(weights[:, t, kept], rows)
            mass[kept] += rows.sum(0)
            if len(kept) == n:
                old = [s for s in kept if s < t + 2 - recent]
                kept.remove(min(old, key=lambda s: float(mass[s])))


def test_snapkv_keeps_what_the_last_queries_read_and_their_neighbors():
    weights = torch.zeros(1, 1, 1, 4, 20)
    weights[..., 10] = 1.0  # all four voters of a budget of 8 read token 10
    keep = snap_keep(Policy("snapkv", 8), weights)[0, 0]
    assert keep.sum() == 8 and keep[16:].all()
    assert keep[10] and keep[8:13].sum() == 4  # the neighbors share its votes
    seen = seen_of(Policy("snapkv", 4, read=0.5), 24)
    assert prompt_end(Policy("snapkv", read=0.5), 24) == 12
    assert torch.equal(seen[:12, :12], torch.ones(12, 12).tril().bool())
    assert (seen[12:].sum(-1) == torch.arange(12) + 5).all()  # four of the prompt, and all that follows it


def test_snapkv_asks_sixteen_queries_at_most():
    weights = torch.zeros(1, 1, 1, 30, 60)
    weights[..., :10, :20] = 9.0  # queries before the last sixteen, which have no vote
    weights[..., -16:, 30] = 1.0
    keep = snap_keep(Policy("snapkv", 21), weights)[0, 0]
    assert keep.sum() == 21 and keep[28:33].all() and not keep[:20].all()
    weights[..., 10:14, :5], weights[..., -16:, 14:44] = 9.0, 0.5  # the first of these are not among the last sixteen
    many = snap_keep(Policy("snapkv", 40), weights)[0, 0]
    assert many.sum() == 40 and many[44:].all() and not many[:5].any()


def test_the_first_token_shares_its_votes_with_those_that_are_there():
    """At the edge the mean is over three tokens, not over five of which two are none."""
    weights = torch.zeros(1, 1, 1, 1, 20)
    weights[..., 0], weights[..., 9] = 1.0, 1.5  # 1 / 3 of a vote for 0, 1 / 4 for 1; 1.5 / 5 from 7 to 11
    keep = snap_keep(Policy("snapkv", 2), weights)[0, 0]  # one voter, one more key
    assert keep.nonzero().flatten().tolist() == [0, 19]


def test_the_prompt_ends_at_the_nearest_token():
    assert [prompt_end(Policy("snapkv", read=read), 11) for read in (0, 0.04, 0.7, 1)] == [1, 1, 8, 11]


def test_global_tokens_are_those_named_in_order_or_else_the_first():
    named = Policy("longformer", global_at=(7, 0, 7, 3, 40))
    assert globals_of(named, 9, 4) == [0, 3, 7] and globals_of(named, 9, 2) == [0, 7]  # 40 is none of nine tokens
    assert globals_of(Policy("longformer"), 9, 2) == [0, 1] and globals_of(named, 9, 0) == []


def test_bigbird_draws_by_its_seed():
    a, b = (mask_of(Policy("bigbird", 8, seed=seed), 40) for seed in (0, 1))
    assert torch.equal(a, mask_of(Policy("bigbird", 8, seed=0), 40)) and not torch.equal(a, b)


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_blocks_give_what_the_mask_gives(kind, T, budget):
    each, generator = policy(kind, budget), torch.Generator().manual_seed(T)
    q, k, v = (torch.randn(1, 2, T, 4, generator=generator) for _ in range(3))
    masked = attention_scores(q, k).masked_fill(~mask_of(each, T), -math.inf).softmax(-1)
    torch.testing.assert_close(sparse_attention(each, q, k, v), mix(masked, v), atol=2e-6, rtol=1e-5)
    assert computed(each, T) >= seen_by(each, T).sum()


def test_what_is_saved():
    config = PRESETS["gpt2"]
    full, window = (cost_of(config, each, 1 << 20) for each in (None, Policy("window", 128)))
    assert full.pairs == (1 << 20) * ((1 << 20) + 1) // 2
    assert window.pairs == 128 * (1 << 20) - 128 * 127 // 2
    assert full.operations == 4 * 64 * 12 * 12 * full.pairs
    assert window.cache == 2 * 12 * 12 * 64 * 4 * 128 and full.cache == window.cache << 13
    for kind in CACHES[:3]:
        assert cached(policy(kind, 5), 24) == int(seen_of(policy(kind, 5), 24)[-1].sum())


def kept_for_later(each, T, horizon):
    """The keys of the first T tokens that the last query or one of the next `horizon` reads, by the masks' own rows."""
    rows = [mask_of(each, t + 1)[t, :T] for t in range(T - 1, T + horizon)]
    return int(torch.stack(rows).any(0).sum())


@pytest.mark.parametrize("kind", ("window", "first", "dilated", "block", "longformer"))
@pytest.mark.parametrize("budget", (1, 2, 3, 4, 7, 12))
def test_a_cache_holds_what_the_masks_of_later_queries_show(kind, budget):
    """Global tokens: the first ones, within the window, at the end, still to come, and beyond the budget."""
    named = ((), (0,), (8,), (4, 6), (12, 3), (30, 2), (2, 30), (2, 4, 30)) if kind == "longformer" else ((),)
    for dilation in (1, 2, 5) if kind == "dilated" else (1,):
        for global_at in named:
            each = Policy(kind, budget, first=2, dilation=dilation, global_at=global_at)
            for T in (1, 2, 5, 8, 9, 13, 24):
                assert cached(each, T) == kept_for_later(each, T, 64), (each, T)


@pytest.mark.parametrize("budget", (1, 2, 3, 5, 8))
def test_a_strided_cache_holds_the_last_window_and_every_column(budget):
    """The pattern of T tokens goes on: a later query reads its window and the columns that the mask has beyond it."""
    each = Policy("strided", budget)
    for T in (1, 4, 9, 24, 60):
        near, stride = stride_of(each, T)
        t = torch.arange(T - 1, T + 2 * stride)[:, None]
        s = torch.arange(T)[None]
        rows = (s <= t) & ((t - s < near) | (s % stride == stride - 1))
        assert torch.equal(rows[0], mask_of(each, T)[-1])
        assert cached(each, T) == int(rows.any(0).sum())


def test_a_cache_for_random_keys_holds_all():
    """Over enough seeds each key is read by the next query; a budget of one leaves no random key."""
    drawn = [mask_of(Policy("bigbird", 4, seed=seed), 13)[12, :12] for seed in range(60)]
    assert cached(Policy("bigbird", 4), 12) == int(torch.stack(drawn).any(0).sum()) == 12
    assert cached(Policy("bigbird", 1), 12) == int(mask_of(Policy("bigbird", 1), 12)[-1].sum()) == 1


def test_caches_by_hand():
    """Every fifth of eleven tokens; a block that has just begun; a global token that is still to come; no token."""
    assert cached(Policy("dilated", 3, dilation=5), 55) == 11 and cached(Policy("dilated", 32, dilation=2), 1024) == 63
    assert cached(Policy("block", 32), 1025) == 1 and cached(Policy("block", 32), 1024) == 32
    assert cached(Policy("longformer", 32, global_at=(5000,)), 1024) == 1024
    assert all(cached(Policy(kind), 0) == 0 for kind in POLICIES) and cached(None, 7) == 7


def test_times_are_measured_where_blocks_are_skipped():
    config = PRESETS["minigpt"]
    told = []
    found = timed(config, Policy("first", 16), (64, 128), lambda done, all, what: told.append((done, all)))
    assert [each.T for each in found] == [64, 128] and told[-1] == (2, 2)
    assert all(each.full > 0 and each.sparse > 0 and each.masked > 0 for each in found)
    with pytest.raises(InputError, match="no attention kernel"):
        timed(config, Policy("h2o", 16), (64,))


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "none"},
        {"budget": 0},
        {"budget": 2.5},
        {"first": -1},
        {"dilation": 0},
        {"read": 2},
        {"global_at": (-1,)},
        {"budget": MOST_BUDGET + 1},
        {"seed": -1},
        {"seed": 2**53 + 1},
    ],
)
def test_policies_that_make_no_sense_are_refused(wrong):
    name = "no eviction policy has this name" if "kind" in wrong else next(iter(wrong))
    with pytest.raises(InputError, match=rf"(?i){name}"):
        Policy(**wrong)


def test_the_largest_numbers_are_accepted():
    largest = Policy("bigbird", MOST_BUDGET, seed=2**53, first=0, dilation=MOST_BUDGET, read=1, global_at=(0,))
    assert largest.budget == MOST_BUDGET


def test_memories_are_caches():
    check_memory(Policy("h2o"))
    with pytest.raises(InputError, match="keys again"):
        check_memory(Policy("dilated"))
    with pytest.raises(ValueError, match="attended"):
        mask_of(Policy("h2o"), 4)
