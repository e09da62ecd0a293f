"""Forced tokens: read in the pass of the token before them, with the text and the numbers of one pass per token."""

import re
from dataclasses import replace

import pytest
import torch

from model.forgetting.policies import Policy
from model.generation.contrastive import Contrastive
from model.generation.forced import LONGEST
from model.generation.generate import generate
from model.generation.strategies import DecodingPlan, Strategy
from model.generation.text_statistics import Written, written
from model.generation.together import SharedBatch
from model.gpt.edits import Edit
from model.sampling.pipeline import Step
from tests.support.models.helpers import assert_close, byte_model, random_ids, tiny_model
from tests.support.rules import RULES, rule, text_of, vocabulary

GREEDY = Step("temperature", (("temperature", 0),))
PLATE = r"[a-c]{2}-number [0-9]{2}, (red|rust)! [a-z]{3}"  # free and forced text in turns
TOKENS = vocabulary(letters="abcdefghijklmnopqrstuvwxyz0123456789 .,-!")
SIZE = len(TOKENS.raw)
METHODS = {
    "sample": Strategy(),
    "beam": Strategy(method="beam", options=(("beams", 3),)),
    "diverse_beam": Strategy(method="diverse_beam", options=(("beams", 4), ("groups", 2))),
    "contrastive": Strategy(method="contrastive", options=(("candidates", 3), ("alpha", 0.4))),
}


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("byte"))


@pytest.fixture
def passes(monkeypatch, lm):
    """The number of tokens of each forward pass of the model."""
    counted, trunk = [], lm.model.trunk
    monkeypatch.setattr(lm.model, "trunk", lambda ids, **more: counted.append(ids.shape[1]) or trunk(ids, **more))
    return counted


def both(model, strategies: list[Strategy], plan: DecodingPlan, size=256, text=None, prompt=(84, 111)):
    """The texts with skipping and those without."""
    plans = (plan, replace(plan, skip_forced=False))
    return [written(generate(model, list(prompt), strategies, each, size, text), len(strategies)) for each in plans]


def assert_same(skipped: Written, each: Written) -> None:
    """Ids, random numbers and masks are equal; what the model computes may be rounded in another order."""
    assert skipped.ids == each.ids and skipped.ended == each.ended
    for one, other in zip(skipped.made, each.made, strict=True):
        assert one.uniform == other.uniform or one.uniform != one.uniform
        assert (one.kept, one.fit.allowed, one.fit.forced) == (other.kept, other.fit.allowed, other.fit.forced)
        assert one.fit.forbidden == pytest.approx(other.fit.forbidden, abs=1e-5)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
        assert one.entropy == pytest.approx(other.entropy, abs=1e-4)
    assert each.saved == 0 and skipped.passes + skipped.saved == each.passes


def ruled(lm, text: str, *steps: Step, base: Strategy = METHODS["sample"], kind: str = "regex") -> Strategy:
    return replace(base, steps=(Step("fits", rule=lm.rule(kind, text)), *steps))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("kind", "text", "fits"), RULES[:5])
def test_a_text_is_the_same_with_one_pass_per_token_and_follows_its_rule(lm, method, kind, text, fits):
    strategy = ruled(lm, text, base=METHODS[method], kind=kind)
    (skipped,), (each,) = both(lm.model, [strategy], DecodingPlan(60, seed=2))
    assert_same(skipped, each)
    assert fits(lm.decode(skipped.ids)) and skipped.ended == "rule"


def test_contrastive_search_compares_the_states_of_forced_tokens(lm, monkeypatch):
    """The state of each token is that of its own position in the pass, whether it was forced or chosen."""
    keep, kept = Contrastive.keep, []
    monkeypatch.setattr(Contrastive, "keep", lambda self, states: kept.append(states.clone()) or keep(self, states))
    (skipped,), (each,) = both(lm.model, [ruled(lm, PLATE, base=METHODS["contrastive"])], DecodingPlan(60, seed=2))
    half = len(kept) // 2
    assert skipped.saved > 4 and skipped.ids == each.ids and len(kept) == 2 * half
    assert_close(torch.cat(kept[:half]).numpy(), torch.cat(kept[half:]).numpy(), 1e-5)


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (GREEDY,),
        (Step("temperature", (("temperature", 3),)), Step("top_p", (("p", 0.8),))),
        (Step("xtc", (("threshold", 0.01), ("xtc_probability", 0.5))),),
        (Step("mirostat", (("tau", 3), ("rate", 0.5))),),
    ],
    ids=["plain", "greedy", "top_p", "xtc", "mirostat"],
)
def test_the_random_numbers_and_memories_of_steps_are_those_of_each_position(lm, steps):
    for seed in range(3):
        (skipped,), (each,) = both(lm.model, [ruled(lm, PLATE, *steps)], DecodingPlan(60, seed=seed))
        assert_same(skipped, each)
        assert re.fullmatch(PLATE, lm.decode(skipped.ids)) and skipped.saved >= 12


def test_the_passes_made_are_those_counted(lm, passes):
    """Without an end token: each forced token saves a pass, except the last one, which is never read."""
    ticks = list(lm.generate("To", ruled(lm, PLATE), 60, seed=1))
    (text,) = written(ticks, 1)
    assert [tick.step for tick in ticks] == list(range(len(text.ids)))
    assert (len(passes), sum(passes)) == (text.passes, 2 + len(text.ids) - 1)
    forced = [each.fit.allowed == 1 for each in text.made]
    assert text.saved == sum(forced[:-1]) and text.forced == sum(forced)
    assert len(text.ids) == text.passes + text.saved


def test_a_text_that_is_forced_from_the_start_takes_one_pass(lm, passes):
    (text,) = written(lm.generate("To be", ruled(lm, "-" * LONGEST, kind="choice"), 60), 1)
    assert lm.decode(text.ids) == "-" * LONGEST and (passes, text.saved) == ([5 + LONGEST - 1], LONGEST - 1)
    passes.clear()
    (text,) = written(lm.generate("To be", ruled(lm, "-" * (LONGEST + 9), kind="choice"), 60), 1)
    assert passes == [5 + LONGEST, 8] and text.saved == LONGEST + 9 - 2


@pytest.mark.parametrize("most", [1, 2, 5, 9, 14])
def test_a_limit_and_the_context_end_a_text_inside_a_forced_run(lm, most):
    for plan in (DecodingPlan(most), DecodingPlan(60, stop=("-number"[:most],))):
        (skipped,), (each,) = both(lm.model, [ruled(lm, PLATE)], plan, text=lm.decode)
        assert_same(skipped, each)
        assert skipped.ended in ("length", "stop")
    prompt = [97] * (lm.config.n_ctx - most)
    (skipped,), (each,) = both(lm.model, [ruled(lm, PLATE)], DecodingPlan(60), prompt=prompt)
    assert_same(skipped, each)
    assert (skipped.ended, len(skipped.ids)) == ("context", most + 1)


def test_a_cut_before_the_rule_still_ends_the_text_where_it_excludes_the_forced_token(lm):
    """The bias lets three tokens pass; then the cut leaves one that the rule does not want."""
    bias = Step("logit_bias", tokens=((ord("-"), 60), (ord("x"), 50)))
    steps = (bias, Step("top_k", (("k", 1),)), Step("fits", rule=lm.rule("choice", "---abc")))
    (skipped,), (each,) = both(lm.model, [Strategy(steps)], DecodingPlan(20))
    assert_same(skipped, each)
    assert (lm.decode(skipped.ids), skipped.ended) == ("---", "stuck")


def test_texts_of_one_batch_skip_only_together(lm):
    """Rows of a batch have the same length, so a free text beside it takes every pass, and an equal rule none."""
    own, free, twin = ruled(lm, PLATE), Strategy((GREEDY,)), ruled(lm, PLATE, GREEDY)
    for strategies, saves in (([own, free], False), ([own, twin], True), ([twin, METHODS["beam"]], False)):
        skipped, each = both(lm.model, strategies, DecodingPlan(31, seed=1))
        assert [one.ids for one in skipped] == [one.ids for one in each]
        assert bool(skipped[0].saved) == saves
    alone, together = (
        both(lm.model, [own], DecodingPlan(31, seed=1))[0],
        both(lm.model, [own, twin], DecodingPlan(31, 1))[0],
    )
    assert alone[0].ids == together[0].ids


def test_after_a_common_prompt_only_the_same_tokens_are_read_with_it(lm, passes):
    """ "same" is forced for both, then each has its own text."""
    strategies = [ruled(lm, "same-one", kind="choice"), ruled(lm, "same-two", kind="choice")]
    texts = written(lm.generate("To", strategies, 20), 2)
    assert [lm.decode(text.ids) for text in texts] == ["same-one", "same-two"]
    assert passes == [2 + 5, 2]  # the prompt with "same-"; "on" and "tw"; the last letter is not read
    assert [text.saved for text in texts] == [6, 6]


def test_a_batch_shared_with_other_clients_gives_the_same_text(lm):
    alone = written(lm.generate("To", ruled(lm, PLATE), 60, seed=4), 1)[0]
    room = SharedBatch.of(lm.model)
    plans = [
        (ruled(lm, PLATE), DecodingPlan(60, seed=4)),
        (Strategy(), DecodingPlan(20)),
        (ruled(lm, "a[bc]d{9}"), DecodingPlan(9)),
    ]
    texts = [room.generate([84, 111], [strategy], plan, 256, lm.decode) for strategy, plan in plans]
    ticks: list[list] = [[] for _ in texts]
    live = dict(enumerate(texts))
    while live:
        for at, text in list(live.items()):
            tick = next(text, None)
            if tick is None:
                del live[at]
            else:
                ticks[at].append(tick)
    found = [written(each, 1)[0] for each in ticks]
    assert (found[0].ids, found[0].saved) == (alone.ids, alone.saved) and alone.saved
    assert len(found[1].ids) == 20 and re.fullmatch("a[bc]d{7}", lm.decode(found[2].ids)) and found[2].saved == 7


@pytest.mark.parametrize("more", ["memory", "edits"])
def test_eviction_and_edits_take_a_pass_for_every_token(lm, more):
    strategy, plan = ruled(lm, PLATE), DecodingPlan(40)
    if more == "memory":
        strategy = replace(strategy, memory=Policy("window", 6))
    else:
        plan = replace(plan, edits=(Edit("zero", 1, 2),))
    (skipped,), (each,) = both(lm.model, [strategy], plan)
    assert skipped.saved == 0 and skipped.ids == each.ids and skipped.forced > 9


@pytest.mark.parametrize(
    "mixer", [("softmax", "mamba", "gated_delta"), ("sliding_window", "softmax", "linear")], ids=str
)
def test_states_and_windows_read_a_forced_run_at_once(mixer):
    model = tiny_model(
        {
            "mixer": mixer,
            "window": 5,
            "n_ctx": 60,
            "vocab_size": SIZE,
            "n_delta_head": 8,
            "n_delta_key": 4,
            "d_delta_key": 10,
            "d_delta_value": 6,
        }
    )
    step = Step("fits", rule=rule("regex", PLATE, TOKENS))
    beams = replace(METHODS["beam"], steps=(step,))
    for strategies in ([Strategy((step,))], [beams]):
        plan = DecodingPlan(50, ending=TOKENS.ending)
        (skipped,), (each,) = both(model, strategies, plan, SIZE, prompt=random_ids(1, 6, vocab_size=30)[0].tolist())
        assert_same(skipped, each)
        assert re.fullmatch(PLATE, text_of(TOKENS, skipped.ids)) and skipped.saved
