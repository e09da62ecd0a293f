"""Recognition of kinds of prompts, with the expected answers."""

import pytest

from model.prompting.kinds import KINDS, KindOfPrompt, recognize
from viz.page.examples import EXAMPLES

STORE = "When Mary and John went to the store, John gave a drink to"


@pytest.mark.parametrize(
    "text, kind, answer",
    [
        (STORE, "indirect_object", "Mary"),
        (STORE + "  ", "indirect_object", "Mary"),
        (STORE.replace("John gave", "Mary gave"), "indirect_object", "John"),
        ("Then, Ann and Bob had a talk. Afterwards Bob said goodbye to", "indirect_object", "Ann"),
        ("The capital of France is", "fact", "Paris"),
        ("We drove on. france's capital is", "fact", "Paris"),
        ("The capital of Ruritania is", "fact", ""),
        ("The Eiffel Tower is in the city of", "fact", "Paris"),
        ("What is the capital of Japan?", "question", "Tokyo"),
        ("Who are you?", "question", ""),
        ("17 + 25 =", "arithmetic", "42"),
        ("What is 3 times 4?", "arithmetic", "12"),
        ("8 − 11 =", "arithmetic", "-3"),
        ("84 / 7 =", "arithmetic", "12"),
        ("7 / 2 =", "arithmetic", ""),
        ("7 / 0 =", "arithmetic", ""),
        ("def subtract(a, b):\n    return a -", "code", "b"),
        ("import numpy as", "code", ""),
        ("hot -> cold\nbig -> small\nhappy -> sad\nfast ->", "few_shot", ""),
        ("中国的首都是", "chinese", ""),
        ("Tom saw the big red fox by the river. Later Tom saw the big red", "repeated", "fox"),
    ],
)
def test_recognized(text, kind, answer):
    assert recognize(text) == KindOfPrompt(kind, answer)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "The cat sat on the mat because it was tired",
        "Once upon a time there was a little",
        "Mary went to the store with a friend. She gave a drink to",
        "When Mary and John went to the store, Peter gave a drink to",
        "When Mary and John met Mary, John gave a drink to",  # named twice, so she is no answer
        "On 12.5 + 3 =",
        "for example:\nif you like it:\nwith love:",
        "東京は日本の",  # Japanese
        "a: b\nc:",  # one example only
        "Really?",
        "He said that the",
    ],
)
def test_not_recognized(text):
    assert recognize(text) is None


def test_a_long_text_is_read_from_its_end():
    assert recognize("x " * 50_000 + STORE) == KindOfPrompt("indirect_object", "Mary")


def test_the_examples_of_the_page():
    kinds = {key: found and found.kind for key, text in EXAMPLES["smollm2-135m"].items() for found in [recognize(text)]}
    assert {key: kind for key, kind in kinds.items() if key in KINDS} == {
        key: key for key in ("repeated", "indirect_object", "fact", "few_shot", "code")
    }
    assert kinds["coreference"] is None
