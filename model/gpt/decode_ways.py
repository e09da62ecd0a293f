"""The fastest implementation of a decode step for each number of rows, determined by timing and stored.

It is either torch or the loops of `model.gpt.decode_step`, on one thread or on all, from the weights or from their
codes.
"""

import math
import time
import weakref
from bisect import insort
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from model.gpt.cache import KVCache
from model.gpt.decode_step import WAYS, DecodeStep, step_of
from model.gpt.passes import attend_fused
from model.kernels import loops_folder, remembered

MOST_ROWS = 16  # maximum number of rows; torch is faster for more
AGAIN = 600.0  # seconds after which a result with one thread is timed again
_ROUNDS = range(3, 10)  # number of rounds of a trial; the implementations alternate, so that a slowdown affects all
_ALIKE = 1.1  # maximum ratio of the second-smallest time to the minimum for a reliable minimum
_HOPELESS = 3.0  # maximum ratio to the fastest time at which an implementation is timed again
_BEHIND = 1.5  # the same after the minimum number of rounds

_FOLDERS: "weakref.WeakKeyDictionary[nn.Module, Callable[[], Path]]" = weakref.WeakKeyDictionary()


def way(model: nn.Module, rows: int) -> tuple[DecodeStep, str] | None:
    """Return the compiled step and its fastest implementation for this number of rows; None if torch is fastest or
    there is no compiled step.

    All of WAYS are timed on the first use of a number of rows, unless a stored result exists. If one thread was
    fastest, the trial is repeated after a while.
    """
    step = step_of(model) if rows <= MOST_ROWS and not torch.is_grad_enabled() else None
    if step is None:
        return None
    tried = 1 << (rows.bit_length() - 1)  # 1, 2, 4, 8 or 16
    if tried not in step.fastest or time.monotonic() >= step.until.get(tried, math.inf):
        step.fastest[tried] = _fastest(model, step, tried)
        step.until[tried] = math.inf if lasts(step.fastest[tried]) else time.monotonic() + AGAIN
    return None if step.fastest[tried] == "torch" else (step, step.fastest[tried])


def remember(model: nn.Module, folder: Callable[[], Path] = loops_folder.folder) -> None:
    """Make a model's trials read their results from a file in a folder, and write new results to it.

    The folder is requested at the first trial, because it does not exist if nothing can be compiled.
    """
    _FOLDERS[model] = folder


def lasts(how: object) -> bool:
    """Return whether the result of a trial remains valid. One thread may be fastest only because the other cores are
    busy.
    """
    return how in WAYS and (not how.endswith("alone") or torch.get_num_threads() == 1)


def _fastest(model: nn.Module, step: DecodeStep, rows: int) -> str:
    folder, name = _FOLDERS.get(model), step.name(rows)
    path = None if folder is None else remembered.file_in(folder(), "steps")
    known = {} if path is None else remembered.entries(path)
    if lasts(known.get(name)):
        return known[name]
    times, reliable = trial(model, rows)
    best = min(times, key=times.__getitem__)
    if path is not None and reliable and lasts(best):
        remembered.write_entries(path, remembered.entries(path) | {name: best})
    return best


def taken(model: nn.Module, ids: Tensor, cache: KVCache, how: str) -> Tensor:
    """Compute the logits of tokens that continue a cache, with one of WAYS. ids [B, T] -> [B, T, V]"""
    if how == "torch":
        return model.logits(model.trunk(ids, cache=cache, attend=attend_fused))
    step, (B, T) = step_of(model), ids.shape
    cache.reserve(B, T)
    run = model.prepare(cache.length, T)
    stream = step.following(model.embed_tokens(ids, cache.length, run), run.rope, cache, how)
    cache.advance(T)
    return step.logits(stream, how)


def trial(model: nn.Module, rows: int) -> tuple[Mapping[str, float], bool]:
    """Time one decode step, from tokens to logits, with each of WAYS. Returns the minimum seconds and whether they are
    reliable.

    They are reliable if every implementation that may be the fastest has reached its minimum twice.
    """
    ids, cache = torch.zeros(rows, 1, dtype=torch.long), KVCache.empty(model.config, rows, 2)
    trying = step_of(model).ways()
    times: dict[str, list[float]] = {how: [] for how in trying}  # each in increasing order
    reliable = False
    with torch.inference_mode():
        model.trunk(ids, cache=cache, attend=attend_fused)  # the first token; the timed steps continue it
        for done in range(1, _ROUNDS.stop):
            for how in trying:
                cache.truncate(1)
                began = time.perf_counter()
                taken(model, ids, cache, how)
                insort(times[how], time.perf_counter() - began)
            least = min(each[0] for each in times.values())
            most = least * (_HOPELESS if done < _ROUNDS.start else _BEHIND)
            trying = [how for how in trying if times[how][0] < most]
            reliable = done >= _ROUNDS.start and all(times[how][1] < _ALIKE * times[how][0] for how in trying)
            if reliable:
                break
    return {how: each[0] for how, each in times.items()}, reliable
