"""Models whose layers differ in size and read more than the stream (Gemma 4): the trace recomputes them exactly."""

import functools

import numpy as np
import pytest
import torch

from model.anatomy.anatomy import n_params, weights
from model.attention.cell import explain
from model.attention.measures import attend_rows, value_rows
from model.gpt.cache import KVCache
from model.gpt.edits import Edit
from model.gpt.tap import block_sites, record
from model.tracing.trace import run
from tests.support.models.helpers import OWN_LAYERS, random_ids, tiny_model, tokens_of

T = 17
close = functools.partial(torch.testing.assert_close, atol=1e-4, rtol=1e-4)  # sums of T rounded numbers of size 1
EDITS = (Edit("zero", 1, 2), Edit("block_edge", None, None, query=9, key=8), Edit("mlp_scale", 0, factor=0.5))


@pytest.fixture(scope="module", params=OWN_LAYERS)
def model(request):
    return tiny_model(OWN_LAYERS[request.param])


@pytest.mark.parametrize("edits", [(), EDITS], ids=["plain", "edited"])
@torch.inference_mode()
def test_what_a_trace_recomputes_is_the_forward_pass(model, edits):
    ids, config = random_ids(1, T), model.config
    trace = run(model, tokens_of(ids[0]), edits=edits)
    store: dict = {}
    seen = record({"pattern", "z", "resid_pre", "resid_mid", "v"}, store)
    logits = model(ids, tap=seen if trace.tap is None else lambda *at: seen(*at[:2], trace.tap(*at)))
    close(torch.from_numpy(trace.logits), logits[0])
    for layer in range(config.n_layer):
        pattern = store["pattern", layer][0]
        close(torch.from_numpy(trace.middle(layer)), store["resid_mid", layer][0])
        close(attend_rows(trace, layer, range(T)), pattern)
        close(value_rows(trace, layer, range(T)), store["v", config.kv_source(layer)][0])
        for head in range(config.n_head):
            close(torch.from_numpy(trace.pattern(layer, head)), pattern[head])
            close(torch.from_numpy(trace.z(layer, head)), store["z", layer][0, head])
            cell = explain(trace, layer, head, 12, 10)
            assert cell.weight == pytest.approx(float(pattern[head, 12, 10]), rel=1e-4)
            assert cell.scale == config.at(layer).d_head ** 0.5 and len(cell.q) == config.at(layer).d_head
    lens = trace.logit_lens(1, [T - 1]).query(f"layer == {config.n_layer}")
    assert int(lens["token id"].iloc[0]) == int(logits[0, -1].argmax())


@torch.inference_mode()
def test_sites_are_those_that_are_listed_and_a_cache_gives_the_same_logits(model):
    ids, store = random_ids(2, T), {}
    names = {name for layer in range(model.config.n_layer) for name in block_sites(model.config, layer)}
    logits = model(ids, tap=record(names, store))
    for layer in range(model.config.n_layer):
        assert {name for name, at in store if at == layer} == set(block_sites(model.config, layer))
    cache = KVCache.empty(model.config, 2, T)
    parts = [model(ids[:, a:b], cache=cache) for a, b in ((0, 9), (9, 10), (10, T))]
    close(torch.cat(parts, 1), logits)


def test_parameters_are_counted_from_the_config_alone(model):
    counted = {each.name: each.shape for each in weights(model.config)}
    assert counted == {name: tuple(each.shape) for name, each in model.named_parameters()}
    assert n_params(model.config) == sum(np.prod(shape, dtype=int) for shape in counted.values())
