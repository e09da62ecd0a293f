"""Effects over a set: one pair equals the functions of one pair, and each replacement by an explicit run."""

import numpy as np
import pytest
import torch

from model.attention.effects import PATCH_SITES, Target, metric, patch, patch_heads, sweep
from model.errors import InputError
from model.sets.aligned import AlignedPair, prompt_set
from model.sets.effects import set_effects
from model.sets.templates import Pair

PAIRS = [Pair("abcab", "abdab", "1", "2"), Pair("xyzxy", "xyaxy", "3", "1"), Pair("abcabcab", "abdabdab", "5", "4")]
OTHERS = [Pair("mnomn", "mnpmn", "1", "2"), Pair("qrsqr", "qrtqr", "1", "2")]


@pytest.fixture(scope="module")
def pairs(lm) -> tuple[AlignedPair, ...]:
    made = prompt_set(lm, PAIRS, calibration=0).pairs
    return tuple(sorted(made, key=lambda each: PAIRS.index(each.pair)))


@pytest.fixture(scope="module")
def others(lm) -> tuple[AlignedPair, ...]:
    return prompt_set(lm, OTHERS, calibration=0).pairs


def run_with(lm, pair: AlignedPair, ids: tuple[int, ...], site: str, at: int, change) -> float:
    """Return the logit difference of a run in which one site of one layer is changed."""

    def tap(name: str, layer: int, x: torch.Tensor) -> torch.Tensor:
        return change(x.clone()) if (name, layer) == (site, at) else x

    with torch.inference_mode():
        logits = lm.model(torch.tensor([ids]), tap=tap)[0, -1]
    return float(logits[pair.target] - logits[pair.distractor])


@pytest.mark.parametrize("effect", ["zero", "z", *PATCH_SITES])
def test_a_set_of_one_pair_is_the_function_of_one_pair_exactly(lm, pairs, effect: str):
    pair = pairs[0]
    target = Target("difference", -1, pair.target, pair.distractor)
    clean, corrupt = lm.trace(pair.clean), lm.trace(pair.corrupt)
    expected = {
        "zero": lambda: sweep(clean, "zero", target),
        "z": lambda: patch_heads(clean, corrupt, target),
    }.get(effect, lambda: patch(clean, corrupt, target, effect))()
    found = set_effects(lm, pairs[:1], effect)
    assert np.array_equal(found.values[0], expected) and np.abs(expected).max() > 0
    assert found.clean[0] == metric(clean, target) and found.corrupt[0] == metric(corrupt, target)


@pytest.mark.parametrize("effect", ["k", "v", "q"])
def test_a_patched_part_of_a_head_is_an_explicit_run(lm, pairs, effect: str):
    found = set_effects(lm, pairs, effect).values
    config = lm.config
    assert found.shape == (3, config.n_layer, config.n_head if effect == "q" else config.n_kv_head)
    for row, pair in zip(found, pairs, strict=True):
        clean = lm.trace(pair.clean)
        before = run_with(lm, pair, pair.corrupt, "none", 0, None)
        for layer, head in np.ndindex(row.shape):
            own = clean.sites(layer, [effect])[effect][0, head]

            def change(x, own=own, head=head):
                x[0, head] = own
                return x

            after = run_with(lm, pair, pair.corrupt, effect, layer, change)
            assert row[layer, head] == pytest.approx(after - before, abs=2e-4)
    assert np.abs(found).max() > 0.05


def test_means_are_those_of_the_calibration_prompts(lm, pairs, others):
    found = set_effects(lm, pairs, "mean", calibration=others)
    z = [torch.from_numpy(lm.trace(each.clean).z(1, 2)) for each in others]
    mean = torch.cat(z).mean(0)

    def change(x):
        x[0, 2] = mean
        return x

    for number, pair in enumerate(pairs):
        after = run_with(lm, pair, pair.clean, "z", 1, change)
        assert found.values[number, 1, 2] == pytest.approx(after - found.clean[number], abs=2e-4)
    with pytest.raises(InputError, match="calibration"):
        set_effects(lm, pairs, "mean")


def test_resampling_takes_a_calibration_prompt_of_the_same_length(lm, pairs, others):
    found = set_effects(lm, pairs, "resample", calibration=others[:1], seed=3)
    assert found.numbers == (0, 1)  # no calibration prompt has the third pair's 8 tokens
    own = torch.from_numpy(lm.trace(others[0].clean).z(2, 1))

    def change(x):
        x[0, 1] = own
        return x

    for number in found.numbers:
        after = run_with(lm, pairs[number], pairs[number].clean, "z", 2, change)
        assert found.values[number, 2, 1] == pytest.approx(after - found.clean[number], abs=2e-4)
    drawn = {
        set_effects(lm, pairs[:2], "resample", calibration=others, seed=seed).values.tobytes() for seed in range(6)
    }
    assert len(drawn) > 1


def test_positions_compare_pairs_of_the_commonest_length_beside_random_vectors(lm, pairs):
    found = set_effects(lm, pairs, "resid_pre", seed=1)
    assert found.numbers == (0, 1) and found.values.shape == found.control.shape == (2, lm.config.n_layer, 5)
    same = np.zeros((lm.config.n_layer, 5), bool)
    same[:, :2] = same[0, 3:] = True  # what a token before the difference, or one that is equal in layer 0, writes
    assert (found.values[:, same] == 0).all() and (found.control[:, same] == 0).all()
    assert (found.control[:, ~same] != 0).all() and not np.allclose(found.control, found.values, atol=0.05)


def test_probabilities(lm, pairs):
    found = set_effects(lm, pairs[:1], "zero", measured="probability")
    target = Target("probability", -1, pairs[0].target)
    assert np.array_equal(found.values[0], sweep(lm.trace(pairs[0].clean), "zero", target))
