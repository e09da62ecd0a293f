"""A trace whose run goes on is, of the layers that are done, what it will be."""

import numpy as np
import pytest

from model.attention.measures import measure
from model.gpt.edits import Edit
from model.tracing.continued import run_after
from model.tracing.trace import Trace, run
from tests.support.models.helpers import VARIANTS, H, L, random_ids, tiny_model, tokens_of

ROOM = {"n_ctx": 64, "vocab_size": 9}
MEASURES = ("weights", "scores", "value_weighted", "rollout")


def read(trace: Trace, layers: int) -> list[np.ndarray]:
    """All that a picture may read of the layers before one."""
    heads = [(layer, head) for layer in range(layers) for head in range(H)]
    return [measure(trace, name, *head) for name in MEASURES for head in heads]


def noted(how) -> tuple[Trace, dict[int, tuple[Trace, float, list[np.ndarray]]]]:
    """A run, and what was read before each of its layers."""
    early: dict = {}

    def passed(trace, layers):
        early[layers] = trace, trace.seconds, read(trace, layers)

    return how(passed), early


def runs(name: str):
    """A fresh run, one that goes on from another, one under edits."""
    model = tiny_model(VARIANTS[name] | ROOM)
    ids = random_ids(1, 30, seed=1, vocab_size=9)[0]
    tokens, before = tokens_of(ids), run(model, tokens_of(ids[:20]))
    edits = (Edit("zero", 0, 1), Edit("uniform", 1, 2))
    whole = run(model, tokens)
    yield lambda passed: run(model, tokens, passed=passed)
    yield lambda passed: run_after(model, tokens, [before], passed=passed)
    yield lambda passed: whole.edit(*edits, passed=passed)


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_read_of_layers_that_are_done_is_what_the_whole_run_has(name):
    for how in runs(name):
        trace, early = noted(how)
        assert list(early) == list(range(1, L))
        seconds = [took for _, took, _ in early.values()]
        assert 0 < seconds[0] <= seconds[-1] <= trace.seconds
        for layers, (unfinished, _, arrays) in early.items():
            assert unfinished is trace and len(arrays) == layers * H * len(MEASURES)
            for found, wanted in zip(arrays, read(trace, layers), strict=True):
                assert np.array_equal(found, wanted, equal_nan=True)


def test_what_looks_at_a_run_may_end_it():
    def passed(trace, layers):
        raise KeyError

    with pytest.raises(KeyError):
        run(tiny_model(ROOM), tokens_of(random_ids(1, 5, seed=1, vocab_size=9)[0]), passed=passed)
