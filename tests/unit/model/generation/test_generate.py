"""Several strategies in one batch write what each would write alone, by full forwards, and end where they should."""

import dataclasses
import math

import pytest
import torch

from model.errors import CheckpointError, InputError
from model.generation.generate import MOST_ROWS, following, generate
from model.generation.strategies import METHODS, STRATEGIES, DecodingPlan, Setup, Strategy, measured
from model.gpt.cache import KVCache
from model.sampling.pipeline import Context, Step, draw, second, softmax, uniform, usable
from model.sampling.warps import WARPS, final, values_of
from tests.support.models.helpers import (
    N_CTX,
    VARIANTS,
    V,
    assert_close,
    byte_model,
    random_ids,
    tiny_config,
    tiny_model,
    written,
)
from tests.support.models.rounding import logits_within, rounded, shares_within, sums

PROMPT = random_ids(1, 7)[0].tolist()
TWELVE = DecodingPlan(12)
SEARCHES = ("beam", "contrastive")
DRAWN = [name for name in STRATEGIES if name not in SEARCHES]
PENALISED = Strategy(
    (
        Step("presence_penalty", (("presence", 1.5),)),
        Step("frequency_penalty", (("frequency", 0.5),)),
        Step("mirostat", (("tau", 3.0), ("rate", 0.9))),
    )
)


def run(model, strategies, plan: DecodingPlan = TWELVE, ids=PROMPT, size: int = V, text=None):
    return list(generate(model, ids, strategies, plan, size, text))


@torch.inference_mode()
def slow(model, strategy: Strategy, plan: DecodingPlan, ids=PROMPT, number: int = 0) -> list[int]:
    """What a strategy draws, by a full forward for every token, and nothing of the engine."""
    ids, new, memory = list(ids), [], None
    while len(new) < plan.max_new_tokens:
        logits = model(torch.tensor([ids]))[0, -1]
        chance = second(plan.seed, plan.first_step + len(new), number)
        after = softmax(final(logits, strategy.steps, Context(tuple(ids), len(PROMPT), memory, chance)).numpy())
        new.append(draw(after, uniform(plan.seed, plan.first_step + len(new), number)))
        ids.append(new[-1])
        for step in strategy.steps:
            if WARPS[step.warp].remember:
                memory = WARPS[step.warp].remember(values_of(step), memory, float(after[new[-1]]))
    return new


# --- steps that act by chance ---

UNUSUAL = Strategy(
    (
        Step("dry", (("multiplier", 3), ("allowed", 1))),
        Step("xtc", (("threshold", 0.02), ("xtc_probability", 0.5))),
        Step("banned_words", phrases=((3,), (5, 9))),
    ),
    name="unusual",
)
FLIPPED = Strategy((*UNUSUAL.steps, Step("temperature", (("temperature", 0),))), name="flipped")


def test_xtc_draws_its_own_number_which_all_strategies_share():
    model, plan = tiny_model(), DecodingPlan(24, seed=5)
    ticks = run(model, [UNUSUAL, FLIPPED, UNUSUAL], plan)
    texts = [written(ticks, row)[0] for row in range(3)]
    assert texts[0] == texts[2] == slow(model, UNUSUAL, plan) and texts[1] == slow(model, FLIPPED, plan)
    greedy = slow(model, Strategy((UNUSUAL.steps[0], *FLIPPED.steps[2:])), plan)
    assert texts[1] != greedy  # it acted
    apart = run(model, [UNUSUAL, UNUSUAL], dataclasses.replace(plan, shared=False))
    assert [written(apart, row)[0] for row in range(2)] == [slow(model, UNUSUAL, plan, number=row) for row in range(2)]


def test_a_branch_meets_the_same_chances():
    model, plan = tiny_model(), DecodingPlan(12, seed=5)
    whole = written(run(model, [FLIPPED], plan))[0]
    rest = DecodingPlan(8, seed=5, first_step=4, prompt=len(PROMPT))
    assert written(run(model, [FLIPPED], rest, [*PROMPT, *whole[:4]]))[0] == whole[4:]


def test_a_search_with_xtc_reads_the_numbers_of_the_seed():
    model = tiny_model()
    for method in SEARCHES:
        texts = [
            written(run(model, [Strategy(UNUSUAL.steps, method)], DecodingPlan(16, seed=seed)))[0] for seed in (1, 1, 2)
        ]
        assert texts[0] == texts[1] != texts[2], method


# --- the same text as alone, without a cache ---


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_cached_batch_draws_what_full_forwards_draw(variant):
    model, plan = tiny_model(VARIANTS[variant]), DecodingPlan(12, seed=5)
    for names in (DRAWN[:5], DRAWN[5:10], DRAWN[10:]):
        ticks = run(model, [*map(STRATEGIES.get, names), PENALISED], plan)
        for row, strategy in enumerate([*map(STRATEGIES.get, names), PENALISED]):
            assert written(ticks, row) == (slow(model, strategy, plan), "length"), strategy.name


@pytest.mark.parametrize("variant", ["gpt2", "llama", "post"])
def test_rows_do_not_touch_each_other(variant):
    """Beams and candidates move rows about; what the others write does not change, nor does what is said of it."""
    model = tiny_model(VARIANTS[variant])
    eight = [STRATEGIES[name] for name in ("beam", "top_p", "contrastive", "temperature", "beam", "greedy")]
    together = run(model, eight)
    for row, strategy in enumerate(eight):
        alone = run(model, [strategy])
        assert written(together, row) == written(alone)
        off = 2 * float(logits_within(model, torch.tensor([[*PROMPT, *written(alone)[0]]])).max())
        for tick, single in zip(together, alone, strict=False):
            for one, other in zip(tick.changes[row].made, single.changes[0].made, strict=True):
                assert (one.id, one.rank, one.kept) == (other.id, other.rank, other.kept)
                assert one.log_probability == pytest.approx(other.log_probability, abs=off)


def test_the_same_seed_is_the_same_text():
    model, hot = tiny_model(), Strategy((Step("temperature", (("temperature", 2.0),)),))
    texts = [written(run(model, [hot], DecodingPlan(12, seed=seed)))[0] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_luck_is_shared_or_not():
    model, four = tiny_model(), [Strategy()] * 4
    numbers = [
        [change.made[0].uniform for change in tick.changes] for tick in run(model, four, DecodingPlan(3, seed=4))
    ]
    assert numbers == [[uniform(4, step)] * 4 for step in range(3)]
    own = run(model, four, DecodingPlan(3, seed=4, shared=False))
    numbers = [[change.made[0].uniform for change in tick.changes] for tick in own]
    assert numbers == [[uniform(4, step, row) for row in range(4)] for step in range(3)]
    alone = run(model, [Strategy()], DecodingPlan(3, seed=4, shared=False, numbers=(2,)))
    assert written(alone) == written(own, 2) == (slow(model, Strategy(), DecodingPlan(3, seed=4), number=2), "length")


@pytest.mark.parametrize("strategy", [STRATEGIES["top_p"], STRATEGIES["penalties"], PENALISED], ids=str)
def test_a_branch_goes_on_as_if_it_had_never_stopped(strategy):
    model, plan = tiny_model(), DecodingPlan(12, seed=3)
    first = run(model, [strategy], plan)
    whole, _ = written(first)
    rest = dataclasses.replace(plan, max_new_tokens=7, first_step=5, prompt=len(PROMPT))
    ticks = run(model, [strategy], rest, [*PROMPT, *whole[:5]])
    assert written(ticks)[0] == whole[5:]
    probabilities = [[tick.changes[0].made[0].probability for tick in some] for some in (first[5:], ticks)]
    off = logits_within(model, torch.tensor([[*PROMPT, *whole]]))[0, len(PROMPT) + 4 : -1, 0]
    # Penalties and temperatures multiply logits by less than 2. A memory of other tokens would leave other shares.
    assert_close(*probabilities, 2 * shares_within(torch.tensor(probabilities[0]), off))
    assert [tick.step for tick in ticks] == list(range(5, 12))


# --- what is said of a token ---


def test_a_token_and_its_surroundings_worked_by_hand():
    logits = torch.tensor([0.0, math.log(4), math.log(2), 0.0, -torch.inf])  # p = 1/8, 1/2, 1/4, 1/8, 0
    warped = torch.tensor([-torch.inf, 0.0, 0.0, -torch.inf, -torch.inf])
    made = measured(logits, warped, 2, 0.75)
    assert (made.id, made.rank, made.kept, made.uniform) == (2, 2, 2, 0.75)
    assert made.log_probability == pytest.approx(-math.log(4), abs=1e-6)
    assert made.entropy == pytest.approx(1.75 * math.log(2), abs=1e-6)
    assert made.probability == pytest.approx(0.5)
    assert [top[0] for top in made.top] == [1, 2, 0, 3, 4]
    assert_close([top[1] for top in made.top], [0.5, 0.25, 0.125, 0.125, 0], 1e-7)
    assert [top[2] for top in made.top] == [0.5, 0.5, 0, 0, 0]
    assert [measured(logits, warped, id).rank for id in range(5)] == [3, 1, 2, 4, 5]  # of equals the smaller id first


@torch.inference_mode()
def test_what_is_said_is_true_of_the_model():
    model = tiny_model()
    made = [tick.changes[0].made[0] for tick in run(model, [STRATEGIES["top_k"]])]
    ids = [*PROMPT, *(each.id for each in made)]
    logs = model(torch.tensor([ids]))[0, len(PROMPT) - 1 : -1].double().log_softmax(-1)
    off = logits_within(model, torch.tensor([ids]))[0, len(PROMPT) - 1 : -1]
    said = [row[each.id] for row, each in zip(logs, made, strict=True)]
    assert_close([each.log_probability for each in made], said, 2 * off[:, 0] + rounded(said, 2))
    entropy = -(logs * logs.exp()).sum(-1)  # -sum of dp log p, each |dp| at most 2 p |dz|
    assert_close([each.entropy for each in made], entropy, 2 * off[:, 0] * entropy + sums(V, entropy))
    assert [each.rank for each in made] == [
        int((row > row[each.id]).sum()) + 1 for row, each in zip(logs, made, strict=True)
    ]
    for row, each, apart in zip(logs, made, off, strict=True):
        assert [top[0] for top in each.top] == row.topk(8).indices.tolist() and each.kept == 40
        assert_close(
            [top[1] for top in each.top], row.exp().topk(8).values, shares_within(row.exp().topk(8).values, apart)
        )


def test_rows_without_a_token_are_never_written():
    model, size = tiny_model(), V - 20
    ticks = run(
        model,
        [Strategy((Step("temperature", (("temperature", 3.0),)),)), *map(STRATEGIES.get, SEARCHES)],
        DecodingPlan(30),
        [1, 2, 3],
        size,
    )
    assert all(max(written(ticks, row)[0]) < size for row in range(3))
    assert {change.made[0].kept for tick in ticks for change in tick.changes[:1] if change} == {size}


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_broken_model_is_said_to_be_broken(broken):
    model = tiny_model()
    with torch.no_grad():
        model.blocks[1].norm1.weight[0] = broken
    for strategy in STRATEGIES.values():
        with pytest.raises(CheckpointError, match="not finite"):
            run(model, [strategy])


# --- the end ---


@pytest.mark.parametrize("name", ["temperature", "beam"])
@pytest.mark.parametrize(
    ("length", "most", "new", "reason"),
    [
        (N_CTX, 5, 1, "context"),
        (N_CTX, 1, 1, "length"),
        (N_CTX - 3, 9, 4, "context"),
        (N_CTX - 3, 4, 4, "length"),
        (N_CTX - 3, 3, 3, "length"),
        (1, 4096, N_CTX, "context"),
        (1, 1, 1, "length"),
    ],
)
def test_a_text_ends_by_length_or_where_the_context_is_full(name, length, most, new, reason):
    ids = random_ids(1, length)[0].tolist()
    found, ended = written(run(tiny_model(), [STRATEGIES[name]], DecodingPlan(most), ids))
    assert (len(found), ended) == (new, reason)


@pytest.mark.parametrize(
    ("length", "most", "new", "reason"),
    [(N_CTX, 5, 0, "context"), (N_CTX - 3, 9, 3, "context"), (N_CTX - 3, 3, 3, "length"), (1, 1, 1, "length")],
)
def test_a_candidate_has_to_fit_into_the_context(length, most, new, reason):
    ids = random_ids(1, length)[0].tolist()
    found, ended = written(run(tiny_model(), [STRATEGIES["contrastive"]], DecodingPlan(most), ids))
    assert (len(found), ended) == (new, reason)


class Counted:
    """A model, and how many rows and tokens each of its forwards had."""

    def __init__(self, model):
        self.model, self.config, self.sizes = model, model.config, []
        self.logits, self.normed, self.unembed = model.logits, model.normed, model.unembed

    def trunk(self, ids, cache, attend=None):
        self.sizes.append(tuple(ids.shape))
        return self.model.trunk(ids, cache=cache, attend=attend)


def test_texts_that_ended_leave_the_batch():
    model = Counted(tiny_model())
    greedy, drawn = STRATEGIES["greedy"], STRATEGIES["temperature"]
    texts = [written(run(model.model, [each], DecodingPlan(10, seed=1)))[0] for each in (greedy, drawn)]
    last = next(i for i, token in enumerate(texts[1]) if token not in texts[0] and token not in texts[1][:i])
    ticks = run(model, [greedy, drawn, greedy], DecodingPlan(10, seed=1, ending=frozenset((texts[1][last],))))
    assert written(ticks, 0) == written(ticks, 2) == (texts[0], "length")
    assert written(ticks, 1) == (texts[1][: last + 1], "end")
    assert [tick.changes[1] is None for tick in ticks] == [step > last for step in range(10)]
    assert model.sizes == [(1, 7), *[(3, 1)] * last, *[(2, 1)] * (9 - last)]


def test_closing_stops_the_work():
    model = Counted(tiny_model())
    ticks = generate(model, PROMPT, [Strategy()] * 2, DecodingPlan(30), V)
    assert model.sizes == []
    next(ticks), next(ticks)
    ticks.close()
    assert model.sizes == [(1, 7), (2, 1)]
    assert next(ticks, None) is None


def setup_of(plan: DecodingPlan, ids=(), text=lambda ids: "".join(map(chr, ids))) -> Setup:
    return Setup(tuple(ids), plan, 128, text)


def ends(setup: Setup, text: str) -> str:
    """Where a text written a token a character ends, and why."""
    for count in range(1, len(text) + 1):
        if reason := setup.ended([ord(c) for c in text[:count]]):
            return f"{text[:count]} {reason}"
    return ""


def test_a_stop_text_is_found_over_the_borders_of_tokens():
    plan = DecodingPlan(100, stop=("xyz", "\n\n"))
    assert ends(setup_of(plan), "axyxyzb") == "axyxyz stop"
    assert ends(setup_of(plan), "a\nb\n\nc") == "a\nb\n\n stop"
    assert ends(setup_of(plan), "xy z") == ""
    assert ends(setup_of(plan, b"xy"), "zxyz") == "zxyz stop"  # the prompt's own does not count
    assert ends(setup_of(dataclasses.replace(plan, prompt=0), b"xy"), "zxyz") == "z stop"  # of a branch, it does
    euro = DecodingPlan(100, stop=("€",))
    assert setup_of(euro, text=lambda ids: bytes(ids).decode("utf-8", "replace")).ended([65, *"€".encode()]) == "stop"


def test_a_stop_text_reads_only_the_last_tokens():
    seen = []

    def text(ids):
        seen.append(len(ids))
        return "".join(map(chr, ids))

    setup_of(DecodingPlan(5000, stop=("xyz",)), text=text).ended([65] * 3000)
    assert seen == [3]


@pytest.mark.parametrize("name", [*SEARCHES, "top_k"])
def test_a_stop_text_ends_any_method(name, tmp_path):
    lm = byte_model(tmp_path)
    whole, _ = written(lm.generate("once", name, 20, seed=1))
    stop = lm.decode(whole[4:6])
    found, ended = written(lm.generate("once", name, 20, seed=1, stop=stop))
    assert ended == "stop" and stop in lm.decode(found) and stop not in lm.decode(found[:-1])


# --- what is refused, before the model runs ---

TOP_K = Step("top_k", (("k", -1),))
BAD = [
    ([], {}, "No strategy was given"),
    ([Strategy()] * 9, {}, "too many strategies"),
    ([Strategy(method="beam", options=(("beams", 16),))] * 5, {}, "too many rows"),
    ([Strategy(method="guess")], {}, "method is unknown"),
    ([Strategy((Step("shake"),))], {}, "step is unknown"),
    ([Strategy((TOP_K,))], {}, "top_k, k: -1"),
    ([Strategy((Step("top_k", (("p", 1),)),))], {}, "top_k, p: 1"),
    ([Strategy(method="beam", options=(("beams", 17),))], {}, "from 1 to 16"),
    ([Strategy(method="beam", options=(("beams", 1.5),))], {}, "beams: 1.5"),
    ([Strategy(method="beam", options=(("alpha", 0.5),))], {}, "Choose one of: beams, length_penalty"),
    ([Strategy(method="contrastive", options=(("alpha", math.nan),))], {}, "alpha: nan"),
    ([Strategy(options=(("beams", 2),))], {}, "sample, beams: 2"),
    (["nothing"], {}, "No strategy has this name"),
    ("greedy", {"max_new_tokens": 0}, "max_new_tokens: 0"),
    ("greedy", {"max_new_tokens": 4097}, "from 1 to 4096"),
    ("greedy", {"max_new_tokens": 2.5}, "max_new_tokens: 2.5"),
    ("greedy", {"seed": -1}, "seed: -1"),
]


@pytest.mark.parametrize(("strategies", "settings", "said"), BAD)
def test_what_cannot_be_is_refused_at_the_call(strategies, settings, said, tmp_path):
    lm = byte_model(tmp_path)
    lm = dataclasses.replace(lm, model=Counted(lm.model))
    with pytest.raises(InputError, match=said):
        lm.generate("once", strategies, **settings)
    assert lm.model.sizes == []


def test_a_prompt_is_refused_at_the_call(tmp_path):
    lm = byte_model(tmp_path, n_ctx=10)
    for prompt, said in (("", "prompt is empty"), ("a" * 11, "Shorten it to 10"), ([300], "no token with this id")):
        with pytest.raises(InputError, match=said):
            lm.generate(prompt)
    with pytest.raises(InputError, match=r"no token with this id. Got: 53"):
        generate(tiny_model(), [0, 53], [Strategy()], DecodingPlan(), V)


def test_the_whole_batch_is_bounded():
    many = [Strategy(method="beam", options=(("beams", 8),))] * 8
    ticks = generate(tiny_model(), PROMPT, many, DecodingPlan(3), V)
    assert sum(METHODS["beam"].start(each, Setup((), DecodingPlan(), V, None), 0).width for each in many) == MOST_ROWS
    assert len(list(ticks)) == 3


# --- rows of the cache ---


@pytest.mark.parametrize("source", [[0, 1, 2], [2, 0], [1, 1, 0], [2], [0, 0, 2, 1, 1]], ids=str)
def test_rows_of_a_cache_follow(source):
    """In place or not, the positions since the prompt are those of the rows that are continued."""
    shape = KVCache.empty(tiny_config(), 3, 9).k.shape
    k, v = torch.randn(shape), torch.randn(shape)
    k[:, :, :, :4], v[:, :, :, :4] = k[:, :1, :, :4], v[:, :1, :, :4]
    expected_k, expected_v = k[:, source, :, :7].clone(), v[:, source, :, :7].clone()
    found = following(KVCache(k, v, 7), source, 4)
    assert (found.length, found.capacity) == (7, 9)
    assert torch.equal(found.k[:, :, :, :7], expected_k) and torch.equal(found.v[:, :, :, :7], expected_v)


def test_padding_is_what_usable_leaves():
    assert usable(torch.zeros(2, 5), 3).tolist() == [[0, 0, 0, -torch.inf, -torch.inf]] * 2
