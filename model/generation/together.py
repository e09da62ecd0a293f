"""Continuous batching of texts of different clients: rows join and leave at any step (Yu et al. 2022).

A text is a course of `generate`: it yields its needs, and a driver runs the model. A client that requests a step runs
one forward pass for all waiting courses and stores the results of the others. So no client waits for another text to
end, the batch needs no thread of its own, and an abandoned text is at most one step ahead.

The products with the weights are computed for the rows of all texts at once. Attention, positions, caches and edits are
separate for each text: the texts differ in length, and none attends to another.
"""

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from model.generation.edited import embedded, tap_of_rows, through
from model.generation.generate import Course, ForwardNeed, ForwardResult, Tick, course_of, forward, normed
from model.generation.strategies import DecodingPlan, Strategy
from model.gpt.decode_step import CacheRows, pack_where_needed
from model.gpt.decode_ways import way
from model.gpt.passes import Attend, Pass, attend_fused
from model.gpt.transformer import Transformer

_BATCHES: "WeakKeyDictionary[Transformer, SharedBatch]" = WeakKeyDictionary()
_MAKING = threading.Lock()


@dataclass(eq=False)
class _Seat:
    """A text in progress: its pending need, and the result if another client's forward pass has computed it."""

    need: ForwardNeed | None = None
    result: ForwardResult | None = None
    rows: int = 1


class SharedBatch:
    """Texts of one model that share forward passes. Any number of threads may request steps of their own texts."""

    def __init__(self, model: Transformer, most_rows: int = 64) -> None:
        self._model = weakref.ref(model)  # a weak reference, so that the batch does not keep the model in memory
        self.most_rows = most_rows  # maximum number of rows of one forward pass; further texts wait for the next
        self.seats: list[_Seat] = []  # in order of arrival; served seats move to the end
        self.lock = threading.Lock()  # held during a forward pass

    @staticmethod
    def of(model: Transformer) -> "SharedBatch":
        """Return the batch of a model, which is shared by all its users in this process."""
        with _MAKING:
            return _BATCHES.setdefault(model, SharedBatch(model))

    def generate(
        self,
        ids: Sequence[int],
        strategies: Sequence[Strategy],
        plan: DecodingPlan,
        size: int,
        text: Callable[[Sequence[int]], str] | None = None,
    ) -> Iterator[Tick]:
        """Run `generate` of this model with the same arguments, errors, and texts up to float32 rounding.

        Closing the iterator leaves the batch. For a model with recurrent or sliding-window layers, each text has
        separate forward passes.
        """
        model = self._model()
        if model is None:
            raise ValueError("the model of this batch is gone")
        return self._ticks(model, course_of(model, ids, strategies, plan, size, text))

    @torch.inference_mode()
    def _ticks(self, model: Transformer, course: Course) -> Iterator[Tick]:
        seat = _Seat(rows=course.rows)
        try:
            with self.lock:
                self.seats.append(seat)
                pack_where_needed(model, sum(each.rows for each in self.seats))
                tick = course.steps.send(forward(model, next(course.steps)))  # the whole prompt
            while tick is not None:
                # Compute the next need before yielding the tick, so that other clients can serve it meanwhile.
                coming = next(course.steps, None)
                seat.need = coming if isinstance(coming, ForwardNeed) else None
                yield tick
                tick = coming if seat.need is None else course.steps.send(self._answer(model, seat))
        finally:
            with self.lock:
                self.seats.remove(seat)

    def _answer(self, model: Transformer, seat: _Seat) -> ForwardResult:
        """Return the result for this seat, from another client's forward pass or from a new one for all waiting
        seats.
        """
        with self.lock:
            if seat.result is None:
                self._serve(model, seat)
            result, seat.result, seat.need = seat.result, None, None
        return result

    def _serve(self, model: Transformer, first: _Seat) -> None:
        """Run one forward pass for the first seat and as many waiting seats as fit; forced tokens have their own."""
        served, rows = [first], len(first.need.ids)
        for seat in self.seats if first.need.last == 1 else ():
            fits = seat.need is not None and seat.need.last == 1 and rows + len(seat.need.ids) <= self.most_rows
            if seat is not first and seat.result is None and fits:
                served.append(seat)
                rows += len(seat.need.ids)
        for seat, result in zip(served, forward_all(model, [seat.need for seat in served]), strict=True):
            seat.result = result
            self.seats.remove(seat)
            self.seats.append(seat)


@torch.inference_mode()
def forward_all(model: Transformer, needs: Sequence[ForwardNeed]) -> list[ForwardResult]:
    """Run `forward` for each need, one token per row, in a single forward pass if the model's layers allow it."""
    if len(needs) == 1 or not model.config.plain_attention:
        return [forward(model, need) for need in needs]
    began = time.perf_counter()
    for need in needs:
        model.check(need.ids, need.cache.length)
        need.cache.reserve(*need.ids.shape)
    counts = [len(need.ids) for need in needs]
    plain = all(need.memory is None and need.edited is None for need in needs)
    compiled = way(model, sum(counts)) if plain else None
    own = [model.prepare(need.cache.length, 1) for need in needs]
    both = zip(needs, own, strict=True)
    x = torch.cat([embedded(model, need.ids, need.cache.length, run, need.edited) for need, run in both])
    if compiled:  # x [N, 1, D]
        step, how = compiled
        places = [CacheRows.of(need.cache, 1, run.rope) for need, run in zip(needs, own, strict=True)]
        x = step.blocks(x[:, 0], places, how)[:, None]
    else:
        run = Pass(_angles([run.rope for run in own], counts), _attend_each(needs, counts))
        several = [need.edited for need in needs]
        edited = {layer for each in several if each for layer in range(len(model.blocks)) if each.reaches(layer)}
        tap = tap_of_rows(several, counts, [need.cache.length for need in needs])
        x = through(model, x, run, tap, edited.__contains__)
    for need in needs:
        need.cache.advance(1)
    logits = model.logits(x, cached=plain).float()
    seconds = time.perf_counter() - began
    parts = zip(logits.split(counts), x.split(counts), strict=True)
    return [ForwardResult(each, normed(model, stream), seconds) for each, stream in parts]


def _attend_each(needs: Sequence[ForwardNeed], counts: Sequence[int]) -> Attend:
    """Return the attention function of a batch in which each text has its own cache."""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = []
        for need, own_q, own_k, own_v in zip(needs, *(rows.split(counts) for rows in (q, k, v)), strict=True):
            keys, values = need.cache.put(layer, own_k, own_v)
            kernel = need.memory or (need.edited.attend if need.edited else attend_fused)
            out.append(kernel(layer, own_q, keys, values))
        return torch.cat(out)

    return attend


def _angles(tables: Sequence[tuple[Tensor, Tensor] | None], counts: Sequence[int]) -> tuple[Tensor, Tensor] | None:
    """Combine the cosines and sines of each text into those of each row, [N, 1, 1, d_rotary / 2] each."""
    if None in tables:
        return None
    repeats = torch.tensor(counts)
    cos, sin = (torch.cat(parts).repeat_interleave(repeats, 0)[:, None, None] for parts in zip(*tables, strict=True))
    return cos, sin
