"""What the page's texts promise of numbers is so: each is computed on the bundled model, once for all of them.

A row is the key of a text, words of it, the function that computes the number, and the range that the words allow. A
text that changes loses its words and fails; a model or a computation that changes leaves the range and fails.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from model.activations.norm_swap import Swapped, places_of, swapped
from model.anatomy.known_models import KNOWN
from model.anatomy.scaling import LAWS, planned
from model.api import LanguageModel, load_model
from model.attention.circuits import composition, copying
from model.attention.probes import probe_heads
from model.attention.surveys import random_survey
from model.design.positions import Spectrum, similarity, spectrum, vectors
from model.design.score_scaling import products, rows_of, scaled
from model.generation.cache_costs import cache_bytes
from model.loading import sources
from model.predictions.predictions import Predictions, predict
from model.quantization.formats import FORMATS, stored_bytes
from model.sampling.pipeline import Step
from model.sampling.warps import shape
from model.token_tables.head_tables import ov_table
from model.token_tables.token_table import own_rank
from model.tracing.trace import Trace
from viz.page.examples import EXAMPLES
from viz.words import words

CARD = (sources.WEIGHTS / "tinygpt" / "README.md").read_text(encoding="utf-8")
TEXTS = (
    EXAMPLES["tinygpt"]["coreference"],
    "Once upon a time there was a little girl who lived in a house near the woods with her mother",
    EXAMPLES["tinygpt"]["repeated"],
)


@dataclass(frozen=True)
class Bundled:
    """The default model with what several promises need of it."""

    lm: LanguageModel

    @cached_property
    def runs(self) -> list[Trace]:
        return [self.lm.trace(text) for text in TEXTS]

    @property
    def cat(self) -> Trace:
        return self.runs[0]

    @property
    def repeated(self) -> Trace:
        return self.runs[-1]

    @cached_property
    def period(self) -> int:
        """Tokens from a word of the repeated text to its copy."""
        ids = self.repeated.tokens.ids.tolist()
        last = ids[-1]
        return len(ids) - 1 - ids.index(last)

    @property
    def again(self) -> int:
        """Tokens of the repeated text that are there for the second time."""
        return len(self.repeated.tokens) - self.period

    @cached_property
    def expected(self) -> Predictions:
        return predict(self.repeated)

    @cached_property
    def second(self) -> slice:
        """Predictions of the tokens that are there for the second time, but for the first of them."""
        return slice(len(self.expected.rank) - self.again + 1, None)

    @cached_property
    def table(self) -> np.ndarray:
        return vectors(self.lm.model, "learned", range(self.lm.config.n_ctx))

    @cached_property
    def waves(self) -> Spectrum:
        return spectrum(self.table)

    @cached_property
    def probed(self) -> pd.DataFrame:
        """As the model's card says: random ids in halves of 50."""
        return probe_heads(self.lm.model, pool=self.lm.config.vocab_size, length=100)

    @cached_property
    def surveyed(self) -> pd.DataFrame:
        """As the page measures its probe set."""
        return random_survey(self.lm.model, pool=self.lm.tokenizer.vocab_size).mean

    @cached_property
    def normless(self) -> Swapped:
        return swapped(self.cat, "removed", places_of(self.lm.config, "all"))


def by_distance(run: Trace, layer: int, head: int) -> np.ndarray:
    """Mean weight at each distance, the first token left out. [T - 1]"""
    pattern = run.pattern(layer, head)
    return np.array([np.diagonal(pattern, -d)[1:].mean() for d in range(len(pattern) - 1)])


def peaks(b: Bundled) -> list[float]:
    """The distance of most weight of a previous-token head on every text."""
    return [float(by_distance(run, 4, 1).argmax()) for run in b.runs]


def largest(b: Bundled, power: float) -> float:
    """The largest weight of the last row of a previous-token head under q·k / d^power."""
    d = b.lm.config.d_head
    return float(rows_of(scaled(products(b.cat.scores(4, 1), d), d, power)).largest[-1])


def far_apart(b: Bundled, odd: int) -> float:
    """Mean cosine of position vectors at even or odd distances from 32 to 128."""
    return float(similarity(b.table).mean[32 + odd : 128 : 2].mean())


def outgrown(b: Bundled) -> float:
    """The context from which a cache of 32 texts is larger than the weights."""
    return next(n for n in range(1, b.lm.config.n_ctx) if cache_bytes(b.lm.config, 32, n) > b.lm.nbytes)


def read_by_key(b: Bundled) -> list[float]:
    """Ranks, among the heads before it, of the previous-token heads as what the key of 7.3 reads."""
    scores = composition(b.lm.model, 7, 3).reads["k"]
    order = np.argsort(-np.nan_to_num(scores, nan=-1.0), axis=None).tolist()
    return [order.index(np.ravel_multi_index(head, scores.shape)) + 1 for head in ((5, 7), (4, 1), (3, 7))]


def sinks(b: Bundled) -> list[tuple[int, int]]:
    heads = [(layer, head) for layer in range(b.lm.config.n_layer) for head in range(b.lm.config.n_head)]
    return [each for each in heads if b.cat.pattern(*each)[1:, 0].mean() > 0.5]


def sink_value(b: Bundled) -> float:
    """The share of sinks whose first value is shorter than the median of the others."""
    lengths = [np.linalg.norm(b.cat.qkv(*each).v, axis=-1) for each in sinks(b)]
    return float(np.mean([each[0] < np.median(each[1:]) for each in lengths]))


def sink_score(b: Bundled) -> float:
    """The lowest score of a cell of the first column that has more than three quarters of its row."""
    cells = [(b.cat.scores(*each)[1:, 0], b.cat.pattern(*each)[1:, 0]) for each in sinks(b)]
    return float(min(scores[weights > 0.75].min(initial=np.inf) for scores, weights in cells))


def cheaper(b: Bundled) -> float:
    """The share of repeated tokens that cost fewer bits than the first time."""
    bits = b.expected.surprisal
    again = bits[b.second]
    return float(np.mean(again < bits[: len(bits) - b.period][-len(again) :]))


def copied(b: Bundled) -> int:
    """Repeated tokens that are the first choice."""
    return int((b.expected.rank[-b.again :] == 1).sum())


def kept(b: Bundled, *names: str) -> int:
    """Tokens left after these steps on the last position of the first example."""
    settings = {"temperature": 1.5, "p": 0.9}
    steps = tuple(Step(name, ((key, settings[key]),)) for name, key in ((n, "p" if n == "top_p" else n) for n in names))
    return shape(b.cat.logits_at(-1), steps).kept()


def left_at_zero(b: Bundled) -> int:
    return shape(b.cat.logits_at(-1), (Step("temperature", (("temperature", 0.0),)),)).kept()


def hellos(b: Bundled) -> int:
    return len({tuple(b.lm.encode(text).ids.tolist()) for text in ("hello", " hello", "HELLO")})


def bytes_ratio(b: Bundled) -> float:
    """Bytes of a layer's linear maps in int8 per channel over those per tensor."""
    shapes = [p.shape for p in b.lm.model.blocks[0].parameters() if p.ndim == 2]
    channel, tensor = (
        sum(stored_bytes((s[0], s[1]), FORMATS[f"int8-{per}"]) for s in shapes) for per in ("channel", "tensor")
    )
    return channel / tensor


def budgets(_: Bundled) -> list[float]:
    """The computes of Gopher and Chinchilla over the one that the text gives."""
    return [each.compute / 5.76e23 for each in KNOWN if each.name in ("Gopher 280B", "Chinchilla 70B")]


def above_optimum(_: Bundled) -> list[float]:
    """Tokens of Llama 3 8B over the optimal ones for 8e9 parameters, under every law but the oldest."""
    tokens = next(each.tokens for each in KNOWN if each.name == "Llama 3 8B")
    return [tokens / planned(law, "params", 8e9).tokens for law in LAWS if law != "kaplan"]


def own_places(b: Bundled) -> float:
    """Mean place of a token's own logit among all that head 1.4 writes for it, -1 to 1."""
    table, ids = ov_table(b.lm.model, 1, 4), torch.arange(0, b.lm.config.vocab_size, 16)
    return own_rank(table.rows[ids], table.columns, ids)


def grown(b: Bundled) -> float:
    """How much longer the stream becomes from the first layer to the last without norms."""
    lengths = np.median(b.normless.lengths, axis=1)
    return float(lengths[-1] / lengths[0])


def overflows(b: Bundled) -> float:
    return 0.0 if b.normless.overflow is None else 1.0


Number = Callable[[Bundled], float | list[float]]
PROMISES: dict[str, tuple[str, str, Number, float, float]] = {
    "previous-token peak": ("distance.howto.try", "its peak is at distance 1 for any text", peaks, 1, 1),
    "induction peak": (
        "distance.howto.try",
        "at the length of the repeated part minus one",
        lambda b: float(by_distance(b.repeated, 7, 3).argmax()) - (b.period - 1),
        0,
        0,
    ),
    "unscaled": ("score_scaling.howto.try", "from nearly one key", lambda b: largest(b, 0.0), 0.95, 1.0),
    "divided by d": ("score_scaling.howto.try", "to nearly uniform", lambda b: largest(b, 1.0), 0.1, 0.45),
    "even distances": ("position_vectors.howto.try", "even and odd positions", lambda b: far_apart(b, 0), 0.3, 0.7),
    "odd distances": ("position_vectors.howto.try", "even and odd positions", lambda b: far_apart(b, 1), -0.2, 0.2),
    "wave of 2": (
        "position_vectors.howto.try",
        "2 positions, a third of the variance",
        lambda b: float(b.waves.share[-1]),
        0.32,
        0.37,
    ),
    "highest wave": (
        "position_vectors.howto.try",
        "highest peak",
        lambda b: float(b.waves.wavelength[b.waves.share.argmax()]),
        2,
        2,
    ),
    "cache": ("kv_cache.howto.try", "for TinyGPT at about 65 tokens", outgrown, 60, 70),
    "composition": ("heads.howto.caveat", "the key of 7.3 reads 5.7, 4.1 and 3.7", read_by_key, 1, 3),
    "lowers its own": (
        "head_circuits.howto.try",
        "lowers the very token that it reads",
        lambda b: [float(copying(b.lm.model)[1, 4]), own_places(b)],
        -1.0,
        -0.8,
    ),
    "sink's value": ("term_sink.about", "usually small", sink_value, 0.75, 1.0),
    "sink's score": ("cell.howto.try", "need not be large", sink_score, -50, 0),
    "cheaper": ("surprise.howto.try", "Most tokens of the second half cost fewer bits", cheaper, 0.6, 1.0),
    "copied": ("guess.howto.try", "TinyGPT’s for five", copied, 5, 5),
    "of eight": ("guess.howto.try", "its second half has eight tokens", lambda b: b.again, 8, 8),
    "heat below": (
        "distribution.howto.try",
        "fewer tokens stay if top-p comes first",
        lambda b: kept(b, "top_p", "temperature") / kept(b, "temperature", "top_p"),
        0.0,
        0.9,
    ),
    "T = 0": ("draws.howto.try", "one token is left", left_at_zero, 1, 1),
    "hello": ("tokenizers.howto.try", "give other tokens", hellos, 3, 3),
    "int8 bytes": ("formats.howto.try", "nearly the same bytes", bytes_ratio, 1.0, 1.05),
    "budgets": ("scaling_laws.howto.try", "5.76e23 FLOPs, the budget of Gopher", budgets, 0.8, 1.1),
    "above optimum": ("scaling_laws.howto.try", "above its optimum Llama 3 8B lies", above_optimum, 10, 200),
    "without norms": ("norm_swap.howto.body", "grows from layer to layer", grown, 10, float("inf")),
    "no overflow": ("norm_swap.howto.body", "in deep models it overflows", overflows, 0, 0),
}
CARDS: dict[str, tuple[str, Number, float, float]] = {
    "5.7": ("5.7 with 0.99", lambda b: float(b.probed["previous_token"][5, 7]), 0.985, 0.995),
    "7.1": ("7.1 with 0.99", lambda b: float(b.probed["induction"][7, 1]), 0.985, 0.995),
    "7.3": ("7.3 with 0.99", lambda b: float(b.probed["induction"][7, 3]), 0.985, 0.995),
    "shuffled": ("0.024 at most", lambda b: float(b.probed["induction_baseline"].max()), 0.0, 0.0245),
    "probe set": (
        "between 0.82 and 0.99",
        lambda b: [float(b.surveyed["previous_token"][each]) for each in ((4, 1), (5, 7), (3, 7))],
        0.815,
        0.995,
    ),
}


@pytest.fixture(scope="module")
def bundled() -> Bundled:
    return Bundled(load_model("tinygpt"))


@pytest.mark.parametrize("name", PROMISES)
def test_what_a_text_says_is_so(bundled: Bundled, name: str):
    key, said, number, low, high = PROMISES[name]
    assert said in words("en")[key], "the text says something else now: see what it promises"
    found = np.atleast_1d(np.asarray(number(bundled), float))
    assert ((found >= low) & (found <= high)).all(), f"{key} says “{said}”, {low} to {high}; it is {found}"


@pytest.mark.parametrize("name", CARDS)
def test_what_the_models_card_says_is_so(bundled: Bundled, name: str):
    said, number, low, high = CARDS[name]
    assert said in " ".join(CARD.split())
    found = np.atleast_1d(np.asarray(number(bundled), float))
    assert ((found >= low) & (found <= high)).all(), f"the card says “{said}”; it is {found}"


def test_the_shares_of_the_cards_steps_are_whole():
    """Each row is rounded: it adds up to 100, or to what the card warns of."""
    shares = re.findall(r"\| (T \d+, C \d+, F \d+, P \d+, N \d+, R \d+) \|", CARD)
    sums = {sum(map(int, re.findall(r"\d+", row))) for row in shares}
    assert len(shares) > 8 and sums == {100, 101} and "a row may add up to 101" in CARD


def test_every_number_of_a_head_in_a_text_is_promised():
    """A text that names one of TinyGPT's heads has a row here."""
    named = {key for key, text in words("en").items() if key.endswith((".try", ".caveat")) and "TinyGPT" in text}
    assert named <= {key for key, *_ in PROMISES.values()}, sorted(named)


def test_the_card_is_the_models():
    assert Path(sources.WEIGHTS / "tinygpt" / "model.safetensors").exists()
