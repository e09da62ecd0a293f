"""Warps, the draw and the report of a pipeline, worked by hand on small distributions."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.sampling.pipeline import (
    FIRST,
    MOST_PHRASE,
    MOST_PHRASES,
    MOST_STEPS,
    Context,
    Shaped,
    Step,
    checked,
    draw,
    entropy,
    order,
    softmax,
    uniform,
    usable,
)
from model.sampling.warps import WARPS, final, run_steps, shape, values_of
from tests.support.models.helpers import assert_close
from viz.words import words

OUT = -math.inf
P = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16]  # 1, 2, 3, 4 and 4 bits; their mean, the entropy, is 15/8 bits
WIDE = [1 / 4] * 2 + [1 / 8] * 2 + [1 / 16] * 4  # 11/4 bits


def logits_of(probabilities: list[float]) -> torch.Tensor:
    """Logits whose softmax these are."""
    return torch.tensor(probabilities, dtype=torch.float64).log().float()


def warped(warp: str, values: dict[str, float], logits: torch.Tensor, context: Context | None = None) -> torch.Tensor:
    return run_steps(logits, (Step(warp, tuple(values.items())),), context or Context())


def kept(warp: str, values: dict[str, float], logits: torch.Tensor, context: Context | None = None) -> list[int]:
    """Ids that stay; what stays must have kept its logit."""
    left = warped(warp, values, logits, context)
    ids = torch.isfinite(left).nonzero()[:, 0].tolist()
    assert torch.equal(left[ids], logits[ids])
    return ids


@pytest.mark.parametrize(
    ("warp", "values", "ids"),
    [
        ("top_k", {"k": 2}, [0, 1]),
        ("top_k", {"k": 4}, [0, 1, 2, 3, 4]),  # the fourth and the fifth are equal
        ("top_k", {"k": 1000}, [0, 1, 2, 3, 4]),
        ("top_k", {"k": 0}, [0, 1, 2, 3, 4]),  # off
        ("top_p", {"p": 0}, [0]),
        ("top_p", {"p": 0.5}, [0]),  # exactly reached
        ("top_p", {"p": 0.51}, [0, 1]),
        ("top_p", {"p": 0.75}, [0, 1]),
        ("top_p", {"p": 0.9}, [0, 1, 2, 3]),  # 15/16; of equals the smaller id
        ("top_p", {"p": 1}, [0, 1, 2, 3, 4]),
        ("min_p", {"min_p": 0.5}, [0, 1]),
        ("min_p", {"min_p": 0.51}, [0]),
        ("min_p", {"min_p": 0.125}, [0, 1, 2, 3, 4]),
        ("min_p", {"min_p": 1}, [0]),
        ("min_p", {"min_p": 0}, [0, 1, 2, 3, 4]),
        # distances from 15/8 bits: 7/8, 1/8, 9/8, 17/8, 17/8
        ("typical", {"mass": 0.25}, [1]),  # the likeliest is out
        ("typical", {"mass": 0.26}, [0, 1]),
        ("typical", {"mass": 0.76}, [0, 1, 2]),
        ("typical", {"mass": 0.9}, [0, 1, 2, 3, 4]),  # the last two are as far
        ("typical", {"mass": 1}, [0, 1, 2, 3, 4]),
        ("epsilon", {"epsilon": 0.125}, [0, 1, 2]),
        ("epsilon", {"epsilon": 0.126}, [0, 1]),
        ("epsilon", {"epsilon": 0.9}, [0]),
        ("epsilon", {"epsilon": 0}, [0, 1, 2, 3, 4]),
        ("eta", {"eta": 0}, [0, 1, 2, 3, 4]),
        # sqrt(1/4) 2^(-15/8) = 0.136 is less than 1/4
        ("eta", {"eta": 0.25}, [0, 1]),
        # sqrt(1/64) 2^(-15/8) = 0.034 is more than 1/64
        ("eta", {"eta": 1 / 64}, [0, 1, 2, 3, 4]),
        ("mirostat", {"tau": 1}, [0, 1]),  # at most 2 bits
        ("mirostat", {"tau": 0.9}, [0]),
        ("mirostat", {"tau": 0.1}, [0]),
    ],
)
def test_cuts_by_hand(warp, values, ids):
    assert kept(warp, values, logits_of(P)) == ids


def test_the_order_of_the_ids_does_not_matter():
    shuffled = logits_of([P[3], P[1], P[4], P[0], P[2]])
    assert kept("top_k", {"k": 2}, shuffled) == [1, 3]
    assert kept("top_p", {"p": 0.9}, shuffled) == [0, 1, 3, 4]
    assert kept("typical", {"mass": 0.25}, shuffled) == [1]


def test_eta_spares_a_flat_distribution_which_epsilon_cuts():
    assert kept("epsilon", {"epsilon": 0.1}, logits_of(WIDE)) == [0, 1, 2, 3]
    assert kept("eta", {"eta": 0.1}, logits_of(WIDE)) == list(range(8))  # sqrt(0.1) 2^(-11/4) = 0.047


@pytest.mark.parametrize(
    ("logits", "n", "ids"),
    [
        ([0.0, 1, 2, 3, 4], 1, [3, 4]),  # mean 2, sigma sqrt 2: from 2.59 up
        ([0.0, 1, 2, 3, 4], 1.4, [3, 4]),  # from 2.02 up
        ([0.0, 1, 2, 3, 4], 2, [2, 3, 4]),
        ([0.0, OUT, 1, 2, 3, OUT, 4], 1, [4, 6]),  # what is out does not count
        ([10.0, OUT, 11, OUT, 12], 1, [4]),  # with zeros instead, sigma would be 5.4
        ([0.0, 0, 4, 4], 2, [0, 1, 2, 3]),  # sigma 2, exactly at the edge
        ([0.0, 0, 4, 4], 1.99, [2, 3]),
        ([5.0, 5, 5], 0.05, [0, 1, 2]),
        ([7.0], 1, [0]),
    ],
)
def test_top_n_sigma_by_hand(logits, n, ids):
    assert kept("top_n_sigma", {"n": n}, torch.tensor(logits)) == ids


def test_a_sum_is_reached_in_spite_of_rounding():
    """ln 0.3 and ln 0.4 are no float32 numbers: without a margin each of these sums stays a little short."""
    assert kept("top_p", {"p": 0.4}, logits_of([0.4, 0.3, 0.3])) == [0]
    assert kept("top_p", {"p": 0.7}, logits_of([0.4, 0.3, 0.3])) == [0, 1]
    assert kept("typical", {"mass": 0.3}, logits_of([0.5, 0.3, 0.2])) == [1]


@pytest.mark.parametrize(("warp", "name"), [("top_p", "p"), ("typical", "mass"), ("min_p", "min_p")])
def test_a_cut_that_is_off_keeps_the_faintest_token(warp, name):
    logits = torch.tensor([0.0, -20, -1000, OUT])
    assert kept(warp, {name: 0 if warp == "min_p" else 1}, logits) == [0, 1, 2]


def test_temperature_by_hand():
    logits = logits_of([0.8, 0.2])
    assert_close(softmax(warped("temperature", {"temperature": 0.5}, logits).numpy()), [16 / 17, 1 / 17], 1e-6)
    assert_close(softmax(warped("temperature", {"temperature": 2}, logits).numpy()), [2 / 3, 1 / 3], 1e-6)
    assert warped("temperature", {"temperature": 0}, torch.tensor([1.0, 3, 3, 2])).tolist() == [OUT, 3, OUT, OUT]


def test_top_p_of_zero_keeps_the_first_of_equals():
    assert kept("top_p", {"p": 0}, torch.tensor([1.0, 3, OUT, 3])) == [1]


@pytest.mark.parametrize("t", [0.01, 1e-30, 1e-300, 5e-324])
def test_a_low_temperature_stays_finite(t):
    logits = torch.tensor([2.0, 1e37, OUT, -1e37, 1e37])
    left = warped("temperature", {"temperature": t}, logits)
    assert torch.isfinite(left).tolist() == [True, True, False, True, True]
    assert_close(softmax(left.numpy()), [0, 0.5, 0, 0, 0.5], 0)


def test_repetition_penalty_below_one_rewards_repeats():
    logits = torch.tensor([3.0, -3, 0, 3, OUT, 3e38])
    left = warped("repetition_penalty", {"penalty": 0.5}, logits, Context((0, 1, 0, 2, 4, 5), 2))
    assert left.tolist() == [6, -1.5, 0, 3, OUT, torch.finfo(torch.float32).max]


def test_repetition_penalty_divides_or_multiplies_once():
    logits = torch.tensor([3.0, -3, 0, 3, OUT, -3e38])
    left = warped("repetition_penalty", {"penalty": 1.5}, logits, Context((0, 1, 0, 2, 4, 5, 99), 2))
    assert left.tolist() == [2, -4.5, 0, 3, OUT, torch.finfo(torch.float32).min]


def test_presence_and_frequency_count_what_was_written():
    context = Context((0, 1, 1, 2, 1, 3), prompt=2)  # written: 1, 2, 1, 3
    logits = torch.tensor([5.0, 5, 5, OUT, 5])
    assert warped("presence_penalty", {"presence": 0.5}, logits, context).tolist() == [5, 4.5, 4.5, OUT, 5]
    assert warped("frequency_penalty", {"frequency": 0.5}, logits, context).tolist() == [5, 4, 4.5, OUT, 5]
    assert warped("frequency_penalty", {"frequency": -2}, logits, context).tolist() == [5, 9, 7, OUT, 5]


@pytest.mark.parametrize(
    ("n", "text", "ids"),
    [
        (2, (1, 2, 3, 1), [0, 1, 3]),  # 1 2 was there
        (2, (1, 2, 1, 3, 1), [0, 1]),  # so were 1 2 and 1 3
        (3, (1, 2, 3, 1), [0, 1, 2, 3]),
        (3, (0, 1, 2, 3, 1, 2), [0, 1, 2]),
        (1, (1, 2), [0, 3]),
        (2, (1, 1), [0, 2, 3]),
        (2, (1,), [0, 1, 2, 3]),
        (3, (), [0, 1, 2, 3]),
        (1, (0, 1, 2, 3), [0, 1, 2, 3]),  # nothing would be left
        (1, (1, 77), [0, 2, 3]),  # a token without a logit
    ],
)
def test_no_repeat_ngram_by_hand(n, text, ids):
    assert kept("no_repeat_ngram", {"ngram": n}, torch.arange(4.0), Context(text, 1)) == ids


def test_logit_bias_adds():
    step = Step("logit_bias", tokens=((2, 1.5), (0, -100.0), (2, 1.0), (3, 5.0)))
    assert final(torch.tensor([1.0, 2, 3, OUT]), (step,)).tolist() == [-99, 2, 5.5, OUT]


def test_mirostat_remembers():
    """tau = 1 bit, rate 1/2; mu starts at 2."""
    remember, values = WARPS["mirostat"].remember, {"tau": 1.0, "rate": 0.5}
    assert remember(values, None, 1 / 4) == 1.5  # 2 bits, 1 too many
    assert remember(values, 1.5, 1.0) == 2.0  # 0 bits, 1 too few
    assert remember(values, 2.0, 1 / 8) == 1.0  # 3 bits, 2 too many


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.5, math.nan])
def test_mirostat_wants_the_probability_of_a_drawn_token(probability):
    with pytest.raises(ValueError, match="drawn token"):
        WARPS["mirostat"].remember({"tau": 1.0, "rate": 0.5}, None, probability)


def test_mirostat_over_four_tokens():
    """2/3 and 1/3 are left of P; then mu has sunk below 2 bits, and only the likeliest is."""
    step = Step("mirostat", (("tau", 1.0), ("rate", 0.5)))
    memory, ids, seen = None, [], []
    for u in (0.5, 0.9, 0.9, 0.9):
        left = shape(logits_of(P), (step,), Context(memory=memory))
        token = draw(left.probabilities(), u)
        memory = WARPS["mirostat"].remember(values_of(step), memory, left.probabilities()[token])
        ids.append(token)
        seen.append(memory)
    first = 2 - 0.5 * (math.log2(3 / 2) - 1)
    second = first - 0.5 * (math.log2(3) - 1)  # 1.915
    assert ids == [0, 1, 0, 1]
    assert_close(seen, [first, second, second + 0.5, second + 0.5 - 0.5 * (math.log2(3) - 1)], 1e-6)


ADVERSARIES = {
    "one token": [0.5],
    "one left": [OUT, 3.0, OUT],
    "all equal": [2.0] * 6,
    "huge": [1e30, 0.0, -1e30, 5.0],
    "two huge": [0.0, 1e30, 1e30, OUT],
    "far below": [-1e30, -1e30, OUT, -2e30],
    "largest": [3.4e38, -3.4e38, OUT, 0.0],
}


@pytest.mark.filterwarnings("error")  # of overflow
@pytest.mark.parametrize("logits", ADVERSARIES.values(), ids=ADVERSARIES)
@pytest.mark.parametrize("warp", WARPS)
def test_every_warp_at_its_bounds_leaves_a_distribution(warp, logits):
    logits = torch.tensor(logits)
    context = Context(tuple(range(len(logits))) * 2, 1)
    bounds = [(p.low, p.high, p.default) for p in WARPS[warp].parameters]
    for values in zip(*bounds, strict=True) if bounds else [()]:
        names = [p.name for p in WARPS[warp].parameters]
        step = Step(warp, tuple(zip(names, values, strict=True)), ((0, 100.0), (0, 100.0)), ((0,),))
        for each in (context, replace(context, chance=0.0)):
            left = final(logits, (step,), each)
            assert left.data_ptr() != logits.data_ptr()
            assert left.dtype == torch.float32 and not left.isnan().any() and not (left == math.inf).any()
            assert (left[logits == OUT] == OUT).all()
            assert softmax(left.numpy()).sum() == pytest.approx(1, abs=1e-12)


def test_two_huge_logits_are_half_each():
    """The entropy is ln 2 whatever the logits' size, so that one bit of surprisal is what both have."""
    logits = torch.tensor(ADVERSARIES["two huge"])
    for warp, values in {"mirostat": {"tau": 0.5}, "typical": {"mass": 0.5}, "epsilon": {"epsilon": 0.5}}.items():
        assert kept(warp, values, logits) == [1, 2]
    assert kept("top_p", {"p": 0.5}, logits) == [1]


def test_a_report_by_hand():
    steps = (Step("top_k", (("k", 3),)), Step("temperature", (("temperature", 0.5),)), Step("top_p", (("p", 0.7),)))
    reports = shape(logits_of(P), steps).report()
    squares = [16 / 21, 4 / 21, 1 / 21]
    bits = [15 / 8, 4 / 7 * math.log2(7 / 4) + 2 / 7 * math.log2(7 / 2) + 1 / 7 * math.log2(7)]
    nats = [bits[0] * math.log(2), bits[1] * math.log(2), -sum(p * math.log(p) for p in squares), 0]
    assert [report.kept for report in reports] == [5, 3, 3, 1]
    assert_close([report.removed for report in reports], [0, 1 / 8, 0, 5 / 21], 1e-6)
    assert_close([report.entropy for report in reports], nats, 1e-6)
    assert_close([report.effective for report in reports], np.exp(nats), 1e-6)


def test_what_is_out_from_the_start_is_no_mass():
    first, second = shape(torch.tensor([0.0, OUT, 0.0]), (Step("top_p", (("p", 0.5),)),)).report()
    assert (first.kept, first.removed, first.effective) == (2, 0, 2)
    assert (second.kept, second.removed, second.effective) == (1, 0.5, 1)


def test_shape_keeps_every_stage_and_final_only_the_last():
    steps = (Step("temperature", (("temperature", 0.5),)), Step("top_k", (("k", 2),)))
    logits = logits_of(P).double()
    shaped = shape(logits, steps)
    assert isinstance(shaped, Shaped) and shaped.stages.dtype == torch.float32
    assert torch.equal(shaped.stages[0], logits.float()) and torch.equal(shaped.stages[1], logits.float() / 0.5)
    assert torch.equal(shaped.logits, final(logits, steps))
    assert [shaped.kept(stage) for stage in range(3)] == [5, 5, 2]
    assert_close(shaped.probabilities(), [4 / 5, 1 / 5, 0, 0, 0], 1e-6)
    assert shape(logits, ()).report()[0].kept == 5


def test_every_number_has_one_name_and_a_default_within_bounds():
    own = {parameter for warp in WARPS.values() for parameter in warp.parameters}
    assert len({parameter.name for parameter in own}) == len(own)  # a shared name is the same setting everywhere
    for warp in WARPS.values():
        assert warp.chance in {"", *(parameter.name for parameter in warp.parameters)}
    for parameter in (parameter for warp in WARPS.values() for parameter in warp.parameters):
        assert parameter.low <= parameter.default <= parameter.high and parameter.step > 0
        stops = (parameter.default - parameter.low) / parameter.step
        assert stops == pytest.approx(round(stops), abs=1e-6)  # a slider can stand at the default
        assert f"parameter.{parameter.name}" in words("en")
    assert all(f"{part}.{key}" in words("en") for key in WARPS for part in ("warp", "warp_help"))
    assert {warp.kind for warp in WARPS.values()} == {"scale", "cut", "penalty"}


def test_defaults_fill_in_what_a_step_leaves_out():
    assert values_of(Step("mirostat", (("tau", 3.0),))) == {"tau": 3.0, "rate": 0.1}


@pytest.mark.parametrize(
    "steps",
    [
        (Step("nothing"),),
        (Step("top_k", (("p", 0.5),)),),
        (Step("top_k", (("k", -1.0),)),),
        (Step("top_p", (("p", -0.01),)),),
        (Step("repetition_penalty", (("penalty", 0.0),)),),
        (Step("typical", (("mass", 0.0),)),),
        (Step("presence_penalty", (("presence", -2.1),)),),
        (Step("top_k", (("k", 2.5),)),),
        (Step("top_p", (("p", math.nan),)),),
        (Step("logit_bias", tokens=((9, 1.0),)),),
        (Step("logit_bias", tokens=((0, 101.0),)),),
        (Step("logit_bias", tokens=((0, math.nan),)),),
        (Step("banned_words", phrases=((),)),),
        (Step("banned_words", phrases=((1, 9),)),),
        (Step("banned_words", phrases=((1,) * (MOST_PHRASE + 1),)),),
        (Step("dry", phrases=((1,),) * (MOST_PHRASES + 1)),),
        (Step("xtc", (("threshold", 0.0),)),),
        (Step("repetition_penalty", (("window", -1.0),)),),
        (Step("top_k"),) * (MOST_STEPS + 1),
    ],
)
def test_steps_out_of_bounds_are_refused(steps):
    with pytest.raises(InputError):
        checked(steps, WARPS, 9)


def test_steps_within_bounds_pass():
    steps = (Step("top_k", (("k", 2.0),)), Step("logit_bias", tokens=((8, -100.0),)))
    assert checked(steps, WARPS, 9) is steps


def test_rows_without_a_token_cannot_be_drawn():
    assert usable(torch.ones(2, 4), 3).tolist() == [[1, 1, 1, OUT]] * 2
    assert usable(torch.ones(4), 4).tolist() == [1] * 4


def test_order_is_likeliest_first_and_of_equals_the_smaller_id():
    assert order(np.array([0.1, 0.3, 0, 0.3, 0.1, 0.2])).tolist() == [1, 3, 5, 0, 4]
    values = np.random.default_rng(0).integers(0, 7, 5000).astype(float)
    ids = np.flatnonzero(values)
    assert np.array_equal(order(values), ids[np.argsort(-values[ids], kind="stable")])


def test_draw_by_hand():
    """The bar, likeliest first: 1 from 0 to 1/2, 2 to 3/4, 0 to 7/8, 3 to 1."""
    bar = np.array([1 / 8, 1 / 2, 1 / 4, 1 / 8, 0])
    drawn = {0.0: 1, 0.499: 1, 0.5: 2, 0.749: 2, 0.75: 0, 0.874: 0, 0.875: 3, np.nextafter(1, 0): 3}
    assert {u: draw(bar, u) for u in drawn} == drawn


DISTRIBUTIONS = {
    "few": np.array(P),
    "flat": np.full(3 * FIRST, 1 / (3 * FIRST)),
    "steep": softmax(4 * np.random.default_rng(1).standard_normal(3 * FIRST)),
    "wide": softmax(0.1 * np.random.default_rng(2).standard_normal(3 * FIRST)),
    "steps": softmax(np.random.default_rng(3).integers(0, 3, 3 * FIRST).astype(float)),
    "mostly out": softmax(np.where(np.arange(3 * FIRST) % 4, OUT, np.arange(3 * FIRST) % 7)),
}


@pytest.mark.parametrize("p", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_draw_is_the_inverse_of_the_cumulative_distribution(p):
    ids = np.argsort(-p, kind="stable")[: np.count_nonzero(p)]
    edges = np.cumsum(p[ids])
    for u in np.random.default_rng(4).random(300):
        assert draw(p, u) == ids[np.searchsorted(edges, u * edges[-1], side="right")]


def test_a_number_next_to_one_draws_the_last_token_although_sums_are_rounded():
    for seed in range(20):
        p = np.random.default_rng(seed).random(40 * FIRST)
        assert draw(p, np.nextafter(1, 0)) == order(p)[-1]


@pytest.mark.parametrize("p", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_an_even_grid_of_numbers_gives_every_token_its_share(p):
    n = 4096
    counts = np.bincount([draw(p, (i + 0.5) / n) for i in range(n)], minlength=len(p))
    assert np.abs(counts / n - p).max() <= 1 / n
    assert not counts[p == 0].any()


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def test_tokens_drawn_with_the_numbers_of_the_steps_are_distributed_as_they_should_be():
    p, n = softmax(np.arange(8) / 3), 8000
    counts = np.bincount([draw(p, uniform(5, step)) for step in range(n)], minlength=8)
    assert chi_square(counts, n * p) < 24.3  # the 0.999 quantile at 7 degrees of freedom


@pytest.mark.parametrize("other", [(0, 1, 0), (1, 0, 0), (0, 0, 1)], ids=["step", "seed", "row"])
def test_numbers_of_neighbors_are_even_and_independent(other):
    """An 8 by 8 table of each number and the one of the next step, the next seed or the next row."""
    seed, step, row = other
    n = 6400
    first = np.array([uniform(3, i) for i in range(n)])
    second = np.array([uniform(3 + seed, i + step, row) for i in range(n)])
    counts = np.histogram2d(first, second, bins=8, range=[[0, 1], [0, 1]])[0]
    assert chi_square(counts, np.full((8, 8), n / 64)) < 103.4  # the 0.999 quantile at 63 degrees of freedom


def test_the_number_of_a_step_does_not_depend_on_what_was_drawn_before():
    assert uniform(7, 3) == uniform(7, 3)
    assert len({uniform(7, 3), uniform(7, 4), uniform(8, 3), uniform(7, 3, 1)}) == 4


def test_entropy_by_hand():
    assert_close(entropy(np.array([P, [1, 0, 0, 0, 0]])), [15 / 8 * math.log(2), 0], 1e-12)
