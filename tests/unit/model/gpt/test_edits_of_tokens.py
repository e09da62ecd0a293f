"""Tokens hidden from the others, and embeddings replaced: by hand, in every kind of attention, with a cache."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.generation.generate import generate
from model.generation.strategies import STRATEGIES, DecodingPlan
from model.gpt.edit_checks import check_edits, fits
from model.gpt.edits import Edit, tap_of
from model.tracing.trace import run
from tests.support.models.edited import IDS, T, traced
from tests.support.models.helpers import (
    ALL_VARIANTS,
    H,
    L,
    V,
    assert_close,
    random_ids,
    tiny_config,
    tiny_model,
    tokens_of,
)

HIDE = Edit("hide_token", positions="4")


def test_by_hand_the_weights_that_are_left_share_the_hidden_one():
    scores = torch.log(torch.tensor([[[[1.0, 0, 0], [1, 3, 0], [1, 2, 1]]]]))  # [B, H, T, S], later keys at -inf
    tap = tap_of([Edit("hide_token", positions="1")], {})
    weights = tap("scores", 0, scores).softmax(-1)[0, 0]
    assert_close(weights, torch.tensor([[1, 0, 0], [0.25, 0.75, 0], [0.5, 0, 0.5]]), 1e-6)
    later = tap("scores", 0, scores[:, :, 2:]).softmax(-1)[0, 0]  # the last query alone, as with a cache
    assert_close(later, torch.tensor([[0.5, 0, 0.5]]), 1e-6)
    two = tap_of([Edit("hide_token", positions="0-1")], {})("scores", 0, scores).softmax(-1)[0, 0]
    assert two.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]  # hidden from each other, too


@pytest.mark.parametrize("name", ALL_VARIANTS)
def test_nobody_else_sees_a_hidden_token_and_the_rows_are_scaled_up(name: str):
    plain = run(tiny_model(ALL_VARIANTS[name]), tokens_of(IDS[0]))
    hidden = plain.edit(Edit("hide_token", 0, positions="4"))  # the first layer alone: its scores are those of `plain`
    for head in range(H):
        was, now = plain.pattern(0, head), hidden.pattern(0, head)
        assert not now[np.arange(T) != 4, 4].any() and now[4, 4] == pytest.approx(was[4, 4], abs=1e-6)
        left = np.delete(was, 4, 1)
        sink = plain.config.sinks
        share = np.delete(now, 4, 1)
        if not sink:
            assert_close(now.sum(1), was.sum(1), 1e-5)
        visible = np.arange(T) != 4
        ratio = left[visible] * share[visible].sum(1, keepdims=True)
        assert_close(share[visible] * left[visible].sum(1, keepdims=True), ratio, 1e-5)
    everywhere = plain.edit(HIDE)
    assert all(not everywhere.pattern(layer, 1)[5:, 4].any() for layer in range(L))


def test_a_hidden_token_counts_for_no_later_one():
    ids = IDS[0].clone()
    ids[4] = (ids[4] + 1) % V
    first, other = (run(tiny_model(), tokens_of(each), edits=(HIDE,)) for each in (IDS[0], ids))
    rows = torch.arange(T) != 4
    assert torch.equal(first.residuals[:, rows], other.residuals[:, rows])
    assert not torch.equal(first.residuals[:, 4], other.residuals[:, 4])


def test_embeddings_are_replaced_and_positions_kept():
    model = tiny_model({"embed_scale": True})
    plain, at = run(model, tokens_of(IDS[0])), [2, 5, 6]
    with torch.no_grad():
        place, row = model.pos_embed.weight[at], model.embed.weight[7] * model.config.d_model**0.5
        mean = model.embed.weight.mean(0) * model.config.d_model**0.5
    for edit, expected in (
        (Edit("embed_zero", positions="2,5-6"), place),
        (Edit("embed_token", positions="2,5-6", token=7), place + row),
        (Edit("embed_mean", positions="2,5-6"), place + mean),
    ):
        edited = plain.edit(edit)
        assert_close(edited.hidden(0)[at], expected, 1e-5)
        rest = np.delete(np.arange(T), at)
        assert np.array_equal(edited.hidden(0)[rest], plain.hidden(0)[rest])
    ids = IDS[0].clone()
    ids[at] = 7
    as_written = run(model, tokens_of(ids))
    same = plain.edit(Edit("embed_token", positions="2,5-6", token=7))
    assert torch.equal(same.residuals, as_written.residuals)
    own = plain.edit(Edit("embed_token", positions="2", token=int(IDS[0, 2])))
    assert torch.equal(own.residuals, plain.residuals)


@pytest.mark.parametrize("name", ["bloom", "oss", "gpt2"])
def test_generation_hides_a_token_under_every_rule_of_attention(name: str):
    changes = {**ALL_VARIANTS[name]}
    changes.pop("mixer", None), changes.pop("window", None)
    model, ids = tiny_model(changes), random_ids(1, 7)[0].tolist()
    edits = (Edit("hide_token", positions="1,3"), Edit("embed_mean", positions="2"))
    plan = dataclasses.replace(DecodingPlan(5, seed=3), edits=edits)
    unlike = False
    for tick in generate(model, list(ids), [STRATEGIES["greedy"]], plan, V):
        for token in tick.changes[0].made if tick.changes[0] else ():
            logits = run(model, tokens_of(ids), edits=edits).logits[-1].astype(np.float64)
            expected = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
            assert token.log_probability == pytest.approx(expected[token.id], abs=2e-4)
            unlike |= np.abs(run(model, tokens_of(ids)).logits[-1] - logits).max() > 1e-2
            ids.append(token.id)
    assert unlike and len(ids) == 12


def test_what_cannot_be_hidden_or_replaced_is_refused():
    for changes, edit in (
        ({"mixer": ("softmax", "mamba", "linear")}, HIDE),
        ({}, Edit("hide_token", positions="13")),
        ({}, Edit("embed_token", positions="1", token=V)),
        ({}, Edit("embed_zero", positions="1", token=2)),
        ({}, Edit("embed_zero")),
    ):
        with pytest.raises(InputError):
            check_edits([edit], tiny_config(changes), T)
    states = tiny_config({"mixer": ("softmax", "mamba", "linear")})
    check_edits([Edit("hide_token", 0, positions="2")], states, T)
    assert not fits("hide_token", states) and fits("embed_zero", states) and fits("hide_token", tiny_config())
    with pytest.raises(InputError, match="no key left"):  # its own key is all that is left to token 1
        check_edits([Edit("hide_token", positions="0"), Edit("block_edge", query=1, key=1)], tiny_config(), T)
    check_edits([Edit("hide_token", positions="0"), Edit("block_edge", query=2, key=1)], tiny_config(), T)


def test_scores_of_hidden_keys_are_shown_as_hidden():
    shown = traced("llama", HIDE).scores(1, 2)
    assert np.isnan(shown[5:, 4]).all() and np.isfinite(shown[4, 4]) and math.isfinite(shown[6, 5])
