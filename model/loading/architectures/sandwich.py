"""Gemma and architectures with a norm before and after each sublayer."""

from collections.abc import Mapping

from model.loading.architectures.common import AFTER, FUSED_GATE, FUSED_QKV, NAMES, QK_NORM, SWIGLU, Architecture
from model.loading.convert import Layout
from model.loading.families.common import real
from model.loading.gguf_file import GgufFile

# Gemma's gain is 1 + weight; the converter adds the 1.
_GEMMA = {"norm": "rmsnorm", "positions": "rope", "mlp": "geglu_tanh", "embed_scale": True}
_CAPS = ("attn_logit_softcapping", "final_logit_softcapping", "attention.scale")
_WINDOW = ("attention.sliding_window", "attention.sliding_window_pattern")
_LAYERS_OF_27B = {46, 62}  # of Gemma 2 and 3


def _score(fields: Mapping) -> dict:
    """Return the multiplier of q.k; the file does not store that of the models with 27 billion parameters."""
    width = fields["d_model"] / fields["n_head"]
    return {"score_multiplier": width**-0.5} if fields["n_layer"] in _LAYERS_OF_27B else {}


def _gemma2(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the multiplier of scores, and the caps of the published models where a file has none."""
    caps = {"score_cap": 50.0} if "attn_logit_softcapping" not in meta else {}
    caps |= {"logit_cap": 30.0} if "final_logit_softcapping" not in meta else {}
    return caps | _score(fields) if "attention.scale" not in meta else caps


def _gemma3(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the multiplier of scores, and the base of layers with a window."""
    local = {"rope_theta_local": real(meta, "rope.freq_base_swa", 10_000.0)}
    return local | _score(fields) if "attention.scale" not in meta else local


SANDWICH: dict[str, Architecture] = {
    "gemma": Architecture("Gemma", _GEMMA, Layout(NAMES)),
    "gemma2": Architecture(
        "Gemma 2", _GEMMA | {"norm_placement": "sandwich"}, Layout(NAMES | AFTER), (*_CAPS, *_WINDOW), 2, more=_gemma2
    ),
    "gemma3": Architecture(
        "Gemma 3",
        _GEMMA | {"norm_placement": "sandwich", "qk_norm": True},
        Layout(NAMES | AFTER | QK_NORM),
        (*_CAPS, *_WINDOW, "rope.freq_base_swa"),
        6,
        more=_gemma3,
    ),
    # Pairs for rotation are adjacent in the model itself; the gate and the linear branch stay fused.
    "glm4": Architecture(
        "GLM-4",
        SWIGLU | {"norm_placement": "sandwich", "rope_pairs": "adjacent"},
        Layout(NAMES | AFTER | FUSED_QKV | FUSED_GATE),
    ),
}
