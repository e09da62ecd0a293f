"""The next-token distribution of a run at a position, as the input of a pipeline of warps."""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.arguments import check_position
from model.generation.strategies import GeneratedToken, measured
from model.gpt.transformer import Transformer
from model.public import public, whole
from model.sampling.pipeline import Context, Step, usable
from model.sampling.warps import final
from model.tracing.trace import Trace


@public(vocab_size=whole(1))
def logits_after(run: Trace, position: int, vocab_size: int) -> Tensor:
    """Return the run's logits after a position, -inf for vocabulary rows without a token. float32 [V]

    Raises InputError for a position outside the run.
    """
    return usable(torch.from_numpy(run.logits_at(position)), vocab_size)


@public()
def context_at(run: Trace, position: int) -> Context:
    """Return the context for the warps: the prompt up to and including the position, which may be negative."""
    check_position(position, len(run.tokens), from_end=True)
    upto = position % len(run.tokens) + 1
    return Context(tuple(run.tokens.ids[:upto].tolist()), upto)


@torch.inference_mode()
def placed(
    model: Transformer, ids: Sequence[int], prompt: int, steps: tuple[Step, ...], token: int, size: int
) -> GeneratedToken:
    """Run one forward pass over ids [T], and return the statistics of a token that a user appended to them.

    The first `prompt` ids are the prompt, and `size` is the vocabulary size. The token was not drawn, so its `uniform`
    is NaN.
    """
    stream = model.trunk(torch.tensor([list(ids)]))
    logits = usable(model.logits(stream[:, -1:])[0, 0].float(), size)
    return measured(logits, final(logits, steps, Context(tuple(ids), prompt)), token)
