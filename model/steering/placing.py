"""One vector of the residual stream put in another one's place: the run after it, and what could not have changed.

A vector of one run, at any layer and token, replaces that of another run of the same model at a layer and a token of
its own, and the layers after it read it there. Ghandeharioun et al. 2024, "Patchscopes", section 3; the same layer and
token in two prompts: Meng et al. 2022, "activation patching". A row of the lens grid counts the layers that a stream
has passed: 0 is the embedding, L the stream after the last layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_position, check_token, check_whole
from model.attention.effects import divergence
from model.attention.measures import visible_keys
from model.gpt.config import ModelConfig
from model.gpt.edits import Edit
from model.gpt.placed_vectors import ranges, vector_text
from model.public import MOST_SEED, array, public, whole
from model.steering.vectors import random_directions
from model.tracing.trace import Trace


@dataclass(frozen=True, eq=False)
class Placing:
    """The effect of a placed vector on the prediction after one token, beside random vectors of its length."""

    kl: float  # KL(before || after) of the prediction, in nats
    random_kl: np.ndarray  # the same of each random vector, float64 [draws]
    share: float  # probability of the watched token with the vector
    random_share: np.ndarray  # the same of each random vector, float64 [draws]
    base_share: float  # the same without any


@public(row=whole(1), position=whole(0))
def placing_edit(vector: np.ndarray, row: int, position: int, name: str | None = None) -> Edit:
    """Return the edit that replaces the stream of one token, after `row` layers, by a vector [D].

    Row 0, the embedding, is replaced by the edits of a token instead. A token's own vector changes nothing, bitwise.
    Raises InputError for a vector with numbers that are not finite; the run raises it for a wrong length, and a row or
    a position that does not exist.

    >>> run.edit(placing_edit(other.hidden(6)[-1], 6, 9))                                   # doctest: +SKIP
    """
    text = vector_text(vector)
    return Edit("place_vector", row - 1, site="resid_post", vector=text, positions=str(position), name=name)


@public(vector=array("D"), row=whole(1), draws=whole(1, 64), seed=whole(0, MOST_SEED))
def placing(
    run: Trace, vector: np.ndarray, row: int, position: int, token: int, *, at: int = -1, draws: int = 4, seed: int = 0
) -> Placing:
    """Measure the effect of a placed vector on the prediction after the token at `at`, beside random vectors.

    `token` is the one whose probability is measured. Each of `draws` random vectors has the length of the vector, and
    is placed alike. The run's own edits stay active. Raises InputError for what does not exist in the run.
    """
    check_position(at, len(run.tokens), from_end=True)
    check_token(token, run.config.vocab_size)
    length = float(np.linalg.norm(vector.astype(np.float64)))
    drawn = random_directions(len(vector), length, draws, seed)
    before = run.logits_at(at)
    after = [run.edit(placing_edit(each, row, position)).logits_at(at) for each in (vector, *drawn)]
    kls, shares = np.array([divergence(before, each) for each in after]), [_share(each, token) for each in after]
    return Placing(float(kls[0]), kls[1:], shares[0], np.array(shares[1:]), _share(before, token))


@public(row=whole(0))
def reachable(run: Trace, row: int, position: int) -> np.ndarray:
    """Find the cells of the lens grid that a vector placed at a row and a position can change. bool [L + 1, T]

    Everywhere else, the stream is bitwise that of `run`. A token passes a change on to itself and, through attention,
    to the tokens that see it: later ones, within a window where the layer has one, none from which an edit hides it in
    every head, and all in a model that reads both ways. A layer that uses the keys and values of an earlier one passes
    on what changed there.
    """
    _check_place(run, row, position)
    config, T = run.config, len(run.tokens)
    cells = torch.zeros(config.n_layer + 1, T, dtype=torch.bool)
    cells[row, position] = True
    for layer in range(row, config.n_layer):
        keys = cells[config.kv_source(layer)]
        cells[layer + 1] = cells[layer] | seeing(config, layer, T, run.key.edits)[:, keys].any(1)
    return cells.numpy()


def seeing(config: ModelConfig, layer: int, T: int, edits: Sequence[Edit] = ()) -> Tensor:
    """Return which keys each query of a layer can read. bool [T, T], [query, key]

    A layer without attention passes its state on to every later token.
    """
    query, key = torch.arange(T)[:, None], torch.arange(T)
    seen = torch.from_numpy(visible_keys(config, layer, T))
    for edit in edits:
        if edit.head is not None or edit.layer not in (None, layer):
            continue
        if edit.kind == "block_edge":
            seen[edit.query, edit.key] = False
        if edit.kind == "hide_token":
            for low, high in ranges(edit.positions):
                seen[:, low:high] &= (query == key)[:, low:high]
    return seen


def _share(logits: np.ndarray, token: int) -> float:
    """Compute the softmax of one token in float64. logits [V]"""
    return float(torch.from_numpy(logits).double().softmax(-1)[token])


def _check_place(run: Trace, row: int, position: int) -> None:
    check_whole("row", row, 0, run.config.n_layer)
    check_position(position, len(run.tokens))
