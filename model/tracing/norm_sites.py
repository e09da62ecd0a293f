"""Inputs of a run's norms and outputs of its sublayers, layer by layer, with little recomputation."""

from typing import Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from model.gpt.passes import Pass
from model.gpt.tap import Tap, block_sites, record
from model.gpt.transformer import Transformer
from model.records import Tokens

BLOCK_NORMS = ("norm1", "after1", "norm2", "after2")  # those that a block may have, in the order of the computation
STREAM_SITES = (
    *("resid_pre", "norm1_in", "norm1_scale", "attn_out", "after1_in", "after1_scale", "after1_out"),
    *("resid_mid", "norm2_in", "norm2_scale", "mlp_out", "after2_in", "after2_scale", "after2_out", "resid_post"),
)


class Run(Protocol):
    """The members of model.tracing.trace.Trace that are used here."""

    model: Transformer
    tokens: Tokens
    residuals: Tensor  # [L + 1, T, D]

    def prepare(self, layer: int, T: int, tap: Tap | None = None) -> Pass:
        """Return a Pass that runs layer `layer` as in this trace, followed by `tap`."""

    def sites(self, layer: int, names) -> dict[str, Tensor]:
        """Return tensors of one layer at the named sites."""


@torch.inference_mode()
def stream_sites(run: Run, layer: int) -> dict[str, Tensor]:
    """Compute the inputs and divisors of a layer's norms, and the outputs of its sublayers: those of STREAM_SITES that
    the layer has, [T, D] or [T, 1].

    In pre-norm layers without edits, the MLP is not run: mlp_out is the difference of the stored streams, resid_post -
    resid_mid, which is exact up to the rounding error of the stream. Raises ValueError if the layer does not exist.
    """
    L, T, store = len(run.model.blocks), len(run.tokens), {}
    if not 0 <= layer < L:
        raise ValueError(f"layers run from 0 to {L - 1}, got {layer}")
    block = run.model.blocks[layer]
    config = run.model.config
    if block.post_norm or block.after2 is not None or not config.alone or run.prepare(layer, T).tap is not None:
        names = [name for name in block_sites(config, layer) if name in STREAM_SITES]
        return {name: tensor[0] for name, tensor in run.sites(layer, names).items()}
    each = run.prepare(layer, T, record(STREAM_SITES, store))
    x, post = run.residuals[layer][None], run.residuals[layer + 1][None]
    mid = block.middle(x, layer, each)
    if block.norm2 is not None:
        block.norm2.tapped(x if block.parallel else mid, "norm2", layer, each)
    at = {name: tensor for (name, _), tensor in store.items()}
    at |= {"resid_pre": x, "mlp_out": post - mid, "resid_post": post}
    return {name: at[name][0] for name in STREAM_SITES if name in at}


@torch.inference_mode()
def final_sites(run: Run) -> dict[str, Tensor]:
    """Compute the input and divisor of the final norm: final_in [T, D] and final_scale [T, 1]; empty if there is no
    final norm.
    """
    L, store = len(run.model.blocks), {}
    if run.model.final_norm is None:
        return {}
    each = run.prepare(L, len(run.tokens), record(("final_in", "final_scale"), store))
    run.model.final_norm.tapped(run.residuals[-1][None], "final", L, each)
    return {name: tensor[0] for (name, _), tensor in store.items()}


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the mean and biased variance over the last axis in float64, in two passes, so that a large mean costs no
    precision.

    x [..., D] -> [...] each. The mean square is mean^2 + variance.
    """
    x = x.to(torch.float64, copy=True)
    mean = x.mean(-1, keepdim=True)
    x -= mean
    return mean[..., 0], x.square_().mean(-1)


def norm_rows(run: Run) -> pd.DataFrame:
    """Build the table of Trace.norms: one row per (site, layer, token)."""
    frames = []
    for layer in range(len(run.model.blocks)):
        at = stream_sites(run, layer)
        frames += [_rows(site, layer, at[f"{site}_in"]) for site in BLOCK_NORMS if f"{site}_in" in at]
    if last := final_sites(run):
        frames.append(_rows("final", len(run.model.blocks), last["final_in"]))
    return pd.concat(frames, ignore_index=True)


def _rows(site: str, layer: int, x: Tensor) -> pd.DataFrame:
    """Build one row per token with the statistics of x [T, D]."""
    mean, variance = moments(x)
    square = mean.square() + variance
    return pd.DataFrame(
        {
            "site": site,
            "layer": layer,
            "token": np.arange(len(x)),
            "mean": mean.numpy(),
            "variance": variance.numpy(),
            "rms": square.sqrt().numpy(),
            "norm": (square * x.shape[-1]).sqrt().numpy(),
        }
    )
