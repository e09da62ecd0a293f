"""The view of scaling by the root of d, its function for programs and its Python lines, without a browser."""

import json
import math

import pytest
import torch

from model.design.score_scaling import drawn as random_rows
from model.gpt.transformer import Transformer
from tests.support.models.helpers import VARIANTS, assert_close, byte_tokenizer
from tests.support.views.views import PROMPT, no_holes, playground_of, run_lines, traces
from tests.support.views.views import drawn as drawn_in
from viz.api.registry import call
from viz.numbers import bits
from viz.views.design.score_scaling.view import VIEW


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(tokenizer):
    return playground_of(tokenizer)


def drawn(playground, form=None, **changes):
    return drawn_in(playground, "design", "score_scaling", form, **changes)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_scaling_of_a_head(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    parts = drawn(playground, {"power": 0.25}, heads=[[1, 3]], tokens=[5])
    no_holes(parts)
    trace = playground.opened("tiny").trace(PROMPT)
    trained, chosen = traces(parts["row"])
    assert_close(trained["y"], trace.pattern(1, 3)[5, :6], 1e-5)
    sharper = torch.from_numpy(trace.scores(1, 3)[5, :6] * trace.config.d_head**0.25).softmax(0)
    assert_close(chosen["y"], sharper, 1e-4)
    assert len(parts["table"]["rows"]) == 4
    entropy = traces(parts["rows"])[1]
    assert entropy["y"][0] == 0 and len(entropy["y"]) == len(PROMPT)
    # The look-up: at T = 1 the model's own weights, at the lowest T one key.
    *weights, apart = traces(parts["lookup"])
    cold = torch.from_numpy(trace.scores(1, 3)[5, :6]).double().div(0.01).softmax(0).max()
    assert weights[0]["y"][0] == pytest.approx(float(cold), abs=1e-3) and apart["y"][0] < apart["y"][40]
    assert_close(sorted((line["y"][40] for line in weights), reverse=True), sorted(trained["y"])[:-6:-1], 1e-5)
    assert run_lines(parts["lookup"]["python"], playground.opened("tiny"))[1][-1].weights.shape == (81, 6)
    rows = run_lines(parts["rows"]["python"], playground.opened("tiny"))[1][-1]
    assert_close(rows[0].entropy / math.log(2), entropy["y"], 1e-4)


def test_nothing_is_run_while_the_slider_moves(playground, monkeypatch):
    drawn(playground)
    monkeypatch.setattr(Transformer, "trunk", lambda *_, **__: pytest.fail("the model was run"))
    monkeypatch.setattr("model.tracing.trace.Trace.scores", lambda *_: pytest.fail("scores were computed again"))
    seen = {json.dumps(drawn(playground, {"power": power})["scores"]["figure"]) for power in (0, 0.3, 1)}
    assert len(seen) == 3


def test_one_token_has_nothing_to_divide(playground):
    parts = drawn(playground, prompt="a", language="zh")
    assert "empty" in parts["table"] and "empty" not in parts["rows"]


def test_the_python_lines(playground):
    model, parts = playground.opened("tiny"), drawn(playground, {"power": 1}, heads=[[2, 0]])

    def last(name):
        return run_lines(parts[name]["python"], model)[1][-1]

    assert [bits(each.entropy / math.log(2)) for each in last("table")] == [row[2] for row in parts["table"]["rows"]]
    assert_close(last("row")[1], traces(parts["row"])[1]["y"], 1e-5)
    assert len(last("scores")) == 2
    assert last("random") == random_rows()


@pytest.mark.parametrize("sent", [None, [], {"power": "1"}, {"power": math.nan}, {"power": -3}])
def test_a_power_that_cannot_be_is_none(playground, sent):
    assert drawn(playground, sent)["table"]["rows"][0][0] == "q·k (no scaling)"


def test_the_endpoint(playground):
    def ask(**given):
        found = call(playground, VIEW.api[0], {"prompt": PROMPT, **given})
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        return found

    found = ask(layer=1, head=3, power=0.5, position=4)
    assert found["trained"] == found["chosen"] | {"power": 0.5} and found["d_head"] == 12
    pattern = playground.opened("tiny").trace(PROMPT).pattern(1, 3)[4, :5]
    assert_close(found["weights"]["chosen"], pattern, 1e-6)
    assert ask(power=0)["chosen"]["entropy"] < found["trained"]["entropy"] + 10
    assert found["random"][-1]["size"] == 1024
    assert ask(prompt="a")["trained"] is None
