"""Masked-token predictions: the mask in the prompt, in a batch, under edits, and what is refused."""

import numpy as np
import pytest

from model.api import load_model
from model.errors import InputError
from model.gpt.edits import Edit
from model.predictions.masked import masked_logits, predict_masked
from model.predictions.predictions import follow, predict
from tests.support.models.encoders import TEXT, save_encoder

ROUNDING = 2e-5
MASK, AT = 4, 3  # the id of [MASK], and its position in TEXT


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return load_model(save_encoder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(scope="module")
def run(lm):
    return lm.trace(TEXT)


def with_mask(run, at):
    """The prompt's ids with the mask at a position."""
    ids = run.tokens.ids.copy()
    ids[at] = MASK
    return ids


def test_special_tokens_of_a_prompt_and_its_segments(lm, run):
    import torch

    assert run.tokens.pieces[0] == "[CLS]" and run.tokens.pieces[-1] == "[SEP]"
    assert lm.tokenizer.mask_id == MASK and run.tokens.ids[AT] == MASK
    two = lm.trace("the cat [SEP] it sat")
    assert two.tokens.pieces == ("[CLS]", " the", " cat", "[SEP]", " it", " sat", "[SEP]")
    assert lm.model.segments(torch.tensor(two.tokens.ids)[None]).tolist() == [[0, 0, 0, 0, 1, 1, 1]]


@pytest.mark.parametrize("at", [0, 2, AT, -2])
def test_the_logits_are_those_of_a_prompt_with_the_mask_there(lm, run, at):
    wanted = lm.trace(with_mask(run, at)).logits[at]
    assert np.abs(masked_logits(run, at, MASK) - wanted).max() < ROUNDING
    if at != AT:
        assert np.abs(run.logits[at] - wanted).max() > 1e-2  # without the mask, the model sees the token


@pytest.mark.parametrize("edit", [Edit("zero", 1, 2), Edit("mlp_zero", 0), Edit("block_edge", query=2, key=5)])
def test_edits_stay_in_force(lm, run, edit):
    edited = run.edit(edit)
    wanted = lm.trace(with_mask(run, 2)).edit(edit).logits[2]
    assert np.abs(masked_logits(edited, 2, MASK) - wanted).max() < ROUNDING
    assert np.abs(masked_logits(run, 2, MASK) - wanted).max() > 1e-3


def test_every_token_is_predicted_from_all_others(lm, run):
    special = set(lm.tokenizer.special.values())
    result = predict_masked(run, MASK, skipped=special, top=4)
    assert result.scored.tolist() == [False, True, True, False, *[True] * 8, False]
    for at in range(len(run.tokens)):
        logits = lm.trace(with_mask(run, at)).logits[at].astype(np.float64)
        log_p = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        own = run.tokens.ids[at]
        assert result.actual_log_probability[at] == pytest.approx(log_p[own], abs=1e-4)
        assert result.entropy[at] == pytest.approx(-(np.exp(log_p) * log_p).sum(), abs=1e-4)
        assert result.rank[at] == 1 + (logits > logits[own]).sum()
        assert result.ids[at].tolist() == np.argsort(-logits, kind="stable")[:4].tolist()
    assert np.isnan(result.surprisal[AT]) and np.isfinite(result.surprisal[1:3]).all()
    some = predict_masked(run, MASK, positions=[5, 2])
    none = predict_masked(run, MASK, positions=[])
    assert none.ids.shape == (0, 10) and none.surprisal.shape == none.entropy.shape == (0,)
    assert some.positions.tolist() == [5, 2] and some.rank.tolist() == result.rank[[5, 2]].tolist()


def test_what_is_refused(lm, run, tmp_path):
    with pytest.raises(InputError, match="no mask token"):
        masked_logits(run, 0, None)
    for look in (predict, lambda run: follow(run, 1)):
        with pytest.raises(InputError, match="no next token"):
            look(run)
    with pytest.raises(InputError, match="predicts no masked tokens"):
        masked_logits(load_model("tinygpt").trace("The cat"), 0, 1)
    bare = load_model(save_encoder(tmp_path / "bare", head=False))
    assert bare.gives == {"layers"} and "bare has no head that predicts tokens" in bare.lacks("token").what
    for look in (lambda: bare.trace("the cat").logits, lambda: masked_logits(bare.trace("the cat"), 1, MASK)):
        with pytest.raises(InputError, match="no head that predicts tokens"):
            look()
    assert bare.trace("the cat").pattern(0, 0).shape == (4, 4)
