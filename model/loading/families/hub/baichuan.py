"""Baichuan 1 and 2: Llama with a fused projection for q, k and v; the 13B models have ALiBi in place of RoPE.

Baichuan 2 divides each row of the output head by its length, which is done when the file is read.
"""

from torch import Tensor
from torch.nn import functional as F

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import Family, check_keys, integer
from model.loading.families.fused import join_qkv, split_qkv

KNOWN = llama.COMMON | {"model_max_length", "_from_model_config"} | neutral_keys.keys_of(neutral_keys.BAICHUAN)
SECOND = 125_696  # vocabulary of Baichuan 2; its config.json does not tell it from Baichuan 1 otherwise
WITH_ROPE = 4096  # width of the 7B models


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Baichuan config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, {})
    length = hf.get("max_position_embeddings") or integer(hf, "model_max_length", 4096)
    fields = llama.swiglu_fields({**hf, "max_position_embeddings": length}) | llama.full(hf)
    alibi = {} if fields["d_model"] == WITH_ROPE else {"positions": "alibi", "rope_scaling": None}
    return make_config(fields | alibi)


def unit_rows(weight: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Divide each row of Baichuan 2's output head by its length. [V, D]"""
    return (F.normalize(weight.float()),) if config.vocab_size == SECOND else (weight,)


NAMES = {
    **{theirs: ours for theirs, ours in llama.NAMES.items() if not any(f".{part}_proj" in theirs for part in "qkv")},
    "layers.{i}.self_attn.W_pack.weight": Into(
        tuple(f"blocks.{{i}}.attn.{part}.weight" for part in "qkv"), split_qkv, join_qkv
    ),
    "lm_head.weight": Into(("unembed.weight",), unit_rows),
}

BAICHUAN = Family("Baichuan", to_config, Layout(NAMES, prefix="model."))
