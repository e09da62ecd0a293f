"""The routing of a run's tokens to experts in each layer of a mixture of experts."""

from dataclasses import dataclass

import numpy as np
import torch

from model.errors import InputError
from model.gpt.experts import entropy, load
from model.public import above, public
from model.tracing.trace import Trace


@dataclass(frozen=True, eq=False)
class Routed:
    """The routers' decisions for the tokens of a run with L layers with experts, T tokens, k experts per token and N
    experts.

    `weights` sums to 1 over k if the config divides them (`divide_weights`) and k > 1, and `load` to 1 over N.
    `dropped` marks the assignments that exceed the expert capacity; they are dropped only in training, never in a run.
    """

    experts: np.ndarray  # [L, T, k] int, the most likely expert first
    weights: np.ndarray  # [L, T, k]
    probabilities: np.ndarray  # [L, T, N] the router's softmax or scores in proportion, before the top k are selected
    load: np.ndarray  # [L, N] fraction of the assignments
    entropy: np.ndarray  # [L, T] entropy of the probabilities, in nats
    dropped: np.ndarray  # [L, T, k] bool
    layers: tuple[int, ...]  # the layers with experts, in increasing order


@public(capacity_factor=above(0))
@torch.inference_mode()
def routing(trace: Trace, capacity_factor: float | None = None) -> Routed:
    """Return the routing of a run, its edits included; without a capacity factor, no assignment is dropped.

    Raises InputError for a model without experts, ValueError if the factor is not positive.
    """
    config = trace.config
    if not any(map(config.has_experts, range(config.n_layer))):
        raise InputError("This model has one MLP in each layer and no experts.", "", "Choose a mixture of experts.")
    layers = tuple(layer for layer in range(config.n_layer) if config.has_experts(layer))
    logits = {layer: trace.sites(layer, ["router"])["router"][0] for layer in layers}
    each = [trace.model.blocks[layer].mlp.route(one, capacity_factor) for layer, one in logits.items()]
    return Routed(
        np.stack([layer.experts.numpy() for layer in each]),
        np.stack([layer.weights.numpy() for layer in each]),
        np.stack([layer.probabilities.numpy() for layer in each]),
        np.stack([load(layer.experts, config.n_expert).numpy() for layer in each]),
        np.stack([entropy(layer.probabilities).numpy() for layer in each]),
        np.stack([~layer.kept.numpy() for layer in each]),
        layers,
    )
