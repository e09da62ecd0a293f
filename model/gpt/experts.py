"""Mixture of experts: several MLPs per layer, and a router that sends each token to a few of them.

  x --> router --> softmax --> the k largest p, divided by their sum --> w
  y = sum over these k experts i of  w_i * expert_i(x)

Shazeer et al. 2017, "Outrageously Large Neural Networks"; routing and renormalization as in Mixtral (Jiang et al. 2024,
section 2.1). For k = 1 the weight is the probability p itself (Fedus et al. 2021, eq. 2): divided by the sum it would
always be 1, and the router would have no gradient. N experts, k experts per token, n tokens.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.errors import InputError
from model.gpt.config import ModelConfig
from model.gpt.layers import MLPS
from model.gpt.linear import Linear
from model.gpt.passes import Pass


@dataclass(frozen=True, eq=False)
class Routing:
    """The router's decisions for n tokens: N experts, k experts per token."""

    probabilities: Tensor  # [n, N], softmax of the router's logits
    experts: Tensor  # [n, k], the most likely experts of each token, by decreasing probability
    weights: Tensor  # [n, k], their probabilities, divided by the sum of the row for k > 1
    kept: Tensor  # [n, k] bool, False if the expert was full


def route(logits: Tensor, k: int, capacity_factor: float | None = None) -> Routing:
    """Select the k most likely experts of each token, and determine whether each has room for it. logits [n, N]

    With a capacity factor, an expert takes at most `capacity` tokens. All first choices precede all second choices, and
    within these, earlier rows precede later ones; a token in excess of the capacity skips that expert. Fedus et al.
    2021, "Switch Transformers", 2.2.
    """
    if capacity_factor is not None and not 0 < capacity_factor < math.inf:
        raise InputError("A setting is out of range.", f"capacity_factor: {capacity_factor}", "Give a number above 0.")
    probabilities = logits.float().softmax(-1)
    weights, experts = probabilities.topk(k, -1)
    kept = torch.ones_like(experts, dtype=torch.bool)
    if capacity_factor is not None:
        n, N = logits.shape
        chosen = F.one_hot(experts.t().flatten(), N)  # [k n, N], all first choices before all second choices
        place = (chosen.cumsum(0) * chosen).sum(-1).view(k, n).t()  # [n, k], position in the expert's queue, from 1
        kept = place <= capacity(n, N, k, capacity_factor)
    return Routing(probabilities, experts, weights if k == 1 else weights / weights.sum(-1, keepdim=True), kept)


def capacity(tokens: int, n_expert: int, k: int, factor: float) -> int:
    """Return the maximum number of tokens per expert: an even distribution times the factor, rounded up.

    Fedus et al. 2021, eq. 3.
    """
    return math.ceil(factor * tokens * k / n_expert)


def load(experts: Tensor, n_expert: int) -> Tensor:
    """Return the fraction of the choices that fall on each expert; they sum to 1. experts [n, k] -> [N]"""
    return torch.bincount(experts.flatten(), minlength=n_expert) / max(experts.numel(), 1)


def balance_loss(logits: Tensor, k: int) -> Tensor:
    """Compute N * sum_i f_i P_i, dimensionless: 1 for uniform load and probability, N if one expert has all.

    f_i is the fraction of the choices that fall on expert i, and P_i the mean of its probability; only P_i has a
    gradient. Fedus et al. 2021, eq. 4 - 6, where k = 1. logits [n, N]
    """
    routing, N = route(logits, k), logits.shape[-1]
    return N * (load(routing.experts, N) * routing.probabilities.mean(0)).sum()


def entropy(probabilities: Tensor) -> Tensor:
    """Compute -sum p ln p in nats: 0 if one expert has probability 1, ln N if all are equal. [..., N] -> [...]"""
    return torch.special.entr(probabilities).sum(-1)


def require_dense(config: ModelConfig) -> None:
    """Raise InputError for a model with experts, for functions that read or modify the single MLP of a layer."""
    if config.n_expert > 1:
        raise has_experts(config.n_expert)


def has_experts(n_expert: int) -> InputError:
    """Return the error of functions that require a single MLP per layer."""
    return InputError(
        "This needs one MLP per layer; this model has several experts instead.",
        f"{n_expert} experts",
        "Choose a model without experts.",
    )


class Stack(nn.Module):
    """One linear layer of all experts: weight [N, out, in], bias [N, out] or None."""

    def __init__(self, n: int, d_in: int, d_out: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n, d_out, d_in))
        self.bias = nn.Parameter(torch.empty(n, d_out)) if bias else None

    def one(self, expert: int, x: Tensor) -> Tensor:
        """Apply one expert's linear layer. [n, in] -> [n, out]"""
        return F.linear(x, self.weight[expert], None if self.bias is None else self.bias[expert])


class Mlps(nn.Module):
    """The MLPs of a layer's experts, each with the shape of the config's dense MLP."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        N, D, M, bias = config.n_expert, config.d_model, config.d_mlp, config.mlp_bias
        self.act: Callable[[Tensor], Tensor] = MLPS[config.mlp]
        self.gate = Stack(N, D, M, bias) if config.mlp == "swiglu" else None
        self.up = Stack(N, D, M, bias)
        self.down = Stack(N, M, D, bias)

    def one(self, expert: int, x: Tensor) -> Tensor:
        """Compute down(f(up(x))), or down(silu(gate(x)) * up(x)), with the weights of one expert. [n, D] -> [n, D]"""
        up = self.up.one(expert, x)
        return self.down.one(expert, self.act(up) if self.gate is None else self.act(self.gate.one(expert, x)) * up)


class Experts(nn.Module):
    """Mixture-of-experts replacement for a layer's MLP: a router and its experts.

    No token is dropped outside training, so that a token's output does not depend on its batch, and a forward pass with
    a cache equals one without.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.k, self.capacity_factor = config.experts_per_token, config.capacity_factor
        self.router = Linear(config.d_model, config.n_expert, bias=False)
        self.experts = Mlps(config)

    @property
    def gate(self) -> NoReturn:
        """Not available, since there is no single gate projection. Raises InputError, as do `up` and `down`."""
        raise has_experts(self.router.weight.shape[0])

    up = down = gate

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        """Route the tokens and sum the experts' weighted outputs, with taps at `router` and `mlp_out`. x [B, T, D] ->
        [B, T, D]
        """
        logits = run.at("router", layer, self.router(x))
        routing = route(logits.flatten(0, 1), self.k, self.capacity_factor if self.training else None)
        flat = x.flatten(0, 1)
        out = torch.zeros_like(flat)
        for expert in range(logits.shape[-1]):
            token, choice = ((routing.experts == expert) & routing.kept).nonzero(as_tuple=True)
            if len(token):
                output = self.experts.one(expert, flat[token]) * routing.weights[token, choice, None].to(x.dtype)
                out.index_add_(0, token, output)
        return run.at("mlp_out", layer, out.view_as(x))
