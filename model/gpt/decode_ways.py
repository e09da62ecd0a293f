"""In which way a step of generation is fastest for so many rows: found by trial, and remembered.

By torch, or by the loops of `model.gpt.decode_step`: on one thread or on all, from the weights or from their codes.
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

MOST_ROWS = 16  # more are a matter for torch's products
AGAIN = 600.0  # seconds after which it is tried again whether one thread is fastest
_ROUNDS = range(3, 10)  # of a trial: by turns, so that a slow moment hits all
_ALIKE = 1.1  # the second least time is at most so many times the least where that can be relied on
_HOPELESS = 3.0  # times as long as the fastest so far: it is not tried again
_BEHIND = 1.5  # the same once there are several times of each

_FOLDERS: "weakref.WeakKeyDictionary[nn.Module, Callable[[], Path]]" = weakref.WeakKeyDictionary()


def way(model: nn.Module, rows: int) -> tuple[DecodeStep, str] | None:
    """Return the compiled step and how it is fastest for so many rows; None where torch is, or where there is no such
    step.

    It is tried at the first use of a number of rows, by all of WAYS in turn, unless that is remembered. Where one
    thread was fastest it is tried again after a while.
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
    """Have what the trials of a model find read from a file in a folder, and what they find anew written to it.

    The folder is asked for at the first trial: where nothing can be compiled there is none.
    """
    _FOLDERS[model] = folder


def lasts(how: object) -> bool:
    """Return whether a way that was fastest will be: one thread is, too, while something else takes the other cores."""
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
    """Return the logits of tokens that continue what a cache holds, in one of WAYS. ids [B, T] -> [B, T, V]"""
    if how == "torch":
        return model.logits(model.trunk(ids, cache=cache, attend=attend_fused))
    step, (B, T) = step_of(model), ids.shape
    cache.reserve(B, T)
    run = model.prepare(cache.length, T)
    stream = step.following(model.embed_tokens(ids, cache.length, run), run.rope, cache, how)
    cache.advance(T)
    return step.logits(stream, how)


def trial(model: nn.Module, rows: int) -> tuple[Mapping[str, float], bool]:
    """Least seconds of a step of so many texts, from their tokens to the logits, by each of WAYS; are they reliable?

    They are once every way that may be the fastest has taken its least time twice.
    """
    ids, cache = torch.zeros(rows, 1, dtype=torch.long), KVCache.empty(model.config, rows, 2)
    trying = step_of(model).ways()
    times: dict[str, list[float]] = {how: [] for how in trying}  # each ascending
    reliable = False
    with torch.inference_mode():
        model.trunk(ids, cache=cache, attend=attend_fused)  # a text begins; what is timed goes on with it
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
