"""Only what fits: the mask in a pipeline, and in every way of generating text."""

import json
import re

import numpy as np
import pytest
import torch

from model.errors import DeadEnd, InputError
from model.generation.requests import Draft, Request
from model.generation.speculative import speculate
from model.generation.strategies import Strategy
from model.generation.text_statistics import written
from model.sampling.fits import closes, ended_by_rule, fit_of
from model.sampling.pipeline import Context, Step, softmax
from model.sampling.warps import final, shape
from model.text.chat import ending
from tests.support.models.helpers import byte_model
from tests.support.rules import RULES, SCHEMA, is_person, rule, vocabulary

FULL = vocabulary()
V = len(FULL.raw)
LOGITS = torch.from_numpy(np.random.default_rng(1).normal(0, 3, V)).float()
GREEDY = Step("temperature", (("temperature", 0),))


def fits_step(kind: str, text: str, tokens=FULL) -> Step:
    return Step("fits", rule=rule(kind, text, tokens))


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("byte"))


def test_allowed_tokens_keep_their_logits_bitwise_and_the_masses_sum_to_one():
    shaped = shape(LOGITS, (fits_step("regex", "[a-f]+"),))
    kept = torch.isfinite(shaped.logits)
    assert 0 < kept.sum() < V and torch.equal(shaped.logits[kept], LOGITS[kept])
    report, p = shaped.report()[1], softmax(LOGITS.numpy())
    assert report.removed + p[kept.numpy()].sum() == pytest.approx(1, abs=1e-12)
    fit = fit_of(shaped.steps, Context(), p)
    assert fit.forbidden == pytest.approx(report.removed, abs=1e-12) and fit.allowed == kept.sum()
    assert [p[token] for token, _ in fit.likeliest] == sorted(p[~kept.numpy()])[::-1][:3]


def test_a_rule_that_allows_everything_changes_nothing():
    """Here every token is text in UTF-8 except one, which only fits after the beginning of a character."""
    everything = final(LOGITS, (fits_step("regex", r"(?s:.)*"),))
    other = FULL.raw.index(b"\xff")
    assert torch.isinf(everything[other])
    everything[other] = LOGITS[other]
    assert torch.equal(everything, LOGITS)
    assert torch.equal(final(LOGITS, (Step("fits"),)), LOGITS)


def test_rows_beyond_the_vocabulary_are_forbidden():
    logits = torch.cat((LOGITS, torch.full((3,), 50.0)))
    assert torch.isinf(final(logits, (fits_step("choice", "yes"),))[-3:]).all()


def test_only_the_generated_text_counts():
    ids = tuple(FULL.raw.index(char.encode()) for char in "xyzye")
    left = final(LOGITS, (fits_step("choice", "yes"),), Context(ids, 3))
    assert [FULL.raw[n] for n in torch.isfinite(left).nonzero()[:, 0]] == [b"s"]


def test_earlier_steps_that_leave_nothing_are_told_apart_from_a_dead_end():
    with pytest.raises(DeadEnd, match="before the cuts"):
        final(LOGITS, (GREEDY, fits_step("choice", "~")))
    with pytest.raises(DeadEnd, match="vocabulary"):
        final(LOGITS[:2], (fits_step("choice", "b", vocabulary(letters="a")),))


def test_a_rule_for_another_warp_or_vocabulary_is_refused():
    with pytest.raises(InputError, match="takes no such rule"):
        final(LOGITS, (Step("top_k", rule=rule("choice", "yes")),))
    with pytest.raises(InputError, match="another vocabulary"):
        final(LOGITS[:5], (fits_step("choice", "yes"),))


def test_a_vocabulary_without_an_end_token_ends_with_the_rule():
    tokens = vocabulary(end=False)
    step = fits_step("choice", "ab", tokens)
    ids = (tokens.raw.index(b"a"), tokens.raw.index(b"b"))
    assert not closes(step, Context(ids[:1])) and closes(step, Context(ids))
    assert ended_by_rule((step,), Context(ids)) == "rule" and ended_by_rule((step,), Context(ids[:1])) == ""
    assert not closes(fits_step("choice", "ab"), Context(ids))


# --- generation ---------------------------------------------------------------------------------------------------


METHODS = {
    "sample": Strategy(),
    "greedy": Strategy((GREEDY,)),
    "beam": Strategy(method="beam", options=(("beams", 3),)),
    "diverse_beam": Strategy(method="diverse_beam", options=(("beams", 2), ("groups", 2))),
    "contrastive": Strategy(method="contrastive"),
}


def texts(lm, kind: str, text: str, method: str, seeds: int = 1) -> list[tuple[str, str]]:
    base = METHODS[method]
    step = Step("fits", rule=lm.rule(kind, text))
    strategy = Strategy((step, *base.steps), base.method, base.options)
    made = [written(lm.generate("To be", strategy, 60, seed), 1)[0] for seed in range(seeds)]
    end = ending(lm.tokenizer)
    return [(lm.decode([each for each in one.ids if each not in end]), one.ended) for one in made]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("kind", "rule_text", "fits"), RULES[:5])
def test_a_masked_text_follows_its_rule(lm, method, kind, rule_text, fits):
    for text, ended in texts(lm, kind, rule_text, method, seeds=3 if method == "sample" else 1):
        assert ended in ("end", "rule") and fits(text), text


@pytest.mark.parametrize("method", METHODS)
def test_a_dead_end_ends_only_its_own_text(lm, method):
    base = METHODS[method]
    cut = (Step("top_k", (("k", 1),)), Step("fits", rule=lm.rule("choice", "~~")))
    both = [Strategy((*cut, *base.steps), base.method, base.options), Strategy((GREEDY,))]
    stuck, free = written(lm.generate("To be", both, 5), 2)
    assert (stuck.ended, stuck.ids) == ("stuck", ()) and len(free.ids) == 5


def test_the_unmasked_text_has_the_same_random_numbers(lm):
    step = Step("fits", rule=lm.rule("regex", "[a-z ]{20,}"))
    masked, free = written(lm.generate("To be", [Strategy((step,)), Strategy()], 12, seed=4), 2)
    assert [each.uniform for each in masked.made] == [each.uniform for each in free.made]
    assert all(each.fit is not None for each in masked.made) and all(each.fit is None for each in free.made)
    assert re.fullmatch("[a-z ]{12}", lm.decode(masked.ids))


@pytest.mark.parametrize("draft", [Draft("layers", 1), Draft("ngram", 2)])
def test_speculative_decoding_masks_the_draft_and_the_model_alike(lm, draft):
    step = Step("fits", rule=lm.rule("json", SCHEMA))
    size, end = lm.tokenizer.vocab_size, ending(lm.tokenizer)
    ids = lm.encode("To be").ids.tolist()
    request = Request(size, (step, GREEDY), 4, 60, 0, end)
    rounds = list(speculate(lm.model, ids, draft, request))
    text = lm.decode([token for each in rounds for token in each.tokens if token not in end])
    assert is_person(text), text
    assert rounds[-1].ended in ("end", "rule")
    plain = written(lm.generate("To be", Strategy((step, GREEDY)), 60), 1)[0]
    assert text == lm.decode([each for each in plain.ids if each not in end])
    if draft.kind == "layers":
        assert all(each.q > 0 and (each.p > 0 or each.fate != "accepted") for r in rounds for each in r.proposals)


def test_speculative_decoding_at_a_dead_end_says_stuck(lm):
    steps = (Step("top_k", (("k", 1),)), Step("fits", rule=lm.rule("choice", "~~")))
    request = Request(lm.tokenizer.vocab_size, steps, 4, 20)
    (only,) = speculate(lm.model, lm.encode("To be").ids.tolist(), Draft("layers", 1), request)
    assert only.ended == "stuck" and only.tokens == ()


def test_a_draft_stops_where_the_rule_is_complete(lm):
    """The vocabulary has no end token, and the prompt repeats what the rule allows once more."""
    eager = Step("logit_bias", (), ((ord("~"), 100),))  # without the rule, it would go on
    steps = (Step("fits", rule=lm.rule("choice", "~~")), eager, GREEDY)
    request = Request(lm.tokenizer.vocab_size, steps, 8, 20)
    rounds = list(speculate(lm.model, lm.encode("a~~~~~~~~~b a").ids.tolist(), Draft("ngram", 1), request))
    assert lm.decode([token for each in rounds for token in each.tokens]) == "~~"
    assert rounds[-1].ended == "rule"


def test_a_json_text_is_read_by_another_parser(lm):
    (text, _), *_ = texts(lm, "json", SCHEMA, "sample")
    assert set(json.loads(text)) == {"name", "age"}


@pytest.mark.parametrize("method", METHODS)
def test_steps_by_chance_and_phrases_act_under_a_rule(lm, method):
    """XTC reads the second random number of the text, whatever the method, and DRY the text so far."""
    base = METHODS[method]

    def text(*steps: Step) -> tuple[int, ...]:
        own = (Step("fits", rule=lm.rule("regex", "[a-z ]{40}")), *steps, GREEDY)
        (one,) = written(lm.generate("To be", Strategy(own, base.method, base.options), 40, seed=3), 1)
        assert re.fullmatch("[a-z ]+", lm.decode([each for each in one.ids if each not in ending(lm.tokenizer)]))
        assert one.made and all(each.fit is not None for each in one.made)
        return one.ids

    always, never, sometimes = (
        text(Step("xtc", (("threshold", 0.01), ("xtc_probability", chance)))) for chance in (1, 0, 0.5)
    )
    assert len({always, never, sometimes}) == 3
    banned = tuple({(token,) for token in never[:1]})
    assert never[0] not in text(Step("banned_words", phrases=banned))
