"""A model built up part by part: every rung is the model with the other parts' outputs replaced."""

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.api import load_model
from model.gpt.edits import Edit, tap_of
from model.predictions.floors import OUTPUT, ladder_losses, ladder_texts, parts_of
from tests.support.models.helpers import ALL_VARIANTS, VARIANTS, random_ids, tiny_config, tiny_model

T = 12
TEXT = random_ids(1, T)[0].tolist()


def mean_loss(logits: torch.Tensor, ids: list[int]) -> float:
    return F.cross_entropy(logits[0, :-1].float(), torch.tensor(ids[1:])).item()


def knocked_down(model, rung: int, fills=None):
    """A tap, written apart from the module, that keeps the parts 0 .. rung."""
    dropped = {(OUTPUT[part.kind], part.layer): part for part in parts_of(model.config)[rung + 1 :]}

    def tap(site, layer, x):
        if (site, layer) not in dropped:
            return x
        return torch.zeros_like(x) if fills is None else fills[site, layer].expand_as(x)

    return tap


def means_of(model) -> dict:
    """The mean output of each part over the tokens of the text, by site and layer."""
    seen = {}

    def keep(site, layer, x):
        seen[site, layer] = x.reshape(-1, x.shape[-1]).mean(0) if site in OUTPUT.values() else None
        return x

    with torch.no_grad():
        model(torch.tensor([TEXT]), tap=keep)
    return seen


@pytest.mark.parametrize("variant", ALL_VARIANTS)
@pytest.mark.parametrize("how", ["zero", "mean"])
def test_every_rung_is_the_whole_model_with_the_parts_above_replaced(variant, how):
    model = tiny_model(ALL_VARIANTS[variant])
    fills = means_of(model) if how == "mean" else None
    with torch.no_grad():
        expected = [
            mean_loss(model(torch.tensor([TEXT]), tap=knocked_down(model, rung, fills)), TEXT)
            for rung in range(len(parts_of(model.config)))
        ]
    losses = ladder_losses(model, TEXT, how)
    assert np.allclose(losses, expected, atol=1e-5)
    assert np.abs(np.diff(losses)).min() > 1e-6  # every part of a shaken model changes something


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_last_rung_is_the_model_and_the_first_one_a_bigram(variant):
    model = tiny_model(VARIANTS[variant])
    losses = ladder_losses(model, TEXT)
    with torch.no_grad():
        assert losses[-1] == pytest.approx(mean_loss(model(torch.tensor([TEXT])), TEXT), abs=1e-5)
        if model.config.norm_placement == "pre":  # norm and output head, straight from the embedding
            x = model.embed.weight[torch.tensor(TEXT)]
            if model.final_norm is not None:
                x = model.final_norm(x)
            assert losses[0] == pytest.approx(mean_loss((x @ model.unembed.weight.T)[None], TEXT), abs=1e-5)
    each = [ladder_losses(model, list(pair))[0] for pair in pairwise(TEXT)]  # no token but the current one counts
    assert ladder_losses(model, TEXT)[0] == pytest.approx(np.mean(each), abs=1e-4)


def test_zeros_are_the_edits_of_heads_and_mlps():
    """Without biases, switching off all heads and the MLP of the last layer is the rung below them."""
    model = tiny_model(VARIANTS["llama"])
    last = model.config.n_layer - 1
    edits = [*(Edit("zero", last, head) for head in range(model.config.n_head)), Edit("mlp_zero", last)]
    with torch.no_grad():
        edited = mean_loss(model(torch.tensor([TEXT]), tap=tap_of(edits, {})), TEXT)
    assert ladder_losses(model, TEXT)[-3] == pytest.approx(edited, abs=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("how", ["zero", "mean"])
def test_every_row_of_texts_is_what_its_rung_writes_alone(variant, how):
    model = tiny_model(VARIANTS[variant])
    fills = means_of(model) if how == "mean" else None
    with torch.no_grad():
        written = ladder_texts(model, TEXT, TEXT[:5], how, new=6)
        for rung, row in enumerate(written):
            ids = TEXT[:5]
            tap = knocked_down(model, rung, fills)
            for _ in range(6):
                ids = [*ids, int(model(torch.tensor([ids]), tap=tap)[0, -1].argmax())]
            assert row.tolist() == ids[5:]
    assert len(written) == len(parts_of(model.config))


def test_the_parts_stand_in_the_order_of_the_computation():
    assert [tuple(part) for part in parts_of(tiny_config({"n_layer": 1}))] == [
        (-1, "embed"),
        (-1, "positions"),
        (0, "attention"),
        (0, "mlp"),
    ]
    assert all(part.kind != "positions" for part in parts_of(tiny_config(VARIANTS["llama"])))


def test_a_full_context_and_a_single_token_have_their_answers():
    model = tiny_model()
    full = random_ids(1, model.config.n_ctx)[0].tolist()
    assert ladder_texts(model, TEXT, full, new=6).shape == (len(parts_of(model.config)), 1)
    assert np.isnan(ladder_losses(model, TEXT[:1])).all()
    assert ladder_texts(model, TEXT, TEXT, vocab=3).max() < 3


@pytest.fixture(scope="module")
def tinygpt():
    return load_model("tinygpt", offline=True)


TEXTS = [
    "The cat sat on the mat because it was tired",
    "Once upon a time there was a little girl who lived in a house with a garden.",
    '"Where is the princess?" asked Sara, and nobody answered.',
]


@pytest.mark.parametrize("text", TEXTS)
def test_tinygpt_ends_with_its_own_loss_and_begins_with_its_bigrams(tinygpt, text):
    """The bigrams are multiplied out in NumPy: the norm of an embedding times every other embedding."""
    run, weights = tinygpt.trace(text), {name: each.numpy() for name, each in tinygpt.model.state_dict().items()}
    ids = run.tokens.ids
    losses = ladder_losses(tinygpt.model, ids.tolist(), "zero")
    assert losses[-1] == pytest.approx(cross_entropy(run.logits, ids), abs=1e-5)
    x = weights["embed.weight"][ids].astype(np.float64)
    centered = x - x.mean(-1, keepdims=True)
    normed = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + tinygpt.config.norm_eps)
    scaled = normed * weights["final_norm.weight"] + weights["final_norm.bias"]
    assert losses[0] == pytest.approx(cross_entropy(scaled @ weights["embed.weight"].T, ids), abs=1e-4)


def cross_entropy(logits: np.ndarray, ids: np.ndarray) -> float:
    """The mean loss of the next token, in float64. logits [T, V]"""
    z = logits[:-1].astype(np.float64)
    largest = z.max(-1)
    total = largest + np.log(np.exp(z - largest[:, None]).sum(-1))
    return float((total - z[np.arange(len(z)), ids[1:]]).mean())


def test_an_embedding_that_is_the_same_for_all_tokens_makes_a_unigram_model():
    model = tiny_model({"tie_embeddings": False})
    with torch.no_grad():
        model.embed.weight[:] = model.embed.weight[0].clone()
        one = model.unembed.weight @ model.final_norm(model.embed.weight[0])  # one distribution for all places
    shares = torch.log_softmax(one.double(), -1).numpy()
    assert ladder_losses(model, TEXT)[0] == pytest.approx(-shares[TEXT[1:]].mean(), abs=1e-5)
    assert shares.std() > 0.01
