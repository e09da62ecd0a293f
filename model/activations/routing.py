"""Where the tokens of a run went: a mixture of experts layer by layer."""

from dataclasses import dataclass

import numpy as np
import torch

from model.errors import InputError
from model.gpt.experts import entropy, load, route
from model.public import above, public
from model.tracing.trace import Trace


@dataclass(frozen=True, eq=False)
class Routed:
    """The routers' decisions for the tokens of a run. L layers, T tokens, k experts per token, N experts.

    `weights` sums to 1 over k where k > 1, `load` over N. `dropped` is what a capacity factor would leave out; a run
    itself drops nothing, only training does.
    """

    experts: np.ndarray  # [L, T, k] int, the most likely expert first
    weights: np.ndarray  # [L, T, k]
    probabilities: np.ndarray  # [L, T, N] of the router, before the k largest are chosen
    load: np.ndarray  # [L, N] share of the choices
    entropy: np.ndarray  # [L, T] of the probabilities, in nats
    dropped: np.ndarray  # [L, T, k] bool


@public(capacity_factor=above(0))
@torch.inference_mode()
def routing(trace: Trace, capacity_factor: float | None = None) -> Routed:
    """Return the routing of a run, its edits included; by default nothing is dropped.

    Raises InputError for a model without experts, ValueError for a factor that is not positive.
    """
    config = trace.config
    if config.n_expert == 1:
        raise InputError("This model has one MLP in each layer and no experts.", "", "Choose a mixture of experts.")
    each = [
        route(trace.sites(layer, ["router"])["router"][0], config.experts_per_token, capacity_factor)
        for layer in range(config.n_layer)
    ]
    return Routed(
        np.stack([layer.experts.numpy() for layer in each]),
        np.stack([layer.weights.numpy() for layer in each]),
        np.stack([layer.probabilities.numpy() for layer in each]),
        np.stack([load(layer.experts, config.n_expert).numpy() for layer in each]),
        np.stack([entropy(layer.probabilities).numpy() for layer in each]),
        np.stack([~layer.kept.numpy() for layer in each]),
    )
