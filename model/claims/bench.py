"""The data shared by all texts of a test: the model, its 8-bit copy, the token counts, and the texts it writes."""

import functools
from collections import Counter

import numpy as np
import torch
from torch import Tensor

from model.api import LanguageModel
from model.claims.texts import PASSAGES, passages
from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.quantization.experiments import with_format
from model.quantization.formats import FORMATS
from model.records import Tokens

BEGUN, WRITTEN = 16, 60  # tokens of a passage that greedy decoding continues, and tokens that it writes
TOGETHER = 25  # passages that are continued in one batch
LEAST_CONTEXT = BEGUN + WRITTEN  # the least context in which all claims can be tested


class Bench:
    """The shared parts of a test; each is computed on first use."""

    def __init__(self, lm: LanguageModel, numbers: tuple[int, ...] = tuple(range(PASSAGES))) -> None:
        self.lm, self.numbers = lm, numbers  # the passages of the test
        self._variants: dict[int, int | None] = {}
        self._written: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""
        return self.lm.config

    def tokens(self, number: int) -> Tokens:
        """Tokenize a passage, cut to half of the context, so that it can be repeated."""
        tokens = self.lm.encode(passages()[number])
        most = self.config.n_ctx // 2
        return Tokens(tokens.ids[:most], tokens.pieces[:most], tokens.raw[:most], tokens.spans[:most])

    @functools.cached_property
    def counts(self) -> Counter[int]:
        """The number of occurrences of each token in all passages."""
        return Counter(token for n in range(PASSAGES) for token in self.tokens(n).ids.tolist())

    @torch.inference_mode()
    def log_probs(self, x: Tensor, model: Transformer | None = None) -> np.ndarray:
        """Compute the log-probabilities of the next token from the last residual stream. x [T, D] -> [T, V]"""
        return (model or self.lm.model).logits(x[None])[0].log_softmax(-1).numpy()

    @functools.cached_property
    def int8(self) -> Transformer:
        """The model with the matrices of its blocks rounded to 8 bits, one scale per output channel."""
        return with_format(self.lm.model, FORMATS["int8-channel"])

    @functools.cached_property
    def unit_embeddings(self) -> Tensor:
        """The token embeddings, each divided by its norm. [V, D]"""
        return torch.nn.functional.normalize(self.lm.model.embed.weight.detach(), dim=-1)

    def variant(self, token: int) -> int | None:
        """Return the token of the same word with a capital letter more or less, or without a space; None if missing."""
        if token not in self._variants:
            self._variants[token] = self._variant_of(self.lm.tokenizer.piece(token))
        return self._variants[token]

    def _variant_of(self, piece: str) -> int | None:
        bare = piece.strip()
        if not bare.isalpha():
            return None
        space = piece[: len(piece) - len(piece.lstrip())]
        for text in (space + bare[0].swapcase() + bare[1:], bare):
            ids = self.lm.encode(text).ids
            if text != piece and len(ids) == 1 and self.lm.tokenizer.piece(int(ids[0])) == text:
                return int(ids[0])
        return None

    def written(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the greedy continuation of a passage after its first BEGUN tokens, and the log-probability of each
        token. [WRITTEN] each

        The passages of the test are continued in batches.
        """
        if number not in self._written:
            at = self.numbers.index(number) // TOGETHER * TOGETHER
            batch = self.numbers[at : at + TOGETHER]
            ids, log_probs = continue_greedily(
                self.lm.model, torch.stack([torch.from_numpy(self.tokens(n).ids[:BEGUN]) for n in batch])
            )
            self._written |= {n: (ids[row], log_probs[row]) for row, n in enumerate(batch)}
        return self._written[number]


@torch.inference_mode()
def continue_greedily(model: Transformer, ids: Tensor, steps: int = WRITTEN) -> tuple[np.ndarray, np.ndarray]:
    """Append the most likely token `steps` times to each row. ids [B, T] -> ids and log-probabilities, [B, steps]"""
    cache = KVCache.empty(model.config, len(ids), ids.shape[1] + steps)
    made, likely = [], []
    for _ in range(steps):
        log_probs = model.logits(model.trunk(ids, cache=cache)[:, -1:], cached=True).log_softmax(-1)
        value, ids = log_probs[:, 0].max(-1, keepdim=True)
        made.append(ids)
        likely.append(value)
    return torch.cat(made, 1).numpy(), torch.cat(likely, 1).numpy()


def losses(log_probs: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return -log p of each token but the first. log_probs [T, V], ids [T] -> [T - 1], nats"""
    return -log_probs[np.arange(len(ids) - 1), ids[1:]]
