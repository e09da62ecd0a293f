"""Well-known architectures: published configs, their sources and parameter counts."""

import math
from dataclasses import dataclass

from model.gpt.config import ModelConfig
from model.gpt.presets import HYBRIDS, LLAMA_STYLE, PRESETS
from model.gpt.rope_scaling import RopeScaling


@dataclass(frozen=True)
class Architecture:
    """A published model's config and its source."""

    label: str
    config: ModelConfig
    source: str
    published: int | None = None  # exact number of parameters, if given by the source or the Hub checkpoint


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


_MISTRAL = {"vocab_size": 32_000, "n_layer": 32, "d_model": 4096, "n_head": 32, "n_kv_head": 8, "d_mlp": 14_336}
_MISTRAL |= {"tie_embeddings": False}
_WITHOUT = {"q_bias": False, "k_bias": False, "v_bias": False}


def _sizes(V: int, n_ctx: int, L: int, D: int, H: int, G: int, M: int) -> dict[str, int]:
    names = "vocab_size", "n_ctx", "n_layer", "d_model", "n_head", "n_kv_head", "d_mlp"
    return dict(zip(names, (V, n_ctx, L, D, H, G, M), strict=True))


def _gemma(n_layer: int, d_model: int, n_head: int, n_kv_head: int, d_mlp: int, **more) -> ModelConfig:
    sizes = {"n_layer": n_layer, "d_model": d_model, "n_head": n_head, "n_kv_head": n_kv_head, "d_mlp": d_mlp}
    rules = {"norm_eps": 1e-6, "norm_placement": "sandwich", "mlp": "geglu_tanh", "embed_scale": True, "d_head": 256}
    return _llama(**{"vocab_size": 256_000, "n_ctx": 8192} | sizes | rules | more)


def _gemma2(n_layer: int, d_model: int, n_head: int, n_kv_head: int, d_mlp: int) -> ModelConfig:
    mixer = ("sliding_window", "softmax") * (n_layer // 2)
    caps = {"score_cap": 50.0, "logit_cap": 30.0}
    return _gemma(n_layer, d_model, n_head, n_kv_head, d_mlp, mixer=mixer, window=4096, **caps)


def _neo(n_layer: int, d_model: int, n_head: int) -> ModelConfig:
    return ModelConfig(
        vocab_size=50_257,
        n_ctx=2048,
        n_layer=n_layer,
        d_model=d_model,
        n_head=n_head,
        score_multiplier=1.0,
        mixer=("softmax", "sliding_window") * (n_layer // 2),
        window=256,
        **_WITHOUT,
    )


_BROWN = "Brown et al. 2020, table 2.1; all layers dense here, where every other one of the original is sparse"
_NAMES = "that the API model is of this size: Gao 2021, from its scores"
_SIXTEEN = "the table's 24 heads of 128 do not make 2048 dimensions, 16 do"
_HUB = "config.json on the Hugging Face Hub"
_RADFORD = "Radford et al. 2019, table 2; config.json on the Hugging Face Hub"
_BIDERMAN = "Biderman et al. 2023; model cards (EleutherAI); config.json on the Hugging Face Hub"
_GEMMA2 = "Gemma team 2024, Gemma 2, table 1; config.json on the Hugging Face Hub"
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
    "mistral-7b": Architecture(
        "Mistral 7B",
        _llama(n_ctx=32_768, mixer="sliding_window", window=4096, **_MISTRAL),
        f"Jiang et al. 2023; {_HUB}",
        7_241_732_096,
    ),
    "mixtral-8x7b": Architecture(
        "Mixtral 8x7B",
        _llama(n_ctx=32_768, rope_theta=1_000_000.0, n_expert=8, experts_per_token=2, **_MISTRAL),
        f"Jiang et al. 2024; {_HUB}",
        46_702_792_704,
    ),
    "gemma-2b": Architecture(
        "Gemma 2B",
        _gemma(18, 2048, 8, 1, 16_384, norm_placement="pre"),
        f"Gemma team 2024, table 1; {_HUB}",
        2_506_172_416,
    ),
    "gemma-2-2b": Architecture("Gemma 2 2B", _gemma2(26, 2304, 8, 4, 9216), _GEMMA2, 2_614_341_888),
    "gemma-2-9b": Architecture("Gemma 2 9B", _gemma2(42, 3584, 16, 8, 14_336), _GEMMA2, 9_241_705_984),
    "gemma-3-1b": Architecture(
        "Gemma 3 1B",
        _gemma(
            *(26, 1152, 4, 1, 6912),
            vocab_size=262_144,
            n_ctx=32_768,
            qk_norm=True,
            rope_theta=1_000_000.0,
            rope_theta_local=10_000.0,
            mixer=tuple("softmax" if layer % 6 == 5 else "sliding_window" for layer in range(26)),
            window=512,
        ),
        f"Gemma team 2025, tables 1 and 2; {_HUB}",
        999_885_952,
    ),
    "phi-2": Architecture(
        "Phi-2",
        ModelConfig(
            vocab_size=51_200,
            n_ctx=2048,
            n_layer=32,
            d_model=2560,
            n_head=32,
            positions="rope",
            rotary_fraction=0.4,
            parallel_residual=True,
            shared_norm=True,
            head_bias=True,
            tie_embeddings=False,
        ),
        _HUB,
        2_779_683_840,
    ),
    "phi-3-mini": Architecture(
        "Phi-3 mini",
        _llama(
            **_sizes(32_064, 4096, 32, 3072, 32, 32, 8192),
            mixer="sliding_window",
            window=2047,
            tie_embeddings=False,
        ),
        f"Abdin et al. 2024; {_HUB}",
        3_821_079_552,
    ),
    "olmo-2-7b": Architecture(
        "OLMo 2 7B",
        _llama(
            **_sizes(100_352, 4096, 32, 4096, 32, 32, 11_008),
            norm_eps=1e-6,
            norm_placement="output",
            qk_norm=True,
            qk_norm_over="all",
            rope_theta=500_000.0,
            tie_embeddings=False,
        ),
        f"OLMo team 2025; {_HUB}",
        7_298_617_344,
    ),
    "olmoe-1b-7b": Architecture(
        "OLMoE 1B-7B",
        _llama(
            **_sizes(50_304, 4096, 16, 2048, 16, 16, 1024),
            qk_norm=True,
            qk_norm_over="all",
            n_expert=64,
            experts_per_token=8,
            divide_weights=False,
            tie_embeddings=False,
        ),
        f"Muennighoff et al. 2024; {_HUB}",
        6_919_161_856,
    ),
    "smollm3-3b": Architecture(
        "SmolLM3 3B",
        _llama(
            **_sizes(128_256, 65_536, 36, 2048, 16, 4, 11_008),
            norm_eps=1e-6,
            rope_theta=5_000_000.0,
            unrotated=tuple(range(3, 36, 4)),
        ),
        _HUB,
        3_075_098_624,
    ),
    "qwen3-30b-a3b": Architecture(
        "Qwen3 30B-A3B",
        _llama(
            **_sizes(151_936, 40_960, 48, 2048, 32, 4, 6144),
            d_head=128,
            d_expert=768,
            norm_eps=1e-6,
            qk_norm=True,
            rope_theta=1_000_000.0,
            n_expert=128,
            experts_per_token=8,
            tie_embeddings=False,
        ),
        _HUB,
        30_532_122_624,
    ),
    "gpt-oss-20b": Architecture(
        "gpt-oss 20B",
        _llama(
            **_sizes(201_088, 131_072, 24, 2880, 64, 8, 2880),
            d_head=64,
            rope_theta=150_000.0,
            rope_scaling=RopeScaling(
                kind="yarn",
                factor=32.0,
                original_n_ctx=4096,
                beta_fast=32.0,
                beta_slow=1.0,
                whole_pairs=False,
                amplitude=0.1 * math.log(32) + 1,
            ),
            sinks=True,
            mixer=("sliding_window", "softmax") * 12,
            window=128,
            mlp="swiglu_clamped",
            mlp_bias=True,
            n_expert=32,
            experts_per_token=4,
            router_bias=True,
            q_bias=True,
            k_bias=True,
            v_bias=True,
            o_bias=True,
            tie_embeddings=False,
        ),
        f"Agarwal et al. 2025, table 1; {_HUB}",
        20_914_757_184,
    ),
    "granite-3-8b": Architecture(
        "Granite 3.0 8B",
        _llama(
            **_sizes(49_155, 4096, 40, 4096, 32, 8, 12_800),
            embed_multiplier=12.0,
            residual_multiplier=0.22,
            score_multiplier=1 / 128,
            logit_multiplier=1 / 16,
        ),
        _HUB,
        8_170_848_256,
    ),
    "gpt-j-6b": Architecture(
        "GPT-J 6B",
        ModelConfig(
            vocab_size=50_400,
            n_ctx=2048,
            n_layer=28,
            d_model=4096,
            n_head=16,
            positions="rope",
            rope_pairs="adjacent",
            rotary_fraction=0.25,
            parallel_residual=True,
            shared_norm=True,
            head_bias=True,
            tie_embeddings=False,
            **_WITHOUT | {"o_bias": False},
        ),
        f"Wang & Komatsuzaki 2021; {_HUB}",
        6_050_882_784,
    ),
    "gpt-neo-125m": Architecture("GPT-Neo 125M", _neo(12, 768, 12), _HUB, 125_198_592),
    "gpt-neo-1.3b": Architecture("GPT-Neo 1.3B", _neo(24, 2048, 16), _HUB, 1_315_575_808),
    "tinystories-1m": Architecture("TinyStories 1M", _neo(8, 64, 16), f"Eldan & Li 2023; {_HUB}", 3_745_984),
    "opt-125m": Architecture(
        "OPT 125M",
        ModelConfig(vocab_size=50_272, n_ctx=2048, n_layer=12, d_model=768, n_head=12, mlp="relu"),
        f"Zhang et al. 2022, table 1; {_HUB}; without two rows of the position table that no token uses",
    ),
    "bloom-560m": Architecture(
        "BLOOM 560M",
        ModelConfig(
            vocab_size=250_880,
            n_ctx=2048,
            n_layer=24,
            d_model=1024,
            n_head=16,
            positions="alibi",
            embed_norm=True,
        ),
        f"BigScience 2022, table 3; {_HUB}",
        559_214_592,
    ),
    "mamba-130m": Architecture("Mamba 130M", HYBRIDS["mamba-130m"], f"Gu & Dao 2023; {_HUB}", 129_135_360),
    "mamba2-130m": Architecture("Mamba 2 130M", HYBRIDS["mamba2-130m"], f"Dao & Gu 2024; {_HUB}", 128_989_632),
    "falcon-h1-0.5b": Architecture("Falcon-H1 0.5B", HYBRIDS["falcon-h1-0.5b"], _HUB, 521_411_104),
    "nemotron-h-56b": Architecture("Nemotron-H 56B", HYBRIDS["nemotron-h-56b"], _HUB, 56_324_350_464),
    "lfm2-350m": Architecture("LFM2 350M", HYBRIDS["lfm2-350m"], _HUB, 354_483_968),
    "lfm2-1.2b": Architecture("LFM2 1.2B", HYBRIDS["lfm2-1.2b"], _HUB, 1_170_340_608),
    "qwen3.5-27b": Architecture("Qwen3.5 27B, text part", HYBRIDS["qwen3.5-27b"], _HUB, 26_895_998_464),
    "qwen3-next-80b-a3b": Architecture("Qwen3-Next 80B-A3B", HYBRIDS["qwen3-next-80b-a3b"], _HUB, 79_674_391_296),
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
