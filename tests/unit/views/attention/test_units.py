"""The Attention tab by words: every number from the tokens' by hand, their texts, positions, notes and Python lines."""

import json

import numpy as np
import pytest

from model import api
from model.attention.measures import MEASURES, measure
from model.attention.span_heads import span_heads
from model.attention.spans import spans_of
from tests.support.picking import asked
from tests.support.views.views import array, traces
from viz.charts import heatmap
from viz.charts.heatmap import Window
from viz.page.parts import packed
from viz.page.pipeline import payloads
from viz.seam import panels
from viz.views.attention import patterns
from viz.views.attention.map import view as map
from viz.views.attention.units import merged, unit_of
from viz.words import words

TEXT = "ab cd. ef"  # nine tokens, one per byte
WORDS = ((0, 2), (2, 5), (5, 6), (6, 9))
TEXTS = ("ab", " cd", ".", " ef")


def drawn(playground, view="map", unit="words", language="en", prompt=TEXT, **changes):
    """All payloads of the tab with this view by this unit."""
    values = {
        "attention_view": {"view": view, "unit": unit, **changes.pop("settings", {})},
        **changes.pop("values", {}),
    }
    return payloads(playground, asked(prompt, values=values, language=language, **changes))[0]


def by_hand(z):
    """Sum over the keys of each word, then the mean over its queries; NaN for words that come later."""
    rows = []
    for a, b in WORDS:
        cells = [[np.nansum(z[q, c:d]) for c, d in WORDS] for q in range(a, b)]
        means = np.mean(cells, axis=0)
        rows.append([np.nan if c > b - 1 else mean for (c, _), mean in zip(WORDS, means, strict=True)])
    return np.array(rows)


@pytest.mark.parametrize("name", ["weights", "value_weighted", "rollout", "flow"])
def test_the_map_is_that_of_the_words(playground, lm, name):
    payload = drawn(playground, settings={"measure": name}, selection={"heads": [[2, 3]]})["map_plot"]
    (heat,) = traces(json.loads(packed(payload)))
    np.testing.assert_allclose(array(heat["z"]), by_hand(measure(lm.trace(TEXT), name, 2, 3)), atol=1e-6)
    assert heat["y"] == heat["x"] == ["0–1 ab", "2–4 ·cd", "5 .", "6–8 ·ef"]
    assert payload["columns"][:2] == ["query word", "key word"]
    assert payload["spans"] == [list(span) for span in WORDS] and payload["figure"].layout.meta["whole"]
    said = words("en")
    assert payload["note"].startswith(said["attention.words.note_other"].removesuffix("."))
    assert ("sum to 1" in payload["note"]) == (name in ("weights", "rollout"))


def test_rows_of_words_sum_to_one(playground):
    payload = drawn(playground, selection={"heads": [[2, 3]]})["map_plot"]
    (heat,) = traces(json.loads(packed(payload)))
    np.testing.assert_allclose(np.nansum(array(heat["z"]), axis=1), 1, atol=1e-6)


def test_words_without_the_first_token_leave_out_rows_without_a_number(playground, lm):
    payload = drawn(playground, settings={"measure": "without_first"}, selection={"heads": [[2, 3]]})["map_plot"]
    z = array(traces(json.loads(packed(payload)))[0]["z"])
    np.testing.assert_allclose(z[0, 0], 1, atol=1e-6)  # the second token of the first word reads itself
    np.testing.assert_allclose(np.nansum(z, axis=1), 1, atol=1e-6)


def test_scores_stay_by_token_and_say_so(playground, lm):
    payload = drawn(playground, settings={"measure": "scores"})["map_plot"]
    assert array(traces(json.loads(packed(payload)))[0]["z"]).shape == (9, 9)
    assert payload["note"] == words("en")["attention.units.no_scores"] and "spans" not in payload
    assert payload["columns"][0] == "query token"
    assert [unit_of(name, "words") for name in MEASURES].count("tokens") == 1


@pytest.mark.parametrize("view,part", [("lines", "lines_links"), ("text", "text_reading")])
def test_lines_and_text_have_words(playground, view, part):
    payload = drawn(playground, view)[part]
    assert payload["tokens"] == ["ab", "·cd", ".", "·ef"] and payload["positions"] == ["0–1", "2–4", "5", "6–8"]
    assert payload["spans"] == [list(span) for span in WORDS] and payload["words"]["attending"] == "query word"
    usual = drawn(playground, view, "tokens")[part]
    assert len(usual["tokens"]) == 9 and usual["words"]["attending"] == "query token"
    assert not {"spans", "positions"} & usual.keys() and payload["run"] == f"{usual['run']} words"
    of_scores = drawn(playground, view, settings={"measure": "scores"})[part]  # weights, and those by word
    assert of_scores["tokens"] == payload["tokens"]


def test_the_overview_has_the_metrics_of_words(playground, lm):
    shown, usual = drawn(playground)["overview_heads"], drawn(playground, unit="tokens")["overview_heads"]
    expected = span_heads(lm.trace(TEXT), "words")
    np.testing.assert_allclose(np.array(shown["metrics"], float), expected.metrics.to_numpy(float), atol=1e-6)
    assert shown["side"] == 4 and usual["side"] == 9
    labels = [{each["key"]: each["label"] for each in payload["metric_names"]} for payload in (shown, usual)]
    assert labels[0]["previous_token"] == "previous word" and labels[1]["previous_token"] == "previous token"
    units = {each["key"]: each["unit"] for each in shown["metric_names"]}
    assert units["distance"] == "words" and units["self"] == ""
    assert "query words" in shown["words"]["about"] and "query tokens" in usual["words"]["about"]


def test_tokens_are_drawn_as_before_and_words_are_another_picture(playground):
    values = {"attention_view": {"unit": "tokens"}}
    _, shown = payloads(playground, asked(TEXT))
    assert not payloads(playground, asked(TEXT, values=values, shown=shown))[0].keys() & {"map_plot", "overview_heads"}
    other = payloads(playground, asked(TEXT, values={"attention_view": {"unit": "words"}}, shown=shown))[0]
    assert {"map_plot", "overview_heads"} <= other.keys()


@pytest.mark.parametrize("of", ["each", "mean", "max", "layer"])
@pytest.mark.parametrize("name", ["weights", "rollout"])
def test_the_python_lines_make_what_is_drawn(scene, lm, monkeypatch, of, name):
    monkeypatch.setattr(api, "load_model", lambda model_id: lm)
    shown = scene(TEXT)
    *first, last = patterns.lines_of(panels.facts_of(shown), name, of, "words").split("\n")
    found: dict = {}
    exec("\n".join([*first, f"result = {last.removeprefix('maps = ')}"]), found)
    result = found["result"] if isinstance(found["result"], list) else [found["result"]]
    settings = panels.settings_of(map.VIEW, shown, {"map_form": {"measure": name, "of": of, "unit": "words"}})
    ours = panels.measured(map.VIEW, "main", shown, settings).value.z
    for mine, theirs in zip(ours, result, strict=True):
        assert mine.shape == (4, 4) and np.allclose(mine, theirs, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_notes_about_the_words(playground, language):
    said = words(language)
    assert drawn(playground, language=language, prompt="a .")["map_plot"]["note"].startswith(
        said["attention.words.note"]
    )
    assert drawn(playground, language=language, prompt="a.b")["map_plot"]["note"] == said["attention.units.all_single"]
    assert said["attention.units.no_spaces"] in drawn(playground, language=language, prompt="你好")["map_plot"]["note"]
    assert (
        said["attention.sentences.note"] == drawn(playground, unit="sentences", language=language)["map_plot"]["note"]
    )


def test_a_window_of_tokens_shows_its_words(playground, scene):
    run = scene(TEXT).run
    values = {"map_plot": {"run": f"{run} 2.3", "window": [3, 9, 0, 5]}}
    payload = drawn(playground, values=values, selection={"heads": [[2, 3]]})["map_plot"]
    assert payload["figure"].layout.meta["window"] == [1, 4, 0, 2] and not payload["figure"].layout.meta["whole"]
    assert "rows 2 to 8, columns 0 to 4" in payload["note"]
    assert map.window_in(Window(0, 2, 0, 2), WORDS) == Window.whole(4)  # a single word is no map
    assert map.window_in(Window(3, 8, 1, 6), ()) == Window(3, 8, 1, 6)


def test_long_prompts_are_pooled_by_words(playground, lm, monkeypatch):
    monkeypatch.setattr(heatmap, "MAX_CELLS", 2)
    payload = drawn(playground, selection={"heads": [[2, 3]]})["map_plot"]
    (heat,) = traces(json.loads(packed(payload)))
    z = by_hand(measure(lm.trace(TEXT), "weights", 2, 3))
    assert heat["x"] == ["0–4 ab…", "5–8 .…"] and payload["figure"].layout.meta["block"] == 2
    np.testing.assert_allclose(array(heat["z"])[1], [z[2:, :2].max(), np.nanmax(z[2:, 2:])], atol=1e-6)
    assert "2 × 2 words" in heat["hovertemplate"]


def test_a_word_is_the_text_of_its_tokens(lm):
    tokens = lm.trace("aé b").tokens
    spans = spans_of(tokens.raw, "words")
    whole = merged(tokens, spans)
    assert whole.pieces == ("aé", " b") and whole.spans.tolist() == [[0, 3], [3, 5]]
    assert b"".join(whole.raw) == b"".join(tokens.raw) and merged(tokens, ()) is tokens
