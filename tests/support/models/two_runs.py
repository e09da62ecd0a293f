"""Two prompts run on one tiny model, targets that are watched in them, and how far rounding may take these."""

import torch

from model.attention.effects import Target
from model.gpt.edits import Edit
from model.tracing.trace import Trace, run
from tests.support.models.helpers import VARIANTS, random_ids, tiny_model, tokens_of
from tests.support.models.rounding import logits_within

T = 11
IDS = random_ids(2, T, seed=3, vocab_size=9)
TARGET = {
    "logit": Target("logit", -1, 5),
    "difference": Target("difference", 6, 5, 7),
    "probability": Target("probability", -3, 5),
    "kl": Target("kl", -1),
    "loss": Target("loss", 2),  # of all positions, whichever is named
}
# Edits before, in and after a layer that is swept, at every site.
EDITS = (
    Edit("mean", 0, 1),
    Edit("zero", 1, 2),
    Edit("uniform", 1, 0),
    Edit("block_edge", 2, query=6, key=2),
    Edit("block_edge", query=9, key=4),
    Edit("scale", 2, 3, factor=2.0),
)


def traced(name: str = "gpt2", row: int = 0, edits: tuple[Edit, ...] = ()) -> Trace:
    return run(tiny_model(VARIANTS[name]), tokens_of(IDS[row]), edits=edits)


def pair(name: str = "gpt2", edits: tuple[Edit, ...] = ()) -> tuple[Trace, Trace]:
    """Two prompts that differ in tokens 3 and 5, run on one model."""
    ids = IDS[0].clone()
    ids[[3, 5]] = torch.tensor([20, 21])
    model = tiny_model(VARIANTS[name])
    return run(model, tokens_of(IDS[0]), edits=edits), run(model, tokens_of(ids), edits=edits)


def off(*traces: Trace) -> float:
    """How far the difference of two runs' targets may be from another path's.

    Each is a logit, the difference of two, or what changes by at most twice as much as a logit does: a log-probability,
    a loss, a divergence or, at most by half of that, a probability.
    """
    ids = (torch.from_numpy(trace.tokens.ids)[None] for trace in traces)
    return 4 * max(float(logits_within(each.model, i, each.tap).max()) for each, i in zip(traces, ids, strict=True))


def number(logits: torch.Tensor, target: Target) -> float:
    """The target's number of logits [T, V]."""
    at = logits[target.position].double()
    p = at.softmax(-1)
    kinds = {"logit": at[5], "difference": at[5] - at[7], "probability": p[5]}
    return float(kinds[target.kind])
