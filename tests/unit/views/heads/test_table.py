"""All heads in numbers: those of the frames, and every source is told apart."""

import json

import numpy as np
import pytest

from model.attention.span_heads import span_heads
from model.attention.surveys import LABELS
from model.tracing.head_metrics import HEAD_METRICS
from tests.support.models.helpers import H, L
from tests.support.views.views import array as unpacked
from tests.support.views.views import drawn
from viz.charts.packed import packed
from viz.views.heads.heads.cards import ORDER

PROMPT = "abcab"
KEYS = list(HEAD_METRICS)
HEADS = [[layer, head] for layer in range(L) for head in range(H)]


def parts_of(playground, form=None, **changes):
    return drawn(playground, "heads", "heads", form, **{"prompt": PROMPT, "heads": [[1, 2]], **changes})


def test_the_table_of_a_prompt_has_the_numbers_of_its_run(playground, lm):
    table = parts_of(playground, form={"source": "prompt"})["table"]
    expected = lm.trace(PROMPT).head_metrics()
    assert [column["key"] for column in table["columns"]] == KEYS and table["index"] == HEADS
    assert (unpacked(table["values"]) == expected.to_numpy()).all()
    assert unpacked(table["values"]).dtype == np.float32
    assert table["spread"] is None and table["names"] is None
    assert table["caption"] == "On this prompt: one run of 5 tokens."
    assert "measured here in" in table["source"] and table["file"] == "heads-prompt"
    json.dumps(table, allow_nan=False)


def test_the_table_of_a_prompt_by_words_has_the_metrics_of_summed_maps(playground, lm):
    table = parts_of(playground, form={"source": "words"}, prompt="ab ab.")["table"]
    expected = span_heads(lm.trace("ab ab."), "words").metrics
    np.testing.assert_array_equal(unpacked(table["values"]), expected.to_numpy(np.float32))
    assert not np.allclose(expected, lm.trace("ab ab.").head_metrics(), equal_nan=True)
    assert table["caption"] == "On this prompt, by words: one run of 6 tokens in 3 words."
    columns = {column["key"]: column for column in table["columns"]}
    assert columns["previous_token"]["label"] == "previous word" and columns["distance"]["unit"] == "words"
    assert columns["induction"]["missing"].startswith("No word") and table["file"] == "heads-words"
    assert "measured here in" in table["source"] and table["spread"] is None


@pytest.mark.parametrize("source", ["random", "sentences"])
def test_the_table_of_a_probe_has_the_means_and_spreads_of_its_survey(measured, source):
    playground, found = measured
    table = parts_of(playground, form={"source": source})["table"]
    survey = getattr(found, source)
    assert [column["key"] for column in table["columns"]] == [*KEYS, "copying"]
    values, spread = unpacked(table["values"]), unpacked(table["spread"])
    assert (values[:, :-1] == survey.mean.to_numpy()).all() and (spread[:, :-1] == survey.spread.to_numpy()).all()
    assert (values[:, -1] == np.ravel(found.copying)).all() and np.isnan(spread[:, -1]).all()
    said = {"random": "12 sequences of repeated random tokens", "sentences": "24 English sentences"}
    assert table["caption"] == f"Mean ± standard deviation over {said[source]}."
    assert table["source"] == "Tiny · float32 · both probes measured here in 2.5 s"
    json.dumps(table, allow_nan=False)


def test_edits_change_the_numbers_of_the_prompt_and_not_of_the_probe(measured):
    playground, _ = measured
    edits = [{"kind": "zero", "layer": 0, "head": 1}]
    for source, same in (("prompt", False), ("random", True)):
        plain = parts_of(playground, form={"source": source})["table"]
        changed = parts_of(playground, form={"source": source}, edits=edits)["table"]
        assert (plain["values"] == changed["values"]) == same
        assert (plain["source"] == changed["source"]) == same


def test_names_come_from_the_survey_alone(measured):
    playground, _ = measured
    for source in ("prompt", "random", "sentences"):
        table = parts_of(playground, form={"source": source})["table"]
        shown = {tuple(head): names for head, names in zip(table["index"], table["names"], strict=True) if names}
        assert shown == {(2, 1): [["induction", 0.7, 0.05], ["self", 0.4, 0.1]], (0, 3): [["first_token", 0.9, 0.1]]}
        assert [entry[0] for entry in table["names_of"]] == list(ORDER) and set(ORDER) == set(LABELS)
    assert "0.25" in table["words"]["rule"] and "0.1" in table["words"]["rule"]


@pytest.mark.parametrize("source", ["random", "sentences"])
def test_before_the_survey_the_numbers_are_those_of_the_prompt(playground, source):
    parts, plain = (parts_of(playground, form={"source": each}) for each in (source, "prompt"))
    for name in ("table", "scatter"):
        assert "empty" not in parts[name] and parts[name]["file"] == plain[name]["file"]
        assert parts[name]["source"] == plain[name]["source"]
    assert parts["table"]["values"] == plain["table"]["values"]
    assert parts["scatter"]["figure"]["data"] == plain["scatter"]["figure"]["data"]
    said = "This model has not been measured on the probe set yet. On this prompt"
    assert parts["table"]["caption"].startswith(said) and not plain["table"]["caption"].startswith(said)
    other = parts_of(playground, form={"source": source}, prompt="xyxyx")
    assert other["table"]["values"] != parts["table"]["values"]  # they follow the prompt
    assert parts["survey"]["start"] == "Measure over the probe set" and parts["survey"]["state"] == "idle"
    assert parts["cards"]["absent"] is True


def test_what_has_no_number_says_why(playground):
    table = parts_of(playground, prompt="abcd")["table"]
    values = dict(zip(KEYS, unpacked(table["values"]).T, strict=True))
    missing = {column["key"]: column["missing"] for column in table["columns"]}
    for key in KEYS:
        assert np.isnan(values[key]).all() == (key in ("duplicate_token", "induction"))
    assert "earlier copy" in missing["induction"] and "earlier copy" in missing["duplicate_token"]
    assert missing["induction"] != missing["duplicate_token"] and missing["self"] == ""
    one = parts_of(playground, prompt="a")["table"]
    assert {column["missing"] for column in one["columns"]} == {"A single token has no earlier token to read."}
    assert "single token" in one["caption"]


def test_arrays_keep_their_digits():
    for kind in (np.float32, np.float64):
        values = np.array([[0.1, np.nan], [1 / 3, -1e-7]], kind)
        found = unpacked(packed(values.T[::-1]))  # neither contiguous nor in order
        assert found.dtype == kind and np.array_equal(found, values.T[::-1], equal_nan=True)


@pytest.mark.parametrize(
    "form",
    [
        None,
        "x",
        [],
        {"source": 3, "x": None, "y": ["induction"], "colour": {}},
        {"source": "../x", "x": "<b>", "y": ""},
        {"source": "", "colour": "javascript:"},
    ],
)
def test_a_form_that_makes_no_sense_is_as_it_was_at_first(playground, form):
    plain, odd = parts_of(playground, form={}), parts_of(playground, form=form)
    for name in ("table", "scatter", "composition"):
        assert odd[name] == plain[name]
    assert plain["scatter"]["title"] == "All heads: previous token and induction"
