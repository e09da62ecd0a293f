"""Head metrics on repeated random tokens, where only the repetition can be used: Olsson et al. 2022."""

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from model.gpt.transformer import Transformer
from model.tracing.head_metrics import HEAD_METRICS
from model.tracing.head_reducer import HeadReducer

SHORTEST = 8  # tokens of a sequence; shorter ones hardly distinguish heads


def repeated_ids(pool: int, length: int, sequences: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return random ids below `pool` written twice, and the same with the second half shuffled. [N, T] each, T even.

    Within a half of at most `pool` tokens all ids differ, so that each has one earlier copy.
    """
    rng, half = np.random.default_rng(seed), length // 2
    once = np.stack([rng.choice(pool, size=half, replace=half > pool) for _ in range(sequences)])
    shuffled = rng.permuted(once, axis=1)
    twice, baseline = np.concatenate([once, once], 1), np.concatenate([once, shuffled], 1)
    return torch.from_numpy(twice.astype(np.int64)), torch.from_numpy(baseline.astype(np.int64))


@torch.inference_mode()
def probe_heads(model: Transformer, *, pool: int, length: int, sequences: int = 16, seed: int = 0) -> pd.DataFrame:
    """Return the mean over the sequences of every head metric, indexed (layer, head), and `induction_baseline`.

    The baseline scores the same positions with the second half shuffled: there a head that matches content scores about
    0, one with a fixed offset does not. Every metric is NaN below SHORTEST tokens.
    """
    c = model.config
    index = pd.MultiIndex.from_product([range(c.n_layer), range(c.n_head)], names=["layer", "head"])
    columns = [*HEAD_METRICS, "induction_baseline"]
    length = min(length, c.n_ctx) // 2 * 2
    if length < SHORTEST:
        return pd.DataFrame(np.nan, index, columns)
    twice, shuffled = repeated_ids(pool, length, sequences, seed)
    scores = torch.stack([_metrics(model, ids, ids) for ids in twice]).mean(0)  # [L, H, metrics]
    baseline = torch.stack([_metrics(model, ran, ids) for ran, ids in zip(shuffled, twice, strict=True)]).mean(0)
    induction = baseline[..., list(HEAD_METRICS).index("induction"), None]
    return pd.DataFrame(torch.cat([scores, induction], -1).flatten(0, 1).numpy(), index, columns)


def _metrics(model: Transformer, ran: Tensor, scored: Tensor) -> Tensor:
    """Return the metrics of a run on `ran`, evaluated for the tokens `scored`. [T] each -> [L, H, metrics]"""
    reducer = HeadReducer(scored, model.config.n_layer, model.config.n_head)
    model.trunk(ran[None], attend=reducer, see=reducer.see)
    reducer.finish()
    return reducer.metrics
