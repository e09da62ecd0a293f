"""What holds for every warp, any logits, numbers and text."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.sampling.pipeline import Context, Parameter, Step, draw, order, softmax
from model.sampling.warps import WARPS, final, run_steps, shape

SETTINGS = settings(max_examples=250, deadline=None, derandomize=True, database=None)
OUT = -math.inf
LOGITS = st.one_of(
    st.sampled_from([OUT, OUT, 0.0, 1.0, -1.0, 2.0, 1e30, -1e30, 3e38, -3e38]),  # ties, huge ones, some out
    st.floats(-20, 20, width=32),
    st.floats(-1 / 1024, 1 / 1024, width=32),
)
CUTS = sorted(key for key, warp in WARPS.items() if warp.kind == "cut")
BELOW_AN_EDGE = sorted(set(CUTS) - {"typical", "xtc"})
BY_VALUE = sorted(set(CUTS) - {"top_p"})
SETTLED = ["epsilon", "min_p", "mirostat", "top_k", "no_repeat_ngram", "banned_words"]


@st.composite
def rows(draw_) -> torch.Tensor:
    """Logits of which at least one is in."""
    found = draw_(st.lists(LOGITS, min_size=1, max_size=12))
    if all(value == OUT for value in found):
        found[draw_(st.integers(0, len(found) - 1))] = 0.0
    return torch.tensor(found, dtype=torch.float32)


def numbers(parameter: Parameter) -> st.SearchStrategy[float]:
    if parameter.whole:
        return st.integers(int(parameter.low), int(parameter.high)).map(float)
    return st.floats(parameter.low, parameter.high)


@st.composite
def steps(draw_, keys: list[str], size: int) -> Step:
    key = draw_(st.sampled_from(keys))
    values = tuple((parameter.name, draw_(numbers(parameter))) for parameter in WARPS[key].parameters)
    tokens = st.tuples(st.integers(0, size - 1), st.floats(-100, 100))
    chosen = tuple(draw_(st.lists(tokens, max_size=4))) if WARPS[key].takes_tokens else ()
    phrase = st.lists(st.integers(0, size - 1), min_size=1, max_size=3).map(tuple)
    return Step(key, values, chosen, tuple(draw_(st.lists(phrase, max_size=4))) if WARPS[key].takes_phrases else ())


@st.composite
def contexts(draw_, size: int) -> Context:
    ids = tuple(draw_(st.lists(st.integers(0, size - 1), max_size=12)))
    memory = draw_(st.none() | st.floats(-5, 30))
    chance = draw_(st.none() | st.floats(0, 1, exclude_max=True))
    return Context(ids, draw_(st.integers(0, len(ids))), memory, chance)


@st.composite
def cases(draw_, keys: tuple[str, ...] = tuple(WARPS)) -> tuple[torch.Tensor, Step, Context]:
    logits = draw_(rows())
    return logits, draw_(steps(list(keys), len(logits))), draw_(contexts(len(logits)))


@SETTINGS
@given(case=cases())
def test_a_warp_leaves_a_distribution_and_its_input(case):
    logits, step, context = case
    before = logits.clone()
    left = run_steps(logits, (step,), context)
    assert torch.equal(logits, before) and left.data_ptr() != logits.data_ptr()
    assert left.shape == logits.shape and left.dtype == torch.float32
    assert not left.isnan().any() and not (left == math.inf).any()
    assert (left[logits == OUT] == OUT).all()  # nothing is revived
    assert torch.isfinite(left).any()
    probabilities = softmax(left.numpy())
    assert abs(probabilities.sum() - 1) < 1e-12 and probabilities.min() >= 0


@SETTINGS
@given(case=cases(tuple(CUTS)))
def test_a_cut_changes_no_logit_that_stays(case):
    logits, step, context = case
    left = run_steps(logits, (step,), context)
    stays = torch.isfinite(left)
    assert torch.equal(left[stays], logits[stays])


@SETTINGS
@given(case=cases(tuple(BELOW_AN_EDGE)))
def test_a_cut_removes_only_what_is_not_above_what_stays(case):
    logits, step, context = case
    stays = torch.isfinite(run_steps(logits, (step,), context))
    assert stays[logits.argmax()]
    gone = logits[~stays]
    assert not len(gone) or gone.max() <= logits[stays].min()


@SETTINGS
@given(case=cases(tuple(BY_VALUE)))
def test_equal_logits_share_one_fate(case):
    logits, step, context = case
    stays = torch.isfinite(run_steps(logits, (step,), context))
    for value in logits.unique():
        assert len(stays[logits == value].unique()) == 1


@SETTINGS
@given(case=cases(tuple(SETTLED)))
def test_a_second_time_changes_nothing(case):
    logits, step, context = case
    once = run_steps(logits, (step,), context)
    assert torch.equal(run_steps(once, (step,), context), once)


@SETTINGS
@given(logits=rows(), p=st.floats(0.01, 0.99))
def test_top_p_is_the_smallest_set_that_reaches_p(logits, p):
    probabilities = softmax(logits.numpy())
    stays = torch.isfinite(run_steps(logits, (Step("top_p", (("p", p),)),))).numpy()
    mine = probabilities[stays]
    assert mine.sum() >= p * (1 - 1.2e-7) - 1e-15
    assert mine.sum() - mine.min() < p
    tied = np.flatnonzero(logits.numpy() == logits.numpy()[stays].min())
    assert np.array_equal(stays[tied], np.sort(stays[tied])[::-1])  # of equals the smaller ids


@SETTINGS
@given(logits=rows(), mass=st.floats(0.01, 0.99))
def test_typical_reaches_its_mass_with_the_least_distances(logits, mass):
    probabilities = softmax(logits.numpy())
    stays = torch.isfinite(run_steps(logits, (Step("typical", (("mass", mass),)),))).numpy()
    inside = np.isfinite(logits.numpy())
    surprisal = np.log(np.exp(logits.double().numpy()[inside] - logits.max().item()).sum()) - (
        logits.double().numpy()[inside] - logits.max().item()
    )
    distance = np.abs(surprisal - (np.exp(-surprisal) * surprisal).sum())
    edge = distance[stays[inside]].max()
    assert probabilities[stays].sum() >= mass * (1 - 1.2e-7) - 1e-15
    assert (distance[~stays[inside]] >= edge).all()
    assert probabilities[inside][distance < edge * (1 - 1e-9)].sum() < mass


@SETTINGS
@given(logits=rows(), t=st.floats(0, 3) | st.sampled_from([1e-300, 1e-40, 0.01]))
def test_temperature_keeps_the_order_and_at_zero_the_first_of_the_largest(logits, t):
    left = run_steps(logits, (Step("temperature", (("temperature", t),)),))
    if t == 0:
        assert torch.isfinite(left).nonzero().tolist() == [[logits.tolist().index(logits.max())]]
        return
    assert torch.equal(torch.isfinite(left), torch.isfinite(logits))
    ordered = left[logits.argsort(stable=True)]
    assert (ordered[1:] >= ordered[:-1]).all()
    assert len(left[logits == logits.max()].unique()) == 1


@SETTINGS
@given(logits=rows())
def test_a_falling_temperature_ends_at_the_largest(logits):
    values = logits.double()[logits > OUT].unique()
    t = float(values[-1] - values[-2]) / 800 if len(values) > 1 else 1.0  # e^-800 is 0
    left = softmax(run_steps(logits, (Step("temperature", (("temperature", t),)),)).numpy())
    largest = logits.numpy() == logits.max().item()
    assert np.allclose(left, largest / largest.sum(), rtol=0, atol=1e-12)


@pytest.mark.long
@SETTINGS
@given(data=st.data(), logits=rows())
def test_a_pipeline_is_its_steps_one_after_the_other(data, logits):
    pipeline = tuple(data.draw(st.lists(steps(list(WARPS), len(logits)), max_size=5)))
    context = data.draw(contexts(len(logits)))
    shaped = shape(logits, pipeline, context)
    assert torch.equal(shaped.logits, final(logits, pipeline, context))
    left = logits
    for step, stage in zip(pipeline, shaped.stages[1:], strict=True):
        left = run_steps(left, (step,), context)
        assert torch.equal(stage, left)
    reports = shaped.report()
    kept = [report.kept for report in reports]
    assert len(reports) == len(pipeline) + 1 and kept == sorted(kept, reverse=True) and kept[-1] >= 1
    for report in reports:
        assert 0 <= report.removed <= 1 + 1e-12 and -1e-12 <= report.entropy <= math.log(report.kept) + 1e-12


@SETTINGS
@given(weights=st.lists(st.sampled_from([0.0, 1.0, 2.0, 1e-9]) | st.floats(0, 1), min_size=1, max_size=30), u=st.data())
def test_draw_and_order_by_their_definition(weights, u):
    bar = np.array(weights)
    if bar.sum() < 1e-300:
        return
    ids = sorted((i for i in range(len(bar)) if bar[i] > 0), key=lambda i: (-bar[i], i))
    assert order(bar).tolist() == ids
    target = u.draw(st.floats(0, 1, exclude_max=True)) * bar.sum()
    below, expected = 0.0, ids[-1]
    for i in ids:
        below += bar[i]
        if below > target:
            expected = i
            break
    assert draw(bar, target / bar.sum()) == expected or abs(below - target) < 1e-12
