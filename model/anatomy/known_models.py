"""Training of well-known models: parameters and training tokens, from their reports.

Only dense models with a published number of tokens are included; GPT-2 is missing because its report gives no number.
Tokens are counted with repetition: a model may have been trained on the same text more than once.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownModel:
    """A trained model: parameters, training tokens, year, and source of both numbers."""

    name: str
    params: float
    tokens: float
    year: int
    source: str

    @property
    def compute(self) -> float:
        """6 N D: training FLOPs, without those of attention scores and of mixing the values."""
        return 6 * self.params * self.tokens


_LLAMA, _LLAMA2 = "Touvron et al. 2023a, table 2", "Touvron et al. 2023b, table 1 (tokens); checkpoints (parameters)"
_LLAMA3 = "Meta 2024, model card (15T+ tokens)"
_PYTHIA = "Pythia model cards (EleutherAI); tokens: Biderman et al. 2023"
_QWEN = "Qwen team 2024, Qwen2.5 technical report"
KNOWN: tuple[KnownModel, ...] = (
    KnownModel("GPT-3 175B", 175e9, 300e9, 2020, "Brown et al. 2020, table 2.1"),
    KnownModel("Gopher 280B", 280e9, 300e9, 2021, "Rae et al. 2021"),
    KnownModel("MT-NLG 530B", 530e9, 270e9, 2022, "Smith et al. 2022"),
    KnownModel("Chinchilla 70B", 70e9, 1.4e12, 2022, "Hoffmann et al. 2022, table 1"),
    KnownModel("PaLM 540B", 540e9, 780e9, 2022, "Chowdhery et al. 2022"),
    KnownModel("BLOOM 176B", 176e9, 366e9, 2022, "BigScience 2022"),
    KnownModel("LLaMA 7B", 6.7e9, 1.0e12, 2023, _LLAMA),
    KnownModel("LLaMA 13B", 13.0e9, 1.0e12, 2023, _LLAMA),
    KnownModel("LLaMA 65B", 65.2e9, 1.4e12, 2023, _LLAMA),
    KnownModel("Pythia 70M", 70_426_624, 300e9, 2023, _PYTHIA),
    KnownModel("Pythia 410M", 405_334_016, 300e9, 2023, _PYTHIA),
    KnownModel("Pythia 6.9B", 6_857_302_016, 300e9, 2023, _PYTHIA),
    KnownModel("Pythia 12B", 11_846_072_320, 300e9, 2023, _PYTHIA),
    KnownModel("Llama 2 7B", 6_738_415_616, 2.0e12, 2023, _LLAMA2),
    KnownModel("Llama 2 13B", 13_015_864_320, 2.0e12, 2023, _LLAMA2),
    KnownModel("Llama 2 70B", 68_976_648_192, 2.0e12, 2023, _LLAMA2),
    KnownModel("OLMo 7B", 6.9e9, 2.46e12, 2024, "Groeneveld et al. 2024, table 1"),
    KnownModel("Llama 3 8B", 8_030_261_248, 15e12, 2024, _LLAMA3),
    KnownModel("Llama 3 70B", 70.6e9, 15e12, 2024, _LLAMA3),
    KnownModel("Llama 3.1 405B", 405e9, 15.6e12, 2024, "Grattafiori et al. 2024"),
    KnownModel("Qwen2.5 0.5B", 494_032_768, 18e12, 2024, _QWEN),
    KnownModel("Qwen2.5 72B", 72.7e9, 18e12, 2024, _QWEN),
    KnownModel("SmolLM2 135M", 134_515_008, 2e12, 2025, "Allal et al. 2025; model card"),
)
TINYGPT = KnownModel("TinyGPT", 8_546_816, 100.8e6, 2026, "model/weights/tinygpt/README.md")
# Held-out losses in nats per token of its own vocabulary: logarithms of the perplexities in its README.
TINYGPT_LOSSES: dict[str, float] = {"stories": 1.980, "classics": 3.657, "novels": 3.772}
_BY_ID = {"tinygpt": TINYGPT, "smollm2-135m": next(each for each in KNOWN if each.name == "SmolLM2 135M")}


def training_of(model_id: str) -> KnownModel | None:
    """Return the training data of a built-in model; None for others."""
    return _BY_ID.get(model_id)
