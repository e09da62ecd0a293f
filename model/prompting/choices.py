"""Log-probabilities of multiple-choice answers, for many prompts at once over one cached prefix.

Axis letters of this folder: N is the batch size, P the length of the prefix shared by all rows, n the number of
choices.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.arguments import check_token
from model.errors import InputError
from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import nonempty, public, whole
from model.sampling.pipeline import usable
from model.tracing.trace import check_length

MOST_CACHE = 1 << 28  # maximum size of a batch's KV cache in bytes
MOST_ROWS = 32


@dataclass(frozen=True)
class Asked:
    """A prompt and its multiple-choice answers, as token ids."""

    prompt: tuple[int, ...]  # [T]
    choices: tuple[tuple[int, ...], ...]  # each with at least one token


@public(asked=nonempty, size=whole(1))
@torch.inference_mode()
def choice_log_probs(
    model: Transformer, asked: Sequence[Asked], size: int, progress: Progress = silent
) -> list[list[list[float]]]:
    """Compute ln p of each token of each choice after its prompt, in nats, as nested lists: prompts, choices, tokens.

    The sum over a choice's tokens is ln p(choice | prompt). The longest common prefix of all prompts is processed
    once, and so are rows with the same tokens, such as those of single-token choices. Rows are padded at the end,
    where causal attention ignores the padding. `size` is the vocabulary size; `progress` counts rows. Raises
    InputError if a prompt or choice is empty or exceeds the context, or if an id is outside the vocabulary.
    """
    rows = _rows(model, asked, min(size, model.config.vocab_size))
    read = sorted(rows, key=len)
    shared = min(common_prefix(read), *(len(each.prompt) - 1 for each in asked))  # exclude each prompt's last token
    before = prefilled(model, read[0][:shared])
    log_probs: dict[tuple[int, ...], dict[tuple[int, int], float]] = {}
    done = 0
    for batch in batches(read, model.config):
        log_probs |= _read(model, batch, shared, before, rows, size)
        done += len(batch)
        progress(done, len(read), "")
    return [
        [
            [log_probs[each.prompt + choice[:-1]][len(each.prompt) + at, id] for at, id in enumerate(choice)]
            for choice in each.choices
        ]
        for each in asked
    ]


def common_prefix(rows: Sequence[Sequence[int]]) -> int:
    """Return the length of the longest common prefix of all rows, excluding at least the last token of each row."""
    most = min(map(len, rows)) - 1
    first = rows[0]
    return next((at for at in range(most) if any(row[at] != first[at] for row in rows)), most)


def prefilled(model: Transformer, ids: Sequence[int]) -> KVCache | None:
    """Run the shared prefix and return its cache [L, 1, G, P, E]; None for an empty prefix."""
    if not ids:
        return None
    cache = KVCache.empty(model.config, 1, len(ids))
    model.trunk(torch.tensor([list(ids)]), cache=cache)
    return cache


def spread(model: Transformer, before: KVCache | None, n: int, room: int) -> KVCache:
    """Return a cache in which n rows continue the shared prefix, with capacity for `room` positions in total."""
    cache = KVCache.empty(model.config, n, room)
    if before is None:
        return cache
    P = before.length
    cache.k[:, :, :, :P] = before.k[:, :, :, :P]
    cache.v[:, :, :, :P] = before.v[:, :, :, :P]
    return before.like(cache.k, cache.v, torch.zeros(n, dtype=torch.long))


def batches(rows: Sequence[Sequence[int]], config: ModelConfig) -> Iterator[list]:
    """Yield the rows in order, in batches within the limits MOST_ROWS and MOST_CACHE."""
    # size of the keys and values of one position in bytes
    token = 8 * config.n_layer * config.n_kv_head * config.d_head
    batch: list = []
    for row in rows:
        if batch and (len(batch) == MOST_ROWS or (len(batch) + 1) * len(row) * token > MOST_CACHE):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _rows(model: Transformer, questions: Sequence[Asked], vocab: int) -> dict[tuple[int, ...], set[tuple[int, int]]]:
    """Return the rows to run, each with the (position, token) pairs whose log-probabilities are needed."""
    rows: dict[tuple[int, ...], set[tuple[int, int]]] = {}
    for each in questions:
        if not each.prompt or not each.choices or not all(each.choices):
            raise InputError("A prompt or an answer is empty.", "", "Give each of them at least one token.")
        for token in {*each.prompt}.union(*each.choices):
            check_token(token, vocab)
        for choice in each.choices:
            row = each.prompt + choice[:-1]
            check_length(len(row), model.config.n_ctx)
            wanted = rows.setdefault(row, set())
            wanted.update((len(each.prompt) + at, id) for at, id in enumerate(choice))
    return rows


def _read(
    model: Transformer,
    batch: Sequence[tuple[int, ...]],
    shared: int,
    before: KVCache | None,
    rows: dict[tuple[int, ...], set[tuple[int, int]]],
    size: int,
) -> dict[tuple[int, ...], dict[tuple[int, int], float]]:
    """Run one batch and return the log-probability of each (position, token) pair in `rows`, by row."""
    longest = max(map(len, batch))
    ids = torch.zeros(len(batch), longest - shared, dtype=torch.long)
    for at, row in enumerate(batch):
        ids[at, : len(row) - shared] = torch.tensor(row[shared:])
    stream = model.trunk(ids, cache=spread(model, before, len(batch), longest))  # [N, longest - P, D]
    wanted = [(at, place, id) for at, row in enumerate(batch) for place, id in sorted(rows[row])]
    where, places, tokens = (torch.tensor(each) for each in zip(*wanted, strict=True))
    log_p = _log_probs(model, stream[where, places - 1 - shared], tokens, size)
    result: dict[tuple[int, ...], dict[tuple[int, int], float]] = {row: {} for row in batch}
    for (at, place, id), value in zip(wanted, log_p.tolist(), strict=True):
        result[batch[at]][place, id] = value
    return result


def _log_probs(model: Transformer, stream: Tensor, tokens: Tensor, size: int) -> Tensor:
    """Compute ln p of one token at each position from the stream after the last layer. [n, D], tokens [n] -> [n]
    float64
    """
    logits = usable(model.logits(stream[None])[0].float(), size).double()
    return logits.log_softmax(-1).gather(-1, tokens[:, None])[:, 0]
