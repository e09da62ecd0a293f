"""Floating-point operations of a forward pass, operation by operation, from the config alone.

Two kinds of operations are counted separately. `products` are matrix products, 2 m n k for [m, k] times [k, n], exactly
as PyTorch's own counter counts a forward pass with explicit attention. `elementwise` are all other operations by a
convention: one for each addition, subtraction, multiplication, division, square root, maximum, and function evaluation
(exp, tanh, erf). Sine tables, masks, look-ups and copies count as 0.
"""

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from model.anatomy.anatomy import Weight, kinds_of_weights, n_params
from model.anatomy.mixers.kinds import attention_layers
from model.anatomy.mixers.operation import Operation, PassSize, joined, linear, norm_flops, pointwise
from model.anatomy.mixers.own import by_kinds, entry_operations, input_operations
from model.anatomy.mixers.work import CAP, SIGMOID, mixer_operations
from model.generation.cache_costs import state_sizes
from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig, of_layers
from model.gpt.experts import require_dense
from model.gpt.mixers.decay import CHUNK
from model.gpt.mixers.names import ATTENTION
from model.gpt.passes import attend_explicit
from model.gpt.transformer import Transformer
from model.public import one_of, public, whole

# {group: operations}, for the figure by context length.
GROUPS: dict[str, tuple[str, ...]] = {
    "attention": ("scores", "softmax", "mix", "window_scores", "window_softmax", "window_mix"),
    "state": ("conv", "rates", "state", "state_gate"),
    "projections": ("q", "k", "v", "qk_norm", "rope", "gate_o", "o", "v_norm", "in_proj", "out_proj"),
    "mlp": ("router", "gate", "up", "act", "down", "shared", "dense", "entry_proj", "entry"),
    "head": ("head_dense", "head"),
    "rest": (
        *("embed", "positions", "segments", "embed_norm", "norm1", "after1", "norm2", "after2", "beside", "residual"),
        *("scale", "final_norm", "head_norm"),
    ),
}
MOST_STEPS = 500  # maximum steps of recurrences that PyTorch counts
AGAINST = ("projections", "layer")  # what attention is compared with: see `crossing`

# Operations per element of an activation function; for a gated MLP, including the product of the branches and clamps.
_ACT = {
    "relu": 1,
    "relu2": 2,
    "silu": 4,
    "gelu": 5,
    "gelu_tanh": 9,
    "swiglu": 5,
    "geglu": 6,
    "geglu_tanh": 10,
    "swiglu_clamped": 10,
    "xielu": 9,
}


@public(T=whole(1, 1 << 40), logits=whole(0, 1 << 40))
def prompt(T: int, logits: int | None = None) -> PassSize:
    """Return the PassSize of a prompt of T tokens, by default with logits for all of them."""
    return PassSize(T, T, T if logits is None else logits)


@public(cached=whole(0, 1 << 40))
def next_token(cached: int) -> PassSize:
    """Return the PassSize of one more token with `cached` tokens in the cache."""
    return PassSize(1, cached + 1)


@public()
def operations(config: ModelConfig, reading: PassSize) -> tuple[Operation, ...]:
    """Return all operations of the config in the order of the computation.

    Kaplan et al. 2020, table 1, has a similar table for GPT-2's architecture, in which attention counts only causal
    pairs. Attention in a sliding window (`window_scores`, ...) is counted with all T x S pairs, too, and useful are
    those within the window. Mixers with a state: see model.anatomy.mixers.work. Raises InputError for several kinds of
    mixers besides attention.
    """
    c, T, D = config, reading.T, config.d_model
    norm = T * norm_flops(c, D, c.norm)
    ops = [pointwise("embed", T * D * (c.embed_factor != 1), 1)]
    ops += [pointwise("positions", T * D, 1)] if c.positions in ("learned", "sinusoidal") else []
    ops += [pointwise("segments", T * D, 1)] if c.n_segment else []
    ops += [pointwise("embed_norm", norm, 1)] if c.embed_norm else []
    ops += input_operations(c, T)
    ops += _layers(c, reading) if c.alone else by_kinds(c, lambda own, shares: _layers(own, reading, shares=shares))
    ops += [pointwise("final_norm", reading.logits * norm_flops(c, D, c.norm), 1)] if c.final_norm else []
    return (*ops, *([] if c.headless else _head_operations(c, reading.logits)))


def _layers(config: ModelConfig, reading: PassSize, *, shares: bool = False) -> list[Operation]:
    """Return the operations of all layers, which have the same sizes."""
    c, T, D, n = config, reading.T, config.d_model, config.n_layer
    norm, mlps = T * norm_flops(c, D, c.norm), sum(c.has_mlp(layer) for layer in range(n))
    reads, after = c.norm_placement != "output", c.norm_placement in ("output", "sandwich")
    ops = [pointwise("norm1", norm, n - len(c.unnormed))] if reads else []
    ops += mixer_operations(c, reading, shares=shares)
    ops += [pointwise("after1", norm, n)] if after else []
    ops.append(pointwise("residual", (2 if c.residual_multiplier != 1 else 1) * T * D, n + mlps))
    ops += [pointwise("norm2", norm, mlps)] if reads and not c.shared_norm and mlps else []
    ops += _mlp_operations(c, T) if mlps else []
    ops += [pointwise("after2", norm, n)] if after else []
    return [*ops, *entry_operations(c, T, n, _ACT.get(c.mlp, 0) - c.gated)]


def _head_operations(config: ModelConfig, rows: int) -> list[Operation]:
    """Return the operations of the output head on a number of tokens."""
    c, D, ops = config, config.d_model, []
    if c.head_dense:
        act = _ACT[c.mlp] - c.gated  # of the function alone, without the product of the branches
        ops = [linear("head_dense", 1, rows, (D, D), c.mlp_bias + act)]
        ops.append(pointwise("head_norm", rows * norm_flops(c, D, c.norm), 1))
    each = c.head_bias + (c.logit_multiplier != 1) + CAP * (c.logit_cap is not None)
    return [*ops, linear("head", 1, rows, (D, c.vocab_size), each)]


def _mlp_operations(config: ModelConfig, T: int) -> list[Operation]:
    """Return the operations of the MLPs: those of all layers, or those of routers, experts, the MLP beside them, and
    the MLP of layers without experts.
    """
    c, D, N, k = config, config.d_model, config.n_expert, config.experts_per_token
    mlps = sum(c.has_mlp(layer) for layer in range(c.n_layer))
    if N == 1:
        return _mlp(c, T, c.d_mlp, mlps, c.mlp_bias)
    layers = sum(c.has_experts(layer) for layer in range(c.n_layer))
    divided = 2 * k - 1 + (c.divide_eps > 0) if c.divide_weights and k > 1 else 0
    # of SparseMixer, k softmaxes with a difference, a maximum, a quotient and a comparison before each
    soft = k * (9 * N - 2) if c.router_scores == "sparsemixer" else 5 * N - 2
    # bias, softmax, division by the sum of the top k, and the weighted sum of k outputs
    each = N * c.router_bias + soft + divided + 2 * k * D + k * c.expert_scales
    if c.expert_norms:  # gains of what router, experts and the MLP beside them read, and a norm after each of the two
        each += 4 * D + 2 * norm_flops(c, D, c.norm)
    ops = [joined([linear("router", layers, T, (D, N))], T * each)]
    ops += _mlp(c, T * k, c.d_expert, layers, c.expert_bias)
    if c.d_shared:
        gate = [linear("shared", layers, T, (D, 1), SIGMOID + D)] if c.shared_gate else []
        ops.append(joined([*_named("shared", _mlp(c, T, c.d_shared, layers, c.mlp_bias)), *gate], T * D))
    if mlps > layers:
        ops.append(joined(_named("dense", _mlp(c, T, c.d_mlp, mlps - layers, c.mlp_bias))))
    return ops


def _mlp(config: ModelConfig, rows: int, M: int, layers: int, bias: bool) -> list[Operation]:
    """Return the operations of an MLP of width M on a number of rows."""
    D = config.d_model
    gate = [linear("gate", layers, rows, (D, M), bias)] if config.gated else []
    act = pointwise("act", rows * M * _ACT[config.mlp], layers)
    return [*gate, linear("up", layers, rows, (D, M), bias), act, linear("down", layers, rows, (M, D), bias)]


def _named(key: str, ops: Sequence[Operation]) -> list[Operation]:
    return [dataclasses.replace(op, key=key) for op in ops]


@public()
def total(ops: Sequence[Operation], useful: bool = False) -> int:
    """Sum the FLOPs of all matrix products of a forward pass, or only the unmasked ones with `useful`."""
    return sum(each.all_useful if useful else each.all_products for each in ops)


@public()
def by_group(ops: Sequence[Operation], useful: bool = False) -> dict[str, int]:
    """Sum the FLOPs of the matrix products in each of GROUPS; the groups sum to `total`."""
    return {name: total([each for each in ops if each.key in keys], useful) for name, keys in GROUPS.items()}


@public(against=one_of(AGAINST))
def crossing(config: ModelConfig, against: str = "projections", useful: bool = False) -> float:
    """Compute the context length, in tokens, at which scores and mix take as many FLOPs as the operations of `against`.

    `projections`: q, k, v and o; 4 H E T^2 = 4 D E (H + G) T, so T = D (1 + G / H), which is 2 D for MHA. `layer`:
    those, states and the MLP. With `useful`, only the T (T + 1) / 2 causal pairs count, which gives 2 T - 1. For one
    token with a cache, the crossing is the same number, in visible tokens S. Infinite for a model without attention.
    Raises ValueError for another name.
    """
    c, layers = config, attention_layers(config)
    if not layers:
        return math.inf
    keys = GROUPS["projections"] + (() if against == "projections" else GROUPS["mlp"] + GROUPS["state"])
    every = sum(op.all_products for op in operations(c, PassSize(CHUNK, CHUNK)) if op.key in keys)
    T = every / (4 * CHUNK * c.n_head * sum(config.at(layer).d_head for layer in layers))
    return 2 * T - 1 if useful and not c.two_way else T


# --- rules of thumb --------------------------------------------------------------------------------


def matrix_params(config: ModelConfig) -> int:
    """Count the parameters of the blocks' matrices: N of Kaplan et al. 2020, section 2.1. Only the experts used by one
    token count.
    """
    inside = [(each, n) for each, n in kinds_of_weights(config) if each.layer is not None or each.part == "entry_proj"]
    matrices = [(each, n) for each, n in inside if len(each.shape) >= 2 and not each.name.endswith(".bias")]
    return sum(_active(config, each) * n for each, n in matrices)


def _active(config: ModelConfig, weight: Weight, tokens: int = 1) -> int:
    """Count the parameters of a weight that the given number of tokens can use: at most k of the N
    experts per token.
    """
    if config.n_expert == 1 or weight.part not in ("gate", "up", "down"):
        return weight.size
    return weight.size // config.n_expert * min(config.n_expert, tokens * config.experts_per_token)


def rules(config: ModelConfig) -> dict[str, int]:
    """Return the estimates of 2 N FLOPs per token for inference and 6 N for training (Kaplan et al. 2020, section 2.1).

    Keys: `blocks` and `all` are N as the matrix parameters of the blocks and as all parameters; `forward` and
    `training` are the FLOPs for the former, `forward_all` and `training_all` those for the latter.
    """
    blocks, every = matrix_params(config), n_params(config)
    return {
        "blocks": blocks,
        "all": every,
        "forward": 2 * blocks,
        "forward_all": 2 * every,
        "training": 6 * blocks,
        "training_all": 6 * every,
    }


def training(config: ModelConfig, reading: PassSize) -> int:
    """Count the FLOPs of the matrix products of a training step: those of the forward pass, and twice as many in the
    backward pass.

    Exact if the embedding is trained, since then each product has a gradient with respect to both factors.
    """
    return 3 * total(operations(config, reading))


# --- memory traffic --------------------------------------------------------------------------------


def weights_read(config: ModelConfig, reading: PassSize) -> int:
    """Count the weights that a forward pass reads: from the embedding tables only the rows of its tokens, and all other
    weights once.

    For experts, it is the maximum that these tokens can activate: k per token, up to all of them. A tied unembedding is
    the embedding, read as a matrix in addition to the looked-up rows.
    """
    c, tables = config, ("embed", "pos_embed", "entry_embed", "unembed")
    rows = reading.T * (c.d_model * (2 if c.positions == "learned" else 1) + c.n_layer * (c.d_layer_input or 0))
    head = (c.d_model + c.head_bias) * c.vocab_size if reading.logits else 0
    return (
        rows + head + sum(_active(c, each, reading.T) * n for each, n in kinds_of_weights(c) if each.part not in tables)
    )


def cache_moved(config: ModelConfig, reading: PassSize) -> int:
    """Count the elements of keys and values written to the cache (T tokens) or read from it (S - T, or those within the
    window), 2 L G S E in total without windows, and those of states written, and read if there are tokens before. A
    model that reads in both directions has no cache.
    """
    c, moved = config, 0
    if c.two_way:
        return 0
    lengths = {"softmax": reading.S, "sliding_window": reading.T + min(reading.S - reading.T, (c.window or 1) - 1)}
    for layer in attention_layers(c):  # those that use the keys and values of an earlier layer only read them
        own, length = c.at(layer), lengths[c.mixer_of(layer)]
        length -= reading.T * (c.kv_source(layer) != layer)
        moved += 2 * own.n_kv_head * own.d_head * length
    states = sum(state_sizes(c)[name] for name in c.mixers if name not in ATTENTION)
    states += c.n_layer * state_sizes(c)["mamba2"] * c.ssm_beside
    return moved + states * (2 if reading.S > reading.T else 1)


def intensity(config: ModelConfig, reading: PassSize, item: float = 4) -> float:
    """Compute the arithmetic intensity: FLOPs of matrix products per byte of weights and KV cache moved, at `item`
    bytes per number.

    Activations are not counted: they are assumed to stay in the processor's caches. Williams et al. 2009.
    """
    moved = weights_read(config, reading) + cache_moved(config, reading)
    return total(operations(config, reading)) / (item * moved)


# --- counted by PyTorch ----------------------------------------------------------------------------


class Counter(TorchDispatchMode):
    """Context manager that counts the FLOPs of this thread's operations by the formulas of torch.utils.flop_counter.

    FlopCounterMode itself installs hooks on all modules of the process.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops: dict[str, int] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        outputs = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            name = str(func._overloadpacket)
            self.flops[name] = self.flops.get(name, 0) + formula(*args, **(kwargs or {}), out_val=outputs)
        return outputs


@public()
@torch.no_grad()
def counted(config: ModelConfig, reading: PassSize) -> Mapping[str, int]:
    """Return PyTorch's FLOP count of a forward pass of this architecture, {operator: FLOPs}, without computing it.

    The forward pass runs on the meta device with explicit attention, because PyTorch does not count the fused CPU
    kernel, for one layer of each kind, times their number. The values sum to `total(operations(config, reading))`.
    Raises InputError for experts, since routing depends on the values of activations. Mamba takes a step for every
    token: see `countable`.
    """
    if config.n_expert > 1:
        require_dense(config)
    start, flops = reading.S - reading.T, collections.Counter()
    several = _alike(config)
    with torch.device("meta"):
        longer = dataclasses.replace(config, n_ctx=max(config.n_ctx, reading.S))
        model = Transformer(of_layers(longer, list(several))).to("meta")  # with the gains of norms without weights
        ids = torch.empty(1, reading.T, dtype=torch.long)
        cache = None if config.two_way else KVCache.empty(model.config, 1, reading.S, whole=True)
        if start:  # with empty states, which take the same products
            near = [layer for layer, name in enumerate(model.config.mixers) if name == "sliding_window"]
            sizes = {layer: model.config.at(layer) for layer in near}
            held = {layer: torch.empty(1, own.n_kv_head, start, own.d_head) for layer, own in sizes.items()}
            cache.length, cache.states = start, {layer: (keys, keys) for layer, keys in held.items()}
        run = model.prepare(start, reading.T, attend=attend_explicit(_unchanged), cache=cache)
        run = dataclasses.replace(run, explicit=True)
        x = model.embed_tokens(ids, start, run)
        for layer, n in enumerate(several.values()):
            with Counter() as counter:
                x = model.blocks[layer](x, layer, run)
            flops.update({name: n * count for name, count in counter.flops.items()})
        if not config.headless:
            with Counter() as counter:
                model.logits(x[:, reading.T - reading.logits :])
            flops.update(counter.flops)
    return flops


def _alike(config: ModelConfig) -> dict[int, int]:
    """Return the first layer of each kind with the number of layers of that kind, which take the same products."""
    kinds = [
        (config.mixer_of(layer), config.has_mlp(layer), config.kv_source(layer) == layer)
        for layer in range(config.n_layer)
    ]
    return {kinds.index(kind): n for kind, n in collections.Counter(kinds).items()}


def countable(config: ModelConfig, reading: PassSize) -> bool:
    """Return whether `counted` takes at most about a second for a model with states: its steps are one per token for
    Mamba, and one per chunk of tokens for the others.
    """
    steps = reading.T if "mamba" in config.mixers else reading.T // CHUNK
    return steps <= MOST_STEPS or (set(config.mixers) <= {*ATTENTION, "short_conv"} and not config.ssm_beside)


def _unchanged(site: str, layer: int, tensor: Tensor) -> Tensor:
    return tensor
