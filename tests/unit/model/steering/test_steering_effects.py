"""Effects of steering vectors, against edited runs and the weights."""

import numpy as np
import pytest
import torch

from model.attention.effects import Target, metric
from model.errors import InputError
from model.gpt.edits import Edit
from model.steering.effects import frozen_patterns, projections, steering_sweep, tokens_moved
from model.steering.vectors import pair_vectors, random_directions, steering_edit
from tests.support.models.helpers import VARIANTS, D, L, assert_close, byte_model, tiny_model

PROMPT = "a day is a day"
WATCHED = (97, 98, 100)


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("effects"))


@pytest.fixture(scope="module")
def vectors(lm):
    return pair_vectors(lm, [("a good day", "a bad day")])


def numbers(plain, edited, position):
    """Share, KL and perplexity of an edited run."""
    logits = edited.logits[position].astype(np.float64)
    shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    kl = metric(edited, Target("kl", position % len(plain.tokens)), plain)
    return shares[list(WATCHED)].sum(), kl, np.exp(metric(edited, Target("loss")))


@pytest.mark.parametrize("site", ["resid_pre", "resid_mid", "resid_post"])
@pytest.mark.parametrize("edits", [(), (Edit("mlp_scale", 1, factor=0.5), Edit("zero", 2, 1))], ids=["plain", "edited"])
def test_every_cell_of_a_sweep_is_an_edited_run(lm, vectors, site, edits):
    run = lm.trace(PROMPT).edit(*edits)
    layers, factors = [1, 2], [-3.0, 0.0, 1.5]
    found = steering_sweep(
        run, vectors, layers, factors, WATCHED, site=site, positions="4-", position=-2, draws=2, seed=5
    )
    for row, layer in enumerate(layers):
        length = np.linalg.norm(vectors[layer].astype(np.float64))
        added = [vectors[layer], *random_directions(D, length, 2, 5)]
        for column, factor in enumerate(factors):
            for draw, vector in enumerate(added):
                edited = run.edit(steering_edit(vector, layer, factor, site=site, positions="4-"))
                expected = numbers(run, edited, -2)
                at = (row, column) if draw == 0 else (draw - 1, row, column)
                every = (
                    (found.share, found.kl, found.perplexity)
                    if draw == 0
                    else (found.random_share, found.random_kl, found.random_perplexity)
                )
                np.testing.assert_allclose([each[at] for each in every], expected, rtol=2e-3, atol=2e-5)
    assert found.base_share == pytest.approx(numbers(run, run, -2)[0], rel=1e-4)
    assert found.share[:, 1] == pytest.approx([found.base_share] * 2, rel=1e-4)
    assert found.base_perplexity == pytest.approx(np.exp(metric(run, Target("loss"))), rel=1e-4)


def test_a_sweep_of_one_token_has_no_perplexity_and_can_be_cancelled(lm, vectors):
    run, told = lm.trace("a"), []
    found = steering_sweep(run, vectors, [0], [1.0], [97], draws=1, progress=lambda *seen: told.append(seen))
    assert np.isnan(found.perplexity).all() and np.isnan(found.base_perplexity) and np.isfinite(found.kl).all()
    assert told == [(0, 1, "Steering"), (1, 1, "Steering")]

    def stop(*seen):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        steering_sweep(run, vectors, [0], [1.0], [97], progress=stop)


def test_a_vector_of_zeros_changes_nothing(lm):
    run = lm.trace(PROMPT)
    found = steering_sweep(run, np.zeros((L, D), np.float32), [1], [2.0], WATCHED, draws=1)
    assert found.share[0, 0] == pytest.approx(found.base_share) and found.kl[0, 0] < 1e-9


@pytest.mark.parametrize("name", ["gpt2", "llama", "mqa"])
def test_tokens_moved_are_those_of_the_last_layer_with_a_divisor_of_one(name):
    model = tiny_model(VARIANTS[name])
    vector = np.random.default_rng(2).normal(size=D).astype(np.float32)
    x = vector - vector.mean() if name == "gpt2" else vector
    gain = 1 if model.final_norm is None else model.final_norm.weight.detach().numpy()
    values = model.unembed.weight.detach().numpy() @ (x * gain)
    found = tokens_moved(model, vector, 4, 40)
    order = np.argsort(-values[:40])
    assert found.ids.tolist() == order[:4].tolist() and found.low_ids.tolist() == order[::-1][:4].tolist()
    assert_close(found.values, values[order[:4]], 1e-4)
    assert_close(found.low_values, values[order[::-1][:4]], 1e-4)


def test_projections_are_dot_products_with_the_unit_vector(lm, vectors):
    run, moved = lm.trace(PROMPT), vectors.copy()
    moved[2] = 0
    found = projections(run, moved)
    for layer in (0, 1):
        unit = moved[layer] / np.linalg.norm(moved[layer])
        assert_close(found[layer], run.hidden(layer + 1) @ unit, 1e-4)
    assert found.shape == (L, len(run.tokens)) and not found[2].any()
    steered = run.edit(steering_edit(moved[1], 1, 2.0))
    assert_close(
        projections(steered, moved)[1] - found[1], np.full(len(run.tokens), 2 * np.linalg.norm(moved[1])), 1e-4
    )


def test_what_does_not_exist_is_refused(lm, vectors):
    run = lm.trace(PROMPT)
    for arguments, what in (
        ((vectors[:2], [0], [1.0], [97]), "a vector of the stream's width for each layer"),
        ((vectors, [L], [1.0], [97]), "layer does not exist"),
        ((vectors, [0], [101.0], [97]), "out of range"),
        ((vectors, [0], [], [97]), "empty.*factors"),
        ((vectors, [0], [1.0], [999]), "no token with this id"),
        ((np.full((L, D), np.nan, np.float32), [0], [1.0], [97]), "not finite"),
    ):
        with pytest.raises(InputError, match=what):
            steering_sweep(run, *arguments)
    with pytest.raises(InputError, match="position does not exist"):
        steering_sweep(run, vectors, [0], [1.0], [97], positions="99")
    with pytest.raises(InputError, match="another length"):
        tokens_moved(lm.model, torch.ones(D + 1).numpy())


def test_frozen_attention_keeps_every_pattern_and_moves_only_values(lm, vectors):
    """Against a tap written by hand that replaces the patterns in a whole pass."""
    run = lm.trace(PROMPT)
    kept = frozen_patterns(run)
    delta = 3 * torch.from_numpy(vectors[0])

    def tap(site, layer, x):
        if site == "pattern":
            return kept[layer]
        return x + delta if (site, layer) == ("resid_post", 0) else x

    with torch.inference_mode():
        logits = lm.model(torch.from_numpy(run.tokens.ids)[None], tap=tap)[0, -1].numpy().astype(np.float64)
    share = np.exp(logits - logits.max())[list(WATCHED)].sum() / np.exp(logits - logits.max()).sum()
    frozen = steering_sweep(run, vectors, [0], [0.0, 3.0], WATCHED, draws=1, frozen=True)
    free = steering_sweep(run, vectors, [0], [0.0, 3.0], WATCHED, draws=1)
    assert frozen.share[0, 1] == pytest.approx(share, rel=1e-3)
    assert frozen.share[0, 0] == pytest.approx(free.base_share, rel=1e-4)
    assert frozen.share[0, 1] != pytest.approx(free.share[0, 1], rel=2e-3)


def test_frozen_changes_nothing_where_patterns_cannot_change(lm, vectors):
    """With every head fixed to the first token, steering has no pattern to change."""
    fixed = [Edit("first_token", layer, head) for layer in range(L) for head in range(4)]
    run = lm.trace(PROMPT).edit(*fixed)
    for site in ("resid_pre", "resid_mid", "resid_post"):
        both = [
            steering_sweep(run, vectors, [1], [2.0], WATCHED, site=site, draws=1, frozen=on) for on in (True, False)
        ]
        assert both[0].share == pytest.approx(both[1].share, rel=1e-3)
        assert both[0].kl == pytest.approx(both[1].kl, rel=1e-2, abs=1e-5)
