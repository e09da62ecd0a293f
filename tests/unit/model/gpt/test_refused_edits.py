"""Edits that do not fit a model or a prompt are refused before anything runs."""

import base64
import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InputError
from model.gpt.edit_checks import check_edits, edit_of
from model.gpt.edits import EDITS, FIELDS, MAX_FACTOR, MAX_VALUE, Edit
from model.gpt.placed_vectors import vector_text
from model.gpt.tap import SITES
from model.tracing.trace import run
from tests.support.models.edited import ONE, SETTINGS, VECTOR, T, traced
from tests.support.models.helpers import (
    D,
    H,
    L,
    M,
    V,
    tiny_config,
    tiny_model,
    tokens_of,
)

# --- what is refused ---

HUGE = 10**5000
ZERO = {"kind": "zero", "layer": 1, "head": 2}
EDGE = {"kind": "block_edge", "query": 7, "key": 3}
SCALE = {**ZERO, "kind": "scale"}
MLP = {"kind": "mlp_zero", "layer": 1}
NEURON = {"kind": "neuron_zero", "layer": 1, "neuron": 17}
HOLD = {**NEURON, "kind": "neuron_value", "value": 1.0}
VEC = {"kind": "add_vector", "layer": 1, "site": "resid_mid", "factor": 2.0, "vector": VECTOR}
ADD = {"kind": "add_direction", "layer": 1, "token": 5, "factor": 2.0}
BAD = {
    "nothing": (None, "object with named fields"),
    "text": ("zero", "object with named fields"),
    "a list": ([ZERO], "object with named fields"),
    "no kind": ({"layer": 1, "head": 2}, "No kind of edit"),
    "unknown kind": ({**ZERO, "kind": "delete"}, "No kind of edit.*delete"),
    "a long kind": ({**ZERO, "kind": "x" * 10**6}, "No kind of edit"),
    "an unhashable kind": ({**ZERO, "kind": ["zero"]}, "No kind of edit.*list"),
    "unknown field": ({**ZERO, "tokens": 2}, "unknown field.*tokens"),
    "a field that is no text": ({**ZERO, 3: 4}, "unknown field.*3"),
    "no layer": ({"kind": "zero", "head": 2}, "lacks a field.*layer.*needs: layer, head"),
    "no head": ({**ZERO, "head": None}, "lacks a field.*head"),
    "no factor": (SCALE, "lacks a field.*factor"),
    "no key": ({"kind": "block_edge", "query": 7}, "lacks a field.*key"),
    "a factor too many": ({**ZERO, "factor": 2.0}, "kind does not use.*factor"),
    "a query too many": ({**ZERO, "query": 0}, "kind does not use.*query"),
    "a factor of an edge": ({**EDGE, "factor": 2.0}, "kind does not use.*factor"),
    "true": ({**ZERO, "layer": True}, "layer does not exist.*True"),
    "a float": ({**ZERO, "head": 2.0}, r"head does not exist.*2\.0"),
    "text for a number": ({**ZERO, "head": "2"}, "head does not exist"),
    "a list for a number": ({**ZERO, "head": [2]}, "head does not exist.*list"),
    "negative": ({**ZERO, "layer": -1}, "layer does not exist.*-1"),
    "one too many": ({**ZERO, "layer": L}, f"layer does not exist.*0 to {L - 1}"),
    "a huge number": ({**ZERO, "head": HUGE}, f"head does not exist.*0 to {H - 1}"),
    "no position": ({**EDGE, "query": T}, f"position does not exist.*0 to {T - 1}"),
    "a negative key": ({**EDGE, "key": -1}, "position does not exist"),
    "a float query": ({**EDGE, "query": 7.0}, "position does not exist"),
    "a later key": ({**EDGE, "key": 8}, "cannot attend to a later token.*query 7, key 8"),
    "the only key": ({**EDGE, "query": 0, "key": 0}, "no key left to attend to"),
    "not a number": ({**SCALE, "factor": math.nan}, "cannot be used"),
    "infinite": ({**SCALE, "factor": -math.inf}, "cannot be used"),
    "a huge factor": ({**SCALE, "factor": HUGE}, "cannot be used.*from -100 to 100"),
    "just too large": ({**SCALE, "factor": 100.1}, "cannot be used"),
    "true as a factor": ({**SCALE, "factor": True}, "cannot be used"),
    "an MLP without a layer": ({"kind": "mlp_zero"}, "lacks a field.*layer"),
    "an MLP of a head": ({**MLP, "head": 2}, "kind does not use.*head"),
    "an MLP beyond the last": ({**MLP, "layer": L}, f"layer does not exist.*0 to {L - 1}"),
    "no neuron": ({**NEURON, "neuron": None}, "lacks a field.*neuron"),
    "a neuron too many": ({**NEURON, "neuron": M}, f"neuron does not exist.*0 to {M - 1}"),
    "a negative neuron": ({**NEURON, "neuron": -1}, "neuron does not exist"),
    "a neuron of a head": ({**ZERO, "neuron": 1}, "kind does not use.*neuron"),
    "true as a neuron": ({**NEURON, "neuron": True}, "neuron does not exist.*True"),
    "no value": ({**HOLD, "value": None}, "lacks a field.*value"),
    "a value that is none": ({**HOLD, "value": math.nan}, "value cannot be used"),
    "a value too large": ({**HOLD, "value": 1000.5}, "value cannot be used.*from -1000 to 1000"),
    "a huge value": ({**HOLD, "value": HUGE}, "value cannot be used"),
    "text as a value": ({**HOLD, "value": "1"}, "value cannot be used"),
    "no token": ({**ADD, "token": None}, "lacks a field.*token"),
    "a token too many": ({**ADD, "token": V}, f"no token with this id.*0 to {V - 1}"),
    "a negative token": ({**ADD, "token": -1}, "no token with this id"),
    "the text of a token": ({**ADD, "token": " Paris"}, "no token with this id"),
    "a list as a token": ({**ADD, "token": [5]}, "no token with this id"),
    "true as a token": ({**ADD, "token": True}, "no token with this id"),
    "a direction without a factor": ({**ADD, "factor": None}, "lacks a field.*factor"),
    "a factor of what is projected out": ({**ADD, "kind": "project_out"}, "kind does not use.*factor"),
    "a direction added too often": ({**ADD, "factor": -100.1}, "cannot be used"),
    "no vector": ({**VEC, "vector": None}, "lacks a field.*vector"),
    "numbers as a vector": ({**VEC, "vector": [1.0] * D}, "vector of an edit cannot be read.*list"),
    "a vector that is no base64": ({**VEC, "vector": "*" * 64}, "vector of an edit cannot be read"),
    "half a number": ({**VEC, "vector": VECTOR[:-4]}, "vector of an edit cannot be read"),
    "an empty vector": ({**VEC, "vector": ""}, "vector of an edit cannot be read"),
    "a long vector": ({**VEC, "vector": "AAAA" * 10**5}, "vector of an edit cannot be read"),
    "a vector of another width": (
        {**VEC, "vector": vector_text(np.ones(D + 1))},
        f"another length than the stream.*{D + 1} numbers.*stream has {D}",
    ),
    "a vector with NaN": ({**VEC, "vector": base64.b64encode(b"\0\0\xc0\x7f" * D).decode()}, "not finite.*entry 0"),
    "no site": ({**VEC, "site": None}, "lacks a field.*site"),
    "an unknown site": ({**VEC, "site": "z"}, "no such site.*z.*resid_pre, resid_mid, resid_post"),
    "a site that is no text": ({**VEC, "site": ["resid_mid"]}, "no such site.*list"),
    "before the first layer": ({**VEC, "layer": 0, "site": "resid_pre"}, "the stream is the embedding"),
    "positions that are none": ({**VEC, "positions": "last"}, "positions of an edit cannot be read.*last"),
    "positions that fall": ({**VEC, "positions": "4,3"}, "positions of an edit cannot be read"),
    "positions that meet": ({**VEC, "positions": "1-4,4"}, "positions of an edit cannot be read"),
    "a range that falls": ({**VEC, "positions": "4-3"}, "positions of an edit cannot be read"),
    "positions after all": ({**VEC, "positions": "4-,7"}, "positions of an edit cannot be read"),
    "a list of positions": ({**VEC, "positions": [3]}, "positions of an edit cannot be read.*list"),
    "a position beyond the text": ({**VEC, "positions": f"3-{T}"}, f"position does not exist.*0 to {T - 1}"),
    "from beyond the text": ({**VEC, "positions": f"{T + 1}-"}, "position does not exist"),
    "too many positions": ({**VEC, "positions": ",".join(map(str, range(65)))}, "positions of an edit cannot be read"),
    "a long name": ({**VEC, "name": "x" * 61}, "name of a vector cannot be used"),
    "an empty name": ({**VEC, "name": ""}, "name of a vector cannot be used"),
    "a complex factor": ({**SCALE, "factor": 1j}, "cannot be used"),
}


@pytest.mark.parametrize(("value", "what"), BAD.values(), ids=BAD)
def test_edit_of_refuses(value, what: str):
    with pytest.raises(InputError, match=what) as caught:
        edit_of(value, tiny_config(), T)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "edit",
    [
        *ONE.values(),
        Edit("block_edge", query=7, key=7),
        Edit("scale", 0, 0, MAX_FACTOR),
        Edit("neuron_value", 0, neuron=M - 1, value=-MAX_VALUE),
        Edit("add_vector", 1, factor=0.0, site="resid_pre", vector=VECTOR, positions=f"0,2-5,{T - 1}-", name="x" * 60),
    ],
)
def test_edit_of_reads_what_asdict_wrote(edit: Edit):
    assert edit_of(dataclasses.asdict(edit), tiny_config(), T) == edit


def test_a_whole_factor_becomes_a_float():
    edit = edit_of({**SCALE, "factor": 2}, tiny_config(), T)
    assert edit == Edit("scale", 1, 2, factor=2.0) and type(edit.factor) is float
    edit = edit_of({**HOLD, "value": -3}, tiny_config(), T)
    assert edit == Edit("neuron_value", 1, neuron=17, value=-3.0) and type(edit.value) is float


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, T + 1),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
)
FIELD = st.sampled_from([*FIELDS, "kind", "x", 0])


@st.composite
def nearly(draw) -> dict:
    """The fields a kind needs, mostly in range."""
    kind = draw(st.sampled_from(list(EDITS)))
    small = {"layer": L, "head": H, "query": T, "key": T, "neuron": M, "token": V}
    real = {"factor": st.floats(-101, 101), "value": st.floats(-1001, 1001)}
    fields = {name: draw(st.integers(0, small[name])) for name in EDITS[kind].needs if name in small}
    if kind == "add_vector":
        site, positions = st.sampled_from(["resid_pre", "resid_mid", "z"]), st.sampled_from([None, "0,3-5", "4-", "-"])
        fields |= {"vector": VECTOR, "site": draw(site), "positions": draw(positions)}
    return {"kind": kind, **fields} | {name: draw(real[name]) for name in EDITS[kind].needs if name in real}


@SETTINGS
@given(st.one_of(nearly(), st.dictionaries(FIELD, ODD), ODD))
def test_edit_of_gives_an_edit_that_runs_or_says_why_not(value):
    try:
        edit = edit_of(value, tiny_config(), T)
    except InputError as error:
        assert error.what and error.hint
        return
    assert edit_of(dataclasses.asdict(edit), tiny_config(), T) == edit
    assert all(type(getattr(edit, name)) in (int, float, str, type(None)) for name in FIELDS)
    edited = traced("gqa", edit)
    assert edited.key.edits == (edit,) and np.isfinite(edited.logits).all()


def edges(query: int, keys, layer: int | None = None, head: int | None = None) -> list[Edit]:
    return [Edit("block_edge", layer, head, query=query, key=key) for key in keys]


def test_a_row_keeps_at_least_one_key():
    check_edits(edges(2, [0, 1, 1, 0]), tiny_config(), T)  # the same cell again takes no other away
    check_edits(edges(2, [0, 1], layer=1) + edges(2, [2], layer=2), tiny_config(), T)
    check_edits(edges(2, [0, 1], head=1) + edges(2, [2], layer=1, head=2), tiny_config(), T)
    for rest in (edges(2, [2]), edges(2, [2], layer=0), edges(2, [2], head=3), edges(2, [2], L - 1, H - 1)):
        with pytest.raises(InputError, match="no key left to attend to"):
            check_edits(edges(2, [0, 1]) + rest, tiny_config(), T)
        with pytest.raises(InputError, match="no key left to attend to"):
            traced("gpt2", *edges(2, [0, 1])).edit(*rest)


def test_a_run_refuses_edits_that_do_not_fit():
    trace = traced()
    for edit, what in (
        (Edit("zero", L, 0), "layer does not exist"),
        (Edit("scale", 0, 0), "lacks a field"),
        (Edit("block_edge", query=T, key=0), "position does not exist"),
    ):
        with pytest.raises(InputError, match=what):
            trace.edit(edit)
        with pytest.raises(InputError, match=what):
            run(trace.model, trace.tokens, edits=[edit])


@pytest.mark.parametrize("kind", [kind for kind in ONE if kind != "block_edge" and ONE[kind].positions is None])
def test_a_single_token(kind: str):
    trace = run(tiny_model(), tokens_of([5])).edit(ONE[kind])
    assert trace.pattern(1, 2).tolist() == [[1.0]]
    assert trace.logits.shape == (1, V) and np.isfinite(trace.logits).all()


@pytest.mark.parametrize("kind", EDITS)
def test_kinds_say_what_they_are(kind: str):
    known = EDITS[kind]
    assert known.site in SITES
    assert set(known.needs + known.optional) <= set(FIELDS)
