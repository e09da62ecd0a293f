"""Causal effects: the change of a target metric when a head's output, or a vector of the residual
stream, is replaced.
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from model.arguments import check_position, shown
from model.attention.targets import TARGETS as TARGETS
from model.attention.targets import Aim, Target, aim_of, measure, original
from model.attention.targets import metric as metric
from model.errors import InputError, say
from model.gpt.mixers.needs import need_alone
from model.gpt.tap import Tap
from model.progress import Progress, silent
from model.public import public, unchecked, whole
from model.tracing.trace import Trace

_TOKENS = 1024  # tokens per batch: more are hardly faster per token, and progress should be reported often

ABLATIONS = ("zero", "mean")
PATCH_SITES = ("resid_pre", "attn_out", "mlp_out")


@runtime_checkable
class Predicting(Protocol):
    """A run with next-token logits at its positions: a Trace, or a run with changed norms."""

    def logits_at(self, position: int) -> np.ndarray:
        """Return the logits after a position. [V]"""


# --- one replacement at a time ---


@public(how=unchecked)
@torch.inference_mode()
def sweep(trace: Trace, how: Literal["zero", "mean"], target: Target, progress: Progress = silent) -> np.ndarray:
    """Measure the change of the target metric when each head is ablated separately. float32 [L, H]

    `how` is one of ABLATIONS; means are those of the unedited run. For `kl`, the value is KL(p of `trace` || p
    ablated), at least 0, in nats. Edits of `trace` remain active, and the ablation is applied after them: the value is
    metric(trace.edit(Edit(how, l, h)), target, trace) - metric(trace, target, trace).

    `progress(heads done, L H, "Sweeping heads")` may raise an exception to cancel. Raises InputError for an unknown
    ablation or a target that does not fit the trace. Source: Michel et al. 2019, section 3, for zero ablation; means
    are taken over this prompt, not over a data set.
    """
    if how not in ABLATIONS:
        raise InputError("No kind of edit has this name.", shown(how), say("Choose one of: {}.", ", ".join(ABLATIONS)))
    trace.require_key()
    aim, L, H = aim_of(trace, target, trace), trace.config.n_layer, trace.config.n_head
    heads = torch.cartesian_prod(torch.arange(L), torch.arange(H))
    if how == "zero":
        values = torch.zeros(L, H, 1, 1)
    else:
        unedited = trace.unedited()
        values = [unedited.sites(layer, ["z"])["z"][0].mean(1, keepdim=True) for layer in range(L)]
    return _replaced_alone(aim, "z", heads, values, lambda done: progress(done, L * H, "Sweeping heads"))


@public(site=unchecked)
@torch.inference_mode()
def patch(
    clean: Trace,
    corrupted: Trace,
    target: Target,
    site: Literal["resid_pre", "attn_out", "mlp_out"],
    progress: Progress = silent,
) -> np.ndarray:
    """Patch one vector of the clean run at a time into the corrupted run, and return the change of the target metric.
    float32 [L, T]

    Entry (l, t) is for the site's vector at layer l and token t. Where the vectors of both runs are equal, and in a
    model that reads from left to right after the target's position, the change is exactly 0 without a run. Both runs
    keep their own edits. `progress(vectors done, total vectors, "Patching")` may raise an exception to cancel. Raises
    InputError for runs of different models or lengths and for the targets `kl` and `loss`. Source: Meng et al. 2022,
    section 2; Heimersheim & Nanda 2024.
    """
    _check_site(site)
    _check_pair(clean, corrupted, target)
    aim = aim_of(corrupted, target, corrupted)
    new, old = everywhere(clean, site), everywhere(corrupted, site)  # [L, T, D]
    places = (new != old).any(-1)[:, : aim.reach].nonzero()
    return _replaced_alone(aim, site, places, new, lambda done: progress(done, len(places), "Patching"))


@public()
@torch.inference_mode()
def patch_heads(
    clean: Trace, corrupted: Trace, target: Target, position: int | None = None, progress: Progress = silent
) -> np.ndarray:
    """Patch one head's output of the clean run at a time into the corrupted run, and return the change of the target
    metric. float32 [L, H]

    The head's z is replaced, and therefore also what the head adds to the residual stream, z times its rows of the
    output projection, either at all positions or at one, which counts from the end if negative. The change is exactly 0
    without a run for heads with the same output in both runs, and for all heads if the position is after the target's.
    Both runs keep their own edits. `progress(heads done, total heads, "Patching")` may raise an exception to cancel.
    Raises InputError as `patch` does, and for a position out of range. Source: Wang et al. 2022; Heimersheim & Nanda
    2024.
    """
    _check_pair(clean, corrupted, target)
    aim, config = aim_of(corrupted, target, corrupted), clean.config
    at: int | slice = slice(aim.reach)
    if position is not None:
        check_position(position, len(clean.tokens), from_end=True)
        at = position % len(clean.tokens)
        if at >= aim.reach:
            return np.zeros((config.n_layer, config.n_head), np.float32)
    new, old = (_heads_at(trace, at) for trace in (clean, corrupted))
    places = torch.stack([(a != b).flatten(1).any(-1) for a, b in zip(new, old, strict=True)]).nonzero()
    return _replaced_alone(aim, "z", places, new, lambda done: progress(done, len(places), "Patching"), at)


def replaced(
    trace: Trace, target: Target, site: str, values: Tensor, tell: Callable[[int], None] = lambda done: None
) -> np.ndarray:
    """Replace one vector of a site at a time, and return the change of the target metric. float32 [L, n]

    `values` [L, n, ...] has the new vectors by layer and index: for a site [B, H, T, E] the index is the head, and a
    value is [T, E] or [1, E] for all positions; for a site [B, T, D] it is the position, and a value is [D]. Values for
    later positions than the target's are ignored. `tell(replacements done)` may raise an exception to cancel.
    """
    need_alone(trace.config)
    aim = aim_of(trace, target, trace)
    heads = values.ndim == 4
    n = values.shape[1] if heads else min(values.shape[1], aim.reach)
    places = torch.cartesian_prod(torch.arange(len(values)), torch.arange(n))
    return _replaced_alone(aim, site, places, values[:, :, : aim.reach] if heads else values, tell)


def replacement_cost(layers: int, per_layer: int, tokens: int) -> tuple[float, float]:
    """Estimate the cost of replacing `per_layer` values in each layer in turn, one in each run of the model.

    Returns the number of runs and of processed tokens. A run starts at the replaced layer, so on average it counts as
    half a run; runs are computed in batches of up to 1,024 tokens.
    """
    processed = layers * per_layer * tokens / 2
    return processed / max(tokens, _TOKENS), processed


def _heads_at(trace: Trace, at: int | slice) -> list[Tensor]:
    """Return z of all heads at the given positions, by layer. [H, n, E], or [H, E] for a single position"""
    return [trace.sites(layer, ["z"])["z"][0, :, at] for layer in range(trace.config.n_layer)]


def everywhere(trace: Trace, site: str) -> Tensor:
    """Return the tensor of a site in all layers, which must have one size. [L, T, D], or [L, H, T, E] for heads"""
    if site == "resid_pre":
        return trace.residuals[:-1]
    return torch.stack([trace.sites(layer, [site])[site][0] for layer in range(trace.config.n_layer)])


def _replaced_alone(
    aim: Aim,
    site: str,
    places: Tensor,
    values: Tensor | Sequence[Tensor],
    tell: Callable[[int], None],
    at: int | slice = slice(None),
) -> np.ndarray:
    """Compute the change of the target metric for each single replacement, with 0 elsewhere. values [n, ...] by layer
    -> float32 [L, n]

    places [N, 2] are (layer, index) in ascending order; x[:, index, at] of the site is replaced by values[layer,
    index]. Each batch row starts at its own layer, from the trace's stream, so one batch may span several layers.
    `tell(places done)` is called after each layer.
    """
    effects, before = torch.zeros(len(values), len(values[0]), dtype=torch.float64), original(aim)
    done, blocks = 0, aim.trace.model.blocks
    for chunk in places.split(max(1, _TOKENS // aim.reach)) if len(places) else ():
        layers, index = chunk.T
        x = aim.trace.residuals[:0, : aim.reach]  # no rows yet
        held: dict[int, tuple[Tensor, Tensor]] = {}  # keys and values of the rows, for layers that use them again
        for layer in range(int(layers[0]), len(blocks)):
            rows = (layers == layer).nonzero()[:, 0]  # rows that start here
            x = torch.cat((x, aim.trace.residuals[layer, None, : aim.reach].expand(len(rows), -1, -1)))
            tap = _replace(site, rows, index[rows], values[layer][index[rows]], at) if len(rows) else None
            run = aim.trace.prepare(layer, aim.reach, tap)
            run.beside.kv.update({source: _rows(held.get(source), kv, len(x)) for source, kv in run.beside.kv.items()})
            x = blocks[layer](x, layer, run)
            held |= {layer: run.beside.kv[layer]} if layer in run.beside.kv else {}
            tell(done)
        effects[layers, index] = measure(x, aim) - before
        done += len(chunk)
        tell(done)
    return effects.float().numpy()


def _rows(held: tuple[Tensor, Tensor] | None, own: tuple[Tensor, Tensor], rows: int) -> tuple[Tensor, Tensor]:
    """Return the keys and values of an earlier layer for each row: those that it `held` there, or for rows that started
    later the trace's `own`. [rows, G, T, E] each
    """
    first = 0 if held is None else len(held[0])
    later = [each.expand(rows - first, -1, -1, -1) for each in own]
    k, v = later if held is None else (torch.cat(pair) for pair in zip(held, later, strict=True))
    return k, v


def _replace(site: str, rows: Tensor, index: Tensor, values: Tensor, at: int | slice) -> Tap:
    """Return a tap that writes values[b] to x[rows[b], index[b], at] at one site. rows and index [b],
    values [b, ...]
    """

    def tap(name: str, layer: int, x: Tensor) -> Tensor:
        if name != site:
            return x
        x = x.clone()
        x[rows, index, at] = values
        return x

    return tap


def recovered(effects: np.ndarray, clean_metric: float, corrupted_metric: float) -> np.ndarray:
    """Normalize the effects of patching by the gap: 0 for the corrupted run, 1 for the clean run; NaN if the gap is 0.
    float32
    """
    gap = clean_metric - corrupted_metric
    return np.full_like(effects, np.nan) if gap == 0 else effects / np.float32(gap)


# --- predictions ---


def divergence(before: np.ndarray, after: np.ndarray) -> float:
    """Compute KL(before || after) of the softmax of two rows of logits [V], in nats."""
    p, q = (torch.from_numpy(each).double().log_softmax(-1) for each in (before, after))
    return float((p.exp() * (p - q)).sum().clamp(min=0))  # negative only by rounding


@public(most=whole(1), vocab=whole(1))
@torch.inference_mode()
def next_tokens(
    before: Predicting, after: Predicting, position: int, most: int = 10, vocab: int | None = None
) -> pd.DataFrame:
    """Return the most likely next tokens of two runs, in decreasing order of the larger of their two probabilities.

    Columns: `id`, `p_before`, `p_after`, `logit_before`, `logit_after`. There are up to 2 `most` rows, the union of the
    top tokens of both runs. Ids >= `vocab` correspond to no token and are excluded before the softmax. Raises
    InputError for a position out of range.
    """
    return next_rows(before.logits_at(position)[:vocab], after.logits_at(position)[:vocab], most)


def next_rows(before: np.ndarray, after: np.ndarray, most: int = 10) -> pd.DataFrame:
    """Build the table of `next_tokens` from the logits of two runs at one position. [V] each"""
    logits = torch.stack([torch.from_numpy(each) for each in (before, after)])  # [2, V]
    share = logits.double().softmax(-1)
    ids = logits.topk(min(most, logits.shape[1])).indices.unique()  # ascending
    ids = ids[share[:, ids].amax(0).argsort(descending=True, stable=True)]
    columns = {"id": ids, "p_before": share[0, ids], "p_after": share[1, ids]}
    columns |= {"logit_before": logits[0, ids], "logit_after": logits[1, ids]}
    return pd.DataFrame({name: column.numpy() for name, column in columns.items()})


# --- validation ---


def _check_site(site: str) -> None:
    """Raise InputError unless the site is one of PATCH_SITES."""
    if site not in PATCH_SITES:
        raise InputError(
            "This place cannot be patched.", shown(site), say("Choose one of: {}.", ", ".join(PATCH_SITES))
        )


def _check_pair(clean: Trace, corrupted: Trace, target: Target) -> None:
    """Raise InputError unless the clean run can be patched into the corrupted run for this target."""
    clean.require_key()
    corrupted.require_key()
    if clean.model is not corrupted.model:
        raise InputError("The two prompts were run on different models.", "", "Run both on the same model.")
    a, b = len(clean.tokens), len(corrupted.tokens)
    if a != b:
        raise InputError(
            "The two prompts differ in length.", f"{a} and {b} tokens", "Give them the same number of tokens."
        )
    if target.kind in ("kl", "loss"):
        raise InputError(
            "Patching needs a target token.", target.kind, "Choose a logit, a difference or a probability."
        )
