"""Ranks of expected tokens, and the models that are named as able."""

import numpy as np
import pytest

from model.api import LanguageModel, load_model
from model.prompting.findings import first_token, rank_of, shortfall
from model.prompting.kind_results import results

STORE = "When Mary and John went to the store, John gave a drink to"


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("tinygpt")


def found(lm, text):
    return shortfall(lm, text, lambda: lm.trace(text).logits_at(-1))


def test_the_rank_counts_larger_logits():
    logits = np.array([0.0, 3.0, -1.0, 2.0])
    assert [rank_of(logits, token) for token in range(4)] == [3, 1, 4, 2]


def test_an_indirect_object_on_tinygpt(lm):
    short = found(lm, STORE)
    logits = lm.trace(STORE).logits_at(-1)
    (mary, *_) = lm.tokenizer.encode(" Mary").ids.tolist()
    assert short.kind == "indirect_object" and short.answer == "Mary"
    assert short.rank == list(np.argsort(-logits)).index(mary) + 1 > 1
    assert short.result == results()["tinygpt"]["indirect_object"]
    assert [each.id for each in short.able] == ["smollm2-135m"]


def test_a_prompt_that_the_model_continues_has_none(lm):
    logits = lm.trace(STORE).logits_at(-1).copy()
    logits[first_token(lm, STORE, "Mary")] = logits.max() + 1
    assert shortfall(lm, STORE, lambda: logits) is None
    assert found(lm, "The cat sat on the mat because it was tired") is None


def test_a_sum_is_judged_by_the_stored_result(lm):
    """The first digit may be right by chance."""
    text = "17 + 25 ="
    logits = lm.trace(text).logits_at(-1).copy()
    logits[first_token(lm, text, "42")] = logits.max() + 1
    short = shortfall(lm, text, lambda: logits)
    assert short.rank is None and short.result == results()["tinygpt"]["arithmetic"] and short.able == ()


def test_without_an_answer_the_stored_result_is_the_reason(lm):
    short = found(lm, "天上有月亮和星")
    assert short.kind == "chinese" and short.rank is None and not short.result.able and short.able == ()


def test_a_question_is_asked_in_a_conversation(lm):
    short = found(lm, "What is the capital of France?")
    assert short.rank is None
    assert [(each.id, each.chat) for each in short.able] == [("smollm2-135m", True)]


def test_an_unknown_model_without_an_answer(lm):
    """Nothing was measured, so nothing is said."""
    other = LanguageModel("local", "Local", lm.model, lm.tokenizer)
    assert found(other, "天上有月亮和星") is None
    assert found(other, STORE).result is None


def test_the_token_after_a_space(lm):
    (mary, *_) = lm.tokenizer.encode(" Mary").ids.tolist()
    assert first_token(lm, STORE, "Mary") == mary
    typed = first_token(lm, STORE + " ", "Mary")
    assert lm.tokenizer.piece(typed).strip()
