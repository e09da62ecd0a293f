"""The views of shared KV heads and of the scaling, and their endpoints, without a browser."""

import json
import math
import re

import numpy as np
import pytest
import torch

from model.api import LanguageModel
from model.design.kv_sharing import MERGES, group_counts, pattern_at, pooled, stops, survey
from model.design.score_scaling import drawn as random_rows
from model.gpt.trace import run
from model.gpt.transformer import Transformer
from tests.support.helpers import VARIANTS, assert_close, byte_tokenizer, serving, tiny_model
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.page import background
from viz.page.pipeline import Asked, payloads, scene_of
from viz.views.design.kv_heads import view as kv_heads
from viz.views.design.kv_heads.figures import moved

PROMPT = "abcabd ab"
EDIT = {"kind": "zero", "layer": 1, "head": 2}
NAMED = {each.name: each for each in ENDPOINTS}


def playground_of(tokenizer, variant="gpt2", options=None):
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300})
    return serving(LanguageModel("tiny", "Tiny", model, tokenizer), options)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(tokenizer):
    return playground_of(tokenizer)


def question(view, form=None, prompt=PROMPT, language="en", **selection):
    sent = {"design_view": {"view": view}, f"{view}_form": form or {}}
    return Asked("tiny", prompt, selection or None, sent, {}, language, "design")


def drawn(playground, view, form=None, **changes):
    parts = payloads(playground, question(view, form, **changes))[0]
    json.dumps(parts, allow_nan=False)
    return {name: part for name, part in parts.items() if name.startswith(f"{view}_")}


def done(playground, view, plan, form=None, **changes):
    """The payloads once the job is done."""
    asked = question(view, form, **changes)
    list(background.perform(playground, plan(scene_of(playground, asked), asked.values), "en"))
    return drawn(playground, view, form, **changes)


def figure(part):
    return json.loads(part["figure"])


def run_lines(text, model):
    """The value of the last line, an expression."""
    *lines, last = text.replace("load_model('tiny')", "lm").splitlines()
    space = {"lm": model}
    exec("\n".join(lines), space)
    return eval(re.sub(r"\s+#.*$", "", last), space)


def no_holes(parts):
    """No placeholder is left in any text."""
    texts = json.dumps(
        [
            {k: v for k, v in part.items() if k in ("title", "note", "about", "check", "text", "source")}
            for part in parts.values()
        ]
    )
    assert not re.search(r"\{\w+\}", texts)


# --- shared heads ---


@pytest.mark.parametrize("variant", VARIANTS)
def test_shared_heads_at_once(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    model, parts = playground.opened("tiny"), drawn(playground, "sharing", heads=[[1, 3]])
    no_holes(parts)
    counts = group_counts(model.config)
    if counts == (1,):
        assert "one KV head already" in parts["sharing_before"]["empty"]["text"]
        assert len(parts["sharing_table"]["rows"]) == 1
        return
    assert [n for n, *_ in parts["sharing_form"]["controls"][0]["options"]] == [str(n) for n in counts[1:]]
    found = survey(model.model, list(PROMPT.encode()))
    assert len(parts["sharing_table"]["rows"]) == 1 + 3 * (len(counts) - 1) == len(found.variants)
    assert parts["sharing_table"]["same"]
    for row, each in zip(parts["sharing_table"]["lines"], found.variants, strict=True):
        assert row[1:3] == [each.cache, each.parameters]
        assert row[3:] == pytest.approx([each.kl, each.agree, each.loss])
    mean, *_ = figure(parts["sharing_damage"])["data"]
    means = [each.loss for each in found.variants if each.merge == "mean"]
    assert mean["y"] == pytest.approx(means) and mean["x"] == [str(n) for n in counts]
    chosen = next(each for each in found.variants[1:] if each.merge == "mean")
    assert_close(figure(parts["sharing_where"])["data"][0]["y"], chosen.divergences, 1e-4)


@pytest.mark.parametrize("form", [{"groups": "2", "merge": "first"}, {"groups": "1", "merge": "random"}])
def test_maps_are_those_of_whole_runs(playground, form):
    model, parts = playground.opened("tiny"), drawn(playground, "sharing", form, heads=[[2, 3]])
    trace = model.trace(PROMPT)
    made = run(pooled(model.model, int(form["groups"]), form["merge"]), trace.tokens).pattern(2, 3)
    past = np.where(np.tri(len(PROMPT), dtype=bool), made, np.nan)
    before = np.where(np.tri(len(PROMPT), dtype=bool), trace.pattern(2, 3), np.nan)

    def z(name):
        return run_lines(parts[name]["python"], model)

    assert_close(np.where(np.tri(len(PROMPT), dtype=bool), z("sharing_before"), np.nan), before, 1e-6)
    assert_close(z("sharing_after"), past, 1e-5)
    assert_close(z("sharing_change"), past - before, 1e-5)
    assert figure(parts["sharing_change"])["layout"]["meta"]["window"] == [0, 9, 0, 9]
    assert "2.1" in figure(parts["sharing_diagram"])["data"][-2 if form["groups"] == "4" else -3]["hovertext"][1]


def test_what_moved_by_hand():
    before, after = np.array([[1.0, np.nan], [0.5, 0.5]]), np.array([[1.0, np.nan], [0.2, 0.8]])
    assert moved(before, after) == pytest.approx(0.3)
    assert moved(before[:1, :1], after[:1, :1]) == 0


def test_python_lines_of_the_survey(playground):
    model, parts = playground.opened("tiny"), drawn(playground, "sharing")
    found = run_lines(parts["sharing_table"]["python"], model)
    assert [row[0] for row in found] == [4, 2, 2, 2, 1, 1, 1] and found[0][4] < 1e-9
    losses = run_lines(parts["sharing_damage"]["python"], model)
    assert [loss for n, merge, loss in losses if merge == "mean"] == pytest.approx(
        figure(parts["sharing_damage"])["data"][0]["y"]
    )
    where = run_lines(parts["sharing_where"]["python"], model)
    assert_close(where, figure(parts["sharing_where"])["data"][0]["y"], 1e-4)
    assert run_lines(parts["sharing_diagram"]["python"], model) == ((0, 0), (1, 0), (2, 1), (3, 1))


def test_edits_are_left_out_and_it_is_said(playground):
    plain, edited = drawn(playground, "sharing"), drawn(playground, "sharing", edits=[EDIT])
    assert edited["sharing_table"]["lines"] == plain["sharing_table"]["lines"]
    assert "without your edits" in edited["sharing_table"]["source"]
    assert "edits are left out" in edited["sharing_job"]["text"] and "edits" not in plain["sharing_job"]["text"]
    assert figure(edited["sharing_before"])["data"] == figure(plain["sharing_before"])["data"]


def test_one_token_shows_the_divergence(playground):
    parts = drawn(playground, "sharing", prompt="a", language="zh")
    assert parts["sharing_table"]["rows"][1][-1] == "–"
    assert figure(parts["sharing_damage"])["data"][0]["y"][0] == 0
    no_holes(parts)


def test_what_takes_a_while_waits_for_the_button(playground, monkeypatch):
    monkeypatch.setattr(kv_heads, "QUICK", 0)
    parts = drawn(playground, "sharing")
    assert parts["sharing_job"]["state"] == "idle" and parts["sharing_job"]["start"] == "Compute all variants"
    shown = ("table", "damage", "where", "before", "after", "change")
    assert all("empty" in parts[f"sharing_{name}"] for name in shown)
    parts = done(playground, "sharing", kv_heads.plan)
    assert parts["sharing_job"]["state"] == "done" and not any("empty" in parts[f"sharing_{name}"] for name in shown)
    other = drawn(playground, "sharing", {"groups": "1"})
    assert other["sharing_job"]["start"] == "Compute this variant"
    assert "empty" in other["sharing_after"] and "empty" not in other["sharing_where"]
    monkeypatch.setattr(kv_heads, "survey", lambda *_: pytest.fail("computed again"))
    assert "empty" not in done(playground, "sharing", kv_heads.plan, {"groups": "1"})["sharing_after"]


def test_the_model_is_held_while_it_runs(playground, monkeypatch):
    held, layers = [], kv_heads.survey

    def spy(*given):
        held.append(playground.computing.locked())
        return layers(*given)

    monkeypatch.setattr(kv_heads, "survey", spy)
    drawn(playground, "sharing")
    assert held == [True] and not playground.computing.locked()


@pytest.mark.parametrize("form", [None, [], {"groups": 2}, {"groups": "3", "merge": "worst"}, {"groups": None}])
def test_what_is_not_offered_is_the_first_choice(playground, form):
    scene = scene_of(playground, question("sharing"))
    assert kv_heads.chosen_of(scene, {"sharing_form": form}) == kv_heads.Chosen(2, "mean")


# --- scaling ---


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_scaling_of_a_head(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    parts = drawn(playground, "rootd", {"power": 0.25}, heads=[[1, 3]], tokens=[5])
    no_holes(parts)
    trace = playground.opened("tiny").trace(PROMPT)
    trained, chosen = figure(parts["rootd_row"])["data"]
    assert_close(trained["y"], trace.pattern(1, 3)[5, :6], 1e-5)
    sharper = torch.from_numpy(trace.scores(1, 3)[5, :6] * trace.config.d_head**0.25).softmax(0)
    assert_close(chosen["y"], sharper, 1e-4)
    assert len(parts["rootd_table"]["rows"]) == 4
    entropy = figure(parts["rootd_rows"])["data"][1]
    assert entropy["y"][0] == 0 and len(entropy["y"]) == len(PROMPT)
    rows = run_lines(parts["rootd_rows"]["python"], playground.opened("tiny"))
    assert_close(rows[0].entropy, entropy["y"], 1e-4)


def test_nothing_is_run_while_the_slider_moves(playground, monkeypatch):
    drawn(playground, "rootd")
    monkeypatch.setattr(Transformer, "trunk", lambda *_, **__: pytest.fail("the model was run"))
    monkeypatch.setattr("model.gpt.trace.Trace.scores", lambda *_: pytest.fail("scores were computed again"))
    seen = {drawn(playground, "rootd", {"power": power})["rootd_scores"]["figure"] for power in (0, 0.3, 1)}
    assert len(seen) == 3


def test_one_token_has_nothing_to_divide(playground):
    parts = drawn(playground, "rootd", prompt="a", language="zh")
    assert "empty" in parts["rootd_table"] and "empty" not in parts["rootd_rows"]


def test_python_lines_of_the_scaling(playground):
    model, parts = playground.opened("tiny"), drawn(playground, "rootd", {"power": 1}, heads=[[2, 0]])
    table = run_lines(parts["rootd_table"]["python"], model)
    assert [f"{each.entropy:.3f}" for each in table] == [row[2] for row in parts["rootd_table"]["rows"]]
    weights = run_lines(parts["rootd_row"]["python"], model)
    assert_close(weights[1], figure(parts["rootd_row"])["data"][1]["y"], 1e-5)
    assert len(run_lines(parts["rootd_scores"]["python"], model)) == 2
    assert run_lines(parts["rootd_random"]["python"], model) == random_rows()


@pytest.mark.parametrize("sent", [None, [], {"power": "1"}, {"power": math.nan}, {"power": -3}])
def test_a_power_that_cannot_be_is_none(playground, sent):
    assert drawn(playground, "rootd", sent)["rootd_table"]["rows"][0][0] == "q·k (no scaling)"


# --- endpoints ---


def ask(playground, name, **given):
    """The answer as a program gets it: through JSON that knows no NaN."""
    found = call(playground, NAMED[name], {"prompt": PROMPT, **given})
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


@pytest.mark.parametrize("variant", ["gpt2", "qwen3", "post", "mqa"])
def test_endpoint_of_shared_heads(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    model, found = playground.opened("tiny").model, ask(playground, "shared_heads", details=True)
    expected = survey(model, list(PROMPT.encode()))
    assert found["kv_heads"] == list(group_counts(model.config)) and found["loss"] == pytest.approx(expected.loss)
    assert len(found["variants"]) == len(expected.variants)
    for row, each in zip(found["variants"], expected.variants, strict=True):
        assert (row["kv_heads"], row["merge"], row["cache_a_token"]) == (each.groups, each.merge, each.cache)
        assert row["kl"] == pytest.approx(each.kl) and len(row["divergences"]) == len(PROMPT)
    first = ask(playground, "shared_heads", merge="first")["variants"]
    assert {row["merge"] for row in first[1:]} <= {"first"} and "divergences" not in first[0]


def test_endpoint_of_the_scaling(playground):
    found = ask(playground, "score_scaling", layer=1, head=3, power=0.5, position=4)
    assert found["trained"] == found["chosen"] | {"power": 0.5} and found["d_head"] == 12
    pattern = playground.opened("tiny").trace(PROMPT).pattern(1, 3)[4, :5]
    assert_close(found["weights"]["chosen"], pattern, 1e-6)
    assert ask(playground, "score_scaling", power=0)["chosen"]["entropy"] < found["trained"]["entropy"] + 10
    assert found["random"][-1]["size"] == 1024
    assert ask(playground, "score_scaling", prompt="a")["trained"] is None


def test_stops_and_patterns_need_no_whole_run(playground):
    """One layer from the nearest stop on: what the page keeps of a run is enough."""
    model = playground.opened("tiny").model
    kept = stops(model, list(PROMPT.encode()), 2, "mean")
    assert set(kept.streams) == {0, 1, 2} and pattern_at(model, kept, 2, 0).shape == (9, 9)
    assert set(MERGES) == {"mean", "first", "random"}
