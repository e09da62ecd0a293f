"""Heads over a corpus and tables from weights against transformers: its attention maps, and hooks on its modules."""

import itertools
from collections import defaultdict

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

from model.corpus.head import read_head
from model.corpus.kinds import KINDS
from model.corpus.texts import Corpus
from model.token_tables.head_tables import ov_table, qk_table
from tests.parity.two_models import blocks

LAYER, HEAD, HEADS, WIDTH = 1, 2, 4, 12
TOKENS = (3, 41, 700, 2718, 8000)


def test_sums_over_a_corpus_are_those_of_the_maps_of_transformers(both):
    hf, lm = both
    hf.set_attn_implementation("eager")  # which returns the maps
    rng = np.random.default_rng(4)
    N, T = 5, 14
    corpus = Corpus(rng.integers(0, 9, (N, T)) * 100, rng.integers(0, len(KINDS), (N, T)).astype(np.uint8), 0)
    with torch.no_grad():
        maps = torch.stack(hf(torch.from_numpy(corpus.ids), output_attentions=True).attentions)  # [L, N, H, T, T]
    reading = read_head(lm, corpus, LAYER, HEAD, batch=2)
    distances, kinds, apart = np.zeros(T), np.zeros((len(KINDS), len(KINDS))), np.zeros((*maps.shape[:1], HEADS))
    by_query, by_key = defaultdict(float), defaultdict(float)
    for n in range(N):
        for query in range(1, T):
            row = maps[LAYER, n, HEAD, query].double().numpy()
            for key in range(query + 1):
                distances[query - key] += row[key]
                kinds[corpus.kinds[n, query], corpus.kinds[n, key]] += row[key]
                if 0 < key < query:
                    by_query[int(corpus.ids[n, query])] += row[key]
                    by_key[int(corpus.ids[n, key])] += row[key]
            others = maps[:, n, :, query].double().numpy()
            apart += jensenshannon(np.broadcast_to(row, others.shape), others, base=2, axis=-1) ** 2
    assert reading.distances == pytest.approx(distances, abs=1e-4)
    assert reading.kinds == pytest.approx(kinds, abs=1e-4)
    assert reading.tokens.query == pytest.approx([by_query[each] for each in reading.tokens.ids.tolist()], abs=1e-4)
    assert reading.tokens.key == pytest.approx([by_key[each] for each in reading.tokens.ids.tolist()], abs=1e-4)
    assert reading.divergence == pytest.approx(apart / (N * (T - 1)), abs=1e-4)
    assert reading.divergence[LAYER, HEAD] < 1e-6 < 0.01 < np.delete(reading.divergence.ravel(), 4 * LAYER + HEAD).min()


def parts_of(hf):
    """Return the embedding, the block of LAYER, its output projection, and the final norm of a model."""
    block = blocks(hf)[LAYER]
    if hasattr(hf, "transformer"):
        return hf.transformer.wte, block, block.attn.c_proj, hf.transformer.ln_f
    return hf.model.embed_tokens, block, block.self_attn.o_proj, hf.model.norm


def on_embeddings(hf, ids, hooks=()):
    """Run a model so that its layer LAYER reads the bare embeddings of tokens. Returns the layer's maps [H, T, T]."""
    embed, block, *_ = parts_of(hf)
    bare = embed(torch.tensor([ids]))
    held = [
        block.register_forward_pre_hook(lambda _, given, named: ((bare, *given[1:]), named), with_kwargs=True),
        *(module.register_forward_hook(hook) for module, hook in hooks),
    ]
    try:
        return hf(torch.tensor([ids]), output_attentions=True, use_cache=False).attentions[LAYER][0]
    finally:
        for each in held:
            each.remove()


@torch.no_grad()
def test_what_a_head_writes_of_a_token_is_what_transformers_loses_without_it(both):
    hf, lm = both
    hf.set_attn_implementation("eager")  # which returns the maps
    *_, project, norm = parts_of(hf)
    table = ov_table(lm.model, LAYER, HEAD)
    own = slice(WIDTH * HEAD, WIDTH * (HEAD + 1))
    for token in TOKENS:
        lost = []

        def without(module, given, out, lost=lost):
            z = given[0].clone()
            z[..., own] = 0
            lost.append((out - module.__class__.forward(module, z))[0, -1])

        on_embeddings(hf, [token], [(project, without)])
        written = lost[0] - lost[0].mean() if hasattr(norm, "bias") else lost[0]  # LayerNorm centers
        expected = hf.lm_head.weight @ (written * norm.weight)
        actual = table.columns @ table.rows[token]
        assert actual.numpy() == pytest.approx(expected.numpy(), abs=1e-4 * float(expected.abs().max()))


@torch.no_grad()
@pytest.mark.parametrize("distance", [1, 5])
def test_scores_of_two_tokens_are_those_of_the_maps_of_transformers(both, distance: int):
    hf, lm = both
    hf.set_attn_implementation("eager")  # which returns the maps
    near, far = qk_table(lm.model, LAYER, HEAD), qk_table(lm.model, LAYER, HEAD, distance)
    for query, key in itertools.pairwise(TOKENS):
        ids = [key, *[9] * (distance - 1), query]
        row = on_embeddings(hf, ids)[HEAD, -1].double().log()
        expected = float(row[0] - row[-1])  # what the softmax shares cancels
        actual = float(far.rows[query] @ far.columns[key] - near.rows[query] @ near.columns[query])
        assert actual == pytest.approx(expected, abs=1e-3 * max(abs(expected), 1))
