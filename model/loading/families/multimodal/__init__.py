"""The text part of multimodal models, by `model_type`: its config is `text_config`.

Their other parts are left out. Text alone passes through the text model as it does there.
"""

from collections.abc import Mapping
from dataclasses import replace

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Layout
from model.loading.families.common import Family, check_keys, choice
from model.loading.families.gated.qwen3_next import MTP, QWEN3_5, QWEN3_5_MOE
from model.loading.families.gemma import GEMMA3
from model.loading.families.mistral import MINISTRAL3, MISTRAL
from model.loading.families.rmsnorm.gemma4 import GEMMA4

# Published names of the text model's weights, and of those of other parts.
PREFIXES = ("model.language_model.", "language_model.model.", "language_model.", "model.text_model.")
BESIDE = (
    *("model.vision_tower.", "vision_tower.", "model.visual.", "visual.", "model.audio_tower.", "audio_tower."),
    *("model.multi_modal_projector.", "multi_modal_projector.", "model.embed_vision.", "model.embed_audio."),
    *MTP,
)
# Keys beside text_config; they concern the other parts, except for whether the head is tied.
_PARTS = {"vision_config", "audio_config", "text_config", "tie_word_embeddings"}
_PARTS |= {"mm_tokens_per_image", "projector_hidden_act", "multimodal_projector_bias", "spatial_merge_size"}
_PARTS |= {"vision_feature_layer", "vision_soft_tokens_per_image"}
# Defaults of the keys that a published text_config leaves out.
_GEMMA3 = {"vocab_size": 262_208, "num_attention_heads": 8, "max_position_embeddings": 131_072}


def text_of(hf: Mapping, defaults: Mapping, tied: bool) -> dict:
    """Return the config of the text model. Raises CheckpointError for unknown keys beside it."""
    tokens = {key for key in hf if isinstance(key, str) and key.endswith(("_token_id", "_token_index"))}
    check_keys(hf, _PARTS | tokens, {})
    text = hf.get("text_config")
    if not isinstance(text, Mapping):
        raise CheckpointError("The config lacks a key.", "text_config", "Fetch the checkpoint again.")
    values = {"tie_word_embeddings": tied, **defaults, **text}
    outer = hf.get("tie_word_embeddings")  # it counts, if both are given
    return values if outer is None else {**values, "tie_word_embeddings": outer}


def of_text(texts: Mapping[str, Family], tied: bool, defaults: Mapping | None = None) -> Family:
    """Return the family of a model whose text model is one of `texts`, by its model_type; they share a layout. `tied`
    and `defaults` are those of keys that the file leaves out.
    """
    usual, first = next(iter(texts.items()))

    def to_config(hf: dict) -> ModelConfig:
        text = text_of(hf, defaults or {}, tied)
        return choice(text, "model_type", texts, usual).to_config(text)

    def layout_of(hf: dict) -> Layout:
        return part_of(first.layout_for(text_of(hf, defaults or {}, tied)))

    return replace(first, to_config=to_config, layout=part_of(first.layout), to_hf=None, layout_of=layout_of)


def part_of(layout: Layout) -> Layout:
    """Return the layout of a text model's weights among those of other parts."""
    return replace(layout, others=PREFIXES, beside=BESIDE)


_MISTRALS = {"mistral": MISTRAL, "ministral3": MINISTRAL3}


def _ministral3(hf: dict) -> ModelConfig:
    """Read a config.json of the text model alone, or of all parts under the text model's type."""
    return MINISTRAL3.to_config(text_of(hf, {}, False) if "text_config" in hf else hf)


MULTIMODAL: dict[str, Family] = {
    "gemma3": of_text({"gemma3_text": GEMMA3}, True, _GEMMA3),
    "gemma4": of_text({"gemma4_text": GEMMA4}, True),
    "qwen3_5": of_text({"qwen3_5_text": QWEN3_5}, False),
    "qwen3_5_moe": of_text({"qwen3_5_moe_text": QWEN3_5_MOE}, False),
    "mistral3": of_text(_MISTRALS, False),
    "ministral3": replace(MINISTRAL3, to_config=_ministral3, layout=part_of(MINISTRAL3.layout)),
}
