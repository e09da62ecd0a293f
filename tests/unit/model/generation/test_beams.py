"""Beam search finds what trying everything finds, scores it as it says, and shows the best so far."""

import itertools
import math

import pytest
import torch

from model.generation.generate import generate
from model.generation.strategies import STRATEGIES, DecodingPlan, Strategy
from model.sampling.pipeline import Step
from tests.support.models.helpers import VARIANTS, V, random_ids, tiny_model, written
from tests.support.models.rounding import logits_within

SMALL = 4  # tokens of the vocabulary, so that everything can be tried
PROMPT = [1, 3, 0, 2, 2]
COLD = (Step("temperature", (("temperature", 0.6),)), Step("top_k", (("k", 3),)))


def small(seed: int = 0, variant: str = "llama"):
    return tiny_model({**VARIANTS[variant], "vocab_size": SMALL}, seed)


def search(beams: int, penalty: float = 1.0, texts: int = 16, steps=()) -> Strategy:
    return Strategy(tuple(steps), "beam", (("beams", beams), ("length_penalty", penalty), ("texts", texts)))


@torch.inference_mode()
def everything(model, prompt, most: int, penalty: float, ending=frozenset(), steps=()) -> list[tuple[tuple, float]]:
    """Every text that ends with a token of `ending` or at the length, the best score first."""
    found = []
    for length in range(1, most + 1):
        texts = [
            ids
            for ids in itertools.product(range(SMALL), repeat=length)
            if not set(ids[:-1]) & ending and (length == most or ids[-1] in ending)
        ]
        if not texts:
            continue
        logits = model(torch.tensor([[*prompt, *ids] for ids in texts]))[:, len(prompt) - 1 : -1].double()
        for step in steps:  # written out again for these two
            if step.warp == "temperature":
                logits = logits / 0.6
            else:
                logits = logits.masked_fill(logits < logits.topk(3).values[..., -1:], -torch.inf)
        totals = logits.log_softmax(-1).gather(-1, torch.tensor(texts)[..., None]).sum((1, 2))
        found += [(ids, total / length**penalty) for ids, total in zip(texts, totals.tolist(), strict=True)]
    found = [each for each in found if each[1] > -math.inf]
    return sorted(found, key=lambda each: -each[1])


def off(model, text=(), penalty: float = 1.0, warmth: float = 1.0) -> float:
    """How far the score of a text may be from another path's: a log-probability moves by at most twice its logits."""
    logits = logits_within(model, torch.tensor([[*PROMPT, *text]]))[0, len(PROMPT) - 1 :]
    return 2 * float(logits.max()) / warmth * len(text) / len(text) ** penalty


def beams(model, strategy, most: int, ending=frozenset(), ids=PROMPT, size: int = SMALL):
    ticks = list(generate(model, ids, [strategy], DecodingPlan(most, ending=frozenset(ending)), size))
    return *written(ticks), ticks[-1].changes[0].others


@pytest.mark.parametrize("penalty", [1.0, 0.0, 2.0, -1.0])
@pytest.mark.parametrize("variant", ["gpt2", "llama", "post"])
def test_enough_beams_find_the_best_of_all_texts(variant, penalty):
    """16 = 4^2 beams keep every text of two tokens, so that nothing is lost before the third."""
    model = small(variant=variant)
    found, ended, others = beams(model, search(16, penalty), 3)
    best = everything(model, PROMPT, 3, penalty)[:16]
    assert (tuple(found), ended) == (best[0][0], "length")
    assert [ids for ids, _ in others] == [ids for ids, _ in best]
    rounding = off(model, best[0][0], penalty)
    assert [score for _, score in others] == pytest.approx([score for _, score in best], abs=rounding)


@pytest.mark.parametrize("seed", range(4))
def test_enough_beams_find_the_best_of_texts_that_may_end_early(seed):
    """Without a penalty a longer text never scores better, so that the search ends only when it is sure."""
    model, ending = small(seed), frozenset((2,))
    found, ended, others = beams(model, search(16, 0.0, 3), 3, ending)
    best = everything(model, PROMPT, 3, 0.0, ending)
    assert [ids for ids, _ in others] == [ids for ids, _ in best[:3]]
    assert tuple(found) == best[0][0] and ended == ("end" if found[-1] == 2 else "length")


def test_warps_come_before_the_sum():
    model = small(3)
    found, _, others = beams(model, search(16, 1.0, 16, COLD), 3)
    best = everything(model, PROMPT, 3, 1.0, steps=COLD)
    assert [ids for ids, _ in others] == [ids for ids, _ in best[:16]] and tuple(found) == best[0][0]
    assert others[0][1] == pytest.approx(best[0][1], abs=off(model, best[0][0], warmth=0.5))


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_beam_is_greedy(variant):
    model, ids = tiny_model(VARIANTS[variant]), random_ids(1, 6)[0].tolist()
    greedy, _ = written(generate(model, ids, [STRATEGIES["greedy"]], DecodingPlan(9), V))
    found, _, ((text, score),) = beams(model, search(1), 9, ids=ids, size=V)
    assert found == greedy == list(text)
    with torch.no_grad():
        logs = model(torch.tensor([ids + greedy]))[0, len(ids) - 1 : -1].log_softmax(-1)
    rounding = 2 * float(logits_within(model, torch.tensor([ids + greedy])).max())
    assert score == pytest.approx(logs.amax(-1).mean().item(), abs=rounding)


class Table:
    """A model whose next token depends on the last one alone: row i holds the log-probabilities after token i."""

    def __init__(self, rows):
        self.model = tiny_model({"vocab_size": len(rows)})
        self.config, self.table, self.normed, self.unembed = (
            self.model.config,
            torch.tensor(rows).log(),
            lambda x: x,
            None,
        )

    def trunk(self, ids, cache, attend=None):
        cache.reserve(*ids.shape)
        cache.advance(ids.shape[1])
        return torch.nn.functional.one_hot(ids, len(self.table)).float()

    def logits(self, stream, cached=False):
        return stream @ self.table

    def normed(self, stream):
        return stream


def test_the_text_shown_is_the_best_so_far_and_its_end_can_change():
    """After token 0: 1 is likelier than 2, but what follows 2 is likelier than all that follows 1."""
    table = Table([[0.01, 0.5, 0.4, 0.09], [0.3, 0.2, 0.25, 0.25], [0.02, 0.02, 0.06, 0.9], [0.1, 0.1, 0.1, 0.7]])
    changes = [t.changes[0] for t in generate(table, [0], [search(2, 1.0, 2)], DecodingPlan(3), SMALL)]
    assert [[made.id for made in change.made] for change in changes] == [[1], [2, 3], [3]]
    assert [change.drop for change in changes] == [0, 1, 0]
    assert [change.ended for change in changes] == ["", "", "length"]
    (first, score), (second, other) = changes[2].others
    assert first == (2, 3, 3) and score == pytest.approx(math.log(0.4 * 0.9 * 0.7) / 3)
    # Of two texts kept after two tokens, 2 3 and 1 0 (0.5 x 0.3), the second goes on with 1 (0.5).
    assert second == (1, 0, 1) and other == pytest.approx(math.log(0.5 * 0.3 * 0.5) / 3)
    made = changes[1].made[1]
    assert (made.id, made.rank, made.kept) == (3, 1, 4) and made.log_probability == pytest.approx(math.log(0.9))
    assert math.isnan(made.probability) and math.isnan(made.uniform)


def test_a_search_ends_when_nothing_that_runs_beats_what_is_finished():
    """Token 3 ends. Two texts are finished after two tokens, 3 and 1 3, and what still runs is less likely."""
    table = Table([[0.05, 0.4, 0.05, 0.5], [0.05, 0.05, 0.1, 0.8], [0.3, 0.3, 0.3, 0.1], [0.25, 0.25, 0.25, 0.25]])
    ticks = list(generate(table, [0], [search(2, 0.0)], DecodingPlan(30, ending=frozenset((3,))), SMALL))
    assert [len(ticks), *written(ticks)] == [2, [3], "end"]
    assert [ids for ids, _ in ticks[-1].changes[0].others] == [(3,), (1, 3)]


def test_a_text_is_finished_only_among_the_likeliest():
    """Token 3 ends and is third at first. It would beat all that comes later, but only two are looked at."""
    late = Table([[0.01, 0.4, 0.34, 0.25], [0.25] * 4, [0.25] * 4, [0.25] * 4])
    ticks = list(generate(late, [0], [search(2, 0.0)], DecodingPlan(2, ending=frozenset((3,))), SMALL))
    assert [ids for ids, _ in ticks[-1].changes[0].others] == [(1, 0), (1, 1)]


def test_fewer_beams_run_where_fewer_tokens_are_left():
    one = (Step("top_k", (("k", 1),)),)
    model = small(1)
    found, ended, others = beams(model, search(4, 1.0, 4, one), 5)
    assert (len(found), ended, len(others)) == (5, "length", 1) and others[0][1] == pytest.approx(0)
