"""What speculative decoding refuses, before any forward of the model."""

import base64
import math

import pytest
import torch

from model.errors import CheckpointError, InputError
from model.generation.draft_costs import compare
from model.generation.requests import MOST_DRAFTED, Draft, Request, shares_tokenizer
from model.generation.speculative import speculate
from model.sampling.pipeline import Step
from model.text.tokenizer import from_tiktoken
from tests.support.models.helpers import L, V, byte_tokenizer, tiny_model

NO_WHOLE = (1.5, True, "3", None, math.nan, -3)


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.mark.parametrize("wrong", NO_WHOLE, ids=repr)
@pytest.mark.parametrize("name", ["size", "gamma", "max_new_tokens", "seed"])
def test_settings_are_whole_numbers(name, wrong):
    with pytest.raises(InputError):
        Request(**{"size": V, name: wrong})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"size": 0}, "not the size of a vocabulary. Got: 0"),
        ({"gamma": 0}, "number of tokens cannot be proposed. Got: 0"),
        ({"gamma": MOST_DRAFTED + 1}, f"Choose a value from 1 to {MOST_DRAFTED}"),
        ({"max_new_tokens": 0}, "max_new_tokens: 0"),
        ({"max_new_tokens": 4097}, "from 1 to 4096"),
        ({"seed": -1}, "seed: -1"),
        ({"steps": (Step("temperature", (("temperature", -1),)),)}, "temperature: -1"),
        ({"steps": (Step("top_k", (("p", 0.1),)),)}, "top_k, p: 0.1"),
        ({"ending": frozenset([1.5])}, "no token with this id. Got: 1.5"),
        ({"ending": frozenset([V])}, f"no token with this id. Got: {V}"),
    ],
)
def test_settings_out_of_range_are_refused(changes, said):
    with pytest.raises(InputError, match=said):
        Request(**{"size": V} | changes)


@pytest.mark.parametrize("kind", ["foo", "", None, 3])
def test_drafts_that_there_are_not(kind):
    with pytest.raises(InputError, match="Choose one of: layers, ngram, model"):
        Draft(kind)


@pytest.mark.parametrize("n", NO_WHOLE, ids=repr)
def test_a_draft_has_a_whole_number_of_layers_or_tokens(n):
    for kind in ("layers", "ngram"):
        with pytest.raises(InputError, match="n: "):
            Draft(kind, n)


@pytest.mark.parametrize("other", [None, "x", 3])
def test_a_draft_by_another_model_has_one(other):
    with pytest.raises(InputError, match="No other model"):
        Draft("model", model=other)


CALLS = [
    ([], Draft(), Request(V), "prompt is empty"),
    ([1] * 41, Draft(), Request(V), "Shorten it to 40"),
    ([1, 2.5], Draft(), Request(V), "no token with this id. Got: 2.5"),
    ([1, V], Draft(), Request(V), "no token with this id"),
    ([1, 30], Draft(), Request(20), "no token with this id. Got: 30. Ids run from 0 to 19"),
    ([1], Draft(), Request(V + 1), "more tokens than the model has rows"),
    ([1], Draft("layers", 0), Request(V), "that many layers"),
    ([1], Draft("layers", L + 1), Request(V), f"from 1 to {L}"),
    ([1], Draft("model", model=tiny_model({"vocab_size": V - 1})), Request(V), "has another vocabulary"),
    ([1] * 11, Draft("model", model=tiny_model({"n_ctx": 10})), Request(V), "too long for the draft model"),
]


@pytest.mark.parametrize(("ids", "draft", "request_", "said"), CALLS)
def test_what_does_not_fit_the_model_is_refused_at_the_call(model, ids, draft, request_, said):
    for call in (speculate, compare):
        with pytest.raises(InputError, match=said):
            call(model, ids, draft, request_)  # without a step of the iterator


def test_a_broken_model_writes_nothing():
    broken = tiny_model()
    broken.unembed.weight.data[3, 0] = math.nan
    with pytest.raises(CheckpointError, match="not finite"):
        list(speculate(broken, [1, 2], Draft("ngram", 1), Request(V, max_new_tokens=4)))
    assert torch.isnan(broken.unembed.weight).sum() == 1


def test_who_shares_a_tokenizer(tmp_path):
    a, b = byte_tokenizer(tmp_path), byte_tokenizer(tmp_path)
    assert shares_tokenizer(a, a) and shares_tokenizer(a, b)
    ranks = tmp_path / "turned.tiktoken"  # as many tokens, two of which change places
    order = [1, 0, *range(2, 256)]
    ranks.write_text("".join(f"{base64.b64encode(bytes([i])).decode()} {n}\n" for n, i in enumerate(order)))
    assert not shares_tokenizer(a, from_tiktoken(ranks))
    ranks.write_text(
        "".join(f"{base64.b64encode(bytes([i % 256] * (1 + i // 256))).decode()} {i}\n" for i in range(257))
    )
    assert not shares_tokenizer(a, from_tiktoken(ranks))
