"""This project's own checkpoints: config.json has the fields of ModelConfig, and the weights keep their names."""

from model.gpt.config import ModelConfig, from_dict
from model.loading.convert import Layout
from model.loading.families.common import Family

MODEL_TYPE = "attention-playground"


def to_config(values: dict) -> ModelConfig:
    """Return the saved config. Raises CheckpointError for unknown or missing keys."""
    return from_dict({key: value for key, value in values.items() if key != "model_type"})


def _both(name: str) -> dict[str, str]:
    return {f"{name}.{kind}": f"{name}.{kind}" for kind in ("weight", "bias")}


PARTS = (
    "norm1",
    "norm2",
    "attn.q",
    "attn.k",
    "attn.v",
    "attn.o",
    "attn.q_norm",
    "attn.k_norm",
    "after1",
    "after2",
    *(f"attn.{part}" for part in ("forget", "beta", "gate", "out_norm")),  # linear, retention, delta
    *(f"attn.{part}" for part in ("in_proj", "conv", "x_proj", "dt_proj")),  # mamba
    "attn.norm",  # mamba2
    *(f"attn.beside.{part}" for part in ("in_proj", "conv", "norm", "o")),
    "attn.qkv",  # gated_delta
    "mlp.gate",
    "mlp.up",
    "mlp.down",
    "mlp.router",
    *(f"mlp.shared.{part}" for part in ("gate", "up", "down")),
    "mlp.shared_gate",
    "mlp.experts.gate",
    "mlp.experts.up",
    "mlp.experts.down",
    "mlp.experts_after",
    "mlp.shared_after",
    *(f"entry.{part}" for part in ("gate", "up", "norm")),  # of a token's vector for the layer
)
NAMES = {f"{name}.weight": f"{name}.weight" for name in ("embed", "pos_embed", "segment_embed", "entry_embed")}
for _name in ("embed_norm", "entry_proj", "entry_norm", "final_norm", "head_dense", "head_norm", "unembed"):
    NAMES |= _both(_name)
for _part in PARTS:
    NAMES |= _both(f"blocks.{{i}}.{_part}")
_OF_MLPS = ("act.beta", "act.eps", "act.alpha_p", "act.alpha_n", "offset", "scales")
for _name in ("scale", *(f"mlp.{part}" for part in (*_OF_MLPS, "router_gain", "experts_gain", "shared_gain"))):
    NAMES |= {f"blocks.{{i}}.{_name}": f"blocks.{{i}}.{_name}"}
for _name in ("A_log", "D", "dt_bias", "sinks", "beside.A_log", "beside.D", "beside.dt_bias"):
    NAMES |= {f"blocks.{{i}}.attn.{_name}": f"blocks.{{i}}.attn.{_name}"}

NATIVE = Family("attention playground", to_config, Layout(NAMES))
