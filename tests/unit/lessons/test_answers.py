"""Answers as visitors give them, operations worked by hand, and what a page gets."""

import dataclasses
import json

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from model.errors import InputError
from viz.lessons.answers import judged, read
from viz.lessons.lesson import Lesson, Value
from viz.lessons.library import Library, library
from viz.lessons.operations import apply, derived, taken
from viz.lessons.routes import page_of, routes
from viz.lessons.text import pieces
from viz.lessons.values import PageState, value_of, written
from viz.words import section, words
from viz.work.playground import Options, Playground

WORDS = section(words("en"), "learn")
LESSON = library().lesson("tokens", "en")


@pytest.fixture(scope="module")
def playground():
    ours = Playground(Options(offline=True))
    ours.load("tinygpt")
    return ours


@pytest.mark.parametrize(
    ("given", "kind", "value"),
    [
        ("12", "number", 12), (" 47.2 % ", "number", 47.2), ("0,5", "number", 0.5), ("1,234", "number", 1234),
        ("−3", "number", -3), ("1e3", "number", 1000), ("many", "number", None), ("", "number", None),
        (3, "number", None), ("1" * 300, "number", None), ("nan", "number", None), ("4.1", "head", [4, 1]),
        ("4, 1", "head", [4, 1]), ("four", "head", None), ("·Lily", "token", "·Lily"), ("more", "choice", "more"),
    ],
)  # fmt: skip
def test_what_was_typed_is_read(given, kind, value):
    assert read(given, kind) == value


def verdict(step: str, given: str, values: dict):
    return judged(LESSON, LESSON.step(step).check, given, values.__getitem__, WORDS)


def test_a_named_mistake_has_its_answer_and_another_one_the_distance():
    values = {"twice": "ation", "bytes": 3.0, "characters": 7, "chinese": 21}
    assert verdict("word", "ation", values).right and verdict("word", " ·ation", values).right
    assert not verdict("word", "al", values).right and "al" in verdict("word", "al", values).text
    assert verdict("chinese", "3", values).right
    assert verdict("chinese", "7", values).text == LESSON.step("chinese").check.wrong["characters"]
    assert verdict("chinese", "5", values).text == WORDS["wrong_high"].format(n=2)
    assert verdict("chinese", "1.5", values).text == WORDS["wrong_low"].format(n=1.5)
    assert verdict("chinese", "x", values).text == WORDS["type_number"]
    assert not verdict("chinese", "x", values).understood
    assert "{" not in verdict("word", "{n}", values).text  # what is repeated names no value


def test_operations_by_hand():
    answer = {"rows": [{"a": 1, "b": [2, None]}, {"a": 3, "b": [4, 5]}]}
    assert taken(answer, ["rows", {"a": 3}, "b", -1]) == 5
    assert taken(answer, ["rows", "*", "a"]) == [1, 3] and taken(answer, ["rows", 0, ["a", "b"]]) == [1, [2, None]]
    assert apply("sum", taken(answer, ["rows", "*", "b"])) == 11 and apply("count", [1, 2]) == 2
    assert (
        apply("median", [1, 9, 2]) == 2 and apply("at_largest", [1, 9, 2]) == 1 and apply("over_half", [0.5, 0.6]) == 1
    )
    assert apply("bits", 0.6931471805599453) == pytest.approx(1) and apply("rest", 0.25) == 0.75
    assert derived("ratio", {"a": 6, "b": 3}) == 2 and derived("compare", {"a": 6, "b": 3}) == "more"
    assert derived("which_smallest", {"a": 6, "b": 3}) == "b"
    for wrong in (["cols"], ["rows", 9], ["rows", {"a": 2}], ["rows", {"z": 2}]):
        with pytest.raises(InputError):
            taken(answer, wrong)
    for operation, value in (("mean", []), ("sum", "x"), ("exp", 1e9)):
        with pytest.raises(InputError):
            apply(operation, value)
    with pytest.raises(InputError):
        derived("ratio", {"a": 1, "b": 0})


def test_text_is_never_read_for_marks_where_a_value_stands():
    said = pieces("**a** `b` {n}, {n} `{n}", lambda name: "`<b>**{n}")
    assert said == [
        ("strong", "a"), ("", " "), ("code", "b"), ("", " "), ("value", "`<b>**{n}"), ("", ", "),
        ("value", "`<b>**{n}"), ("", " `"), ("value", "`<b>**{n}"),
    ]  # fmt: skip


def test_values_are_of_the_prompt_and_model_that_are_shown(playground):
    lesson = dataclasses.replace(LESSON, values={
        "mine": Value("mine", "tokenize", {"prompt": {"page": "prompt"}}, ("tokens",), "count", show="whole"),
        "head": Value("head", "attention", {"layer": {"page": "layer"}, "head": {"page": "head"}}, ("layer",)),
    })  # fmt: skip
    assert value_of(playground, lesson, "mine", PageState(prompt="a cat sat")) == 3
    assert value_of(playground, lesson, "mine", PageState(prompt="a cat")) == 2
    assert value_of(playground, lesson, "head", PageState(heads=((0, 1), (5, 2)))) == 5
    with pytest.raises(InputError, match="No head is selected"):
        value_of(playground, lesson, "head", PageState())
    assert written([5, 2], "head") == "5.2" and written(" a", "token") == "·a" and written(0.5, "percent") == "50.0%"


# --- over the network ---


@pytest.fixture
def client(playground):
    return TestClient(Starlette(routes=routes(playground, library)))


def post(client, **sent):
    return client.post("/playground/lessons/tokens?lang=en", json=sent).json()


def test_the_page_gets_no_answer_before_it_gave_one(client):
    found = client.get("/playground/lessons?lang=zh").json()
    assert found["words"]["title"] == words("zh")["learn.title"]
    assert {"tokens", "dice"} <= {each["key"] for each in found["lessons"]}
    whole = client.get("/playground/lessons/tokens?lang=en").json()
    assert "answer" not in json.dumps(whole) and "21" not in json.dumps(whole["steps"])
    assert post(client, step="chinese", want="see")["result"] == "21"
    assert post(client, step="chinese", want="check", given="7")["right"] is False
    right = post(client, step="chinese", want="check", given="3")
    assert right["right"] and right["result"] == "3" and right["why"][0][1].startswith("The vocabulary")
    assert post(client, step="chinese", want="hint", n=2)["hint"][1] == ["value", "21"]


@pytest.mark.parametrize("sent", [{}, [], {"step": "none", "want": "see"}, {"step": "word", "want": "all"}, "x"])
def test_what_no_page_sends_is_refused(client, sent):
    answer = client.post("/playground/lessons/tokens", json=sent)
    assert answer.status_code == 404 and answer.json()["problem"]["text"] == words("en")["learn.gone"]
    assert client.post("/playground/lessons/tokens", content=b"{" * 5000).status_code == 404
    assert client.get("/playground/lessons/..%2fapp").status_code == 404


@pytest.mark.parametrize("given", [None, 3, ["3"], {"a": 1}, "3" * 1000, "<b>", "{n}"])
def test_answers_that_are_none_are_not_right(client, given):
    assert post(client, step="chinese", want="check", given=given)["right"] is False


def test_a_page_says_what_it_shows_and_nothing_else(playground):
    assert page_of(playground, None) == PageState() == page_of(playground, {"model": 3, "prompt": [], "heads": [[1]]})
    sent = {"model": "hub:a/b", "prompt": "x", "heads": [[1, 2], [-1, 0], "ab"], "tokens": [1, True, -2]}
    assert page_of(playground, sent) == PageState("", "x", ((1, 2),), (1,))
    assert page_of(playground, {"model": "tinygpt"}).model == "tinygpt"


def test_a_lesson_in_one_language_is_shown_in_it():
    only: Lesson = dataclasses.replace(LESSON, language="zh")
    assert Library({"tokens": {"zh": only}}).lesson("tokens", "en") is only
    assert Library({}).lesson("tokens", "en") is None


def test_a_teacher_s_folder_adds_to_the_path(tmp_path):
    text = (library.__globals__["BUNDLED"] / "tokens.en.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.en.toml").write_text(text.replace('part = "reading"', ""), encoding="utf-8")
    path = library(tmp_path).path("zh")
    assert path[-1].key == "mine" and path[-1].part == "own"
    (tmp_path / "tokens.en.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="taken"):
        library(tmp_path)
    (tmp_path / "tokens.en.toml").write_text("titel = 1", encoding="utf-8")
    with pytest.raises(InputError, match=r"tokens\.en\.toml"):
        library(tmp_path)
