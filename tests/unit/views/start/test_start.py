"""The Start view without a browser: its numbers are the model's, and a click appends only tokens that read back."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from model.predictions.attribution import attribute, components
from tests.support.models.rounding import logits_within
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
    assert text_before(tokens, 1, "aé") == "a"  # half a character


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
    last = way["blocks"][-1]
    assert last["share"] == pytest.approx(softmax(run.logits[-1].astype(np.float64)).max(), rel=1e-4)


def test_a_long_prompt_shows_what_the_head_reads_most(playground, lm):
    _, way = drawn(playground, "abcdefghij" * 3, heads=[[0, 0]])
    weights = lm.trace("abcdefghij" * 3).pattern(0, 0)[-1]
    assert [each["index"] for each in way["read"]] == sorted(np.argsort(-weights, kind="stable")[:12].tolist())
    assert "18 more tokens" in way["left"]
