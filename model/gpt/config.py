"""Every architectural choice of a GPT as a config field.

             MHA                     GQA                    MQA
    k/v   |  |  |  |               |     |                   |
          |  |  |  |             +-+-+ +-+-+           +--+--+--+
    q     |  |  |  |             |   | |   |           |  |  |  |
n_kv_head   4 (= n_head)              2                      1
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args, get_origin

from model.errors import CheckpointError
from model.gpt.config_checks import GATED, LAYERS, check_sizes, check_types, check_values
from model.gpt.mixers.names import ATTENTION, BOUNDED, STATE_SPACES, checked_mixer, dt_rank_of
from model.gpt.rope_scaling import RopeScaling


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of a decoder-only Transformer. The forward pass branches on these fields alone.

    Fields left at None are derived: `n_kv_head = n_head`, `d_head = d_model / n_head`, `d_mlp = 4 d_model`,
    `d_expert = d_mlp`, `dt_rank = d_model / 16`, `ssm_heads = n_head`, and `final_norm` is false for post-norm. Layers
    differ in their mixer, in whether they rotate, in whether they have an MLP or experts, and in the sizes that `at`
    returns. Raises ValueError for incompatible values.
    """

    # size
    vocab_size: int
    n_ctx: int  # maximum number of tokens of a sequence
    n_layer: int
    d_model: int
    n_head: int
    n_kv_head: int | None = None  # < n_head: grouped-query attention; 1: multi-query
    d_head: int | None = None  # differs from d_model / n_head in Qwen3
    d_mlp: int | None = None
    # sizes of some layers, as in Gemma 4; read them by `at`. None: those of all
    d_head_local: int | None = None  # d_head of layers with a sliding window
    n_kv_head_local: int | None = None  # n_kv_head of layers with a sliding window
    d_mlp_shared: int | None = None  # d_mlp of the last layers, those of n_shared_kv
    # norm
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    norm_eps: float = 1e-5
    norm_weight: bool = True  # whether norms have a gain
    norm_bias: bool = True  # LayerNorm only; RMSNorm has none
    # pre: x + f(N(x)); post: N(x + f(x)); output: x + N(f(x)), as in OLMo 2; sandwich: x + N'(f(N(x))), as in Gemma 2
    norm_placement: Literal["pre", "post", "output", "sandwich"] = "pre"
    parallel_residual: bool = False  # x + attn(N1(x)) + mlp(N2(x)), as in GPT-NeoX
    shared_norm: bool = False  # parallel only: N2 = N1, one norm per layer, as in GPT-J
    qk_norm: bool = False  # a norm of q and of k, as in Qwen3
    # over each head, over each head with gains of its own, as in Command R+, or over all heads together, as in OLMo 2
    qk_norm_over: Literal["head", "each", "all"] = "head"
    qk_norm_kind: Literal["rmsnorm", "layernorm", "layernorm_bias"] = "rmsnorm"
    v_norm: bool = False  # RMSNorm of each head's v, without a gain, as in Gemma 4
    embed_norm: bool = False  # a norm of the embeddings before the first layer, as in BLOOM
    unnormed: tuple[int, ...] = ()  # pre-norm layers whose attention reads the stream itself, as in ModernBERT
    final_norm: bool | None = None
    # positions
    positions: Literal["learned", "sinusoidal", "rope", "alibi", "none"] = "learned"
    alibi_rounded: bool = False  # slope x position in bfloat16, and divided by sqrt(d_head) as q.k is, as in Falcon RW
    rope_theta: float = 10_000.0
    rope_theta_local: float | None = None  # base of the layers with a sliding window, unscaled, as in Gemma 3
    rope_pairs: Literal["halves", "adjacent"] = "halves"  # dimensions i and i + d_rotary / 2, or 2 i and 2 i + 1
    unrotated: tuple[int, ...] = ()  # layers without rotation, as in SmolLM3
    rotary_fraction: float = 1.0  # fraction of the dimensions of a head that is rotated; 0.25 in GPT-NeoX
    rope_scaling: RopeScaling | None = None
    n_segment: int | None = None  # number of texts in a sequence that have a vector of their own, as in BERT
    segment_end: int | None = None  # id of the token that ends one, such as [SEP]; None: all tokens are in the first
    # multipliers
    embed_scale: bool = False  # token embedding times sqrt(d_model), as in the original Transformer
    embed_multiplier: float = 1.0  # token embedding times this
    layer_scale: bool = False  # the stream that leaves a layer times a learned number, as in Gemma 4
    residual_multiplier: float = 1.0  # output of each sublayer times this, as in Granite
    logit_multiplier: float = 1.0  # logits times this
    # attention
    score_multiplier: float | None = None  # q.k times this; None: 1 / sqrt(d_head)
    score_cap: float | None = None  # scores become cap tanh(score / cap), as in Gemma 2
    sinks: bool = False  # a learned score per head, without a key, that takes part in the softmax, as in gpt-oss
    qkv_limit: float | None = None  # q, k and v are clamped to -limit .. limit before positions, as in MPT
    two_way: bool = False  # whether tokens also attend to later ones, as in BERT
    output_gate: bool = False  # each output of a head times a sigmoid of a linear layer, as in Qwen3-Next
    keys_as_values: bool = False  # layers of full attention: v is k before its norm and rotation, as in Gemma 4
    n_shared_kv: int | None = None  # number of last layers that use the keys and values of an earlier one (`kv_source`)
    q_bias: bool = True
    k_bias: bool = True
    v_bias: bool = True
    o_bias: bool = True
    # mixer: how a token receives information from earlier tokens; one name for all layers, or one per layer
    mixer: str | tuple[str, ...] = "softmax"
    window: int | None = None  # sliding_window: number of tokens visible to a token, itself included
    d_state: int = 16  # mamba and mamba2: size of the state per channel
    d_conv: int = 4  # mamba, mamba2, gated_delta and short_conv: width in tokens of the convolution
    expand: int = 2  # mamba and mamba2: ratio of the number of channels to d_model
    dt_rank: int | None = None  # mamba: rank of the projection to the step sizes
    ssm_heads: int | None = None  # mamba2: number of heads of the state; the views show the channels in n_head groups
    d_ssm_head: int | None = None  # mamba2: channels of such a head
    ssm_groups: int = 1  # mamba2: groups of heads that share B and C
    ssm_norm: Literal["after_gate", "before_gate", "none"] = "after_gate"  # mamba2: RMSNorm of each group's output
    ssm_bias: bool = False  # mamba2: of the input and output projections
    ssm_conv_bias: bool = True  # mamba2
    dt_min: float = 0.0  # mamba2: limits of the step sizes
    dt_max: float | None = None
    ssm_beside: bool = False  # whether a Mamba 2 reads and writes beside the attention of each layer, as in Falcon-H1
    short_conv_bias: bool = False  # short_conv: whether its layers have biases
    n_delta_head: int | None = None  # gated_delta: number of heads with a state; None: n_head
    n_delta_key: int | None = None  # gated_delta: number of heads of queries and keys, which share them; None: all
    d_delta_key: int | None = None  # gated_delta: size of a query and of a key; None: d_head
    d_delta_value: int | None = None  # gated_delta: size of a value; None: d_head
    # MLP
    # "none": layers have no MLP, and no norm before it, as in Mamba; "xielu": with numbers of each layer, as in Apertus
    mlp: Literal[
        "relu", "gelu", "gelu_tanh", "swiglu", "relu2", "silu", "geglu", "geglu_tanh", "swiglu_clamped", "xielu", "none"
    ] = "gelu_tanh"
    mlp_bias: bool = True
    without_mlp: tuple[int, ...] = ()  # layers of a mixer alone, as in Nemotron-H
    d_layer_input: int | None = None  # width of the vector by which a token also enters each layer, as in Gemma 3n
    # mixture of experts
    n_expert: int = 1  # number of MLPs per layer; 1: a dense MLP without a router
    experts_per_token: int = 1  # number of experts to which a token is routed
    d_expert: int | None = None  # width of each expert's MLP
    dense: tuple[int, ...] = ()  # layers with a single MLP in a model with experts
    divide_weights: bool = True  # whether the weights of a token's experts are divided by their sum; not for one expert
    router_bias: bool = False
    # what an expert's weight is computed from; sparsemixer: a softmax over the experts near the best, as in Phi-3.5-MoE
    router_scores: Literal["softmax", "sigmoid", "sparsemixer"] = "softmax"
    router_jitter: float = 0.01  # sparsemixer: "near" is at most twice this below, relative to the larger logit
    router_offset: bool = False  # a learned number per expert, added to its score for the choice alone
    expert_multiplier: float = 1.0  # weights of a token's experts times this
    expert_scales: bool = False  # the weight of each expert times a learned number of it, as in Gemma 4
    # whether router, experts and the MLP beside them have a gain each for the norm before them, and norms after both
    expert_norms: bool = False
    divide_eps: float = 0.0  # added to the sum that divides the weights, as in LFM2-MoE
    expert_bias: bool | None = None  # biases of the experts' layers; None: mlp_bias
    d_shared: int | None = None  # width of an MLP that every token passes beside its experts; None: no such MLP
    shared_gate: bool = False  # whether a sigmoid of a linear layer scales the shared MLP, as in Qwen2-MoE
    capacity_factor: float | None = (
        None  # in training, maximum number of tokens per expert as a multiple of an even distribution; None: no limit
    )
    # head
    head_bias: bool = False
    head_dense: bool = False  # N(f(W x)) before the output head, with the MLP's activation f, as in BERT
    headless: bool = False  # whether the checkpoint has no head that predicts tokens: logits then mean nothing
    logit_cap: float | None = None  # logits become cap tanh(logit / cap)
    tie_embeddings: bool = True

    def __post_init__(self) -> None:
        check_types(self, CHOICES)
        derived = {
            "n_kv_head": self.n_head,
            "d_head": self.d_model // max(self.n_head, 1),
            "d_mlp": 4 * self.d_model,
            "d_expert": self.d_mlp or 4 * self.d_model,
            "expert_bias": self.mlp_bias,
            "final_norm": self.norm_placement != "post",
            "dt_rank": dt_rank_of(self.d_model),
            "ssm_heads": self.n_head,
            "d_ssm_head": max(self.expand * self.d_model // max(self.ssm_heads or self.n_head, 1), 1),
            "n_delta_head": self.n_head,
            "n_delta_key": self.n_delta_head or self.n_head,
        }
        if self.d_head is None and self.d_model % max(self.n_head, 1):
            raise ValueError(
                f"d_model {self.d_model} must be a multiple of n_head {self.n_head} unless d_head is given"
            )
        for name, value in derived.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        for name in ("d_delta_key", "d_delta_value"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, self.d_head)
        check_sizes(self)
        object.__setattr__(self, "mixer", checked_mixer(self))
        check_values(self, CHOICES)

    def at(self, layer: int) -> "ModelConfig":
        """Return the config with the sizes of one layer: d_head, n_kv_head and d_mlp."""
        local, shares = self.mixer_of(layer) == "sliding_window", self.kv_source(layer) != layer
        return _sized(self, local, shares) if local or shares else self

    def kv_source(self, layer: int) -> int:
        """Return the layer whose keys and values a layer uses: itself, or for the last `n_shared_kv` layers the last
        one before them with the same mixer.
        """
        first = self.n_layer - (self.n_shared_kv or 0)
        if layer < first:
            return layer
        return max(earlier for earlier in range(first) if self.mixer_of(earlier) == self.mixer_of(layer))

    @property
    def alone(self) -> bool:
        """True if all layers have the same sizes, and add to the stream what they compute from it alone, without scales
        and norms of parts.
        """
        sizes = (self.d_head_local, self.n_kv_head_local, self.d_mlp_shared, self.n_shared_kv, self.d_layer_input)
        own = self.layer_scale or self.v_norm or self.keys_as_values or self.expert_norms or self.expert_scales
        return not any(sizes) and not own

    @property
    def d_rotary(self) -> int:
        """The number of dimensions of a head that RoPE rotates."""
        return int(self.d_head * self.rotary_fraction)

    @property
    def gated(self) -> bool:
        """True if the MLP has a gate: f(gate(x)) * up(x)."""
        return self.mlp in GATED

    @property
    def embed_factor(self) -> float:
        """The number by which token embeddings are multiplied."""
        return self.embed_multiplier * (self.d_model**0.5 if self.embed_scale else 1.0)

    @property
    def query_factor(self) -> float:
        """The number by which queries are multiplied, so that q.k / sqrt(d_head) has the configured multiplier."""
        return 1.0 if self.score_multiplier is None else self.score_multiplier * self.d_head**0.5

    @property
    def group_size(self) -> int:
        """The number of query heads that share one KV head."""
        return self.n_head // self.n_kv_head

    def mixer_of(self, layer: int) -> str:
        """Return the name of the layer's mixer, one of model.gpt.mixers.names.MIXERS."""
        return self.mixer if isinstance(self.mixer, str) else self.mixer[layer]

    @property
    def mixers(self) -> tuple[str, ...]:
        """The mixer of every layer. [L]"""
        return (self.mixer,) * self.n_layer if isinstance(self.mixer, str) else self.mixer

    def rotates(self, layer: int) -> bool:
        """Return whether the layer rotates its queries and keys."""
        return self.positions == "rope" and layer not in self.unrotated

    def has_mlp(self, layer: int) -> bool:
        """Return whether the layer has an MLP, or experts."""
        return self.mlp != "none" and layer not in self.without_mlp

    def has_experts(self, layer: int) -> bool:
        """Return whether the layer has a router and experts in place of a single MLP."""
        return self.n_expert > 1 and layer not in self.dense and self.has_mlp(layer)

    @property
    def plain_attention(self) -> bool:
        """True if every layer has full attention, with plain scores (`plain_scores`) and without an output gate, in
        layers that are `alone`.
        """
        return self.mixer == "softmax" and self.plain_scores and not self.output_gate and self.alone

    @property
    def plain_scores(self) -> bool:
        """True if weights are the softmax of q.k / sqrt(d_head) over the keys up to the query, without ALiBi, cap or
        sinks, and layers have no Mamba 2 beside the attention.
        """
        by_rules = self.positions == "alibi" or self.score_cap is not None or self.sinks or self.two_way
        return not by_rules and not self.ssm_beside

    def is_attention(self, layer: int) -> bool:
        """Return whether the layer has scores and a softmax over them, with full attention or a sliding window."""
        return self.mixer_of(layer) in ATTENTION

    @property
    def stateful(self) -> tuple[int, ...]:
        """The layers with a cache that does not grow with the text."""
        return tuple(layer for layer in self._caching() if self.mixer_of(layer) in BOUNDED)

    @property
    def kept(self) -> tuple[int, ...]:
        """The layers that keep the keys and values of all tokens in the cache."""
        return tuple(layer for layer in self._caching() if self.mixer_of(layer) not in BOUNDED)

    def _caching(self) -> list[int]:
        """Return the layers with keys and values, or a state, of their own."""
        return [layer for layer in range(self.n_layer) if self.kv_source(layer) == layer]

    @property
    def state_spaces(self) -> tuple[int, ...]:
        """The layers with a Mamba or Mamba 2, in place of attention or beside it."""
        return tuple(n for n, name in enumerate(self.mixers) if name in STATE_SPACES or self.ssm_beside)

    @property
    def rewinds(self) -> bool:
        """True if tokens can be removed from a cache: every layer keeps all keys and values, and no layer a state."""
        return not self.stateful and not self.ssm_beside

    @property
    def d_inner(self) -> int:
        """The number of channels of a Mamba layer."""
        return self.expand * self.d_model

    @property
    def d_ssm(self) -> int:
        """The number of channels of a Mamba 2 layer."""
        return self.ssm_heads * self.d_ssm_head

    @property
    def delta_inputs(self) -> int:
        """The number of channels of q, k and v of a layer with the gated delta rule."""
        return 2 * self.n_delta_key * self.d_delta_key + self.n_delta_head * self.d_delta_value

    def channels(self, layer: int) -> int | None:
        """Return the number of channels that the layer's heads share out; None for a layer with queries and keys."""
        delta = self.n_delta_head * self.d_delta_value
        numbers = {"mamba": self.d_inner, "mamba2": self.d_ssm, "gated_delta": delta, "short_conv": self.d_model}
        return numbers.get(self.mixer_of(layer))

    def matrices(self, layer: int) -> int:
        """Return the number of a layer's matrices of T x T: of its state heads in a Mamba 2 layer, else of its channels
        or heads.
        """
        return self.ssm_heads if self.mixer_of(layer) == "mamba2" else self.channels(layer) or self.n_head

    def z_width(self, layer: int) -> int:
        """Return the width of a head's output z in this layer: d_head, or the number of channels per head."""
        channels = self.channels(layer)
        return self.at(layer).d_head if channels is None else channels // self.n_head


@cache
def _sized(config: ModelConfig, local: bool, shares: bool) -> ModelConfig:
    """Return the config with the sizes of layers with a sliding window, or of those that share keys and values."""
    sizes = {
        "d_head": (local and config.d_head_local) or config.d_head,
        "n_kv_head": (local and config.n_kv_head_local) or config.n_kv_head,
        "d_mlp": (shares and config.d_mlp_shared) or config.d_mlp,
    }
    if all(getattr(config, name) == size for name, size in sizes.items()):
        return config
    return dataclasses.replace(config, **sizes, d_head_local=None, n_kv_head_local=None, d_mlp_shared=None)


CHOICES = {
    field.name: get_args(field.type) for field in dataclasses.fields(ModelConfig) if get_origin(field.type) is Literal
}


def of_layers(config: ModelConfig, layers: Sequence[int]) -> ModelConfig:
    """Return the config of a model of these layers alone, in this order. Raises ValueError for no layers."""
    named = {name: tuple(n for n, old in enumerate(layers) if old in getattr(config, name)) for name in LAYERS}
    mixer = tuple(config.mixers[layer] for layer in layers)
    shared = sum(config.kv_source(layer) != layer for layer in layers) or None
    return dataclasses.replace(config, n_layer=len(layers), mixer=mixer, n_shared_kv=shared, **named)


def to_dict(config: ModelConfig) -> dict:
    """Return the config as plain values, such that `from_dict(to_dict(c)) == c`."""
    return dataclasses.asdict(config)


def from_dict(values: dict) -> ModelConfig:
    """Return a config from plain values. Raises CheckpointError with the names of unknown or missing keys."""
    fields = {field.name: field for field in dataclasses.fields(ModelConfig)}
    if unknown := sorted(set(values) - set(fields)):
        raise CheckpointError("The model config has unknown keys.", ", ".join(unknown), "Remove them.")
    required = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    if missing := sorted(required - set(values)):
        raise CheckpointError("The model config lacks keys.", ", ".join(missing), "Add them.")
    scaling = values.get("rope_scaling")
    try:
        if isinstance(scaling, dict):
            lists = {name: tuple(value) if isinstance(value, list) else value for name, value in scaling.items()}
            scaling = RopeScaling(**lists)
        return ModelConfig(**{**values, "rope_scaling": scaling})
    except (TypeError, ValueError) as error:
        raise CheckpointError("The model config is invalid.", str(error), "Correct the config.") from error
