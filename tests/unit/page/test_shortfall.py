"""The line below the prompt: what the model does not do, why, and which model does."""

import pytest

from model.api import LanguageModel, load_model
from model.loading import sources
from viz.page import shortfall
from viz.page.pipeline import PageRequest, payloads
from viz.work.limits import Allowed
from viz.work.playground import Options, Playground

STORE = "When Mary and John went to the store, John gave a drink to"


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("tinygpt")


def said(prompt: str, lm: LanguageModel, *, options: Options | None = None, language: str = "en", **more) -> dict:
    playground = Playground(options or Options())
    playground.models.get(lm.id, lambda: lm)
    return payloads(playground, PageRequest(lm.id, prompt, None, {}, {}, language, **more))[0]["shortfall"]


def test_the_reason_is_the_rank_in_this_run(lm, monkeypatch):
    monkeypatch.setattr(shortfall, "available", lambda: ("tinygpt", "smollm2-135m"))
    logits = lm.trace(STORE).logits_at(-1)
    (mary,) = lm.tokenizer.encode(" Mary").ids.tolist()
    rank = 1 + int((logits > logits[mary]).sum())
    line = said(STORE, lm)
    assert line["kind"] == "Indirect object"
    assert line["reason"] == f"“Mary” is only number {rank} of the next tokens of TinyGPT."
    assert line["able"] == "SmolLM2 135M Instruct continues 24 of 24 such prompts correctly."
    assert line["open"] == "Open it in SmolLM2 135M Instruct"
    assert line["model"] == "smollm2-135m" and line["prompt"] == STORE and not line["chat"]


def test_a_token_beyond_the_first_50_is_absent(lm):
    text = "The Eiffel Tower is in the city of"
    pieces = [lm.tokenizer.piece(token).strip() for token in lm.tokenizer.encode(" Paris").ids.tolist()]
    assert pieces == ["Paris"]
    assert said(text, lm)["reason"] == "“Paris” is not among the first 50 next tokens of TinyGPT."


def test_the_rank_of_a_beginning_is_said_to_be_that(lm):
    """The rank is that of one token; TinyGPT writes 42 with two."""
    text = "17 + 25 ="
    (token, _) = lm.tokenizer.encode(" 42").ids.tolist()
    logits = lm.trace(text).logits_at(-1)
    rank = 1 + int((logits > logits[token]).sum())
    beginning = f"“{lm.tokenizer.piece(token).strip()}”, the beginning of “42”,"
    assert said(text, lm)["reason"] == f"{beginning} is only number {rank} of the next tokens of TinyGPT."


def test_without_an_able_model_only_the_reason(lm):
    line = said("天上有月亮和星", lm)
    assert line["reason"] == "TinyGPT continues 0 of 14 prompts of this kind correctly." and "open" not in line
    assert said("17 + 25 =", lm).keys() == {"kind", "reason"}


def test_a_question_goes_to_a_conversation(lm):
    line = said("What is the capital of France?", lm)
    assert line["chat"] and line["open"].startswith("Ask SmolLM2 135M Instruct in a conversation")
    assert line["able"] == "In a conversation, SmolLM2 135M Instruct answers 12 of 18 questions."


def test_the_download_is_announced(lm, monkeypatch):
    monkeypatch.setattr(shortfall, "available", lambda: ("tinygpt",))
    bytes_ = next(each.download_bytes for each in sources.BUILT_IN if each.id == "smollm2-135m")
    assert said(STORE, lm)["open"].endswith(f" ({bytes_ / 1e6:.1f} MB to download)")


def test_a_model_that_is_not_offered_is_not_named(lm):
    line = said(STORE, lm, options=Options(allowed=Allowed(models=("tinygpt",))))
    assert line["reason"] and "able" not in line and "open" not in line


def test_no_line_for_other_prompts(lm):
    assert "reason" not in said("The cat sat on the mat because it was tired", lm)
    assert "reason" not in said("Lily had a fox named Fizz. Tom had a ball. Lily had a fox named", lm)


def test_edits_do_not_change_the_line(lm):
    edits = {"edits": [{"kind": "mlp_zero", "layer": 7}]}
    playground = Playground(Options())
    playground.models.get(lm.id, lambda: lm)
    edited = payloads(playground, PageRequest(lm.id, STORE, edits, {}, {}, "en"))[0]["shortfall"]
    assert edited["reason"] == said(STORE, lm)["reason"]


def test_in_chinese(lm):
    line = said(STORE, lm, language="zh")
    assert line["kind"] == "间接宾语" and "“Mary”" in line["reason"]
