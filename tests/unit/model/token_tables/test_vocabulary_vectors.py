"""Neighbors by brute force, and maps against NumPy: principal components, and t-SNE that keeps neighbors."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.token_tables.neighbors import nearest_tokens, token_vectors
from model.token_tables.vocabulary_map import vocabulary_map
from tests.support.models.helpers import VARIANTS, D, V, assert_close, tiny_model


@pytest.mark.parametrize("side", ["embedding", "unembedding"])
@pytest.mark.parametrize("centered", [True, False])
def test_neighbors_are_those_of_brute_force(side: str, centered: bool):
    model, token = tiny_model(VARIANTS["gpt2"]), 4
    rows = model.embed.weight.detach().double().numpy()
    if side == "unembedding":
        rows = rows * model.final_norm.weight.detach().double().numpy()
        rows = rows - rows.mean(1, keepdims=True)
    rows = rows - rows.mean(0) if centered else rows
    cosines = [row @ rows[token] / np.linalg.norm(row) / np.linalg.norm(rows[token]) for row in rows]
    order = [n for n in np.argsort(-np.array(cosines)) if n != token][:6]
    found = nearest_tokens(model, token, side, 6, centered=centered)
    assert found.ids.tolist() == order
    assert_close(found.cosines, np.array(cosines)[order], 1e-5)
    assert found.typical == pytest.approx(np.quantile(cosines, 0.99), abs=1e-5)
    assert token not in nearest_tokens(model, token, side, V - 1).ids
    with pytest.raises(InputError, match="token"):
        nearest_tokens(model, V, side)


def test_the_unembedding_is_the_direction_that_raises_the_logit():
    model = tiny_model(VARIANTS["neox"])
    x = torch.randn(D, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = model.unembed((x - x.mean()) * model.final_norm.weight)
    assert_close(token_vectors(model, "unembedding", centered=False) @ x, logits, 1e-4)


def test_principal_components_are_those_of_numpy_and_place_further_tokens():
    model = tiny_model(VARIANTS["gpt2"])
    found = vocabulary_map(model, range(40), "embedding", "pca", also=[45, 3])
    assert found.ids.tolist() == [*range(40), 45] and found.fitted == 40
    rows = token_vectors(model, "embedding").double().numpy()
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    mean = rows[:40].mean(0)
    _, sizes, directions = np.linalg.svd(rows[:40] - mean, full_matrices=False)
    places = (rows[found.ids] - mean) @ directions[:2].T
    assert_close(np.abs(found.places), np.abs(places), 1e-5)
    assert_close(np.array(found.shares), sizes[:2] ** 2 / (sizes**2).sum(), 1e-6)


def test_tsne_keeps_groups_together_and_follows_its_seed():
    pytest.importorskip("sklearn")
    model = tiny_model(VARIANTS["gpt2"])
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(3, D, generator=generator) * 4
    groups = torch.arange(V) % 3
    with torch.no_grad():
        model.embed.weight.copy_(centers[groups] + 0.2 * torch.randn(V, D, generator=generator))
    found = vocabulary_map(model, range(V), "embedding", "tsne")
    assert found.shares is None and found.fitted == V
    away = np.linalg.norm(found.places[:, None] - found.places[None], axis=-1)
    np.fill_diagonal(away, np.inf)
    assert (groups.numpy()[away.argmin(1)] == groups.numpy()).all()
    assert (found.places == vocabulary_map(model, range(V), "embedding", "tsne").places).all()


def test_a_map_that_cannot_be_drawn_is_refused(monkeypatch):
    model = tiny_model(VARIANTS["gpt2"])
    for ids, more, message in (([1, 1], (), "more than 2"), ([1, 2, 3], [4], "no further"), ([V], (), "token")):
        with pytest.raises(InputError, match=message):
            vocabulary_map(model, ids, "embedding", "tsne", also=more)
    monkeypatch.setattr("model.token_tables.vocabulary_map.is_installed", lambda: False)
    with pytest.raises(InputError, match="needs the package scikit-learn"):
        vocabulary_map(model, [1, 2, 3], "embedding", "tsne")
    vocabulary_map(model, [1, 2, 3], "embedding", "pca")
