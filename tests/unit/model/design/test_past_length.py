"""Past the trained length: tables of positions by hand, and losses that are the model's own where nothing is new."""

import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.design.past_length import (
    BUCKETS,
    FAMILIES,
    LEAST_WINDOWS,
    MOST_WINDOWS,
    THETAS,
    Past,
    Scheme,
    by_position,
    cost,
    edges,
    frequencies,
    parts_of,
    past_trained,
    placed,
    schemes_of,
    table_at,
    windows_of,
    windows_within,
)
from model.errors import InputError
from model.gpt.layers import rope_frequencies, rope_table, sinusoidal_positions
from model.gpt.rope_scaling import RopeScaling
from model.gpt.transformer import Transformer
from model.text.held_out import bundled_text
from tests.support.models.helpers import N_CTX, VARIANTS, D, V, assert_close, random_ids, tiny_config, tiny_model

LONG = 3 * N_CTX  # 120


def windows(count=2, length=LONG, seed=3):
    return random_ids(count, length + 1, seed)


def keys(schemes):
    return [each.key for each in schemes]


# --- which ------------------------------------------------------------------------------------------


def test_what_is_tried_with_which_model():
    config = {name: tiny_config(VARIANTS[name]) for name in VARIANTS}
    assert keys(schemes_of(config["gpt2"], LONG, 3.0)) == ["pieces", "repeat", "clamp", "interpolate", "zero"]
    assert keys(schemes_of(config["gpt2"], N_CTX, 4.0)) == ["as_is", "interpolate", "zero"]
    assert keys(schemes_of(config["post"], LONG, 3.0))[:3] == ["pieces", "as_is", "repeat"]
    assert keys(schemes_of(config["mqa"], LONG, 3.0)) == ["pieces", "as_is"]
    rope = ["pieces", "as_is", "interpolate", "ntk", "llama3", "yarn", "zero"]
    assert keys(schemes_of(config["llama"], LONG, 3.0)) == rope
    assert keys(schemes_of(config["llama"], N_CTX, 3.0)) == rope[1:]
    thetas = schemes_of(config["llama"], LONG, 3.0, "theta")
    assert [each.factor for each in thetas if each.key == "theta"] == list(THETAS)
    scaling = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=20)
    scaled = dataclasses.replace(config["llama"], rope_scaling=scaling)
    assert keys(schemes_of(scaled, LONG, 3.0)) == ["pieces", "as_is", "interpolate", "ntk", "zero"]
    with pytest.raises(ValueError, match="stretch, theta"):
        schemes_of(config["llama"], LONG, 3.0, "other")


# --- tables -----------------------------------------------------------------------------------------


def test_places_of_a_learned_table():
    model = tiny_model(VARIANTS["gpt2"])
    table = model.pos_embed.weight.detach()
    assert torch.equal(placed(model, Scheme("repeat"), LONG).table, torch.cat([table] * 3))
    clamped = placed(model, Scheme("clamp"), LONG).table
    assert torch.equal(clamped[:N_CTX], table)
    assert torch.equal(clamped[N_CTX:], table[-1].expand(LONG - N_CTX, -1))
    half = placed(model, Scheme("interpolate", 2.0), 2 * N_CTX).table
    assert torch.equal(half[::2], table)
    assert_close(half[1:-1:2], (table[:-1] + table[1:]) / 2, 1e-6)
    assert torch.equal(half[-1], table[-1])  # behind the last row there is nothing to mix with
    assert not placed(model, Scheme("zero"), LONG).table.any()
    assert torch.equal(placed(model, Scheme("interpolate", 1.0), N_CTX).table, table)
    with pytest.raises(ValueError, match="learned up to 40"):
        placed(model, Scheme("as_is"), N_CTX + 1)
    for key in ("pieces", "ntk", "yarn", "nothing"):
        with pytest.raises(ValueError, match=key):
            placed(model, Scheme(key, 2.0), N_CTX)


def test_places_between_sines():
    model = tiny_model(VARIANTS["post"])
    whole = sinusoidal_positions(0, LONG, D)
    assert torch.equal(placed(model, Scheme("as_is"), LONG).table, whole)
    assert_close(placed(model, Scheme("interpolate", 2.0), LONG).table[::2], whole[: LONG // 2], 1e-6)
    found = table_at(model, torch.tensor([2.5]))[0]
    assert found[:4].tolist() == pytest.approx(
        [
            math.sin(2.5),
            math.cos(2.5),
            math.sin(2.5 * 10_000 ** (-2 / D)),
            math.cos(2.5 * 10_000 ** (-2 / D)),
        ],
        abs=1e-6,
    )
    assert torch.equal(placed(model, Scheme("repeat"), LONG).table[N_CTX : 2 * N_CTX], whole[:N_CTX])


def test_rotations_by_hand():
    config = tiny_config(VARIANTS["llama"])  # d_head 12, theta 100
    own = rope_frequencies(config)
    assert_close(frequencies(config, Scheme("interpolate", 4.0))[0], own / 4, 1e-9)
    ntk, size = frequencies(config, Scheme("ntk", 4.0))
    assert size == 1 and ntk[0] == own[0] == 1
    assert_close(ntk[-1], own[-1] / 4, 1e-7)  # the slowest pair turns 4 times slower, which is what the formula is for
    assert_close(ntk, (100 * 4 ** (12 / 10)) ** -(torch.arange(6) / 6), 1e-7)
    assert_close(frequencies(config, Scheme("theta", 16.0))[0], 1600 ** -(torch.arange(6) / 6), 1e-7)
    # 40 tokens: a pair turns 40 f / 2 pi times; 1 to 4 turns are the ramp of Llama 3.
    turns = 40 * own / (2 * math.pi)
    share = ((turns - 1) / 3).clamp(0, 1)
    assert_close(frequencies(config, Scheme("llama3", 4.0))[0], share * own + (1 - share) * own / 4, 1e-9)
    yarn, size = frequencies(config, Scheme("yarn", 4.0))
    assert size == pytest.approx(0.1 * math.log(4) + 1)
    assert (yarn <= own).all() and (yarn >= own / 4 - 1e-9).all() and yarn[-1] == own[-1] / 4
    pair = dataclasses.replace(tiny_config(VARIANTS["llama"]), d_head=2)
    assert frequencies(pair, Scheme("ntk", 4.0))[0].tolist() == [1]


@pytest.mark.parametrize("key", ["interpolate", "ntk", "llama3", "yarn", "theta"])
@pytest.mark.parametrize("variant", ["llama", "neox", "post-rope"])
def test_a_factor_of_one_is_the_model_itself(variant, key):
    model = tiny_model(VARIANTS[variant])
    found, own = placed(model, Scheme(key, 1.0), LONG).rope, rope_table(model.config, 0, LONG)
    assert torch.equal(found[0], own[0]) and torch.equal(found[1], own[1])


def test_interpolation_is_positions_divided_by_s():
    model = tiny_model(VARIANTS["llama"])
    found, own = placed(model, Scheme("interpolate", 3.0), LONG).rope, rope_table(model.config, 0, N_CTX)
    assert_close(found[0][::3], own[0], 2e-6)
    assert_close(found[1][::3], own[1], 2e-6)


# --- losses -----------------------------------------------------------------------------------------


def expected(model, ids):
    """From the model's own forward. [B, T + 1] -> [B, T]"""
    with torch.inference_mode():
        logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(len(ids), -1)


@pytest.mark.parametrize("variant", VARIANTS)
def test_within_the_trained_length_the_losses_are_the_models_own(variant):
    """For every scheme that leaves these positions alone; those that do not change them."""
    model, ids = tiny_model(VARIANTS[variant]), windows()
    own = expected(model, ids[:, : N_CTX + 1])
    schemes = schemes_of(model.config, LONG, 3.0)
    past = past_trained(model, ids, schemes)
    assert past.loss.shape == (len(schemes), 2, LONG) and past.trained == N_CTX and past.length == LONG
    for scheme, loss in zip(schemes, past.loss, strict=True):
        if scheme.key in ("pieces", "as_is", "repeat", "clamp"):
            assert_close(loss[:, :N_CTX], own, 3e-5, scheme.key)
        else:
            assert np.abs(loss[:, 1:N_CTX] - own.numpy()[:, 1:]).max() > 1e-3, scheme.key


@pytest.mark.parametrize("variant", ["llama", "post", "mqa", "neox"])
def test_beyond_it_as_is_is_the_models_own_forward(variant):
    model, ids = tiny_model(VARIANTS[variant]), windows()
    past = past_trained(model, ids, [Scheme("as_is")])
    assert_close(past.loss[0], expected(model, ids), 3e-5)


def test_a_longer_table_is_what_was_run():
    """A model that really has the longer table says the same as the scheme."""
    model, ids = tiny_model(VARIANTS["gpt2"]), windows()
    longer = Transformer(dataclasses.replace(model.config, n_ctx=LONG)).eval()
    state = model.state_dict()
    for scheme in schemes_of(model.config, LONG, 3.0)[1:]:
        longer.load_state_dict(state | {"pos_embed.weight": placed(model, scheme, LONG).table})
        assert_close(past_trained(model, ids, [scheme]).loss[0], expected(longer, ids), 3e-5, scheme.key)


def test_an_interpolated_rotation_is_what_was_run():
    """Linear interpolation by s at every s-th position is the model's own rotation: checked through scores."""
    model, ids = tiny_model(VARIANTS["llama"]), windows()
    slow = Transformer(dataclasses.replace(model.config, rope_theta=model.config.rope_theta * 4)).eval()
    slow.load_state_dict(model.state_dict())
    assert_close(past_trained(model, ids, [Scheme("theta", 4.0)]).loss[0], expected(slow, ids), 3e-5)


@pytest.mark.parametrize("first", [None, 5])
def test_pieces_see_half_a_piece_at_least(first):
    model, ids = tiny_model(VARIANTS["gpt2"]), windows(1, 2 * N_CTX + 7)
    found = past_trained(model, ids, [Scheme("pieces")], first).loss[0, 0]
    for t in (N_CTX, N_CTX + 13, 3 * N_CTX // 2, 2 * N_CTX + 6):
        start = next(s for s in range(0, LONG, N_CTX // 2) if s + N_CTX > t)
        piece = ids[0, start : t + 2].clone()
        if first is not None:
            piece[0] = first
        assert t - start >= N_CTX // 2 - 1
        assert_close(found[t], expected(model, piece[None])[0, -1], 3e-5)


def test_nothing_of_the_model_is_changed():
    for variant in ("gpt2", "llama", "post"):
        model = tiny_model(VARIANTS[variant])
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        config = model.config
        past_trained(model, windows(1), schemes_of(config, LONG, 3.0))
        assert model.config is config
        assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_joined_products_give_the_same():
    for variant in ("gpt2", "llama"):
        model, ids = tiny_model(VARIANTS[variant]), windows(1)
        schemes = schemes_of(model.config, LONG, 3.0)
        alone = past_trained(model, ids, schemes).loss
        model.join()
        assert_close(past_trained(model, ids, schemes).loss, alone, 3e-5)


def test_progress_grows_to_its_end(monkeypatch):
    monkeypatch.setattr("model.design.past_length._TELL", -1.0)
    told = []
    past_trained(
        tiny_model(VARIANTS["gpt2"]),
        windows(9, 130),
        [Scheme("pieces"), Scheme("repeat")],
        None,
        lambda done, total, what: told.append((done, total)),
    )
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert {total for _, total in told} == {4000} and told[-1][0] == 4000  # two forwards of several windows, two ways


def test_what_cannot_be_read_is_refused():
    model = tiny_model(VARIANTS["gpt2"])
    for ids in (torch.zeros(3, dtype=torch.long), torch.zeros(2, 1, dtype=torch.long)):
        with pytest.raises(ValueError, match="windows must be"):
            past_trained(model, ids, [Scheme("repeat")])
    with pytest.raises(ValueError, match=f"0 .. {V - 1}"):
        past_trained(model, torch.full((1, 5), V), [Scheme("repeat")])


# --- text and what is read off ----------------------------------------------------------------------


def test_windows_share_one_token():
    found = windows_of(range(100), 9, 50)
    assert found.shape == (11, 10) and found[0].tolist() == list(range(10)) and found[1, 0] == 9 == found[0, -1]
    assert windows_of(range(100), 9, 3)[:, 0].tolist() == [0, 27, 63]  # spread over the text
    assert windows_of(range(100), 9, 2, first=77)[:, :2].tolist() == [[77, 1], [77, 46]]
    assert windows_of(range(10), 9, 5).shape == (1, 10)
    with pytest.raises(InputError, match="too short"):
        windows_of(range(9), 9, 5)


def test_the_bundled_text_is_long_enough():
    text = bundled_text()
    assert 30_000 < len(text) < 40_000 and text.startswith("When Sara entered")
    assert text.isascii()


def test_work_decides_how_many_windows():
    model = tiny_model(VARIANTS["gpt2"])
    assert cost(model, 200) > 2 * cost(model, 100)
    each = cost(model, 100)
    assert windows_within(model, 100, 2, 20 * each) == 10
    assert windows_within(model, 100, 2, 1.0) == LEAST_WINDOWS
    assert windows_within(model, 100, 2, 1e30) == MOST_WINDOWS


def test_the_trained_length_is_an_edge():
    assert edges(12, 6, 4) == [0, 3, 6, 9, 12] and edges(10, 4, 3) == [0, 4, 8, 10]
    for length, trained in ((1024, 512), (2048, 512), (120, 40), (100, 64), (50, 200), (7, 3), (1, 1)):
        found = edges(length, trained)
        assert found[0] == 0 and found[-1] == length and found == sorted(set(found)) and len(found) <= BUCKETS + 3
        assert trained >= length or trained in found


def test_means_and_errors_by_hand():
    loss = np.array([[[1, 2, 3, 4], [3, 4, 5, 6]], [[2, 3, 5, 7], [4, 5, 9, 9]]], dtype=np.float32)
    past = Past(2, (Scheme("pieces"), Scheme("repeat")), loss)
    mean, error = by_position(past, [0, 2, 4])
    assert_close(mean, [[2.5, 4.5], [3.5, 7.5]], 1e-12)
    assert_close(error, [[1, 1], [1, 1.5]], 1e-12)  # half the distance of two values
    mean, error = by_position(past, [0, 2, 4], difference=True)
    assert_close(mean, [[0, 0], [1, 3]], 1e-12)
    assert_close(error, [[0, 0], [0, 0.5]], 1e-12)
    inside, beyond = parts_of(past, 1)
    assert (inside.loss, inside.delta, inside.error, inside.tokens) == (3.5, 1.0, 0.0, 4)
    assert (beyond.loss, beyond.delta, beyond.error, beyond.tokens) == (7.5, 3.0, 0.5, 4)
    assert parts_of(past, 0)[1].delta == 0
    assert parts_of(Past(4, past.schemes, loss), 1)[1] is None
    alone = Past(2, past.schemes, loss[:, :1])
    assert np.isnan(by_position(alone, [0, 2, 4])[1]).all() and math.isnan(parts_of(alone, 1)[0].error)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_window_of_one_token(family):
    model = tiny_model(VARIANTS["llama"])
    past = past_trained(model, windows(1, 1), schemes_of(model.config, 1, 4.0, family))
    assert_close(past.loss - past.loss[0], np.zeros_like(past.loss), 3e-5)  # one token reads itself, however turned
