"""Answers as visitors give them, operations worked by hand, and what a page gets."""

import dataclasses
import json

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from model.errors import InputError
from viz.lessons.answers import closeness, judged, read
from viz.lessons.lesson import Lesson, LessonQuestion, Value
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


def verdict(step: str, given: str, values: dict, tries: int = 0):
    return judged(LESSON, LESSON.step(step).check, given, values.__getitem__, WORDS, tries)


def test_a_named_mistake_has_its_answer_and_another_one_a_direction_the_second_time():
    values = {"twice": "ation", "bytes": 3.0, "characters": 7, "chinese": 21}
    assert verdict("word", "ation", values).right and verdict("word", " ·ation", values).right
    assert not verdict("word", "al", values).right and "al" in verdict("word", "al", values).text
    assert verdict("chinese", "3", values).right
    assert verdict("chinese", "7", values).text == LESSON.step("chinese").check.wrong["characters"]
    assert verdict("chinese", "5", values).text == WORDS["wrong_number"]  # neither distance nor direction
    assert verdict("chinese", "5", values, tries=1).text == WORDS["wrong_high"]
    assert verdict("chinese", "1.5", values, tries=1).text == WORDS["wrong_low"]
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
    (tmp_path / "mine.en.toml").write_text(text.replace('part = "text"', ""), encoding="utf-8")
    path = library(tmp_path).path("zh")
    assert path[-1].key == "mine" and path[-1].part == "own"
    (tmp_path / "tokens.en.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="taken"):
        library(tmp_path)
    (tmp_path / "tokens.en.toml").write_text("titel = 1", encoding="utf-8")
    with pytest.raises(InputError, match=r"tokens\.en\.toml"):
        library(tmp_path)


# --- hidden checks and reviews ---


@pytest.fixture
def taught(playground):
    """A client, and a lesson with a hidden check, hints about it, and a review."""
    step = LESSON.step("chinese")
    check = dataclasses.replace(step.check, hidden=True, hints=("Count {characters}.", "Divide."))
    lesson = dataclasses.replace(
        LESSON,
        level=3,
        steps=(dataclasses.replace(step, check=check),),
        reviews={"word": LESSON.step("word").check},
    )
    return TestClient(Starlette(routes=routes(playground, lambda: Library({"tokens": {"en": lesson}}))))


def test_a_hidden_check_is_sent_after_a_guess(taught):
    asked = LESSON.step("chinese").check.text
    whole = taught.get("/playground/lessons/tokens?lang=en").json()
    assert whole["steps"][0]["check"]["hidden"] and asked not in json.dumps(whole)
    assert asked not in json.dumps(post(taught, step="chinese", want="texts"))
    assert "check" not in post(taught, step="chinese", want="see", guess="")
    seen = post(taught, step="chinese", want="see", guess="22")
    assert seen["check"]["text"] == [["", asked]] and seen["check"]["kind"] == "number"


def test_hints_about_the_question_follow_those_about_the_action(taught):
    action, first, last = (
        post(taught, step="chinese", want="hint", **more)["hint"]
        for more in ({"n": 0}, {"n": 0, "of": "check"}, {"n": 9, "of": "check"})
    )
    assert action[0][1] == LESSON.step("chinese").hints[0]
    assert first == [["", "Count "], ["value", "7"], ["", "."]] and last == [["", "Divide."]]
    shown = post(taught, step="chinese", want="answer")
    assert shown["right"] is False and shown["result"] == "3" and shown["why"]


def test_a_review_is_asked_on_its_own_lesson_whatever_the_page_shows(taught):
    (row,) = taught.get("/playground/lessons?lang=en").json()["lessons"]
    assert row["reviews"] == ["word"] and row["level"] == 3
    page = {"model": "tinygpt", "prompt": "something else"}
    asked = post(taught, review="word", want="review", page=page)
    assert asked["title"] == LESSON.title and asked["kind"] == "token" and "ation" not in json.dumps(asked)
    right = post(taught, review="word", want="review_check", given="·ation", page=page)
    assert right["right"] and right["result"] == "ation"
    assert post(taught, review="word", want="review_check", given="x")["right"] is False
    for sent in ({"review": "none", "want": "review"}, {"review": "word", "want": "see"}):
        assert "problem" in post(taught, **sent)


@pytest.mark.parametrize(
    ("guess", "grade"),
    [("21", "hit"), ("21.0", "hit"), ("about", "beside"), ("22", "near"), ("25", "near"), ("7", "beside")],
)
def test_a_guess_is_recognized_and_a_near_one_praised(client, guess, grade):
    assert post(client, step="chinese", want="see", guess=guess)["guess"] == grade


@pytest.mark.parametrize(
    ("kind", "show", "value", "guess", "grade"),
    [
        ("number", "percent", 0.646, "65", "hit"), ("number", "percent", 0.646, "64.6 %", "hit"),
        ("number", "percent", 0.646, "60", "near"), ("number", "percent", 0.646, "20%", "beside"),
        ("number", "decimals", 0.4, "0", "beside"), ("number", "factor", 12.2, "≈12×", "hit"),
        ("token", "token", " cat", "cat", "hit"), ("token", "token", " cat", "·cat", "hit"),
        ("token", "token", " cat", "“cat”", "hit"), ("token", "token", " cat", "dog", "beside"),
        ("head", "head", [4, 1], "head 4.1", "hit"), ("head", "head", [4, 1], "L4H1", "hit"),
        ("choice", "", "more", "more", "hit"), ("choice", "", "more", " Mehr davon", "hit"),
        ("choice", "", "more", "less", "beside"),
    ],
)  # fmt: skip
def test_a_guess_in_another_form_is_the_same(kind, show, value, guess, grade):
    choices = {"more": "mehr davon", "less": "weniger"} if kind == "choice" else {}
    question = LessonQuestion("?", kind, "x", choices=choices)
    lesson = dataclasses.replace(LESSON, values={"x": Value("x", show=show)})
    assert closeness(lesson, question, guess, lambda name: value) == grade
