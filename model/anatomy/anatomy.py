"""The parameters of a model, computed from its config alone: each weight with its shape."""

import re
from collections import Counter
from dataclasses import dataclass

from model.errors import CheckpointError, InputError
from model.gpt.config import ModelConfig
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
    "segment_embed": "embedding",
    "embed_norm": "norms",
    "entry_embed": "embedding",  # a token's vector for each layer
    "entry_proj": "embedding",  # from the embedding to vectors for each layer, with their norm
    "norm1": "norms",
    "q": "attention",
    "k": "attention",
    "v": "attention",
    "qk_norm": "norms",
    "sinks": "attention",
    "gate_o": "attention",  # of the heads' outputs
    "o": "attention",
    # of mixers without a softmax: linear attention, states and convolutions
    "in_proj": "state",
    "conv": "state",
    "rates": "state",  # how fast a state decays, and what is written into it
    "state_gate": "state",  # gate, norm and bypass between state and output projection
    "out_proj": "state",
    "after1": "norms",
    "norm2": "norms",
    "router": "mlp",
    "gate": "mlp",  # in a layer with experts, those of all experts
    "up": "mlp",
    "act": "mlp",  # of an activation with numbers of its own
    "down": "mlp",
    "shared": "mlp",  # the MLP that every token passes beside its experts, and its gate
    "dense": "mlp",  # the MLP of a layer without experts in a model with experts
    "after2": "norms",
    "entry": "mlp",  # from a token's vector for the layer to the stream, with its norm
    "scale": "norms",  # of the stream that leaves the layer
    "final_norm": "norms",
    "head_dense": "head",
    "head_norm": "norms",
    "unembed": "head",
}


def _linear(name: str, part: str, shape: tuple[int, int], bias: bool, layer: int | None) -> list[Weight]:
    weight = Weight(f"{name}.weight", shape, part, layer)
    return [weight, Weight(f"{name}.bias", shape[:1], part, layer)] if bias else [weight]


def _norm(config: ModelConfig, name: str, part: str, layer: int | None, width: int | None = None) -> list[Weight]:
    c, shape = config, (width or config.d_model,)
    found = [Weight(f"{name}.weight", shape, part, layer)] if c.norm_weight else []
    bias = c.norm == "layernorm" and c.norm_bias
    return [*found, Weight(f"{name}.bias", shape, part, layer)] if bias else found


def _mixer(config: ModelConfig, layer: int) -> list[Weight]:
    """Return the weights of a layer's mixer: softmax attention or another mixer of model.gpt.mixers."""
    c, at, kind = config, f"blocks.{layer}.attn", config.mixer_of(layer)
    if kind == "mamba":
        return _mamba(c, at, layer)
    if kind == "mamba2":
        return _mamba2(c, at, layer)
    if kind == "gated_delta":
        return _gated_delta(c, at, layer)
    if kind == "short_conv":
        return _short_conv(c, at, layer)
    own, source = c.at(layer), c.kv_source(layer) == layer
    q, kv, E = c.n_head * own.d_head, own.n_kv_head * own.d_head, own.d_head
    values = source and not (c.keys_as_values and kind == "softmax")
    sinks = c.sinks and c.is_attention(layer)
    tensors = [Weight(f"{at}.sinks", (c.n_head,), "sinks", layer)] if sinks else []
    for name, width, bias in (("q", q, c.q_bias), ("k", kv, c.k_bias), ("v", kv, c.v_bias)):
        if name == "q" or (source if name == "k" else values):
            tensors += _linear(f"{at}.{name}", name, (width, c.d_model), bias, layer)
    tensors += _linear(f"{at}.o", "o", (c.d_model, q), c.o_bias, layer)
    if c.output_gate and c.is_attention(layer):
        tensors += _linear(f"{at}.gate", "gate_o", (q, c.d_model), c.q_bias, layer)
    if c.qk_norm:
        widths = (q, kv) if c.qk_norm_over != "head" and c.is_attention(layer) else (E, E)
        given = {"weight": c.norm_weight, "bias": c.qk_norm_kind == "layernorm_bias"}
        for name, width in zip("qk" if source else "q", widths, strict=False):
            found = (f"{at}.{name}_norm.{kind}" for kind, has in given.items() if has)
            tensors += [Weight(each, (width,), "qk_norm", layer) for each in found]
    if c.is_attention(layer):
        return tensors + (_mamba2(c, f"{at}.beside", layer) if c.ssm_beside else [])
    if kind == "linear":
        tensors += _linear(f"{at}.forget", "rates", (c.n_head, c.d_model), True, layer)
    if kind == "delta":
        tensors += _linear(f"{at}.beta", "rates", (c.n_head, c.d_model), False, layer)
    else:
        tensors += _linear(f"{at}.gate", "state_gate", (q, c.d_model), False, layer)
    gain = [Weight(f"{at}.out_norm.weight", (c.d_head,), "state_gate", layer)] if c.norm_weight else []
    return tensors + gain


def _mamba(config: ModelConfig, at: str, layer: int) -> list[Weight]:
    c, channels = config, config.d_inner
    tensors = [
        Weight(f"{at}.A_log", (channels, c.d_state), "rates", layer),
        Weight(f"{at}.D", (channels,), "state_gate", layer),
    ]
    tensors += _linear(f"{at}.in_proj", "in_proj", (2 * channels, c.d_model), False, layer)
    tensors += _linear(f"{at}.conv", "conv", (channels, c.d_conv), True, layer)
    tensors += _linear(f"{at}.x_proj", "rates", (c.dt_rank + 2 * c.d_state, channels), False, layer)
    tensors += _linear(f"{at}.dt_proj", "rates", (channels, c.dt_rank), True, layer)
    return tensors + _linear(f"{at}.o", "out_proj", (c.d_model, channels), False, layer)


def _mamba2(config: ModelConfig, at: str, layer: int) -> list[Weight]:
    c, mixed = config, config.d_ssm + 2 * config.ssm_groups * config.d_state
    parts = {"dt_bias": "rates", "A_log": "rates", "D": "state_gate"}
    tensors = [Weight(f"{at}.{name}", (c.ssm_heads,), part, layer) for name, part in parts.items()]
    tensors += _linear(f"{at}.in_proj", "in_proj", (c.d_ssm + mixed + c.ssm_heads, c.d_model), c.ssm_bias, layer)
    tensors += _linear(f"{at}.conv", "conv", (mixed, c.d_conv), c.ssm_conv_bias, layer)
    if c.ssm_norm != "none":
        tensors.append(Weight(f"{at}.norm.weight", (c.d_ssm,), "state_gate", layer))
    return tensors + _linear(f"{at}.o", "out_proj", (c.d_model, c.d_ssm), c.ssm_bias, layer)


def _gated_delta(config: ModelConfig, at: str, layer: int) -> list[Weight]:
    c, n, out = config, config.n_delta_head, config.n_delta_head * config.d_delta_value
    tensors = [Weight(f"{at}.{name}", (n,), "rates", layer) for name in ("dt_bias", "A_log")]
    tensors += _linear(f"{at}.qkv", "in_proj", (c.delta_inputs, c.d_model), False, layer)
    tensors += _linear(f"{at}.conv", "conv", (c.delta_inputs, c.d_conv), False, layer)
    for name, part, width in (("beta", "rates", n), ("forget", "rates", n), ("gate", "state_gate", out)):
        tensors += _linear(f"{at}.{name}", part, (width, c.d_model), False, layer)
    tensors += [Weight(f"{at}.out_norm.weight", (c.d_delta_value,), "state_gate", layer)] if c.norm_weight else []
    return tensors + _linear(f"{at}.o", "out_proj", (c.d_model, out), False, layer)


def _short_conv(config: ModelConfig, at: str, layer: int) -> list[Weight]:
    D, bias = config.d_model, config.short_conv_bias
    tensors = _linear(f"{at}.in_proj", "in_proj", (3 * D, D), bias, layer)
    tensors += _linear(f"{at}.conv", "conv", (D, config.d_conv), bias, layer)
    return tensors + _linear(f"{at}.o", "out_proj", (D, D), bias, layer)


def _block(config: ModelConfig, layer: int) -> list[Weight]:
    c, at = config, f"blocks.{layer}"
    reads, after = c.norm_placement != "output", c.norm_placement in ("output", "sandwich")
    tensors = _norm(c, f"{at}.norm1", "norm1", layer) if reads and layer not in c.unnormed else []
    tensors += _mixer(c, layer)
    tensors += _norm(c, f"{at}.after1", "after1", layer) if after else []
    own = reads and not c.shared_norm and c.has_mlp(layer) and not c.expert_norms
    tensors += _norm(c, f"{at}.norm2", "norm2", layer) if own else []
    if c.has_experts(layer):
        tensors += _experts(c, f"{at}.mlp", layer)
    elif c.has_mlp(layer):
        tensors += _mlp(c, f"{at}.mlp", c.at(layer).d_mlp, layer, "dense" if c.n_expert > 1 else "")
    tensors += _norm(c, f"{at}.after2", "after2", layer) if after else []
    if P := c.d_layer_input:
        tensors += _linear(f"{at}.entry.gate", "entry", (P, c.d_model), False, layer)
        tensors += _linear(f"{at}.entry.up", "entry", (c.d_model, P), False, layer)
        tensors += _norm(c, f"{at}.entry.norm", "entry", layer)
    return tensors + ([Weight(f"{at}.scale", (1,), "scale", layer)] if c.layer_scale else [])


def _mlp_shapes(config: ModelConfig, width: int) -> dict[str, tuple[int, int]]:
    """Return the shapes of an MLP's matrices, by name."""
    up, down = (width, config.d_model), (config.d_model, width)
    return {"gate": up, "up": up, "down": down} if config.gated else {"up": up, "down": down}


def _mlp(config: ModelConfig, at: str, width: int, layer: int, part: str = "") -> list[Weight]:
    """Return the weights of a single MLP; without a part, each matrix is a part of its own."""
    own = ("beta", "eps", "alpha_p", "alpha_n") if config.mlp == "xielu" else ()
    tensors = [Weight(f"{at}.act.{name}", (1,), part or "act", layer) for name in own]
    for name, shape in _mlp_shapes(config, width).items():
        tensors += _linear(f"{at}.{name}", part or name, shape, config.mlp_bias, layer)
    return tensors


def _experts(config: ModelConfig, at: str, layer: int) -> list[Weight]:
    """Return the weights of a layer's router, experts, and shared MLP with its gate."""
    c = config
    tensors = [Weight(f"{at}.offset", (c.n_expert,), "router", layer)] if c.router_offset else []
    tensors += [Weight(f"{at}.scales", (c.n_expert,), "router", layer)] if c.expert_scales else []
    gains = ("router_gain", "experts_gain", "shared_gain") if c.expert_norms else ()
    tensors += [Weight(f"{at}.{name}", (c.d_model,), "norm2", layer) for name in gains]
    tensors += _linear(f"{at}.router", "router", (c.n_expert, c.d_model), c.router_bias, layer)
    for name, shape in _mlp_shapes(c, c.d_expert).items():
        tensors.append(Weight(f"{at}.experts.{name}.weight", (c.n_expert, *shape), name, layer))
        if c.expert_bias:
            tensors.append(Weight(f"{at}.experts.{name}.bias", (c.n_expert, shape[0]), name, layer))
    if c.d_shared:
        tensors += _mlp(c, f"{at}.shared", c.d_shared, layer, "shared")
        tensors += [Weight(f"{at}.shared_gate.weight", (1, c.d_model), "shared", layer)] if c.shared_gate else []
    after = ("experts_after.weight", "shared_after.weight") if c.expert_norms else ()
    return tensors + [Weight(f"{at}.{name}", (c.d_model,), "after2", layer) for name in after]


@public()
def weights(config: ModelConfig) -> list[Weight]:
    """Return all parameter tensors of a model, from its config alone. A tied unembedding is the embedding and counts
    once.

    Their sizes sum to `sum(p.numel() for p in Transformer(config).parameters())`, and their names and shapes equal
    those of its `named_parameters()`.
    """
    return _weights(config)


def _weights(config: ModelConfig, *, blocks: bool = True) -> list[Weight]:
    """Return all parameter tensors, or only those outside the blocks."""
    c = config
    tensors = [Weight("embed.weight", (c.vocab_size, c.d_model), "embed")]
    if c.positions == "learned":
        tensors.append(Weight("pos_embed.weight", (c.n_ctx, c.d_model), "pos_embed"))
    if c.n_segment:
        tensors.append(Weight("segment_embed.weight", (c.n_segment, c.d_model), "segment_embed"))
    if c.embed_norm:
        tensors += _norm(c, "embed_norm", "embed_norm", None)
    if c.d_layer_input:
        width = c.n_layer * c.d_layer_input
        tensors.append(Weight("entry_embed.weight", (c.vocab_size, width), "entry_embed"))
        tensors += _linear("entry_proj", "entry_proj", (width, c.d_model), False, None)
        tensors += _norm(c, "entry_norm", "entry_proj", None, c.d_layer_input)
    for layer in range(c.n_layer) if blocks else ():
        tensors += _block(c, layer)
    if c.final_norm:
        tensors += _norm(c, "final_norm", "final_norm", None)
    if c.head_dense:
        tensors += _linear("head_dense", "head_dense", (c.d_model, c.d_model), c.mlp_bias, None)
        tensors += _norm(c, "head_norm", "head_norm", None)
    if not c.tie_embeddings:
        tensors.append(Weight("unembed.weight", (c.vocab_size, c.d_model), "unembed"))
    if c.head_bias:
        tensors.append(Weight("unembed.bias", (c.vocab_size,), "unembed"))
    return tensors


def kinds_of_weights(config: ModelConfig) -> list[tuple[Weight, int]]:
    """Return the tensors outside the blocks, and those of one block of each kind, each with its number of repeats.

    Blocks with the same mixer, norms and MLP are identical, so the cost does not grow with depth.
    """
    c = config
    kinds = [
        (c.mixer_of(n), c.has_mlp(n), c.has_experts(n), n in c.unnormed, c.kv_source(n) == n) for n in range(c.n_layer)
    ]
    inside = [(weight, n) for kind, n in Counter(kinds).items() for weight in _block(c, kinds.index(kind))]
    return [*((weight, 1) for weight in _weights(c, blocks=False)), *inside]


@public()
def n_params(config: ModelConfig) -> int:
    """Count the parameters of a model without building it; a tied unembedding counts once."""
    return sum(weight.size * n for weight, n in kinds_of_weights(config))


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
