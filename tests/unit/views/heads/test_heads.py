"""The heads tab: its survey, what is drawn again, its words and lines of Python."""

import dataclasses
import re
import time

import numpy as np
import pandas as pd
import pytest

from model.attention.circuits import copying
from model.attention.surveys import MARGIN, SENTENCES, labels, random_survey, sentence_survey
from model.tracing.head_metrics import HEAD_METRICS
from tests.support.models.helpers import H, L
from tests.support.scripts import words_read
from tests.support.views.views import array, drawn, perform, question, run_lines, traces
from viz.page.pipeline import payloads, scene_of
from viz.seam.jobs import background
from viz.views.heads.heads.figures import named
from viz.views.heads.heads.measure import LEAST, Surveyed
from viz.views.heads.heads.view import VIEW
from viz.views.heads.tab import TAB
from viz.words import LANGUAGES, words

PROMPT = "abcab"
KEYS = list(HEAD_METRICS)
NOTHING = re.compile(r"<|&\w+;|javascript:")


def parts_of(playground, form=None, **changes):
    return drawn(playground, "heads", "heads", form, **{"prompt": PROMPT, "heads": [[1, 2]], **changes})


def asked(prompt=PROMPT, head=(1, 2), form=None, shown=None, **changes):
    return dataclasses.replace(
        question("heads", "heads", form, prompt, heads=[list(head)], **changes), shown=shown or {}
    )


def test_a_click_on_a_head_leaves_the_table_alone(playground):
    _, shown = payloads(playground, asked())
    drawn = set(payloads(playground, asked(head=(0, 1), shown=shown))[0]) - {"header", "notice", "tokens"}
    assert drawn == {"heads_scatter", "heads_composition"}


def test_another_prompt_leaves_the_probe_alone(measured):
    playground, _ = measured
    form = {"source": "random"}
    _, shown = payloads(playground, asked(form=form))
    assert {"heads_table", "heads_scatter", "heads_composition"}.isdisjoint(
        payloads(playground, asked("xyxyx", form=form, shown=shown))[0]
    )
    form = {"source": "prompt"}
    _, shown = payloads(playground, asked(form=form))
    drawn = payloads(playground, asked("xyxyx", form=form, shown=shown))[0]
    assert {"heads_table", "heads_scatter"} <= set(drawn) and "heads_composition" not in drawn


def test_a_finished_survey_is_drawn(playground, found, survey):
    _, shown = payloads(playground, asked())
    survey(playground, found)
    drawn = payloads(playground, asked(shown=shown))[0]
    assert {"heads_survey", "heads_table", "heads_scatter", "heads_composition"} <= set(drawn)
    assert drawn["heads_survey"]["state"] == "done" and "2.5" in drawn["heads_survey"]["text"]


def test_names_of_heads_are_known_to_the_whole_page_once_they_were_measured(playground, found, survey):
    before = payloads(playground, asked())[0]["header"]
    survey(playground, found)
    _, shown = payloads(playground, asked())
    after = payloads(playground, dataclasses.replace(asked(), tab="effects"))[0]["header"]["head_names"]
    assert before["head_names"] == {} and found.names
    for (layer, head), names in found.names.items():
        told = [[words("en")[f"label.{label}"], f"{score:.2f}"] for label, score, _ in names]
        assert [entry[:2] for entry in after[f"{layer}.{head}"]] == told
    assert len(after) == len(found.names)
    assert "header" not in payloads(playground, asked(shown=shown))[0]  # told once


# --- the job ---


def job_of(playground, **changes):
    return TAB.jobs["heads_survey"](scene_of(playground, asked(**changes)), {})


def test_the_job_measures_both_probes_and_the_weights(playground, lm):
    job, told = job_of(playground), []
    found = job.work(lambda done, total, what: told.append((done, total)))
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
    running = background.perform(playground, job, "en")
    next(running)
    running.close()
    with playground.computing:  # taken by the job until it has stopped
        pass
    time.sleep(0.3)
    assert playground.results.peek(job.key) is None
    *_, last = background.perform(playground, job, "en")
    assert last[1] and isinstance(playground.results.peek(job.key).value, Surveyed)


def test_another_prompt_or_edit_needs_no_other_survey(playground):
    edits = [{"kind": "zero", "layer": 0, "head": 1}]
    assert job_of(playground).key == job_of(playground, prompt="other", edits=edits, language="zh").key


# --- words and code ---


def texts(value):
    if isinstance(value, dict):
        return [text for inner in value.values() for text in texts(inner)]
    if isinstance(value, list | tuple):
        return [text for inner in value for text in texts(inner)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_of_the_script_is_there(measured, language):
    table = parts_of(measured[0], language=language)["table"]
    wanted = words_read("views/heads/head_table")
    assert {"shown", "sort", "filter_layer", "nameless", "rule"} <= wanted
    assert wanted - set(table["words"]) == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_fixed_parts_are_words(language):
    said = words(language)
    parts = TAB.fixed(said)
    assert set(parts) < set(TAB.parts)
    assert f"{LEAST}" in said["heads.howto.formula"] and f"{MARGIN}" in said["heads.howto.formula"]
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


@pytest.mark.parametrize("source", ["prompt", "words", "random", "sentences"])
def test_the_python_lines_make_the_numbers(playground, lm, source):
    perform(playground, "heads", VIEW, "survey", prompt=PROMPT)  # no other text whose run this prompt could go on from
    form = {"source": source, "x": "self", "y": "copying"}
    parts = parts_of(playground, form=form, prompt="ab ab." if source == "words" else PROMPT)
    rounding = 1e-6 if source == "words" else 0  # of another product of the run that the lines make
    for name in ("table", "scatter", "composition"):
        _, found = run_lines(parts[name]["python"], lm)
        if name == "table":
            frame = found[0] if source in ("prompt", "words") else found[0][0]
            np.testing.assert_allclose(frame.to_numpy(), array(parts[name]["values"])[:, :-1], rtol=0, atol=rounding)
        elif name == "scatter":
            x, y = (array(traces(parts[name])[0][axis]) for axis in "xy")
            frame = found[0] if source in ("prompt", "words") else found[0][0]
            assert (abs(frame["self"] - x) <= rounding).all() and (found[1].ravel() == y).all()
        else:
            assert found[0][0]["q"].shape == (L, H) and found[-1] == copying(lm.model)[1, 2]
