"""Steering vectors against transformers: hooks on its modules, alone and while it writes text."""

import numpy as np
import pytest
import torch

from model.gpt.edits import tap_of
from model.steering.vectors import pair_vectors, steering_edit
from tests.parity.two_models import blocks
from tests.support.models.helpers import assert_close
from tests.support.models.rounding import logits_within

IDS = [5, 17, 3, 44, 9, 60, 2, 31]
NEW = 6


def steered(hf, layer: int, site: str, delta: torch.Tensor, first: int, ids) -> torch.Tensor:
    """Logits [T, V] of transformers without a cache; delta is added from the token `first` on."""
    block = blocks(hf)[layer]
    attention = block.attn if hasattr(block, "attn") else block.self_attn

    def moved(x):
        return torch.cat((x[:, :first], x[:, first:] + delta), 1)

    def after(module, given, out):
        return (moved(out[0]), *out[1:]) if isinstance(out, tuple) else moved(out)

    if site == "resid_pre":
        hook = block.register_forward_pre_hook(
            lambda module, given, named: ((moved(given[0]), *given[1:]), named), with_kwargs=True
        )
    else:
        hook = (attention if site == "resid_mid" else block).register_forward_hook(after)
    with torch.no_grad():
        logits = hf(torch.tensor([ids]), use_cache=False).logits[0]
    hook.remove()
    return logits


@pytest.mark.parametrize("first", [0, 4])
@pytest.mark.parametrize("site", ["resid_pre", "resid_mid", "resid_post"])
def test_a_steered_run_and_text_are_those_of_hooks_in_transformers(both, site: str, first: int):
    hf, lm = both
    vector = np.random.default_rng(1).normal(size=48)
    edit = steering_edit(vector, 1, 3.0, site=site, positions=f"{first}-" if first else None)
    delta, ids = 3 * torch.tensor(vector, dtype=torch.float32), list(IDS)
    bound = logits_within(lm.model, torch.tensor([IDS]), tap_of([edit], {}))[0]
    assert_close(lm.trace(IDS).edit(edit).logits, steered(hf, 1, site, delta, first, IDS), bound)
    for _ in range(NEW):
        ids.append(int(steered(hf, 1, site, delta, first, ids)[-1].argmax()))
    ticks = lm.generate(IDS, "greedy", NEW, edits=[edit])
    assert [made.id for tick in ticks for made in tick.changes[0].made] == ids[len(IDS) :]
    assert not np.allclose(lm.trace(IDS).logits[-1], lm.trace(IDS).edit(edit).logits[-1], atol=1e-2)


def test_the_vector_of_pairs_is_the_mean_difference_of_hidden_states(both):
    hf, lm = both
    pairs = [("The cat sat", "The dog ran off"), ("on the mat", "on it")]
    with torch.no_grad():
        last = [
            [hf(torch.tensor([lm.encode(text).ids.tolist()]), output_hidden_states=True).hidden_states for text in pair]
            for pair in pairs
        ]
    for layer in range(2):  # transformers gives the last one after its norm
        expected = np.mean([(a[layer + 1][0, -1] - b[layer + 1][0, -1]).numpy() for a, b in last], 0)
        assert_close(pair_vectors(lm, pairs)[layer], expected, 1e-4 * np.abs(expected).max())
