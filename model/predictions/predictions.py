"""Next-token predictions at every position of a run: the most likely tokens, and the surprisal of the actual one.

Position t predicts token t + 1. The first token has no context and is not scored.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_token
from model.errors import InputError
from model.gpt.mixers.needs import need_next
from model.public import listed, public, whole
from model.records import Tokens
from model.tracing.ranking import ranks_of, top_ids
from model.tracing.trace import Trace

# maximum size of the float32 logits in memory at once; their several copies should fit into the cache
_LOGIT_BYTES = 16 << 20


@dataclass(frozen=True, eq=False)
class Predictions:
    """Statistics of the next-token distribution at every position of a run.

    Probabilities are those of the softmax over all V rows of W_U, including rows without a token.
    """

    normalizer: np.ndarray  # [T] log of the sum of exp(logits), float64
    entropy: np.ndarray  # [T] -sum p ln p in nats, float64
    ids: np.ndarray  # [T, top] in decreasing order of probability, ties by the smaller id
    logits: np.ndarray  # [T, top] float32
    probabilities: np.ndarray  # [T, top] float64
    # These describe the actual next token: entry t is position t's prediction of token t + 1; the last position has
    # none.
    next_logit: np.ndarray  # [T - 1] float32
    next_log_probability: np.ndarray  # [T - 1] natural logarithm, float64
    rank: np.ndarray  # [T - 1] 1 for the most likely token; ties are broken by the smaller id

    @property
    def surprisal(self) -> np.ndarray:
        """-log2 p of each actual next token, in bits. float64 [T - 1]"""
        return self.next_log_probability / -math.log(2)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in vars(self).values())


@dataclass(frozen=True)
class Summary:
    """The likelihood of a run's own prompt under the model; the first token is not scored."""

    scored: int  # number of scored tokens, which are 1 .. T - 1
    bytes: int  # total length of the scored tokens
    nats: float  # mean -ln p per token: the loss
    perplexity: float  # exp(nats)
    bits: float  # mean surprisal per token, in bits
    bits_per_byte: float  # total surprisal in bits / `bytes`; NaN if `bytes` is 0


@dataclass(frozen=True, eq=False)
class Followed:
    """Logit, probability and rank of one token after every position of a run."""

    logit: np.ndarray  # [T] float32
    probability: np.ndarray  # [T] float64
    rank: np.ndarray  # [T] 1 for the most likely token; ties are broken by the smaller id

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in vars(self).values())


@public(top=whole(1))
@torch.inference_mode()
def predict(run: Trace, top: int = 10) -> Predictions:
    """Compute every position's prediction from the stream that leaves the last block; [T, V] is never in memory at
    once.

    surprisal = -log2 softmax(logits)[next]; entropy = -sum p ln p = normalizer - sum p logit, in nats. The logits are
    those of the run, its edits included, and sums over V are in float64. Raises ValueError if `top` is below 1.
    Source: Shannon 1948, sections 6 and 7; Levy 2008 for surprisal.
    """
    need_next(run.config)
    targets = _ids(run)[1:]  # [T - 1]
    rows = [reduced(logits, targets[start : start + len(logits)], top) for start, logits in _chunks(run)]
    fields = {name: torch.cat([row[name] for row in rows]).numpy() for name in rows[0]}
    log_p = fields["next_logit"].astype(np.float64) - fields["normalizer"][: len(targets)]
    share = np.exp(fields["logits"].astype(np.float64) - fields["normalizer"][:, None])
    return Predictions(probabilities=share, next_log_probability=log_p, **fields)


def reduced(logits: Tensor, targets: Tensor, top: int) -> dict[str, Tensor]:
    """Reduce rows of logits [c, V] to the fields of Predictions. `targets` holds the ids that stand in the text, [c],
    one fewer at its end.
    """
    normalizer, entropy = _spread(logits)
    ids, scored = top_ids(logits, top), logits[: len(targets)]
    return {
        "normalizer": normalizer,
        "entropy": entropy,
        "ids": ids,
        "logits": logits.gather(1, ids),
        "next_logit": scored.gather(1, targets[:, None])[:, 0],
        "rank": ranks_of(scored, targets[:, None])[:, 0].long(),
    }


@public()
def summarize(predictions: Predictions, tokens: Tokens) -> Summary:
    """Compute perplexity, bits per byte and mean surprisal of tokens 1 .. T - 1. Raises InputError for a single token.

    perplexity = exp(mean -ln p) = 2^(mean surprisal). Bits per byte do not depend on the tokenization. Source: Jelinek
    et al. 1977 for perplexity; Graves 2013, section 3.1, for bits per character.
    """
    if len(predictions.entropy) != len(tokens):
        raise ValueError(f"predictions of {len(predictions.entropy)} positions, but {len(tokens)} tokens")
    if len(tokens) < 2:
        raise InputError("A single token has no perplexity.", "", "Enter at least two tokens.")
    nats, size = float(-predictions.next_log_probability.mean()), sum(map(len, tokens.raw[1:]))
    total = float(predictions.surprisal.sum())
    scored = len(tokens) - 1
    perplexity = math.exp(nats) if nats < math.log(sys.float_info.max) else math.inf
    return Summary(scored, size, nats, perplexity, total / scored, total / size if size else math.nan)


@public()
def follow(run: Trace, token: int) -> Followed:
    """Compute the logit, probability and rank of one token id at every position. Raises InputError for an unknown id.

    These are a column of the logits and of their softmax, edits of the run included.
    """
    return follow_all(run, [token])[0]


@public(tokens=listed)
@torch.inference_mode()
def follow_all(run: Trace, tokens: Sequence[int], positions: slice = slice(None)) -> list[Followed]:
    """Compute `follow` for several tokens at little more than the cost of one, at the given positions."""
    need_next(run.config)
    V = run.config.vocab_size
    for token in tokens:
        check_token(token, V)
    if not tokens:
        return []
    parts = []
    for _, logits in _chunks(run, positions):
        own = logits[:, list(tokens)]  # [c, n]
        share = (own.double() - logits.double().logsumexp(1, keepdim=True)).exp()
        parts.append((own, share, ranks_of(logits, torch.tensor(tokens).expand(len(logits), -1)).long()))
    logit, share, rank = (torch.cat(each).numpy() for each in zip(*parts, strict=True))
    return [Followed(logit[:, n].copy(), share[:, n].copy(), rank[:, n].copy()) for n in range(len(tokens))]


# --- rows of logits ---


def _ids(run: Trace) -> Tensor:
    """Return the token ids of the prompt. [T]"""
    return torch.from_numpy(np.ascontiguousarray(run.tokens.ids, dtype=np.int64))


def _chunks(run: Trace, positions: slice = slice(None)) -> Iterator[tuple[int, Tensor]]:
    """Yield (number of earlier positions, logits [c, V] float32) of consecutive positions."""
    rows, start = max(1, _LOGIT_BYTES // (4 * run.config.vocab_size)), 0
    for part in run.residuals[-1][positions].split(rows):
        yield start, run.model.logits(part[None], tap=run.head_tap)[0]
        start += len(part)


def _spread(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Compute log sum exp and entropy (nats) of each row. [c, V] -> [c], [c] float64"""
    x = logits.double()
    most = x.amax(1, keepdim=True)
    x -= most
    weight = x.exp()
    total = weight.sum(1)
    entropy = total.log() - weight.mul_(x).sum(1) / total
    return total.log() + most[:, 0], entropy
