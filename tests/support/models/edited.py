"""Edits of every kind, and runs with them."""

import numpy as np
import torch
from hypothesis import settings

from model.gpt.edits import Edit, Means, direction_tokens, tap_of
from model.gpt.placed_vectors import vector_text
from model.gpt.tap import Tap, record
from model.tracing.trace import Trace, run
from tests.support.models.helpers import (
    VARIANTS,
    D,
    H,
    L,
    random_ids,
    tiny_model,
    tokens_of,
)

T = 13
IDS = random_ids(1, T, seed=3, vocab_size=9)  # nine ids among 13 tokens: there are repeats
SETTINGS = settings(max_examples=200, deadline=None, derandomize=True, database=None)

VECTOR = vector_text(np.random.default_rng(4).normal(size=D))
# One of each kind, and a pile in which one layer is edited at every site.
ONE = {
    "zero": Edit("zero", 1, 2),
    "mean": Edit("mean", 1, 2),
    "scale": Edit("scale", 1, 2, factor=-1.5),
    "previous_token": Edit("previous_token", 1, 2),
    "first_token": Edit("first_token", 1, 2),
    "uniform": Edit("uniform", 1, 2),
    "block_edge": Edit("block_edge", 1, 2, query=7, key=3),
    "mlp_zero": Edit("mlp_zero", 1),
    "mlp_mean": Edit("mlp_mean", 1),
    "mlp_scale": Edit("mlp_scale", 1, factor=-1.5),
    "neuron_zero": Edit("neuron_zero", 1, neuron=17),
    "neuron_scale": Edit("neuron_scale", 1, neuron=17, factor=-8.0),
    "neuron_value": Edit("neuron_value", 1, neuron=17, value=3.5),
    "project_out": Edit("project_out", 1, token=5),
    "add_direction": Edit("add_direction", 1, token=5, factor=4.0),
    "add_vector": Edit("add_vector", 1, factor=2.0, site="resid_mid", vector=VECTOR),
    "place_vector": Edit("place_vector", 1, site="resid_mid", vector=VECTOR, positions="6"),
    "hide_token": Edit("hide_token", 1, positions="4"),
    "embed_zero": Edit("embed_zero", positions="4"),
    "embed_mean": Edit("embed_mean", positions="2,9-"),
    "embed_token": Edit("embed_token", positions="3", token=7),
}
PILES = {kind: (edit,) for kind, edit in ONE.items()} | {
    "everywhere": (Edit("block_edge", query=7, key=3), Edit("block_edge", head=1, query=7, key=7)),
    "pile": (Edit("zero", 0, 1), *ONE.values(), Edit("mean", 1, 0), Edit("uniform", 1, 3)),
}


def traced(name: str = "gpt2", *edits: Edit) -> Trace:
    return run(tiny_model(VARIANTS[name]), tokens_of(IDS[0]), model_id="tiny", edits=edits)


@torch.no_grad()
def means_of(model) -> Means:
    """Every head's and every MLP's mean output, by an explicit forward."""
    store: dict = {}
    model(IDS, tap=record(["z", "mlp_out"], store))
    heads = {(layer, head): store["z", layer][0, head].mean(0) for layer in range(L) for head in range(H)}
    return heads | {(layer, None): store["mlp_out", layer][0].mean(0) for layer in range(L)}


@torch.no_grad()
def tap_on(model, edits) -> Tap:
    """The tap of the edits, its vectors from the weights and an explicit forward."""
    rows = {token: model.unembed.weight[token] for token in direction_tokens(edits)}
    embedded = dict(enumerate(model.embed.weight * model.config.embed_factor))
    embedded[None] = model.embed.weight.mean(0) * model.config.embed_factor
    return tap_of(edits, means_of(model), {token: row / row.norm() for token, row in rows.items()}, embedded)
