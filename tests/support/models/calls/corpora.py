"""Rows of what reads a model over a corpus."""

from pathlib import Path

import numpy as np

from model.corpus.search import PairWeights, pair_weights
from model.corpus.texts import Corpus, corpus_of
from tests.support.models.calls.row import SEED, Given, Row, rows

TEXT = "abcab abcd, abc. " * 3
FOLDER = str(Path(__file__).parents[4] / "model" / "texts_data")


def _corpus(c: Given) -> Corpus:
    return corpus_of(c.lm, [TEXT], 12, 2)


def _pairs(c: Given) -> PairWeights:
    return pair_weights(c.lm, _corpus(c))


def _read(c: Given) -> dict[str, object]:
    return {"lm": c.lm, "corpus": _corpus(c), "layer": 1, "batch": 1}


rows(
    "model.corpus",
    deciles__deciles=Row(lambda c: {"values": np.array([0.5, 2.0, 1.0])}, {"values": "longer, nan, infinity"}),
    directions__read_direction=Row(
        lambda c: _read(c) | {"vector": np.ones(c.config.d_model, np.float32), "site": "resid_mid", "top": 2},
        {"top": "huge", "batch": "huge"},
    ),
    directions__read_neuron=Row(
        lambda c: _read(c) | {"neuron": 3, "top": 2}, {"top": "huge", "batch": "huge", "neuron": "zero"}
    ),
    head__read_head=Row(lambda c: _read(c) | {"head": 0, "clusters": 2, "seed": 0}, SEED | {"batch": "huge"}),
    jobs__jobs_of=Row(
        lambda c: {"outputs": np.eye(4), "places": np.zeros((4, 2), np.int64), "clusters": 2, "seed": 0}, SEED
    ),
    kinds__kinds_of=Row(lambda c: {"pieces": ["a", " b"]}, {"pieces": "empty"}),
    search__pair_weights=Row(lambda c: {"lm": c.lm, "corpus": _corpus(c), "batch": 1}, {"batch": "huge"}),
    search__search=Row(
        lambda c: {"pairs": _pairs(c), "query": "any", "key": "word", "same": "no", "apart": "any"},
        {},
        {"query": "kind", "key": "kind", "same": "kind", "apart": "range"},
    ),
    texts__bundled=Row(lambda c: {"name": "princess"}),
    texts__corpus_of=Row(lambda c: {"lm": c.lm, "texts": [TEXT], "length": 12, "sequences": 2}),
    texts__folder_texts=Row(lambda c: {"folder": FOLDER}),
)
rows("model.attention", circuits__circuit_overlaps=Row(lambda c: {"model": c.model, "layer": 0, "head": 0}))
