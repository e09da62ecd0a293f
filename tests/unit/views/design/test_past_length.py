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
from model.errors import InputError
from model.gpt.transformer import Transformer
from tests.support.models.helpers import VARIANTS, assert_close, byte_tokenizer, serving, tiny_model
from viz.api.registry import Endpoint, call
from viz.numbers import difference, nats
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.programs.reading import unprompted
from viz.views.design.past_length import measure as measuring
from viz.views.design.past_length.figures import SchemeCurve, loss_figure
from viz.views.design.past_length.view import VIEW, past_trained_length, scheme_help, scheme_name
from viz.words import LANGUAGES, Words, words
from viz.work.limits import PUBLIC
from viz.work.playground import Options

PROMPT = "abcabd abcabe abd"
TEXT = "All work and no play makes Jack a dull boy, said the hare. " * 30
EDIT = {"kind": "zero", "layer": 1, "head": 2}
OWN = {"length": "80", "text": "own", "own": TEXT}


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
    return scene_of(playground, PageRequest("tiny", prompt, selection or None, {}, {}, language, tab="design"))


def data(payload):
    return payload["figure"]["data"]


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


def parts_drawn(playground, form=None, **changes):
    """The payloads of the view, as they are sent, by their short names."""
    pictures = panels.pictures(VIEW, scene(playground, **changes), {"past_length_form": form})
    return {name.removeprefix("past_length_"): json.loads(packed(picture.make())) for name, picture in pictures.items()}


def settings(playground, form=None, **changes):
    return panels.settings_of(VIEW, scene(playground, **changes), {"past_length_form": form})


def asked(playground, form=None):
    here = scene(playground)
    return dict(measuring.question(here, settings(playground, form)))


def measured(playground, form=None, **changes):
    """The payloads once the job is done."""
    here = scene(playground, **changes)
    list(background.perform(playground, panels.job_of(VIEW, "main", here, settings(playground, form)), "en"))
    return parts_drawn(playground, form, **changes)


def lines_of(payload):
    return [trace for trace in data(payload) if "name" in trace]


def test_lengths_around_the_trained_one(playground):
    assert measuring.lengths_of(scene(playground)) == (80, 40, 160)
    form = {each["name"]: each for each in parts_drawn(playground)["form"]["controls"]}
    assert form["length"]["value"] == "80"
    assert form["length"]["options"] == [
        ["40", "40 (1 × the trained length)"],
        ["80", "80 (2 × the trained length)"],
        ["160", "160 (4 × the trained length)"],
    ]
    assert "family" not in form and form["own"]["when"] == {"text": ["own"]} and "when" not in form["factor"]
    assert form["factor"]["options"][0][2].endswith(f"; {measuring.INSIDE:g} if the window fits into it.")
    assert len(form) <= 7


def test_what_is_tried_depends_on_the_positions(tokenizer):
    for variant, names in (("llama", {"family", "factor"}), ("post", {"factor"}), ("mqa", set())):
        form = {each["name"]: each for each in parts_drawn(playground_of(tokenizer, variant))["form"]["controls"]}
        assert set(form) & {"family", "factor"} == names
        assert variant != "llama" or form["factor"]["when"] == {"family": ["stretch"]}


def test_a_large_model_is_offered_what_is_quick(tokenizer, monkeypatch):
    playground = playground_of(tokenizer, "llama")
    monkeypatch.setattr(measuring, "SHORTER", (10, 15, 30))  # the trained length of 40 is a long one now
    monkeypatch.setattr(measuring, "cost", lambda model, T: T * 5e8)
    assert measuring.lengths_of(scene(playground)) == (80, 10, 15, 30, 40, 160)
    monkeypatch.setattr(measuring, "cost", lambda model, T: T * 5e9)  # 4 windows, 6 schemes, 2e12 at most: 16 tokens
    assert measuring.lengths_of(scene(playground)) == (15, 10, 30, 40, 80, 160)
    public = playground_of(tokenizer, "llama", allowed=PUBLIC)
    assert measuring.lengths_of(scene(public)) == (15, 10)
    monkeypatch.setattr(measuring, "cost", lambda model, T: 1e15)
    assert measuring.lengths_of(scene(public)) == (10,)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_is_measured_before_the_button(tokenizer, variant, language, monkeypatch):
    playground = playground_of(tokenizer, variant)
    scene(playground)
    monkeypatch.setattr(measuring, "past_trained", lambda *_: pytest.fail("measured by itself"))
    monkeypatch.setattr(Transformer, "embed_tokens", lambda *_: pytest.fail("the model was run"))
    parts = parts_drawn(playground, language=language)
    assert parts["job"]["state"] == "idle" and "80" in parts["job"]["text"]
    assert set(parts["figure"]) == set(parts["table"]) == {"empty"}
    facts = parts["facts"]
    schemes = schemes_of(playground.opened("tiny").config, 80, 2.0)
    assert len(facts["items"]) == len(schemes) and "40" in facts["about"]
    assert not [text for item in facts["items"] for text in item if "{" in text or not text]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_measurement_is_shown(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    parts, lm = measured(playground, OWN), playground.opened("tiny")
    assert parts["job"]["state"] == "done"
    ids = lm.tokenizer.encode_ids(TEXT)
    schemes = schemes_of(lm.config, 80, 2.0)
    planned = panels.measured(VIEW, "plan", scene(playground), settings(playground, OWN)).value
    past = past_trained(lm.model, windows_of(ids, 80, planned.windows), schemes)
    loss, _ = by_position(past, edges(80, 40))
    assert_close([trace["y"] for trace in lines_of(parts["figure"])], loss, 1e-4)
    rows = parts["table"]["rows"]
    assert len(rows) == len(schemes) and rows[0][2] == rows[0][4] == "reference"
    assert all(row[0]["help"] for row in rows)
    inside, beyond = parts_of(past, len(schemes) - 1)
    assert rows[-1][1] == nats(inside.loss) and rows[-1][3] == nats(beyond.loss)
    assert rows[-1][4] == difference(beyond.delta, beyond.error)
    assert f"{inside.tokens:,}" in parts["table"]["about"]
    layout = parts["figure"]["figure"]["layout"]
    assert layout["meta"]["shapes"][0]["x0"] == 39.5 and "trained length 40" in layout["annotations"][0]["text"]
    apart = parts_drawn(playground, OWN | {"show": "difference"})["figure"]  # the same measurement
    expected = by_position(past, edges(80, 40), difference=True)[0]
    assert_close([trace["y"] for trace in lines_of(apart)], expected, 1e-4)
    assert "measured here" in parts["figure"]["source"] and "your text" in parts["table"]["source"]


def test_within_the_trained_length_there_is_no_line(playground):
    parts = measured(playground, OWN | {"length": "40"})
    layout = parts["figure"]["figure"]["layout"]
    assert "shapes" not in layout["meta"] and not layout.get("annotations")
    assert len(parts["table"]["columns"]) == 3
    assert "fits into the trained length" in parts["facts"]["about"]


def test_other_bases_of_the_rotation(tokenizer):
    playground = playground_of(tokenizer, "llama")
    rows = measured(playground, OWN | {"family": "theta"}, language="zh")["table"]["rows"]
    assert [row[0]["text"] for row in rows][2:5] == ["θ × 0.25", "θ × 4", "θ × 16"]


def test_every_scheme_has_its_words(tokenizer):
    for variant, positions in (("gpt2", "learned"), ("post", "sinusoidal"), ("llama", "rope"), ("mqa", "none")):
        config = playground_of(tokenizer, variant).opened("tiny").config
        for language in LANGUAGES:
            own = Words(words(language), "past_length")
            seen = set()
            for length in (40, 80):
                for family in ("stretch", "theta"):
                    for scheme in schemes_of(config, length, 2.0, family):
                        seen.add(scheme.key)
                        assert scheme_name(own, config, scheme) and scheme_help(own, config, scheme)
            assert own[f"facts.model_{positions}"] and seen <= set(SCHEMES)


def test_the_measurement_is_of_its_question(playground):
    measured(playground, OWN)
    assert "empty" in parts_drawn(playground, OWN | {"own": TEXT + "x"})["table"]
    assert "empty" in parts_drawn(playground)["table"]
    assert "empty" not in parts_drawn(playground, OWN, prompt="other")["table"]  # the prompt is not read
    assert "empty" not in parts_drawn(playground, OWN | {"factor": "2"})["table"]  # what the length needs
    assert "edits are left out" in parts_drawn(playground, edits=[EDIT])["job"]["text"]


def test_a_text_that_is_not_read_does_not_count(playground, monkeypatch):
    monkeypatch.setattr(measuring, "bundled_text", lambda: TEXT)
    measured(playground)
    assert "empty" not in parts_drawn(playground, {"text": "bundled", "own": "typed and left"})["table"]


@pytest.mark.parametrize(
    ("own", "text"),
    [
        ("", "Text is missing"),
        ("  \n", "Text is missing"),
        ("too short", "too short for this length"),
        ("a" * 20_001, "too long"),
        ("a" * 2_000_000, "too long"),
    ],
)
def test_texts_that_cannot_be_read(tokenizer, own, text):
    playground = playground_of(tokenizer, allowed=PUBLIC)
    job = panels.job_of(VIEW, "main", scene(playground), settings(playground, {"text": "own", "own": own}))
    steps = list(background.perform(playground, job, "en"))
    assert text in steps[-1][0]["text"]


def test_a_text_that_is_too_long_on_a_server_of_ones_own():
    with pytest.raises(InputError, match="too long"):
        measuring.text_of("a" * 11, 10)


@pytest.mark.parametrize("sent", [None, [], {"length": 80}, {"length": "7", "factor": "1e9", "family": 4, "own": 5}])
def test_a_question_that_is_not_offered_is_the_default(playground, sent):
    assert asked(playground, sent) == {"length": 80, "family": "stretch", "factor": 2.0, "own": None}
    assert asked(playground, {"text": "own", "own": 5})["own"] == ""


def test_the_python_lines_of_the_measurement(tokenizer):
    playground = playground_of(tokenizer, "llama")
    parts, lm = measured(playground), playground.opened("tiny")
    _, values = run_lines(parts["figure"]["python"], lm)
    assert_close(values[-1][0], [trace["y"] for trace in lines_of(parts["figure"])], 1e-4)
    _, values = run_lines(parts["table"]["python"], lm)
    assert nats(values[-1][1][1].loss) == parts["table"]["rows"][1][3]


def test_names_are_escaped_and_one_window_has_no_band():
    names = Words(words("en"), "past_length.figure").plain()
    curves = [SchemeCurve("<b>x", np.array([1.0, 2.0]), np.full(2, np.nan))]
    drawn = loss_figure(curves, [0, 4, 8], 4, names).to_dict()
    assert len(drawn["data"]) == 1 and drawn["data"][0]["name"] == "&lt;b&gt;x"
    assert "±" not in drawn["data"][0]["hovertext"][0] and drawn["data"][0]["text"] == ["0–3", "4–7"]
    banded = loss_figure([SchemeCurve("x", np.array([1.0, 2.0]), np.array([0.5, 0.25]))], [0, 4, 8], 4, names).to_dict()
    low, high, line = banded["data"]
    assert low["y"] == [0.5, 1.75] and high["y"] == [1.5, 2.25] and high["fill"] == "tonexty"
    assert line["hovertext"][1] == "positions 4–7<br>2.000 ± 0.250 (standard error)"


# --- functions for programs -------------------------------------------------------------------------


def test_past_trained_length(tokenizer):
    playground = playground_of(tokenizer, "llama")
    endpoint = Endpoint(past_trained_length, ("design.past_length",), "model", long=True)
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
    assert measuring.lengths_of(unprompted(playground, lm))[0] == 80
    assert Scheme("ntk", 2.0) in ways
