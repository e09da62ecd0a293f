"""A layer of Mamba along a prompt: what each token chose, and how long the state holds on to one of them.

    h_t = exp(d_t A) h_(t-1) + d_t B_t u_t            so token s is in h_t as exp(A (d_(s+1) + ... + d_t)) d_s B_s u_s

Gu & Dao 2023, "Mamba", 3.2; the sum over tokens is Ali et al. 2024, "The Hidden Attention of Mamba Models", eq. 7.
"""

from dataclasses import dataclass

import numpy as np
import torch

from model.arguments import check_layer, check_position
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.mixers.traced import selection
from model.public import public, unchecked
from model.tracing.trace import Trace


@dataclass(frozen=True, eq=False)
class StateSpace:
    """The numbers of one layer; I channels of N state numbers. All float32."""

    layer: int
    source: int  # the source token
    A: np.ndarray  # rates, below 0, the same for every token. [I, N]
    B: np.ndarray  # write vectors of the tokens (B), [T, N]
    C: np.ndarray  # read vectors of the tokens (C), [T, N]
    delta: np.ndarray  # step sizes, above 0, [T, I]
    u: np.ndarray  # inputs of the channels, [T, I]
    kept: np.ndarray  # share of the source's write to a channel that remains after each token, 1 at first. [T, I]
    share: np.ndarray  # the source's share of a channel's content, 0 .. 1. [T, I]
    whole: np.ndarray  # the same for all channels together, [T]


def need_state_space(config: ModelConfig, layer: int) -> None:
    """Raise InputError unless the layer exists and is a state space."""
    check_layer(layer, config.n_layer)
    if config.mixer_of(layer) != "mamba":
        layers = [str(other) for other, name in enumerate(config.mixers) if name == "mamba"]
        hint = say("Choose one of the layers: {}.", ", ".join(layers)) if layers else "Choose a model with Mamba."
        raise InputError("This layer is not a state-space layer.", f"layer {layer}: {config.mixer_of(layer)}", hint)


@public(source=unchecked)
@torch.inference_mode()
def state_space(trace: Trace, layer: int, source: int = 0) -> StateSpace:
    """Return the selections of a layer's tokens, with the run's edits, and what its state holds of the token `source`.

    Magnitudes, without signs: `kept` and `share` are sums of absolute values over a channel's state. The shares of all
    tokens add up to 1; before the source they are 0. NaN where a channel holds nothing at all, or got nothing from the
    source. Raises InputError for a layer without a state space and for a token that does not exist.
    """
    need_state_space(trace.config, layer)
    T = len(trace.tokens)
    check_position(source, T)
    s = selection(trace, layer)
    own, held, owns, helds = torch.zeros_like(s.A), torch.zeros_like(s.A), [], []
    for t in range(T):  # a token at a time: [T, I, N] of a large model would not fit
        decay = torch.exp(s.delta[0, t, :, None] * s.A)  # [I, N]
        written = ((s.delta[0, t] * s.u[0, t])[:, None] * s.B[0, t]).abs()
        own, held = decay * own, decay * held + written
        own = own + written if t == source else own
        owns.append(own.sum(-1))
        helds.append(held.sum(-1))
    mine, everything = torch.stack(owns), torch.stack(helds)  # [T, I]
    return StateSpace(
        layer,
        source,
        *(part.numpy() for part in (s.A, s.B[0], s.C[0], s.delta[0], s.u[0])),
        (mine / mine[source]).numpy(),
        (mine / everything).numpy(),
        (mine.sum(-1) / everything.sum(-1)).numpy(),
    )


@public()
def decay_tokens(found: StateSpace) -> np.ndarray:
    """Return the number of tokens after which a number of the state is down to 1/e = 37%, if every step has the mean
    length.

    1 / (-A d), d the channel's mean step size along the prompt. float32 [I, N]
    """
    return -1 / (found.A * found.delta.mean(0)[:, None])
