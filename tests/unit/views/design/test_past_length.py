"""The view of the trained length without a browser, its function for programs and its Python lines."""

import json
import re

import numpy as np
import pytest

from model.api import LanguageModel
from model.design.past_length import (
    SCHEMES,
    Scheme,
    by_position,
    edges,
    parts_of,
    past_trained,
    schemes_of,
    windows_of,
)
from model.gpt.transformer import Transformer
from tests.support.helpers import VARIANTS, assert_close, byte_tokenizer, serving, tiny_model
from viz.api.groups.distance import past_trained_length
from viz.api.reading import unprompted
from viz.api.registry import Endpoint, call
from viz.page import background
from viz.page.parts import unpacked, update
from viz.page.pipeline import Asked, scene_of
from viz.page.playground import Options
from viz.server.limits import PUBLIC
from viz.views.design.past_length import view as past_length
from viz.views.design.past_length.figures import Line, loss_figure, signed
from viz.words import LANGUAGES, some, words

PROMPT = "abcabd abcabe abd"
TEXT = "All work and no play makes Jack a dull boy, said the hare. " * 30
EDIT = {"kind": "zero", "layer": 1, "head": 2}
OWN = {"longer_form": {"length": "80", "text": "own", "own": TEXT}}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


def playground_of(tokenizer, variant="gpt2", **options):
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256})
    return serving(LanguageModel("tiny", "Tiny", model, tokenizer), Options(model="tiny", max_tokens=40, **options))


@pytest.fixture
def playground(tokenizer):
    return playground_of(tokenizer)


def scene(playground, prompt=PROMPT, language="en", **selection):
    return scene_of(playground, Asked("tiny", prompt, selection or None, {}, {}, language, "design"))


def drawn(view, playground, values=None, **changes):
    """The payloads of a view, as they are sent."""
    pictures = view.draw(scene(playground, **changes), values or {})
    assert set(pictures) >= set(view.PARTS)
    return {name: unpacked(update(picture.make())) for name, picture in pictures.items()}


def measured(playground, values=None, **changes):
    job = past_length.plan(scene(playground, **changes), values or {})
    list(background.perform(playground, job, "en"))
    return drawn(past_length, playground, values, **changes)


def data(payload):
    return json.loads(payload["figure"])["data"]


def run_lines(text, model):
    """What the lines leave behind, and the values of those that are expressions."""
    lines, space, values = text.replace("load_model('tiny')", "lm").splitlines(), {"lm": model}, []
    for line in lines:
        line = re.sub(r"\s+#.*$", "", line)
        if not line or line == "lm = lm":
            continue
        try:
            code = compile(line, "line", "eval")
        except SyntaxError:
            exec(line, space)
        else:
            values.append(eval(code, space))
    return space, values


# --- past the trained length ------------------------------------------------------------------------


def test_lengths_around_the_trained_one(playground):
    assert past_length.lengths_of(scene(playground)) == (80, 40, 160)
    form = {each["name"]: each for each in drawn(past_length, playground)["longer_form"]["controls"]}
    assert form["length"]["value"] == "80" and [key for key, _ in form["length"]["options"]] == ["40", "80", "160"]
    assert "family" not in form and form["own"]["when"] == {"text": ["own"]}
    assert len(form) <= 7


def test_a_large_model_is_offered_what_is_quick(tokenizer, monkeypatch):
    playground = playground_of(tokenizer, "llama")
    monkeypatch.setattr(past_length, "SHORTER", (10, 15, 30))  # the trained length of 40 is a long one now
    monkeypatch.setattr(past_length, "cost", lambda model, T: T * 5e8)
    assert past_length.lengths_of(scene(playground)) == (80, 10, 15, 30, 40, 160)
    monkeypatch.setattr(past_length, "cost", lambda model, T: T * 5e9)  # 4 windows, 6 schemes, 2e12 at most: 16 tokens
    assert past_length.lengths_of(scene(playground)) == (15, 10, 30, 40, 80, 160)
    public = playground_of(tokenizer, "llama", allowed=PUBLIC)
    assert past_length.lengths_of(scene(public)) == (15, 10)
    monkeypatch.setattr(past_length, "cost", lambda model, T: 1e15)
    assert past_length.lengths_of(scene(public)) == (10,)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_is_measured_before_the_button(tokenizer, variant, language, monkeypatch):
    playground = playground_of(tokenizer, variant)
    scene(playground)
    monkeypatch.setattr(past_length, "past_trained", lambda *_: pytest.fail("measured by itself"))
    monkeypatch.setattr(Transformer, "embed_tokens", lambda *_: pytest.fail("the model was run"))
    parts = drawn(past_length, playground, language=language)
    assert parts["longer_job"]["state"] == "idle" and "80" in parts["longer_job"]["text"]
    assert set(parts["longer_figure"]) == set(parts["longer_table"]) == {"empty"}
    told = parts["longer_facts"]
    ways = schemes_of(playground.opened("tiny").config, 80, 2.0)
    assert len(told["items"]) == len(ways) and "40" in told["about"]
    assert not [text for item in told["items"] for text in item if "{" in text or not text]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_measurement_is_shown(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    parts, lm = measured(playground, OWN), playground.opened("tiny")
    assert parts["longer_job"]["state"] == "done"
    ids = lm.tokenizer.encode_ids(TEXT)
    ways = schemes_of(lm.config, 80, 2.0)
    past = past_trained(
        lm.model, windows_of(ids, 80, past_length.ways_of(scene(playground), _asked(playground))[1]), ways
    )
    loss, _ = by_position(past, edges(80, 40))
    lines = [trace for trace in data(parts["longer_figure"]) if "name" in trace]
    assert_close([trace["y"] for trace in lines], loss, 1e-5)
    rows = parts["longer_table"]["rows"]
    assert len(rows) == len(ways) and rows[0][2] == rows[0][4] == "reference"
    assert all(row[0]["help"] for row in rows)
    inside, beyond = parts_of(past, len(ways) - 1)
    assert rows[-1][1] == f"{inside.loss:.3f}" and rows[-1][3] == f"{beyond.loss:.3f}"
    assert rows[-1][4] == f"{signed(beyond.delta)} ± {beyond.error:.3f}"
    assert f"{inside.tokens:,}" in parts["longer_table"]["about"]
    layout = json.loads(parts["longer_figure"]["figure"])["layout"]
    assert layout["meta"]["shapes"][0]["x0"] == 39.5 and "trained length 40" in layout["annotations"][0]["text"]
    values = {"longer_form": OWN["longer_form"] | {"show": "difference"}}
    apart = drawn(past_length, playground, values)["longer_figure"]  # the same measurement
    lines = [trace for trace in data(apart) if "name" in trace]
    assert_close([trace["y"] for trace in lines], by_position(past, edges(80, 40), difference=True)[0], 1e-5)
    assert "measured here" in parts["longer_figure"]["source"] and "a text of yours" in parts["longer_table"]["source"]


def _asked(playground):
    return past_length.asked_of(scene(playground), OWN)


def test_within_the_trained_length_there_is_no_line(playground):
    values = {"longer_form": {"length": "40", "text": "own", "own": TEXT}}
    parts = measured(playground, values)
    layout = json.loads(parts["longer_figure"]["figure"])["layout"]
    assert "shapes" not in layout["meta"] and not layout.get("annotations")
    assert len(parts["longer_table"]["columns"]) == 3
    assert "fits into the trained length" in parts["longer_facts"]["about"]


def test_other_bases_of_the_rotation(tokenizer):
    playground = playground_of(tokenizer, "llama")
    values = {"longer_form": OWN["longer_form"] | {"family": "theta"}}
    rows = measured(playground, values, language="zh")["longer_table"]["rows"]
    assert [row[0]["text"] for row in rows][2:5] == ["θ × 0.25", "θ × 4", "θ × 16"]


def test_every_scheme_has_its_words(tokenizer):
    for variant, positions in (("gpt2", "learned"), ("post", "sinusoidal"), ("llama", "rope"), ("mqa", "none")):
        for language in LANGUAGES:
            here = scene(playground_of(tokenizer, variant), language=language)
            seen = set()
            for length in (40, 80):
                for family in ("stretch", "theta"):
                    for way in schemes_of(here.model.config, length, 2.0, family):
                        seen.add(way.key)
                        assert past_length.scheme_name(here, way) and past_length.scheme_help(here, way)
            assert here.words[f"longer.model_{positions}"] and seen <= set(SCHEMES)


def test_the_measurement_is_of_its_question(playground):
    measured(playground, OWN)
    other = {"longer_form": OWN["longer_form"] | {"own": TEXT + "x"}}
    assert "empty" in drawn(past_length, playground, other)["longer_table"]
    assert "empty" in drawn(past_length, playground)["longer_table"]
    assert "empty" not in drawn(past_length, playground, OWN, prompt="other")["longer_table"]  # the prompt is not read
    assert "edits are left out" in drawn(past_length, playground, edits=[EDIT])["longer_job"]["text"]


@pytest.mark.parametrize(
    ("own", "text"),
    [
        ("", "no text yet"),
        ("  \n", "no text yet"),
        ("too short", "too short for this length"),
        ("a" * 20_001, "too long"),
    ],
)
def test_texts_that_cannot_be_read(tokenizer, own, text):
    playground = playground_of(tokenizer, allowed=PUBLIC)
    job = past_length.plan(scene(playground), {"longer_form": {"text": "own", "own": own}})
    steps = list(background.perform(playground, job, "en"))
    assert text in unpacked(steps[-1][0])["text"]


@pytest.mark.parametrize("sent", [None, [], {"length": 80}, {"length": "7", "factor": "1e9", "family": 4, "own": 5}])
def test_a_question_that_is_not_offered_is_the_default(playground, sent):
    assert past_length.asked_of(scene(playground), {"longer_form": sent}) == past_length.Asked(80, "stretch", 2.0, None)
    assert past_length.asked_of(scene(playground), {"longer_form": {"text": "own", "own": 5}}).own == ""


def test_the_python_lines_of_the_measurement(tokenizer):
    playground = playground_of(tokenizer, "llama")
    parts, lm = measured(playground), playground.opened("tiny")
    _, values = run_lines(parts["longer_figure"]["python"], lm)
    lines = [trace for trace in data(parts["longer_figure"]) if "name" in trace]
    assert_close(values[-1][0], [trace["y"] for trace in lines], 1e-5)
    _, values = run_lines(parts["longer_table"]["python"], lm)
    assert f"{values[-1][1][1].loss:.3f}" == parts["longer_table"]["rows"][1][3]


def test_names_are_escaped_and_one_window_has_no_band():
    said = some(words("en"), "longer", "position", "loss", "positions", "error", "trained")
    lines = [Line("<b>x", np.array([1.0, 2.0]), np.full(2, np.nan))]
    made = json.loads(loss_figure(lines, [0, 4, 8], 4, said))
    assert len(made["data"]) == 1 and made["data"][0]["name"] == "&lt;b&gt;x"
    assert "±" not in made["data"][0]["hovertext"][0]


# --- functions for programs -------------------------------------------------------------------------


def test_past_trained_length(tokenizer):
    playground = playground_of(tokenizer, "llama")
    endpoint = Endpoint(past_trained_length, ("design.longer",), "model", long=True)
    found = call(playground, endpoint, {"length": 80, "text": TEXT})
    json.dumps(found, allow_nan=False)
    assert found["trained"] == 40 and found["edges"] == edges(80, 40)
    lm = playground.opened("tiny")
    ways = schemes_of(lm.config, 80, 2.0)
    assert [(way["scheme"], way["factor"]) for way in found["ways"]] == [(way.key, way.factor) for way in ways]
    past = past_trained(lm.model, windows_of(lm.tokenizer.encode_ids(TEXT), 80, found["windows"]), ways)
    assert_close(found["ways"][3]["losses"], by_position(past, found["edges"])[0][3], 1e-5)
    assert found["ways"][3]["beyond"]["delta"] == pytest.approx(parts_of(past, 3)[1].delta, abs=1e-5)
    inside = call(playground, endpoint, {"length": 30, "text": TEXT, "factor": 3})
    assert inside["ways"][1]["beyond"] is None and inside["ways"][1]["factor"] == 3
    with pytest.raises(Exception, match="too short"):
        call(playground, endpoint, {"length": 3})
    assert past_length.lengths_of(unprompted(playground, lm))[0] == 80
    assert Scheme("ntk", 2.0) in ways
