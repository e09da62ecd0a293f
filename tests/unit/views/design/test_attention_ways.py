"""The view of the ways to attend, and its endpoints, without a browser."""

import json
import re

import numpy as np
import pytest

from model.api import LanguageModel
from model.design import kernel_costs
from model.design.kernels import WAYS
from model.errors import PlaygroundError
from tests.support.models.helpers import VARIANTS, assert_close, byte_tokenizer, serving, tiny_model
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.numbers import decimals, number
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.scene import default_head
from viz.views.design.attention_ways import measure as measuring
from viz.views.design.attention_ways.view import VIEW
from viz.work.limits import PUBLIC
from viz.work.playground import Options

PROMPT = "abcabd ab"
NAMED = {each.name: each for each in ENDPOINTS}
COSTS = ("times", "memory", "costs")


def playground_of(tokenizer, variant="gpt2", options=None):
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300})
    return serving(LanguageModel("tiny", "Tiny", model, tokenizer), options)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(tokenizer):
    return playground_of(tokenizer)


@pytest.fixture
def short(monkeypatch):
    """Measurements of a moment."""
    monkeypatch.setattr(kernel_costs, "LENGTHS", (8, 16))
    monkeypatch.setattr(measuring, "LENGTHS", (8, 16))


def opened(playground, prompt=PROMPT, language="en", **selection):
    return scene_of(playground, PageRequest("tiny", prompt, selection or None, {}, {}, language))


def drawn(playground, form=None, **changes):
    """The payloads by their short names, figures as their JSON."""
    pictures = panels.pictures(VIEW, opened(playground, **changes), {"attention_ways_form": form})
    parts = {name: json.loads(packed(picture.make())) for name, picture in pictures.items()}
    return {name.removeprefix("attention_ways_"): part for name, part in parts.items()}


def done(playground, form=None, **changes):
    """The payloads once the job is done."""
    scene = opened(playground, **changes)
    settings = panels.settings_of(VIEW, scene, {"attention_ways_form": form})
    list(background.perform(playground, panels.job_of(VIEW, "costs", scene, settings), "en"))
    return drawn(playground, form, **changes)


def traces(part):
    return part["figure"]["data"]


def run_lines(text, model):
    """The value of the last line, an expression."""
    *lines, last = text.replace("load_model('tiny')", "lm").splitlines()
    space = {"lm": model}
    exec("\n".join(lines), space)
    return eval(re.sub(r"\s+#.*$", "", last), space)


def no_holes(parts):
    """No placeholder is left in any text."""
    keys = ("title", "note", "about", "check", "text", "source")
    texts = json.dumps([{key: part[key] for key in keys if key in part} for part in parts.values()])
    assert not re.search(r"\{\w+\}", texts)


# --- one row ---


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_row_ends_as_the_models_own(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    parts = drawn(playground, {"block": "4"}, heads=[[1, 3]], tokens=[6])
    no_holes(parts)
    trace = playground.opened("tiny").trace(PROMPT)
    scores, top, heat = traces(parts["steps"])
    assert_close(scores["y"], trace.scores(1, 3)[6, :7], 1e-4)
    assert_close(heat["z"][-1], trace.pattern(1, 3)[6, :7], 1e-5)
    assert heat["z"][1] == heat["z"][2] and heat["z"][0][4:] == [None] * 3
    assert top["y"] == pytest.approx([max(scores["y"][:4]), max(scores["y"][:4]), max(scores["y"])], abs=1e-5)
    rows = parts["rows"]
    assert rows["same"] and [row[1] for row in rows["rows"]] == ["0–3", "4–6"]
    z = trace.z(1, 3)[6]
    assert float(rows["rows"][-1][-1]) == pytest.approx(float(np.linalg.norm(z)), abs=1e-3)
    assert parts["exact"]["same"] and len(parts["exact"]["rows"]) == len(WAYS)
    assert "float32 row: " in rows["check"]


def test_a_row_of_an_edited_run_hides_what_the_edit_blocks(playground):
    block = {"kind": "block_edge", "query": 6, "key": 5}
    parts = drawn(playground, {"block": "1"}, heads=[[1, 3]], tokens=[6], edits=[block])
    scores, _, heat = traces(parts["steps"])
    assert scores["y"][5] is None and heat["z"][-1][5] == 0
    assert parts["rows"]["rows"][5][2] == "−∞" and parts["rows"]["same"]
    assert parts["rows"]["lines"][5][2] == "" and "float32 row" not in parts["rows"]["check"]
    assert parts["exact"]["source"].endswith("edited run")
    no_holes(parts)


def test_a_long_row_has_sixteen_blocks(playground):
    parts = drawn(playground, {"block": "1"}, prompt="ab" * 20)
    assert len(parts["rows"]["rows"]) == 14 and "Blocks have 3 keys" in parts["steps"]["note"]


@pytest.mark.parametrize("sent", [None, [], {"block": 4}, {"block": "3"}])
def test_what_is_not_offered_is_two_keys(playground, sent):
    parts = drawn(playground, sent)
    assert [row[1] for row in parts["rows"]["rows"]] == ["0–1", "2–3", "4–5", "6–7", "8"]
    options = panels.fixed(VIEW, opened(playground).words)["attention_ways_form"]["controls"][0]["options"]
    assert options[:2] == [["1", "1 key"], ["2", "2 keys"]]


# --- what it costs ---


def test_costs_are_measured_by_the_button(playground, short):
    before = drawn(playground)
    assert before["job"]["state"] == "idle" and all(set(before[name]) == {"empty"} for name in COSTS)
    assert "8 to 16 tokens" in before["job"]["text"]
    parts = done(playground)
    no_holes(parts)
    assert parts["job"]["state"] == "done" and parts["costs"]["same"]
    assert [row[:2] for row in parts["costs"]["rows"]][::4] == [
        ["8", "all scores at once"],
        ["16", "all scores at once"],
    ]
    assert len(traces(parts["times"])) == 4 and len(traces(parts["memory"])) == 5
    first = traces(parts["times"])[0]
    assert len(first["text"]) == len(first["x"]) == 2 and "–" in first["text"][0]
    assert "measured here" in parts["times"]["source"]
    other = drawn(playground, prompt="another", heads=[[0, 0]])
    assert "empty" not in other["times"]  # numbers are random: the prompt does not matter


def test_what_was_not_run_is_said(playground, monkeypatch, short):
    full = kernel_costs.measure((4, 4, 12), 16)
    costs = tuple(cost for cost in full.costs if cost.length == 8 and cost.way != "naive")
    broken = type(full)(4, 4, 12, costs, full.exact[:1], 1, "")
    monkeypatch.setattr(kernel_costs, "measure", lambda *_: broken)
    parts = done(playground)
    assert "From 8 tokens on" in parts["times"]["note"] and "16 tokens would have taken" in parts["times"]["note"]
    assert "not set" in parts["times"]["source"] and parts["costs"]["about"].startswith("Measured at 8 tokens only")
    assert len(traces(parts["times"])) == 3


def test_a_public_server_measures_less(tokenizer):
    ours = playground_of(tokenizer, options=Options(model="tiny", max_tokens=40, allowed=PUBLIC))
    for playground, limit in ((ours, 1024), (playground_of(tokenizer), 4096)):
        scene = opened(playground)
        planned = panels.measured(VIEW, "plan", scene, panels.settings_of(VIEW, scene, {})).value
        assert planned.limit == limit == planned.lengths[-1] and planned.shape == (4, 4, 12)


# --- Python, programs ---


def test_python_lines_of_the_ways(playground, short):
    model, parts = playground.opened("tiny"), done(playground)
    heat = traces(parts["steps"])[2]["z"]
    assert_close(run_lines(parts["steps"]["python"], model)[-1], heat[-1], 1e-5)
    steps = run_lines(parts["rows"]["python"], model)
    assert steps[-1][2] == pytest.approx(parts["rows"]["lines"][-1][5])
    assert decimals(steps[-1][2], 4) == parts["rows"]["rows"][-1][5]
    exact = run_lines(parts["exact"]["python"], model)
    assert [each.way for each in exact] == list(WAYS)
    assert [number(each.gap, 2) for each in exact] == [row[3] for row in parts["exact"]["rows"]]
    text = parts["times"]["python"].replace(", 16)", ", 8)")
    assert {cost.length for cost in run_lines(text, model).costs} == {8}


def ask(playground, name, **given):
    """The answer as a program gets it: through JSON that knows no NaN."""
    answer = call(playground, NAMED[name], {"prompt": PROMPT, **given})
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    return answer


def test_endpoint_of_the_ways(playground, short):
    answer = ask(playground, "attention_kernels", layer=1)
    assert [each["way"] for each in answer["exact"]] == list(WAYS) and all(e["share"] <= 1 for e in answer["exact"])
    assert {row["length"] for row in answer["costs"]} == {8, 16} and answer["threads"] > 0
    assert ask(playground, "attention_kernels", costs=False)["costs"] == []
    with pytest.raises(PlaygroundError):
        ask(playground, "attention_kernels", layer=7)


def test_the_layer_by_default_is_the_first_with_attention(tokenizer):
    mixed = {"mixer": ("mamba2", "softmax", "softmax"), "positions": "none", "vocab_size": 256, "n_ctx": 300}
    server = serving(LanguageModel("tiny", "Tiny", tiny_model(mixed), tokenizer))
    assert ask(server, "attention_kernels", costs=False)["layer"] == 1
    assert ask(server, "online_softmax")["scores"] == ask(server, "online_softmax", layer=1)["scores"]
    assert ask(server, "score_scaling")["trained"] == ask(server, "score_scaling", layer=1)["trained"]
    assert default_head(server.opened("tiny").trace(PROMPT))[0] > 0


def test_endpoint_of_the_online_softmax(playground):
    answer = ask(playground, "online_softmax", layer=1, head=3, position=6, block=3)
    trace = playground.opened("tiny").trace(PROMPT)
    assert_close(answer["scores"], trace.scores(1, 3)[6, :7], 1e-5)
    assert_close(answer["steps"][-1]["weights"], trace.pattern(1, 3)[6, :7], 1e-6)
    assert [len(step["weights"]) for step in answer["steps"]] == [3, 6, 7] and answer["gap"] < 1e-12
    assert answer["tokens"] == list(PROMPT[:7])
    edits = [{"kind": "block_edge", "query": 6, "key": 0}]
    blocked = ask(playground, "online_softmax", layer=1, head=3, position=6, block=1, edits=edits)
    assert blocked["scores"][0] is None and blocked["steps"][0]["maximum"] is None
