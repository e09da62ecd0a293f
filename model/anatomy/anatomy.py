"""The parameters of a model, computed from its config alone: each weight with its shape; and well-known
architectures.
"""

import dataclasses
import re
from collections import Counter
from dataclasses import dataclass

from model.errors import CheckpointError, InputError
from model.gpt.config import LLAMA_STYLE, PRESETS, ModelConfig, RopeScaling
from model.loading.families import family_of
from model.public import public
from model.strict_json import parse

MOST_TEXT = 50_000  # maximum characters of a pasted config.json
MOST_LAYERS = 1000  # maximum layers of such a config, since each layer is drawn
# Keys that change neither shapes nor operations. Loading rejects them, since they imply other stored weights or code;
# here, nothing is loaded.
BESIDE = frozenset({"quantization_config", "auto_map"})
_FENCE = re.compile(r"\s*```[a-z]*\n(.*?)\n\s*```\s*", re.DOTALL)


@dataclass(frozen=True)
class Weight:
    """One parameter tensor: its name in `Transformer.named_parameters()`, its shape, and its part of the model."""

    name: str
    shape: tuple[int, ...]
    part: str  # a key of PARTS
    layer: int | None = None  # None for a weight outside the blocks

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for n in self.shape:
            size *= n
        return size


# {part of a model with parameters: its component}, in the order of the computation.
PARTS: dict[str, str] = {
    "embed": "embedding",
    "pos_embed": "embedding",
    "norm1": "norms",
    "q": "attention",
    "k": "attention",
    "v": "attention",
    "qk_norm": "norms",
    "mixer": "attention",  # parameters besides q, k, v and o of a mixer without softmax
    "o": "attention",
    "norm2": "norms",
    "router": "mlp",
    "gate": "mlp",
    "up": "mlp",
    "down": "mlp",
    "final_norm": "norms",
    "unembed": "head",
}


@dataclass(frozen=True)
class Architecture:
    """A published model's config and its source."""

    label: str
    config: ModelConfig
    source: str
    published: int | None = None  # exact number of parameters, if given by the source or the Hub checkpoint


def _linear(name: str, part: str, shape: tuple[int, int], bias: bool, layer: int | None) -> list[Weight]:
    weight = Weight(f"{name}.weight", shape, part, layer)
    return [weight, Weight(f"{name}.bias", shape[:1], part, layer)] if bias else [weight]


def _norm(config: ModelConfig, name: str, part: str, layer: int | None) -> list[Weight]:
    gain = Weight(f"{name}.weight", (config.d_model,), part, layer)
    bias = config.norm == "layernorm" and config.norm_bias
    return [gain, Weight(f"{name}.bias", (config.d_model,), part, layer)] if bias else [gain]


def _mixer(config: ModelConfig, layer: int) -> list[Weight]:
    """Return the weights of a layer's mixer: softmax attention or another mixer of model.gpt.mixers."""
    c, at, kind = config, f"blocks.{layer}.attn", config.mixer_of(layer)
    if kind == "mamba":
        return _mamba(c, at, layer)
    q, kv = c.n_head * c.d_head, c.n_kv_head * c.d_head
    tensors = []
    for name, width, bias in (("q", q, c.q_bias), ("k", kv, c.k_bias), ("v", kv, c.v_bias)):
        tensors += _linear(f"{at}.{name}", name, (width, c.d_model), bias, layer)
    tensors += _linear(f"{at}.o", "o", (c.d_model, q), c.o_bias, layer)
    if c.qk_norm:
        tensors += [Weight(f"{at}.{name}_norm.weight", (c.d_head,), "qk_norm", layer) for name in "qk"]
    if c.is_attention(layer):
        return tensors
    if kind == "linear":
        tensors += _linear(f"{at}.forget", "mixer", (c.n_head, c.d_model), True, layer)
    if kind == "delta":
        tensors += _linear(f"{at}.beta", "mixer", (c.n_head, c.d_model), False, layer)
    else:
        tensors += _linear(f"{at}.gate", "mixer", (q, c.d_model), False, layer)
    return [*tensors, Weight(f"{at}.out_norm.weight", (c.d_head,), "mixer", layer)]


def _mamba(config: ModelConfig, at: str, layer: int) -> list[Weight]:
    c, channels = config, config.d_inner
    sizes = {"A_log": (channels, c.d_state), "D": (channels,)}
    tensors = [Weight(f"{at}.{name}", shape, "mixer", layer) for name, shape in sizes.items()]
    tensors += _linear(f"{at}.in_proj", "mixer", (2 * channels, c.d_model), False, layer)
    tensors += _linear(f"{at}.conv", "mixer", (channels, c.d_conv), True, layer)
    tensors += _linear(f"{at}.x_proj", "mixer", (c.dt_rank + 2 * c.d_state, channels), False, layer)
    tensors += _linear(f"{at}.dt_proj", "mixer", (channels, c.dt_rank), True, layer)
    return tensors + _linear(f"{at}.o", "o", (c.d_model, channels), False, layer)


def _block(config: ModelConfig, layer: int) -> list[Weight]:
    c, at = config, f"blocks.{layer}"
    tensors = _norm(c, f"{at}.norm1", "norm1", layer) + _mixer(c, layer)
    tensors += _norm(c, f"{at}.norm2", "norm2", layer)
    if c.n_expert > 1:
        tensors += _linear(f"{at}.mlp.router", "router", (c.n_expert, c.d_model), False, layer)
    for name in ("gate", "up", "down") if c.mlp == "swiglu" else ("up", "down"):
        shape = (c.d_model, c.d_mlp) if name == "down" else (c.d_mlp, c.d_model)
        tensors += (
            _linear(f"{at}.mlp.{name}", name, shape, c.mlp_bias, layer)
            if c.n_expert == 1
            else [
                Weight(f"{at}.mlp.experts.{name}.{kind}", (c.n_expert, *each), name, layer)
                for kind, each in (("weight", shape), ("bias", shape[:1]))
                if kind == "weight" or c.mlp_bias
            ]
        )
    return tensors


@public()
def weights(config: ModelConfig) -> list[Weight]:
    """Return all parameter tensors of a model, from its config alone. A tied unembedding is the embedding and counts
    once.

    Their sizes sum to `sum(p.numel() for p in Transformer(config).parameters())`, and their names and shapes equal
    those of its `named_parameters()`.
    """
    tensors = [Weight("embed.weight", (config.vocab_size, config.d_model), "embed")]
    if config.positions == "learned":
        tensors.append(Weight("pos_embed.weight", (config.n_ctx, config.d_model), "pos_embed"))
    for layer in range(config.n_layer):
        tensors += _block(config, layer)
    if config.final_norm:
        tensors += _norm(config, "final_norm", "final_norm", None)
    if not config.tie_embeddings:
        tensors.append(Weight("unembed.weight", (config.vocab_size, config.d_model), "unembed"))
    return tensors


def kinds_of_weights(config: ModelConfig) -> list[tuple[Weight, int]]:
    """Return the tensors outside the blocks, and those of one block of each kind, each with its number of repeats.

    Blocks with the same mixer are identical, so the cost does not grow with depth.
    """
    outside = weights(dataclasses.replace(config, n_layer=1, mixer=config.mixer_of(0)))
    counts = Counter(config.mixers)
    inside = [(weight, n) for name, n in counts.items() for weight in _block(config, config.mixers.index(name))]
    return [*((weight, 1) for weight in outside if weight.layer is None), *inside]


@public()
def n_params(config: ModelConfig) -> int:
    """Count the parameters of a model without building it; a tied unembedding counts once."""
    return sum(weight.size * n for weight, n in kinds_of_weights(config))


# --- well-known architectures --------------------------------------------------------------------------


def _llama(**sizes) -> ModelConfig:
    return ModelConfig(**LLAMA_STYLE | sizes)


def _pythia(n_layer: int, d_model: int, n_head: int, vocab_size: int = 50304) -> ModelConfig:
    return ModelConfig(
        vocab_size=vocab_size,
        n_ctx=2048,
        n_layer=n_layer,
        d_model=d_model,
        n_head=n_head,
        positions="rope",
        rotary_fraction=0.25,
        parallel_residual=True,
        mlp="gelu",
        tie_embeddings=False,
    )


def _gpt3(n_layer: int, d_model: int, n_head: int) -> ModelConfig:
    return ModelConfig(vocab_size=50257, n_ctx=2048, n_layer=n_layer, d_model=d_model, n_head=n_head)


_BROWN = "Brown et al. 2020, table 2.1; all layers dense here, where every other one of the original is sparse"
_NAMES = "that the API model is of this size: Gao 2021, from its scores"
_SIXTEEN = "the table's 24 heads of 128 do not make 2048 dimensions, 16 do"
_HUB = "config.json on the Hugging Face Hub"
_RADFORD = "Radford et al. 2019, table 2; config.json on the Hugging Face Hub"
_BIDERMAN = "Biderman et al. 2023; model cards (EleutherAI); config.json on the Hugging Face Hub"
ARCHITECTURES: dict[str, Architecture] = {
    "gpt1": Architecture(
        "GPT-1 (117M)",
        ModelConfig(vocab_size=40_478, n_ctx=512, n_layer=12, d_model=768, n_head=12, norm_placement="post"),
        f"Radford et al. 2018, section 4.1; {_HUB}",
        116_534_784,
    ),
    "gpt2": Architecture("GPT-2 (124M)", PRESETS["gpt2"], _RADFORD, 124_439_808),
    "gpt2-medium": Architecture("GPT-2 medium (355M)", PRESETS["gpt2-medium"], _RADFORD, 354_823_168),
    "gpt2-large": Architecture("GPT-2 large (774M)", PRESETS["gpt2-large"], _RADFORD, 774_030_080),
    "gpt2-xl": Architecture("GPT-2 XL (1.5B)", PRESETS["gpt2-xl"], _RADFORD, 1_557_611_200),
    "gpt3-350m": Architecture("GPT-3 Medium, Ada (350M)", _gpt3(24, 1024, 16), f"{_BROWN}; {_NAMES}"),
    "gpt3-1.3b": Architecture("GPT-3 XL, Babbage (1.3B)", _gpt3(24, 2048, 16), f"{_BROWN}; {_SIXTEEN}; {_NAMES}"),
    "gpt3-6.7b": Architecture("GPT-3, Curie (6.7B)", _gpt3(32, 4096, 32), f"{_BROWN}; {_NAMES}"),
    "gpt3-175b": Architecture("GPT-3, Davinci (175B)", _gpt3(96, 12_288, 96), _BROWN),
    "pythia-70m": Architecture("Pythia 70M", _pythia(6, 512, 8), _BIDERMAN, 70_426_624),
    "pythia-160m": Architecture("Pythia 160M", _pythia(12, 768, 12), _BIDERMAN, 162_322_944),
    "pythia-410m": Architecture("Pythia 410M", _pythia(24, 1024, 16), _BIDERMAN, 405_334_016),
    "pythia-6.9b": Architecture("Pythia 6.9B", _pythia(32, 4096, 32, 50432), _BIDERMAN, 6_857_302_016),
    "smollm2-135m": Architecture("SmolLM2 135M", PRESETS["llama"], _HUB, 134_515_008),
    "llama-2-7b": Architecture(
        "Llama 2 7B",
        _llama(vocab_size=32_000, n_ctx=4096, n_layer=32, d_model=4096, n_head=32, d_mlp=11_008, tie_embeddings=False),
        f"Touvron et al. 2023; {_HUB}",
        6_738_415_616,
    ),
    "llama-3.1-8b": Architecture(
        "Llama 3.1 8B",
        _llama(
            vocab_size=128_256,
            n_ctx=131_072,
            n_layer=32,
            d_model=4096,
            n_head=32,
            n_kv_head=8,
            d_mlp=14_336,
            rope_theta=500_000.0,
            rope_scaling=RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=8192),
            tie_embeddings=False,
        ),
        f"Grattafiori et al. 2024, table 3; {_HUB}",
        8_030_261_248,
    ),
    "qwen2.5-0.5b": Architecture(
        "Qwen2.5 0.5B",
        _llama(
            vocab_size=151_936,
            n_ctx=32_768,
            n_layer=24,
            d_model=896,
            n_head=14,
            n_kv_head=2,
            d_mlp=4864,
            norm_eps=1e-6,
            rope_theta=1_000_000.0,
            q_bias=True,
            k_bias=True,
            v_bias=True,
            tie_embeddings=True,
        ),
        _HUB,
        494_032_768,
    ),
    "qwen3-0.6b": Architecture(
        "Qwen3 0.6B",
        _llama(
            vocab_size=151_936,
            n_ctx=40_960,
            n_layer=28,
            d_model=1024,
            n_head=16,
            n_kv_head=8,
            d_head=128,
            d_mlp=3072,
            norm_eps=1e-6,
            qk_norm=True,
            rope_theta=1_000_000.0,
            tie_embeddings=True,
        ),
        _HUB,
        596_049_920,
    ),
    "qwen3-8b": Architecture("Qwen3 8B", PRESETS["qwen3-8b"], _HUB, 8_190_735_360),
    "vanilla-decoder": Architecture(
        "Transformer decoder (2017)",
        PRESETS["vanilla-decoder"],
        "Vaswani et al. 2017, table 3 (base), the decoder without cross-attention",
    ),
    "minigpt": Architecture("Teaching block (post-norm)", PRESETS["minigpt"], "a preset of this project"),
    "shakespeare-char": Architecture(
        "Character model", PRESETS["shakespeare-char"], "sizes of the usual character model on Shakespeare"
    ),
}


@public()
def config_of(text: str) -> ModelConfig:
    """Parse a pasted config.json; no weights are needed.

    A Markdown fence and a byte order mark are allowed, and the keys of BESIDE are ignored. Raises InputError for a
    string that is not a JSON object or too long, UnsupportedModel for an unsupported architecture, CheckpointError for
    an inconsistent or implausible value.
    """
    values = _object_of(text)
    config = family_of(values).to_config({key: value for key, value in values.items() if key not in BESIDE})
    if config.n_layer > MOST_LAYERS:
        got = f"n_layer {config.n_layer}, at most {MOST_LAYERS}"
        raise CheckpointError("The config's sizes are implausible.", got, "Correct the config.")
    return config


def _object_of(text: str) -> dict:
    """Parse a JSON object. Raises InputError for anything else."""
    hint = "Paste the whole config.json of a model, with its outer braces."
    if len(text) > MOST_TEXT:
        raise InputError("The config is too long.", f"{len(text)} characters", hint)
    fenced = _FENCE.fullmatch(text)
    try:
        values = parse((fenced[1] if fenced else text).lstrip("\ufeff"), constants=True)
    except ValueError as error:
        raise InputError("This is not a config.json.", str(error)[:80], hint) from error
    if not isinstance(values, dict):
        raise InputError("This is not a config.json.", type(values).__name__, hint)
    return values
