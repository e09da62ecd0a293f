"""Exhaustive search finds what trying every text finds, and says how far it got."""

import math

import pytest
import torch

from model.errors import DeadEnd, InputError
from model.generation.search import exhaustive
from model.generation.search.beam_tree import beam_tree
from model.generation.search.exhaustive import most_probable
from model.generation.strategies import DecodingPlan, Strategy
from model.public import without_checks
from model.sampling.pipeline import Step
from tests.support.models.helpers import ALL_VARIANTS, tiny_model
from tests.unit.model.generation.test_beams import PROMPT, SMALL, Table, everything, off, small


@pytest.mark.parametrize("ending", [frozenset(), frozenset((0, 3))])
@pytest.mark.parametrize("variant", ["gpt2", "gemma"])
@pytest.mark.parametrize("seed", range(2))
def test_the_most_probable_text_is_that_of_all_texts(seed, variant, ending, monkeypatch):
    model = tiny_model({**ALL_VARIANTS[variant], "vocab_size": SMALL}, seed)  # gemma: some layers have a window
    best, total = everything(model, PROMPT, 4, 0.0, ending)[0]
    for beams in (4, 1):  # it does not depend on the text that it begins with
        monkeypatch.setattr(exhaustive, "_FIRST", Strategy((), "beam", (("beams", beams), ("length_penalty", 0))))
        found = most_probable(model, PROMPT, 4, SMALL, ending)
        assert found.ids == best and found.exact and found.bound == found.total
        assert found.total == pytest.approx(total, abs=off(model, best, 0.0))
        assert 1 <= found.passes <= found.runs <= 1 + 4 + 16 + 64


@pytest.mark.parametrize("seed", range(2))
def test_with_steps_it_is_the_most_probable_text_after_them(seed):
    model = tiny_model({**ALL_VARIANTS["gpt2"], "vocab_size": SMALL}, seed)
    steps = (Step("temperature", (("temperature", 0.6),)), Step("top_k", (("k", 3),)))
    best, total = everything(model, PROMPT, 4, 0.0, frozenset((3,)), steps)[0]
    found = most_probable(model, PROMPT, 4, SMALL, {3}, steps=steps)
    assert found.ids == best and found.exact
    assert found.total == pytest.approx(total, abs=off(model, best, 0.0, 0.6))
    assert found.total > most_probable(model, PROMPT, 4, SMALL, {3}).total  # less is left to share


def test_a_rule_ends_a_text_and_can_leave_none(lm):
    """Of two choices the likelier one, whose second letter is forced; "ab" would be likelier without the rule."""
    ids = lm.encode("abcab").ids.tolist()
    first = lm.model(torch.tensor([ids]))[0, -1].double()
    either = first[[ord("q"), ord("z")]].log_softmax(0).tolist()
    letter = "qz"[either[1] > either[0]]
    rule = Step("fits", rule=lm.rule("choice", "qq\nzz"))
    found = most_probable(lm.model, ids, 5, 256, steps=(rule,))
    assert lm.decode(found.ids) == 2 * letter and found.exact
    assert found.total == pytest.approx(max(either), abs=1e-5)
    with pytest.raises(DeadEnd):
        most_probable(lm.model, ids, 5, 256, steps=(Step("top_k", (("k", 1),)), rule))


@pytest.mark.parametrize("variant", ["gpt2", "llama", "gemma"])
def test_beginnings_of_different_lengths_share_a_pass(variant):
    """Each continues the prompt's cache as it would alone."""
    model = tiny_model({**ALL_VARIANTS[variant], "vocab_size": SMALL})
    texts = [(1,), (0, 3, 2), (2, 2), (3, 1, 0)]
    found = exhaustive._continuations(model, PROMPT, 4, SMALL)(texts)
    for text, logs in zip(texts, found, strict=True):
        alone = model(torch.tensor([[*PROMPT, *text]]))[0, -1, :SMALL]
        assert torch.allclose(logs, alone, atol=1e-4)


@pytest.fixture
def few_beams(monkeypatch):
    """Begin with two beams, which a table can run, and accept a table in place of a model."""
    monkeypatch.setattr(exhaustive, "beam_tree", without_checks(beam_tree))
    monkeypatch.setattr(exhaustive, "_FIRST", Strategy((), "beam", (("beams", 2), ("length_penalty", 0))))


# After token 0, five tokens are likelier than 6; but what follows them is uniform, and 6 is followed by 7.
FLAT = [1 / 12] * 12
found_best = without_checks(most_probable)  # of a table in place of a model

GARDEN = [
    [0.0005, *[0.17] * 5, 0.147, *[0.0005] * 5],
    *[FLAT] * 5,
    [0.005, *[0.0045] * 6, 0.95, *[0.0045] * 4],
    *[FLAT] * 5,
]


def test_it_finds_what_three_beams_miss(few_beams):
    table = Table(GARDEN)
    beams = without_checks(beam_tree)(table, [0], Strategy((), "beam", (("beams", 3),)), DecodingPlan(2), 12)
    assert beams.ids(beams.results[0])[0] == 1
    found = found_best(table, [0], 2, 12)
    assert found.ids == (6, 7) and found.exact and found.total == pytest.approx(math.log(0.147 * 0.95))
    assert found.runs == 7  # the prompt, and the six beginnings that are likelier than 0.17 / 12


def test_with_steps_it_finds_what_beams_miss_after_them(few_beams):
    steps = (Step("temperature", (("temperature", 0.9),)),)
    found = found_best(Table(GARDEN), [0], 2, 12, steps=steps)
    first, second = ([p ** (1 / 0.9) for p in GARDEN[row]] for row in (0, 6))
    assert found.ids == (6, 7) and found.exact
    assert found.total == pytest.approx(math.log(first[6] / sum(first)) + math.log(second[7] / sum(second)), abs=1e-5)


def test_a_limit_leaves_a_bound(few_beams):
    table = Table(GARDEN)
    found = found_best(table, [0], 2, 12, most_runs=3)
    assert (found.exact, found.runs) == (False, 3) and found.ids[0] == 1
    assert found.total == pytest.approx(math.log(0.17 / 12))
    assert found.total < math.log(0.147 * 0.95) < found.bound == pytest.approx(math.log(0.17))
    one = found_best(table, [0], 2, 12, most_runs=1)
    assert (one.exact, one.runs, one.passes) == (False, 1, 1)


def test_a_text_may_end_early_and_is_then_more_probable(few_beams):
    """Token 3 ends: alone it has 0.398, and whatever begins with 1 (0.6) has at most 0.6 x 0.5."""
    table = Table([[0.001, 0.6, 0.001, 0.398], [0.5, 0.1, 0.2, 0.2], [0.25] * 4, [0.25] * 4])
    assert found_best(table, [0], 3, SMALL, frozenset((3,))).ids == (3,)
    assert len(found_best(table, [0], 3, SMALL).ids) == 3


def test_a_text_that_does_not_fit_is_refused():
    model = small()
    with pytest.raises(InputError, match="too long"):
        most_probable(model, PROMPT, model.config.n_ctx, SMALL)
