"""Where steering vectors come from."""

import numpy as np
import pytest

from model.errors import InputError
from model.gpt.edits import Edit
from model.gpt.placed_vectors import vector_of
from model.steering.vectors import (
    checked_vector,
    neuron_vector,
    pair_vectors,
    random_directions,
    run_difference,
    steering_edit,
    stream_at,
    token_vector,
    typed_vector,
    unit_vector,
)
from tests.support.models.helpers import D, L, M, assert_close, byte_model

PAIRS = [("a good day", "a bad day"), ("very good", "very bad!")]


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("vectors"))


def test_pairs_give_the_mean_difference_at_every_layer(lm):
    runs = [[lm.trace(text) for text in pair] for pair in PAIRS]
    last = np.mean([one.residuals[1:, -1] - other.residuals[1:, -1] for one, other in runs], 0)
    assert_close(pair_vectors(lm, PAIRS), last, 1e-5)
    mean = np.mean([one.residuals[:-1].mean(1) - other.residuals[:-1].mean(1) for one, other in runs], 0)
    assert_close(pair_vectors(lm, PAIRS, site="resid_pre", read="mean"), mean, 1e-5)
    middle = np.mean([one.middle(1)[-1] - other.middle(1)[-1] for one, other in runs], 0)
    assert_close(pair_vectors(lm, PAIRS, site="resid_mid")[1], middle, 1e-5)
    assert np.array_equal(pair_vectors(lm, [(b, a) for a, b in PAIRS]), -pair_vectors(lm, PAIRS))
    assert not pair_vectors(lm, [("same", "same")]).any()


def test_two_runs_differ_by_what_is_added_to_the_other(lm):
    run, other = lm.trace("a good day"), lm.trace("the bad dog")
    vector = run_difference(run, other, 1, position=3, other_position=-2)
    moved = other.edit(steering_edit(vector, 1, positions="9"))
    assert_close(stream_at(moved, 1)[9], stream_at(run, 1)[3], 1e-4)
    with pytest.raises(InputError, match="position does not exist"):
        run_difference(run, other, 1, position=99)


def test_a_token_and_a_neuron_are_rows_of_the_weights(lm):
    row = lm.model.unembed.weight[65].detach().numpy()
    assert_close(token_vector(lm, 65), row / np.linalg.norm(row), 1e-6)
    row = lm.model.embed.weight[65].detach().numpy()
    assert_close(token_vector(lm, 65, "embedding"), row / np.linalg.norm(row), 1e-6)
    run = lm.trace("a good day")
    held = [
        run.edit(Edit("neuron_value", 2, neuron=17, value=value)).sites(2, ["mlp_out"])["mlp_out"]
        for value in (1.0, 0.0)
    ]
    assert_close((held[0] - held[1])[0, 3], neuron_vector(lm, 2, 17), 1e-4)
    for bad in (lambda: token_vector(lm, 256), lambda: neuron_vector(lm, 2, M), lambda: neuron_vector(lm, L, 0)):
        with pytest.raises(InputError, match=r"no token|does not exist"):
            bad()


def test_typed_numbers():
    assert typed_vector("[1, -2.5;\n3e-1]", 3).tolist() == [1.0, -2.5, np.float32(0.3)]
    for text, width, what in (
        ("1 two 3", 3, "not a number.*two"),
        ("1 2", 3, "another length than the stream.*stream has 3"),
        ("1 nan 2", 3, "not finite.*entry 1"),
        ("1 1e39 2", 3, "not finite.*entry 1"),
    ):
        with pytest.raises(InputError, match=what):
            typed_vector(text, width)
    with pytest.raises(InputError, match="another length"):
        checked_vector(np.ones((2, 3)), 3)


def test_random_directions_have_the_length_and_no_preferred_direction():
    drawn = random_directions(48, 7.5, 64, seed=3)
    assert_close(np.linalg.norm(drawn, axis=1), np.full(64, 7.5), 1e-5)
    assert np.array_equal(drawn, random_directions(48, 7.5, 64, seed=3))
    assert np.abs((drawn / 7.5).mean(0)).max() < 4 * (48 * 64) ** -0.5
    cosines = drawn @ drawn.T / 7.5**2
    assert np.abs(cosines[~np.eye(64, dtype=bool)]).max() < 6 * 48**-0.5
    assert not unit_vector(np.zeros(3)).any() and unit_vector(np.array([3.0, 4.0])).tolist() == [
        np.float32(0.6),
        np.float32(0.8),
    ]


def test_an_edit_holds_its_vector(lm):
    edit = steering_edit(np.arange(D), 1, 2, site="resid_mid", positions="2-", name="counting")
    assert edit == Edit(
        "add_vector", 1, factor=2.0, site="resid_mid", vector=edit.vector, positions="2-", name="counting"
    )
    assert vector_of(edit.vector).tolist() == list(range(D))
    with pytest.raises(InputError, match="not finite"):
        steering_edit(np.full(D, np.inf), 1)
    with pytest.raises(InputError, match="another length"):
        lm.trace("a").edit(steering_edit(np.ones(D - 1), 1))
