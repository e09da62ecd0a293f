"""Target metrics: the number of a run whose change is measured when a part of the run is replaced."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.arguments import check_position, check_token, shown
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.mixers.needs import need_next
from model.public import public
from model.tracing.trace import Trace

_LOGIT_BYTES = 256 << 20  # maximum bytes of logits in memory at once while all positions are scored


@dataclass(frozen=True)
class Target:
    """The target metric. The fields that each kind uses are listed in TARGETS; the others remain None."""

    kind: Literal["logit", "difference", "probability", "kl", "loss"]  # a key of TARGETS
    position: int = -1  # position whose next-token prediction is used; negative counts from the end
    token: int | None = None
    distractor: int | None = None


@dataclass(frozen=True, eq=False)
class Aim:
    """A validated target, together with the trace in which it is measured."""

    trace: Trace
    target: Target
    position: int  # nonnegative
    ids: Tensor  # [T]
    reference: Tensor  # logits of the reference run at the position, [V] float64
    reach: int  # number of tokens that can affect the metric, those up to the position


@dataclass(frozen=True)
class TargetKind:
    """A kind of target: `function` maps outputs of the last block [B, reach, D] to metrics [B] in float64."""

    label: str
    doc: str
    unit: str
    needs: tuple[str, ...]  # required fields of Target
    function: Callable[[Tensor, Aim], Tensor]


def _at(x: Tensor, aim: Aim) -> Tensor:
    """Compute the logits at the target's position. [B, reach, D] -> [B, V] float64"""
    return aim.trace.model.logits(x[:, aim.position, None])[:, 0].double()


def _logit(x: Tensor, aim: Aim) -> Tensor:
    return _at(x, aim)[:, aim.target.token]


def _difference(x: Tensor, aim: Aim) -> Tensor:
    logits = _at(x, aim)
    return logits[:, aim.target.token] - logits[:, aim.target.distractor]


def _probability(x: Tensor, aim: Aim) -> Tensor:
    return _at(x, aim).softmax(-1)[:, aim.target.token]


def _kl(x: Tensor, aim: Aim) -> Tensor:
    before, after = aim.reference.log_softmax(-1), _at(x, aim).log_softmax(-1)
    return (before.exp() * (before - after)).sum(-1).clamp(min=0)  # negative only by rounding


def _loss(x: Tensor, aim: Aim) -> Tensor:
    B, T, D = x.shape
    targets = aim.ids[1:].repeat(B)  # [B (T - 1)]
    rows = max(1, _LOGIT_BYTES // (4 * aim.trace.config.vocab_size))
    parts = zip(x[:, :-1].reshape(-1, D).split(rows), targets.split(rows), strict=True)
    losses = [F.cross_entropy(aim.trace.model.logits(part[None])[0], ids, reduction="none") for part, ids in parts]
    return torch.cat(losses).view(B, T - 1).double().mean(-1)


TARGETS: dict[str, TargetKind] = {
    "logit": TargetKind("Logit", "Logit of a token.", "logits", ("token",), _logit),
    "difference": TargetKind(
        "Logit difference",
        "Logit of a token minus that of another.",
        "logits",
        ("token", "distractor"),
        _difference,
    ),
    "probability": TargetKind("Probability", "Probability of a token.", "share", ("token",), _probability),
    "kl": TargetKind(
        "KL divergence",
        "KL(p before || p after): how far the prediction moved, whichever way.",
        "nats",
        (),
        _kl,
    ),
    "loss": TargetKind("Loss", "Mean loss of predicting each next token of the prompt.", "nats a token", (), _loss),
}


@public()
@torch.inference_mode()
def metric(trace: Trace, target: Target, reference: Trace | None = None) -> float:
    """Compute the target metric in this run. `reference` is the run with which `kl` compares it, by default this run
    itself.

    Raises InputError for a target that does not fit the trace.
    """
    return float(original(aim_of(trace, target, reference or trace)))


def measure(x: Tensor, aim: Aim) -> Tensor:
    """Compute the target metric from outputs of the last block. [B, reach, D] -> [B] float64"""
    return TARGETS[aim.target.kind].function(x, aim)


def original(aim: Aim) -> Tensor:
    """Compute the target metric of the trace itself. [] float64"""
    return measure(aim.trace.residuals[-1][None, : aim.reach], aim)[0]


def aim_of(trace: Trace, target: Target, reference: Trace) -> Aim:
    """Validate a target and resolve it for a trace. Raises InputError if it does not fit."""
    T = len(trace.tokens)
    _check_target(target, trace.config, T)
    position = target.position % T
    ids = torch.from_numpy(np.ascontiguousarray(trace.tokens.ids, dtype=np.int64))
    logits = torch.from_numpy(reference.logits_at(target.position)).double()
    return Aim(
        trace, target, position, ids, logits, T if target.kind == "loss" or trace.config.two_way else position + 1
    )


def _check_target(target: Target, config: ModelConfig, T: int) -> None:
    """Raise InputError unless the kind is known and its position and tokens exist."""
    if not isinstance(target.kind, str) or target.kind not in TARGETS:
        raise InputError("No target has this name.", shown(target.kind), say("Choose one of: {}.", ", ".join(TARGETS)))
    check_position(target.position, T, from_end=True)
    for name in TARGETS[target.kind].needs:
        token = getattr(target, name)
        if token is None:
            raise InputError("The target lacks a token.", name, "Choose one.")
        check_token(token, config.vocab_size)
    if target.kind == "loss":
        need_next(config)
    if target.kind == "loss" and T < 2:
        raise InputError("A single token has no loss.", "", "Enter at least two tokens.")
