"""The lens without a browser: its pictures have the numbers of model.lens, and what a page sends is checked."""

import base64
import json
import re

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.gpt.edits import Edit
from model.progress import silent
from model.tracing.logit_lens import read_layers, read_position
from tests.support.models.helpers import D, L, serving
from tests.support.scripts import script
from viz.labels import visible
from viz.numbers import nats
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.settings import Settings
from viz.theme import RAMPS, ramp_at, scale_of
from viz.views.predictions.lens import measure as lens
from viz.views.predictions.lens.figures import COLORS, CURVES, color_scale, table_payload
from viz.views.predictions.lens.measure import page_of, settled
from viz.views.predictions.lens.view import VIEW
from viz.words import LANGUAGES, words
from viz.work.playground import Options

PROMPT = "abcab"
SCRIPT = script("views/predictions/lens")
PARTS = panels.names_of(VIEW)


class Stub:
    """A tuned lens of one shift a layer."""

    def __init__(self):
        self.about = {"kl": {"plain": [2.0, 1.0, 3.0], "tuned": [1.0, 0.5, 0.0]}}

    def translate(self, layer, x):
        return x if layer == L else x + torch.linspace(-1, layer, D)


@pytest.fixture
def playground(lm):
    return serving(lm, Options(model="tiny", max_tokens=300))


@pytest.fixture
def tuned(monkeypatch):
    stub = Stub()
    monkeypatch.setattr(lens, "load_lens", lambda model_id, config: stub)
    return stub


def asked(prompt=PROMPT, form=None, language="en", **selection):
    values = {"predictions_view": {"view": "lens"}, "lens_form": form}
    return PageRequest("tiny", prompt, selection or None, values, {}, language, "predictions")


def scene(playground, prompt=PROMPT, **changes):
    return scene_of(playground, asked(prompt, **changes))


def drawn(playground, prompt=PROMPT, **changes):
    return payloads(playground, asked(prompt, **changes))[0]


def numbers(packed):
    kind = {"f4": "<f4", "f8": "<f8"}[packed["dtype"]]
    shape = [int(n) for n in packed["shape"].split(",")]
    return np.frombuffer(base64.b64decode(packed["bdata"]), kind).reshape(shape)


def heat(payload):
    """The numbers of a heat map and its layout."""
    figure = json.loads(payload["figure"].to_json())
    (trace,) = figure["data"]
    z = trace["z"]
    return (numbers(z) if isinstance(z, dict) else np.array(z)), figure["layout"], trace


def lines(payload):
    return json.loads(payload["figure"].to_json())["data"]


def plan_whole(scene, values):
    return panels.job_of(VIEW, "whole", scene, panels.settings_of(VIEW, scene, values))


def done(payload, lm):
    """What the Python lines of a payload compute: all names they make."""
    code = payload["python"].replace("load_model('tiny')", "lm").replace("from model.api import load_model\n", "")
    found = {"lm": lm}
    exec(code.replace("lm = lm\n", ""), found)
    return found


# --- words ---


def test_the_script_has_the_words_it_asks_for():
    found = set(re.findall(r"\bwords\.(\w+)", SCRIPT)) | {f"low_{color}" for color in COLORS}
    assert found <= {key.removeprefix("lens.table.") for key in words("en") if key.startswith("lens.table.")}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_choice_has_its_words(language):
    said = words(language)
    for name in COLORS + CURVES:
        assert said[f"lens.settings.colour_{name}"] and said[f"lens.settings.curve_{name}"]
        assert said[f"lens.value_{name}"] and said[f"lens.curve.title_{name}"] and said[f"lens.map.title_{name}"]
    assert [said[f"lens.howto.{key}"] for key in ("body", "formula", "caveat", "try")]


# --- pages ---


def test_pages_are_counted_from_the_end_and_cover_the_prompt():
    assert page_of(10, 9, 20) == page_of(10, 0, 20) == (0, 10)
    assert page_of(40, 39, 16) == page_of(40, 24, 16) == (24, 40)
    assert page_of(40, 23, 16) == page_of(40, 8, 16) == (8, 24)
    assert page_of(40, 7, 16) == page_of(40, 0, 16) == (0, 8)
    assert page_of(1, 0, 4) == (0, 1)


def test_what_is_read_by_itself_stays_within_the_budget(playground, monkeypatch):
    config = playground.load("tiny").config
    each = (L + 1) * config.d_model * config.vocab_size
    at = scene(playground, "x" * 20)
    monkeypatch.setattr(lens, "BUDGET", 20 * each)
    assert lens.is_cheap(at)
    monkeypatch.setattr(lens, "BUDGET", 20 * each - 1)
    assert not lens.is_cheap(at) and lens.columns_of(at, False) == 9
    monkeypatch.setattr(lens, "BUDGET", 1)
    assert not lens.is_cheap(at) and lens.columns_of(at, False) == 1 and lens.columns_of(at, True) == 64


def test_the_table_has_no_more_columns_than_buttons_allow(playground):
    at = scene(playground, "x" * 200)
    assert lens.is_cheap(at) and lens.columns_of(at, False) == 64


# --- the table ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_first_drawing_fills_every_part(playground, language):
    parts = drawn(playground, language=language)
    assert set(PARTS) <= set(parts)
    assert not any("problem" in parts[name] or "empty" in parts[name] for name in PARTS)
    assert parts["lens_job"]["state"] == "done"
    assert parts["lens_check"]["text"].rstrip("。.").endswith(" 0")
    assert packed(parts)


def test_the_tables_numbers_are_the_lenss(playground, lm):
    payload, reading = drawn(playground)["lens_table"], read_layers(lm.trace(PROMPT), range(5))
    assert payload["layers"] == [0, 1, 2, 3] and payload["positions"] == [0, 1, 2, 3, 4] and payload["last"] == 4
    assert np.array(payload["ids"]).reshape(4, 5, 5).tolist() == reading.ids.tolist()
    for name in ("probabilities", "entropy", "kl"):
        expected = getattr(reading, name) / (np.log(2) if name == "entropy" else 1)  # the page shows bits
        assert numbers(payload[name]) == pytest.approx(expected, rel=1e-6), name
    assert np.array(payload["ranks"]).reshape(4, 5).tolist() == reading.ranks[..., 0].tolist()
    logits = lm.trace(PROMPT).logits
    assert payload["final"] == logits.argmax(-1).tolist()
    assert payload["names"] == {i: visible(lm.tokenizer.piece(i)) for i in sorted({*payload["ids"], *payload["final"]})}
    assert [c["text"] for c in payload["columns"]] == list(PROMPT)
    assert [c["next"] for c in payload["columns"]] == [*PROMPT[1:], ""]
    assert "All 5 positions" in payload["note"]


def test_the_scale_of_the_colors(lm):
    reading = read_layers(lm.trace(PROMPT), range(5))
    tops = {name: color_scale(name, reading, 256)["top"] for name in COLORS}
    assert tops == {"probability": 1, "entropy": 8, "kl": reading.kl.max(), "rank": 256}


@pytest.mark.parametrize("color", COLORS)
def test_another_color_reads_nothing_again(playground, lm, monkeypatch, color):
    first = drawn(playground)["lens_table"]
    monkeypatch.setattr(lens, "read_layers", lambda *_, **__: pytest.fail("read again"))
    again = drawn(playground, form={"colour": color})
    assert again["lens_table"]["color"] == color and again["lens_table"]["ids"] == first["ids"]
    z, layout, _ = heat(again["lens_map"])
    table = again["lens_table"]
    ranks = np.array(table["ranks"]).reshape(4, 5)
    expected = {
        "probability": numbers(table["probabilities"])[..., 0],
        "entropy": numbers(table["entropy"]),
        "kl": numbers(table["kl"]),
        "rank": np.log10(ranks),
    }[color]
    assert np.allclose(z, expected, atol=1e-6)
    most = np.log10(lm.model.config.vocab_size) if color == "rank" else table["top"]
    assert layout["coloraxis"]["cmax"] == pytest.approx(most)


def test_an_edited_run_is_what_is_read(playground, lm):
    edits = [{"kind": "zero", "layer": 1, "head": 2}]
    payload = drawn(playground, edits=edits)["lens_table"]
    reading = read_layers(lm.trace(PROMPT).edit(Edit("zero", 1, 2)), range(5))
    assert np.array_equal(numbers(payload["probabilities"]), reading.probabilities)
    assert "edited" in payload["source"] and "Edit('zero', layer=1, head=2)" in payload["python"]


@pytest.mark.parametrize("prompt", ["a", "\n", "\u202e<b>{token}</b>"])
def test_short_and_hostile_prompts_are_drawn(playground, prompt):
    parts = drawn(playground, prompt)
    assert parts["tokens"].pop("prompt") == prompt  # for the address, never shown
    assert not any("problem" in parts[name] for name in PARTS)
    assert "\u202e" not in packed(parts) and "<b>" not in parts["lens_map"]["figure"].to_json()


@pytest.mark.parametrize("form", [None, 3, [], "x", {"lens": 7, "colour": ["kl"], "curve": {}, "more": 4}])
def test_a_form_that_is_none_is_the_default(playground, form):
    parts = drawn(playground, form=form)
    assert parts["lens_table"]["color"] == "probability"
    assert len(lines(parts["lens_curve"])) == 5


# --- the curves ---


def test_curves_are_those_of_the_final_tokens_and_the_typed_ones(playground, lm):
    trace = lm.trace(PROMPT)
    final = np.argsort(-trace.logits_at(2), kind="stable")[:5].tolist()
    other = next(i for i in range(97, 120) if i not in final)
    for curve in ("probability", "rank"):
        form = {"curve": curve, "more": chr(other)}
        payload = drawn(playground, tokens=[2], form=form, target=final[1])["lens_curve"]
        reading = read_position(trace, 2, candidates=[*final, other])
        expected = reading.shares if curve == "probability" else reading.ranks
        found = lines(payload)
        assert len(found) == 6
        for n, line in enumerate(found):
            assert line["x"] == [0, 0.5, 1, 1.5, 2, 2.5, 3]
            assert line["y"] == pytest.approx(expected[:, 0, n].tolist(), rel=1e-5)
            assert line["line"]["dash"] == ("dot" if n == 5 else "solid")
        assert found[5]["name"] == f"“{chr(other)}”" and "(position 2)" in payload["title"]
    assert payload["figure"].layout.yaxis.type == "log"


def test_a_picked_token_that_is_followed_anyway_is_followed_once(playground, monkeypatch):
    there = scene(playground)
    final = np.argsort(-there.trace.logits_at(4), kind="stable")[:6].tolist()
    monkeypatch.setattr(lens, "typed_token", lambda *_: final[5])
    assert lens.followed(there, Settings((("picked", (final[0], final[5])), ("more", "x")))) == (final, 1)


@pytest.mark.parametrize("curve", ["entropy", "kl"])
def test_curves_of_the_whole_prediction(playground, lm, curve):
    (line,) = lines(drawn(playground, form={"curve": curve})["lens_curve"])
    expected = getattr(read_position(lm.trace(PROMPT), 4), curve)[:, 0] / (np.log(2) if curve == "entropy" else 1)
    assert line["y"] == pytest.approx(expected.tolist(), rel=1e-5)
    assert line["line"]["dash"] == "solid"


def test_what_is_no_token_is_said_by_the_curves_alone(playground):
    parts = drawn(playground, form={"more": "ab"})
    assert "2 tokens here" in parts["lens_curve"]["problem"]["text"]
    assert "problem" not in parts["lens_table"] and "problem" not in parts["lens_map"]


def test_from_where_on_the_answer_is_the_first_choice(lm):
    reading = read_position(lm.trace(PROMPT), 4)
    for firsts, place in (([1, 7, 1, 7, 7, 7, 7], 1.5), ([7] * 7, 0), ([1, 1, 1, 1, 1, 1, 7], 3)):
        reading.ids[:, 0, 0] = firsts
        assert settled(reading) == place


# --- the tuned lens ---


def test_without_a_tuned_lens_it_is_said_why(playground):
    parts = drawn(playground, form={"lens": "tuned"})
    assert parts["lens_table"]["empty"]["text"] == "This model has no tuned lens."
    assert "Choose the plain lens" in parts["lens_curve"]["empty"]["text"]
    assert parts["lens_job"]["state"] == "unready" and "empty" in parts["lens_map"]
    assert parts["lens_check"]["text"]
    with pytest.raises(InputError, match="no tuned lens"):
        plan_whole(scene(playground), {"lens_form": {"lens": "tuned"}}).work(silent)
    assert drawn(playground, form={"lens": "tuned"}, language="zh")["lens_table"]["empty"]["text"].startswith(
        "这个模型"
    )


def test_the_tuned_lens_translates_first_and_has_no_points_inside_blocks(playground, lm, tuned):
    parts, trace = drawn(playground, form={"lens": "tuned"}), lm.trace(PROMPT)
    reading = read_layers(trace, range(5), lens=tuned)
    assert np.array_equal(numbers(parts["lens_table"]["probabilities"]), reading.probabilities)
    assert not np.allclose(reading.probabilities, read_layers(trace, range(5)).probabilities)
    assert lines(parts["lens_curve"])[0]["x"] == [0, 1, 2, 3]
    assert f"{nats(0.5)} nats; the plain lens has {nats(2.0)}" in parts["lens_table"]["note"]
    assert "edited run" not in parts["lens_table"]["note"]
    edited = drawn(playground, form={"lens": "tuned"}, edits=[{"kind": "zero", "layer": 0, "head": 0}])
    assert "can mislead on an edited run" in edited["lens_table"]["note"]


# --- the whole prompt ---


def test_a_long_prompt_waits_for_the_button(playground, lm, monkeypatch):
    config = lm.config
    monkeypatch.setattr(lens, "BUDGET", 10 * (L + 1) * config.d_model * config.vocab_size)
    prompt = "abcdefghijklmnop" * 2  # 32 tokens, five a page
    parts = drawn(playground, prompt)
    assert parts["lens_table"]["positions"] == [27, 28, 29, 30, 31]
    assert "Positions 27 to 31 of 32" in parts["lens_table"]["note"]
    assert parts["lens_job"]["state"] == "idle" and "32 positions, 128 lens predictions" in parts["lens_job"]["text"]
    assert "not been read" in parts["lens_map"]["empty"]["text"]
    assert drawn(playground, prompt, tokens=[20])["lens_table"]["positions"] == [17, 18, 19, 20, 21]
    job = plan_whole(scene(playground, prompt), {"lens_form": {}})
    list(background.perform(playground, job, "en"))
    after = drawn(playground, prompt, tokens=[20])
    assert after["lens_job"]["state"] == "done" and len(after["lens_table"]["positions"]) == 32
    reading = read_layers(lm.trace(prompt), range(32))
    z, layout, trace = heat(after["lens_map"])
    assert np.allclose(z, reading.probabilities[..., 0], atol=1e-6) and z.shape == (4, 32)
    assert layout["meta"]["window"] == [32, 36, 0, 32] and "texttemplate" not in trace
    assert np.allclose(numbers(after["lens_table"]["kl"]), reading.kl, atol=1e-5)


def test_pages_of_what_was_read_are_cut_out_of_it(lm):
    whole = read_layers(lm.trace(PROMPT), range(5))
    part, alone = lens.some_positions(whole, 1, 4), read_layers(lm.trace(PROMPT), range(1, 4))
    for name, value in vars(alone).items():
        assert np.allclose(getattr(part, name), value, atol=1e-5), name
    assert part.positions.tolist() == [1, 2, 3] and len(table_payload(part, lm.tokenizer.piece)["ids"]) == 4 * 3 * 5


# --- Python lines ---


def test_python_lines_compute_what_is_shown(playground, lm, tuned, monkeypatch):
    monkeypatch.setattr("model.predictions.tuned_lens.load_lens", lambda model_id, config: tuned)
    for kind in lens.LENSES:
        parts = drawn(playground, tokens=[3], form={"lens": kind, "curve": "rank", "colour": "kl", "more": "z"})
        table, curve, whole = (done(parts[name], lm)["reading"] for name in ("lens_table", "lens_curve", "lens_map"))
        assert np.array_equal(table.probabilities, numbers(parts["lens_table"]["probabilities"]))
        assert np.array([line["y"] for line in lines(parts["lens_curve"])]) == pytest.approx(curve.ranks[:, 0].T)
        assert np.allclose(heat(parts["lens_map"])[0], whole.kl)
        assert ("lens=lens" in parts["lens_table"]["python"]) == (kind == "tuned")
    for name in CURVES:
        text = drawn(playground, form={"curve": name})["lens_curve"]
        value = eval(text["python"].splitlines()[-1], done(text, lm))
        drawn_there = np.array([line["y"] for line in lines(text)])
        assert np.asarray(value).T.reshape(-1, 7) == pytest.approx(drawn_there, rel=1e-5, abs=1e-9)


def test_the_job_reports_how_far_it_is(playground, lm):
    steps = []
    job = plan_whole(scene(playground), {})
    job.work(lambda done, total, what: steps.append((done, total)))
    assert steps[-1] == (20, 20) and job.work(silent).positions.tolist() == list(range(5))


def test_the_maps_colors_of_kl_are_the_tables(playground, lm):
    """Both by ln(1 + KL): the table computes it in the script, the map has it in its color scale."""
    payload = drawn(playground, form={"colour": "kl"})
    top, (_, layout, _) = payload["lens_table"]["top"], heat(payload["lens_map"])
    assert payload["lens_table"]["curve"] == "log1p" and "log1p: (value, top)" in SCRIPT
    for theme, stops in RAMPS.items():
        scale = scale_of(layout["meta"]["scales"][theme])
        assert [scale[0][0], scale[-1][0]] == [0, 1] and scale == sorted(scale, key=lambda stop: stop[0])
        for share, color in scale:
            assert color == ramp_at(stops, float(np.log1p(share * top) / np.log1p(top)))
