"""The Start view without a browser: its numbers are the model's, and a click appends only tokens that read back."""

import json

import numpy as np
import pytest
import torch
from scipy.special import softmax

from model.predictions.attribution import attribute, components
from model.tracing.logit_lens import read_layers
from tests.support.models.rounding import logits_within
from viz.labels import visible
from viz.numbers import signed
from viz.page.pipeline import PageRequest, payloads
from viz.views.start.start.measure import TEMPERATURES, text_before


def drawn(playground, prompt, **selection):
    request = PageRequest("tiny", prompt, selection or None, {}, {}, "en")
    parts, _ = payloads(playground, request)
    return parts["start_next"], parts["start_way"]


@pytest.mark.parametrize("T", [0.05, 1.0, 2.0])
def test_the_page_can_compute_every_share(playground, lm, T):
    sent, _ = drawn(playground, "abcab")
    at, run = TEMPERATURES.index(T), lm.trace("abcab")
    p = softmax(run.logits[-1, : lm.tokenizer.vocab_size].astype(np.float64) / T)
    error = float(logits_within(lm.model, torch.from_numpy(run.tokens.ids)[None])[0, -1])
    for token in sent["tokens"]:  # two runs, so twice the rounding of a logit, and as much of the sum
        assert abs(token["logit"] / T - sent["sums"][at] - np.log(p[token["id"]])) <= 4 * error / T
    assert sent["temperatures"][sent["usual"]] == 1.0 and sent["last"] and sent["room"]


def test_what_can_be_written_reads_back_as_that_token(playground, lm):
    sent, _ = drawn(playground, "abcab")
    ids = lm.encode("abcab").ids.tolist()
    for each in [*sent["tokens"], *sent["drawn"]]:
        if each["prompt"]:
            assert each["prompt"].startswith("abcab") and lm.encode(each["prompt"]).ids.tolist() == [*ids, each["id"]]
        else:  # a byte that is not a character by itself
            assert lm.encode("abcab" + lm.decode([each["id"]])).ids.tolist() != [*ids, each["id"]]
    assert any(each["prompt"] for each in sent["tokens"])


def test_an_earlier_token_is_continued_from_there(playground, lm):
    sent, way = drawn(playground, "abcab", tokens=[1])
    assert sent["before"] == "ab" and not sent["last"] and way["position"] == 1
    assert {each["prompt"][:2] for each in sent["tokens"] if each["prompt"]} == {"ab"}
    tokens = lm.encode("aé")
    assert text_before(lm.tokenizer, tokens, 1, "aé") == "a"  # half a character


def test_the_way_adds_up_and_follows_the_picked_head(playground, lm):
    _, way = drawn(playground, "abcab", heads=[[1, 2]])
    run = lm.trace("abcab")
    parts = attribute(components(run, 4), lm.model, int(run.logits[-1, : lm.tokenizer.vocab_size].argmax()))
    sent = np.array([[part["value"] for part in block["heads"]] for block in way["blocks"]])
    assert sent == pytest.approx(parts.heads, abs=1e-6)
    assert [block["mlp"]["value"] for block in way["blocks"]] == pytest.approx(parts.mlps.tolist(), abs=1e-6)
    most = max(np.abs(parts.heads).max(), np.abs(parts.mlps).max())
    assert way["blocks"][0]["heads"][0]["strength"] == pytest.approx(parts.heads[0, 0] / most)
    assert way["head"] == [1, 2]
    assert [each["share"] for each in way["read"]] == pytest.approx(run.pattern(1, 2)[4].tolist(), abs=1e-6)
    last = way["stream"][-1]
    assert last["share"] == pytest.approx(softmax(run.logits[-1].astype(np.float64)).max(), rel=1e-4)


def test_a_long_prompt_shows_what_the_head_reads_most(playground, lm):
    _, way = drawn(playground, "abcdefghij" * 3, heads=[[0, 0]])
    weights = lm.trace("abcdefghij" * 3).pattern(0, 0)[-1]
    assert [each["index"] for each in way["read"]] == sorted(np.argsort(-weights, kind="stable")[:12].tolist())
    assert "18 more tokens" in way["left"]


def test_the_followed_token_is_always_among_those_that_the_head_reads(playground, lm):
    prompt = "abcdefghij" * 3
    run = lm.trace(prompt)
    heads = [[layer, head] for layer in range(lm.config.n_layer) for head in range(lm.config.n_head)]
    ways = [drawn(playground, prompt, heads=[head])[1] for head in heads]
    weak = [head for head in heads if 29 not in np.argsort(-run.pattern(*head)[-1], kind="stable")[:12]]
    assert weak  # it would be left out
    for way in ways:
        assert len(way["read"]) == 12 and way["read"][-1]["index"] == 29


def test_every_step_of_the_moving_picture_is_a_number_of_the_run(playground, lm):
    _, way = drawn(playground, "abcab")
    run = lm.trace("abcab")
    lengths = np.array([float(stream[4].norm()) for stream in run.residuals])
    assert [each["size"] for each in way["stream"]] == pytest.approx((lengths / lengths.max()).tolist(), rel=1e-5)
    lens = read_layers(run, [4], top=1)
    assert [each["share"] for each in way["stream"]] == pytest.approx(lens.probabilities[:, 0, 0].tolist())
    assert [each["guess"] for each in way["stream"]] == [visible(lm.decode([int(i)])) for i in lens.ids[:, 0, 0]]
    # Tokens, embedding, every block, answer.
    assert len(way["steps"]) == len(way["blocks"]) + 3 == len(lengths) + 2
    for text, block, after in zip(way["steps"][2:-1], way["blocks"], way["stream"][1:], strict=True):
        heads = sum(part["value"] for part in block["heads"])
        assert f"heads {signed(heads)}, MLP {signed(block['mlp']['value'])} " in text and after["percent"] in text
    token = int(run.logits[-1, : lm.tokenizer.vocab_size].argmax())
    assert way["answer"] == visible(lm.decode([token])) and way["stream"][-1]["percent"] in way["steps"][-1]


def test_the_curve_is_the_whole_distribution_and_marks_the_watched_tokens(playground, lm):
    V = lm.tokenizer.vocab_size
    p = softmax(lm.trace("abcab").logits[-1, :V].astype(np.float64))
    order = np.argsort(-p, kind="stable")
    target, distractor = int(order[40]), int(order[2])
    of = {"target": target, "distractor": distractor, "of": "tiny"}
    request = PageRequest("tiny", "abcab", of, {}, {}, "en")
    curve = payloads(playground, request)[0]["start_curve"]
    traces = {trace["name"]: trace for trace in json.loads(curve["figure"].to_json())["data"]}
    whole, likely, watched = (traces[name] for name in ("all tokens", "top tokens", "target, distractor"))
    assert whole["x"][0] == 1 and whole["x"][-1] == V and sorted(whole["x"]) == whole["x"]
    assert whole["y"] == pytest.approx(p[order[np.array(whole["x"]) - 1]].tolist(), rel=1e-5)
    assert likely["x"] == [1, 2, *range(4, 11)] and sorted(watched["x"]) == [3, 41]
    assert sorted(watched["y"]) == pytest.approx(sorted([p[target], p[distractor]]), rel=1e-5)
    most = 1 + int((np.cumsum(p[order]) < 0.9).sum())
    assert f"{most} of {V} tokens" in curve["note"]
