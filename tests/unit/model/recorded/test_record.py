"""Attention from elsewhere becomes a record, or a sentence says what was expected and got."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.recorded import taken
from model.recorded.record import record_of

WORDS = ["The", " cat", " sat", "."]


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def drawn(*shape: int, causal: bool = False) -> np.ndarray:
    scores = np.random.default_rng(0).normal(size=shape)
    if causal:
        scores = np.where(np.tri(shape[-1], dtype=bool), scores, -np.inf)
    return softmax(scores)


A = drawn(2, 3, 4, 4)


@pytest.mark.parametrize(
    "attention",
    [
        A,
        A.astype(np.float32),
        torch.from_numpy(A),
        torch.from_numpy(A).requires_grad_(),
        torch.from_numpy(A).to(torch.bfloat16),
        torch.from_numpy(A).half(),
        A.tolist(),
        list(A),
        tuple(torch.from_numpy(A)[:, None]),
        A[:, None],
        SimpleNamespace(__array__=lambda dtype=None, copy=None: A, shape=A.shape),
    ],
    ids=str.split("float64 float32 torch grad bfloat16 half lists layers transformers batch-axis array-protocol"),
)
def test_every_form_of_the_same_attention_gives_the_same_record(attention):
    if isinstance(attention, SimpleNamespace):
        attention = type("Foreign", (), {"shape": A.shape, "__array__": lambda self, dtype=None, copy=None: A})()
    record = record_of(attention, WORDS)
    assert record.weights.shape == (2, 3, 4, 4) and record.weights.dtype == np.float32
    assert np.abs(record.weights - A).max() < 4e-3
    assert record.queries == tuple(WORDS) and record.keys is None and record.mask == "two-way"


def test_one_layer_and_one_head():
    assert record_of(A[0], WORDS).weights.shape == (1, 3, 4, 4)
    assert record_of(A[0, 0], WORDS).weights.shape == (1, 1, 4, 4)


def test_the_mask_is_read_from_the_numbers():
    assert record_of(drawn(1, 2, 4, 4, causal=True), WORDS).mask == "causal"
    assert record_of(drawn(1, 2, 4, 4), WORDS).mask == "two-way"
    assert record_of(np.ones((1, 1, 1, 1)), ["x"]).mask == "causal"
    almost = drawn(1, 2, 4, 4, causal=True)
    almost[0, 1, 2] = [0.5, 0.25, 0.249, 0.001]  # one weight on a later token, in one head
    assert record_of(almost, WORDS).mask == "two-way"
    assert record_of(drawn(1, 2, 4, 4), WORDS, keys=WORDS).mask == "cross"
    cross = record_of(drawn(1, 2, 4, 7), WORDS, keys=list("abcdefg"))
    assert cross.mask == "cross" and cross.key_tokens == tuple("abcdefg")


def test_an_example_of_a_batch():
    batch = torch.from_numpy(drawn(2, 5, 3, 4, 4))  # [L, B, H, T, S]
    record = record_of(list(batch), WORDS, batch=3)
    assert np.allclose(record.weights, batch[:, 3])
    assert np.allclose(record_of(batch, WORDS, batch=3).weights, batch[:, 3])


def test_padding_is_cut():
    scores = np.random.default_rng(1).normal(size=(2, 3, 6, 6))
    scores[..., [0, 5]] = -1e9
    whole = softmax(scores)
    whole[:, :, 0] = np.nan  # a row of padding may be anything
    tokens = ["<pad>", *WORDS, "<pad>"]
    record = record_of(whole, tokens, padding=torch.tensor([[0, 1, 1, 1, 1, 0]]))
    assert record.queries == tuple(WORDS) and np.allclose(record.weights, whole[:, :, 1:5, 1:5])
    assert record.notes == ("2 padding tokens are cut.",)
    cross = record_of(whole[:, :, 1:3], ["a", "b"], tokens, key_padding=[0, 1, 1, 1, 1, 0])
    assert cross.weights.shape == (2, 3, 2, 4) and cross.keys == tuple(WORDS)


def test_layers_and_heads_are_chosen_and_numbered():
    attention = drawn(6, 4, 4, 4)
    record = record_of(attention, WORDS, layers=range(2, 5), heads=[3, 1])
    assert record.first_layer == 2 and np.allclose(record.weights, attention[2:5][:, [3, 1]])
    assert record.notes == ("Heads are numbered here in this order: 3, 1.",)
    assert record_of(attention, WORDS, first_layer=10, layers=[11]).first_layer == 11
    assert record_of(attention, WORDS, layers=3, heads=2).weights.shape == (1, 1, 4, 4)


def test_a_row_of_zeros_is_kept_and_noted():
    attention = drawn(1, 2, 4, 4)
    attention[0, 1, 2] = 0
    record = record_of(attention, WORDS)
    assert not record.weights[0, 1, 2].any() and "1 rows are 0" in record.notes[0]


def changed(place: tuple, value: float) -> np.ndarray:
    attention = A.copy()
    attention[place] = value
    return attention


BAD = {
    "NaN": (changed((1, 2, 3, 0), np.nan), "not numbers", "layer 1, head 2, row 3, column 0: NaN"),
    "inf": (changed((0, 1, 2, 3), np.inf), "infinite", "layer 0, head 1, row 2, column 3: inf"),
    "masked scores": (changed((0, 0, 0, 1), -np.inf), "scores before the softmax", "-inf"),
    "scores": (np.random.default_rng(0).normal(size=A.shape), "scores before the softmax", "layer 0"),
    "positive scores": (3 + A, "scores before the softmax", "layer 0, head 0, row 0: 13"),
    "dropout": (changed((1, 0, 2), A[1, 0, 2] * 0.9), "A row does not sum to 1.", "layer 1, head 0, row 2: 0.9"),
    "transposed": (A.swapaxes(-1, -2), "columns sum to 1", "layer 0, head 0, row 0"),
    "one axis": (A[0, 0, 0], "shape of attention", "[4]"),
    "six axes": (A[None, None], "shape of attention", "[1, 1, 2, 3, 4, 4]"),
    "no layer": ([], "empty", ""),
    "no head": (A[:, :0], "empty", "[2, 0, 4, 4]"),
    "text": ("attention", "not an array", "str"),
    "words": ([["a", "b"]], "real numbers", "<U1"),
    "complex": (A.astype(complex), "real numbers", "complex"),
    "ragged": ([[[0.5, 0.5], [1.0]]], "cannot be read", "list"),
    "a batch": ([torch.ones(5, 3, 4, 4)], "batch of several", "[5, 3, 4, 4]"),
    "a layer of one head": ([A[0, 0], A[0, 1]], "layer does not have the shape", "layer 0: [4, 4]"),
    "other heads": ([A[0], A[0, :2]], "different numbers of heads", "layer 0: [3, 4, 4]; layer 1: [2, 4, 4]"),
    "other tokens": ([A[0], A[0, :, :3, :3]], "different numbers of tokens", "layer 1: [3, 3, 3]"),
    "no attention in a layer": ([A[0], None], "layer has no attention", "layer 1"),
    "a layer of text": ([A[0], "x"], "layer is not an array", "str"),
    "too few tokens": (A[:, :, :3, :3], "number of tokens", "3 queries × 3 keys, 4 tokens"),
    "a step of generation": (A[:, :, :1], "Queries and keys differ", "1 queries × 4 keys"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_attention_is_refused(name):
    attention, what, got = BAD[name]
    with pytest.raises(InputError) as error:
        record_of(attention, WORDS)
    assert what in error.value.what and got in error.value.got and error.value.hint


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"tokens": "The cat"}, "tokens is not a list of tokens."),
        ({"tokens": 4}, "tokens is not a list of tokens."),
        ({"tokens": [1, 2, 3, 4]}, "tokens has ids"),
        ({"tokens": torch.tensor([1, 2, 3, 4])}, "tokens has ids"),
        ({"tokens": []}, "tokens is empty."),
        ({"tokens": [None] * 4}, "tokens is not a list of texts."),
        ({"keys": ["a"]}, "numbers of tokens and keys"),
        ({"padding": [1, 1]}, "padding does not fit"),
        ({"padding": [2, 1, 1, 1]}, "padding has other values"),
        ({"padding": [0, 0, 0, 0]}, "padding leaves no token"),
        ({"padding": [1, 1, 1, 0]}, "hides tokens that have weight"),
        ({"key_padding": [1, 1, 1, 0]}, "key_padding is for keys"),
        ({"batch": 0}, "no batch axis"),
        ({"which": "left"}, "no such kind"),
        ({"which": "cross"}, "one kind only"),
        ({"layers": [2]}, "layers has numbers"),
        ({"layers": []}, "layers has numbers"),
        ({"heads": [0.5]}, "heads has numbers"),
        ({"first_layer": -1}, "first_layer"),
        ({"grid": (2, 2)}, "grid but no image"),
    ],
    ids=str,
)
def test_arguments_that_do_not_fit_are_refused(arguments, what):
    with pytest.raises(InputError) as error:
        record_of(**({"attention": A, "tokens": WORDS} | arguments))
    assert what in error.value.what


def test_layers_that_do_not_follow_each_other_are_refused():
    with pytest.raises(InputError, match="follow each other"):
        record_of(drawn(4, 1, 4, 4), WORDS, layers=[0, 2])


def test_too_much_attention_is_refused_before_it_is_copied(monkeypatch):
    monkeypatch.setattr(taken, "MOST_WEIGHTS", 50)
    with pytest.raises(InputError, match="too much") as error:
        record_of(A, WORDS)
    assert error.value.got == "2 × 3 × 4 × 4"
    with pytest.raises(InputError, match="too much"):
        record_of(list(A), WORDS)


def test_exchanged_tokens_and_keys_are_told():
    with pytest.raises(InputError) as error:
        record_of(drawn(1, 1, 2, 3), ["a", "b", "c"], ["a", "b"])
    assert error.value.hint == "Exchange tokens and keys."


def test_rounding_of_half_types_is_no_error():
    weights = torch.softmax(torch.randn(1, 1, 1, 900, generator=torch.Generator().manual_seed(0)), -1)
    assert record_of(weights.bfloat16(), ["x"], ["k"] * 900).mask == "cross"
    with pytest.raises(InputError, match="does not sum to 1"):
        record_of(weights * 0.985, ["x"], ["k"] * 900)  # that much is no rounding of float32
