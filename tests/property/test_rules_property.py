"""What holds for any rule, logits and text: masks keep exactly what can still follow; masses sum to one."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.generation.generate import generate
from model.generation.strategies import DecodingPlan, Strategy
from model.generation.text_statistics import written
from model.sampling.fits import fit_of
from model.sampling.pipeline import Context, Step, draw, softmax, uniform
from model.sampling.rules.matching import state_of
from model.sampling.warps import final
from tests.support.models.helpers import tiny_model
from tests.support.rules import RULES, rule, text_of, vocabulary

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, database=None)
FULL = vocabulary()
V = len(FULL.raw)
WITHOUT_END = vocabulary(end=False)


@st.composite
def choices(draw_) -> list[str]:
    letters = st.text('abcé {"\\/[', min_size=1, max_size=5)
    return draw_(st.lists(letters, min_size=1, max_size=5))


@SETTINGS
@given(st.integers(0, len(RULES) - 1), st.integers(0, 1 << 30), st.sampled_from([FULL, WITHOUT_END]))
def test_a_masked_text_follows_its_rule(which, seed, tokens):
    kind, text, fits = RULES[which]
    step, ids, rng = Step("fits", rule=rule(kind, text, tokens)), (), np.random.default_rng(seed)
    for place in range(200):
        context = Context(ids, 0)
        state = state_of(step.rule, ids)
        if state.status in ("complete", "over") and not tokens.ending:
            break
        logits = torch.from_numpy(rng.normal(0, 3, len(tokens.raw))).float()
        if state.may_end and tokens.ending:
            logits[max(tokens.ending)] += 8  # some rules have texts of any length
        p = softmax(logits.numpy())
        fit, left = fit_of((step,), context, p), final(logits, (step,), context)
        kept = torch.isfinite(left)
        assert fit.forbidden + p[kept.numpy()].sum() == pytest.approx(1, abs=1e-9)
        assert torch.equal(left[kept], logits[kept])
        ids = (*ids, draw(softmax(left.numpy()), uniform(seed, place)))
        if ids[-1] in tokens.ending:
            break
    else:
        return
    assert fits(text_of(tokens, ids)), text_of(tokens, ids)


@settings(SETTINGS, max_examples=6)
@given(st.integers(0, 4), st.integers(0, 1 << 30), st.sampled_from(["sample", "beam", "contrastive"]))
def test_a_text_that_skips_forced_tokens_follows_its_rule_and_is_the_one_without(which, seed, method):
    kind, text, fits = RULES[which]
    strategy = Strategy((Step("fits", rule=rule(kind, text)),), method)
    plan = DecodingPlan(60, seed, ending=FULL.ending)
    model = tiny_model({"vocab_size": V, "n_ctx": 80}, seed % 7)
    skipped, each = (
        written(generate(model, [1, 2], [strategy], one, V), 1)[0] for one in (plan, replace(plan, skip_forced=False))
    )
    assert skipped.ids == each.ids and skipped.passes + skipped.saved == each.passes
    assert skipped.ended != "end" or fits(text_of(FULL, skipped.ids))


@SETTINGS
@given(choices(), st.data())
def test_the_mask_of_a_choice_is_what_some_choice_continues_with(listed, data):
    """Against an independent rule: a token fits if some choice begins with the text and the token."""
    wanted = listed
    chosen = rule("choice", "\n".join(wanted))
    start = data.draw(st.sampled_from(wanted))
    start = start[: data.draw(st.integers(0, len(start)))].encode()
    ids = [FULL.raw.index(bytes([byte])) if byte < 128 else FULL.raw.index("é".encode()) for byte in _characters(start)]
    allowed = state_of(chosen, ids).allowed
    for token, raw in enumerate(FULL.raw):
        fits = any(each.encode().startswith(start + raw) for each in wanted)
        assert allowed[token] == (start.decode() in wanted if token in FULL.ending else fits), raw


def _characters(text: bytes) -> list[int]:
    """The bytes of a text, with one entry for each character beyond ASCII."""
    return [ord(char) for char in text.decode()]


@SETTINGS
@given(st.from_regex(r"\A[abc]{0,6}\Z"), st.sampled_from([r"(a|b)*c{1,2}", r"a+b*c", r"[ab]{2}c?|c{3}", r"(ab|ba)+"]))
def test_a_regular_expression_ends_where_python_says(text, pattern):
    ids = [FULL.raw.index(char.encode()) for char in text]
    state = state_of(rule("regex", pattern), ids)
    assert (state.status != "left" and state.may_end) == bool(re.fullmatch(pattern, text))


@SETTINGS
@given(st.lists(st.floats(-20, 20, width=32), min_size=V, max_size=V))
def test_a_rule_that_allows_everything_changes_nothing(values):
    logits = torch.tensor(values, dtype=torch.float32)
    logits[FULL.raw.index(b"\xff")] = -math.inf  # half of a character, which no text can begin with
    assert torch.equal(final(logits, (Step("fits", rule=rule("regex", r"(?s:.)*")),)), logits)
