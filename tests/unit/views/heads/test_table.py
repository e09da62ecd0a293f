"""The heads tab without a browser: its numbers are those of the frames, and every source is told apart."""

import ast
import base64
import json
import re
import time

import numpy as np
import pandas as pd
import pytest

from model import api
from model.api import LanguageModel
from model.attention.circuits import composition, copying
from model.attention.surveys import LABELS, SENTENCES, Survey, labels, random_survey, sentence_survey
from model.gpt.head_metrics import HEAD_METRICS
from tests.support.helpers import H, L, assert_close, byte_tokenizer, tiny_model
from tests.support.scripts import words_read
from viz.page.background import Result, perform
from viz.page.pipeline import Asked, payloads, scene_of
from viz.page.playground import Options, Playground
from viz.theme import HUES
from viz.views.heads.table import view as heads
from viz.views.heads.table.figures import named, packed
from viz.words import LANGUAGES, words

PROMPT = "abcab"
KEYS = list(HEAD_METRICS)
INDEX = pd.MultiIndex.from_product([range(L), range(H)], names=["layer", "head"])
HEADS = [list(head) for head in INDEX]
NOTHING = re.compile(r"<|&\w+;|javascript:")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Single bytes."""
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture(scope="module")
def lm(tokenizer):
    """A shaken model of 3 layers x 4 heads."""
    return LanguageModel("tiny", "Tiny", tiny_model({"vocab_size": 256, "n_ctx": 300}), tokenizer)


def asked(prompt=PROMPT, head=(1, 2), form=None, **changes):
    first = {
        "model_id": "tiny",
        "selection": {"heads": [list(head)]},
        "shown": {},
        "language": "en",
        "tab": "heads",
        "values": {"heads_form": form},
    }
    return Asked(**{**first, "prompt": prompt, **changes})


def parts_of(playground, *args, **changes):
    return payloads(playground, asked(*args, **changes))[0]


def unpacked(value):
    """An array as the page gets it."""
    shape = [int(n) for n in value["shape"].split(",")]
    return np.frombuffer(base64.b64decode(value["bdata"]), f"<{value['dtype']}").reshape(shape)


def decoded(value):
    """A figure's array, packed or a list."""
    return (
        np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"]).reshape(
            [int(n) for n in value.get("shape", "-1").split(",")]
        )
        if isinstance(value, dict)
        else np.array(value, float)
    )


def figure(payload):
    return json.loads(payload["figure"])


def made_up(seed=0):
    """A survey whose numbers are drawn, with two heads that have names, one of them two."""
    rng = np.random.default_rng(seed)
    frames = [pd.DataFrame(rng.random((len(INDEX), len(KEYS))), INDEX, KEYS) for _ in range(5)]
    random = Survey("random", 12, frames[0], frames[1] / 10, frames[2])
    found = pd.DataFrame(
        {"label": ["self", "induction", "first_token"], "score": [0.4, 0.7, 0.9], "baseline": [0.1, 0.05, 0.1]},
        pd.MultiIndex.from_tuples([(2, 1), (2, 1), (0, 3)], names=["layer", "head"]),
    )
    copied = (rng.random((L, H)) * 2 - 1).tolist()
    return heads.Surveyed(random, Survey("sentences", 24, frames[3], frames[4] / 10, None), named(found), copied)


@pytest.fixture
def measured(playground):
    """The playground with a survey of its model, and the survey."""
    found = made_up()
    playground.results.get(("survey", "tiny"), lambda: Result(found, 2.5))
    return playground, found


# --- where the numbers come from ---


def test_the_table_of_a_prompt_has_the_numbers_of_its_run(playground, lm):
    table = parts_of(playground)["headtable"]
    expected = lm.trace(PROMPT).head_metrics()
    assert [column["key"] for column in table["columns"]] == KEYS and table["index"] == HEADS
    assert (unpacked(table["values"]) == expected.to_numpy()).all()
    assert unpacked(table["values"]).dtype == np.float32
    assert table["spread"] is None and table["names"] is None
    assert table["caption"] == "On this prompt: one run of 5 tokens."
    assert "measured here in" in table["source"] and table["file"] == "heads-prompt"
    json.dumps(table, allow_nan=False)


@pytest.mark.parametrize("source", ["random", "sentences"])
def test_the_table_of_a_probe_has_the_means_and_spreads_of_its_survey(measured, source):
    playground, found = measured
    table = parts_of(playground, form={"source": source})["headtable"]
    survey = getattr(found, source)
    assert [column["key"] for column in table["columns"]] == [*KEYS, "copying"]
    values, spread = unpacked(table["values"]), unpacked(table["spread"])
    assert (values[:, :-1] == survey.mean.to_numpy()).all() and (spread[:, :-1] == survey.spread.to_numpy()).all()
    assert (values[:, -1] == np.ravel(found.copying)).all() and np.isnan(spread[:, -1]).all()
    said = {"random": "12 sequences of repeated random tokens", "sentences": "24 English sentences"}
    assert table["caption"] == f"Mean ± standard deviation over {said[source]}."
    assert table["source"] == "Tiny · float32 · measured here in 2.5 s, both probes together"
    json.dumps(table, allow_nan=False)


def test_edits_change_the_numbers_of_the_prompt_and_not_of_the_probe(measured):
    playground, _ = measured
    edits = {"heads": [[1, 2]], "edits": [{"kind": "zero", "layer": 0, "head": 1}]}
    for source, same in (("prompt", False), ("random", True)):
        plain = parts_of(playground, form={"source": source})["headtable"]
        changed = parts_of(playground, form={"source": source}, selection=edits)["headtable"]
        assert (plain["values"] == changed["values"]) == same
        assert (plain["source"] == changed["source"]) == same


def test_names_come_from_the_survey_alone(measured):
    playground, _ = measured
    for source in ("prompt", "random", "sentences"):
        table = parts_of(playground, form={"source": source})["headtable"]
        shown = {tuple(head): names for head, names in zip(table["index"], table["names"], strict=True) if names}
        assert shown == {(2, 1): [["induction", 0.7, 0.05], ["self", 0.4, 0.1]], (0, 3): [["first_token", 0.9, 0.1]]}
        assert [entry[0] for entry in table["names_of"]] == list(LABELS)
    assert "0.25" in table["words"]["rule"] and "0.1" in table["words"]["rule"]


@pytest.mark.parametrize("source", ["random", "sentences"])
def test_a_probe_that_was_not_measured_says_what_to_do(playground, source):
    parts = parts_of(playground, form={"source": source})
    for name in ("headtable", "scatter"):
        assert parts[name]["empty"]["text"].startswith("The probe set has not been measured")
        assert "“Measure over the probe set”" in parts[name]["empty"]["hint"]
    assert parts["survey"]["start"] == "Measure over the probe set" and parts["survey"]["state"] == "idle"
    assert "figure" in parts["composition"]  # that one needs no probe


def test_what_has_no_number_says_why(playground):
    table = parts_of(playground, "abcd")["headtable"]
    values = dict(zip(KEYS, unpacked(table["values"]).T, strict=True))
    missing = {column["key"]: column["missing"] for column in table["columns"]}
    for key in KEYS:
        assert np.isnan(values[key]).all() == (key in ("duplicate_token", "induction"))
    assert "earlier copy" in missing["induction"] and "earlier copy" in missing["duplicate_token"]
    assert missing["induction"] != missing["duplicate_token"] and missing["self"] == ""
    one = parts_of(playground, "a")["headtable"]
    assert {column["missing"] for column in one["columns"]} == {"A single token has nothing to look back at."}
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
    for name in ("headtable", "scatter", "composition"):
        assert odd[name] == plain[name]
    assert plain["scatter"]["title"] == "Every head: previous token and induction"


# --- the plot ---


def test_points_are_the_heads_numbers(playground, lm):
    payload = parts_of(playground, form={"x": "entropy", "y": "distance"})["scatter"]
    points, rings = figure(payload)["data"]
    frame = lm.trace(PROMPT).head_metrics().astype(float)
    assert (decoded(points["x"]) == frame["entropy"]).all() and (decoded(points["y"]) == frame["distance"]).all()
    assert [point["head"] for point in points["customdata"]] == HEADS
    assert (decoded(points["marker"]["color"]) == INDEX.get_level_values("layer")).all()
    value = frame.loc[(1, 2)]
    told = points["hovertext"][HEADS.index([1, 2])].split("<br>")
    assert told == [
        "head 1.2",
        f"entropy: {value['entropy']:.4f}",
        f"mean distance: {value['distance']:.4f}",
        "layer: 1",
    ]
    assert [decoded(rings[axis]).tolist() for axis in "xy"] == [[value["entropy"]], [value["distance"]]]
    assert rings["hoverinfo"] == "skip" and "error_x" not in rings
    layout = figure(payload)["layout"]
    assert layout["xaxis"]["title"]["text"] == "entropy (share of the most possible)"
    assert layout["yaxis"]["title"]["text"] == "mean distance (tokens)"
    assert payload["columns"] == ["head", "entropy", "mean distance"]


def test_picked_heads_are_ringed_in_their_hues_with_their_spread(measured):
    playground, found = measured
    picked = [(2, 3), (0, 1), (1, 1)]
    payload = parts_of(playground, form={"source": "random"}, selection={"heads": [list(h) for h in picked]})["scatter"]
    points, rings = figure(payload)["data"]
    mean, spread = found.random.mean, found.random.spread
    assert rings["text"] == ["2.3", "0.1", "1.1"]
    assert rings["marker"]["color"] == list(HUES[:3])
    for axis, key in (("x", "previous_token"), ("y", "induction")):
        assert (decoded(rings[axis]) == mean.loc[picked, key]).all()
        assert (decoded(rings[f"error_{axis}"]["array"]) == spread.loc[picked, key]).all()
    assert f"± {spread.at[(0, 2), 'induction']:.4f}" in points["hovertext"][2]


def test_colours_by_name(measured):
    playground, _ = measured
    form = {"source": "random", "colour": "label"}
    traces = figure(parts_of(playground, form=form)["scatter"])["data"][:-1]
    by_name = {trace["name"]: [tuple(point["head"]) for point in trace["customdata"]] for trace in traces}
    assert by_name.pop("no name") == [tuple(h) for h in HEADS if tuple(h) not in ((2, 1), (0, 3))]
    assert by_name == {"first token": [(0, 3)], "induction": [(2, 1)]}
    hues = {trace["name"]: trace["marker"]["color"] for trace in traces}
    assert hues["induction"] == HUES[LABELS.index("induction")] and len(set(hues.values())) == 3
    induction = next(trace for trace in traces if trace["name"] == "induction")
    assert induction["hovertext"][0].endswith("induction: 0.70<br>self: 0.40")


def test_colours_that_need_the_survey_wait_for_it(playground, measured):
    fresh = Playground(Options(model="tiny"))
    fresh.models.get("tiny", lambda: playground.load("tiny"))
    for colour in ("label", "copying"):
        waiting = parts_of(fresh, form={"colour": colour})["scatter"]
        points = figure(waiting)["data"][0]
        assert (decoded(points["marker"]["color"]) == INDEX.get_level_values("layer")).all()
        assert "Coloured by layer" in waiting["note"]
    assert "empty" in parts_of(fresh, form={"x": "copying"})["scatter"]
    found = measured[1]
    payload = parts_of(playground, form={"x": "copying", "colour": "copying"})["scatter"]
    points = figure(payload)["data"][0]
    assert (decoded(points["x"]) == np.ravel(found.copying)).all()
    assert (decoded(points["marker"]["color"]) == np.ravel(found.copying)).all()
    assert (figure(payload)["layout"]["coloraxis"]["cmin"], figure(payload)["layout"]["coloraxis"]["cmax"]) == (-1, 1)


def test_a_metric_without_numbers_gives_way_and_that_is_said(playground, lm):
    frame = lm.trace("abcd").head_metrics().astype(float)
    payload = parts_of(playground, "abcd")["scatter"]
    points = figure(payload)["data"][0]
    assert (decoded(points["y"]) == frame["first_token"]).all()
    assert "earlier copy" in payload["note"] and "first token (sink) is shown instead of induction" in payload["note"]
    assert payload["title"] == "Every head: previous token and first token (sink)"
    both = parts_of(playground, "abcd", form={"x": "duplicate_token", "y": "induction"})["scatter"]
    points = figure(both)["data"][0]
    assert (decoded(points["x"]) == frame["first_token"]).all() and (decoded(points["y"]) == frame["entropy"]).all()
    assert parts_of(playground, "a")["scatter"]["empty"]["hint"] == "A single token has nothing to look back at."


def test_one_metric_against_itself(playground):
    points, rings = figure(parts_of(playground, form={"x": "self", "y": "self"})["scatter"])["data"]
    assert (decoded(points["x"]) == decoded(points["y"])).all() and len(decoded(rings["x"])) == 1
    assert points["hovertext"][0].count("self") == 1


def test_heads_without_a_number_are_left_out(measured):
    playground, found = measured
    found.random.mean.loc[[(0, 1), (1, 2)], "induction"] = np.nan
    points, rings = figure(parts_of(playground, form={"source": "random"})["scatter"])["data"]
    left = [head for head in HEADS if head not in ([0, 1], [1, 2])]
    assert [point["head"] for point in points["customdata"]] == left
    assert (decoded(points["marker"]["color"]) == [layer for layer, _ in left]).all()
    assert len(decoded(rings["x"])) == 0  # the picked head is one of them


# --- which heads work together ---


@pytest.mark.parametrize("head", [(0, 3), (1, 2), (2, 0)])
def test_maps_are_scores_less_those_of_random_heads(playground, lm, head):
    payload = parts_of(playground, head=head)["composition"]
    found = composition(lm.model, *head)
    traces = figure(payload)["data"]
    assert [trace["name"] for trace in traces] == [
        "through the query (Q)",
        "through the key (K)",
        "through the value (V)",
    ]
    for trace, kind in zip(traces, "qkv", strict=True):
        z = decoded(trace["z"]).T  # [L, H]
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
                start = f"the {name} of {reader} reads {read}<br>score {score[layer, 1]:.4f} of 1<br>"
                assert told[1][layer] == f"{start}random heads: {found.baseline:.4f} ± {found.baseline_sd:.4f}"
    largest = max(np.nanmax(np.abs(decoded(trace["z"]))) for trace in traces)
    axis = figure(payload)["layout"]["coloraxis"]
    assert (axis["cmin"], axis["cmax"]) == (-largest, largest)
    assert figure(payload)["layout"]["meta"]["heads"] is True
    assert payload["title"] == f"Which heads does head {head[0]}.{head[1]} work with? (weights alone)"


def test_the_wide_layout_puts_the_maps_side_by_side(playground):
    payload = parts_of(playground)["composition"]
    tall, wide = figure(payload)["layout"], payload["wide"]
    names = ("xaxis", "xaxis2", "xaxis3")
    assert len({tuple(tall[name]["domain"]) for name in names}) == 1
    assert [wide[name]["domain"] for name in names] == sorted(wide[name]["domain"] for name in names)
    assert len({tuple(wide[name]["domain"]) for name in names}) == 3
    assert wide["meta"]["height"] < tall["meta"]["height"]
    assert [trace["xaxis"] for trace in figure(payload)["data"]] == ["x", "x2", "x3"]
    json.dumps(payload, allow_nan=False)


def test_copying_is_said_in_words_once_it_is_known(playground, measured):
    found = measured[1]
    note = parts_of(playground, head=(2, 1))["composition"]["note"]
    score = found.copying[2][1]
    assert f"Copying score from its weights: {score:+.2f}".replace("-", "−") in note
    found.copying[2][1] = np.nan
    assert "This head writes nothing." in parts_of(playground, head=(2, 1))["composition"]["note"]


def test_a_single_layer_has_nothing_to_compose(tokenizer):
    model = tiny_model({"vocab_size": 256, "n_layer": 1})
    ours = Playground(Options(model="one"))
    ours.models.get("one", lambda: LanguageModel("one", "One", model, tokenizer))
    parts = parts_of(ours, model_id="one", head=(0, 0))
    assert "one layer" in parts["composition"]["empty"]["text"]
    assert len(parts["headtable"]["index"]) == H


def test_the_wiring_of_a_head_is_computed_once(playground, monkeypatch):
    calls = []
    real = heads.composition
    monkeypatch.setattr(heads, "composition", lambda *given: calls.append(given[1:]) or real(*given))
    for head in ((1, 2), (1, 2), (0, 0), (1, 2)):
        parts_of(playground, head=head)
    assert calls == [(1, 2), (0, 0)]


# --- what is drawn again ---


def test_a_click_on_a_head_leaves_the_table_alone(playground):
    _, shown = payloads(playground, asked())
    drawn = set(payloads(playground, asked(head=(0, 1), shown=shown))[0]) - {"header", "notice", "tokens"}
    assert drawn == {"scatter", "composition"}


def test_another_prompt_leaves_the_probe_alone(measured):
    playground, _ = measured
    form = {"source": "random"}
    _, shown = payloads(playground, asked(form=form))
    assert {"headtable", "scatter", "composition"}.isdisjoint(
        payloads(playground, asked("xyxyx", form=form, shown=shown))[0]
    )
    _, shown = payloads(playground, asked())
    drawn = payloads(playground, asked("xyxyx", shown=shown))[0]
    assert "headtable" in drawn and "scatter" in drawn and "composition" not in drawn


def test_a_finished_survey_is_drawn(playground):
    _, shown = payloads(playground, asked())
    playground.results.get(("survey", "tiny"), lambda: Result(made_up(), 2.5))
    drawn = payloads(playground, asked(shown=shown))[0]
    assert {"survey", "headtable", "scatter", "composition"} <= set(drawn)
    assert drawn["survey"]["state"] == "done" and "2.5" in drawn["survey"]["text"]


# --- the job ---


def job_of(playground, **changes):
    return heads.TAB.jobs["survey"](scene_of(playground, asked(**changes)), {})


def test_the_job_measures_both_probes_and_the_weights(playground, lm):
    job, told = job_of(playground), []
    found = job.work(lambda done, total, what: told.append((done, total)))
    assert job.key == ("survey", "tiny")
    random = random_survey(lm.model, pool=256)
    pd.testing.assert_frame_equal(found.random.mean, random.mean)
    pd.testing.assert_frame_equal(found.sentences.mean, sentence_survey(lm.model, lm.encode).mean)
    assert found.names == named(labels(random, 0.25))
    assert (found.copying == copying(lm.model)).all()
    done, totals = zip(*told, strict=True)
    assert list(done) == sorted(set(done)) and len(set(totals)) == 1
    assert done[-1] == totals[0] - 1 == 2 * random.sequences + len(SENTENCES)


def test_the_job_runs_once_it_is_asked_for_and_can_be_stopped(playground):
    parts_of(playground, form={"source": "random"})
    job = job_of(playground)
    assert playground.results.peek(job.key) is None  # nothing runs by itself
    running = perform(playground, job, "en")
    next(running)
    running.close()
    with playground.computing:  # taken by the job until it has stopped
        pass
    time.sleep(0.3)
    assert playground.results.peek(job.key) is None
    *_, last = perform(playground, job, "en")
    assert last[1] and isinstance(playground.results.peek(job.key).value, heads.Surveyed)


def test_another_prompt_or_edit_needs_no_other_survey(playground):
    edits = {"heads": [[0, 0]], "edits": [{"kind": "zero", "layer": 0, "head": 1}]}
    assert job_of(playground).key == job_of(playground, prompt="other", selection=edits, language="zh").key


# --- words and code ---


def texts(value):
    if isinstance(value, dict):
        return [text for inner in value.values() for text in texts(inner)]
    if isinstance(value, list | tuple):
        return [text for inner in value for text in texts(inner)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_of_the_script_is_there(measured, language):
    table = parts_of(measured[0], language=language)["headtable"]
    wanted = words_read("views/heads/head_table")
    assert {"shown", "sort", "filter_layer", "nameless", "rule"} <= wanted
    assert wanted - set(table["words"]) == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_fixed_parts_are_words(language):
    said = words(language)
    parts = heads.fixed(said)
    assert set(parts) < set(heads.TAB.parts)
    everything = texts(parts)
    assert len(everything) > 60 and not [
        text for text in everything if NOTHING.search(text) or re.search(r"[{}]", text)
    ]
    controls = {control["name"]: control for control in parts["heads_form"]["controls"]}
    assert (controls["x"]["value"], controls["y"]["value"]) == ("previous_token", "induction")
    for control in controls.values():
        keys = [option[0] for option in control["options"]]
        assert control["value"] == keys[0] and len(set(keys)) == len(keys)
    assert {key for key, *_ in controls["x"]["options"]} == {*KEYS, "copying"}


@pytest.mark.parametrize("source", ["prompt", "random", "sentences"])
def test_the_python_lines_make_the_numbers(playground, lm, monkeypatch, source):
    playground.results.get(("survey", "tiny"), lambda: Result(job_of(playground).work(lambda *_: None), 1.0))
    monkeypatch.setattr(api, "load_model", lambda model_id: {"tiny": lm}[model_id])
    form = {"source": source, "x": "self", "y": "copying"}
    parts = parts_of(playground, form=form)
    for name in ("headtable", "scatter", "composition"):
        space = {}
        lines = ast.parse(parts[name]["python"]).body
        values = [
            eval(ast.unparse(line), space) if isinstance(line, ast.Expr) else exec(ast.unparse(line), space)
            for line in lines
        ]
        found = [value for value in values if value is not None]
        if name == "headtable":
            frame = found[0] if source == "prompt" else found[0][0]
            assert (frame.to_numpy() == unpacked(parts[name]["values"])[:, :-1]).all()
        elif name == "scatter":
            x, y = (decoded(figure(parts[name])["data"][0][axis]) for axis in "xy")
            frame = found[0] if source == "prompt" else found[0][0]
            assert (frame["self"] == x).all() and (found[1].ravel() == y).all()
        else:
            assert found[0][0]["q"].shape == (L, H) and found[-1] == copying(lm.model)[1, 2]
