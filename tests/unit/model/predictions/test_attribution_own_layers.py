"""The parts of a logit where layers differ in size, share keys and values, read a vector of the token, and multiply the
stream (Gemma 4).
"""

import functools

import numpy as np
import pytest
import torch

from model.gpt.edits import Edit
from model.gpt.tap import record
from model.predictions.attribution import attribute, by_source, components, promoted
from model.tracing.trace import Trace, run
from tests.support.models.edited import VECTOR
from tests.support.models.helpers import OWN_LAYERS, H, V, random_ids, tiny_model, tokens_of

T, TOKEN = 13, 7
EDITS = {
    "unedited": (),
    "a head": (Edit("zero", 1, 2),),
    "vectors": (
        Edit("add_vector", 0, factor=2.0, site="resid_mid", vector=VECTOR),
        Edit("add_vector", 1, factor=0.5, site="resid_pre", vector=VECTOR),
    ),
}


@functools.cache
def traced(name: str, edits: str = "unedited") -> Trace:
    model = tiny_model(OWN_LAYERS[name])
    return run(model, tokens_of(random_ids(1, T, seed=5)[0]), edits=EDITS[edits])


def before_the_cap(trace: Trace, logit: float) -> float:
    cap = trace.config.logit_cap
    return logit if cap is None else cap * float(np.arctanh(logit / cap))


@pytest.mark.parametrize("edits", EDITS)
@pytest.mark.parametrize("name", OWN_LAYERS)
def test_the_parts_add_up_to_the_logit_and_the_sources_to_each_head(name: str, edits: str):
    trace = traced(name, edits)
    for position in (0, 9, T - 1):
        written = components(trace, position)
        found = attribute(written, trace.model, TOKEN)
        assert found.logit == pytest.approx(before_the_cap(trace, float(trace.logits_at(position)[TOKEN])), abs=1e-5)
        assert found.total == pytest.approx(found.logit, abs=2e-5)
        assert (found.entry is not None) == ("entry" in set(found.parts()["kind"])) == bool(trace.config.d_layer_input)
        values = promoted(written, trace.model, 1, None, top=V)
        assert values.values[values.ids.tolist().index(TOKEN)] == pytest.approx(found.mlps[1], abs=1e-5)
        for layer in range(trace.config.n_layer):
            for head in {0, H - 1} - {edit.head for edit in EDITS[edits] if edit.layer == layer}:
                sources = by_source(trace, layer, head, position, found.directions[layer])
                assert sources.sum() == pytest.approx(found.heads[layer, head], abs=3e-6)
    assert np.abs(found.heads).max() > 1e-3 and (found.entry is None or np.abs(found.entry).min() > 1e-5)
    assert (found.edits is not None) == (edits == "vectors")


@pytest.mark.parametrize("layer", [0, 2])
@torch.no_grad()
def test_a_logit_falls_by_what_the_vector_for_a_layer_adds(layer: int):
    """With the outputs of all sublayers, later layers' vectors and the final norm's divisor held."""
    trace, kept = traced("gemma4 E2B"), {}
    ids = torch.from_numpy(trace.tokens.ids)[None]
    trace.model(ids, tap=record({"after1_out", "after2_out", "entry_out", "final_scale"}, kept))

    def logit(held: dict) -> float:
        after = trace.model(ids, tap=lambda site, at, x: held.get((site, at), x))
        return before_the_cap(trace, float(after[0, -1, TOKEN]))

    lost = logit(kept) - logit(kept | {("entry_out", layer): torch.zeros_like(kept["entry_out", layer])})
    part = attribute(components(trace), trace.model, TOKEN).entry[layer]
    assert part == pytest.approx(lost, abs=1e-4) and abs(part) > 1e-3
