"""Three claims on TinyGPT, whose truth is computed here from weights, maps and logits of plain traces."""

import numpy as np
import pytest

from model.api import load_model
from model.claims.registry import CLAIMS
from model.claims.study import study
from model.claims.texts import passages, spread
from model.claims.verdict import judge

TEXTS, T_975 = 20, 2.0930  # number of texts, and the 97.5% point of Student's t with 19 degrees of freedom


@pytest.fixture(scope="module")
def tinygpt():
    return load_model("tinygpt", offline=True)


@pytest.fixture(scope="module")
def runs(tinygpt):
    """A trace of each text."""
    return [tinygpt.trace(passages()[number]) for number in spread(TEXTS)]


def first_token(lm, run):
    """The mean weight on token 0 of all heads, from the queries of the second half."""
    n, config = len(run.tokens), lm.config
    heads = [(layer, head) for layer in range(config.n_layer) for head in range(config.n_head)]
    return np.mean([run.pattern(*head)[n // 2 :, 0].mean() for head in heads])


def top_half(lm, run):
    """The mean probability of the most likely token."""
    logits = run.logits.astype(np.float64)
    return np.mean([1 / np.exp(row - row.max()).sum() for row in logits])


def positions(lm, run):
    """The median length of position vectors over that of token vectors, from the weights."""
    weights = dict(lm.model.state_dict())
    token, position = weights["embed.weight"].numpy(), weights["pos_embed.weight"].numpy()
    ids = run.tokens.ids
    at, own = np.linalg.norm(position[: len(ids)], axis=1), np.linalg.norm(token[ids], axis=1)
    return np.median(at) / np.median(own)


# by claim: what it measures, above or below which number it is true, and whether it is
KNOWN = {
    "first_token": (first_token, ">", 0.5, "false"),
    "top_half": (top_half, ">", 0.5, "false"),
    "positions": (positions, "<", 1, "true"),
}


@pytest.mark.parametrize("claim", KNOWN)
def test_the_verdict_on_a_claim_is_that_of_plain_traces(tinygpt, runs, claim):
    measure, side, limit, state = KNOWN[claim]
    values = np.array([measure(tinygpt, run) for run in runs])
    found = study(tinygpt, [claim], texts=TEXTS)
    np.testing.assert_allclose(found.values[claim], values, rtol=1e-4)
    half = T_975 * values.std(ddof=1) / np.sqrt(TEXTS)
    holds = values > limit if side == ">" else values < limit
    edge = values.mean() - half if side == ">" else values.mean() + half  # the end of the interval nearest to falsity
    far = values.mean() + half if side == ">" else values.mean() - half
    true = (edge > limit if side == ">" else edge < limit) and holds.mean() >= 2 / 3
    false = (far <= limit if side == ">" else far >= limit) and holds.mean() <= 1 / 3
    assert (true, false) == (state == "true", state == "false")
    verdict = judge(CLAIMS[claim], found.values[claim])
    assert verdict.state == state and verdict.agree == holds.mean()
    assert (verdict.low, verdict.high) == pytest.approx((values.mean() - half, values.mean() + half), rel=1e-3)
