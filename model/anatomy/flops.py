"""Floating-point operations of a forward pass, operation by operation, from the config alone.

Two kinds of operations are counted separately. `products` are matrix products, 2 m n k for [m, k] times [k, n], exactly
as PyTorch's own counter counts a forward pass with explicit attention. `elementwise` are all other operations by a
convention: one for each addition, subtraction, multiplication, division, square root, maximum, and function evaluation
(exp, tanh, erf). Sine tables, masks, look-ups and copies count as 0.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from model.anatomy.anatomy import Weight, kinds_of_weights, n_params
from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.experts import require_dense
from model.gpt.mixers.needs import need_attention
from model.gpt.passes import attend_explicit
from model.gpt.transformer import Transformer
from model.public import one_of, public, whole

# {group: operations}, for the figure by context length.
GROUPS: dict[str, tuple[str, ...]] = {
    "attention": ("scores", "softmax", "mix"),
    "projections": ("q", "k", "v", "qk_norm", "rope", "o"),
    "mlp": ("router", "gate", "up", "act", "down"),
    "head": ("head",),
    "rest": ("embed", "positions", "norm1", "norm2", "residual", "final_norm"),
}
AGAINST = ("projections", "layer")  # what attention is compared with: see `crossing`

# Operations per element of an activation function; for swiglu, including the product of the branches.
_ACT = {"relu": 1, "gelu": 5, "gelu_tanh": 9, "swiglu": 5}


@public(T=whole(1, 1 << 40), S=whole(1, 1 << 40), logits=whole(0, 1 << 40))
@dataclass(frozen=True)
class PassSize:
    """The size of a forward pass: T tokens attend to S tokens, themselves included.

    The unembedding runs for the last `logits` tokens. A prompt has T = S; a token generated with S - 1 cached tokens
    has T = 1. Raises InputError for a size out of range, ValueError for inconsistent sizes.
    """

    T: int
    S: int
    logits: int = 1

    def __post_init__(self) -> None:
        if not (self.T <= self.S and self.logits <= self.T):
            got = f"got T {self.T}, S {self.S}, logits {self.logits}"
            raise ValueError(f"T must be at most S and logits at most T, {got}")

    @property
    def pairs(self) -> int:
        """Number of causal pairs, whose key is not after the query: T S - T (T - 1) / 2 of the T S pairs."""
        return self.T * self.S - self.T * (self.T - 1) // 2


@dataclass(frozen=True)
class Operation:
    """One kind of operation: FLOPs in one layer, or in the complete model for an operation outside the layers."""

    key: str
    layers: int  # number of repeats: n_layer, or 1
    products: int  # matrix products, as computed with all T x S pairs
    elementwise: int
    useful: int  # matrix products without masked pairs

    @property
    def all_products(self) -> int:
        """Total FLOPs of the matrix products over all layers."""
        return self.layers * self.products

    @property
    def all_useful(self) -> int:
        """Total FLOPs of the unmasked matrix products over all layers."""
        return self.layers * self.useful

    @property
    def all_elementwise(self) -> int:
        """Total elementwise operations over all layers."""
        return self.layers * self.elementwise


@public(T=whole(1, 1 << 40), logits=whole(0, 1 << 40))
def prompt(T: int, logits: int | None = None) -> PassSize:
    """Return the PassSize of a prompt of T tokens, by default with logits for all of them."""
    return PassSize(T, T, T if logits is None else logits)


@public(cached=whole(0, 1 << 40))
def next_token(cached: int) -> PassSize:
    """Return the PassSize of one more token with `cached` tokens in the cache."""
    return PassSize(1, cached + 1)


def _norm(config: ModelConfig, width: int, kind: str) -> int:
    """Count the elementwise FLOPs of a norm on one vector: mean and difference (LayerNorm only), squares, their mean,
    eps, root, division, gain, and bias.
    """
    if kind == "rmsnorm":
        return 4 * width + 2
    return (7 if config.norm_bias else 6) * width + 2


@public()
def operations(config: ModelConfig, reading: PassSize) -> tuple[Operation, ...]:
    """Return all operations of the config in the order of the computation.

    Kaplan et al. 2020, table 1, has a similar table for GPT-2's architecture, in which attention counts only causal
    pairs. Raises InputError for a model with mixers other than full attention.
    """
    need_attention(config)
    c, T, S, n = config, reading.T, reading.S, config.n_layer
    D, H, G, E, M = c.d_model, c.n_head, c.n_kv_head, c.d_head, c.d_mlp
    norm = T * _norm(c, D, c.norm)

    def linear(key: str, d_in: int, d_out: int, bias: bool) -> Operation:
        products = 2 * T * d_in * d_out
        return Operation(key, n, products, T * d_out * bias, products)

    def pointwise(key: str, elementwise: int, layers: int = n) -> Operation:
        return Operation(key, layers, 0, elementwise, 0)

    pairs = 2 * H * E * T * S
    useful = 2 * H * E * reading.pairs
    ops = [pointwise("embed", T * D * c.embed_scale, 1)]
    if c.positions in ("learned", "sinusoidal"):
        ops.append(pointwise("positions", T * D, 1))
    ops += [pointwise("norm1", norm), linear("q", D, H * E, c.q_bias), linear("k", D, G * E, c.k_bias)]
    ops.append(linear("v", D, G * E, c.v_bias))
    if c.qk_norm:
        ops.append(pointwise("qk_norm", T * (H + G) * _norm(c, E, "rmsnorm")))
    if c.positions == "rope":
        ops.append(pointwise("rope", T * (H + G) * 3 * c.d_rotary))
    ops += [
        Operation("scores", n, pairs, H * T * S, useful),
        pointwise("softmax", H * T * (5 * S - 2)),  # maximum, difference, exp, sum, division
        Operation("mix", n, pairs, 0, useful),
        linear("o", H * E, D, c.o_bias),
        pointwise("residual", 2 * T * D),
        pointwise("norm2", norm),
    ]
    N, k = c.n_expert, c.experts_per_token
    if N > 1:  # with softmax, renormalization of the top k, and the weighted sum of k outputs
        products = 2 * T * D * N
        ops.append(Operation("router", n, products, T * (5 * N - 2 + 2 * k - 1 + 2 * k * D), products))
    through = T * k if N > 1 else T  # rows that are processed by an MLP

    def mlp(key: str, d_in: int, d_out: int) -> Operation:
        products = 2 * through * d_in * d_out
        return Operation(key, n, products, through * d_out * c.mlp_bias, products)

    ops += [mlp("gate", D, M)] if c.mlp == "swiglu" else []
    ops += [mlp("up", D, M), pointwise("act", through * M * _ACT[c.mlp]), mlp("down", M, D)]
    if c.final_norm:
        ops.append(pointwise("final_norm", reading.logits * _norm(c, D, c.norm), 1))
    head = 2 * reading.logits * D * c.vocab_size
    return (*ops, Operation("head", 1, head, 0, head))


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
    those and the MLP. With `useful`, only the T (T + 1) / 2 causal pairs count, which gives 2 T - 1. For one token with
    a cache, the crossing is the same number, in visible tokens S. Raises ValueError for another name.
    """
    c = config
    keys = ("q", "k", "v", "o") + (() if against == "projections" else ("router", "gate", "up", "down"))
    each = sum(op.products for op in operations(c, PassSize(1, 1)) if op.key in keys)
    T = each / (4 * c.n_head * c.d_head)
    return 2 * T - 1 if useful else T


# --- rules of thumb --------------------------------------------------------------------------------


def matrix_params(config: ModelConfig) -> int:
    """Count the parameters of the blocks' matrices: N of Kaplan et al. 2020, section 2.1. Only the experts used by one
    token count.
    """
    kinds = [(each, n) for each, n in kinds_of_weights(config) if each.layer is not None and len(each.shape) >= 2]
    return sum(_active(config, each) * n for each, n in kinds if not each.name.endswith(".bias"))


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
    c, tables = config, ("embed", "pos_embed", "unembed")
    rows = reading.T * c.d_model * (2 if c.positions == "learned" else 1)
    head = c.d_model * c.vocab_size if reading.logits else 0
    return (
        rows + head + sum(_active(c, each, reading.T) * n for each, n in kinds_of_weights(c) if each.part not in tables)
    )


def cache_moved(config: ModelConfig, reading: PassSize) -> int:
    """Count the elements of keys and values written to the cache (T tokens) or read from it (S - T): 2 L G S E in
    total.
    """
    need_attention(config)
    return 2 * config.n_layer * config.n_kv_head * config.d_head * reading.S


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
    kernel. The values sum to `total(operations(config, reading))`. Raises InputError for experts, since routing depends
    on the values of activations.
    """
    require_dense(config)
    start = reading.S - reading.T
    with torch.device("meta"):
        model = Transformer(dataclasses.replace(config, n_ctx=max(config.n_ctx, reading.S)))
        ids = torch.empty(1, reading.T, dtype=torch.long)
        cache = KVCache.empty(config, 1, reading.S)
        cache.length = start
        with Counter() as counter:
            run = model.prepare(start, reading.T, attend=attend_explicit(_unchanged), cache=cache)
            x = model.embed_tokens(ids, start, run)
            for layer, block in enumerate(model.blocks):
                x = block(x, layer, run)
            model.logits(x[:, reading.T - reading.logits :])
    return counter.flops


def _unchanged(site: str, layer: int, tensor: Tensor) -> Tensor:
    return tensor
