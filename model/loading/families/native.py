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
    *(f"attn.{part}" for part in ("forget", "beta", "gate", "out_norm")),  # linear, retention, delta
    *(f"attn.{part}" for part in ("in_proj", "conv", "x_proj", "dt_proj")),  # mamba
    "mlp.gate",
    "mlp.up",
    "mlp.down",
    "mlp.router",
    "mlp.experts.gate",
    "mlp.experts.up",
    "mlp.experts.down",
)
NAMES = {f"{name}.weight": f"{name}.weight" for name in ("embed", "pos_embed", "unembed")} | _both("final_norm")
for _part in PARTS:
    NAMES |= _both(f"blocks.{{i}}.{_part}")
NAMES |= {f"blocks.{{i}}.attn.{name}": f"blocks.{{i}}.attn.{name}" for name in ("A_log", "D")}

NATIVE = Family("attention playground", to_config, Layout(NAMES))
