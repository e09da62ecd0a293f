"""Which heads work together: maps of the composition scores, from the weights alone."""

import json

import numpy as np
import pytest

from model.api import LanguageModel
from model.attention.circuits import composition
from tests.support.models.helpers import H, L, assert_close, serving, tiny_model
from tests.support.views.views import array, drawn, traces
from viz.numbers import exact, number, signed
from viz.views.heads.heads import measure

PROMPT = "abcab"


def parts_of(playground, form=None, **changes):
    return drawn(playground, "heads", "heads", form, **{"prompt": PROMPT, "heads": [[1, 2]], **changes})


@pytest.mark.parametrize("head", [(0, 3), (1, 2), (2, 0)])
def test_maps_are_scores_less_those_of_random_heads(playground, lm, head):
    payload = parts_of(playground, heads=[list(head)])["composition"]
    found = composition(lm.model, *head)
    maps = traces(payload)
    assert [trace["name"] for trace in maps] == [
        "through the query (Q)",
        "through the key (K)",
        "through the value (V)",
    ]
    for trace, kind in zip(maps, "qkv", strict=True):
        z = array(trace["z"])  # [L, H]
        expected = np.full((L, H), np.nan)
        expected[: head[0]] = found.reads[kind][: head[0]] - found.baseline
        expected[head[0] + 1 :] = found.feeds[kind][head[0] + 1 :] - found.baseline
        assert_close(z, expected, 1e-7, kind)
        told = trace["hovertext"]
        for layer in range(L):
            score = found.reads[kind] if layer < head[0] else found.feeds[kind]
            me, other = f"head {head[0]}.{head[1]}", f"head {layer}.1"
            reader, read = (me, other) if layer < head[0] else (other, me)
            if layer != head[0]:
                name = {"q": "query", "k": "key", "v": "value"}[kind]
                start = (
                    f"the {name} of {reader} reads {read}<br>composition {exact(float(score[layer, 1]))}, at most 1<br>"
                )
                assert told[layer][1] == f"{start}random heads: {number(found.baseline)} ± {number(found.baseline_sd)}"
    largest = max(np.nanmax(np.abs(array(trace["z"]))) for trace in maps)
    axis = payload["figure"]["layout"]["coloraxis"]
    assert (axis["cmin"], axis["cmax"]) == (-largest, largest)
    assert payload["figure"]["layout"]["meta"]["heads"] is True
    assert payload["title"] == f"Which heads does head {head[0]}.{head[1]} work with? (weights alone)"


def test_the_wide_layout_puts_the_maps_side_by_side(playground):
    payload = parts_of(playground)["composition"]
    tall, wide = payload["figure"]["layout"], payload["wide"]
    names = ("xaxis", "xaxis2", "xaxis3")
    assert len({tuple(tall[name]["domain"]) for name in names}) == 1
    assert [wide[name]["domain"] for name in names] == sorted(wide[name]["domain"] for name in names)
    assert len({tuple(wide[name]["domain"]) for name in names}) == 3
    assert wide["meta"]["height"] < tall["meta"]["height"]
    assert [trace["xaxis"] for trace in traces(payload)] == ["x", "x2", "x3"]
    json.dumps(payload, allow_nan=False)


def test_copying_is_said_in_words_once_it_is_known(playground, measured):
    found = measured[1]
    note = parts_of(playground, heads=[[2, 1]])["composition"]["note"]
    score = found.copying[2, 1]
    assert f"Copying, from the weights: {signed(score)}." in note
    found.copying[2, 1] = np.nan
    assert "This head writes nothing." in parts_of(playground, heads=[[2, 1]])["composition"]["note"]


def test_a_single_layer_has_nothing_to_compose(lm):
    model = tiny_model({"vocab_size": 256, "n_layer": 1})
    ours = serving(LanguageModel("tiny", "One", model, lm.tokenizer))
    parts = parts_of(ours, heads=[[0, 0]])
    assert "one layer" in parts["composition"]["empty"]["text"]
    assert len(parts["table"]["index"]) == H


def test_the_wiring_of_a_head_is_computed_once(playground, monkeypatch):
    calls = []
    real = measure.composition
    monkeypatch.setattr(measure, "composition", lambda *given: calls.append(given[1:]) or real(*given))
    for head in ((1, 2), (1, 2), (0, 0), (1, 2)):
        parts_of(playground, heads=[list(head)])
    assert calls == [(1, 2), (0, 0)]
