"""Masked-token predictions of a model that reads in both directions: every token, predicted from all the others.

Position t predicts token t itself, which is replaced by the mask token first; a token that is the mask already is
predicted as it stands. The sum of the log-probabilities is the pseudo-log-likelihood of the text (Salazar et al. 2020,
section 2.1).
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_position, check_token
from model.gpt.mixers.needs import need_masks, no_mask
from model.predictions.predictions import reduced
from model.progress import Progress, silent
from model.public import listed, public, unchecked, whole
from model.tracing.trace import Trace

_TOKENS = 1024  # maximum number of tokens that run together


@dataclass(frozen=True, eq=False)
class MaskedPredictions:
    """Statistics of the distribution at every given position, where the token is masked.

    Probabilities are those of the softmax over all V rows, including rows without a token.
    """

    positions: np.ndarray  # int64 [P]
    scored: np.ndarray  # whether the prompt's own token counts: not the mask, and none of those skipped. bool [P]
    entropy: np.ndarray  # -sum p ln p in nats, float64 [P]
    ids: np.ndarray  # [P, top] in decreasing order of probability, ties by the smaller id
    logits: np.ndarray  # [P, top] float32
    probabilities: np.ndarray  # [P, top] float64
    actual_logit: np.ndarray  # logit of the prompt's own token. [P] float32
    actual_log_probability: np.ndarray  # its natural logarithm, float64 [P]
    rank: np.ndarray  # its rank: 1 for the most likely token. [P]

    @property
    def surprisal(self) -> np.ndarray:
        """-log2 p of each actual token, in bits; NaN where it is not scored. float64 [P]"""
        return np.where(self.scored, self.actual_log_probability / -math.log(2) + 0.0, np.nan)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in vars(self).values())


@public(position=unchecked, mask_id=unchecked)
def masked_logits(run: Trace, position: int, mask_id: int | None) -> np.ndarray:
    """Compute the float32 logits [V] at `position` if the token there is the mask, with the edits of the run.

    Equals `logits_at(position)` of a run of the prompt with the mask there. Raises InputError for a model that does not
    predict masked tokens.
    """
    check_position(position, len(run.tokens), from_end=True)
    at = position % len(run.tokens)
    _check(run, mask_id)
    if int(run.tokens.ids[at]) == mask_id:
        return run.logits_at(at)
    return _logits(run, [at], mask_id)[0].numpy()


@public(positions=listed, mask_id=unchecked, top=whole(1), skipped=unchecked)
def predict_masked(
    run: Trace,
    mask_id: int | None,
    positions: Sequence[int] | None = None,
    top: int = 10,
    *,
    skipped: Collection[int] = (),
    progress: Progress = silent,
) -> MaskedPredictions:
    """Predict the token at each position from all other tokens, with the edits of the run (means
    are those of the prompt as it stands); all positions by default.

    The prompt runs once for each position, with the mask there. Tokens with the ids `skipped`, such as [CLS], are not
    scored. Raises InputError for a model that does not predict
    masked tokens. Source: Salazar et al. 2020, "Masked Language Model Scoring".
    """
    _check(run, mask_id)
    at = list(range(len(run.tokens))) if positions is None else list(positions)
    for position in at:
        check_position(position, len(run.tokens))
    step, rows = max(1, _TOKENS // len(run.tokens)), []
    for start in range(0, max(1, len(at)), step):  # once without positions, for the shapes of the arrays
        progress(start, len(at), "Masking each token")
        part = at[start : start + step] or [0]
        rows.append(reduced(_logits(run, part, mask_id), torch.from_numpy(run.tokens.ids[part]), top))
    fields = {name: torch.cat([row[name] for row in rows])[: len(at)].numpy() for name in rows[0]}
    normalizer, actual_logit = fields.pop("normalizer"), fields.pop("next_logit")
    return MaskedPredictions(
        positions=np.array(at, np.int64),
        scored=~np.isin(run.tokens.ids[at], [mask_id, *skipped]),
        probabilities=np.exp(fields["logits"].astype(np.float64) - normalizer[:, None]),
        actual_logit=actual_logit,
        actual_log_probability=actual_logit.astype(np.float64) - normalizer,
        **fields,
    )


def masking_work(n_params: int, T: int) -> float:
    """Estimate the operations of predicting each of T tokens from all others: two for each parameter and token."""
    return 2.0 * n_params * T * T


def _check(run: Trace, mask_id: int | None) -> None:
    """Raise InputError unless the model predicts masked tokens and the id exists."""
    need_masks(run.config)
    if mask_id is None:
        raise no_mask("This model")
    check_token(mask_id, run.config.vocab_size)


@torch.inference_mode()
def _logits(run: Trace, positions: Sequence[int], mask_id: int) -> Tensor:
    """Run the prompt once for each position, with the mask there. -> [P, V] float32"""
    ids = torch.from_numpy(np.ascontiguousarray(run.tokens.ids, dtype=np.int64)).repeat(len(positions), 1)
    rows, at = torch.arange(len(positions)), torch.tensor(list(positions))
    ids[rows, at] = mask_id
    run.require_key()  # another tap may be of a batch of one
    stream = run.model.trunk(ids, tap=run.tap)[rows, at]
    return run.model.logits(stream[None], tap=run.tap)[0]
