"""A Mamba or Mamba 2 layer on a prompt: the parameters selected by each token, and how long the state retains a token.

    h_t = exp(d_t A) h_(t-1) + d_t B_t u_t            so token s contributes exp(A (d_(s+1) + ... + d_t)) d_s B_s u_s to
h_t

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
    """Selections and retention of one layer with I channels and N state elements per channel. All
    arrays are float32.
    """

    layer: int
    source: int  # position of the source token
    A: np.ndarray  # negative decay rates, the same for all tokens, [I, N]
    B: np.ndarray  # input vectors of the tokens, [T, N]; in Mamba 2 those of its G groups side by side, [T, G N]
    C: np.ndarray  # output vectors of the tokens, as B
    delta: np.ndarray  # positive step sizes, [T, I]
    u: np.ndarray  # inputs of the channels, [T, I]
    kept: np.ndarray  # fraction of the source's input to a channel that remains after each token, initially 1; [T, I]
    share: np.ndarray  # fraction of a channel's state that is due to the source, 0 .. 1; [T, I]
    whole: np.ndarray  # the same fraction for the state of all channels, [T]


def need_state_space(config: ModelConfig, layer: int) -> None:
    """Raise InputError unless the layer exists and is a state-space layer."""
    check_layer(layer, config.n_layer)
    if layer not in config.state_spaces:
        layers = [str(other) for other in config.state_spaces]
        hint = say("Choose one of the layers: {}.", ", ".join(layers)) if layers else "Choose a model with Mamba."
        raise InputError("This layer is not a state-space layer.", f"layer {layer}: {config.mixer_of(layer)}", hint)


@public(source=unchecked)
@torch.inference_mode()
def state_space(trace: Trace, layer: int, source: int = 0) -> StateSpace:
    """Compute the selections of a layer's tokens, with the run's edits, and what its state retains of the token
    `source`.

    Values are magnitudes: `kept` and `share` are ratios of sums of absolute values over a channel's state. The values
    of `share` for all source tokens sum to 1; before the source, they are 0. NaN if a channel's state is empty, or if
    the source wrote nothing to it. Raises InputError for a layer without a state space and for a token out of range.
    """
    need_state_space(trace.config, layer)
    T = len(trace.tokens)
    check_position(source, T)
    s = selection(trace, layer)
    own, held, owns, helds = torch.zeros_like(s.A), torch.zeros_like(s.A), [], []
    # Mamba 2's groups of channels have a B of their own
    groups, each = s.B.shape[-1] // s.A.shape[-1], s.A.shape[0] * s.A.shape[-1] // s.B.shape[-1]
    for t in range(T):  # one token at a time, since [T, I, N] of a large model would not fit into memory
        decay = torch.exp(s.delta[0, t, :, None] * s.A)  # [I, N]
        written = ((s.delta[0, t] * s.u[0, t])[:, None] * s.B[0, t].view(groups, -1).repeat_interleave(each, 0)).abs()
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
    """Compute the number of tokens after which a state element decays to 1/e = 37%, if all steps have the mean size.

    1 / (-A d), where d is the channel's mean step size on the prompt. float32 [I, N]
    """
    return -1 / (found.A * found.delta.mean(0)[:, None])
