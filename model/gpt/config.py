"""Every architectural choice of a GPT as a config field, and presets for common combinations.

             MHA                     GQA                    MQA
    k/v   |  |  |  |               |     |                   |
          |  |  |  |             +-+-+ +-+-+           +--+--+--+
    q     |  |  |  |             |   | |   |           |  |  |  |
n_kv_head   4 (= n_head)              2                      1
"""

import dataclasses
import sys
from dataclasses import dataclass
from typing import Literal, get_args

from model.errors import CheckpointError, InputError, say
from model.gpt.mixers.names import ATTENTION, BOUNDED, checked_mixer, dt_rank_of


@dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """Llama 3 frequency scaling: wavelengths above `original_n_ctx / low_freq_factor` are stretched by `factor`."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_n_ctx: int


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of a decoder-only Transformer. The forward pass branches on these fields alone.

    Fields left at None are derived: `n_kv_head = n_head`, `d_head = d_model / n_head`, `d_mlp = 4 d_model`,
    `dt_rank = d_model / 16`, and `final_norm` is true for pre-norm. Layers may differ only in their mixer. Raises
    ValueError for incompatible values.
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
    # norm
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    norm_eps: float = 1e-5
    norm_bias: bool = True  # LayerNorm only; RMSNorm has none
    norm_placement: Literal["pre", "post"] = "pre"  # pre: x + f(N(x)); post: N(x + f(x))
    parallel_residual: bool = False  # x + attn(N1(x)) + mlp(N2(x)), as in GPT-NeoX
    qk_norm: bool = False  # RMSNorm over each head's q and k, as in Qwen3
    final_norm: bool | None = None
    # positions
    positions: Literal["learned", "sinusoidal", "rope", "none"] = "learned"
    rope_theta: float = 10_000.0
    rotary_fraction: float = 1.0  # fraction of the dimensions of a head that is rotated; 0.25 in GPT-NeoX
    rope_scaling: RopeScaling | None = None
    embed_scale: bool = False  # token embedding times sqrt(d_model), as in the original Transformer
    # attention
    q_bias: bool = True
    k_bias: bool = True
    v_bias: bool = True
    o_bias: bool = True
    # mixer: how a token receives information from earlier tokens; one name for all layers, or one per layer
    mixer: str | tuple[str, ...] = "softmax"
    window: int | None = None  # sliding_window: number of tokens visible to a token, itself included
    d_state: int = 16  # mamba: size of the state per channel
    d_conv: int = 4  # mamba: width in tokens of the convolution before the state
    expand: int = 2  # mamba: ratio of the number of channels to d_model
    dt_rank: int | None = None  # mamba: rank of the projection to the step sizes
    # MLP
    mlp: Literal["relu", "gelu", "gelu_tanh", "swiglu"] = "gelu_tanh"
    mlp_bias: bool = True
    # mixture of experts
    n_expert: int = 1  # number of MLPs per layer; 1: a dense MLP without a router
    experts_per_token: int = 1  # number of experts to which a token is routed
    capacity_factor: float | None = (
        None  # in training, maximum number of tokens per expert as a multiple of an even distribution; None: no limit
    )
    # head
    tie_embeddings: bool = True

    def __post_init__(self) -> None:
        _check_types(self)
        derived = {
            "n_kv_head": self.n_head,
            "d_head": self.d_model // max(self.n_head, 1),
            "d_mlp": 4 * self.d_model,
            "final_norm": self.norm_placement == "pre",
            "dt_rank": dt_rank_of(self.d_model),
        }
        if self.d_head is None and self.d_model % max(self.n_head, 1):
            raise ValueError(
                f"d_model {self.d_model} must be a multiple of n_head {self.n_head} unless d_head is given"
            )
        for name, value in derived.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        for name in _SIZES:
            if (getattr(self, name) or 0) > LARGEST:
                raise ValueError(f"{name} must be at most {LARGEST}, got {getattr(self, name)}")
        object.__setattr__(self, "mixer", checked_mixer(self))
        if self.n_head % self.n_kv_head:
            raise ValueError(f"n_head {self.n_head} must be a multiple of n_kv_head {self.n_kv_head}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        if not (0 <= self.rotary_fraction <= 1 and self.rope_theta > 0):
            got = f"{self.rotary_fraction} and {self.rope_theta}"
            raise ValueError(f"rotary_fraction must lie in 0 .. 1 and rope_theta be positive, got {got}")
        if self.positions == "rope" and (self.d_rotary % 2 or self.d_rotary == 0):
            raise ValueError(f"RoPE rotates pairs: d_head x rotary_fraction must be even, got {self.d_rotary}")
        if self.rope_scaling is not None:
            _check_scaling(self.rope_scaling)
        if self.parallel_residual and self.norm_placement == "post":
            raise ValueError("a parallel residual is defined for pre-norm blocks only")
        if self.experts_per_token > self.n_expert:
            raise ValueError(f"experts_per_token {self.experts_per_token} must be at most n_expert {self.n_expert}")
        if self.capacity_factor is not None and not self.capacity_factor > 0:
            raise ValueError(f"capacity_factor must be positive, got {self.capacity_factor}")
        if not self.norm_eps > 0:
            raise ValueError(f"norm_eps must be positive, got {self.norm_eps}")

    @property
    def d_rotary(self) -> int:
        """The number of dimensions of a head that RoPE rotates."""
        return int(self.d_head * self.rotary_fraction)

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

    def is_attention(self, layer: int) -> bool:
        """Return whether the layer has scores and a softmax over them, with full attention or a sliding window."""
        return self.mixer_of(layer) in ATTENTION

    @property
    def stateful(self) -> tuple[int, ...]:
        """The layers whose cache does not grow with the text."""
        return tuple(layer for layer, name in enumerate(self.mixers) if name in BOUNDED)

    @property
    def d_inner(self) -> int:
        """The number of channels of a Mamba layer."""
        return self.expand * self.d_model

    def z_width(self, layer: int) -> int:
        """Return the width of a head's output z in this layer: d_head, or in a Mamba layer the number of channels per
        head.
        """
        return self.d_inner // self.n_head if self.mixer_of(layer) == "mamba" else self.d_head


CHOICES = {
    "norm": ("layernorm", "rmsnorm"),
    "norm_placement": ("pre", "post"),
    "positions": ("learned", "sinusoidal", "rope", "none"),
    "mlp": ("relu", "gelu", "gelu_tanh", "swiglu"),
}


LARGEST = (1 << 31) - 1  # maximum value of any size
_SIZES = (
    *("vocab_size", "n_ctx", "n_layer", "d_model", "n_head", "n_kv_head", "d_head", "d_mlp"),
    *("window", "d_state", "d_conv", "expand", "dt_rank", "n_expert"),
)


def _check_types(config: ModelConfig) -> None:
    """Raise ValueError for a field of the wrong type, since the values may come from a file."""
    for field in dataclasses.fields(config):
        if field.name == "mixer":  # checked by checked_mixer
            continue
        value, kinds = getattr(config, field.name), get_args(field.type) or (field.type,)
        kinds = (str,) if field.name in CHOICES else (*kinds, int) if float in kinds else kinds
        # True is an int in Python, but a boolean in a file is not a number.
        fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        if int in kinds and float not in kinds:
            if not fits or (value is not None and value < 1):
                raise ValueError(f"{field.name} must be a positive whole number, got {value!r}")
        elif not fits:
            names = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
            raise ValueError(f"{field.name} must be {names}, got {value!r}")
        elif float in kinds and value is not None:
            if abs(value) > sys.float_info.max:  # an integer may exceed the float range
                raise ValueError(f"{field.name} must be a finite number, got {value}")
            object.__setattr__(config, field.name, float(value))


def _check_scaling(scaling: RopeScaling) -> None:
    numbers = dataclasses.astuple(scaling)
    if not all(type(number) in (int, float) and 0 < number <= LARGEST for number in numbers):
        raise ValueError(f"rope_scaling must hold positive numbers, got {numbers}")
    if scaling.low_freq_factor >= scaling.high_freq_factor:
        raise ValueError(f"rope_scaling needs low_freq_factor < high_freq_factor, got {numbers}")


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
        return ModelConfig(
            **{**values, "rope_scaling": RopeScaling(**scaling) if isinstance(scaling, dict) else scaling}
        )
    except (TypeError, ValueError) as error:
        raise CheckpointError("The model config is invalid.", str(error), "Correct the config.") from error


def _gpt2(n_layer: int, d_model: int, n_head: int) -> ModelConfig:
    # Radford et al. 2019, table 2; numbers of heads from the configs of the published checkpoints.
    return ModelConfig(vocab_size=50257, n_ctx=1024, n_layer=n_layer, d_model=d_model, n_head=n_head)


LLAMA_STYLE = {
    "norm": "rmsnorm",
    "norm_bias": False,
    "positions": "rope",
    "mlp": "swiglu",
    "mlp_bias": False,
    "q_bias": False,
    "k_bias": False,
    "v_bias": False,
    "o_bias": False,
}

PRESETS: dict[str, ModelConfig] = {
    # The textbook post-norm block: x = LN(x + f(x)), twice; embeddings times sqrt(d).
    "minigpt": ModelConfig(
        vocab_size=8192,
        n_ctx=256,
        n_layer=2,
        d_model=128,
        n_head=4,
        norm_placement="post",
        mlp="relu",
        embed_scale=True,
        tie_embeddings=False,
    ),
    # Decoder of Vaswani et al. 2017 without cross-attention: post-norm, sinusoids, ReLU, embeddings times sqrt(d).
    "vanilla-decoder": ModelConfig(
        vocab_size=37000,
        n_ctx=1024,
        n_layer=6,
        d_model=512,
        n_head=8,
        norm_placement="post",
        positions="sinusoidal",
        mlp="relu",
        embed_scale=True,
        q_bias=False,
        k_bias=False,
        v_bias=False,
        o_bias=False,
    ),
    "gpt2": _gpt2(12, 768, 12),
    "gpt2-medium": _gpt2(24, 1024, 16),
    "gpt2-large": _gpt2(36, 1280, 20),
    "gpt2-xl": _gpt2(48, 1600, 25),
    # nanoGPT's character model: no biases, exact GELU.
    "shakespeare-char": ModelConfig(
        vocab_size=65,
        n_ctx=256,
        n_layer=6,
        d_model=384,
        n_head=6,
        norm_bias=False,
        mlp="gelu",
        mlp_bias=False,
        q_bias=False,
        k_bias=False,
        v_bias=False,
        o_bias=False,
    ),
    # The published config of SmolLM2-135M, the Llama architecture at laptop size.
    "llama": ModelConfig(
        vocab_size=49152,
        n_ctx=8192,
        n_layer=30,
        d_model=576,
        n_head=9,
        n_kv_head=3,
        d_mlp=1536,
        rope_theta=100_000.0,
        tie_embeddings=True,
        **LLAMA_STYLE,
    ),
    # The published config of Qwen3-8B, with an MLP width of 12,288 and an untied output head.
    "qwen3-8b": ModelConfig(
        vocab_size=151_936,
        n_ctx=40_960,
        n_layer=36,
        d_model=4096,
        n_head=32,
        n_kv_head=8,
        d_head=128,
        d_mlp=12_288,
        norm_eps=1e-6,
        qk_norm=True,
        rope_theta=1_000_000.0,
        tie_embeddings=False,
        **LLAMA_STYLE,
    ),
}


def preset(name: str) -> ModelConfig:
    """Return the preset with this name. Raises InputError with the list of names for an unknown name."""
    if name not in PRESETS:
        raise InputError("No preset has this name.", name, say("Choose one of: {}.", ", ".join(PRESETS)))
    return PRESETS[name]
