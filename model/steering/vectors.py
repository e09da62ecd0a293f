"""Vectors of the residual stream to steer with: from pairs of texts, tokens, neurons, two runs, numbers, or at random.

Any vector [D] can be added to the stream by `steering_edit`. Contrastive pairs: Panickssery et al. 2023, "Steering
Llama 2 via Contrastive Activation Addition"; a single pair: Turner et al. 2023, "Activation Addition".
"""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch

from model.api import LanguageModel
from model.arguments import check_layer, check_position, check_token, shown
from model.errors import InputError, say
from model.gpt.edits import MAX_FACTOR, STREAM_SITES, Edit
from model.gpt.experts import require_dense
from model.gpt.mixers.needs import need_directions
from model.gpt.placed_vectors import MOST_WIDTH, vector_text
from model.public import MOST_SEED, above, between, nonempty, one_of, public, unchecked, whole
from model.tracing.trace import Trace

READS = ("last", "mean")  # tokens of a text whose streams stand for it: the last one, or the mean of all
TABLES = ("unembedding", "embedding")  # tables of the model with a row for each token
MOST_PAIRS = 64
_SPACES = re.compile(r"[\s,;\[\]()]+")


@public(layer=whole(0), factor=between(-MAX_FACTOR, MAX_FACTOR), site=one_of(STREAM_SITES))
def steering_edit(
    vector: np.ndarray,
    layer: int,
    factor: float = 1.0,
    *,
    site: str = "resid_post",
    positions: str | None = None,
    name: str | None = None,
) -> Edit:
    """Return the edit that adds factor times a vector [D] to the stream at a layer.

    `site` is resid_pre (before the block), resid_mid (after its attention) or resid_post (after the block). `positions`
    lists tokens, as "0,3-5", or all from one on, including tokens that are generated, as "4-"; None: every token. A
    factor of 0 changes nothing, bitwise. Raises InputError for a vector with numbers that are not finite and for a
    factor beyond -100 to 100; the run raises it for a wrong length, and a layer or a position that does not exist.

    >>> run.edit(steering_edit(vector, 4, 2.0, positions="3-"))                             # doctest: +SKIP
    """
    text = vector_text(vector)
    return Edit("add_vector", layer, factor=float(factor), site=site, vector=text, positions=positions, name=name)


@public(site=one_of(STREAM_SITES))
def stream_at(run: Trace, layer: int, site: str = "resid_post") -> np.ndarray:
    """Return the stream of a run before a block, after its attention, or after the block. float32 [T, D]

    Raises InputError for a layer that does not exist.
    """
    check_layer(layer, run.config.n_layer)
    return run.middle(layer) if site == "resid_mid" else run.hidden(layer + (site == "resid_post"))


@public(pairs=nonempty, site=one_of(STREAM_SITES), read=one_of(READS))
def pair_vectors(
    lm: LanguageModel,
    pairs: Sequence[tuple[str, str]],
    *,
    site: str = "resid_post",
    read: str = "last",
) -> np.ndarray:
    """Compute the mean difference of the streams of pairs of texts, first minus second, at every layer. float32 [L, D]

    A text is read at its last token, or as the mean over its tokens. 1 to MOST_PAIRS pairs; each text is run once.
    Raises InputError for an empty text or one beyond the context. Source: Panickssery et al. 2023, section 3.
    """
    if len(pairs) > MOST_PAIRS:
        raise InputError("There are too many pairs.", str(len(pairs)), say("At most {}.", MOST_PAIRS))
    total = np.zeros((lm.config.n_layer, lm.config.d_model))
    for first, second in pairs:
        total += _read_stream(lm.trace(first), site, read) - _read_stream(lm.trace(second), site, read)
    return (total / len(pairs)).astype(np.float32)


def _read_stream(run: Trace, site: str, read: str) -> np.ndarray:
    """Return what stands for a text at each layer. float64 [L, D]"""
    streams = [stream_at(run, layer, site).astype(np.float64) for layer in range(run.config.n_layer)]
    return np.stack([x[-1] if read == "last" else x.mean(0) for x in streams])


@public(site=one_of(STREAM_SITES))
def run_difference(
    run: Trace, other: Trace, layer: int, *, site: str = "resid_post", position: int = -1, other_position: int = -1
) -> np.ndarray:
    """Return the difference of the streams of two runs at one token each, `run` minus `other`. float32 [D]

    Negative positions count from the end. Raises InputError for models of different width.
    """
    check_position(position, len(run.tokens), from_end=True)
    check_position(other_position, len(other.tokens), from_end=True)
    ours, theirs = stream_at(run, layer, site)[position], stream_at(other, layer, site)[other_position]
    if ours.shape != theirs.shape:
        got = f"{len(ours)}, {len(theirs)}"
        raise InputError("The streams of these runs have different widths.", got, "Take two runs of one model.")
    return ours - theirs


@public(table=one_of(TABLES))
def token_vector(lm: LanguageModel, token: int, table: Literal["unembedding", "embedding"] = "unembedding"):
    """Return a token's row of W_U or of the embedding, scaled to length 1. float32 [D]

    A row of zeros remains zeros. With W_U, it is the direction of the edit `add_direction`. Raises InputError for a
    token that does not exist and, for W_U, a model whose head is not one product.
    """
    check_token(token, lm.config.vocab_size)
    if table == "unembedding":
        need_directions(lm.config)
    weight = (lm.model.unembed if table == "unembedding" else lm.model.embed).weight
    return torch.nn.functional.normalize(weight.detach()[token].float(), dim=0).cpu().numpy()


@public(neuron=unchecked)
def neuron_vector(lm: LanguageModel, layer: int, neuron: int) -> np.ndarray:
    """Return what a neuron with activation 1 writes to the stream: its row of the down projection. float32 [D]

    Raises InputError for a layer of experts or without an MLP, and for a neuron that does not exist.
    """
    check_layer(layer, lm.config.n_layer)
    require_dense(lm.config)
    mlp, width = lm.model.blocks[layer].mlp, lm.config.at(layer).d_mlp
    if not (type(neuron) is int and 0 <= neuron < width):
        raise InputError("This neuron does not exist.", shown(neuron), say("Neurons run from 0 to {}.", width - 1))
    return (mlp.down.weight.detach()[:, neuron].float() * mlp.factor).cpu().numpy()


@public()
def typed_vector(text: str, width: int) -> np.ndarray:
    """Read a vector from typed numbers, separated by spaces, commas or line breaks. float32 [width]

    Raises InputError for what is not a number, numbers that are not finite, and another count than `width`.
    """
    parts = [part for part in _SPACES.split(text[: 40 * MOST_WIDTH]) if part]
    try:
        numbers = np.array([float(part) for part in parts])
    except ValueError:
        wrong = next(part for part in parts if not _is_number(part))
        raise InputError("This is not a number.", shown(wrong), "Separate the numbers by spaces or commas.") from None
    return checked_vector(numbers, width)


@public(vector=unchecked, width=whole(1, MOST_WIDTH))
def checked_vector(vector: np.ndarray, width: int) -> np.ndarray:
    """Return a vector as float32 [width]. Raises InputError for another length or for numbers that are not finite."""
    numbers = np.asarray(vector)
    if numbers.ndim != 1 or len(numbers) != width:
        hint = say("This model's stream has {} numbers a token.", width)
        raise InputError("The vector has another length than the stream.", str(list(numbers.shape)), hint)
    vector_text(numbers)
    return numbers.astype(np.float32)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@public(length=above(0.0), width=whole(1, MOST_WIDTH), draws=whole(1, 64), seed=whole(0, MOST_SEED))
def random_directions(width: int, length: float, draws: int = 4, seed: int = 0) -> np.ndarray:
    """Draw directions that are uniform on the sphere of a given length, as the control of a steering vector.
    float32 [draws, width]
    """
    drawn = np.random.default_rng(seed).normal(size=(draws, width))
    return (drawn * (length / np.linalg.norm(drawn, axis=1, keepdims=True))).astype(np.float32)
