"""A run that goes on from another one has the numbers of a fresh run, and runs what is new alone."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

from model.gpt.edits import Edit
from model.gpt.rope_scaling import RopeScaling
from model.gpt.tap import record
from model.tracing import continued, head_reducer
from model.tracing import head_metrics as heads
from model.tracing.head_metrics import RowStats, find_repeats, head_metrics, rows_from_pattern, thumbnails_from_pattern
from model.tracing.trace import Trace, run
from tests.support.models.helpers import VARIANTS, L, random_ids, tiny_model, tokens_of
from tests.support.models.rounding import UNIT

ROOM = {"n_ctx": 256}


def rows_run(model) -> list[int]:
    """Filled with the number of positions of each run of block 0."""
    seen: list[int] = []
    model.blocks[0].register_forward_pre_hook(lambda block, given: seen.append(given[0].shape[1]))
    return seen


def texts(common: int, before: int, after: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two texts that begin alike for `common` tokens and go on differently; tokens come again and again."""
    a, b = random_ids(1, before, seed=1, vocab_size=9)[0], random_ids(1, after, seed=2, vocab_size=9)[0]
    b[:common] = a[: min(common, after)]
    if common < min(before, after):
        b[common] = (a[common] + 1) % 9
    return a, b


@torch.no_grad()
def exact(model, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The stream [L + 1, T, D], the statistics [7, L, H, T] and the patterns [L, H, T, T] of a float64 forward."""
    store: dict = {}
    copy.deepcopy(model).double()(ids[None], tap=record(("resid_pre", "resid_post", "pattern"), store))
    repeats, patterns = find_repeats(ids), torch.stack([store["pattern", layer][0] for layer in range(L)])
    stats = [dataclasses.astuple(rows_from_pattern_exact(pattern, repeats)) for pattern in patterns]
    stream = [store["resid_pre", layer][0] for layer in range(L)] + [store["resid_post", L - 1][0]]
    return torch.stack(stream), torch.stack([torch.stack(each) for each in zip(*stats, strict=True)]), patterns


def rows_from_pattern_exact(pattern: torch.Tensor, repeats) -> RowStats:
    """`rows_from_pattern`, whose sums start from float32 zeros, in float64."""
    kind = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return rows_from_pattern(pattern, repeats)
    finally:
        torch.set_default_dtype(kind)


def no_further(found, fresh, wanted: torch.Tensor, what: str) -> None:
    """As near to float64 as the fresh run is: float32 rounding explains the rest."""
    found, fresh, wanted = (torch.as_tensor(x).double().flatten(1) for x in (found, fresh, wanted))
    bound = 4 * ((fresh - wanted).abs().amax(1) + UNIT * (1 + wanted.abs().amax(1)))
    assert ((found - wanted).abs().amax(1) <= bound).all(), what


CASES = [  # tokens in common, in the first text, in the second
    (30, 30, 47),  # something is appended
    (25, 40, 31),  # the end is typed anew, and is shorter
    (40, 40, 23),  # tokens are taken away
    (91, 100, 121),  # a thumbnail's cell is two tokens: one of them is run again
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_that_goes_on_is_as_near_to_float64_as_a_fresh_one(name, case, monkeypatch):
    model = tiny_model(VARIANTS[name] | ROOM)
    if case[2] > 100:
        monkeypatch.setattr(head_reducer, "_BATCH", 1)  # layer by layer, as for a long text
        monkeypatch.setattr(head_reducer, "_CHUNK", 16)  # and in several chunks
    before, ids = texts(*case)
    earlier, fresh = run(model, tokens_of(before)), run(model, tokens_of(ids))
    seen = rows_run(model)
    trace = continued.run_after(model, tokens_of(ids), [earlier])
    cell = heads.pool_size(len(ids))
    assert seen == [len(ids) - min(case[0], len(ids) - 1) // cell * cell]
    stream, stats, patterns = exact(model, ids)
    no_further(trace.residuals, fresh.residuals, stream, "stream")
    for field, found, plain, wanted in zip(dataclasses.fields(RowStats), trace.rows, fresh.rows, stats, strict=True):
        no_further(found, plain, wanted, field.name)
    whole = RowStats(*stats.float().flatten(1, 2))
    metrics = head_metrics(whole, find_repeats(ids)).view(trace.metrics.shape).movedim(-1, 0)
    no_further(np.moveaxis(trace.metrics, -1, 0), np.moveaxis(fresh.metrics, -1, 0), metrics, "metrics")
    for layer in range(L):
        codes = thumbnails_from_pattern(patterns[layer].float()).numpy()
        assert np.array_equal(trace.thumbnails[layer] == heads.MASKED, codes == heads.MASKED)
        assert np.abs(trace.thumbnails[layer].astype(int) - codes).max() <= 1
    assert trace.key == fresh.key and trace.nbytes == fresh.nbytes


def test_of_several_runs_the_one_that_begins_most_alike_is_gone_on_from():
    model, ids = tiny_model(ROOM), random_ids(1, 40, seed=4, vocab_size=9)[0]
    others = [run(model, tokens_of(ids[:n])) for n in (12, 33, 20)]
    seen = rows_run(model)
    continued.run_after(model, tokens_of(ids), others)
    assert seen == [7]


def fresh_cases() -> dict[str, tuple[Trace, torch.Tensor]]:
    """Runs that nothing can be taken over from, and the text that is run then."""
    model, ids = tiny_model(ROOM), random_ids(1, 80, seed=4, vocab_size=9)[0]
    windowed = tiny_model(ROOM | {"mixer": ("softmax", "sliding_window", "softmax"), "window": 5})
    dynamic = RopeScaling(kind="dynamic", factor=2.0, original_n_ctx=32)
    stretched = tiny_model(ROOM | {"positions": "rope", "rope_scaling": dynamic})
    plain = run(model, tokens_of(ids[:30]))
    return {
        "other angles": (run(stretched, tokens_of(ids[:30])), ids[:40]),
        "edited": (plain.edit(Edit("zero", 0, 1)), ids[:40]),
        "another model": (run(tiny_model(ROOM, seed=1), tokens_of(ids[:30])), ids[:40]),
        "a window": (run(windowed, tokens_of(ids[:30])), ids[:40]),
        "larger cells": (plain, ids[:70]),
        "too little in common": (run(model, tokens_of(ids[:8])), ids[:40]),
        "a tap": (run(model, tokens_of(ids[:30]), tap=lambda site, layer, x: x * 1.5), ids[:40]),
    }


@pytest.mark.parametrize("what", fresh_cases())
def test_others_are_run_afresh(what):
    before, ids = fresh_cases()[what]
    model = tiny_model(ROOM) if what == "another model" else before.model
    seen = rows_run(model)
    trace = continued.run_after(model, tokens_of(ids), [before])
    assert seen == [len(ids)]
    assert torch.equal(trace.residuals, run(model, tokens_of(ids)).residuals)
