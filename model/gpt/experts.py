"""Mixture of experts: several MLPs per layer, and a router that sends each token to a few of them.

  x --> router --> softmax --> the k largest p, divided by their sum --> w
  y = sum over these k experts i of  w_i * expert_i(x), plus shared(x)

Shazeer et al. 2017, "Outrageously Large Neural Networks"; routing and renormalization as in Mixtral (Jiang et al. 2024,
section 2.1). For k = 1 the weight is the probability p itself (Fedus et al. 2021, eq. 2): divided by the sum it would
always be 1, and the router would have no gradient. OLMoE keeps p for any k (Muennighoff et al. 2024, 2). DeepSeek-V3
(2024, 2.1.2) and Nemotron 3 take a sigmoid of each logit in place of the softmax, add a number per expert for the
choice alone, and multiply the weights. An MLP that every token passes beside its experts is that of Dai et al. 2024,
"DeepSeekMoE", 3.2. In Gemma 4, x has no gain yet: the router reads x g_r / sqrt(D), experts x g_e, and the MLP beside
them x g_s, and what experts and this MLP write is normed before the sum. N experts, k experts per token, n tokens.
"""

import dataclasses
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
from model.gpt.mlp import MLP, has_no_mlp, through_gate
from model.gpt.norm import Norm
from model.gpt.passes import Pass


@dataclass(frozen=True, eq=False)
class Routing:
    """The router's decisions for n tokens: N experts, k experts per token."""

    probabilities: Tensor  # [n, N], softmax of the router's logits, or their sigmoids divided by the sum of the row
    experts: Tensor  # [n, k], the experts of each token, by decreasing score
    weights: Tensor  # [n, k], their probabilities or sigmoids, divided by the sum and multiplied if configured
    kept: Tensor  # [n, k] bool, False if the expert was full


def route(
    logits: Tensor,
    k: int,
    capacity_factor: float | None = None,
    *,
    divide: bool = True,
    sigmoid: bool = False,
    jitter: float | None = None,
    offset: Tensor | None = None,
    multiplier: float = 1.0,
    scales: Tensor | None = None,
    eps: float = 0.0,
) -> Routing:
    """Select the k most likely experts of each token, and determine whether each has room for it. logits [n, N]

    With `divide`, their weights are divided by their sum plus `eps` unless k is 1. Weights are probabilities, or with
    `sigmoid` the sigmoids, times the multiplier, and times the expert's number in `scales` [N] if given; `offset` [N]
    is added to them for the choice alone. With `jitter`, weights are those of `sparse_weights`.

    With a capacity factor, an expert takes at most `capacity` tokens. All first choices precede all second choices, and
    within these, earlier rows precede later ones; a token in excess of the capacity skips that expert. Fedus et al.
    2021, "Switch Transformers", 2.2.
    """
    if capacity_factor is not None and not 0 < capacity_factor < math.inf:
        raise InputError("A setting is out of range.", f"capacity_factor: {capacity_factor}", "Give a number above 0.")
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
    scores = scores.sigmoid() if sigmoid else scores.softmax(-1)
    experts = (scores if offset is None else scores + offset).topk(k, -1).indices
    weights = scores.gather(-1, experts) if jitter is None else sparse_weights(logits, experts, jitter)
    kept = torch.ones_like(experts, dtype=torch.bool)
    if capacity_factor is not None:
        n, N = logits.shape
        chosen = F.one_hot(experts.t().flatten(), N)  # [k n, N], all first choices before all second choices
        place = (chosen.cumsum(0) * chosen).sum(-1).view(k, n).t()  # [n, k], position in the expert's queue, from 1
        kept = place <= capacity(n, N, k, capacity_factor)
    weights = weights / (weights.sum(-1, keepdim=True) + eps) if divide and k > 1 else weights
    weights = weights if scales is None else weights * scales[experts]
    probabilities = scores / scores.sum(-1, keepdim=True) if sigmoid else scores
    return Routing(probabilities, experts, weights if multiplier == 1 else weights * multiplier, kept)


def sparse_weights(logits: Tensor, experts: Tensor, jitter: float) -> Tensor:
    """Compute the weight of each chosen expert: its share in the softmax over the experts that are near it and were not
    chosen before it. logits [n, N], experts [n, k] by decreasing logit -> [n, k]

    An expert is near if its logit is smaller by at most 2 `jitter`, relative to the larger magnitude of the two. Liu et
    al. 2024, "GRIN: GRadient-INformed MoE", outside training.
    """
    left, weights = logits.to(torch.promote_types(logits.dtype, torch.float32)), []
    for choice in experts.T[..., None]:  # [n, 1]
        best = logits.gather(-1, choice)
        far = (best - logits) / torch.maximum(logits.abs(), best) > 2 * jitter
        weights.append(left.masked_fill(far, -math.inf).softmax(-1).gather(-1, choice))
        left = left.scatter(-1, choice, -math.inf)
    return torch.cat(weights, -1)


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
    """Raise InputError for a model with experts or without MLPs, for functions that read or modify the single MLP of a
    layer.
    """
    if not all(map(config.has_mlp, range(config.n_layer))):
        raise has_no_mlp(config.mlp != "none")
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
        N, D, M, bias = config.n_expert, config.d_model, config.d_expert, config.expert_bias
        self.act: Callable[[Tensor], Tensor] = MLPS[config.mlp]
        self.clamps = config.mlp == "swiglu_clamped"
        self.gate = Stack(N, D, M, bias) if config.gated else None
        self.up = Stack(N, D, M, bias)
        self.down = Stack(N, M, D, bias)

    def one(self, expert: int, x: Tensor) -> Tensor:
        """Compute down(f(up(x))), or down(f(gate(x)) * up(x)), with the weights of one expert. [n, D] -> [n, D]"""
        up = self.up.one(expert, x)
        if self.gate is None:
            return self.down.one(expert, self.act(up))
        return self.down.one(expert, through_gate(self.act, self.gate.one(expert, x), up, self.clamps))


class Experts(nn.Module):
    """Mixture-of-experts replacement for a layer's MLP: a router and its experts.

    No token is dropped outside training, so that a token's output does not depend on its batch, and a forward pass with
    a cache equals one without.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.k, self.capacity_factor = config.experts_per_token, config.capacity_factor
        self.divide, self.factor = config.divide_weights, config.residual_multiplier
        self.router = Linear(config.d_model, config.n_expert, bias=config.router_bias)
        self.jitter = config.router_jitter if config.router_scores == "sparsemixer" else None
        self.sigmoid, self.multiplier = config.router_scores == "sigmoid", config.expert_multiplier
        self.offset = nn.Parameter(torch.zeros(config.n_expert)) if config.router_offset else None
        self.experts = Mlps(config)
        self.shared = (
            MLP(dataclasses.replace(config, residual_multiplier=1.0), config.d_shared) if config.d_shared else None
        )
        self.shared_gate = Linear(config.d_model, 1, bias=False) if config.d_shared and config.shared_gate else None
        self.scales = nn.Parameter(torch.ones(config.n_expert)) if config.expert_scales else None
        self.eps, D, normed = config.divide_eps, config.d_model, config.expert_norms
        self.router_gain = nn.Parameter(torch.ones(D)) if normed else None
        self.experts_gain = nn.Parameter(torch.ones(D)) if normed else None
        self.shared_gain = nn.Parameter(torch.ones(D)) if normed else None
        self.experts_after = Norm(config, D) if normed else None
        self.shared_after = Norm(config, D) if normed else None

    @property
    def gate(self) -> NoReturn:
        """Not available, since there is no single gate projection. Raises InputError, as do `up` and `down`."""
        raise has_experts(self.router.weight.shape[0])

    up = down = gate

    def route(self, logits: Tensor, capacity_factor: float | None = None) -> Routing:
        """Apply `route` by the rules of this layer. logits [n, N]"""
        return route(
            logits,
            self.k,
            capacity_factor,
            divide=self.divide,
            sigmoid=self.sigmoid,
            jitter=self.jitter,
            offset=self.offset,
            multiplier=self.multiplier,
            scales=self.scales,
            eps=self.eps,
        )

    def reads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the router, the experts and the MLP beside them read: x, or x with the gain of each. [..., D]"""
        if self.router_gain is None:
            return x, x, x
        return x * self.router_gain * x.shape[-1] ** -0.5, x * self.experts_gain, x * self.shared_gain

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        """Route the tokens and sum the experts' weighted outputs, with taps at `router` and `mlp_out`. x [B, T, D] ->
        [B, T, D]
        """
        routed, read, beside = self.reads(x)
        logits = run.at("router", layer, self.router(routed))
        capacity_factor = self.capacity_factor if self.training else None
        routing = self.route(logits.flatten(0, 1), capacity_factor)
        flat = read.flatten(0, 1)
        out = torch.zeros_like(flat)
        for expert in range(logits.shape[-1]):
            token, choice = ((routing.experts == expert) & routing.kept).nonzero(as_tuple=True)
            if len(token):
                output = self.experts.one(expert, flat[token]) * routing.weights[token, choice, None].to(x.dtype)
                out.index_add_(0, token, output)
        out = out.view_as(x)
        out = out if self.experts_after is None else self.experts_after(out)
        if self.shared is not None:
            written = self.shared(beside, layer, dataclasses.replace(run, tap=None))
            written = written if self.shared_after is None else self.shared_after(written)
            out = out + (written if self.shared_gate is None else self.shared_gate(x).sigmoid() * written)
        return run.at("mlp_out", layer, out if self.factor == 1 else out * self.factor)
