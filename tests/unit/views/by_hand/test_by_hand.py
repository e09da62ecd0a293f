"""The tab for numbers of one's own: what a page sends, what it is shown, and what programs are answered."""

import json
from decimal import Decimal
from fractions import Fraction

import pytest

from model.by_hand.mistakes import MISTAKES
from model.by_hand.numbers import FLOATS
from model.by_hand.sheets import SHEETS
from model.errors import InputError
from tests.support.views.views import drawn
from viz.api.json import plain
from viz.numbers import typed
from viz.page.pipeline import PageRequest, payloads
from viz.views.by_hand.desk import answer, read
from viz.views.by_hand.hand_mistakes.view import by_hand_mistake
from viz.views.by_hand.hand_mistakes.view import read as read_mistake

KEYS = [f"hand_{name}" for name in SHEETS]


def of(playground, key, desk=None, language="en", **form):
    """The parts of a view of the tab."""
    values = {"by_hand_view": {"view": key}, f"{key}_desk": desk or {}, f"{key}_form": form}
    return payloads(playground, PageRequest("tiny", "abcabd ab", None, values, {}, language, "by_hand"))[0]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (Fraction(1, 2), 4, "0.5"),
        (Fraction(1, 3), 4, "0.3333"),
        (Fraction(-22026), 3, "−22026"),
        (Decimal("22026.4657948"), 3, "22026"),
        (Decimal("0.0000000123456"), 3, "1.23 × 10⁻⁸"),
        (Decimal("0.50001"), 3, "0.500"),
        (Decimal("1.2345e40"), 3, "1.23 × 10⁴⁰"),
        (Decimal("-Infinity"), 4, "−∞"),
        (Decimal("NaN"), 4, "NaN"),
        (Fraction(0), 4, "0"),
        (Fraction(1, 10**6), 2, "1 × 10⁻⁶"),
    ],
)
def test_how_a_number_is_written(value, digits, text):
    assert typed(value, digits) == text


def test_fractions_are_written_where_they_are_short():
    assert typed(Fraction(-1, 3), 4, fraction=True) == "−1/3" and typed(Fraction(4), 4, fraction=True) == "4"
    assert typed(Fraction(1, 3**40), 4, fraction=True) == "8.225 × 10⁻²⁰"


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_example_is_drawn(playground, key, language):
    for example in SHEETS[key.removeprefix("hand_")].examples:
        parts = of(playground, key, {"example": example}, language)
        shown, desk = parts[f"{key}_steps"], parts[f"{key}_desk"]
        assert desk["example"] == example and not desk["problems"]
        for at, step in enumerate(shown["steps"]):
            assert bool(step["formula"]) == bool(step["title"])
            for row in step["cells"]:
                for _, _, made in row:
                    places = [piece for piece in made if isinstance(piece, list)]
                    assert all(0 <= n < at for n, _, _ in places), step["name"]  # only what came before
        assert json.loads(json.dumps(shown)) == shown


def test_a_number_says_where_it_came_from(playground):
    shown = of(playground, "hand_attention")["hand_attention_steps"]
    scores = next(step for step in shown["steps"] if step["name"] == "S")
    text, exact, made = scores["cells"][1][0]
    assert (text, exact) == ("0.62", "0.62")
    assert made[:4] == ["(", [0, 1, 0], " × ", [1, 0, 0]] and made[-1] == {"sign": "√d", "number": "2"}


def test_settings_change_the_steps(playground):
    usual = of(playground, "hand_attention")["hand_attention_steps"]
    open_ = of(playground, "hand_attention", causal=False)["hand_attention_steps"]
    assert len(open_["steps"]) == len(usual["steps"]) - 1
    two = of(playground, "hand_attention", heads="2")["hand_attention_steps"]
    assert {"Q_1", "O_2", "C"} <= {step["name"] for step in two["steps"]}
    thirds = of(playground, "hand_norms", {"example": "one_to_four"})["hand_norms_steps"]
    assert "1.25" in str(thirds["steps"])


@pytest.mark.parametrize("cell", ["", "abc", "1e400", "nan", "<b>", "1/0"])
def test_a_cell_that_is_no_number_is_named_and_kept(playground, cell):
    rows = [["0.8", cell, "0.4", "0.2"], ["0.3"] * 4, ["1"] * 4]
    for language in ("en", "zh"):
        parts = of(playground, "hand_attention", {"tables": {"Q": rows}}, language)
        ((table, row, column, what, hint),) = parts["hand_attention_desk"]["problems"]
        assert (table, row, column) == ("Q", 0, 1) and what and hint
        assert parts["hand_attention_steps"]["problem"]["text"].startswith(what)
    assert any("一" <= letter <= "鿿" for letter in what)


def test_ragged_and_large_tables_are_problems_and_nonsense_is_the_example():
    sheet = SHEETS["attention"]
    for tables in ({"Q": [["1"], ["1", "2"]]}, {"Q": [["1"] * 4] * 2}, {"Q": [["1"] * 30] * 30}):
        assert read(sheet, {"tables": tables}).tables != read(sheet, None).tables
    for sent in (None, 3, [], {"example": 1}, {"tables": 3}, {"tables": {"Q": "x"}}, {"tables": {"Z": [["1"]]}}):
        assert read(sheet, sent) == read(sheet, None)
    huge = read(sheet, {"tables": {"Q": [["9" * 10**5] * 100] * 100}, "names": ["\ud800" * 50] * 99})
    assert len(str(huge)) < 20_000
    hash(huge)


@pytest.mark.parametrize("name", MISTAKES)
def test_every_number_of_an_exercise_gets_an_answer(playground, name):
    told = by_hand_mistake(playground, name)
    wrong = {(each["line"], each["column"]) for each in told["wrong"]}
    assert wrong
    for line, row in enumerate(told["rows"]):
        for column in range(len(row["texts"])):
            value = {"exercise": name, "cell": [line, column]}
            values = {"by_hand_view": {"view": "hand_mistakes"}, "hand_mistakes_exercise": value}
            asked = PageRequest("tiny", "ab", None, values, {}, "en", "by_hand")
            said = payloads(playground, asked)[0]["hand_mistakes_exercise"]["answer"]
            assert said["found"] == ((line, column) in wrong) and said["text"] and said["why"]
            assert said["formula"] or "is an input" in said["text"]


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_overflow_is_shown_as_what_it_is(playground, kind, language):
    """The example of three logits near a thousand without its maximum: inf, inf, NaN, on the page and for programs."""
    parts = of(playground, "hand_logits", {"example": "thousand"}, language, stable=False, kind=kind)
    shown = {step["name"]: [cell[0] for cell in step["cells"][0]] for step in parts["hand_logits_steps"]["steps"]}
    assert shown["E"] == ["∞"] * 3 and shown["Z"] == ["∞"] and shown["P"] == ["NaN"] * 3 and shown["L"] == ["NaN"]
    json.dumps(parts["hand_logits_steps"], allow_nan=False)
    told = plain(answer("logits", "thousand", [], {"stable": False, "kind": kind}))
    shares = next(step for step in told["steps"] if step["name"] == "P")
    assert shares["numbers"] == [[None] * 3] and shares["exact"] == [["NaN"] * 3]


@pytest.mark.parametrize("cell", ["0", "1e-30", "-1000000000000", "1000000000000", "1000.1", "1/999999999999999"])
@pytest.mark.parametrize("key", KEYS)
def test_extreme_numbers_are_drawn_or_named_as_a_problem(playground, key, cell):
    sheet = SHEETS[key.removeprefix("hand_")]
    for example in sheet.examples:
        usual = dict(read(sheet, {"example": example}).tables)
        tables = {name: [[cell] * len(row) for row in rows] for name, rows in usual.items()}
        free = {name: rows for name, rows in tables.items() if sheet.tables[name].low is None}
        for sent in (tables, free):
            for form in ({}, {"stable": False, "kind": "float16"}, {"norm": "all"}, {"scheme": "affine"}):
                parts = of(playground, key, {"example": example, "tables": sent}, "en", **form)
                shown = json.loads(json.dumps(parts[f"{key}_steps"], allow_nan=False))
                assert shown.get("steps") or shown["problem"]["text"]


def test_what_a_page_sends_of_an_exercise():
    first = next(iter(MISTAKES))
    for sent in (None, 3, {"exercise": "x"}, {"cell": [0, 99]}, {"cell": [-1, 0]}, {"cell": [True, 0]}, {"cell": "00"}):
        assert read_mistake(sent, None) == (first, None)
    assert read_mistake({"exercise": "warm", "cell": [1, 2]}, None) == ("warm", (1, 2))


def test_programs_are_answered_in_full():
    told = answer("rounding", "", [{"name": "x", "rows": [[0.5, "1/3", -1]]}], {"scheme": "symmetric"})
    scale = next(step for step in told["steps"] if step["name"] == "s")
    assert scale["exact"] == [["1/127"]] and scale["numbers"] == [[1 / 127]]
    made: dict = {}
    exec(told["numpy"], made)
    assert made["q"].tolist() == [[64, 42, -127]]  # 63.5 goes to the even number
    for tables in ([{"name": "Q", "rows": [[1]]}], [{"rows": [[1]]}], [{"name": "x", "rows": [["a"]]}]):
        with pytest.raises(InputError):
            answer("rounding", "", tables, {})
    with pytest.raises(InputError):
        answer("rounding", "none", [], {})


def test_no_model_is_run(playground, monkeypatch):
    drawn(playground, "by_hand", "hand_attention")
    monkeypatch.setattr("model.gpt.transformer.Transformer.trunk", lambda *_, **__: pytest.fail("the model was run"))
    of(playground, "hand_attention", {"tables": {"Q": [["2"] * 4] * 3}})
