"""The divergence of a changed model's predictions from the original model's, over the tokens of a text."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.gpt.transformer import Transformer

LOGITS = 64 << 20  # maximum size of a text's logits that are stored for reuse, in bytes
_FEW = 64  # number of positions per chunk of logits


@dataclass(frozen=True)
class PredictionDivergence:
    """Divergence of predictions from the float32 model's, over the positions of a text."""

    positions: int
    kl: float  # mean KL(float32 || changed), nats
    agree: float  # fraction of positions with the same most likely token
    loss: float | None  # mean -log p(next token), nats; None for a single-token text
    before: float | None  # the same for the float32 model


@dataclass(frozen=True, eq=False)
class StreamSample:
    """A text and the float32 model's residual streams on it, the starting point for measuring every format."""

    ids: Tensor  # [1, T]
    # [1, T, D] each: the stream entering each block and after the last one, or only the latter
    streams: Sequence[Tensor]
    logits: Tensor | None = None  # [T, V], or None if not stored


@torch.inference_mode()
def sample(model: Transformer, ids: Sequence[int], *, keep: bool = True) -> StreamSample:
    """Run the unchanged model once on a text. If `keep`, the stream before every block is stored, otherwise only the
    last one.
    """
    tokens = torch.tensor([list(ids)])
    model.check(tokens)
    run = model.prepare(0, len(ids))
    x, streams = model.embed_tokens(tokens, 0, run), []
    for layer, block in enumerate(model.blocks):
        streams += [x] if keep else []
        x = block(x, layer, run)
    small = 4 * len(ids) * model.config.vocab_size <= LOGITS
    return StreamSample(tokens, [*streams, x], model.logits(x)[0] if small else None)


@torch.inference_mode()
def read(model: Transformer, text: StreamSample, other: Transformer, streams: Tensor) -> list[PredictionDivergence]:
    """Compare the predictions of `other`, from its last residual streams [N, T, D], with the model's. Returns one
    divergence for each of the N.

    With d = z' - z, the difference of the logits, and m its mean under p = softmax(z):
    KL(p || p') = ln sum p exp(d - m), and log-sum-exp(z') = log-sum-exp(z) + KL + m. No large terms cancel.
    """
    N, T, _ = streams.shape
    kl, agree, loss, before = torch.zeros(N, dtype=torch.float64), torch.zeros(N), torch.zeros(N).double(), 0.0
    for start in range(0, T, _FEW):  # in chunks, because [T, V] may not fit into memory
        part = slice(start, start + _FEW)
        z = model.logits(text.streams[-1][:, part])[0] if text.logits is None else text.logits[part]  # [few, V]
        p, total, likeliest = z.softmax(-1), z.double().logsumexp(-1), z.argmax(-1)
        following = text.ids[0, start + 1 : start + 1 + len(z)]
        rows = torch.arange(len(following))
        before += float((total[rows] - z[rows, following]).sum())
        for n in range(N):
            other_z = other.logits(streams[n : n + 1, part])[0]
            apart, mean = _divergence(p, other_z - z)
            kl[n] += apart.sum()
            agree[n] += (other_z.argmax(-1) == likeliest).sum()
            loss[n] += (total + apart + mean)[rows].sum() - other_z[rows, following].sum()
    divided = T - 1 if T > 1 else 0
    return [
        PredictionDivergence(
            T,
            float(kl[n]) / T,
            float(agree[n]) / T,
            *((float(loss[n]) / divided, before / divided) if divided else (None, None)),
        )
        for n in range(N)
    ]


def _divergence(p: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """Compute KL(p || p') and the mean of d under p, float64 [T]. p and d [T, V], p' is softmax(ln p + d)."""
    mean = (p * d).sum(-1, keepdim=True)
    away = d - mean
    if float(away.max()) > 40:  # exp would exceed the range of float32
        away = away.double()
    apart = torch.log1p((p * torch.expm1(away)).sum(-1).double())
    return apart.clamp(min=0), mean[:, 0].double()
