"""Texts that join and leave one batch are the texts that each would be alone."""

import gc
import random
import threading
from collections.abc import Iterator

import pytest
import torch

import model.generation.together as together_module
from model.errors import CheckpointError, InputError
from model.forgetting.policies import Policy
from model.generation.generate import Tick, generate
from model.generation.strategies import STRATEGIES, DecodingPlan, Strategy
from model.generation.together import SharedBatch
from model.sampling.pipeline import Step
from tests.support.models.helpers import VARIANTS, V, byte_model, random_ids, tiny_model, written
from tests.support.models.rounding import logits_within

BOUNDED = Strategy(memory=Policy("h2o", 6))
TEXTS = (  # length of the prompt, strategies, plan
    (7, [STRATEGIES["greedy"]], DecodingPlan(12)),
    (3, [STRATEGIES["top_p"], STRATEGIES["beam"]], DecodingPlan(9, seed=4)),
    (11, [STRATEGIES["contrastive"], STRATEGIES["penalties"]], DecodingPlan(6, seed=1)),
    (5, [BOUNDED, STRATEGIES["temperature"]], DecodingPlan(10, seed=2)),
    (1, [Strategy((Step("temperature", (("temperature", 3.0),)),))] * 3, DecodingPlan(8, seed=3, shared=False)),
)


def prompt(at: int) -> list[int]:
    return random_ids(1, TEXTS[at][0], seed=at)[0].tolist()


def of(batch: SharedBatch, at: int) -> Iterator[Tick]:
    _, strategies, plan = TEXTS[at]
    return batch.generate(prompt(at), strategies, plan, V)


def alone(model, at: int) -> list[Tick]:
    _, strategies, plan = TEXTS[at]
    return list(generate(model, prompt(at), strategies, plan, V))


def in_turns(batch: SharedBatch, order: random.Random) -> dict[int, list[Tick]]:
    """All texts, begun and continued in a random order."""
    ticks: dict[int, list[Tick]] = {at: [] for at in range(len(TEXTS))}
    waiting, live = list(ticks), {}
    while waiting or live:
        if waiting and (not live or order.random() < 0.3):
            at = waiting.pop(order.randrange(len(waiting)))
            live[at] = of(batch, at)
        at = order.choice(list(live))
        tick = next(live[at], None)
        if tick is None:
            del live[at]
        else:
            ticks[at].append(tick)
    return ticks


def assert_same(model, ticks: list[Tick], at: int) -> None:
    """The same texts, and the same numbers but for the rounding of another batch."""
    own = alone(model, at)
    assert len(ticks) == len(own)
    for row in range(len(TEXTS[at][1])):
        assert written(ticks, row) == written(own, row)
        ids = torch.tensor([[*prompt(at), *written(own, row)[0]]])
        off = 2 * float(logits_within(model, ids).max())
        for tick, single in zip(ticks, own, strict=True):
            if tick.changes[row] is None:
                assert single.changes[row] is None
                continue
            for one, other in zip(tick.changes[row].made, single.changes[row].made, strict=True):
                assert (one.id, one.rank, one.kept, one.uniform) == pytest.approx(
                    (other.id, other.rank, other.kept, other.uniform), abs=0, nan_ok=True
                )
                assert one.log_probability == pytest.approx(other.log_probability, abs=off)


@pytest.mark.parametrize("variant", VARIANTS)
def test_texts_that_come_and_go_are_what_each_is_alone(variant):
    model = tiny_model(VARIANTS[variant])
    batch = SharedBatch(model)
    for at, ticks in in_turns(batch, random.Random(variant)).items():
        assert_same(model, ticks, at)
    assert batch.seats == []


def test_one_forward_serves_all_who_wait(monkeypatch):
    model, forwards = tiny_model(), []
    batch = SharedBatch(model)
    whole = together_module.forward_all
    monkeypatch.setattr(
        together_module, "forward_all", lambda model, needs: forwards.append(len(needs)) or whole(model, needs)
    )
    texts = [batch.generate([1, 2, 3 + at], [STRATEGIES["greedy"]], DecodingPlan(6), V) for at in range(4)]
    for _ in range(6):
        for text in texts:
            assert len(next(text).changes) == 1
    assert [next(text, None) for text in texts] == [None] * 4
    assert forwards == [4] * 5  # and four prompts, each by a forward of its own


def test_a_text_that_nobody_asks_for_is_one_step_ahead_and_no_more(monkeypatch):
    model, forwards = tiny_model(), []
    batch = SharedBatch(model)
    whole = together_module.forward_all
    monkeypatch.setattr(
        together_module, "forward_all", lambda model, needs: forwards.append(len(needs)) or whole(model, needs)
    )
    slow, quick = (batch.generate([1, 2], [Strategy()], DecodingPlan(8), V) for _ in range(2))
    ticks = [next(slow)]
    list(quick)
    assert forwards == [2, 1, 1, 1, 1, 1, 1]
    slow.close()
    assert batch.seats == [] and len(ticks) == 1


def test_no_forward_has_more_rows_than_allowed(monkeypatch):
    model, rows = tiny_model(), []
    batch = SharedBatch(model, most_rows=5)
    whole = together_module.forward_all

    def counted(model, needs):
        rows.append(sum(len(need.ids) for need in needs))
        return whole(model, needs)

    monkeypatch.setattr(together_module, "forward_all", counted)
    texts = [batch.generate([1, at], [Strategy()] * 2, DecodingPlan(4), V) for at in range(4)]
    ticks = [[next(text) for text in texts] for _ in range(4)]
    assert max(rows) == 4 and sum(rows) == 24 and len(ticks) == 4


def test_texts_of_several_threads_are_what_each_is_alone():
    model = tiny_model()
    batch, found = SharedBatch(model), {}

    def write(at: int) -> None:
        found[at] = list(of(batch, at))

    threads = [threading.Thread(target=write, args=(at,)) for at in range(len(TEXTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for at in range(len(TEXTS)):
        assert_same(model, found[at], at)


@pytest.mark.parametrize("mixer", [{"mixer": ("softmax", "mamba", "linear")}, {"mixer": "sliding_window", "window": 4}])
def test_a_model_that_carries_a_state_writes_each_text_by_itself(mixer):
    model = tiny_model(mixer)
    batch = SharedBatch(model)
    texts = [batch.generate([1, 2, 3], [STRATEGIES[name]], DecodingPlan(6), V) for name in ("greedy", "top_p")]
    together = list(zip(*texts, strict=True))
    for at, name in enumerate(("greedy", "top_p")):
        single = list(generate(model, [1, 2, 3], [STRATEGIES[name]], DecodingPlan(6), V))
        assert written([ticks[at] for ticks in together]) == written(single)


def test_arguments_are_refused_before_the_model_runs():
    model = tiny_model()
    batch = SharedBatch(model)
    with pytest.raises(InputError):
        batch.generate([], [Strategy()], DecodingPlan(), V)
    with pytest.raises(InputError):
        batch.generate([1], [], DecodingPlan(), V)
    assert batch.seats == []


def test_a_broken_model_ends_its_texts_and_leaves_no_seat():
    model = tiny_model()
    batch = SharedBatch(model)
    texts = [batch.generate([1, 2], [Strategy()], DecodingPlan(5), V) for _ in range(2)]
    for text in texts:
        next(text)
    with torch.no_grad():
        model.final_norm.weight.fill_(torch.nan)
    for text in texts:
        with pytest.raises(CheckpointError):
            next(text)
    assert batch.seats == []


def test_a_model_has_one_batch_which_does_not_keep_it():
    model = tiny_model()
    batch = SharedBatch.of(model)
    assert SharedBatch.of(model) is batch is not SharedBatch.of(tiny_model())
    del model
    gc.collect()
    with pytest.raises(ValueError, match="gone"):
        batch.generate([1], [Strategy()], DecodingPlan(), V)


def test_texts_of_a_language_model_share_forwards_when_asked_to(tmp_path, monkeypatch):
    lm, forwards = byte_model(tmp_path), []
    whole = together_module.forward_all
    monkeypatch.setattr(
        together_module, "forward_all", lambda model, needs: forwards.append(len(needs)) or whole(model, needs)
    )
    texts = [lm.generate(prompt, "top_p", 5, seed=1, together=True) for prompt in ("once", "a long time ago")]
    ticks = list(zip(*texts, strict=True))
    assert forwards == [2] * 4
    for at, prompt in enumerate(("once", "a long time ago")):
        assert written([each[at] for each in ticks]) == written(lm.generate(prompt, "top_p", 5, seed=1))
