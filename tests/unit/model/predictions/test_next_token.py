"""The next token at every temperature, against the textbook's softmax and the draw that writes texts."""

import numpy as np
import pytest
from scipy.special import softmax

from model.errors import InputError
from model.predictions.next_token import next_token
from model.sampling.pipeline import draw

TEMPERATURES = (0.0, 0.05, 0.5, 1.0, 2.0)


@pytest.mark.parametrize("seed", range(5))
def test_shares_and_draws_are_those_of_the_whole_distribution(seed):
    rng = np.random.default_rng(seed)
    logits = np.round(rng.normal(scale=3, size=300), 1)  # with ties
    u = rng.random()
    found = next_token(logits, TEMPERATURES, u, top=7)
    assert found.ids.tolist() == np.argsort(-logits, kind="stable")[:7].tolist() and found.u == u
    for at, T in enumerate(TEMPERATURES):
        if not T:
            assert found.drawn[at] == found.ids[0] and found.log_sums[at] == 0
            continue
        p = softmax(logits / T)
        assert np.exp(found.logits / T - found.log_sums[at]) == pytest.approx(p[found.ids], rel=1e-12, abs=0)
        assert found.drawn[at] == draw(p, u)


def test_a_small_vocabulary_has_no_more_tokens_and_nonsense_is_refused():
    assert len(next_token(np.zeros(3), (1.0,), 0.999, top=10).ids) == 3
    for wrong, said in (
        (((-1.0,), 0.5, 1), r"Got: temperatures\[0\]: -1\.0"),
        (((1.0,), 1.0, 1), r"random number is out of range\. Got: u: 1\.0"),
        (((1.0,), 0.5, 0), "Got: top: 0"),
    ):
        with pytest.raises(InputError, match=said):
            next_token(np.zeros(3), *wrong)
