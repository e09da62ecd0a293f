"""Draws under a rule follow the distribution of the tokens that it allows, renormalized."""

import re

import numpy as np
import pytest
import torch

from model.sampling.draw_statistics import bar_of, fit, uniforms
from model.sampling.pipeline import Step, draw, softmax
from model.sampling.warps import final
from tests.support.rules import rule, vocabulary

FULL = vocabulary()
LOGITS = np.random.default_rng(11).normal(0, 1.5, len(FULL.raw)).astype(np.float32)
ALLOWED = np.array([bool(re.fullmatch("[a-p0-4]+", each.decode("latin-1"))) for each in FULL.raw])
FITS = Step("fits", rule=rule("regex", "[a-p0-4]{8}", FULL))
WARM, NUCLEUS = Step("temperature", (("temperature", 1.7),)), Step("top_p", (("p", 0.8),))
N, LEAST = 40_000, 0.01


def shares_of(logits: np.ndarray, allowed: np.ndarray, p: float = 1.0) -> np.ndarray:
    """The softmax of the allowed logits, or of the fewest likeliest ones whose probabilities reach p."""
    weights = np.where(allowed, np.exp(logits.astype(np.float64)), 0)
    shares = weights / weights.sum()
    ranked = np.argsort(-shares)
    kept = ranked[: int(np.searchsorted(np.cumsum(shares[ranked]), p)) + 1]
    out = np.zeros_like(shares)
    out[kept] = shares[kept]
    return out / out.sum()


def expected(name: str) -> np.ndarray:
    everything, warm = np.ones_like(ALLOWED), LOGITS / np.float32(1.7)
    if name == "rule":
        return shares_of(LOGITS, ALLOWED)
    if name == "rule, temperature, top-p":
        return shares_of(warm, ALLOWED, 0.8)
    nucleus = shares_of(warm, everything, 0.8)
    return np.where(ALLOWED, nucleus, 0) / nucleus[ALLOWED].sum()


STEPS = {
    "rule": (FITS,),
    "rule, temperature, top-p": (FITS, WARM, NUCLEUS),
    "temperature, top-p, rule": (WARM, NUCLEUS, FITS),
}


@pytest.mark.parametrize("name", STEPS)
def test_draws_under_a_rule_pass_a_chi_square_test(name):
    shares = expected(name)
    probabilities = softmax(final(torch.from_numpy(LOGITS), STEPS[name]).numpy())
    bar, u = bar_of(probabilities), uniforms(5, N)
    drawn = bar.ids[bar.places(u)]  # all draws in one call
    assert drawn[:300].tolist() == [draw(probabilities, each) for each in u[:300]]
    counts = np.bincount(drawn, minlength=len(shares))
    assert counts[shares == 0].sum() == 0
    ranked = np.argsort(-shares)
    ranked = ranked[shares[ranked] > 0]
    result = fit(counts[ranked], shares[ranked])
    assert result.degrees >= 8 and result.p > LEAST


def test_the_test_tells_the_orders_apart():
    """The threshold is of use only if draws of one order fail it for the others."""
    found = {name: expected(name) for name in STEPS}
    for name in STEPS:
        bar = bar_of(softmax(final(torch.from_numpy(LOGITS), STEPS[name]).numpy()))
        counts = np.bincount(bar.ids[bar.places(uniforms(5, N))], minlength=len(LOGITS))
        for other in found.keys() - {name}:
            ranked = np.argsort(-found[other])
            ranked = ranked[found[other][ranked] > 0]
            result = fit(counts[ranked], found[other][ranked])
            assert counts[ranked].sum() < N or result.p < 1e-6
