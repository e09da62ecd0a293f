"""Families that are known by name and not computed, with the part of their forward pass that is missing here."""

from model.errors import Message, say

_TWO_TEXTS = say("Its forward pass needs an encoder and a decoder with cross-attention to it, which are missing here.")
_SOUND = say("Its forward pass needs an encoder of sound, which is missing here.")
_IMAGE = say("It has an encoder of images, which is missing here, and predicts no tokens.")
_IMAGES = say("Its forward pass needs an encoder of images, which is missing here.")
_MLA = say("Its forward pass needs keys and values from one compressed vector per token (MLA), which are missing here.")
_SHOWN_MLA = say(
    "Its forward pass needs keys and values from one compressed vector per token (MLA), which are missing here. "
    "In a notebook, show(model, tokenizer, prompt) runs transformers' own code."
)
_RELATIVE = say("Its forward pass needs scores with terms for the distance of two tokens, which are missing here.")
_SPARSE = say("Its forward pass needs attention in which only a few tokens see all others, which is missing here.")
_RWKV = say("Its forward pass needs the mixer of RWKV, a sum over earlier tokens with a decay, which is missing here.")
_MAMBA_NORMS = say("Its forward pass needs norms inside the Mamba layers, which are missing here.")
_SHARED_ATTENTION = say("Its forward pass needs one attention layer used at several depths, which is missing here.")
_UNEQUAL = say("Its forward pass needs layers with numbers of heads of their own, which are missing here.")
_NARROW = say("Its forward pass needs an embedding narrower than the layers, which is missing here.")

_LATE_NORMS = say(
    "Its forward pass needs norms of q and k after their rotation, which are missing here. "
    "In a notebook, show(model, tokenizer, prompt) runs transformers' own code."
)

# By model_type of a config.json. Those with a notebook in their sentence give attention weights in every layer there.
MISSING: dict[str, Message] = {
    **dict.fromkeys(("t5", "mt5", "umt5", "longt5", "t5gemma", "switch_transformers", "bart", "mbart"), _TWO_TEXTS),
    **dict.fromkeys(("pegasus", "marian", "m2m_100", "nllb-moe", "led", "blenderbot", "prophetnet"), _TWO_TEXTS),
    **dict.fromkeys(("whisper", "speech_to_text", "moonshine", "wav2vec2", "qwen2_audio", "voxtral"), _SOUND),
    **dict.fromkeys(("clip", "siglip", "siglip2", "vit", "dinov2", "beit"), _IMAGE),
    **dict.fromkeys(("llava", "llava_next", "paligemma", "idefics3", "smolvlm", "phi3_v", "internvl"), _IMAGES),
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "llama4", "gemma3n"), _IMAGES),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "minicpm3", "glm4_moe_lite"), _SHOWN_MLA),
    **dict.fromkeys(("deepseek_v32", "glm_moe_dsa", "kimi_k2", "kimi_linear", "longcat_flash", "mistral4"), _MLA),
    **dict.fromkeys(("deberta", "deberta-v2", "mpnet", "xlnet"), _RELATIVE),
    **dict.fromkeys(("longformer", "big_bird"), _SPARSE),
    **dict.fromkeys(("rwkv", "rwkv5", "rwkv6", "rwkv7"), _RWKV),
    **dict.fromkeys(("jamba", "falcon_mamba"), _MAMBA_NORMS),
    **dict.fromkeys(("zamba", "zamba2"), _SHARED_ATTENTION),
    **dict.fromkeys(("nemotron-nas", "openelm"), _UNEQUAL),
    **dict.fromkeys(("albert", "electra"), _NARROW),
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe"), _LATE_NORMS),
    "mllama": say("Its forward pass needs layers of cross-attention to an encoder of images, which are missing here."),
    "xlstm": say("Its forward pass needs the memory cells of xLSTM, which are missing here."),
    "recurrent_gemma": say("Its forward pass needs the gated linear recurrence of Griffin, which is missing here."),
    "minimax": say("Its forward pass needs linear attention with a fixed decay per head, which is missing here."),
    "llama4_text": say(
        "Its forward pass needs attention within chunks, which is missing here. "
        "In a notebook, show(model, tokenizer, prompt) runs transformers' own code."
    ),
    "bitnet": say("Its forward pass needs matrix products with three-valued weights, which are missing here."),
    "diffllama": say(
        "Its forward pass needs the difference of two softmaxes, which is missing here. "
        "In a notebook, show(model, tokenizer, prompt) runs transformers' own code."
    ),
}
_UNKNOWN = say(
    "Its forward pass is not known here; docs/models.md lists those that are. In a notebook, "
    "show(model, tokenizer, prompt) opens decoders of transformers that give attention weights in every layer."
)
# Names of GGUF architectures that differ from model_type.
_GGUF = {
    "t5encoder": "t5",
    "rwkv6qwen2": "rwkv",
    "arwkv7": "rwkv",
    "deepseek2": "deepseek_v3",
    "glm-dsa": "glm_moe_dsa",
    "kimi-linear": "kimi_linear",
    "deci": "nemotron-nas",
    "hunyuan-dense": "hunyuan_v1_dense",
    "hunyuan-moe": "hunyuan_v1_moe",
    "qwen2vl": "qwen2_vl",
    "qwen3vl": "qwen3_vl",
}


def missing(model_type: object) -> Message:
    """Return the hint for an unsupported model_type: the part of its forward pass that is missing here."""
    return MISSING.get(model_type, _UNKNOWN) if isinstance(model_type, str) else _UNKNOWN


def missing_in_gguf(name: object, supported: str) -> Message:
    """Return the hint for an unsupported general.architecture, with the names of those that are."""
    known = _GGUF.get(name, name) if isinstance(name, str) else ""
    return MISSING.get(known) or say("Its forward pass is not known here. Supported: {}.", supported)
