"""Several strategies continue one prompt at once: one batch, one forward a step, one cache.

Each strategy is a decoder with its own rows of the batch. At every step all rows hold equally many tokens, so one
forward serves a greedy row, six beams and the candidates of a contrastive search alike.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from model.cache import KVCache
from model.decoders import METHODS, Change, Decision, Given, Plan, Strategy
from model.errors import InputError
from model.sampling import usable
from model.transformer import Transformer

MOST_STRATEGIES = 8
MOST_ROWS = 64  # of the batch: beams and candidates count


@dataclass(frozen=True, eq=False)
class Tick:
    """One step: what it changed in each strategy's text, None for one that had ended before."""

    step: int
    changes: tuple[Change | None, ...]
    seconds: float


@torch.inference_mode()
def generate(
    model: Transformer, ids: Sequence[int], strategies: Sequence[Strategy], plan: Plan, size: int,
    text: Callable[[Sequence[int]], str] | None = None,
) -> Iterator[Tick]:  # fmt: skip
    """Continue ids [T] by every strategy; a tick a step until all have ended. Closing the iterator stops the work.

    `size` is how many tokens the vocabulary has, of the model's V rows; `text` decodes, for stop texts. A row's text
    is what the strategy alone would have written, to float32 rounding. Raises InputError for too many strategies.
    """
    given = Given(tuple(ids), plan, size, text)
    decoders = [METHODS[strategy.method].start(strategy, given, row) for row, strategy in enumerate(strategies)]
    check_size(strategies, [decoder.width for decoder in decoders])
    room = model.config.n_ctx - len(ids)
    most = min(plan.max_new_tokens, room)
    began = time.perf_counter()
    cache = KVCache.empty(model.config, 1, len(ids) + most)
    stream = model.trunk(torch.tensor([ids]), cache=cache)  # [1, T, D]
    logits = usable(model.logits(stream[:, -1:])[:, 0].float(), size)  # [1, V]
    hidden = model.normed(stream)[0]  # [T, D]
    rows = {number: [0] for number in range(len(decoders))}  # of the batch, by decoder
    step = 0
    while rows:
        decisions: dict[int, Decision] = {}
        for number, mine in rows.items():
            found = decoders[number].decide(logits[mine], hidden if step == 0 else hidden[mine])
            decisions[number] = found if found.change.ended or step < most else found.cut(_reason(plan, room))
        changes = tuple(decisions[n].change if n in decisions else None for n in range(len(decoders)))
        yield Tick(plan.first_step + step, changes, time.perf_counter() - began)
        began = time.perf_counter()
        alive = {number: found for number, found in decisions.items() if not found.change.ended}
        if not alive:
            return
        source = [rows[number][at] for number, found in alive.items() for at in found.source]
        new = [token for found in alive.values() for token in found.ids]
        if source != list(range(cache.k.shape[1])):
            cache = cache.rows(torch.tensor(source))
        rows, start = {}, 0
        for number, found in alive.items():
            rows[number] = list(range(start, start + len(found.ids)))
            start += len(found.ids)
        stream = model.trunk(torch.tensor(new)[:, None], cache=cache)
        hidden = model.normed(stream)[:, -1]  # [N, D]
        logits = usable(model.logits(stream)[:, -1].float(), size)  # [N, V]
        step += 1


def check_size(strategies: Sequence[Strategy], widths: list[int]) -> None:
    """Raise InputError for more strategies or rows than one batch takes."""
    if not 1 <= len(strategies) <= MOST_STRATEGIES:
        raise InputError("These are too many strategies.", str(len(strategies)), f"From 1 to {MOST_STRATEGIES}.")
    if sum(widths) > MOST_ROWS:
        raise InputError("Together the strategies need too many rows.", str(sum(widths)), f"At most {MOST_ROWS}.")


def _reason(plan: Plan, room: int) -> str:
    return "length" if plan.max_new_tokens <= room else "context"
