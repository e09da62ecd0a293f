"""The next-token distribution of a run at a position, as the input of a pipeline of warps."""

import torch
from torch import Tensor

from model.arguments import check_position
from model.generation.strategies import GeneratedToken, measured
from model.gpt.transformer import Transformer
from model.public import public, unchecked, whole
from model.sampling.fits import fit_of
from model.sampling.pipeline import Context, Step, second, softmax, usable
from model.sampling.warps import final
from model.tracing.trace import Trace


@public(vocab_size=whole(1))
def logits_after(run: Trace, position: int, vocab_size: int) -> Tensor:
    """Return the run's logits after a position, -inf for vocabulary rows without a token. float32 [V]

    Raises InputError for a position outside the run.
    """
    return usable(torch.from_numpy(run.logits_at(position)), vocab_size)


@public(chance=unchecked)
def context_at(run: Trace, position: int, chance: float | None = None) -> Context:
    """Return the context for the warps: the prompt up to and including the position, which may be negative.

    `chance`: the second random number; by default that of the first new token with seed 0.
    """
    check_position(position, len(run.tokens), from_end=True)
    upto = position % len(run.tokens) + 1
    return Context(tuple(run.tokens.ids[:upto].tolist()), upto, chance=second(0, 0) if chance is None else chance)


@torch.inference_mode()
def placed(model: Transformer, context: Context, steps: tuple[Step, ...], token: int, size: int) -> GeneratedToken:
    """Run one forward pass over the context's ids [T], and return the statistics of a token that a user appended.

    `size` is the vocabulary size. The token was not drawn, so its `uniform` is NaN.
    """
    stream = model.trunk(torch.tensor([list(context.ids)]))
    logits = usable(model.logits(stream[:, -1:])[0, 0].float(), size)
    fit = fit_of(steps, context, softmax(logits.numpy()))
    return measured(logits, final(logits, steps, context), token, fit=fit)
