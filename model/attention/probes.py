"""Head metrics on repeated random tokens, where repetition is the only structure: Olsson et al. 2022."""

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from model.gpt.transformer import Transformer
from model.tracing.head_metrics import HEAD_METRICS
from model.tracing.head_reducer import HeadReducer

SHORTEST = 8  # minimum tokens of a sequence; shorter ones hardly distinguish heads


def repeated_ids(pool: int, length: int, sequences: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw random ids below `pool`, each sequence repeated once, and the same with the second half shuffled. [N, T]
    each, T even.

    In a half of at most `pool` tokens, all ids are distinct, so that each id of the second half has exactly one earlier
    copy.
    """
    rng, half = np.random.default_rng(seed), length // 2
    once = np.stack([rng.choice(pool, size=half, replace=half > pool) for _ in range(sequences)])
    shuffled = rng.permuted(once, axis=1)
    twice, baseline = np.concatenate([once, once], 1), np.concatenate([once, shuffled], 1)
    return torch.from_numpy(twice.astype(np.int64)), torch.from_numpy(baseline.astype(np.int64))


@torch.inference_mode()
def probe_heads(model: Transformer, *, pool: int, length: int, sequences: int = 16, seed: int = 0) -> pd.DataFrame:
    """Compute the mean over the sequences of each head metric, and `induction_baseline`, in a table indexed by (layer,
    head).

    The baseline scores the same positions with the second half shuffled: a head that matches content scores about 0
    there, a head with a fixed offset does not. All metrics are NaN for fewer than SHORTEST tokens.
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
    """Compute the head metrics of a run on `ran`, with `scored` as the tokens that define them. [T] each -> [L, H,
    metrics]
    """
    reducer = HeadReducer(scored, model.config.n_layer, model.config.n_head)
    model.trunk(ran[None], attend=reducer, see=reducer.see)
    reducer.finish()
    return reducer.metrics
