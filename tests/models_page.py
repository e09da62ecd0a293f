"""Write the table of families in docs/models.md from the code: `python -m tests.models_page`.

What a family is built of is read from a published config of the tests or, if there is none, from transformers' default.
"""

import json
import re
from collections import Counter

from model.gpt.config import ModelConfig
from model.gpt.mixers.names import STATE_SPACES
from model.loading.families import FAMILIES
from model.loading.families.native import MODEL_TYPE
from model.loading.gguf_models import ARCHITECTURES
from tests.parity.families import CASES
from tests.prose import ROOT

PAGE = ROOT / "docs" / "models.md"
BEGIN, END = "<!-- families: written by python -m tests.models_page -->", "<!-- end of families -->"
PUBLISHED = tuple(
    f"{name}.json"
    for name in ("published_configs", "more_published_configs", "gated_published_configs", "published_shapes")
)
# model_type: published models of the family.
EXAMPLES = {
    "gpt2": "GPT-2 in all sizes, DistilGPT-2",
    "llama": "Llama 2, 3, 3.1 and 3.2, SmolLM2, TinyLlama, CodeLlama",
    "qwen2": "Qwen2, Qwen2.5",
    "qwen3": "Qwen3 (dense models)",
    "gpt_neox": "Pythia, GPT-NeoX-20B, RedPajama 3B",
    "mistral": "Mistral 7B, Mistral Nemo",
    "ministral": "Ministral 8B",
    "mixtral": "Mixtral 8x7B and 8x22B",
    "qwen2_moe": "Qwen1.5-MoE-A2.7B",
    "qwen3_moe": "Qwen3-30B-A3B",
    "gemma": "Gemma 2B and 7B",
    "gemma2": "Gemma 2 2B, 9B and 27B",
    "gemma3_text": "Gemma 3 1B, 270M",
    "phi3": "Phi-3 mini, Phi-3.5 mini, Phi-4",
    "olmo": "OLMo 1B and 7B",
    "olmo2": "OLMo 2 1B, 7B, 13B and 32B",
    "olmo3": "Olmo 3 7B and 32B",
    "olmoe": "OLMoE-1B-7B",
    "smollm3": "SmolLM3-3B",
    "arcee": "AFM-4.5B",
    "helium": "Helium 1 2B",
    "phi": "Phi-1, Phi-1.5, Phi-2",
    "gptj": "GPT-J-6B",
    "gpt_neo": "GPT-Neo 125M to 2.7B, TinyStories",
    "opt": "OPT 125M to 66B",
    "bloom": "BLOOM 560M to 176B",
    "codegen": "CodeGen 350M to 16B",
    "starcoder2": "StarCoder2 3B, 7B and 15B",
    "gpt_bigcode": "StarCoder, SantaCoder",
    "stablelm": "StableLM 3B, StableLM 2 1.6B and 12B",
    "falcon": "Falcon 7B and 40B, Falcon RW 1B and 7B",
    "mpt": "MPT-7B and MPT-30B",
    "cohere": "Aya 23, Command R and R+",
    "cohere2": "Command R7B",
    "openai-gpt": "GPT (2018)",
    "lfm2_moe": "LFM2-8B-A1B",
    "dots1": "dots.llm1",
    "glm4_moe": "GLM-4.5, GLM-4.5-Air, GLM-4.6",
    "ernie4_5_moe": "ERNIE 4.5 21B-A3B and 300B-A47B",
    "granitemoeshared": "Granite 3 MoE with shared experts",
    "cwm": "CWM 32B",
    "iquestcoder": "IQuest-Coder 40B",
    "jais2": "Jais 2 8B and 70B",
    "biogpt": "BioGPT, BioGPT-Large",
    "nanochat": "nanochat",
    "gpt_oss": "gpt-oss-20b and -120b, in bfloat16",
    "granite": "Granite 3",
    "granitemoe": "Granite 3 MoE",
    "glm": "GLM-4 9B",
    "glm4": "GLM-4-0414",
    "seed_oss": "Seed-OSS-36B",
    "ernie4_5": "ERNIE 4.5 0.3B",
    "exaone4": "EXAONE 4.0 1.2B and 32B",
    "internlm3": "InternLM3-8B",
    "nemotron": "Minitron 4B and 8B",
    "internlm": "InternLM 7B",
    "internlm2": "InternLM2 and 2.5",
    "minicpm": "MiniCPM 1B and 2B",
    "orion": "Orion-14B",
    "xverse": "XVERSE-7B",
    "exaone": "EXAONE 3.0 and 3.5",
    "baichuan": "Baichuan and Baichuan 2, 7B and 13B",
    "chatglm": "ChatGLM2-6B, ChatGLM3-6B, GLM-4 9B as first published",
    "qwen": "Qwen 1.8B to 72B, the first generation",
    "xlm-roberta": "XLM-RoBERTa base and large",
    "camembert": "CamemBERT",
    "bert": "BERT base and large",
    "roberta": "RoBERTa base and large",
    "distilbert": "DistilBERT",
    "modernbert": "ModernBERT base and large",
    "mamba": "Mamba 130M to 2.8B",
    "mamba2": "Mamba-Codestral 7B, Mamba 2 in the format of transformers",
    "nemotron_h": "Nemotron-H 4B to 56B, Nemotron Nano 2, Nemotron 3 Nano",
    "falcon_h1": "Falcon-H1 0.5B to 34B",
    "bamba": "Bamba 9B",
    "granitemoehybrid": "Granite 4.0",
    "vaultgemma": "VaultGemma 1B",
    "qwen3_next": "Qwen3-Next-80B-A3B",
    "qwen3_5_text": "text models of Qwen3.5",
    "qwen3_5_moe_text": "text models of Qwen3.5 with experts",
    "qwen3_5": "Qwen3.5-0.8B to 27B, text part",
    "qwen3_5_moe": "Qwen3.5-35B-A3B, text part",
    "lfm2": "LFM2 350M, 700M, 1.2B and 2.6B",
    "gemma3": "Gemma 3 4B, 12B and 27B, text part",
    "gemma4_text": "text models of Gemma 4 E2B, E4B, 26B-A4B and 31B",
    "gemma4": "Gemma 4 E2B, E4B, 26B-A4B and 31B, text part",
    "apertus": "Apertus 8B and 70B",
    "phimoe": "Phi-3.5-MoE, Phi-mini-MoE",
    "mistral3": "Mistral Small 3.1 and 3.2, Ministral 3, text part",
    "ministral3": "Ministral 3 3B, 8B and 14B, text part, up to 16,384 tokens",
}
# model_type: general.architecture of its GGUF files, where they differ; None: llama.cpp has none.
GGUF = {
    "gpt_neox": "gptneox",
    "mistral": "llama",
    "ministral": None,
    "mixtral": "llama",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
    "gemma3_text": "gemma3",
    "olmo3": "olmo2",
    "glm": "chatglm",
    "phi": "phi2",
    "gpt_bigcode": "starcoder",
    "gpt_oss": "gpt-oss",
    "cohere": "command-r",
    "lfm2_moe": "lfm2moe",
    "glm4_moe": "glm4moe",
    "ernie4_5_moe": "ernie4_5-moe",
    "granitemoeshared": "granitemoe",
    "cwm": None,
    "iquestcoder": None,
    "biogpt": None,
    "granitemoe": "granitemoe",
    "modernbert": "modern-bert",
    "falcon_h1": "falcon-h1",
    "granitemoehybrid": "granitehybrid",
    "bamba": None,
    "qwen3_next": "qwen3next",
    **dict.fromkeys(("qwen3_5", "qwen3_5_text"), "qwen35"),
    **dict.fromkeys(("qwen3_5_moe", "qwen3_5_moe_text"), "qwen35moe"),
    "gemma3": "gemma3",
    "gemma4_text": "gemma4",
    "ministral3": "mistral3",
    "vaultgemma": None,
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "distilbert"), "bert"),
    **dict.fromkeys(("codegen", "gpt_neo", "opt", "openai-gpt", "nanochat", "helium", "internlm3")),
}
MLPS = {
    "relu": "ReLU",
    "gelu": "GELU",
    "gelu_tanh": "GELU (tanh)",
    "swiglu": "SwiGLU",
    "relu2": "squared ReLU",
    "silu": "SiLU",
    "geglu": "gated GELU",
    "geglu_tanh": "gated GELU (tanh)",
    "swiglu_clamped": "clamped SwiGLU",
    "xielu": "xIELU",
    "none": "no MLP",
}
SPACES = {"mamba": "Mamba", "mamba2": "Mamba 2"}
PLACEMENTS = {
    "pre": "",
    "post": "after each addition",
    "output": "after each sublayer",
    "sandwich": "before and after each sublayer",
}
POSITIONS = {
    "learned": "learned positions",
    "sinusoidal": "sinusoids",
    "alibi": "ALiBi",
    "none": "no positions",
    "rope": "RoPE",
}


def norms(c: ModelConfig) -> str:
    """Say which norms a model has, and where."""
    said = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}[c.norm]
    said += "" if c.norm_weight else " without gain"
    said += " without bias" if c.norm == "layernorm" and not c.norm_bias and c.norm_weight else ""
    said = " ".join(filter(None, (said, PLACEMENTS[c.norm_placement])))
    also = ["of the embeddings"] if c.embed_norm else []
    over = {"head": "", "each": " with gains of each head", "all": " over all heads"}[c.qk_norm_over]
    also += [f"of q and k{over}"] if c.qk_norm else []
    also += ["of v without gain"] if c.v_norm else []
    return f"{said}, also {' and '.join(also)}" if also else said


def positions(c: ModelConfig) -> str:
    """Say how a model encodes positions."""
    said = f"{POSITIONS[c.positions]}{' in bfloat16' if c.alibi_rounded else ''}"
    if c.positions != "rope":
        return said
    more = [f"on {c.rotary_fraction:.0%} of each head"] if c.rotary_fraction < 1 else []
    more += ["adjacent pairs"] if c.rope_pairs == "adjacent" else []
    more += ["two bases"] if c.rope_theta_local else []
    more += ["not in all layers"] if c.unrotated else []
    more += [c.rope_scaling.kind] if c.rope_scaling else []
    return f"{said} ({', '.join(more)})" if more else said


def built_of(c: ModelConfig) -> str:
    """Say what a model is built of, in short."""
    parts = [norms(c)] if c.mixer in STATE_SPACES else [norms(c), positions(c)]
    several = " among layers of attention" if isinstance(c.mixer, tuple) else " layers"
    parts += [f"{said}{several}" for name, said in SPACES.items() if name in c.mixers]
    parts += ["Mamba 2 beside attention"] if c.ssm_beside else []
    parts += ["gated delta layers"] if "gated_delta" in c.mixers else []
    parts += ["gated convolutions"] if "short_conv" in c.mixers else []
    parts += ["output gates"] if c.output_gate else []
    parts += ["sliding windows"] if "sliding_window" in c.mixers else []
    parts += ["larger heads without a window"] if c.d_head_local else []
    parts += ["keys also as values"] if c.keys_as_values else []
    parts += ["last layers share keys and values"] if c.n_shared_kv else []
    parts += ["a vector of each token for each layer"] if c.d_layer_input else []
    parts += ["two-way attention"] if c.two_way else []
    parts += ["capped scores"] if c.score_cap else []
    parts += ["attention sinks"] if c.sinks else []
    parts += ["clamped q, k, v"] if c.qkv_limit else []
    parts += [f"scores times {c.score_multiplier:g}"] if c.score_multiplier is not None else []
    parts += ["attention and MLP in parallel"] if c.parallel_residual else []
    parts += [MLPS[c.mlp]]
    if c.n_expert > 1:
        mixed = " by SparseMixer" if c.router_scores == "sparsemixer" else ""
        parts.append(f"experts, {c.experts_per_token} of {c.n_expert} per token{mixed}")
    parts += ["a shared expert"] if c.d_shared else []
    several = {c.embed_multiplier, c.residual_multiplier, c.logit_multiplier} != {1.0}
    parts += ["multipliers"] if several else []
    parts += ["capped logits"] if c.logit_cap else []
    return "; ".join(parts)


def example(model_type: str) -> ModelConfig:
    """Return the config of a published model of a family, or of transformers' default model."""
    from transformers import AutoConfig

    for name in PUBLISHED:
        for each in json.loads((ROOT / "tests" / "data" / name).read_text(encoding="utf-8")):
            values = each["config"]
            if values.get("model_type") == model_type and "quantization_config" not in values and "refused" not in each:
                return FAMILIES[model_type].to_config(values)
    values = json.loads(AutoConfig.for_model(model_type).to_json_string(use_diff=False))
    return FAMILIES[model_type].to_config({name: each for name, each in values.items() if not name.startswith("_")})


def gguf(model_type: str) -> str:
    """Return the name of a family's architecture in GGUF files, or why it has no name."""
    name = GGUF.get(model_type, model_type)
    if name is None:
        return "no such files"
    return f"`{name}`" if name in ARCHITECTURES else "not read"


def checked() -> Counter[str]:
    """Count the tiny models of each family that are compared with transformers."""
    from transformers import CONFIG_MAPPING

    kinds = {each.__name__: name for name, each in CONFIG_MAPPING.items()}
    return Counter(kinds[config_class] for _, config_class, _ in CASES.values())


def table() -> str:
    """Return the table of all families, in Markdown."""
    lines = ["| `model_type` | for example | built of | GGUF | compared |", "|---|---|---|---|---|"]
    counted = checked()
    for name in FAMILIES:
        if name != MODEL_TYPE:
            compared = counted[name] or "yes"
            cells = f"`{name}`", EXAMPLES[name], built_of(example(name)), gguf(name), str(compared)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the text of the page with the present table."""
    between = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return between.sub(lambda _: f"{BEGIN}\n\n{table()}\n\n{END}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
