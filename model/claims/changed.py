"""The same text in changed forward passes: shuffled, repeated, with heads or layers left out, with keys hidden."""

import functools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from model.claims.bench import Bench, losses
from model.gpt.layers import attention_pattern, attention_scores, fused_attention, mix
from model.gpt.passes import Attend
from model.gpt.transformer import Transformer

RECENT = 10  # tokens that remain visible if only recent ones are


class Changed:
    """Changed passes over one text. Random choices follow from the number of the text, so that they can be repeated."""

    def __init__(self, bench: Bench, number: int, ids: np.ndarray, stream: np.ndarray) -> None:
        self.bench, self.number, self.ids, self.stream = bench, number, ids, stream
        self.random = np.random.default_rng(number)

    def log_probs(self, ids: np.ndarray, attend: Attend | None = None, model: Transformer | None = None) -> np.ndarray:
        """Run ids and return the log-probabilities of the next token at every position. [T, V]"""
        model = model or self.bench.lm.model
        with torch.inference_mode():
            x = model.trunk(torch.from_numpy(np.ascontiguousarray(ids))[None], attend=attend)[0]
        return self.bench.log_probs(x, model)

    @functools.cached_property
    def shuffled(self) -> np.ndarray:
        """The loss at each token but the first if the tokens are in random order. [T - 1]"""
        ids = self.random.permutation(self.ids)
        return losses(self.log_probs(ids), ids)

    @functools.cached_property
    def _repeated_ids(self) -> np.ndarray:
        return np.concatenate([self.ids, self.ids])

    @functools.cached_property
    def repeated(self) -> np.ndarray:
        """The loss at each token but the first if the text is written twice. [2 T - 1]"""
        return losses(self.log_probs(self._repeated_ids), self._repeated_ids)

    @functools.cached_property
    def induction(self) -> np.ndarray:
        """Each head's mean weight, in the second copy of the text, on the token after the same place in the first.
        [L, H]
        """
        T, seen = len(self.ids), []
        query = torch.arange(T, 2 * T - 1)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            pattern = attention_pattern(attention_scores(q, k))
            seen.append(pattern[0][:, query, query - T + 1].mean(-1))
            return mix(pattern, v)

        self.log_probs(self._repeated_ids, attend)
        return torch.stack(seen).numpy()

    def without_heads(self, count: int) -> np.ndarray:
        """Set the outputs of `count` random heads to 0 and return the log-probabilities. [T, V]"""
        L, H = self.bench.config.n_layer, self.bench.config.n_head
        gone = torch.zeros(L * H, dtype=torch.bool)
        gone[torch.from_numpy(np.random.default_rng(self.number).permutation(L * H)[:count])] = True

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return fused_attention(q, k, v).masked_fill(gone.view(L, 1, H, 1, 1)[layer], 0)

        return self.log_probs(self.ids, attend)

    def hiding(self, hidden: Tensor) -> np.ndarray:
        """Hide keys from queries and return the loss at each token but the first. hidden [T, T] bool -> [T - 1]"""

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return mix(attention_pattern(attention_scores(q, k).masked_fill(hidden, -math.inf)), v)

        return losses(self.log_probs(self.ids, attend), self.ids)

    def without_first(self) -> np.ndarray:
        """Return the losses if the tokens of the second half cannot attend to the first token. [T - 1]

        The first half still can, so no other token takes its place. Xiao et al. 2023, "Efficient Streaming Language
        Models with Attention Sinks".
        """
        hidden = torch.zeros(len(self.ids), len(self.ids), dtype=torch.bool)
        hidden[len(self.ids) // 2 :, 0] = True
        return self.hiding(hidden)

    def recent_only(self) -> np.ndarray:
        """Return the losses if each token sees only the last RECENT tokens, itself included. [T - 1]"""
        return self.hiding(torch.ones(len(self.ids), len(self.ids), dtype=torch.bool).tril_(-RECENT))

    def through(self, order: Sequence[int]) -> np.ndarray:
        """Run the layers in this order and return the loss at each token but the first. [T - 1]

        It starts at the stored stream that enters the first layer where the order differs from the model's.
        """
        model = self.bench.lm.model
        start = next((n for n, layer in enumerate(order) if layer != n), len(order))
        with torch.inference_mode():
            x, run = torch.from_numpy(self.stream[start])[None], model.prepare(0, len(self.ids))
            for layer in order[start:]:
                x = model.blocks[layer](x, layer, run)
        return losses(self.bench.log_probs(x[0]), self.ids)

    @functools.cached_property
    def int8(self) -> np.ndarray:
        """The log-probabilities with 8-bit weights. [T, V]"""
        return self.log_probs(self.ids, model=self.bench.int8)

    @functools.cached_property
    def alone(self) -> np.ndarray:
        """The most likely token after each token if it is all that the model sees. [T]"""
        model, ids = self.bench.lm.model, torch.from_numpy(np.ascontiguousarray(self.ids))[:, None]
        with torch.inference_mode():
            return model.logits(model.trunk(ids))[:, 0].argmax(-1).numpy()

    def written(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the greedy continuation of the text's beginning: token ids and their log-probabilities. [60] each"""
        return self.bench.written(self.number)
