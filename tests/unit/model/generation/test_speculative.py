"""Speculative decoding keeps the model's distribution whatever the draft, and its caches hold what was written."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.generation.draft_costs import compare
from model.generation.lookup import lookup
from model.generation.requests import MOST_DRAFTED, PLAIN, Draft, Request
from model.generation.speculative import (
    first_layers,
    residual,
    speculate,
    verify,
)
from model.gpt.transformer import Transformer
from model.sampling import warps
from model.sampling.pipeline import Context, Step, Warp, draw, softmax, uniform
from model.sampling.warps import final
from tests.support.models.helpers import (
    ALL_VARIANTS,
    FEW_VARIANTS,
    VARIANTS,
    V,
    assert_close,
    tiny_model,
)
from tests.support.models.mixtures import MIXTURES
from tests.support.models.rounding import logits_within, shares_within

IDS = [5, 9, 2, 5, 9, 2, 5]
GREEDY = (Step("temperature", (("temperature", 0),)),)
WARM = (Step("temperature", (("temperature", 1.3),)), Step("top_k", (("k", 20),)))


def request(steps=GREEDY, gamma=4, tokens=12, seed=0, size=V, ending=()):
    return Request(size, steps, gamma, tokens, seed, frozenset(ending))


def written(rounds):
    return [token for each in rounds for token in each.tokens]


def uncached(model, text, steps, prompt=7):
    """The distribution behind a text by one forward over all of it. float64 [V]"""
    with torch.inference_mode():
        logits = model(torch.tensor([text]))[0, -1]
    return softmax(final(logits, steps, Context(tuple(text), prompt)).numpy())


@pytest.mark.parametrize("draft", [Draft("layers", 1), Draft("layers", 2), Draft("ngram", 3)], ids=["1", "2", "ngram"])
def test_the_draft_and_the_model_share_the_number_of_xtc(draft):
    """XTC before temperature 0: the text is what plain decoding writes, token for token."""
    steps = (Step("xtc", (("threshold", 0.02), ("xtc_probability", 0.5))), *GREEDY)
    asked = request(steps, tokens=24, seed=3)
    plain = written(speculate(tiny_model(), IDS, PLAIN, asked))
    assert written(speculate(tiny_model(), IDS, draft, asked)) == plain
    assert plain != written(speculate(tiny_model(), IDS, PLAIN, request(tokens=24)))
    again = Request(V, steps, 4, 24, 4)
    assert plain != written(speculate(tiny_model(), IDS, PLAIN, again))


def off(model, text, shares) -> np.ndarray:
    """How far `uncached` at WARM may be from the same by another path: the temperature divides what rounding does."""
    logits = logits_within(model, torch.tensor([text]))[0, -1] / 1.3
    return shares_within(torch.from_numpy(shares), logits).numpy()


def plainly(model, n, steps, seed=0):
    """Plain decoding without a cache, by the rule of sampling alone."""
    text = list(IDS)
    for step in range(n):
        text.append(draw(uncached(model, text, steps), uniform(seed, step)))
    return text[len(IDS) :]


@pytest.fixture(scope="module", params=FEW_VARIANTS)
def model(request):
    return tiny_model(VARIANTS[request.param])


def drafts(model):
    return {
        "layers": Draft("layers", 2),
        "all": Draft("layers", model.config.n_layer),
        "ngram": Draft("ngram", 3),
        "model": Draft("model", model=tiny_model({"n_layer": 1}, seed=3)),
    }


# --- the rule ---


def some(rows, size, seed):
    """Rows of probabilities, some of them 0."""
    p = np.random.default_rng(seed).random((rows, size)) ** 4
    p[:, seed % size] = 0
    return p / p.sum(1, keepdims=True)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alike", [0.0, 0.8, 1.0])
def test_the_rule_gives_p_exactly(seed, alike):
    """Over all proposals, and acceptance integrated by where `verify` stops accepting, P(first token) is p."""
    p, other = some(2, 9, seed), some(1, 9, seed + 1)
    q = alike * p[:1] + (1 - alike) * other
    total, grid = np.zeros(9), np.arange(0.5, 500) / 500
    for token in np.flatnonzero(q[0]):
        ratio = min(1.0, p[0, token] / q[0, token])
        below = [verify(p, q, [token], [u], [0.5, 0.5])[0] for u in (0.0, ratio * (1 - 1e-9)) if u < ratio]
        assert below == [1, 1][: len(below)] and (len(below) == 2) == (ratio > 0)  # accepted exactly where u < p / q
        assert ratio == 1 or verify(p, q, [token], [min(ratio * (1 + 1e-9), 1)], [0.5, 0.5])[0] == 0
        total[token] += q[0, token] * ratio
        for u in grid if ratio < 1 else ():  # what a rejected one is replaced by, over the random number of that draw
            found = verify(p, q, [token], [ratio + (1 - ratio) / 2], [u, 0.5])[1]
            total[found] += q[0, token] * (1 - ratio) / len(grid)
    # The replaced share by its formula instead of by the grid: exact to rounding.
    exact = np.minimum(p[0], q[0]) + (1 - np.minimum(p[0], q[0]).sum()) * residual(p[0], q[0])
    assert_close(exact, p[0], 1e-12)
    assert_close(total, p[0], 5e-3)  # as fine as the grid


def test_a_rejection_by_hand():
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    q = np.array([[0.2, 0.8, 0.0]])
    assert residual(p[0], q[0]) == pytest.approx([0.6, 0, 0.4])
    assert verify(p, q, [0], [0.999], [0.9, 0.05]) == (1, 2)  # p > q: always accepted, then drawn from p[1]
    assert verify(p, q, [1], [0.374], [0.9, 0.95]) == (1, 1)  # 0.3 / 0.8 = 0.375
    assert verify(p, q, [1], [0.376], [0.59, 0.05]) == (0, 0)
    assert verify(p, q, [1], [0.376], [0.61, 0.05]) == (0, 2)
    assert residual(p[0], p[0]) == pytest.approx(p[0])  # nothing is ever rejected
    with pytest.raises(ValueError, match="1 proposals"):
        verify(p, q, [1], [0.3], [0.5])
    # The second place is looked at only where the first was accepted.
    both = np.stack([p[0], p[1], p[0]])
    assert verify(both, np.stack([p[0], p[0]]), [0, 0], [0.0, 0.5], [0.9, 0.0, 0.9]) == (1, 2)


def test_the_whole_of_it_keeps_the_distribution():
    """Chi-square of the second token given the first, over many seeds, against the model's own distribution."""
    model, steps = (
        tiny_model({"vocab_size": 8, "n_ctx": 12, "n_layer": 2}),
        (Step("temperature", (("temperature", 2),)),),
    )
    ids, runs = [1, 2, 3], 500
    counts, tested, expected, variance = np.zeros((8, 8)), 0, 0.0, 0.0
    for seed in range(runs):
        rounds = list(speculate(model, ids, Draft("layers", 1), Request(8, steps, 3, 2, seed)))
        counts[tuple(written(rounds))] += 1
        seen = [one for each in rounds for one in each.proposals if one.fate != "unread"]
        tested += sum(one.fate == "accepted" for one in seen)
        expected += sum(one.expected for one in seen)
        variance += sum(one.expected * (1 - one.expected) for one in seen)
    first = uncached(model, ids, steps, 3)
    p = np.stack([first[a] * uncached(model, [*ids, a], steps, 3) for a in range(8)])
    likely = p * runs > 4
    seen, hoped = np.append(counts[likely], counts[~likely].sum()), np.append(p[likely], p[~likely].sum()) * runs
    chi = ((seen - hoped) ** 2 / hoped).sum()
    freedom = len(seen) - 1
    assert freedom > 12 and chi < freedom + 4 * (2 * freedom) ** 0.5
    draft = uncached(first_layers(model, 1), ids, steps, 3)
    assert np.abs(draft - first).sum() > 0.2  # it was not easy
    assert abs(tested - expected) < 4 * variance**0.5  # sum of min(p, q) is the chance of acceptance


# --- the loop, for every wiring ---


def test_greedy_text_is_the_plain_one(model):
    plain = plainly(model, 12, GREEDY)
    assert written(speculate(model, IDS, PLAIN, request())) == plain
    for name, draft in drafts(model).items():
        rounds = list(speculate(model, IDS, draft, request()))
        assert written(rounds) == plain, name
        assert len(rounds) < 12 or name in ("model", "layers", "ngram")


@pytest.mark.long
def test_probabilities_are_those_of_an_uncached_run(model):
    """After every rejection the caches are rewound: p and q are what a forward over the text so far gives."""
    for name, draft in drafts(model).items():
        rounds, text = list(speculate(model, IDS, draft, request(WARM, gamma=3, tokens=14, seed=5))), list(IDS)
        small = {"layers": first_layers(model, 2), "all": model, "model": draft.model}.get(name)
        for each in rounds:
            place = list(text)
            for one in each.proposals:
                p = uncached(model, place, WARM)
                q = uncached(small, place, WARM) if small else np.eye(V)[one.id]
                off_p, off_q = off(model, place, p), off(small, place, q) if small else np.zeros(V)
                assert_close([one.p, one.q], [p[one.id], q[one.id]], [off_p[one.id], off_q[one.id]], name)
                assert_close(one.expected, np.minimum(p, q).sum(), np.maximum(off_p, off_q).sum(), name)
                place.append(one.id)
            text += each.tokens
        assert len(text) == len(IDS) + 14
        assert name == "all" or any(one.fate == "rejected" for each in rounds for one in each.proposals), name


def test_a_draft_that_is_the_model_writes_the_plain_sample(model):
    """p = q up to rounding: everything is accepted, and the drafted numbers are those of plain sampling."""
    rounds = list(speculate(model, IDS, drafts(model)["all"], request(WARM, seed=3)))
    assert all(one.fate == "accepted" and one.expected == pytest.approx(1) for each in rounds for one in each.proposals)
    assert (
        written(rounds) == written(speculate(model, IDS, PLAIN, request(WARM, seed=3))) == plainly(model, 12, WARM, 3)
    )
    assert [len(each.tokens) for each in rounds] == [5, 5, 2]


# --- settings ---


@pytest.fixture(scope="module")
def gpt2():
    return tiny_model(VARIANTS["gpt2"])


def test_a_seed_is_a_text(gpt2):
    again = [list(speculate(gpt2, IDS, Draft("layers", 2), request(WARM, seed=seed))) for seed in (1, 1, 2)]
    assert written(again[0]) == written(again[1]) != written(again[2])
    with pytest.raises(InputError, match="that many layers"):
        next(speculate(gpt2, IDS, Draft("layers", 9), request()))
    for gamma in (0, MOST_DRAFTED + 1):
        with pytest.raises(InputError, match="cannot be proposed"):
            next(speculate(gpt2, IDS, Draft("layers", 2), request(gamma=gamma)))
    with pytest.raises(InputError, match="No other model"):
        next(speculate(gpt2, IDS, Draft("model"), request()))


def test_it_ends_where_it_should(gpt2):
    plain = plainly(gpt2, 12, GREEDY)
    end = plain[6]
    until = plain[: plain.index(end) + 1]
    for draft in (*drafts(gpt2).values(), PLAIN):
        rounds = list(speculate(gpt2, IDS, draft, request(ending=[end])))
        assert written(rounds) == until and rounds[-1].ended == "end"
        assert [each.ended for each in rounds[:-1]] == [""] * (len(rounds) - 1)
    drafted = list(speculate(gpt2, IDS, drafts(gpt2)["all"], request(gamma=16, ending=[end])))
    assert drafted[-1].token is None and drafted[-1].kind == "" and drafted[-1].proposals[-1].id == end
    for tokens in (1, 2, 3):
        rounds = list(speculate(gpt2, IDS, Draft("layers", 2), request(tokens=tokens)))
        assert len(written(rounds)) == tokens and rounds[-1].ended == "length"
    long = [1, 2] * 18  # 36 of 40 places
    rounds = list(speculate(gpt2, long, Draft("layers", 2), request(tokens=12)))
    assert len(written(rounds)) == 5 and rounds[-1].ended == "context"
    assert len(written(speculate(gpt2, [1], Draft("ngram", 2), request()))) == 12  # a prompt of one token


def test_a_small_model_with_a_short_context_stops_drafting(gpt2):
    short = tiny_model({"n_ctx": 10}, seed=3)
    rounds = list(speculate(gpt2, IDS, Draft("model", model=short), request(WARM)))
    lengths = np.cumsum([len(IDS), *(len(each.tokens) for each in rounds)])[:-1]
    assert [len(each.proposals) for each in rounds] == [max(min(4, 11 - n, 18 - n), 0) for n in lengths]
    with pytest.raises(InputError, match="too long for the draft model"):
        next(speculate(gpt2, list(range(11)), Draft("model", model=short), request()))


def test_models_of_other_row_counts_fit(gpt2):
    """Rows that no token has are never proposed, and the other model may have more or fewer of them."""
    wide = tiny_model({"vocab_size": 61}, seed=3)
    rounds = list(speculate(gpt2, IDS, Draft("model", model=wide), request(WARM, size=50)))
    assert max(written(rounds)) < 50 and len(written(rounds)) == 12
    assert all(one.id < 50 for each in rounds for one in each.proposals)


def test_penalties_and_memories_see_the_text_at_each_place(gpt2, monkeypatch):
    """A warp that forbids what stands in the text, and one that remembers: both as in plain decoding."""

    def once(logits, values, context, step):
        left = logits.clone()
        left[list(context.ids[context.prompt :])] = -torch.inf
        return left * (1 + (context.memory or 0))

    def remember(values, memory, probability):
        return 0.5 * (memory or 0) + probability

    monkeypatch.setitem(warps.WARPS, "once", Warp(once, "penalty", "-", remember=remember))
    steps = (Step("once"), Step("temperature", (("temperature", 2),)))
    plain = written(speculate(gpt2, IDS, PLAIN, request(steps, seed=4)))
    same = list(speculate(gpt2, IDS, Draft("layers", 3), request(steps, seed=4)))
    assert written(same) == plain and len(set(plain)) == 12
    # The two ends of it multiply the logits by at most (1 + 2) / 2; of a share, twice that is relative.
    rounding = 3 * float(logits_within(gpt2, torch.tensor([[*IDS, *plain]])).max())
    assert all(one.p == pytest.approx(one.q, rel=rounding) for each in same for one in each.proposals)
    rounds = list(speculate(gpt2, IDS, Draft("layers", 1), request(steps, seed=4)))
    assert len(set(written(rounds))) == 12 and any(each.kind == "corrected" for each in rounds)


def test_what_followed_before():
    assert lookup([1, 2, 3, 4, 1, 2], 3, 4) == [3, 4, 1, 2]
    assert lookup([1, 2, 3, 9, 2, 5, 1, 2], 3, 2) == [3, 9]  # the longest suffix counts: not "2" alone
    assert lookup([1, 2, 3, 9, 2, 5, 1, 2], 1, 2) == [5, 1]  # of the same length, the last one
    assert lookup([1, 2, 3], 3, 4) == [] and lookup([7], 3, 4) == [] and lookup([1, 1], 3, 4) == [1]
    assert lookup([1, 2, 1], 0, 4) == []


def test_first_layers_share_every_weight(gpt2):
    short = first_layers(gpt2, 2)
    mine = {id(each) for each in gpt2.parameters()}
    assert all(id(each) in mine for each in short.parameters()) and len(short.blocks) == 2 == short.config.n_layer
    assert len(gpt2.blocks) == 3 and gpt2.config.n_layer == 3
    ids = torch.tensor([IDS])
    with torch.inference_mode():
        run = gpt2.prepare(0, len(IDS))
        x = gpt2.embed_tokens(ids, 0, run)
        for layer in range(2):
            x = gpt2.blocks[layer](x, layer, run)
        assert torch.equal(short(ids), gpt2.logits(x))


@pytest.mark.parametrize("name", ["gemma", "gptj", "qwen-moe"])
def test_first_layers_keep_what_is_said_of_single_layers(name):
    model = tiny_model((ALL_VARIANTS | MIXTURES)[name])
    for n in (1, 2):
        ids, run = torch.tensor([IDS]), model.prepare(0, len(IDS))
        with torch.inference_mode():
            x = model.embed_tokens(ids, 0, run)
            for layer in range(n):
                x = model.blocks[layer](x, layer, run)
            assert torch.equal(first_layers(model, n)(ids), model.logits(x))


def test_a_comparison_writes_both_texts(gpt2, monkeypatch):
    trunk, lengths, told = Transformer.trunk, [], []

    def counted(model, ids, **named):
        lengths.append(ids.shape[1])
        return trunk(model, ids, **named)

    monkeypatch.setattr(Transformer, "trunk", counted)
    found = compare(gpt2, IDS, Draft("ngram", 3), request(WARM, seed=2), lambda *given: told.append(given))
    assert lengths[0] == len(IDS) - 1 and max(lengths[1:]) <= 9  # the prompt is read once
    assert found.tokens == tuple(written(speculate(gpt2, IDS, Draft("ngram", 3), request(WARM, seed=2))))
    assert found.plain_tokens == tuple(written(speculate(gpt2, IDS, PLAIN, request(WARM, seed=2))))
    assert len(found.plain) == len(found.tokens) == 12 and all(not each.proposals for each in found.plain)
    assert [width for width, _ in found.forwards] == list(range(1, 10))
    assert all(done <= total for done, total, _ in told)

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(gpt2, IDS, Draft("ngram", 3), request(), stop)
