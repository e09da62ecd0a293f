"""Texts of models whose layers differ in size, share keys and values, or read a token's vector (Gemma 4)."""

import pytest
import torch

from model.generation.generate import generate
from model.generation.search.beam_tree import beam_tree
from model.generation.search.exhaustive import most_probable
from model.generation.strategies import STRATEGIES, DecodingPlan, Strategy
from model.generation.together import SharedBatch
from tests.support.models.helpers import OWN_LAYERS, V, random_ids, tiny_model

NEW, NAMES = 8, ("greedy", "top_p", "min_p")
IDS = random_ids(1, 21)[0].tolist()  # longer than the window


@pytest.fixture(scope="module", params=OWN_LAYERS)
def model(request):
    return tiny_model(OWN_LAYERS[request.param])


def texts(ticks):
    made = [[] for _ in NAMES]
    for tick in ticks:
        for text, change in zip(made, tick.changes, strict=True):
            text += [each.id for each in change.made] if change else []
    return made


@torch.inference_mode()
def test_the_cache_gives_the_text_of_a_forward_pass_per_token_alone_and_in_a_shared_batch(model):
    strategies, plan = [STRATEGIES[name] for name in NAMES], DecodingPlan(NEW, 3)
    alone = texts(generate(model, IDS, strategies, plan, V))
    ids = list(IDS)
    for _ in range(NEW):
        ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    assert alone[0] == ids[len(IDS) :]
    assert texts(SharedBatch.of(model).generate(IDS, strategies, plan, V, None)) == alone
    assert len({tuple(each) for each in alone}) == len(NAMES)


@torch.inference_mode()
def test_beams_score_the_texts_that_the_forward_pass_scores(model):
    tree = beam_tree(
        model, IDS, Strategy(method="beam", options=(("beams", 16), ("length_penalty", 0))), DecodingPlan(3), V
    )
    best = most_probable(model, IDS, 3, V, most_runs=4096)
    for total, ids in (
        (best.total, best.ids),
        *((tree.candidates[each].total, tree.ids(each)) for each in tree.results),
    ):
        logs = model(torch.tensor([[*IDS, *ids]]))[0].double().log_softmax(-1)
        assert total == pytest.approx(sum(float(logs[len(IDS) - 1 + n, id]) for n, id in enumerate(ids)), abs=1e-4)
        assert total <= best.bound + 1e-6
