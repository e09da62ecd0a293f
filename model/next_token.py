"""What a run says about the token after one of its positions, as a pipeline of warps takes it."""

import torch
from torch import Tensor

from model.sampling import Context, usable
from model.trace import Trace


def logits_after(run: Trace, position: int, vocab_size: int) -> Tensor:
    """The run's logits after a position, -inf for rows that no token of the vocabulary has. float32 [V]

    Raises InputError for a position that the run does not have.
    """
    return usable(torch.from_numpy(run.logits_at(position)), vocab_size)


def context_at(run: Trace, position: int) -> Context:
    """What warps may know there: the prompt up to the position, which may count from the end."""
    upto = position % len(run.tokens) + 1
    return Context(tuple(run.tokens.ids[:upto].tolist()), upto)
