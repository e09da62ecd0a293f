"""Log-probabilities of choices in one batch against a plain loop: one row at a time, no cache, no padding."""

import math
import random

import pytest
import torch

from model.errors import InputError
from model.prompting import choices as module
from model.prompting.choices import Asked, batches, choice_log_probs, common_prefix
from tests.support.models.helpers import VARIANTS, V, tiny_model


def asked(n=12, shared=5, seed=0):
    rng = random.Random(seed)

    def ids(count):
        return tuple(rng.randrange(V) for _ in range(count))

    begin = ids(shared)
    return [
        Asked(begin + ids(rng.randrange(1, 7)), tuple(ids(rng.randrange(1, 4)) for _ in range(rng.randrange(1, 4))))
        for _ in range(n)
    ]


@torch.no_grad()
def by_hand(model, questions, size):
    found = []
    for each in questions:
        rows = []
        for choice in each.choices:
            logits = model(torch.tensor([[*each.prompt, *choice]]))[0, :, :size].double()
            log_p = logits.log_softmax(-1)
            rows.append([float(log_p[len(each.prompt) + at - 1, id]) for at, id in enumerate(choice)])
        found.append(rows)
    return found


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shared", [0, 5])
def test_the_batch_says_what_a_plain_loop_says(variant, shared, monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 5)  # several batches
    model, questions = tiny_model(VARIANTS[variant]), asked(shared=shared)
    reports = []
    found = choice_log_probs(model, questions, V, lambda *report: reports.append(report))
    for mine, theirs in zip(found, by_hand(model, questions, V), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert a == pytest.approx(b, abs=3e-5)
    assert len(reports) > 1 and reports[-1][0] == reports[-1][1]


def test_choices_that_begin_alike_leave_the_prompts_last_token_to_be_read():
    model, questions = tiny_model(), [Asked((3, 1, 4), ((5, 6), (5, 7)))]
    found = choice_log_probs(model, questions, V)[0]
    for mine, theirs in zip(found, by_hand(model, questions, V)[0], strict=True):
        assert mine == pytest.approx(theirs, abs=3e-5)


def test_tokens_beyond_the_vocabulary_have_no_share():
    model, questions = tiny_model(), [Asked((3, 1), ((2,), (0, 4)))]
    found = choice_log_probs(model, questions, V - 3)
    assert found[0][0] == pytest.approx(by_hand(model, questions, V - 3)[0][0], abs=3e-5)
    assert found[0][0][0] > by_hand(model, questions, V)[0][0][0]


def test_choices_of_one_token_read_the_prompt_once(monkeypatch):
    read = []
    model = tiny_model()
    trunk = model.trunk
    monkeypatch.setattr(model, "trunk", lambda ids, **more: read.append(tuple(ids.shape)) or trunk(ids, **more))
    choice_log_probs(model, [Asked((3, 1, 4), tuple((id,) for id in range(9)))], V)
    assert read == [(1, 2), (1, 1)]  # what is shared, then one row with the last token


def test_the_common_beginning_leaves_a_token_to_read():
    assert common_prefix([(1, 2, 3), (1, 2, 4)]) == 2
    assert common_prefix([(1, 2), (1, 2)]) == 1
    assert common_prefix([(1,), (1, 5)]) == 0
    assert common_prefix([(1, 2, 3), (4, 2, 3)]) == 0


def test_a_batch_is_bounded_in_rows_and_in_bytes(monkeypatch):
    config = tiny_model().config
    rows = [range(4)] * 70
    assert [len(batch) for batch in batches(rows, config)] == [32, 32, 6]
    token = 8 * config.n_layer * config.n_kv_head * config.d_head
    monkeypatch.setattr(module, "MOST_CACHE", 10 * 4 * token)
    assert [len(batch) for batch in batches(rows[:25], config)] == [10, 10, 5]


def test_nothing_to_read_and_too_much_are_refused():
    model = tiny_model()
    for wrong in (Asked((), ((1,),)), Asked((1,), ((),)), Asked((1,), ())):
        with pytest.raises(InputError, match="empty"):
            choice_log_probs(model, [wrong], V)
    with pytest.raises(InputError, match="too long"):
        choice_log_probs(model, [Asked((1,) * model.config.n_ctx, ((1, 2),))], V)


@pytest.mark.parametrize("size", [V, V + 100, V - 3])
def test_ids_outside_the_vocabulary_are_refused(size):
    """The vocabulary may have fewer tokens than the model has rows, and nothing has more than these."""
    model, last = tiny_model(), min(size, V) - 1
    assert math.isfinite(choice_log_probs(model, [Asked((last,), ((last,),))], size)[0][0][0])
    for wrong in (Asked((1,), ((last + 1,),)), Asked((1,), ((1, -1),)), Asked((last + 1,), ((1,),))):
        with pytest.raises(InputError, match=rf"no token with this id\. Got: -?\d+\. Ids run from 0 to {last}\."):
            choice_log_probs(model, [wrong], size)
