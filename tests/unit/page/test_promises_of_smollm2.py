"""What the texts state of the larger model's numbers is so, in both languages: the number is read from the text."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
from gguf import GGUFReader

from model.api import load_model
from model.loading import sources
from tests.unit.page.test_promises import Bundled, Number, copied
from viz.words import words


def price_of_a_copy(b: Bundled) -> float:
    """Bits of a token of the second half over those of a token before it."""
    bits = b.expected.surprisal
    return float(bits[-b.again :].mean() / bits[: -b.again].mean())


def first_over_others(b: Bundled) -> np.ndarray:
    """RMS of the first token over the median of the others', at every layer's end. [L + 1]"""
    rms = b.cat.residuals.double().square().mean(-1).sqrt()
    return (rms[:, 0] / rms[:, 1:].median(1).values).numpy()


def dimension_507(b: Bundled) -> np.ndarray:
    """The first token's dimension 507 over the median size of a layer's numbers, at every layer's end. [L + 1]"""
    sizes = b.cat.residuals.abs().double()
    return (sizes[:, 0, 507] / sizes.flatten(1).median(1).values).numpy()


def neurons_of_the_first_token(b: Bundled) -> list[int]:
    """The two neurons of layer 11 that are most active at the first token."""
    return sorted(np.abs(b.cat.mlp_activations(11)[0]).argsort()[-2:].tolist())


def sizes_of_two_neurons(b: Bundled) -> list[float]:
    """The sizes of neurons 1229 and 1487 of layer 11 at the first token."""
    return [float(abs(b.cat.mlp_activations(11)[0, neuron])) for neuron in (1229, 1487)]


def bits_a_weight(b: Bundled) -> float:
    """Bits of all tensors of the file over the model's parameters."""
    n = sum(int(tensor.n_bytes) for tensor in GGUFReader(sources.smollm2_path()).tensors)
    return 8 * n / sum(p.numel() for p in b.lm.model.parameters())


@dataclass(frozen=True)
class Stated:
    """A number that a text states in both languages; a pattern's first group is the number, where it has one."""

    key: str
    en: str
    zh: str
    number: Number
    value: float | list[float] | None = None  # where the text states it in words
    off: float = 0.0  # share of the number that rounding explains

    def stated(self, language: str) -> float | list[float]:
        """The number in the text of a language; a text that does not hold its pattern fails."""
        found = re.search(getattr(self, language), words(language)[self.key])
        assert found, f"{self.key} ({language}) says something else now: see what it promises"
        numbers = [float(each) for each in found.groups()]
        return numbers if numbers else self.value


LARGER: dict[str, Stated] = {
    "bits a weight": Stated(
        "models.smollm2-135m", r"([\d.]+) bits per weight", r"每个权重占 ([\d.]+) 位", bits_a_weight, off=0.01
    ),
    "a copy": Stated("surprise.howto.try", "about a third", "约为前半部分的三分之一", price_of_a_copy, 1 / 3, 0.15),
    "copied": Stated(
        "guess.howto.try", "SmolLM2’s top token is right for four", "SmolLM2 的首选词元猜中四个", copied, 4
    ),
    "size": Stated(
        "sizes.howto.try",
        r"about (\d+) times larger",
        r"约为其他词元的 (\d+) 倍",
        lambda b: first_over_others(b)[12:14],
        off=0.1,
    ),
    "dimension": Stated(
        "outliers.howto.try",
        "dimension 507 .* about 12,000 times the median at layer 12",
        "第 507 维在第 12 层约为中位数的 12,000 倍",
        lambda b: float(dimension_507(b)[12]),
        12e3,
        0.1,
    ),
    "dimension later": Stated(
        "outliers.howto.try",
        "still 2,000 times at layer 28",
        "第 28 层仍有约 2,000 倍",
        lambda b: float(dimension_507(b)[28]),
        2e3,
        0.2,
    ),
    "active neurons": Stated(
        "neurons.howto.try",
        "massive activations of the first token",
        "第一个词元的巨大激活",
        lambda b: [float(100 <= each < 10_000) for each in sizes_of_two_neurons(b)],
        [1.0, 1.0],
    ),
    "neurons": Stated("neurons.howto.try", r"(\d{4}) and (\d{4})", r"(\d{4}) 和 (\d{4})", neurons_of_the_first_token),
}
ALSO_IN_CHINESE = {"guess.howto.try": ("后半部分有八个词元", "TinyGPT 猜中五个")}


@pytest.fixture(scope="module")
def larger() -> Bundled:
    return Bundled(load_model("smollm2-135m"))


@pytest.mark.long
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", LARGER)
def test_what_a_text_states_of_the_larger_model_is_so(larger: Bundled, name: str, language: str):
    each = LARGER[name]
    wanted, found = np.asarray(each.stated(language)), np.asarray(each.number(larger), float)
    assert (np.abs(found - wanted) <= each.off * wanted).all(), f"{each.key} says {wanted}; it is {found}"


@pytest.mark.parametrize("name", LARGER)
def test_both_languages_state_the_same(name: str):
    assert LARGER[name].stated("en") == LARGER[name].stated("zh")


@pytest.mark.parametrize("key", ALSO_IN_CHINESE)
def test_the_chinese_text_says_what_the_english_one_promises(key: str):
    assert all(said in words("zh")[key] for said in ALSO_IN_CHINESE[key])
