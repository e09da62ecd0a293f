"""Likelihood of texts under a policy and its reference: per-token log-probabilities, entropy and KL divergence.

KL is KL(policy || reference), in nats. It is estimated in two ways, from a token x drawn from the policy with the
log-ratio l = ln p(x) - ln q(x) of the policy p to the reference q, or computed exactly:

k1: l, unbiased and often negative
k3: exp(-l) - 1 + l, unbiased and never negative (Schulman 2020, "Approximating KL Divergence")
exact: the sum of p (ln p - ln q) over the complete vocabulary
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.alignment.reinforcement.rollouts import Rollouts
from model.gpt.transformer import Transformer
from model.sampling.pipeline import usable
from model.training.forward import attend_rows

CHUNK = 16  # maximum texts per forward pass without gradients


@dataclass(frozen=True, eq=False)
class Scored:
    """Statistics of each generated token under policy and reference; 0 at all other positions. Each is
    float32 [N, T].
    """

    log_probs: Tensor  # ln p of the policy
    reference: Tensor  # ln q of the reference
    kl: Tensor  # exact KL of the distribution from which the token was drawn
    entropy: Tensor  # entropy of that distribution, in nats
    values: Tensor  # the value head's estimate of future rewards; 0 without a value head

    @property
    def log_ratios(self) -> Tensor:
        """The log-ratios ln p - ln q. [N, T]"""
        return self.log_probs - self.reference

    def rows(self, index: Tensor) -> "Scored":
        """Select texts by index. index [M]"""
        return Scored(*(part[index] for part in vars(self).values()))


def k1(log_ratios: Tensor) -> Tensor:
    """Return the naive estimate l of KL(policy || reference), for tokens drawn from the policy. Any shape"""
    return log_ratios


def k3(log_ratios: Tensor) -> Tensor:
    """Compute the nonnegative estimate exp(-l) - 1 + l of KL(policy || reference). Schulman 2020. Any shape"""
    return torch.expm1(-log_ratios) + log_ratios


def exact_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Compute KL(p || q), the sum of p (ln p - ln q) over the vocabulary; tokens with p = 0 contribute 0. [..., V] each
    -> [...]
    """
    return (log_p.exp() * (log_p - log_q).masked_fill(log_p == -torch.inf, 0.0)).sum(-1)


def entropy(log_p: Tensor) -> Tensor:
    """Compute the entropy, the sum of -p ln p over the vocabulary, in nats. [..., V] -> [...]"""
    return -(log_p.exp() * log_p.masked_fill(log_p == -torch.inf, 0.0)).sum(-1)


def distributions(model: Transformer, rollouts: Rollouts, size: int) -> tuple[Tensor, Tensor]:
    """Compute ln p over the vocabulary at each position that predicts a generated token [n, V], and the normalized
    final states there [n, D].

    One full forward pass without a cache, with gradients if enabled; only the n positions reach the unembedding.
    """
    stream = model.trunk(rollouts.ids[:, :-1], attend=attend_rows)[rollouts.written]  # [n, D]
    states = model.normed(stream)
    return usable(model.head(states).float(), size).log_softmax(-1), states


def drawn(log_p: Tensor, rollouts: Rollouts) -> Tensor:
    """Return ln p of the generated tokens. [n, V] -> [n]"""
    return log_p.gather(-1, rollouts.ids[:, 1:][rollouts.written][:, None])[:, 0]


def to_rows(flat: Tensor, written: Tensor) -> Tensor:
    """Place the values of the generated tokens at their positions, with 0 elsewhere; differentiable. [n] -> [N, T]"""
    return torch.zeros(written.shape, dtype=flat.dtype).masked_scatter(written, flat)


def log_probs(model: Transformer, rollouts: Rollouts, size: int) -> Tensor:
    """Compute ln p of each generated token in a full forward pass, with gradients if enabled. [N, T]"""
    return to_rows(drawn(distributions(model, rollouts, size)[0], rollouts), rollouts.written)


@torch.no_grad()
def score(
    policy: Transformer, reference: Transformer, rollouts: Rollouts, size: int, head: nn.Module | None = None
) -> Scored:
    """Compute the statistics of the same texts under both models, CHUNK texts at a time. `head` maps states [n, D] to
    values [n, 1].
    """
    parts: list[list[Tensor]] = []
    for index in torch.arange(len(rollouts.ids)).split(CHUNK):
        rows = rollouts.rows(index)
        log_p, states = distributions(policy, rows, size)
        log_q, _ = distributions(reference, rows, size)
        values = head(states)[:, 0] if head is not None else log_p.new_zeros(len(log_p))
        flat = (drawn(log_p, rows), drawn(log_q, rows), exact_kl(log_p, log_q), entropy(log_p), values)
        parts.append([to_rows(each, rows.written) for each in flat])
    return Scored(*(torch.cat(each) for each in zip(*parts, strict=True)))


def perplexity(log_probs: Tensor, written: Tensor) -> float:
    """Compute the perplexity of the generated tokens, exp of their mean surprisal. [N, T] each"""
    mean = -log_probs.sum() / written.sum().clamp(min=1)
    return float(mean.clamp(max=700).double().exp())
