"""Heads of one run put into another: as by a hook in a forward of its own, and what follows from how heads add up."""

import numpy as np
import pytest
import torch

from model.attention.effects import Target, patch, patch_heads
from model.errors import InputError
from model.gpt.edits import Edit
from model.tracing.trace import Trace, run
from tests.support.models.helpers import FEW_VARIANTS, VARIANTS, H, L, assert_close, tokens_of
from tests.support.models.two_runs import EDITS, IDS, TARGET, T, number, off, pair, traced


@torch.no_grad()
def heads_by_hand(clean: Trace, corrupted: Trace, target: Target, at: slice) -> np.ndarray:
    """Each head's part of what an output projection reads, replaced by a hook in a forward of its own."""
    values, E = np.zeros((L, H)), clean.config.d_head

    def logits(trace: Trace, layer: int, hook) -> torch.Tensor:
        handle = trace.model.blocks[layer].attn.o.register_forward_pre_hook(hook)
        try:
            return trace.model(torch.from_numpy(trace.tokens.ids)[None], tap=trace.tap)[0]
        finally:
            handle.remove()

    for layer in range(L):
        read: list[torch.Tensor] = []  # [1, T, H E]
        logits(clean, layer, lambda module, given, read=read: read.append(given[0].clone()))
        for head in range(H):

            def put(module, given, part=slice(head * E, (head + 1) * E), read=read):
                z = given[0].clone()
                z[:, at, part] = read[0][:, at, part]
                return (z,)

            values[layer, head] = number(logits(corrupted, layer, put), target)
    return values - number(torch.from_numpy(corrupted.logits), target)


@pytest.mark.long
@pytest.mark.parametrize("edits", [(), EDITS], ids=["unedited", "edited"])
@pytest.mark.parametrize("position", [None, 4, -6])
@pytest.mark.parametrize("name", FEW_VARIANTS)
def test_a_patched_head_is_one_replacement_at_a_time(name: str, position: int | None, edits: tuple[Edit, ...]):
    clean, corrupted = pair(name, edits)
    at = slice(None) if position is None else slice(position % T, position % T + 1)
    largest, rounding = 0.0, off(clean, corrupted)
    for kind in ("logit", "difference", "probability"):
        result = patch_heads(clean, corrupted, TARGET[kind], position)
        assert result.shape == (L, H) and result.dtype == np.float32
        assert_close(result, heads_by_hand(clean, corrupted, TARGET[kind], at), rounding, kind)
        largest = max(largest, float(np.abs(result).max()))
    assert largest > 5 * rounding  # or the comparison would see nothing


@pytest.mark.parametrize("name", VARIANTS)
def test_the_only_head_that_writes_is_the_attention_output(name: str):
    clean, corrupted = pair(name, tuple(Edit("zero", 1, head) for head in (0, 1, 3)))
    whole, rounding = patch(clean, corrupted, TARGET["difference"], "attn_out"), off(clean, corrupted)
    for position in range(3, 7):
        found = patch_heads(clean, corrupted, TARGET["difference"], position)
        assert_close(found[1, 2], whole[1, position], rounding)
        assert (found[1, [0, 1, 3]] == 0).all()  # the same 0 in both runs
    assert np.abs(whole[1, 3:7]).max() > 5 * rounding


def test_all_heads_of_the_last_layer_add_up_to_its_attention_output():
    """Where nothing behind it bends: no MLP, no final norm."""
    clean, corrupted = pair("mqa", (Edit("mlp_zero", L - 1),))
    target, rounding = TARGET["difference"], off(*pair("mqa"))
    heads = patch_heads(clean, corrupted, target)
    assert_close(heads[L - 1].sum(), patch(clean, corrupted, target, "attn_out")[L - 1, 6], H * rounding)
    assert_close(patch_heads(clean, corrupted, target, 6)[L - 1], heads[L - 1], rounding)  # read at the target alone
    assert np.abs(heads[L - 1]).min() > rounding


def test_heads_that_write_the_same_in_both_runs_are_not_run():
    clean, corrupted = pair()
    for runs, position in (
        ((clean, clean.unedited()), None),
        ((clean, clean.unedited()), 4),
        ((clean, corrupted), 2),  # tokens 3 and 5 differ
        ((clean, corrupted), 7),  # the target's position is 6
    ):
        calls: list = []
        found = patch_heads(*runs, TARGET["difference"], position, lambda *told, calls=calls: calls.append(told))
        assert (found == 0).all() and found.shape == (L, H) and calls == []


def test_heads_that_cannot_be_patched():
    clean, corrupted = pair()
    shorter = run(clean.model, tokens_of(IDS[0, :-1]))
    for runs, target, position, what in (
        ((clean, shorter), TARGET["logit"], None, f"differ in length.*{T} and {T - 1} tokens"),
        ((clean, traced()), TARGET["logit"], None, "different models"),
        ((clean, corrupted), TARGET["kl"], None, "needs a target token.*kl"),
        ((clean, corrupted), TARGET["logit"], T, f"position does not exist.*0 to {T - 1}"),
        ((clean, corrupted), TARGET["logit"], 1.0, "position does not exist"),
    ):
        with pytest.raises(InputError, match=what):
            patch_heads(*runs, target, position)
