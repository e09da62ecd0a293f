"""What the checker says to a file that is wrong: the file, the key, one sentence."""

import copy
import tomllib
from pathlib import Path

import pytest

from viz.lessons.__main__ import main
from viz.lessons.deeds import DONE
from viz.lessons.lesson import KINDS, SHOWN
from viz.lessons.operations import OF_TAKEN, OF_VALUES
from viz.lessons.reading import read_folder, read_languages

WHOLE = tomllib.loads("""
title = "Counting"
goals = ["Count tokens."]
minutes = 3
state = { prompt = "a cat", tab = "anatomy", view = "tokenizers" }
band = { of = "n", low = 1, high = 3 }

[value.n]
call = "tokenize"
take = ["tokens"]
make = "count"
show = "whole"

[value.p]
call = "distribution"
take = ["tokens", 0, "probabilities", 0]
show = "percent"

[value.here]
call = "tokenize"
with = { prompt = { page = "prompt" } }
take = ["tokens"]
make = "count"
show = "whole"

[value.both]
of = ["n", "p"]
make = "ratio"

[step.one]
see = "It is {n}."
why = "So it is."
hints = ["a", "b", "c"]
ask = { text = "How many?", kind = "number", answer = "n" }
do = { text = "Type `a dog`.", done = { typed = "a dog" } }
check = { text = "How many?", kind = "number", answer = "n", wrong = { p = "No." } }
""")
MISSING = object()


def changed(path: str, value: object) -> dict:
    """The whole lesson with another value at a dotted place."""
    raw = copy.deepcopy(WHOLE)
    *above, last = path.split(".")
    table = raw
    for name in above:
        table = table[name]
    if value is MISSING:
        del table[last]
    else:
        table[last] = value
    return raw


def faults(raw: dict) -> list[str]:
    found: list = []
    read_languages("count", {"en": raw}, found)
    return list(map(str, found))


def test_a_right_lesson_has_no_faults():
    assert faults(WHOLE) == []


@pytest.mark.parametrize(
    ("path", "value", "where", "said"),
    [
        ("title", MISSING, "title", "missing"),
        ("title", 3, "title", "must be a text"),
        ("title", " ", "title", "empty"),
        ("titel", "x", "titel", "no such key"),
        ("goals", [], "goals", "one to four"),
        ("goals", [3], "goals", "must be a text"),
        ("minutes", 0, "minutes", "1 to 90"),
        ("minutes", True, "minutes", "whole number"),
        ("part", "end", "part", "Choose one of: text"),
        ("level", 4, "level", "1, 2 or 3"),
        ("opens", "", "opens", "empty"),
        ("review", {"old": {"text": "x", "kind": "number"}}, "review.old.answer", "missing"),
        ("review", {"old": {"text": "{m}", "kind": "number", "answer": "n"}}, "review.old.text", "no value “m”"),
        ("review", {"old": {"text": "x", "kind": "number", "answer": "p"}}, "review.old.tolerance", "how far off"),
        ("review", {"old": {"text": "x", "kind": "number", "answer": "here"}}, "review.old", "another page"),
        ("step.one.check.hidden", True, "step.one.check.hidden", "level 3"),
        ("step.one.check.hidden", 1, "step.one.check.hidden", "true or false"),
        ("step.one.check.hints", ["{m}"], "step.one.check.hints", "no value “m”"),
        ("state.tab", "nowhere", "state.tab", "no tab"),
        ("state.view", "nowhere", "state.view", "no view"),
        ("state.color", "red", "state.color", "no such key"),
        ("state.values", {"nothing": {}}, "state.values", "no part"),
        ("band.of", "m", "band.of", "no value"),
        ("band.low", 5, "band.low", "less than high"),
        ("value.n.call", "nothing", "value.n.call", "no “nothing”"),
        ("value.n.with", {"size": 3}, "value.n.with.size", "no such argument"),
        ("value.n.with", {"prompt": {"page": "title"}}, "value.n.with.prompt", "Of the page"),
        ("value.n.make", "eval", "value.n.make", "Choose one of: count"),
        ("value.n.show", "roman", "value.n.show", "Choose one of: number"),
        ("value.both.of", ["n"], "value.both.of", "two values"),
        ("value.both.of", ["n", "late"], "value.both.of", "does not stand before"),
        ("step", {}, "step", "at least one step"),
        ("step.one.see", MISSING, "step.one.see", "missing"),
        ("step.one.see", "It is {m}.", "step.one.see", "no value “m”"),
        ("step.one.hints", ["a"], "step.one.hints", "Give 3"),
        ("step.one.do", MISSING, "step.one.do", "missing"),
        ("step.one.do.done", {}, "step.one.do.done", "Say one of: typed"),
        ("step.one.do.done", {"typed": True, "view": "a.b"}, "step.one.do.done", "Say one of"),
        ("step.one.do.done", {"typed": 3}, "step.one.do.done.typed", "true or a text"),
        ("step.one.do.done", {"picks": "pens"}, "step.one.do.done.picks", "Choose one of: heads"),
        ("step.one.do.done", {"view": "anatomy.map"}, "step.one.do.done.view", "no view"),
        ("step.one.do.done", {"event": "click"}, "step.one.do.done.on", "missing"),
        ("step.one.do.done", {"event": "click", "on": "#pg-nothing"}, "step.one.do.done.on", "no part"),
        ("step.one.do.done", {"trained": "nothing"}, "step.one.do.done.trained", "no part"),
        ("run", {"a": {"form": "map_plot"}}, "run.a.form", "Choose one of: training_lab"),
        ("run", {"a": {"form": "training_lab", "steps": 3}}, "run.a.steps", "no such key"),
        ("run", {"A": {"form": "training_lab"}}, "run.A", "small letters"),
        ("step.one.run", "a", "step.one.run", "no “a”"),
        ("value.n.with", {"prompt": {"run": "a"}}, "value.n.with.prompt", "no run “a”"),
        ("step.one.do.done", {"finished": "nothing"}, "step.one.do.done.finished", "no part"),
        ("step.one.at", ["#pg-nothing b"], "step.one.at", "no part"),
        ("step.one.check.kind", "essay", "step.one.check.kind", "Choose one of: number"),
        ("step.one.check.answer", "m", "step.one.check.answer", "no value"),
        ("step.one.check.answer", "p", "step.one.check.tolerance", "how far off"),
        ("step.one.check.kind", "choice", "step.one.check.choices", "two choices"),
        ("step.one.check.choices", {"a": "A", "b": "B"}, "step.one.check.choices", "Only a question"),
        ("step.one.check.wrong", {"m": "No."}, "step.one.check.wrong.m", "no value"),
        ("step.one.check.wrong", {"p": 3}, "step.one.check.wrong.p", "must be a text"),
    ],
)
def test_a_fault_names_the_file_the_key_and_what_to_do(path, value, where, said):
    found = faults(changed(path, value))
    assert any(each.startswith(f"count.en.toml: {where}: ") and said in each for each in found), found


def test_a_step_asks_something():
    raw = changed("step.one.ask", MISSING)
    del raw["step"]["one"]["check"]
    assert any("A step asks something" in each for each in faults(raw))


def words_of(**more) -> dict:
    step = {
        "see": "有 {n} 个。",
        "why": "就是这样。",
        "hints": ["一", "二", "三"],
        "ask": {"text": "几个？"},
        "do": {"text": "输入。"},
        "check": {"text": "几个？", "wrong": {"p": "不对。"}},
    }
    return {"translates": "en", "title": "数一数", "goals": ["数词元。"], "step": {"one": step | more}}


def test_a_translation_has_the_words_and_nothing_else():
    found: list = []
    lessons = read_languages("count", {"en": WHOLE, "zh": words_of()}, found)
    assert found == [] and lessons["zh"].values == lessons["en"].values
    assert lessons["zh"].steps[0].check.wrong == {"p": "不对。"} and lessons["zh"].steps[0].do == "输入。"
    read_languages("count", {"en": WHOLE, "zh": words_of(ask={}, done="x")}, found)
    said = list(map(str, found))
    assert "count.zh.toml: step.one.ask.text: This is not translated." in said
    assert "count.zh.toml: step.one.done: A translation has only the words of its lesson." in said
    whole = changed("opens", "Why.") | {"review": {"old": {"text": "How many?", "kind": "number", "answer": "n"}}}
    whole["step"]["one"]["check"]["hints"] = ["Look."]
    found.clear()
    read_languages("count", {"en": whole, "zh": words_of()}, found)
    places = ("opens", "review.old.text", "step.one.check.hints")
    assert list(map(str, found)) == [f"count.zh.toml: {place}: This is not translated." for place in places]
    read_languages("count", {"zh": words_of()}, found)
    assert "There is no whole lesson count.en.toml" in str(found[-1])


def test_files_are_named_and_readable(tmp_path):
    (tmp_path / "Count.toml").write_text("", encoding="utf-8")
    (tmp_path / "count.qq.toml").write_text("", encoding="utf-8")
    (tmp_path / "other.en.toml").write_text("title = ", encoding="utf-8")
    said = list(map(str, read_folder(tmp_path)[1]))
    assert len(said) == 3 and sum("KEY.LANGUAGE.toml" in each for each in said) == 2
    assert said[-1].startswith("other.en.toml: This cannot be read as TOML")


EXAMPLE = """
title = "Counting"
goals = ["Count tokens."]
minutes = 3
needs = [%s]
state = { prompt = "a cat" }
band = { of = "n", low = %s, high = 3 }
[value.n]
call = "tokenize"
take = [%s]
make = "count"
show = "whole"
[step.one]
see = "It is {n}."
why = "So it is."
hints = ["a", "b", "c"]
do = { text = "Type.", done = { typed = true } }
check = { text = "How many?", kind = "number", answer = "n" }
"""


@pytest.mark.parametrize(
    ("needs", "low", "take", "rc", "said"),
    [
        ("", "1", '"tokens"', 0, "1 lessons: no faults."),
        ('"nothing"', "1", '"tokens"', 1, "count.en.toml: needs: There is no lesson “nothing”."),
        ("", "2.5", '"tokens"', 1, "count.en.toml: band: The model gives 2"),
        ("", "1", '"rows"', 1, "count.en.toml: value.n: The answer does not have a lesson's number."),
    ],
)
def test_the_command_says_it(tmp_path, capsys, needs, low, take, rc, said):
    (tmp_path / "count.en.toml").write_text(EXAMPLE % (needs, low, take), encoding="utf-8")
    assert main(["check", str(tmp_path)]) == rc
    assert capsys.readouterr().out.startswith(said)


def test_the_command_on_no_folder_and_an_empty_one(tmp_path, capsys):
    assert main(["check", str(tmp_path / "none")]) == 2
    assert main(["check", str(tmp_path), "--no-model"]) == 1
    assert "There is no lesson here" in capsys.readouterr().out


def test_the_example_of_the_documentation_is_a_lesson(tmp_path, capsys):
    page = (Path(__file__).parents[3] / "docs" / "lessons.md").read_text(encoding="utf-8")
    (tmp_path / "counting.en.toml").write_text(page.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    assert main(["check", str(tmp_path)]) == 0
    known = {name for name in (*DONE, *OF_TAKEN, *OF_VALUES, *SHOWN, *KINDS) if f"`{name}`" not in page}
    assert known == set(), "docs/lessons.md does not name them"
