"""Contrastive search against its formula, computed with a full forward for every candidate."""

import math

import pytest
import torch

from model.generation.generate import generate
from model.generation.strategies import STRATEGIES, DecodingPlan, Strategy
from model.sampling.pipeline import Step
from tests.support.models.helpers import VARIANTS, V, random_ids, tiny_model, written

PROMPT = random_ids(1, 6, seed=4)[0].tolist()


def contrastive(k: int, alpha: float, steps=()) -> Strategy:
    return Strategy(tuple(steps), "contrastive", (("candidates", k), ("alpha", alpha)))


@torch.inference_mode()
def formula(model, ids, k: int, alpha: float, most: int, temperature: float = 1.0) -> list[int]:
    """x_t = argmax over the k likeliest v of (1 - alpha) p(v | x_<t) - alpha max_j cos(h_v, h_x_j)."""
    ids, new = list(ids), []
    for _ in range(most):
        p = (model(torch.tensor([ids]))[0, -1].double() / temperature).softmax(-1)
        best = (-math.inf, -1)
        for v in p.topk(k).indices.tolist():
            h = model.normed(model.trunk(torch.tensor([[*ids, v]])))[0].double()  # [t + 1, D]
            cosines = [float(h[-1] @ h[j] / (h[-1].norm() * h[j].norm())) for j in range(len(ids))]
            best = max(best, ((1 - alpha) * float(p[v]) - alpha * max(cosines), v))
        new.append(best[1])
        ids.append(best[1])
    return new


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_the_formula(variant):
    model = tiny_model(VARIANTS[variant])
    ticks = list(generate(model, PROMPT, [contrastive(4, 0.6), contrastive(7, 0.9)], DecodingPlan(12), V))
    assert written(ticks, 0) == (formula(model, PROMPT, 4, 0.6, 12), "length")
    assert written(ticks, 1) == (formula(model, PROMPT, 7, 0.9, 12), "length")
    assert len(ticks) == 13 and ticks[0].changes[0].made == ()  # a token is known one forward later


def test_it_matters_what_the_states_are():
    """So that the test above can fail: the penalty changes what is written."""
    model = tiny_model(VARIANTS["llama"])
    assert formula(model, PROMPT, 4, 0.6, 12) != formula(model, PROMPT, 4, 0.0, 12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_a_penalty_or_a_choice_it_is_greedy(variant):
    strategies = [STRATEGIES["greedy"], contrastive(5, 0.0), contrastive(1, 0.6)]
    ticks = list(generate(tiny_model(VARIANTS[variant]), PROMPT, strategies, DecodingPlan(12), V))
    assert written(ticks, 0) == written(ticks, 1) == written(ticks, 2)


def test_warps_come_before_the_probabilities():
    model = tiny_model(VARIANTS["qwen3"])
    hot, two = Step("temperature", (("temperature", 2.5),)), Step("top_k", (("k", 2),))
    warm, fewer = (contrastive(6, 0.5, (hot,)), contrastive(6, 0.5, (two,)))
    ticks = list(generate(model, PROMPT, [warm, fewer, contrastive(6, 0.5)], DecodingPlan(10), V))
    assert written(ticks, 0)[0] == formula(model, PROMPT, 6, 0.5, 10, 2.5) != written(ticks, 2)[0]
    assert all(change.made[0].rank <= 2 for tick in ticks[1:] for change in tick.changes[1:2])
    assert {change.made[0].kept for tick in ticks[1:] for change in tick.changes[1:2]} == {2}


def test_it_ends_with_a_token_that_ends():
    model = tiny_model()
    whole = formula(model, PROMPT, 4, 0.6, 12)
    at = next(i for i, token in enumerate(whole) if token not in whole[:i] and i > 2)
    found = written(generate(model, PROMPT, [contrastive(4, 0.6)], DecodingPlan(12, ending=frozenset((whole[at],))), V))
    assert found == (whole[: at + 1], "end")
