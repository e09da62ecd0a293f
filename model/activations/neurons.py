"""MLP neurons on one prompt: activations, output directions, and the fraction of active neurons.

A neuron is one of the M hidden units between the two projections of an MLP. Its activation is its input to the down
projection: f(pre), or silu(gate) * up for SwiGLU. The MLP adds activation * W_out[:, neuron], summed over the neurons,
and a bias to the stream.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from model.arguments import check_layer, check_position, is_whole, shown
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.layers import CLAMP
from model.gpt.mixers.needs import need_directions
from model.gpt.transformer import Transformer
from model.predictions.frozen_norms import carried, on_the_way, through
from model.progress import Progress, silent
from model.public import nonempty, public, whole
from model.tracing.ranking import top_ids
from model.tracing.trace import Trace

ORDERS = ("here", "prompt", "writes")  # see `ranked`
ACTIVE = 0.1  # minimum |activation| of an active GELU or SwiGLU neuron, relative to the RMS of its layer at the token
_STEPS = [digit * 10.0**decade for decade in range(-2, 3) for digit in (1, 2, 5)] + [1000.0]
# Edges of activation bins: a 1-2-5 series on both sides, one bin around 0, and an open-ended bin at each end. [n + 1]
EDGES = np.array([-np.inf, *(-step for step in reversed(_STEPS)), *_STEPS, np.inf])


@dataclass(frozen=True, eq=False)
class Activations:
    """Pre-activations and activations of all neurons of one layer on one prompt. Each array is float32 [T, M]."""

    layer: int
    pre: np.ndarray  # input of the activation function; the gate for a gated MLP
    up: np.ndarray | None  # the linear branch of a gated MLP
    post: np.ndarray  # the activation


@dataclass(frozen=True, eq=False)
class Promoted:
    """The most promoted and most suppressed tokens of each of n neurons, by decreasing effect. Each
    array is [n, most].
    """

    up: np.ndarray  # ids of the promoted tokens
    up_scores: np.ndarray  # float32
    down: np.ndarray  # ids of the suppressed tokens
    down_scores: np.ndarray  # float32


@dataclass(frozen=True, eq=False)
class Survey:
    """Statistics of the neurons of each of the L layers."""

    never: np.ndarray  # [L] fraction of the neurons that are not active at any token
    quiet: np.ndarray  # [L] fraction of the neurons that never reach the root mean square of their layer
    active: np.ndarray  # [L] fraction of the (token, neuron) pairs that are active
    counts: np.ndarray  # [L, bins] histogram of activations with EDGES; int64, each row sums to T M
    largest: np.ndarray  # [L] the activation of largest absolute value, signed; float32
    place: np.ndarray  # [L, 2] (token, neuron) of that activation


@public()
def layer_activations(run: Trace, layer: int) -> Activations:
    """Recompute the pre-activations and activations of one layer from the stream, with the run's edits.

    `post` equals run.mlp_activations(layer). Raises InputError if the layer does not exist.
    """
    names = ["mlp_pre", "mlp_post"] + (["mlp_up"] if run.config.gated else [])
    sites = {name: tensor[0].numpy() for name, tensor in run.sites(layer, names).items()}
    return Activations(layer, sites["mlp_pre"], sites.get("mlp_up"), sites["mlp_post"])


@torch.inference_mode()
def activation(model: Transformer, layer: int, pre: np.ndarray) -> np.ndarray:
    """Apply a layer's activation function to pre-activations. For SwiGLU they are those of the gate, and the product
    with `up` is left out.

    Returns float32 in the shape of `pre`. Sources: model.gpt.layers.MLPS.
    """
    x, mlp = torch.from_numpy(np.asarray(pre, np.float32)), model.blocks[layer].mlp
    return mlp.act(x.clamp(max=CLAMP) if mlp.clamps else x).numpy()


@torch.inference_mode()
def write_lengths(model: Transformer, layer: int) -> np.ndarray:
    """Compute ||W_out[:, neuron]||, the L2 norm of each neuron's output per unit of activation. float32 [M]"""
    check_layer(layer, model.config.n_layer)
    mlp = model.blocks[layer].mlp
    return (mlp.down.weight.norm(dim=0) * mlp.factor).numpy()


def ranked(post: np.ndarray, lengths: np.ndarray, order: str, position: int) -> np.ndarray:
    """Sort all neurons in decreasing order of one of ORDERS, ties by the lower index. [T, M], [M] -> [M]

    `here`: |post| at the position. `prompt`: the largest |post| over the prompt. `writes`: |post| ||W_out|| at the
    position, the L2 norm of the neuron's output there. Raises InputError for an unknown order or a position outside the
    prompt.
    """
    if not isinstance(order, str) or order not in ORDERS:
        raise InputError("No order has this name.", shown(order), say("Choose one of: {}.", ", ".join(ORDERS)))
    T = len(post)
    check_position(position, T, from_end=True)
    size = np.abs(post).max(0) if order == "prompt" else np.abs(post[position])
    return np.argsort(-(size * lengths if order == "writes" else size), kind="stable")


@torch.inference_mode()
def token_scores(model: Transformer, layer: int, neurons: Sequence[int]) -> np.ndarray:
    """Compute the direct effect of each neuron's W_out column on the logit of every token. float32 [n, V]

    W_U N(W_out[:, neuron]), where N is the token-independent part of the norms between the MLP and the unembedding:
    their gains and, for LayerNorm, the subtraction of the mean. These norms are the final norm, if the model has one, a
    norm of the MLP's output, and in a post-norm model those that follow the MLP. Multipliers count, and so do the
    numbers by which this and later layers multiply the stream (ModelConfig.layer_scale). Token-dependent
    parts (the divisors), biases, a cap of the logits, and effects through later layers are ignored: the scores give
    only the direction of the effect, not its magnitude. In one run, a neuron of the last pre-norm block changes the
    logits by activation * score / (divisor of the final norm), with divisor and mean held fixed. Source: Geva et al.
    2021, section 4; 2022, section 3.

    Raises InputError for a layer or neuron that does not exist.
    """
    check_layer(layer, model.config.n_layer)
    need_directions(model.config)
    for neuron in neurons:
        check_neuron(model.config, layer, neuron)
    mlp = model.blocks[layer].mlp
    v = mlp.down.weight[:, list(neurons)].T * mlp.factor  # [n, D]
    for _, _, norm in on_the_way(model, layer, after_attention=False):
        v = through(norm, 1.0, v)
    v = carried(model, layer, v)
    return (v @ model.unembed.weight.T * model.config.logit_multiplier).numpy()


@public(neurons=nonempty, most=whole(1), vocab=whole(1))
def promoted(
    model: Transformer, layer: int, neurons: Sequence[int], most: int = 8, vocab: int | None = None
) -> Promoted:
    """Return the tokens with the largest and the smallest `token_scores` of each neuron.

    Ids >= `vocab` are excluded. Ties are broken by the lower id.
    """
    scores = token_scores(model, layer, neurons)[:, :vocab]
    up, down = (top_ids(torch.from_numpy(each), most).numpy() for each in (scores, -scores))
    return Promoted(up, np.take_along_axis(scores, up, 1), down, np.take_along_axis(scores, down, 1))


def typical(post: np.ndarray) -> np.ndarray:
    """Compute the root mean square of a layer's activations at each token. [T, M] -> [T, 1]"""
    return np.linalg.norm(post, axis=1, keepdims=True) / np.sqrt(np.float32(post.shape[1]))


def is_active(post: np.ndarray, kind: str) -> np.ndarray:
    """Return whether each neuron is active at each token. [T, M] -> bool [T, M]

    For ReLU and its square, a neuron is active if post > 0. GELU and SwiGLU are rarely exactly 0; there, |post| must be
    nonzero and at least ACTIVE times the root mean square of the layer's activations at that token. `kind` is
    ModelConfig.mlp.
    """
    if kind in ("relu", "relu2"):
        return post > 0
    size = np.abs(post)
    return (size >= np.float32(ACTIVE) * typical(post)) & (size > 0)


def survey(run: Trace, progress: Progress = silent) -> Survey:
    """Compute the statistics of every layer's neurons on this prompt, with `is_active` as the criterion for active
    neurons.

    `progress(layers done, L, "Reading neurons")` may raise an exception to cancel.
    """
    L = run.config.n_layer
    never, quiet, active, largest = np.empty(L), np.empty(L), np.empty(L), np.empty(L, np.float32)
    counts, place = np.empty((L, len(EDGES) - 1), np.int64), np.empty((L, 2), np.int64)
    for layer in range(L):
        progress(layer, L, "Reading neurons")
        post = run.mlp_activations(layer)
        on = is_active(post, run.config.mlp)
        size = np.abs(post)
        never[layer], active[layer] = 1 - on.any(0).mean(), on.mean()
        quiet[layer] = ((size < typical(post)) | (size == 0)).all(0).mean()
        counts[layer] = np.histogram(post, EDGES)[0]
        place[layer] = np.unravel_index(size.argmax(), post.shape)
        largest[layer] = post[tuple(place[layer])]
    return Survey(never, quiet, active, counts, largest, place)


def check_neuron(config: ModelConfig, layer: int, neuron: int) -> None:
    """Raise InputError unless the layer has the neuron. The width of the MLP may differ by layer."""
    width = config.at(layer).d_mlp
    if not (is_whole(neuron) and 0 <= neuron < width):
        raise InputError("This neuron does not exist.", shown(neuron), say("Neurons run from 0 to {}.", width - 1))
