"""The view of what a model may forget, its function for programs and its Python lines, without a browser."""

import numpy as np
import pytest
import torch

from model.forgetting.policies import CACHES, POLICIES, Policy
from model.forgetting.reading import read
from tests.support.models.helpers import VARIANTS, assert_close, byte_tokenizer
from tests.support.views.views import array, measured, no_holes, perform, playground_of, run_lines, traces
from tests.support.views.views import drawn as drawn_in
from viz.api.registry import call
from viz.numbers import nats, percent
from viz.views.cheaper.forget.view import VIEW

PROMPT = "abcabd abcabe abcabf abcabg"
CHANGES = {"n_ctx": 600}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(tokenizer):
    return playground_of(tokenizer, "llama", CHANGES)


def drawn(playground, form=None, **changes):
    return drawn_in(playground, "cheaper", "forget", form, **{"prompt": PROMPT, **changes})


def done(playground, name="main", form=None, **changes):
    perform(playground, "cheaper", VIEW, name, form, **{"prompt": PROMPT, **changes})
    return drawn(playground, form, **changes)


def reading_of(playground, policy, prompt=PROMPT):
    lm = playground.opened("tiny")
    return read(lm.model, torch.from_numpy(lm.encode(prompt).ids)[None], policy, size=lm.tokenizer.vocab_size)


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_policy_is_drawn(playground, kind, language):
    parts = done(playground, form={"kind": kind, "budget": 6}, language=language, heads=[[1, 3]], tokens=[2, 9])
    no_holes(parts)
    for name in ("head", "loss", "lost"):
        assert traces(parts[name]), name
    assert ("figure" in parts["timeline"]) == (kind in CACHES)
    picked = (2, 9) if kind in ("longformer", "bigbird") else ()
    found = reading_of(playground, Policy(kind, 6, first=1, global_at=picked))
    full, less = traces(parts["loss"])
    assert_close(array(full["y"]), found.full_loss[0, :-1], 1e-4)
    assert_close(array(less["y"]), found.loss[0, :-1], 1e-4)
    assert_close(array(traces(parts["lost"])[0]["z"]), found.lost, 1e-5)
    assert nats(float(found.loss[0, :-1].mean())) in parts["loss"]["note"]
    assert percent(float(found.lost.max())) in parts["lost"]["note"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_head_in_full_and_with_less(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    form = {"kind": "window", "budget": 5}
    cut = measured(playground, "cheaper", VIEW, "head", form, prompt=PROMPT, heads=[[1, 2]])
    pattern = playground.opened("tiny").trace(PROMPT).pattern(1, 2)
    T = len(pattern)
    behind = np.arange(T)[:, None] - np.arange(T)[None, :]
    inside = (behind >= 0) & (behind < 5)
    assert np.array_equal(cut.seen, inside)
    assert_close(np.nan_to_num(cut.full), pattern, 1e-5)
    kept = np.where(inside, pattern, 0)
    assert_close(np.nan_to_num(cut.left), kept / kept.sum(1, keepdims=True), 1e-5)
    assert cut.lost == pytest.approx((pattern - kept).sum() / T, abs=1e-5) and cut.lost > 0
    panels = traces(drawn(playground, form, heads=[[1, 2]])["head"])
    assert len(panels) == 4 and percent(cut.lost) in drawn(playground, form, heads=[[1, 2]])["head"]["note"]


def test_heads_that_share_keys_vote_together(tokenizer):
    """The picked head's H2O is that of its layer in the whole run, where nothing before it was restricted."""
    playground = playground_of(tokenizer, "gqa")
    form = {"kind": "h2o", "budget": 6}
    group = playground.opened("tiny").config.group_size
    assert group > 1
    found = reading_of(playground, Policy("h2o", 6))
    for head in range(playground.opened("tiny").config.n_head):
        cut = measured(playground, "cheaper", VIEW, "head", form, prompt=PROMPT, heads=[[0, head]])
        gone = np.arange(len(PROMPT)) + cut.seen.sum(0)
        assert np.array_equal(gone, found.gone[0, head // group])


def test_the_first_token_on_the_text_of_everybody(playground):
    parts = done(playground, "text")
    full, window, first = traces(parts["text"])
    assert len(full["y"]) == len(window["y"]) == 20
    assert parts["text"]["note"] and "first token" in first["name"]
    _, values = run_lines(parts["text"]["python"], playground.opened("tiny"))
    assert [each.policy for each in values[-1]] == [Policy("window", 10), Policy("first", 10, first=1)]
    assert_close(np.nanmean(values[-1][0].loss[:, 38:]), array(window["y"])[-1], 1e-4)


def test_the_timeline_says_when_a_key_went(playground):
    parts = done(playground, form={"kind": "window", "budget": 4})
    heat = traces(parts["timeline"])[0]
    T = len(PROMPT)
    stays = np.minimum(4, T - np.arange(T))
    assert (array(heat["z"]) == stays).all()
    assert heat["text"][0][0].endswith("4") and heat["text"][0][-1] == "kept to the end"


def test_a_short_prompt_and_a_pattern_say_why_there_is_no_timeline(playground):
    nothing = done(playground, form={"kind": "h2o", "budget": 27})["timeline"]["empty"]["hint"]
    assert "27" in nothing
    assert "pattern" in done(playground, form={"kind": "block", "budget": 4})["timeline"]["empty"]["hint"]
    one = done(playground, prompt="a")
    assert "one token" in one["loss"]["empty"]["hint"]


def test_edits_are_left_out_and_that_is_said(playground):
    parts = drawn(playground, edits=[{"kind": "zero", "layer": 1, "head": 2}])
    assert "edits are left out" in parts["job"]["text"]
    plain = drawn(playground)
    assert traces(parts["head"])[0]["z"] == traces(plain["head"])[0]["z"]


def test_the_python_lines(playground):
    model, form = playground.opened("tiny"), {"kind": "first", "budget": 6, "first": 2}
    parts = done(playground, form=form, heads=[[1, 3]])
    cut = measured(playground, "cheaper", VIEW, "head", form, prompt=PROMPT, heads=[[1, 3]])
    space, _ = run_lines(parts["head"]["python"], model)
    assert np.array_equal(space["seen"].numpy(), cut.seen)
    assert_close(space["weights"][0, 0, 0].numpy(), np.nan_to_num(cut.left), 1e-5)
    for name, last in (("loss", "loss"), ("lost", "lost"), ("timeline", "gone"), ("following", "before")):
        space, values = run_lines(parts[name]["python"], model)
        assert space["reading"].policy == Policy("first", 6, first=2) and f"reading.{last}" in parts[name]["python"]
    assert_close(values[-1][0][0][1], space["reading"].before[0][1], 1e-6)


def test_for_programs(playground):
    told = call(playground, VIEW.api[0], {"prompt": PROMPT, "kind": "longformer", "budget": 5, "global_at": [3]})
    found = reading_of(playground, Policy("longformer", 5, global_at=(3,)))
    assert_close(told["loss"], found.loss[0, :-1], 1e-4)
    assert_close(told["lost"], found.lost, 1e-5)
    assert told["gone"] is None and told["strongest"][0]["value"] == pytest.approx(float(found.lost.max()), abs=1e-5)
    told = call(playground, VIEW.api[0], {"prompt": PROMPT, "kind": "h2o", "budget": 5})
    assert np.array(told["gone"]).shape == (2, 2, len(PROMPT)) or len(told["gone"])
    assert {"id", "text", "full", "less"} == set(told["before"][0])
