"""Several rules in one pipeline: their masks together and each by itself, and where they cannot be met together."""

import re

import numpy as np
import pytest
import torch

from model.errors import DeadEnd
from model.generation.strategies import METHODS, Strategy
from model.generation.text_statistics import written
from model.sampling.fits import ended_by_rule, fit_of, only_token
from model.sampling.pipeline import Context, Step, softmax
from model.sampling.warps import final, shape
from tests.support.models.helpers import byte_model
from tests.support.rules import rule, vocabulary

FULL = vocabulary()
LOGITS = torch.from_numpy(np.random.default_rng(7).normal(0, 3, len(FULL.raw))).float()
WARM = Step("temperature", (("temperature", 2.0),))


def steps_of(*patterns: str, tokens=FULL) -> tuple[Step, ...]:
    """A step for each regular expression, with another step after the first."""
    first, *more = (Step("fits", rule=rule("regex", each, tokens)) for each in patterns)
    return (first, WARM, *more)


def ids_of(text: str, tokens=FULL) -> tuple[int, ...]:
    return tuple(tokens.raw.index(char.encode()) for char in text)


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("byte"))


def test_each_rule_has_its_own_mass_and_together_they_forbid_what_any_of_them_does():
    """Against full matches by Python: a token fits if it consists of letters of both classes."""
    steps, p = steps_of("[a-m]{9}", "[g-z]{9}"), softmax(LOGITS.numpy())
    fit = fit_of(steps, Context(), p)
    first, second = (
        np.array([bool(re.fullmatch(letters, each.decode("latin-1"))) for each in FULL.raw])
        for letters in ("[a-m]+", "[g-z]+")
    )
    assert [each.step for each in fit.rules] == [0, 2] and [each.status for each in fit.rules] == ["open"] * 2
    assert [each.forbidden for each in fit.rules] == pytest.approx([p[~first].sum(), p[~second].sum()], abs=1e-12)
    assert [each.allowed for each in fit.rules] == [first.sum(), second.sum()]
    assert fit.forbidden == pytest.approx(p[~(first & second)].sum(), abs=1e-12)
    assert fit.allowed == (first & second).sum() and fit.instead == "g–m"
    assert [each.instead for each in fit.rules] == ["a–m", "g–z"]
    out = np.where(first & second, 0, p)
    assert [token for token, _ in fit.likeliest] == np.argsort(-out, kind="stable")[:3].tolist()
    kept = np.isfinite(final(LOGITS, steps).numpy())
    assert np.array_equal(kept, first & second)


def test_a_text_may_end_where_every_rule_lets_it():
    steps = steps_of("ab?c?", "a(bc|x)?")
    p = softmax(LOGITS.numpy())
    found = {text: fit_of(steps, Context(ids_of(text)), p) for text in ("a", "ab", "abc")}
    assert [found[text].may_end for text in found] == [True, False, True]
    assert [[each.may_end for each in found[text].rules] for text in found] == [
        [True, True],
        [True, False],
        [True, True],
    ]
    assert (found["ab"].forced, found["ab"].instead, found["abc"].allowed) == ("c", "c", 1)
    assert [each.status for each in found["abc"].rules] == ["complete", "complete"]


def test_the_only_token_is_that_of_all_rules_together():
    steps = steps_of("[ab]c+", "[bd]c{2}")
    assert only_token(steps, ()) == FULL.raw.index(b"b") and only_token(steps[:1], ()) is None
    assert only_token(steps, ids_of("b")) == FULL.raw.index(b"c")
    assert only_token(steps, ids_of("bcc")) == max(FULL.ending)  # the second is complete, the first may end
    assert only_token(steps_of("ab", "cd"), ()) is None  # none at all
    assert only_token((WARM,), ()) is None
    assert only_token(steps, (*ids_of("bcc"), max(FULL.ending))) is None  # over


def test_without_an_end_token_one_complete_rule_does_not_end_what_another_needs():
    tokens = vocabulary(end=False)
    logits = LOGITS[: len(tokens.raw)]
    steps = steps_of("ab", "a[b-d]{1,2}x?", tokens=tokens)
    assert ended_by_rule(steps, Context(ids_of("ab", tokens))) == "rule"
    steps = steps_of("ab[.]?", "a[b-d]{1,2}", tokens=tokens)  # both may end, and what may follow differs
    assert ended_by_rule(steps, Context(ids_of("ab", tokens))) == "rule"
    assert ended_by_rule(steps[:1], Context(ids_of("ab", tokens))) == ""
    steps = steps_of("ab", "a[b-d]{2}", tokens=tokens)
    assert ended_by_rule(steps, Context(ids_of("ab", tokens))) == ""
    for run in (final, shape):
        with pytest.raises(DeadEnd, match="another needs more") as error:
            run(logits, steps, Context(ids_of("ab", tokens)))
        assert error.value.got == "b–d"


def test_rules_that_exclude_each_other_are_a_dead_end():
    with pytest.raises(DeadEnd, match="several rules"):
        final(LOGITS, steps_of("[a-c]+", "[d-f]+"))


@pytest.mark.parametrize("method", METHODS)
def test_a_text_follows_every_rule(lm, method):
    rules = (r"[a-z]{2}-[0-9]{2}\.?", r"[m-z]+-[0-4]+")
    steps = tuple(Step("fits", rule=lm.rule("regex", each)) for each in rules)
    (text,) = written(lm.generate("To", Strategy(steps, method), 20, seed=3), 1)
    assert text.ended == "rule" and all(re.fullmatch(each, lm.decode(text.ids)) for each in rules)
    assert all(len(each.fit.rules) == 2 for each in text.made) and text.forced >= 1


@pytest.mark.parametrize("method", METHODS)
def test_a_text_ends_where_the_rules_part(lm, method):
    steps = tuple(Step("fits", rule=lm.rule("regex", each)) for each in ("xyz", "xy[a-c]"))
    (text,) = written(lm.generate("To", Strategy(steps, method), 20), 1)
    assert text.ended == "stuck" and lm.decode(text.ids) in ("", "xy")[method not in ("beam", "diverse_beam") :]
