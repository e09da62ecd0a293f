"""Effects in models whose layers differ in size and share keys and values (Gemma 4), against runs of their own."""

import numpy as np
import pytest
import torch

from model.attention import effects
from model.attention.effects import Target, metric, patch, patch_heads, sweep
from model.gpt.edits import Edit
from model.tracing.trace import run
from tests.support.models.helpers import OWN_LAYERS, assert_close, tiny_model, tokens_of
from tests.support.models.two_runs import IDS, TARGET, T, number, off

DIFFERENCE: Target = TARGET["difference"]


@pytest.fixture(scope="module", params=OWN_LAYERS)
def pair(request):
    """Two prompts that differ in tokens 3 and 5."""
    model, ids = tiny_model(OWN_LAYERS[request.param]), IDS[0].clone()
    ids[[3, 5]] = torch.tensor([20, 21])
    return tuple(run(model, tokens_of(each)) for each in (IDS[0], ids))


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_a_sweep_is_one_edit_at_a_time(pair, how, monkeypatch):
    """Batches of three heads, so that rows begin before, in and after a layer whose keys and values are used again."""
    trace, config = pair[0], pair[0].config
    start = metric(trace, DIFFERENCE, trace)
    heads = [(layer, head) for layer in range(config.n_layer) for head in range(config.n_head)]
    values = [metric(trace.edit(Edit(how, *each)), DIFFERENCE, trace) - start for each in heads]
    expected = np.array(values).reshape(config.n_layer, config.n_head)
    assert np.abs(expected).min(1).max() > 5 * off(trace)  # or the comparison would see nothing
    assert_close(sweep(trace, how, DIFFERENCE), expected, off(trace))
    monkeypatch.setattr(effects, "_TOKENS", 3 * T)
    assert_close(sweep(trace, how, DIFFERENCE), expected, off(trace))


@pytest.mark.parametrize("site", ["resid_pre", "z"])
def test_a_patch_is_one_replacement_at_a_time(pair, site):
    clean, corrupted = pair
    model, ids = corrupted.model, torch.from_numpy(corrupted.tokens.ids)[None]
    result = patch_heads(*pair, DIFFERENCE) if site == "z" else patch(*pair, DIFFERENCE, site)
    expected = np.zeros_like(result)
    for layer, place in np.ndindex(*result.shape):
        new = clean.sites(layer, [site])[site][0, place]

        def tap(at, n, x, layer=layer, place=place, new=new):
            if (at, n) != (site, layer):
                return x
            x = x.clone()
            x[0, place] = new
            return x

        with torch.inference_mode():
            logits = model(ids, tap=tap)[0]
        expected[layer, place] = number(logits, DIFFERENCE) - number(torch.from_numpy(corrupted.logits), DIFFERENCE)
    assert_close(result, expected, off(*pair))
    assert np.abs(result).max() > 5 * off(*pair)
